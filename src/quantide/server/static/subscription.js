// Checkbox that subscribes to continuous queries: the server evaluates queries with subscribers, and sends changes.
import { make, setText } from "./dom.js";
import * as format from "./format.js";

const MAX_QUERIES = 10_000; // queries whose labels are listed
const PAGE_PREFIX = "page-"; // of labels of queries to which open pages are subscribed already
const COUNT_INTERVAL = 1000; // milliseconds

export function subscriptionCheckbox({ api }) {
  const box = make("input", { type: "checkbox", change });
  const status = make("span", { class: "hint" });
  const label = make("label", { class: "check" }, box, "Subscribe to all that have a label");
  let unsubscribe = null;
  let changes = 0;

  async function change() {
    unsubscribe?.();
    unsubscribe = null;
    setText(status, "");
    if (!box.checked) return;
    try {
      const { queries } = await api.get("/api/queries", { limit: MAX_QUERIES });
      const labels = [...new Set(queries.map((query) => query.label))].filter(
        (label) => label && !label.startsWith(PAGE_PREFIX),
      );
      if (!box.checked) return;
      const ids = new Set(queries.filter((query) => labels.includes(query.label)).map((query) => query.id));
      if (labels.length) listen(labels, ids);
      else setText(status, "No query has a label.");
    } catch (error) {
      setText(status, error.message);
    }
  }

  function listen(labels, ids) {
    changes = 0;
    const close = api.listen({ label: labels }, {
      queries: (received) => (changes += received.filter(({ id }) => ids.has(id)).length),
      error: (failure) => setText(status, failure.message),
    });
    const timer = setInterval(() => {
      setText(status, `${format.number(changes)} answers changed in the last second.`);
      changes = 0;
    }, COUNT_INTERVAL);
    unsubscribe = () => {
      clearInterval(timer);
      close();
    };
  }

  return make("div", { class: "row" }, label, status);
}
