// Panel of the runs of history, drawn as SVG: a row for each level, each run as wide as its number of steps.
import { make, makeSvg, setText, table } from "./dom.js";
import { createRefresher } from "./refresher.js";
import * as format from "./format.js";

const MIN_INTERVAL = 1500; // milliseconds between two requests
const [ROW_HEIGHT, ROW_GAP, AXIS_HEIGHT] = [30, 6, 18]; // pixels
const [LABEL_WIDTH, OPEN_WIDTH] = [58, 64]; // pixels of the labels of levels and of the open step
const LETTER_WIDTH = 6.6; // pixels
const CHART_LABEL = "Runs by level; arrows go from one to the next";

export function mount(element, { api, state, onCommit }) {
  const sentence = make("p", { class: "sentence" });
  const chart = makeSvg("svg", { class: "runs", role: "group", "aria-label": CHART_LABEL });
  const description = make("p", { class: "hint" });
  const mergeRule = make("p", { class: "hint" });
  const errorLine = make("p", { class: "error", role: "status" });
  const cells = table();
  const details = make("details", {}, make("summary", {}, "As a table"), cells.element);
  element.append(sentence, errorLine, chart, description, mergeRule, details);
  const refresher = createRefresher(element, refresh, MIN_INTERVAL);
  let detail = null;
  let focusedIndex = 0; // of the run that has, or would get, the focus
  let drawnContent = "";

  async function refresh() {
    const { stream } = state.get();
    if (!stream) return;
    try {
      const body = await api.get(`/api/streams/${encodeURIComponent(stream)}`);
      if (state.get().stream !== stream) return;
      detail = body;
      setText(errorLine, body.ready ? "" : body.why);
      if (body.ready) show();
    } catch (error) {
      setText(errorLine, error.message);
    }
  }

  function show() {
    const runs = [...detail.levels].sort((a, b) => a.first_step - b.first_step);
    const { history_values, stream_values } = detail.counts;
    const open = `the ${counted(stream_values, "value")} of the open step`;
    const levels = new Set(runs.map(({ level }) => level)).size;
    const stored =
      `${counted(history_values, "value")} in ${counted(runs.length, "run")} on ${counted(levels, "level")}`;
    const cost = `a query of everything reads ${counted(runs.length, "summary", "summaries")}, and ${open}`;
    setText(sentence, runs.length ? `${stored}: ${cost}.` : `No step has ended yet: there are only ${open}.`);
    const oldest = detail.kappa === 1 ? "both" : `the ${detail.kappa} oldest`;
    setText(
      mergeRule,
      `When a level has more than ${counted(detail.kappa, "run")}, ${oldest} are merged into one of the level above.`,
    );
    cells.show("Runs, one by one", ["Run", "Steps", "Values", "Bytes"], [
      ...runs.map((run) => [`Level ${run.level}`, steps(run), format.number(run.n), format.bytes(run.bytes)]),
      ["Open step", "not ended", format.number(stream_values), "–"],
    ]);
    draw(runs, stream_values);
  }

  function draw(runs, open) {
    const chartWidth = chart.clientWidth;
    const content = JSON.stringify([runs, open, chartWidth]);
    if (content === drawnContent || !chartWidth) return;
    drawnContent = content;
    const focused = chart.contains(document.activeElement);
    const top = Math.max(0, ...runs.map(({ level }) => level));
    const first = Math.min(...runs.map((run) => run.first_step));
    const last = Math.max(...runs.map((run) => run.last_step));
    const unit = (chartWidth - LABEL_WIDTH - OPEN_WIDTH) / (last - first + 1);
    const maxDensity = Math.max(...runs.map(density));
    const y = (level) => (top - level) * (ROW_HEIGHT + ROW_GAP);
    const axisY = y(0) + ROW_HEIGHT + AXIS_HEIGHT;
    const label = (x, height, text, anchor = "start") =>
      makeSvg("text", { x, y: height, class: "run-name", "text-anchor": anchor }, text);
    focusedIndex = Math.min(focusedIndex, runs.length);
    chart.setAttribute("height", axisY + 4);
    chart.replaceChildren(
      ...Array.from({ length: top + 1 }, (_, level) => label(0, y(level) + ROW_HEIGHT / 2 + 4, `level ${level}`)),
      ...runs.map((run, index) => {
        const x = LABEL_WIDTH + (run.first_step - first) * unit + 1;
        const width = Math.max(2, (run.last_step - run.first_step + 1) * unit - 2);
        return block(run, index, { x, y: y(run.level), width, height: ROW_HEIGHT }, density(run) / maxDensity);
      }),
      block(
        { open: true, n: open },
        runs.length,
        { x: chartWidth - OPEN_WIDTH + 4, y: 0, width: OPEN_WIDTH - 6, height: y(0) + ROW_HEIGHT },
        1,
      ),
      ...(runs.length ? [label(LABEL_WIDTH, axisY, `step ${first}`)] : []),
      ...(last - first > 1 ? [label(chartWidth - OPEN_WIDTH, axisY, `step ${last}`, "end")] : []),
      label(chartWidth - 2, axisY, "open", "end"),
    );
    if (focused) chart.querySelectorAll(".run")[focusedIndex].focus();
  }

  // A run: a frame, filled up to its share of the largest number of values a step, with its values if they fit.
  function block(run, index, { x, y, width, height }, fillShare) {
    const fits = (text) => text.length * LETTER_WIDTH + 6 < width;
    const text = [format.count(run.n), format.shortCount(run.n)].find(fits);
    const fillHeight = Math.max(2, (height - 2) * fillShare);
    const textPosition = { x: x + width / 2, y: y + height / 2 + 4, "text-anchor": "middle" };
    const frame = makeSvg("rect", { class: "run-frame", x, y, width, height, rx: 4 });
    const fill = { x: x + 1, y: y + height - 1 - fillHeight, width: Math.max(0, width - 2), height: fillHeight };
    return makeSvg(
      "g",
      {
        class: run.open ? "run open" : "run",
        tabindex: index === focusedIndex ? "0" : "-1",
        role: "img",
        "aria-label": describe(run),
        mouseenter: () => setText(description, describe(run)),
        focus: () => onFocus(index, run),
        keydown: (event) => moveFocus(event, index),
      },
      frame,
      makeSvg("rect", { class: "run-fill", ...fill, rx: 3 }),
      text ? makeSvg("text", textPosition, text) : null,
    );
  }

  function onFocus(index, run) {
    focusedIndex = index;
    setText(description, describe(run));
    const runs = [...chart.querySelectorAll(".run")];
    runs.forEach((element, i) => element.setAttribute("tabindex", i === index ? "0" : "-1"));
  }

  function moveFocus(event, index) {
    const runs = chart.querySelectorAll(".run");
    const next = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: runs.length - 1 }[event.key];
    if (next === undefined || !runs[next]) return;
    event.preventDefault();
    event.stopPropagation();
    runs[next].focus();
  }

  new ResizeObserver(() => detail?.ready && show()).observe(chart);
  state.subscribe((_, changed) => {
    if (!changed.has("stream")) return;
    [drawnContent, focusedIndex] = ["", 0];
    setText(description, "");
    refresher.refreshNow();
  });
  onCommit(refresher.schedule);
}

function describe(run) {
  if (run.open) return `The open step: ${counted(run.n, "value")}, and growing.`;
  return `Level ${run.level}, ${steps(run)}: ${counted(run.n, "value")}, ${format.bytes(run.bytes)}.`;
}

const density = ({ n, first_step, last_step }) => n / (last_step - first_step + 1);
const steps = ({ first_step, last_step }) =>
  first_step === last_step ? `step ${first_step}` : `steps ${first_step} to ${last_step}`;
const counted = (count, singular, plural = `${singular}s`) =>
  `${format.number(count)} ${count === 1 ? singular : plural}`;
