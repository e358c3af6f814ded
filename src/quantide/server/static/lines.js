// The chart of the course: a line for each quantile, and around it the band in which it is proved to lie.

import { Course, outline } from "./course.js";
import { make, table } from "./dom.js";
import { sketch } from "./sketch.js";
import * as thresholds from "./thresholds.js";

const SPANS = [120, 600, 3600, 21600, 86400, 604800]; // seconds that the chart can reach back
const TIMES = 6; // windows it reaches back when nothing is chosen
const SHORTEST = 60; // seconds, at least
const ROWS = 20; // of the table
const FAR = 0.5; // lines that stay above this share of the largest value are drawn without zero: they would look flat
const BORDERS = 40; // pixels of the chart's height that are not for lines
const TICK = 110; // pixels of width for each time that is written
const APART = 15; // pixels between two names at the ends of lines

// Seconds that the chart reaches back.
export function over({ window, over }, stream, words) {
  const kept = words.readSpan(stream?.window ?? "") ?? 86400;
  const length = words.readSpan((window ?? "").replace("within:", "")) ?? SHORTEST;
  return Math.min(over ?? Math.max(SHORTEST, TIMES * length), Math.max(kept - length, length));
}

// What /quantiles answers as a point of a course. Windows of time say where they end.
export function point(body, newest, words) {
  return {
    t: words.moment(body.answers[0].span.until ?? newest) ?? Date.now(),
    n: body.n,
    lines: body.answers.map(({ value, low, high }) => ({
      value: words.drawable(value),
      low: words.drawable(low),
      high: words.drawable(high),
    })),
    type: body.value_type,
    dated: words.isMoment(body.answers[0].span.until ?? newest),
  };
}

// What /lines answers as a course.
export function read(body, seconds, words) {
  const dated = words.isMoment(body.times.at(-1));
  const found = new Course(dated ? seconds * 1000 : seconds);
  body.times.forEach((time, i) => {
    const lines = body.lines.map((line) => ({
      value: words.drawable(line.value[i]),
      low: words.drawable(line.low[i]),
      high: words.drawable(line.high[i]),
    }));
    found.points.push({ t: words.moment(time), n: body.n[i], lines, type: body.value_type, dated });
  });
  return found;
}

export function mount(element, phis, app) {
  const { charts, state, words, streams } = app;
  const log = make("input", { type: "checkbox", change: () => state.set({ log: log.checked || null }) });
  const back = make("select", { "aria-label": "How far back the chart reaches", change: () => state.set({ over: Number(back.value) || null }) });
  const label = make("label", { class: "check" }, log, "log scale");
  document.getElementById("lines-tools").replaceChildren(back, label);
  const details = document.getElementById("lines-table");
  const told = table();
  details.append(told.element);
  const note = document.getElementById("lines-note");
  let limits = null; // listened to when there is a chart to draw them in
  let shown = null;
  let written = 0;

  function offer() {
    const within = /^within:/.test(state.get().window ?? "");
    back.hidden = !within;
    const kept = words.readSpan(streams.chosen()?.window ?? "") ?? 86400;
    const far = over({ window: state.get().window }, streams.chosen(), words);
    const choices = [new Option(`over ${words.span(far)}`, "")];
    for (const one of SPANS) if (one <= kept && one !== far) choices.push(new Option(`over ${words.span(one)}`, one));
    back.replaceChildren(...choices);
    back.value = state.get().over ?? "";
    log.checked = Boolean(state.get().log);
  }

  // Why there is no past, or nothing: then it is said where it cannot be.
  function say(trouble) {
    const within = /^within:/.test(state.get().window ?? "");
    note.textContent = trouble || (within ? "" : "This window has no past to look up: the chart begins now, and grows.");
    note.classList.toggle("error", Boolean(trouble));
  }

  function show(course) {
    shown = course;
    limits ??= thresholds.mount(app, () => show(shown));
    element.classList.remove("skeleton");
    if (course.points.every((point) => !point.n)) return charts.draw(element, [], nothing);
    if (details.open) tell();
    if (!window.Plotly) sketch(element, course.points, charts.colors());
    const size = { width: element.clientWidth, height: element.clientHeight - BORDERS };
    return charts.draw(
      element,
      (colors) => traces(course.points, phis, colors, words),
      (colors) => layout(course, phis, colors, { ...size, log: Boolean(state.get().log), words, limits }),
    );
  }

  // The table, when someone reads it, once a second at most.
  function tell() {
    if (performance.now() - written < 1000) return;
    written = performance.now();
    const step = Math.max(1, Math.ceil(shown.points.length / ROWS));
    const rows = shown.points.toReversed().filter((_, i) => i % step === 0);
    const cells = ({ t, dated, n, lines, type }) => [
      dated ? words.time(new Date(t).toISOString()) : words.time(t),
      words.count(n),
      ...lines.map((line) => inWords(line, type, words)),
    ];
    told.show("Quantiles over time", ["time", "values", ...phis.map(words.phi)], rows.map(cells));
  }

  details.addEventListener("toggle", () => {
    written = 0;
    if (details.open && shown) tell();
  });
  state.subscribe(offer);
  streams.onKnown(offer);
  offer();
  return { show, say };
}

function inWords({ value, low, high }, type, words) {
  if (value === null) return "nothing";
  const one = (number) => (words.axis(type).type === "date" ? words.time(new Date(number).toISOString()) : words.number(number));
  return low === null || low === high ? one(value) : `${one(value)} (${one(low)} to ${one(high)})`;
}

function traces(points, phis, colors, words) {
  const x = points.map((point) => point.t);
  const dated = words.axis(points.at(-1).type).type === "date";
  const bands = phis.map((_, i) => ({
    ...outline(points, i),
    mode: "lines",
    line: { width: 0 },
    fill: "toself",
    fillcolor: colors.fade(colors.series[i], 0.25),
    hoverinfo: "skip",
  }));
  const courses = phis.map((phi, i) => ({
    x,
    y: points.map((point) => point.lines[i].value),
    customdata: points.map((point) => [point.lines[i].low, point.lines[i].high]),
    mode: points.length > 1 ? "lines" : "markers",
    line: { color: colors.series[i], width: 2 },
    marker: { color: colors.series[i], size: 6 },
    name: words.phi(phi),
    hovertemplate: dated ? "%{y}" : "%{y:,.4~r}  (%{customdata[0]:,.4~r} to %{customdata[1]:,.4~r})",
  }));
  return [...bands, ...courses.toReversed()];
}

const nothing = (colors) => ({
  label: "Quantiles over time. Nothing yet.",
  xaxis: { visible: false },
  yaxis: { visible: false },
  annotations: [{ text: "nothing to draw yet", showarrow: false, font: { color: colors.muted, size: 13 } }],
});

function layout(course, phis, colors, { width, height, log, words, limits }) {
  const { points, span } = course;
  const [least, most] = reach(points);
  const last = course.last;
  const kind = words.axis(last.type);
  const range = Number.isFinite(span) ? [last.t - span, last.t] : undefined;
  return {
    label: `Quantiles over time. ${phis.map((phi, i) => `${words.phi(phi)} ${words.number(last.lines[i].value)}`).join(", ")}.`,
    hovermode: "x unified",
    margin: { l: 8, r: 38, t: 10, b: 8 },
    xaxis: { ...moments(last, last.t - (range ?? [points[0].t])[0]), range, autorange: !range, showgrid: false, showline: true, nticks: Math.max(3, Math.round(width / TICK)), tickangle: 0, spikethickness: 1, spikecolor: colors.muted, spikedash: "dot" },
    yaxis: { ...kind, ...(log && !kind.type ? logarithmic(points) : {}), rangemode: least >= 0 && least < FAR * most ? "tozero" : "normal", nticks: 7, separatethousands: true, exponentformat: "power" },
    annotations: names(points, phis, colors, height, log, words),
    shapes: limits.lines(colors, most),
  };
}

// An axis with a few round numbers: 1, 2, 5 of each power of ten, or the powers alone where there are many.
function logarithmic(points) {
  const all = points.flatMap((point) => point.lines.map((line) => line.value)).filter((y) => y > 0);
  const [first, last] = [Math.floor(Math.log10(Math.min(...all))), Math.ceil(Math.log10(Math.max(...all)))];
  const leads = last - first > 4 ? [1] : [1, 2, 5];
  const tickvals = [];
  for (let power = first; power <= last; power += 1) tickvals.push(...leads.map((lead) => Number(`${lead}e${power}`)));
  return { type: "log", tickmode: "array", tickvals, ticktext: tickvals.map((y) => y.toLocaleString("en", { maximumSignificantDigits: 3 })) };
}

// How times are written: as fine as need be, in no more words than fit.
function moments({ dated }, span) {
  if (!dated) return { type: "linear", ticksuffix: " s" };
  const fine = span < 8000 ? "%H:%M:%S.%1f" : span < 10 * 60_000 ? "%H:%M:%S" : span < 36 * 3_600_000 ? "%H:%M" : "%d %b %H:%M";
  return { type: "date", tickformat: fine, hoverformat: "%d %b %H:%M:%S" };
}

// The least and the largest value of all lines.
function reach(points) {
  const all = points.flatMap((point) => point.lines.map((line) => line.value)).filter((y) => y !== null);
  return [Math.min(...all), Math.max(...all)];
}

// The names of the lines at their ends, pushed apart where lines are close.
function names(points, phis, colors, height, log, words) {
  const scale = (y) => (log ? Math.log10(Math.max(y, Number.MIN_VALUE)) : y);
  const all = points.flatMap((point) => point.lines.map((line) => line.value)).filter((y) => y !== null && (!log || y > 0));
  const top = scale(Math.max(...all));
  const bottom = log ? scale(Math.min(...all)) : Math.min(0, ...all);
  const pixel = (y) => ((scale(y) - bottom) / (top - bottom || 1)) * height;
  let free = -Infinity;
  return phis.flatMap((phi, i) => {
    const y = points.at(-1).lines[i].value;
    if (y === null || (log && y <= 0)) return [];
    const wanted = pixel(y);
    const placed = Math.max(wanted, free);
    free = placed + APART;
    return [{ x: 1, xref: "paper", xanchor: "left", xshift: 5, y: scale(y), yref: "y", yshift: placed - wanted, yanchor: "middle", text: words.phi(phi), showarrow: false, font: { color: colors.series[i], size: 12, weight: 650 } }];
  });
}
