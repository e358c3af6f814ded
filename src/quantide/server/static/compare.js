// Now against history: what the quantiles of the chosen window would have been elsewhere, in a sentence, a table, two
// distributions and a Q-Q plot.
import { againstChoice } from "./against.js";
import { cdfChart } from "./cdf.js";
import { make, say, table } from "./dom.js";
import { paced } from "./pace.js";
import { chosenPlace, phiRange, placeParams, placeText, placeWords, samePlace } from "./places.js";
import { qqChart } from "./qq.js";
import * as words from "./words.js";

const PHIS = [0.5, 0.9, 0.99, 0.01, 0.1, 0.25, 0.75, 0.95, 0.999];
const TOLD = 3; // the first of these are said, all are in the table
const POINTS = 200;
const LEAST = 1500; // milliseconds between two looks

const WORDS = { higher: "higher than", lower: "lower than", open: "not told apart from" };
const ARROWS = { higher: "▲", lower: "▼", open: "≈" };

export function mount(element, app) {
  const { api, state, onCommit } = app;
  const sentence = make("p", { class: "sentence" });
  const verdicts = make("dl", { class: "verdicts" });
  const trouble = make("p", { class: "error", role: "status" });
  const cells = table();
  const log = make("input", { type: "checkbox", change: () => setLog(log.checked) });
  const logs = make("label", { class: "check" }, log, "Logarithmic values");
  const cdf = cdfChart(app);
  const qq = qqChart(app, () => plotting.now());
  const choice = againstChoice(app, look);
  const charts = make("div", { class: "pair" },
    make("figure", {}, make("figcaption", {}, make("h3", {}, "Distributions"), make("p", { class: "hint" }, "Within the shaded bands, proved.")), cdf.plot),
    make("figure", {}, make("figcaption", {}, make("h3", {}, "Q-Q plot"), make("p", { class: "hint" }, "Each point is one quantile of both; on the diagonal they are the same. Drag a box to look closer.")), qq.element));
  element.append(
    make("div", { class: "row" }, choice.element, logs), sentence, verdicts, trouble, charts,
    make("details", {}, make("summary", {}, "As a table"), cells.element));

  let here = null;
  let there = null;
  let names = null;
  let curves = null;
  let logTouched = false;

  function setLog(wanted) {
    logTouched = true;
    log.checked = wanted;
    if (curves) drawCurves();
    qq.setLog(wanted);
  }

  // What is looked at may have changed: if so, all begins anew.
  function look() {
    const selected = state.get();
    if (!selected.stream) return;
    const now = chosenPlace(selected);
    const other = choice.place(now);
    choice.show(now);
    const same = here && samePlace(now, here) && samePlace(other, there);
    if (same) return;
    if (here?.stream !== now.stream) learn(now.stream);
    if (here?.stream !== now.stream || here?.key !== now.key) logTouched = false;
    [here, there, curves] = [now, other, null];
    names = { y: "now", x: choice.named(here, there) };
    qq.about({ x: there, y: here }, { y: `now (${words.window(here.window)})`, x: names.x });
    telling.now();
  }

  async function learn(stream) {
    try {
      const found = await api.get(`/api/streams/${encodeURIComponent(stream)}`);
      if (state.get().stream === stream) choice.show(chosenPlace(state.get()), found);
    } catch (error) {
      say(trouble, error.message);
    }
  }

  const telling = paced(element, () => attempt(tell), LEAST);
  const plotting = paced(qq.element, () => attempt(qq.refresh), LEAST);

  async function attempt(task) {
    if (!here) return;
    try {
      await task();
      say(trouble, "");
    } catch (error) {
      say(trouble, error.code === "empty" ? "Nothing lies in one of the two windows yet." : error.message);
    }
  }

  const ask = (place, route, params) =>
    api.get(`/api/streams/${encodeURIComponent(place.stream)}/${route}`, { ...placeParams(place), ...params });

  async function tell() {
    const [mine, other] = [here, there];
    const [now, then, left, right] = await Promise.all([
      ask(mine, "quantiles", { phi: PHIS, band: true }),
      ask(other, "quantiles", { phi: PHIS, band: true }),
      ask(mine, "cdf", { points: POINTS }),
      ask(other, "cdf", { points: POINTS }),
    ]);
    const ends = now.answers.flatMap(({ low, high }) => [low, high]);
    const { ranks } = await ask(other, "rank", { value: ends });
    if (mine !== here || other !== there) return;
    const found = now.answers.map((answer, index) => ({
      ...answer,
      other: then.answers[index],
      // the true quantile lies from low to high, so its rank there lies from that of low to that of high
      least: ranks[2 * index].rank_lo / ranks[2 * index].n,
      most: ranks[2 * index + 1].rank_hi / ranks[2 * index + 1].n,
    }));
    curves = [left, right];
    if (!logTouched) log.checked = isSkewed(left);
    const possible = curves.every(({ points }) => words.drawable(points[0].value) > 0);
    log.disabled = !possible;
    log.checked &&= possible;
    qq.setLog(log.checked);
    drawCurves();
    showFound(found);
  }

  function drawCurves() {
    cdf.show([{ name: names.y, series: 0, curve: curves[0] }, { name: names.x, series: 2, curve: curves[1] }], log.checked);
  }

  function showFound(found) {
    const [, , tail] = found;
    const same = samePlace(here, there);
    say(sentence, same
      ? "Both sides are the same place: choose another one to compare with."
      : `${words.phi(tail.phi)} now is ${words.number(tail.value)}; that was the ${phiRange(tail.least, tail.most)} of ${names.x}. It is ${WORDS[way(tail)]} ${names.x}'s ${words.number(tail.other.value)}${way(tail) === "open" ? "" : ", and that is proved"}.`);
    verdicts.replaceChildren(...found.slice(0, TOLD).map((one) => make("div", { class: "verdict", "data-way": way(one) },
      make("dt", {}, words.phi(one.phi)),
      make("dd", {}, make("strong", {}, words.number(one.value)), make("span", {}, `${ARROWS[way(one)]} ${words.number(one.other.value)} in ${names.x}`),
        make("span", { class: "hint" }, `was ${phiRange(one.least, one.most)}`)))));
    const rows = [...found].sort((a, b) => a.phi - b.phi).map((one) => [
      words.phi(one.phi), words.number(one.value), between(one), words.number(one.other.value), between(one.other), phiRange(one.least, one.most)]);
    cells.show(`${placeWords(here)} against ${placeWords(there)}`,
      ["Quantile", "Now", "proved between", names.x, "proved between", `Now's was, in ${names.x}`], rows);
  }

  const between = ({ low, high }) => `${words.number(low)} and ${words.number(high)}`;

  state.subscribe(look);
  onCommit(() => {
    look();
    telling.later();
    plotting.later();
  });
  look();
}

// Which one is higher, by what is proved of both.
function way({ low, high, other }) {
  if (words.drawable(low) > words.drawable(other.high)) return "higher";
  return words.drawable(high) < words.drawable(other.low) ? "lower" : "open";
}

// Whether most of it would lie in a corner.
function isSkewed({ points }) {
  const [half, most] = [points[Math.floor(points.length / 2)], points.at(-1)].map(({ value }) => words.drawable(value));
  return half > 0 && most > 8 * half;
}
