// The runs of history as a picture: a row for each level, and in it each run as wide as the steps it holds.
import { drawn, make, say, table } from "./dom.js";
import { paced } from "./pace.js";
import * as words from "./words.js";

const LEAST = 1500; // milliseconds between two looks
const [ROW, GAP, LEFT, OPEN, FOOT] = [30, 6, 58, 64, 18]; // pixels: rows, between them, names of levels, the open step, steps
const LETTER = 6.6; // about as wide as one is

export function mount(element, { api, state, onCommit }) {
  const sentence = make("p", { class: "sentence" });
  const picture = drawn("svg", { class: "runs", role: "group", "aria-label": "Runs by level" });
  const told = make("p", { class: "hint" });
  const trouble = make("p", { class: "error", role: "status" });
  const cells = table();
  element.append(sentence, trouble, picture, told, make("details", {}, make("summary", {}, "As a table"), cells.element));
  const looking = paced(element, refresh, LEAST);
  let detail = null;
  let at = 0; // which run has the focus
  let before = "";

  async function refresh() {
    const { stream } = state.get();
    if (!stream) return;
    try {
      const found = await api.get(`/api/streams/${encodeURIComponent(stream)}`);
      if (state.get().stream !== stream) return;
      detail = found;
      say(trouble, found.ready ? "" : found.why);
      if (found.ready) show();
    } catch (error) {
      say(trouble, error.message);
    }
  }

  function show() {
    const runs = ordered(detail.levels);
    const { history_values, stream_values } = detail.counts;
    const open = { open: true, n: stream_values };
    const levels = new Set(runs.map(({ level }) => level)).size;
    say(sentence, runs.length
      ? `${words.number(history_values)} values in ${many(runs.length, "run")} on ${many(levels, "level")}: a question about all of it looks at ${many(runs.length, "summary", "summaries")}, and the ${words.number(stream_values)} values of the open step.`
      : `No step has ended yet: all ${words.number(stream_values)} values are in the open step.`);
    cells.show("Runs of history", ["Run", "Steps", "Values", "Bytes"], [
      ...runs.map((run) => [`Level ${run.level}`, steps(run), words.number(run.n), words.bytes(run.bytes)]),
      ["Open step", "not ended", words.number(stream_values), "–"]]);
    draw([...runs, open]);
  }

  function draw(blocks) {
    const wide = picture.clientWidth || element.clientWidth;
    const same = JSON.stringify([blocks, wide]);
    if (same === before || !wide) return;
    before = same;
    const focused = picture.contains(document.activeElement);
    const runs = blocks.slice(0, -1);
    const top = Math.max(0, ...runs.map(({ level }) => level));
    const [first, last] = [Math.min(...runs.map((run) => run.first_step)), Math.max(...runs.map((run) => run.last_step))];
    const unit = runs.length ? (wide - LEFT - OPEN) / (last - first + 1) : 0;
    const busiest = Math.max(...runs.map(perStep));
    const y = (level) => (top - level) * (ROW + GAP);
    const foot = y(0) + ROW + FOOT;
    at = Math.min(at, blocks.length - 1);
    picture.setAttribute("height", foot + 4);
    const names = Array.from({ length: top + 1 }, (_, level) => drawn("text", { x: 0, y: y(level) + ROW / 2 + 4, class: "run-name" }, `level ${level}`));
    const rects = blocks.map((run, index) => {
      const box = run.open
        ? { x: wide - OPEN + 4, y: 0, width: OPEN - 6, height: y(0) + ROW, full: 1 }
        : { x: LEFT + (run.first_step - first) * unit + 1, y: y(run.level), width: Math.max(2, (run.last_step - run.first_step + 1) * unit - 2), height: ROW, full: perStep(run) / busiest };
      return block(run, box, index);
    });
    const marks = runs.length ? [[LEFT, "start", `step ${first}`], [wide - OPEN, "end", `step ${last}`]] : [];
    const feet = [...marks, [wide - 2, "end", "open"]].filter(([, , text], index) => index !== 1 || (last - first) * unit > 120 || text === "open")
      .map(([x, anchor, text]) => drawn("text", { x, y: foot, "text-anchor": anchor, class: "run-name" }, text));
    picture.replaceChildren(...names, ...rects, ...feet);
    if (focused) picture.querySelectorAll(".run")[at]?.focus();
  }

  // A run: a frame, filled as high as it has many values a step, with their number where there is room.
  function block(run, { x, y, width, height, full }, index) {
    const text = words.count(run.n);
    const fits = text.length * LETTER + 6 < width;
    const high = Math.max(2, (height - 2) * full);
    const show = () => say(told, inWords(run));
    return drawn("g", { class: run.open ? "run open" : "run", tabindex: index === at ? "0" : "-1", role: "img", "aria-label": inWords(run), mouseenter: show, focus: () => (focusOn(index), show()), keydown: (event) => walk(event, index) },
      drawn("rect", { class: "run-frame", x, y, width, height, rx: 4 }),
      drawn("rect", { class: "run-fill", x: x + 1, y: y + height - 1 - high, width: Math.max(0, width - 2), height: high, rx: 3 }),
      fits ? drawn("text", { x: x + width / 2, y: y + height / 2 + 4, "text-anchor": "middle" }, text) : null);
  }

  function focusOn(index) {
    at = index;
    picture.querySelectorAll(".run").forEach((run, one) => run.setAttribute("tabindex", one === index ? "0" : "-1"));
  }

  function walk(event, index) {
    const runs = picture.querySelectorAll(".run");
    const next = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: runs.length - 1 }[event.key];
    if (next === undefined || !runs[next]) return;
    event.preventDefault();
    runs[next].focus();
  }

  function inWords(run) {
    if (run.open) return `The open step: ${words.number(run.n)} values, and growing.`;
    return `Level ${run.level}, ${steps(run)}: ${words.number(run.n)} values, ${words.bytes(run.bytes)}.`;
  }

  new ResizeObserver(() => detail?.ready && show()).observe(picture);
  state.subscribe((_, changed) => {
    if (!changed.has("stream")) return;
    [before, at] = ["", 0];
    say(told, "");
    looking.now();
  });
  onCommit(looking.later);
}

// From the oldest step to the newest.
const ordered = (levels) => [...levels].sort((a, b) => a.first_step - b.first_step);
const perStep = ({ n, first_step, last_step }) => n / (last_step - first_step + 1);
const steps = ({ first_step, last_step }) => (first_step === last_step ? `step ${first_step}` : `steps ${first_step} to ${last_step}`);
const many = (count, one, more = `${one}s`) => `${words.number(count)} ${count === 1 ? one : more}`;
