// Traces and layout of a time series chart, for the chart library.

import { outline } from "./timeseries.js";

const WIDE = 8; // times the least value: a log scale is better to read
const FAR = 0.5; // lines above this share of the largest value are drawn without zero, where they would be flat
const BORDERS = 40; // pixels of the chart's height that are not for lines
const TICK = 110; // pixels of width for each time that is written
const NUMBER = 70; // for each number
const ROUND = 27; // and for each round number on a log axis
const APART = 15; // pixels between two names at the ends of lines
const LETTER = 8; // pixels of width for each letter of such a name
const DECADES = 4; // powers of ten beyond which only these are written
const ALONE = 30_000; // milliseconds on both sides of a single point
const [SECONDS, MINUTES, HOURS] = [8_000, 600_000, 129_600_000]; // milliseconds up to which times are written so finely

export function traces({ points }, phis, colors, format, unit) {
  const x = points.map((point) => point.t);
  const bands = phis.map((_, i) => ({
    ...outline(points, i),
    mode: "lines",
    line: { width: 0 },
    fill: "toself",
    fillcolor: colors.fade(colors.series[i], 0.25),
    hoverinfo: "skip",
  }));
  const curves = phis.map((phi, i) => ({
    x,
    y: points.map((point) => point.lines[i].value),
    customdata: points.map(({ lines }) => [lines[i].low, lines[i].high]),
    text: points.map(({ lines }) => lines[i].text + unit),
    mode: points.length > 1 ? "lines" : "markers",
    line: { color: colors.series[i], width: 2 },
    marker: { color: colors.series[i], size: 6 },
    name: format.phi(phi),
    hovertemplate: "%{text}",
  }));
  return [...bands, ...curves.toReversed()];
}

function reach(points) {
  const values = points.flatMap((point) => point.lines.map((line) => line.value)).filter((y) => y !== null);
  return [Math.min(...values), Math.max(...values)];
}

// Whether the lines lie so far apart that the lower ones would be flat.
export function isWide({ points }) {
  const [least, most] = reach(points);
  return least > 0 && most / least > WIDE;
}

// size is {width, height} of the element; marks(colors, most, log, width) gives shapes and annotations of alarms.
export function layout(timeSeries, phis, colors, format, { size, log: wanted, marks, unit }) {
  const { points, span, last } = timeSeries;
  const [least, most] = reach(points);
  const kind = format.axis(last.type);
  const log = wanted && !kind.type && least > 0;
  const zero = least >= 0 && least < FAR * most && !log;
  const bottom = zero ? 0 : least;
  const from = Number.isFinite(span) ? last.t - span : points[0].t;
  const around = last.dated ? ALONE : ALONE / 1000; // a single point is in the middle
  const range = from < last.t ? [from, last.t] : [from - around, from + around];
  const found = marks(colors, most, log, size.width);
  const longest = Math.max(...phis.map((phi) => format.phi(phi).length));
  return {
    label: `Quantiles over time. ${phis.map((phi, i) => `${format.phi(phi)} ${last.lines[i].text}${unit}`).join(", ")}.`,
    hovermode: "x unified",
    margin: { l: 8, r: Math.max(38, 10 + LETTER * longest), t: 10, b: 8 },
    xaxis: {
      ...times(last.dated, range[1] - range[0]),
      range,
      showgrid: false,
      showline: true,
      ...level(size.width, TICK),
      spikethickness: 1,
      spikecolor: colors.muted,
      spikedash: "dot",
    },
    yaxis: {
      ...kind,
      title: unit.trim(),
      ...(log ? logarithmic(least, most) : {}),
      rangemode: zero ? "tozero" : "normal",
      nticks: 7,
      separatethousands: true,
      exponentformat: "e",
      minexponent: 9,
    },
    shapes: found.shapes,
    annotations: [...found.annotations, ...names(last, phis, colors, format, { ...size, bottom, most, log })],
  };
}

// A chart of nothing.
export const nothing = (colors) => ({
  label: "Quantiles over time. Nothing yet.",
  xaxis: { visible: false },
  yaxis: { visible: false },
  annotations: [{ text: "nothing to draw yet", showarrow: false, font: { color: colors.muted, size: 13 } }],
});

// An axis with a few round numbers: 1, 2, 5 of each power of ten, or the powers alone where there are many, or where
// the axis is too short to write the others.
export function logarithmic(least, most, width = Infinity) {
  const [first, last] = [Math.floor(Math.log10(least)), Math.ceil(Math.log10(most))];
  const few = last - first > DECADES || 3 * (last - first) * ROUND > width;
  const leads = few ? [1] : [1, 2, 5];
  const tickvals = [];
  for (let power = first; power <= last; power += 1) tickvals.push(...leads.map((lead) => Number(`${lead}e${power}`)));
  const ticktext = tickvals.map((y) => y.toLocaleString("en", { maximumSignificantDigits: 3 }));
  return { type: "log", tickmode: "array", tickvals, ticktext };
}

// Level numbers below an axis, as many as fit.
export const level = (width, each = NUMBER) => ({ tickangle: 0, nticks: Math.max(3, Math.round(width / each)) });

// How times are written: as fine as need be, in no more words than fit.
function times(dated, span) {
  if (!dated) return { type: "linear", ticksuffix: " s" };
  const fine = { type: "date", hoverformat: "%d %b %H:%M:%S" };
  if (span < SECONDS) return { ...fine, tickformat: "%H:%M:%S.%1f" };
  if (span < MINUTES) return { ...fine, tickformat: "%H:%M:%S" };
  return { ...fine, tickformat: span < HOURS ? "%H:%M" : "%d %b %H:%M" };
}

// The names of the lines at their ends, pushed apart where lines are close.
function names(last, phis, colors, format, { bottom, most, height, log }) {
  const scale = (y) => (log ? Math.log10(y) : y);
  const whole = scale(most) - scale(bottom) || 1;
  const pixel = (y) => ((scale(y) - scale(bottom)) / whole) * (height - BORDERS);
  let free = -Infinity;
  return phis.flatMap((phi, i) => {
    const y = last.lines[i].value;
    if (y === null) return [];
    const placed = Math.max(pixel(y), free);
    free = placed + APART;
    const font = { color: colors.series[i], size: 12, weight: 650 };
    const end = { x: 1, xref: "paper", xanchor: "left", xshift: 5 };
    const height = { y: scale(y), yanchor: "middle", yshift: placed - pixel(y) };
    return [{ ...end, ...height, text: format.phi(phi), showarrow: false, font }];
  });
}
