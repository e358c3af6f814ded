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
  let current = new AbortController(); // aborted when the box is changed: ends a request and a subscription

  async function change() {
    current.abort();
    current = new AbortController();
    const { signal } = current;
    setText(status, "");
    if (!box.checked) return;
    try {
      const { queries } = await api.get("/api/queries", { limit: MAX_QUERIES }, { signal });
      const labels = [...new Set(queries.map((query) => query.label))].filter(
        (label) => label && !label.startsWith(PAGE_PREFIX),
      );
      const ids = new Set(queries.filter((query) => labels.includes(query.label)).map((query) => query.id));
      if (labels.length) listen(labels, ids, signal);
      else uncheck("No query has a label.");
    } catch (error) {
      if (error.name !== "AbortError") uncheck(error.message);
    }
  }

  // There is no subscription: say why.
  function uncheck(reason) {
    box.checked = false;
    setText(status, reason);
  }

  function listen(labels, ids, signal) {
    let changes = 0;
    let problem = ""; // why the connection is refused, until it is live again
    const handlers = {
      queries: (received) => (changes += received.filter(({ id }) => ids.has(id)).length),
      error(failure) {
        if (failure.status === 404) return change(); // a query was dropped, and api.js ended the subscription
        problem = failure.message;
        setText(status, problem);
      },
    };
    const show = () => {
      setText(status, problem || `${format.number(changes)} answers changed in the last second.`);
      changes = 0;
    };
    const timer = setInterval(show, COUNT_INTERVAL);
    const ends = [
      api.listen({ label: labels }, handlers),
      api.onConnection((connection) => connection === "live" && (problem = "")),
      () => clearInterval(timer),
    ];
    signal.addEventListener("abort", () => ends.forEach((end) => end()));
  }

  return make("div", { class: "row" }, label, status);
}
