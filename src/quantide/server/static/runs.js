// The runs of history as a picture: a row for each level, and in it each run as wide as the steps it holds.
import { make, makeSvg, setText, table } from "./dom.js";
import { createRefresher } from "./refresher.js";
import * as format from "./format.js";

const MIN_INTERVAL = 1500; // milliseconds between two requests
const [ROW, GAP, FOOT] = [30, 6, 18]; // pixels: height of rows, distance between them, height of the axis of steps
const [LEFT, OPEN] = [58, 64]; // and how wide the names of levels and the open step are
const LETTER = 6.6;
const NAME = "Runs by level; arrows go from one to the next";

export function mount(element, { api, state, onCommit }) {
  const sentence = make("p", { class: "sentence" });
  const picture = makeSvg("svg", { class: "runs", role: "group", "aria-label": NAME });
  const description = make("p", { class: "hint" });
  const kept = make("p", { class: "hint" });
  const errorLine = make("p", { class: "error", role: "status" });
  const cells = table();
  const details = make("details", {}, make("summary", {}, "As a table"), cells.element);
  element.append(sentence, errorLine, picture, description, kept, details);
  const refresher = createRefresher(element, refresh, MIN_INTERVAL);
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
      setText(errorLine, found.ready ? "" : found.why);
      if (found.ready) show();
    } catch (error) {
      setText(errorLine, error.message);
    }
  }

  function show() {
    const runs = [...detail.levels].sort((a, b) => a.first_step - b.first_step);
    const { history_values, stream_values } = detail.counts;
    const open = `the ${many(stream_values, "value")} of the open step`;
    const levels = new Set(runs.map(({ level }) => level)).size;
    const where = `${many(history_values, "value")} in ${many(runs.length, "run")} on ${many(levels, "level")}`;
    const cost = `a query of everything reads ${many(runs.length, "summary", "summaries")}, and ${open}`;
    setText(sentence, runs.length ? `${where}: ${cost}.` : `No step has ended yet: there are only ${open}.`);
    const oldest = detail.kappa === 1 ? "both" : `the ${detail.kappa} oldest`;
    setText(kept, `When a level has more than ${many(detail.kappa, "run")}, ${oldest} are merged into one of the level above.`);
    cells.show("Runs, one by one", ["Run", "Steps", "Values", "Bytes"], [
      ...runs.map((run) => [`Level ${run.level}`, steps(run), format.number(run.n), format.bytes(run.bytes)]),
      ["Open step", "not ended", format.number(stream_values), "–"],
    ]);
    draw(runs, stream_values);
  }

  function draw(runs, open) {
    const wide = picture.clientWidth;
    const same = JSON.stringify([runs, open, wide]);
    if (same === before || !wide) return;
    before = same;
    const focused = picture.contains(document.activeElement);
    const top = Math.max(0, ...runs.map(({ level }) => level));
    const first = Math.min(...runs.map((run) => run.first_step));
    const last = Math.max(...runs.map((run) => run.last_step));
    const unit = (wide - LEFT - OPEN) / (last - first + 1);
    const busiest = Math.max(...runs.map(perStep));
    const y = (level) => (top - level) * (ROW + GAP);
    const foot = y(0) + ROW + FOOT;
    const name = (x, height, text, anchor = "start") =>
      makeSvg("text", { x, y: height, class: "run-name", "text-anchor": anchor }, text);
    at = Math.min(at, runs.length);
    picture.setAttribute("height", foot + 4);
    picture.replaceChildren(
      ...Array.from({ length: top + 1 }, (_, level) => name(0, y(level) + ROW / 2 + 4, `level ${level}`)),
      ...runs.map((run, index) => {
        const x = LEFT + (run.first_step - first) * unit + 1;
        const width = Math.max(2, (run.last_step - run.first_step + 1) * unit - 2);
        return block(run, index, { x, y: y(run.level), width, height: ROW }, perStep(run) / busiest);
      }),
      block({ open: true, n: open }, runs.length, { x: wide - OPEN + 4, y: 0, width: OPEN - 6, height: y(0) + ROW }, 1),
      ...(runs.length ? [name(LEFT, foot, `step ${first}`)] : []),
      ...(last - first > 1 ? [name(wide - OPEN, foot, `step ${last}`, "end")] : []),
      name(wide - 2, foot, "open", "end"),
    );
    if (focused) picture.querySelectorAll(".run")[at].focus();
  }

  // A run: a frame, filled as high as it has many values a step, with their number where there is room.
  function block(run, index, { x, y, width, height }, full) {
    const room = (text) => text.length * LETTER + 6 < width;
    const text = [format.count(run.n), format.shortCount(run.n)].find(room);
    const high = Math.max(2, (height - 2) * full);
    const middle = { x: x + width / 2, y: y + height / 2 + 4, "text-anchor": "middle" };
    const frame = makeSvg("rect", { class: "run-frame", x, y, width, height, rx: 4 });
    const filling = { x: x + 1, y: y + height - 1 - high, width: Math.max(0, width - 2), height: high };
    return makeSvg(
      "g",
      {
        class: run.open ? "run open" : "run",
        tabindex: index === at ? "0" : "-1",
        role: "img",
        "aria-label": inWords(run),
        mouseenter: () => setText(description, inWords(run)),
        focus: () => focusOn(index, run),
        keydown: (event) => walk(event, index),
      },
      frame,
      makeSvg("rect", { class: "run-fill", ...filling, rx: 3 }),
      text ? makeSvg("text", middle, text) : null,
    );
  }

  function focusOn(index, run) {
    at = index;
    setText(description, inWords(run));
    const runs = [...picture.querySelectorAll(".run")];
    runs.forEach((one, other) => one.setAttribute("tabindex", other === index ? "0" : "-1"));
  }

  function walk(event, index) {
    const runs = picture.querySelectorAll(".run");
    const next = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: runs.length - 1 }[event.key];
    if (next === undefined || !runs[next]) return;
    event.preventDefault();
    event.stopPropagation();
    runs[next].focus();
  }

  new ResizeObserver(() => detail?.ready && show()).observe(picture);
  state.subscribe((_, changed) => {
    if (!changed.has("stream")) return;
    [before, at] = ["", 0];
    setText(description, "");
    refresher.refreshNow();
  });
  onCommit(refresher.schedule);
}

function inWords(run) {
  if (run.open) return `The open step: ${many(run.n, "value")}, and growing.`;
  return `Level ${run.level}, ${steps(run)}: ${many(run.n, "value")}, ${format.bytes(run.bytes)}.`;
}

const perStep = ({ n, first_step, last_step }) => n / (last_step - first_step + 1);
const steps = ({ first_step, last_step }) =>
  first_step === last_step ? `step ${first_step}` : `steps ${first_step} to ${last_step}`;
const many = (count, one, more = `${one}s`) => `${format.number(count)} ${count === 1 ? one : more}`;
