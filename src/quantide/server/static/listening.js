// Subscription to registered continuous queries: the server evaluates those with subscribers, and sends changes.
import { make, say } from "./dom.js";
import * as words from "./words.js";

const MOST = 10_000; // queries whose labels are listed
const OWN = "page-"; // those of pages are listened to already
const COUNT = 1000; // milliseconds between two counts

export function listeningChoice({ api }) {
  const box = make("input", { type: "checkbox", change });
  const told = make("span", { class: "hint" });
  const choice = make("label", { class: "check" }, box, "Subscribe to all that have a label");
  let end = null;
  let changes = 0;

  async function change() {
    end?.();
    end = null;
    say(told, "");
    if (!box.checked) return;
    try {
      const { queries } = await api.get("/api/queries", { limit: MOST });
      const label = [...new Set(queries.map((query) => query.label))].filter((one) => one && !one.startsWith(OWN));
      if (!box.checked) return;
      const ids = new Set(queries.filter((query) => label.includes(query.label)).map((query) => query.id));
      if (label.length) listen(label, ids);
      else say(told, "No query has a label.");
    } catch (error) {
      say(told, error.message);
    }
  }

  function listen(label, ids) {
    changes = 0;
    const close = api.listen({ label }, {
      queries: (found) => (changes += found.filter(({ id }) => ids.has(id)).length),
      error: (trouble) => say(told, trouble.message),
    });
    const timer = setInterval(() => {
      say(told, `${words.number(changes)} answers changed in the last second.`);
      changes = 0;
    }, COUNT);
    end = () => {
      clearInterval(timer);
      close();
    };
  }

  return make("div", { class: "row" }, choice, told);
}
