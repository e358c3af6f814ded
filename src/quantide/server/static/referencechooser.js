// Choice of the series to compare with: all of history, some of its steps, another window, another key.
import { field, make, setOptions } from "./dom.js";
import { sameSeries } from "./series.js";

const LENGTHS = ["5m", "15m", "1h", "6h", "1d"];
const STEPS = 6; // at most so many numbers of steps are offered

// changed() is called when something else is chosen. The choice is `against` of the selection: "all", "steps:30",
// "within:1h", "keys" for all keys, or {key: ...}.
export function againstChoice({ api, state, format }, changed) {
  const kinds = make("select", { change: choose });
  const keys = make("select", { change: choose });
  const keyField = field("Key", keys);
  let detail = null; // response of GET /api/streams/{stream}

  function choose() {
    if (kinds.value === "key") state.set({ against: { key: JSON.parse(keys.value || "null") } });
    else state.set({ against: kinds.value });
    changed();
  }

  // The chosen series, beside the selected one.
  function series(here) {
    const against = state.get().against ?? "all";
    if (typeof against === "object") return { ...here, key: against.key };
    if (against === "keys") return { ...here, key: null };
    return { ...here, window: against };
  }

  // Names of both series: in a chart, and in a sentence.
  function names(here, there) {
    if (JSON.stringify(here.key) !== JSON.stringify(there.key)) {
      const [y, x] = [format.key(here.key), format.key(there.key)];
      return { y, x, phrases: { y: `of ${y}`, x } };
    }
    const [y, x] = [here, there].map(({ window }) => (window === "all" ? "history" : format.window(window)));
    const phrases = { y: here.window === "all" ? "of history" : "now", x: there.window === "all" ? x : `the ${x}` };
    return { y: here.window === "all" ? y : `now (${y})`, x, phrases };
  }

  function show(here, found) {
    detail = found ?? detail;
    if (!detail) return;
    const against = state.get().against ?? "all";
    const others = detail.keys.filter((key) => JSON.stringify(key) !== JSON.stringify(here.key));
    const ended = detail.spans.map((span) => span.last_steps).filter((steps) => steps > 0);
    const steps = spread(ended).map((number) => `steps:${number}`);
    const longest = format.readSpan(detail.window ?? "") ?? 0;
    const spans = LENGTHS.filter((length) => format.readSpan(length) <= longest).map((length) => `within:${length}`);
    const windows = [...steps, ...spans].filter((window) => window !== here.window);
    const choices = [
      ["all", "all of history"],
      ...windows.map((window) => [window, `the ${format.window(window)}`]),
      ...(here.key === null ? [] : [["keys", "all keys, same window"]]),
      ...(others.length ? [["key", "another key, same window"]] : []),
    ];
    setOptions(kinds, choices, typeof against === "object" ? "key" : against);
    setOptions(keys, others.map((key) => [JSON.stringify(key), format.key(key)]), JSON.stringify(against.key ?? null));
    keyField.hidden = kinds.value !== "key";
  }

  return { element: make("div", { class: "row" }, field("Compare with", kinds), keyField), series, names, show };
}

// Some of many, evenly, the last among them.
function spread(found) {
  if (found.length <= STEPS) return found;
  return Array.from({ length: STEPS }, (_, index) => found[Math.round((index * (found.length - 1)) / (STEPS - 1))]);
}
