// Subscription to registered continuous queries: the server evaluates those with subscribers, and sends changes.
import { make, setText } from "./dom.js";
import * as format from "./format.js";

const MOST = 10_000; // queries whose labels are listed
const OWN = "page-"; // those of pages are listened to already
const COUNT = 1000; // milliseconds between two counts

export function subscriptionChoice({ api }) {
  const box = make("input", { type: "checkbox", change });
  const status = make("span", { class: "hint" });
  const choice = make("label", { class: "check" }, box, "Subscribe to all that have a label");
  let end = null;
  let changes = 0;

  async function change() {
    end?.();
    end = null;
    setText(status, "");
    if (!box.checked) return;
    try {
      const { queries } = await api.get("/api/queries", { limit: MOST });
      const label = [...new Set(queries.map((query) => query.label))].filter((one) => one && !one.startsWith(OWN));
      if (!box.checked) return;
      const ids = new Set(queries.filter((query) => label.includes(query.label)).map((query) => query.id));
      if (label.length) listen(label, ids);
      else setText(status, "No query has a label.");
    } catch (error) {
      setText(status, error.message);
    }
  }

  function listen(label, ids) {
    changes = 0;
    const close = api.listen({ label }, {
      queries: (received) => (changes += received.filter(({ id }) => ids.has(id)).length),
      error: (failure) => setText(status, failure.message),
    });
    const timer = setInterval(() => {
      setText(status, `${format.number(changes)} answers changed in the last second.`);
      changes = 0;
    }, COUNT);
    end = () => {
      clearInterval(timer);
      close();
    };
  }

  return make("div", { class: "row" }, choice, status);
}
