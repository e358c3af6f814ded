// Now against history: the quantiles of the selected window beside those of another series, in a sentence, a table, two
// distributions and a Q-Q plot.
import { againstChoice } from "./referencechooser.js";
import { cdfChart } from "./cdf.js";
import { make, setText, table } from "./dom.js";
import { createRefresher } from "./refresher.js";
import { phiRange, sameSeries, selectedSeries, seriesAddress, seriesLabel, seriesParams } from "./series.js";
import { qqChart } from "./qq.js";
import * as format from "./format.js";

const PHIS = [0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999];
const HIGHLIGHTED = [0.5, 0.9, 0.99]; // these are in the text, all are in the table
const POINTS = 200;
const MIN_INTERVAL = 1500; // milliseconds between two requests
const NOISE = 1e-9; // relative error of a difference of two numbers, at most
const SAME = "Both sides are the same: choose something else to compare with.";
const VERDICTS = { higher: "higher than", lower: "lower than", open: "indistinguishable from" };
const THAN = { higher: "▲ higher than", lower: "▼ lower than", open: "≈ indistinguishable from" };
const BANDS = "The shaded bands are proved: the true curves lie in them.";
const PAIRS = "Each point is one quantile of both: on the diagonal they are the same.";
const CLOSER = matchMedia("(pointer: fine)").matches ? " Drag a box to look closer." : "";

export function mount(element, app) {
  const { api, state, onCommit, streams } = app;
  const sentence = make("p", { class: "sentence" });
  const verdicts = make("dl", { class: "verdicts" });
  const errorLine = make("p", { class: "error", role: "status" });
  const distance = make("p", { class: "hint distance" });
  const about = make("p", { class: "hint" });
  const cells = table();
  const log = make("input", { type: "checkbox", change: () => setLog(log.checked) });
  const cdf = cdfChart(app);
  const qq = qqChart(app, () => plotRefresher.refreshNow());
  const choice = againstChoice(app, look);
  const figure = (title, hint, ...parts) =>
    make("figure", {}, make("figcaption", {}, make("h3", {}, title), make("p", { class: "hint" }, hint)), parts);
  const distributions = figure("Distributions", BANDS, distance, cdf.plot);
  const plots = figure("Q-Q plot", PAIRS + CLOSER, about, qq.element);
  const pair = make("div", { class: "pair" }, distributions, plots);
  element.append(
    make("div", { class: "row" }, choice.element, make("label", { class: "check" }, log, "Logarithmic values")),
    sentence,
    verdicts,
    errorLine,
    pair,
    make("details", {}, make("summary", {}, "As a table"), cells.element),
  );

  let here = null;
  let there = null;
  let names = null;
  let curves = null;
  let measured = []; // values that are shown beside each other
  let logChosen = false; // by hand, or once from the range of the values

  function setLog(wanted) {
    logChosen = true;
    if (curves) drawCurves();
    qq.setLog(wanted);
  }

  // Restart if the selected series changed.
  function look() {
    const selected = state.get();
    if (!selected.stream) return;
    const now = selectedSeries(selected);
    const other = choice.series(now);
    choice.show(now);
    if (here && sameSeries(now, here) && sameSeries(other, there)) return;
    if (here?.stream !== now.stream) learn(now.stream);
    if (!here || !sameSeries({ ...now, window: here.window }, here)) logChosen = false;
    [here, there, curves] = [now, other, null];
    names = choice.names(here, there);
    qq.about({ x: { ...there, filter: null }, y: { ...here, filter: null } }, names);
    setText(sentence, "");
    verdicts.replaceChildren();
    setText(distance, "");
    setText(about, here.filter ? "The Q-Q plot ignores the filter." : "");
    comparisonRefresher.refreshNow();
  }

  async function learn(stream) {
    try {
      const found = await api.get(`/api/streams/${encodeURIComponent(stream)}`);
      if (state.get().stream === stream) choice.show(selectedSeries(state.get()), found);
    } catch (error) {
      setText(errorLine, error.message);
    }
  }

  const comparisonRefresher = createRefresher(element, () => attempt(compare), MIN_INTERVAL);
  const plotRefresher = createRefresher(qq.element, () => attempt(qq.refresh), MIN_INTERVAL);

  async function attempt(task) {
    if (!here) return;
    if (app.keyMissing) {
      setText(errorLine, "The selected key has no values to compare.");
      pair.hidden = true;
      return;
    }
    try {
      await task();
      setText(errorLine, "");
      pair.hidden = false;
    } catch (error) {
      setText(errorLine, error.code === "empty" ? "One of the two windows is empty." : error.message);
      pair.hidden = curves === null; // charts of something else would mislead
    }
  }

  const ask = (series, route, params) =>
    api.get(`/api/streams/${encodeURIComponent(series.stream)}/${route}`, { ...seriesParams(series), ...params });

  async function compare() {
    const [mine, other] = [here, there];
    const quantiles = { phi: PHIS, band: true };
    const curve = { points: POINTS, mode: "quick" };
    const against = { against: seriesAddress(other), against_filter: other.filter, phi: 0.5 };
    const [now, then, left, right, { ks }] = await Promise.all([
      ask(mine, "quantiles", quantiles),
      ask(other, "quantiles", quantiles),
      ask(mine, "cdf", curve),
      ask(other, "cdf", curve),
      ask(mine, "compare", against),
    ]);
    const { ranks } = await ask(other, "rank", { value: now.answers.flatMap(({ low, high }) => [low, high]) });
    if (mine !== here || other !== there) return;
    const found = now.answers.map((answer, index) => ({
      ...answer,
      other: then.answers[index],
      // the true quantile lies from low to high, so its rank there lies from that of low to that of high
      least: ranks[2 * index].rank_lo / ranks[2 * index].n,
      most: ranks[2 * index + 1].rank_hi / ranks[2 * index + 1].n,
    }));
    curves = [left, right];
    const timed = format.axis(left.value_type).type === "date";
    const positive = !timed && curves.every(({ points }) => format.drawable(points[0].value) > 0);
    if (!logChosen) log.checked = curves.some(isSkewed);
    logChosen = true;
    log.disabled = !positive;
    log.checked &&= positive;
    qq.setLog(log.checked);
    drawCurves();
    setText(distance, `KS distance ${outward(ks)}, proved: the curves differ by at most ${ceil4(ks.high)} at every value.`);
    showFound(found);
  }

  function drawCurves() {
    const sides = [names.y, names.x].map((name, index) => ({ name, series: 2 * index, curve: curves[index] }));
    cdf.show(sides, log.checked);
  }

  // A value, or its proved range where that is more than the value.
  const proved = (one, joint) =>
    isExact(one) ? format.steady(one.value, measured) : format.bounds(one.low, one.high).join(joint);
  const inUnit = (one) => proved(one, " to ") + streams.unit();
  const inSentence = (one) => (isExact(one) ? "" : "between ") + proved(one, " and ") + streams.unit();

  function showFound(found) {
    measured = found.flatMap((one) => [one.value, one.other.value]);
    const highlights = found.filter(({ phi }) => HIGHLIGHTED.includes(phi));
    setText(sentence, sameSeries(here, there) ? SAME : inWords(highlights.at(-1)));
    verdicts.replaceChildren(...highlights.map(verdict));
    cells.show(
      `${seriesLabel(here)} against ${seriesLabel(there)}`,
      ["Quantile", streams.inUnit(names.y), "proved between", streams.inUnit(names.x), "proved between", `${names.y} within ${names.x}`],
      found.map((one) => [
        format.phi(one.phi),
        format.steady(one.value, measured),
        between(one),
        format.steady(one.other.value, measured),
        between(one.other),
        phiRange(one.least, one.most),
      ]),
    );
  }

  function inWords(one) {
    const { y, x } = names.phrases;
    const range = phiRange(one.least, one.most);
    const that = `${isExact(one.other) ? "" : "which is "}${inSentence(one.other)}`;
    return (
      `${format.phi(one.phi)} ${y} is ${inSentence(one)}; in ${x} that is the ${range}. ` +
      `It is ${VERDICTS[way(one)]} that of ${x}, ${that}${margin(one, streams.unit())}.`
    );
  }

  const verdict = (one) =>
    make(
      "div",
      { class: "verdict", "data-way": way(one) },
      make("dt", {}, format.phi(one.phi)),
      make(
        "dd",
        {},
        make("strong", {}, inUnit(one)),
        make("span", {}, `${THAN[way(one)]} ${inUnit(one.other)} in ${names.phrases.x}`),
        make("span", { class: "hint" }, `the ${phiRange(one.least, one.most)} there`),
      ),
    );

  state.subscribe(look);
  onCommit(() => {
    look();
    comparisonRefresher.schedule();
    plotRefresher.schedule();
  });
  look();
}

// How large a proved difference is, by the bounds of both, and of what it is proved.
function margin(one, unit) {
  if (way(one) === "open") return "";
  const [upper, lower] = way(one) === "higher" ? [one, one.other] : [one.other, one];
  const [least, most] = [size(upper.low) - size(lower.high), size(upper.high) - size(lower.low)];
  const numbers = typeof one.value === "number" && Number.isFinite(most);
  const exact = most - least <= NOISE * Math.abs(most); // both values are exact, and only their difference is rounded
  const difference = exact ? format.steady(most) : format.bounds(least, most).join(" to ");
  const by = numbers ? `, by ${difference}${unit}${share(one)}` : "";
  return `${by}. That is proved for the values that arrived; whether it is chance is another question`;
}

// " (17 to 23 %)": the difference as a share of the other value. It grows or falls with either value, so its ends
// belong to the bounds of both. There is none where the other value may be zero.
function share({ low, high, other }) {
  if (!(size(other.low) > 0 || size(other.high) < 0)) return "";
  const ends = [other.low, other.high].map(size).flatMap((b) => [low, high].map((a) => Math.abs((size(a) - b) / b)));
  return ` (${format.percents(Math.min(...ends), Math.max(...ends))})`;
}

const isExact = ({ low, high }) => low === high;

const between = ({ low, high }) => format.bounds(low, high).join(" and ");

// "0.053 to 0.061": rounded outwards, so that the bounds stay valid.
function outward({ low, high }) {
  const [from, to] = [Math.floor(low * 1e4 + 1e-9) / 1e4, ceil4(high)];
  return from === to ? `${from}` : `${from} to ${to}`;
}

const ceil4 = (x) => Math.ceil(x * 1e4 - 1e-9) / 1e4;

// Which one is higher, by the proved bounds of both.
function way({ low, high, other }) {
  if (size(low) > size(other.high)) return "higher";
  return size(high) < size(other.low) ? "lower" : "open";
}

const size = (value) => ({ inf: Infinity, "-inf": -Infinity })[value] ?? format.drawable(value);

// Whether most of it would lie in a corner.
function isSkewed({ points }) {
  const pair = [points[Math.floor(points.length / 2)], points.at(-1)];
  const [half, most] = pair.map(({ value }) => format.drawable(value));
  return half > 0 && most > 8 * half;
}
