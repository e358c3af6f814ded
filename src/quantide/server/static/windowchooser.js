// Window chooser: the last T of time or the last n values, with a slider on a logarithmic scale and presets.

import { make } from "./dom.js";

const SLIDER_STEPS = 1000;
const KINDS = {
  within: {
    name: "by time",
    hint: "values of the last while, by their times",
    min: 1,
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
    hint: "the values that came last, whatever their times",
    min: 10,
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
  const lastSizes = { within: 300, last: 1000 };
  const kinds = Object.entries(KINDS).map(([kind, { name, hint }]) => {
    const input = make("input", { type: "radio", name: "window-kind", value: kind, change: () => setKind(kind) });
    return make("label", { title: hint }, input, make("span", {}, name));
  });
  const scale = { type: "range", min: 0, max: SLIDER_STEPS, step: 1 };
  const slider = make("input", { ...scale, "aria-label": "Length of the window", input: slide });
  const sizeLine = make("output", { class: "window-size" });
  const presets = make("div", { class: "presets", role: "group", "aria-label": "Usual windows" });
  element.replaceChildren(
    make("fieldset", { class: "segments" }, make("legend", { class: "unseen" }, "Kind of window"), kinds),
    sizeLine,
    slider,
    presets,
  );

  // The longest window: all rows that the stream retains.
  function maxSize(kind) {
    const stream = streams.selected();
    if (kind === "within") return Math.max(2, format.readSpan(stream?.window ?? "") ?? 86400);
    return Math.max(100, Math.min(stream?.n ?? 1_048_576, 1_048_576));
  }

  const sizeChoices = (kind) => [...KINDS[kind].nice.filter((one) => one < maxSize(kind)), maxSize(kind)];
  const logDistance = (kind, size) => Math.log(size / KINDS[kind].min);
  const position = (kind, size) => (SLIDER_STEPS * logDistance(kind, size)) / logDistance(kind, maxSize(kind));

  // The round size of a window that is nearest to a position of the slider.
  function sizeAt(kind, tick) {
    const distanceOf = (size) => Math.abs(position(kind, size) - tick);
    return sizeChoices(kind).reduce((best, one) => (distanceOf(one) < distanceOf(best) ? one : best));
  }

  function slide() {
    const { kind, size } = parseWindow(state.get().window, format);
    let next = sizeAt(kind, slider.valueAsNumber);
    const distance = slider.valueAsNumber - position(kind, size);
    if (next === size && Math.abs(distance) < 2) next = nextSize(kind, size, Math.sign(distance)); // arrow key
    setWindow({ kind, size: next });
  }

  function nextSize(kind, size, direction) {
    const sizes = sizeChoices(kind);
    return (direction > 0 ? sizes.find((one) => one > size) : sizes.findLast((one) => one < size)) ?? size;
  }

  function setWindow(window) {
    lastSizes[window.kind] = window.size;
    state.set({ window: formatWindow(window) });
  }

  function setKind(kind) {
    setWindow({ kind, size: Math.min(lastSizes[kind], maxSize(kind)) });
    announce(format.window(state.get().window), "selection");
  }

  function show() {
    const selected = parseWindow(state.get().window, format);
    element.hidden = !selected && state.get().window !== undefined; // its space is reserved until the window is known
    element.classList.toggle("unset", !selected);
    if (!selected) return;
    const { kind, size } = selected;
    lastSizes[kind] = size;
    for (const input of element.querySelectorAll("input[type=radio]")) input.checked = input.value === kind;
    slider.value = Math.round(position(kind, size));
    const text = format.window(formatWindow(selected));
    slider.setAttribute("aria-valuetext", text);
    sizeLine.textContent = text;
    showPresets(kind);
    for (const button of presets.children) button.setAttribute("aria-pressed", String(Number(button.value) === size));
  }

  // Replace the preset buttons only if they differ, to preserve the focus.
  function showPresets(kind) {
    const sizes = KINDS[kind].presets.filter((one) => one <= maxSize(kind));
    if (presets.dataset.shown === `${kind} ${sizes}`) return;
    presets.dataset.shown = `${kind} ${sizes}`;
    presets.replaceChildren(
      ...sizes.map((size) => {
        const name = kind === "within" ? format.span(size) : format.count(size);
        return make(
          "button",
          { type: "button", class: "chip", value: size, click: () => setWindow({ kind, size }) },
          name,
        );
      }),
    );
  }

  state.subscribe((_, changed) => (changed.has("window") || changed.has("stream")) && show());
  streams.onChange(show);
  show();

  return {
    // Select the next shorter or longer window.
    step(direction) {
      const selected = parseWindow(state.get().window, format);
      if (!selected) return;
      setWindow({ kind: selected.kind, size: nextSize(selected.kind, selected.size, direction) });
      announce(format.window(state.get().window), "selection");
    },
  };
}
