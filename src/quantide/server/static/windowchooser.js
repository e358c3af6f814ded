// The window chooser: the last T or the last n values, with a slider on a logarithmic scale.

import { make } from "./dom.js";

const TICKS = 1000; // of the slider
const KINDS = {
  within: {
    name: "by time",
    about: "values of the last while, by their times",
    least: 1,
    nice: [
      ...[1, 2, 3, 5, 7, 10, 15, 20, 30, 45],
      ...[1, 1.5, 2, 3, 5, 7, 10, 15, 20, 30, 45].map((minutes) => 60 * minutes),
      ...[1, 1.5, 2, 3, 4, 6, 8, 12, 18, 24, 36].map((hours) => 3600 * hours),
      ...[2, 3, 5, 7, 10, 14, 21, 30, 60, 90, 180, 365].map((days) => 86400 * days),
    ],
    presets: [10, 60, 300, 3600, 86400],
  },
  last: {
    name: "by count",
    about: "the values that came last, whatever their times",
    least: 10,
    nice: [1, 2, 3, 4, 5, 6].flatMap((power) => [1, 1.5, 2, 3, 5, 7].map((lead) => lead * 10 ** power)),
    presets: [100, 1000, 10_000, 100_000, 1_000_000],
  },
};

// The kind and the size of a window, or null if this chooser does not offer it.
export function parseWindow(text, format) {
  const within = /^within:(.+)$/.exec(text ?? "");
  if (within) return { kind: "within", size: format.readSpan(within[1]) ?? 1 };
  const last = /^last:(\d+)$/.exec(text ?? "");
  return last ? { kind: "last", size: Number(last[1]) } : null;
}

const formatWindow = ({ kind, size }) => (kind === "within" ? `within:${size}s` : `last:${size}`);

export function mount(element, { state, streams, format, announce }) {
  const remembered = { within: 300, last: 1000 };
  const kinds = Object.entries(KINDS).map(([kind, { name, about }]) => {
    const input = make("input", { type: "radio", name: "window-kind", value: kind, change: () => turn(kind) });
    return make("label", { title: about }, input, make("span", {}, name));
  });
  const scale = { type: "range", min: 0, max: TICKS, step: 1 };
  const slider = make("input", { ...scale, "aria-label": "Length of the window", input: slide });
  const shown = make("output", { class: "window-size" });
  const presets = make("div", { class: "presets", role: "group", "aria-label": "Usual windows" });
  element.replaceChildren(
    make("fieldset", { class: "segments" }, make("legend", { class: "unseen" }, "Kind of window"), kinds),
    shown,
    slider,
    presets,
  );

  // The longest window: the rows that the stream retains.
  function most(kind) {
    const stream = streams.selected();
    if (kind === "within") return Math.max(2, format.readSpan(stream?.window ?? "") ?? 86400);
    return Math.max(100, Math.min(stream?.n ?? 1_048_576, 1_048_576));
  }

  const choices = (kind) => [...KINDS[kind].nice.filter((one) => one < most(kind)), most(kind)];
  const far = (kind, size) => Math.log(size / KINDS[kind].least);
  const position = (kind, size) => (TICKS * far(kind, size)) / far(kind, most(kind));

  // The position of the slider, as the nearest round window.
  function at(kind, tick) {
    const off = (size) => Math.abs(position(kind, size) - tick);
    return choices(kind).reduce((best, one) => (off(one) < off(best) ? one : best));
  }

  function slide() {
    const { kind, size } = parseWindow(state.get().window, format);
    let next = at(kind, slider.valueAsNumber);
    const distance = slider.valueAsNumber - position(kind, size);
    if (next === size && Math.abs(distance) < 2) next = neighbour(kind, size, Math.sign(distance)); // an arrow key
    set({ kind, size: next });
  }

  function neighbour(kind, size, direction) {
    const all = choices(kind);
    return (direction > 0 ? all.find((one) => one > size) : all.findLast((one) => one < size)) ?? size;
  }

  function set(window) {
    remembered[window.kind] = window.size;
    state.set({ window: formatWindow(window) });
  }

  function turn(kind) {
    set({ kind, size: Math.min(remembered[kind], most(kind)) });
    announce(format.window(state.get().window));
  }

  function show() {
    const found = parseWindow(state.get().window, format);
    element.hidden = !found && state.get().window !== undefined; // before it is known, its room is kept
    element.classList.toggle("unset", !found);
    if (!found) return;
    const { kind, size } = found;
    remembered[kind] = size;
    for (const input of element.querySelectorAll("input[type=radio]")) input.checked = input.value === kind;
    slider.value = Math.round(position(kind, size));
    const text = format.window(formatWindow(found));
    slider.setAttribute("aria-valuetext", text);
    shown.textContent = text;
    offer(kind);
    for (const button of presets.children) button.setAttribute("aria-pressed", String(Number(button.value) === size));
  }

  // Buttons are replaced only when they differ, to preserve the focus.
  function offer(kind) {
    const fitting = KINDS[kind].presets.filter((one) => one <= most(kind));
    if (presets.dataset.shown === `${kind} ${fitting}`) return;
    presets.dataset.shown = `${kind} ${fitting}`;
    presets.replaceChildren(
      ...fitting.map((size) => {
        const name = kind === "within" ? format.span(size) : format.count(size);
        return make("button", { type: "button", class: "chip", value: size, click: () => set({ kind, size }) }, name);
      }),
    );
  }

  state.subscribe((_, changed) => (changed.has("window") || changed.has("stream")) && show());
  streams.onChange(show);
  show();

  return {
    // One window shorter or longer.
    step(direction) {
      const found = parseWindow(state.get().window, format);
      if (!found) return;
      set({ kind: found.kind, size: neighbour(found.kind, found.size, direction) });
      announce(format.window(state.get().window));
    },
  };
}
