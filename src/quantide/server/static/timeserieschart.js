// Time series of the quantiles as a chart and a table, with their controls.

import { make, table } from "./dom.js";
import { isWide, layout, nothing, traces } from "./figure.js";
import { over } from "./points.js";
import { sketch } from "./chartpreview.js";
import * as thresholds from "./thresholds.js";

const SPANS = [120, 600, 3600, 21600, 86400, 604800]; // seconds that the chart can reach back
const ROWS = 20; // of the table
const FEW = 5; // points are no line
const PAUSE = 1000; // milliseconds before the table is rewritten

// phis() are the quantiles that are shown.
export function mount(element, phis, app) {
  const { charts, state, format, streams } = app;
  const part = (name) => document.getElementById(`lines-${name}`);
  const [tools, note, details] = [part("tools"), part("note"), part("table")];
  const log = make("input", { type: "checkbox", change: () => state.set({ log: log.checked }) });
  const back = make("select", { "aria-label": "How far back the chart reaches", change: reach });
  const rows = table();
  tools.replaceChildren(back, make("label", { class: "check" }, log, "log scale"));
  details.append(rows.element);
  let limits = null; // listened to when there is a chart to draw them in
  let shown = null;
  let written = 0;

  const isTime = () => /^within:/.test(state.get().window ?? "");
  const hasPast = () => isTime() && (!shown || Number.isFinite(shown.span));

  function reach() {
    state.set({ over: Number(back.value) || null });
  }

  function offer() {
    const retained = format.readSpan(streams.selected()?.window ?? "") ?? 0;
    const usual = over({ window: state.get().window }, streams.selected(), format);
    const others = SPANS.filter((one) => one <= retained && one !== usual);
    back.hidden = !hasPast();
    back.replaceChildren(...[usual, ...others].map((one, i) => new Option(`over ${format.span(one)}`, i ? one : "")));
    back.value = state.get().over ?? "";
  }

  // A window as long as the retained rows has no complete past.
  function short() {
    const retained = streams.selected()?.window;
    return shown?.points.length < FEW ? `The stream keeps ${retained} for windows, so this one has no past: the chart begins now.` : "";
  }

  // Why there is no past to see, if there is none.
  function say(reason) {
    const begins = "This window has no stored past: the chart begins now.";
    note.textContent = reason || (isTime() ? short() : begins);
    note.classList.toggle("error", Boolean(reason));
  }

  function show(timeSeries) {
    shown = timeSeries;
    back.hidden = !hasPast();
    limits ??= thresholds.mount(app, () => show(shown));
    element.classList.remove("skeleton");
    if (timeSeries.points.every((point) => !point.n)) return charts.draw(element, [], nothing);
    if (details.open) writeTable();
    const size = { width: element.clientWidth, height: element.clientHeight };
    log.checked = state.get().log ?? isWide(timeSeries); // by default all lines are visible
    if (!charts.loaded()) sketch(element, timeSeries.points, charts.colors(), log.checked);
    const unit = streams.unit();
    const chosen = { size, log: log.checked, marks: limits.marks, unit };
    return charts.draw(
      element,
      (colors) => traces(timeSeries, phis(), colors, format, unit),
      (colors) => layout(timeSeries, phis(), colors, format, chosen),
    );
  }

  // The table, when someone reads it.
  function writeTable() {
    if (performance.now() - written < PAUSE) return;
    written = performance.now();
    const step = Math.max(1, Math.ceil(shown.points.length / ROWS));
    const cells = ({ t, dated, n, lines }) => [
      format.time(dated ? new Date(t).toISOString() : t),
      format.count(n),
      ...lines.map((line) => line.text),
    ];
    const newest = shown.points.toReversed().filter((_, i) => i % step === 0);
    rows.show("Quantiles over time", ["time", "values", ...phis().map((phi) => streams.inUnit(format.phi(phi)))], newest.map(cells));
  }

  details.addEventListener("toggle", () => {
    written = 0;
    if (details.open && shown) writeTable();
  });
  state.subscribe(offer);
  streams.onChange(offer);
  offer();
  return { show, say };
}
