// Panel "Now against history": the selected series compared with a reference series, in a sentence, a table, a plot of
// both distributions and a Q-Q plot.
import { referenceChooser } from "./referencechooser.js";
import { cdfChart } from "./cdf.js";
import { make, setText, table } from "./dom.js";
import { createRefresher } from "./refresher.js";
import { phiRange, sameSeries, selectedSeries, seriesAddress, seriesLabel, seriesParams } from "./series.js";
import { qqChart } from "./qq.js";
import * as format from "./format.js";

const PHIS = [0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999];
const HIGHLIGHTED = [0.5, 0.9, 0.99]; // compared above the charts; the table has all
const POINTS = 200; // of each distribution
const MIN_INTERVAL = 1500; // milliseconds between two requests
const ROUNDING_ERROR = 1e-9; // largest relative error of a difference of two numbers
const SAME_HINT = "Both sides are the same: choose something else to compare with.";
const MISSING_HINT = "The selected key has no values to compare.";
const VERDICTS = { higher: "higher than", lower: "lower than", open: "indistinguishable from" };
const THAN = { higher: "▲ higher than", lower: "▼ lower than", open: "≈ indistinguishable from" };
const CDF_HINT = "The shaded bands are proved: the true curves lie in them.";
const QQ_HINT = "Each point is one quantile of both: on the diagonal they are the same.";
const ZOOM_HINT = matchMedia("(pointer: fine)").matches ? " Drag a box to look closer." : "";

export function mount(element, app) {
  const { api, state, onCommit, streams } = app;
  const sentence = make("p", { class: "sentence" });
  const verdicts = make("dl", { class: "verdicts" });
  const errorLine = make("p", { class: "error", role: "status" });
  const distance = make("p", { class: "hint distance" });
  const filterNote = make("p", { class: "hint" });
  const cells = table();
  const log = make("input", { type: "checkbox", change: () => setLog(log.checked) });
  const cdf = cdfChart(app);
  const qq = qqChart(app, () => plotRefresher.refreshNow());
  const chooser = referenceChooser(app, applySelection);
  const figure = (title, hint, ...parts) =>
    make("figure", {}, make("figcaption", {}, make("h3", {}, title), make("p", { class: "hint" }, hint)), parts);
  const distributions = figure("Distributions", CDF_HINT, distance, cdf.plot);
  const plots = figure("Q-Q plot", QQ_HINT + ZOOM_HINT, filterNote, qq.element);
  const pair = make("div", { class: "pair" }, distributions, plots);
  element.append(
    make("div", { class: "row" }, chooser.element, make("label", { class: "check" }, log, "Logarithmic values")),
    sentence,
    verdicts,
    errorLine,
    pair,
    make("details", {}, make("summary", {}, "As a table"), cells.element),
  );

  let selected = null;
  let reference = null;
  let names = null;
  let curves = null;
  let shownValues = []; // values of the table; they are formatted alike
  let logDecided = false; // by the user, or once from the values
  let detailStream = null; // stream whose keys and windows are offered as references
  let errors = {}; // of the current selection: detail, comparison, plot

  function setLog(checked) {
    logDecided = true;
    if (curves) drawCurves();
    qq.setLog(checked);
  }

  // Compare again if the selected series or its reference has changed.
  function applySelection() {
    const selection = state.get();
    if (!selection.stream) return;
    const newSelected = selectedSeries(selection);
    const newReference = chooser.referenceSeries(newSelected);
    chooser.show(newSelected);
    if (detailStream !== newSelected.stream) loadDetail(newSelected.stream);
    if (selected && sameSeries(newSelected, selected) && sameSeries(newReference, reference)) return;
    if (!selected || !sameSeries({ ...newSelected, window: selected.window }, selected)) logDecided = false;
    [selected, reference, curves] = [newSelected, newReference, null];
    names = chooser.names(selected, reference);
    qq.setSeries({ x: { ...reference, filter: null }, y: { ...selected, filter: null } }, names);
    errors = {};
    setText(errorLine, "");
    setText(sentence, "");
    verdicts.replaceChildren();
    setText(distance, "");
    setText(filterNote, selected.filter ? "The Q-Q plot ignores the filter." : "");
    comparisonRefresher.refreshNow();
  }

  async function loadDetail(stream) {
    detailStream = stream;
    try {
      const detail = await api.get(`/api/streams/${encodeURIComponent(stream)}`);
      if (detailStream !== stream) return;
      chooser.show(selectedSeries(state.get()), detail);
      showError("detail", "");
    } catch (error) {
      if (detailStream !== stream) return;
      detailStream = null; // requested again after the next commit
      showError("detail", error.message);
    }
  }

  const comparisonRefresher = createRefresher(element, refreshComparison, MIN_INTERVAL);
  const plotRefresher = createRefresher(qq.element, refreshPlot, MIN_INTERVAL);

  async function refreshComparison() {
    const message = app.keyMissing ? MISSING_HINT : await attempt(compare);
    if (message === null) return;
    showError("comparison", message);
    pair.hidden = message !== "" && (curves === null || app.keyMissing); // charts of another selection would mislead
  }

  async function refreshPlot() {
    if (app.keyMissing) return; // the comparison reports it
    const message = await attempt(qq.refresh);
    if (message !== null) showError("plot", message);
  }

  // Run a task; return its error message, "" if it succeeds, null if the selection has changed since.
  async function attempt(task) {
    const [y, x] = [selected, reference];
    if (!selected) return null;
    const message = await task().then(
      () => "",
      (error) => (error.code === "empty" ? "One of the two windows is empty." : error.message),
    );
    return y === selected && x === reference ? message : null;
  }

  function showError(task, message) {
    errors[task] = message;
    setText(errorLine, errors.comparison || errors.plot || errors.detail || "");
  }

  const request = (series, route, params) =>
    api.get(`/api/streams/${encodeURIComponent(series.stream)}/${route}`, { ...seriesParams(series), ...params });

  async function compare() {
    const [y, x] = [selected, reference];
    const quantileParams = { phi: PHIS, band: true };
    const curveParams = { points: POINTS, mode: "quick" };
    const compareParams = { against: seriesAddress(x), against_filter: x.filter, phi: 0.5 };
    const [selectedQuantiles, referenceQuantiles, selectedCurve, referenceCurve, { ks }] = await Promise.all([
      request(y, "quantiles", quantileParams),
      request(x, "quantiles", quantileParams),
      request(y, "cdf", curveParams),
      request(x, "cdf", curveParams),
      request(y, "compare", compareParams),
    ]);
    const { ranks } = await request(x, "rank", {
      value: selectedQuantiles.answers.flatMap(({ low, high }) => [low, high]),
    });
    if (y !== selected || x !== reference) return;
    const rows = selectedQuantiles.answers.map((answer, index) => ({
      ...answer,
      reference: referenceQuantiles.answers[index],
      // the true quantile lies between low and high, so its rank in the reference lies between their ranks
      least: ranks[2 * index].rank_lo / ranks[2 * index].n,
      most: ranks[2 * index + 1].rank_hi / ranks[2 * index + 1].n,
    }));
    curves = [selectedCurve, referenceCurve];
    const isTime = format.axis(selectedCurve.value_type).type === "date";
    const positive = !isTime && curves.every(({ points }) => format.drawable(points[0].value) > 0);
    if (!logDecided) log.checked = curves.some(isSkewed);
    logDecided = true;
    log.disabled = !positive;
    log.checked &&= positive;
    qq.setLog(log.checked);
    drawCurves();
    setText(
      distance,
      `KS distance ${roundOutward(ks)}, proved: the curves differ by at most ${ceil4(ks.high)} at every value.`,
    );
    showRows(rows);
  }

  function drawCurves() {
    const sides = [names.y, names.x].map((name, index) => ({ name, series: 2 * index, curve: curves[index] }));
    cdf.show(sides, log.checked);
  }

  // A value, or its proved bounds if it is not exact.
  const formatProved = (answer, joint) =>
    isExact(answer) ? format.steady(answer.value, shownValues) : format.bounds(answer.low, answer.high).join(joint);
  const inUnit = (answer) => formatProved(answer, " to ") + streams.unit();
  const inSentence = (answer) => (isExact(answer) ? "" : "between ") + formatProved(answer, " and ") + streams.unit();

  function showRows(rows) {
    shownValues = rows.flatMap((row) => [row.value, row.reference.value]);
    const highlights = rows.filter(({ phi }) => HIGHLIGHTED.includes(phi));
    setText(sentence, sameSeries(selected, reference) ? SAME_HINT : describe(highlights.at(-1)));
    verdicts.replaceChildren(...highlights.map(verdictItem));
    cells.show(
      `${seriesLabel(selected)} against ${seriesLabel(reference)}`,
      ["Quantile", streams.inUnit(names.y), "proved between", streams.inUnit(names.x), "proved between", `${names.y} within ${names.x}`],
      rows.map((row) => [
        format.phi(row.phi),
        format.steady(row.value, shownValues),
        between(row),
        format.steady(row.reference.value, shownValues),
        between(row.reference),
        phiRange(row.least, row.most),
      ]),
    );
  }

  function describe(row) {
    const { y, x } = names.phrases;
    const range = phiRange(row.least, row.most);
    const that = `${isExact(row.reference) ? "" : "which is "}${inSentence(row.reference)}`;
    return (
      `${format.phi(row.phi)} ${y} is ${inSentence(row)}; in ${x} that is the ${range}. ` +
      `It is ${VERDICTS[direction(row)]} that of ${x}, ${that}${describeDifference(row, streams.unit())}.`
    );
  }

  const verdictItem = (row) =>
    make(
      "div",
      { class: "verdict", "data-way": direction(row) },
      make("dt", {}, format.phi(row.phi)),
      make(
        "dd",
        {},
        make("strong", {}, inUnit(row)),
        make("span", {}, `${THAN[direction(row)]} ${inUnit(row.reference)} in ${names.phrases.x}`),
        make("span", { class: "hint" }, `the ${phiRange(row.least, row.most)} there`),
      ),
    );

  state.subscribe(applySelection);
  onCommit(() => {
    applySelection();
    comparisonRefresher.schedule();
    plotRefresher.schedule();
  });
  applySelection();
}

// The size of a proved difference, from the bounds of both values, and what the proof covers.
function describeDifference(row, unit) {
  if (direction(row) === "open") return "";
  const [upper, lower] = direction(row) === "higher" ? [row, row.reference] : [row.reference, row];
  const [least, most] = [toNumber(upper.low) - toNumber(lower.high), toNumber(upper.high) - toNumber(lower.low)];
  const numbers = typeof row.value === "number" && Number.isFinite(most);
  const exact = most - least <= ROUNDING_ERROR * Math.abs(most); // both values are exact, and the difference is rounded
  const difference = exact ? format.steady(most) : format.bounds(least, most).join(" to ");
  const by = numbers ? `, by ${difference}${unit}${describeRelativeDifference(row)}` : "";
  return `${by}. That is proved for the values that arrived; whether it is chance is another question`;
}

// " (17 to 23 %)": the difference as a share of the reference value. It is monotonic in both values, so its bounds are
// at the bounds of both. "" if the reference value may be zero.
function describeRelativeDifference({ low, high, reference }) {
  if (!(toNumber(reference.low) > 0 || toNumber(reference.high) < 0)) return "";
  const ends = [reference.low, reference.high]
    .map(toNumber)
    .flatMap((b) => [low, high].map((a) => Math.abs((toNumber(a) - b) / b)));
  return ` (${format.percents(Math.min(...ends), Math.max(...ends))})`;
}

const isExact = ({ low, high }) => low === high;

const between = ({ low, high }) => format.bounds(low, high).join(" and ");

// "0.053 to 0.061": rounded outwards, so that the bounds stay valid.
function roundOutward({ low, high }) {
  const [from, to] = [Math.floor(low * 1e4 + 1e-9) / 1e4, ceil4(high)];
  return from === to ? `${from}` : `${from} to ${to}`;
}

const ceil4 = (x) => Math.ceil(x * 1e4 - 1e-9) / 1e4;

// "higher" or "lower" if the bounds of both values prove it, otherwise "open".
function direction({ low, high, reference }) {
  if (toNumber(low) > toNumber(reference.high)) return "higher";
  return toNumber(high) < toNumber(reference.low) ? "lower" : "open";
}

const toNumber = (value) => ({ inf: Infinity, "-inf": -Infinity })[value] ?? format.drawable(value);

// Return true if half of the values would be in a corner of a linear plot.
function isSkewed({ points }) {
  const pair = [points[Math.floor(points.length / 2)], points.at(-1)];
  const [half, most] = pair.map(({ value }) => format.drawable(value));
  return half > 0 && most > 8 * half;
}
