// Chart and table of the quantiles over time, with their controls.

import { make, table } from "./dom.js";
import { emptyLayout, isWide, layout, traces } from "./figure.js";
import { chartSpan } from "./points.js";
import { drawPreview } from "./chartpreview.js";
import * as thresholds from "./thresholds.js";

const SPANS = [120, 600, 3600, 21600, 86400, 604800]; // seconds; those that the stream retains are offered
const MAX_ROWS = 20; // of the table
const MIN_POINTS = 5; // with fewer points a note explains why the past is missing
const TABLE_INTERVAL = 1000; // milliseconds between two updates of the table

// phis() returns the phis of the lines.
export function mount(element, phis, app) {
  const { charts, state, format, streams } = app;
  const part = (name) => document.getElementById(`lines-${name}`);
  const [tools, note, details] = [part("tools"), part("note"), part("table")];
  const logCheckbox = make("input", { type: "checkbox", change: () => state.set({ log: logCheckbox.checked }) });
  const spanSelect = make("select", { "aria-label": "How far back the chart reaches", change: selectSpan });
  const rows = table();
  tools.replaceChildren(spanSelect, make("label", { class: "check" }, logCheckbox, "log scale"));
  details.append(rows.element);
  let alarmThresholds = null; // loaded when the first chart is drawn
  let shownSeries = null;
  let tableWritten = 0;

  const isTime = () => /^within:/.test(state.get().window ?? "");
  const hasPast = () => isTime() && (!shownSeries || Number.isFinite(shownSeries.span));

  function selectSpan() {
    state.set({ over: Number(spanSelect.value) || null });
  }

  function showSpans() {
    const retained = format.readSpan(streams.selected()?.window ?? "") ?? 0;
    const defaultSpan = chartSpan({ window: state.get().window }, streams.selected(), format);
    const others = SPANS.filter((one) => one <= retained && one !== defaultSpan);
    spanSelect.hidden = !hasPast();
    spanSelect.replaceChildren(
      ...[defaultSpan, ...others].map((one, i) => new Option(`over ${format.span(one)}`, i ? one : "")),
    );
    spanSelect.value = state.get().over ?? "";
  }

  // Explain why a window as long as the retained rows has no past.
  function explainShortPast() {
    const retained = streams.selected()?.window;
    return shownSeries?.points.length < MIN_POINTS
      ? `The stream keeps ${retained} for windows, so this one has no past: the chart begins now.`
      : "";
  }

  // Show an error, or why the chart has no past; "" if it has one.
  function showNote(reason) {
    const begins = "This window has no stored past: the chart begins now.";
    note.textContent = reason || (isTime() ? explainShortPast() : begins);
    note.classList.toggle("error", Boolean(reason));
  }

  function show(timeSeries) {
    shownSeries = timeSeries;
    spanSelect.hidden = !hasPast();
    alarmThresholds ??= thresholds.mount(app, () => show(shownSeries));
    element.classList.remove("skeleton");
    if (timeSeries.points.every((point) => !point.n)) return charts.draw(element, [], emptyLayout);
    if (details.open) writeTable();
    const size = { width: element.clientWidth, height: element.clientHeight };
    logCheckbox.checked = state.get().log ?? isWide(timeSeries); // by default, no line is flat
    if (!charts.isLoaded()) drawPreview(element, timeSeries.points, charts.colors(), logCheckbox.checked);
    const unit = streams.unit();
    const options = { size, log: logCheckbox.checked, marks: alarmThresholds.marks, unit };
    return charts.draw(
      element,
      (colors) => traces(timeSeries, phis(), colors, format, unit),
      (colors) => layout(timeSeries, phis(), colors, format, options),
    );
  }

  function writeTable() {
    if (performance.now() - tableWritten < TABLE_INTERVAL) return;
    tableWritten = performance.now();
    const step = Math.max(1, Math.ceil(shownSeries.points.length / MAX_ROWS));
    const cells = ({ t, dated, n, lines }) => [
      format.time(dated ? new Date(t).toISOString() : t),
      format.count(n),
      ...lines.map((line) => line.text),
    ];
    const newest = shownSeries.points.toReversed().filter((_, i) => i % step === 0);
    rows.show("Quantiles over time", ["time", "values", ...phis().map((phi) => streams.inUnit(format.phi(phi)))], newest.map(cells));
  }

  details.addEventListener("toggle", () => {
    tableWritten = 0;
    if (details.open && shownSeries) writeTable();
  });
  state.subscribe(showSpans);
  streams.onChange(showSpans);
  showSpans();
  return { show, showNote };
}
