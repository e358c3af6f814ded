// What the chosen window is compared with: all of history, some of its steps, another window, another key.
import { field, make, offer } from "./dom.js";
import { samePlace } from "./places.js";

const LENGTHS = ["5m", "15m", "1h", "6h", "1d"];
const STEPS = 6; // at most so many numbers of steps are offered

// changed() is called when something else is chosen. The choice is `against` of the selection: "all", "steps:30",
// "within:1h", "keys" for all keys, or {key: ...}.
export function againstChoice({ api, state, words }, changed) {
  const kinds = make("select", { change: choose });
  const keys = make("select", { change: choose });
  const keyField = field("Key", keys);
  let detail = null; // what GET /api/streams/{stream} said

  function choose() {
    if (kinds.value === "key") state.set({ against: { key: JSON.parse(keys.value || "null") } });
    else state.set({ against: kinds.value });
    changed();
  }

  // The place that is chosen, beside the one that is looked at.
  function place(here) {
    const against = state.get().against ?? "all";
    if (typeof against === "object") return { ...here, key: against.key };
    if (against === "keys") return { ...here, key: null };
    return { ...here, window: against };
  }

  const named = (here, there) =>
    samePlace(here, { ...there, key: here.key }) ? words.key(there.key) : there.window === "all" ? "history" : words.window(there.window);

  function show(here, found) {
    detail = found ?? detail;
    if (!detail) return;
    const against = state.get().against ?? "all";
    const others = detail.keys.filter((key) => JSON.stringify(key) !== JSON.stringify(here.key));
    const windows = [...spread(detail.spans.filter(({ last_steps }) => last_steps > 0)).map(({ last_steps }) => `steps:${last_steps}`),
      ...LENGTHS.filter((length) => detail.window && words.readSpan(length) <= words.readSpan(detail.window)).map((length) => `within:${length}`)]
      .filter((window) => window !== here.window);
    offer(kinds, [
      ["all", "all of history"],
      ...windows.map((window) => [window, `the ${words.window(window)}`]),
      ...(here.key === null ? [] : [["keys", "all keys, same window"]]),
      ...(others.length ? [["key", "another key, same window"]] : []),
    ], typeof against === "object" ? "key" : against);
    offer(keys, others.map((key) => [JSON.stringify(key), words.key(key)]), JSON.stringify(against.key ?? null));
    keyField.hidden = kinds.value !== "key";
  }

  return { element: make("div", { class: "row" }, field("Compare with", kinds), keyField), place, named, show };
}

// Some of many, evenly, the last among them.
function spread(found) {
  if (found.length <= STEPS) return found;
  return Array.from({ length: STEPS }, (_, index) => found[Math.round((index * (found.length - 1)) / (STEPS - 1))]);
}
