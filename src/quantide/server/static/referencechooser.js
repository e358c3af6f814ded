// Chooser of the reference series of a comparison: all of history, its last steps, another window, another key.
import { field, make, setOptions } from "./dom.js";
import { isSelectable, sameKey } from "./series.js";

const LENGTHS = ["5m", "15m", "1h", "6h", "1d"];
const MAX_STEPS = 6; // numbers of steps that are offered
// Texts of references other than a window.
const KINDS = { all: "all of history", keys: "all keys, same window", key: "another key, same window" };

// onChange() is called when another reference is chosen. It is stored as `against` of the selection: "all", "steps:30",
// "within:1h", "keys" for all keys, or {key: ...}.
export function referenceChooser({ state, format }, onChange) {
  const kindSelect = make("select", { change: apply });
  const keySelect = make("select", { change: apply });
  const keyField = field("Key", keySelect);
  let detail = null; // response of GET /api/streams/{stream}

  function apply() {
    if (kindSelect.value === "key") state.set({ against: { key: JSON.parse(keySelect.value || "null") } });
    else state.set({ against: kindSelect.value });
    onChange();
  }

  // The reference series for the selected series.
  function referenceSeries(selected) {
    const against = state.get().against ?? "all";
    if (typeof against === "object") return { ...selected, key: against.key };
    if (against === "keys") return { ...selected, key: null };
    return { ...selected, window: against };
  }

  // Names of the selected series, y, and its reference, x: in a chart, and as phrases of a sentence.
  function names(selected, reference) {
    if (!sameKey(selected.key, reference.key)) {
      const [y, x] = [format.key(selected.key), format.key(reference.key)];
      return { y, x, phrases: { y: `of ${y}`, x } };
    }
    const [y, x] = [selected, reference].map(({ window }) => (window === "all" ? "history" : format.window(window)));
    const phrases = {
      y: selected.window === "all" ? "of history" : "now",
      x: reference.window === "all" ? x : `the ${x}`,
    };
    return { y: selected.window === "all" ? y : `now (${y})`, x, phrases };
  }

  // The current reference is always among the options, also if the stream would not offer it.
  function show(selected, loadedDetail) {
    detail = loadedDetail ?? detail;
    if (!detail) return;
    const against = state.get().against ?? "all";
    const kind = typeof against === "object" ? "key" : against;
    const others = detail.keys.filter((key) => isSelectable(key) && !sameKey(key, selected.key));
    const lastSteps = detail.spans.map((span) => span.last_steps).filter((steps) => steps > 0);
    const steps = sample(lastSteps).map((number) => `steps:${number}`);
    const retained = format.readSpan(detail.window ?? "") ?? 0;
    const spans = LENGTHS.filter((length) => format.readSpan(length) <= retained).map((length) => `within:${length}`);
    const windows = [...steps, ...spans].filter((window) => window !== selected.window);
    const choices = [
      ["all", KINDS.all],
      ...windows.map((window) => [window, `the ${format.window(window)}`]),
      ...(selected.key === null ? [] : [["keys", KINDS.keys]]),
      ...(others.length ? [["key", KINDS.key]] : []),
    ];
    setOptions(kindSelect, including(choices, kind, KINDS[kind] ?? `the ${format.window(kind)}`), kind);
    const keys = others.map((key) => [JSON.stringify(key), format.key(key)]);
    const key = JSON.stringify(against.key ?? null);
    setOptions(keySelect, kind === "key" ? including(keys, key, format.key(against.key)) : keys, key);
    keyField.hidden = kindSelect.value !== "key";
  }

  return {
    element: make("div", { class: "row" }, field("Compare with", kindSelect), keyField),
    referenceSeries,
    names,
    show,
  };
}

const including = (choices, value, text) =>
  choices.some(([one]) => one === value) ? choices : [...choices, [value, text]];

// At most MAX_STEPS values, evenly spaced, the first and the last among them.
function sample(values) {
  if (values.length <= MAX_STEPS) return values;
  return Array.from(
    { length: MAX_STEPS },
    (_, index) => values[Math.round((index * (values.length - 1)) / (MAX_STEPS - 1))],
  );
}
