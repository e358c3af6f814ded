// Traces and layout of the time series chart, for plotly.js, and axes that other charts share.

import { outline } from "./timeseries.js";

const LOG_RATIO = 8; // of the largest to the smallest value, above which the axis is logarithmic by default
const ZERO_SHARE = 0.5; // of the largest value: the axis omits zero if all values are above, to use its height
const AXIS_HEIGHT = 40; // pixels of the chart's height that the time axis and the margins take
const TIME_WIDTH = 110; // pixels for each tick label of the time axis
const NUMBER_WIDTH = 70; // pixels for each tick label of another axis
const LOG_NUMBER_WIDTH = 27; // pixels for each tick label of a log axis
const LABEL_HEIGHT = 15; // pixels between two labels at the ends of lines
const LETTER_WIDTH = 8; // pixels for each letter of such a label
const MAX_DECADES = 4; // a log axis over more of them has ticks at powers of ten only
const POINT_MARGIN = 30_000; // milliseconds on both sides of a single point
// Longest time axes, in milliseconds, whose ticks show fractions of seconds, seconds, and no date.
const [MAX_FRACTIONS, MAX_SECONDS, MAX_MINUTES] = [8_000, 600_000, 129_600_000];

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

function valueRange(points) {
  const values = points.flatMap((point) => point.lines.map((line) => line.value)).filter((y) => y !== null);
  return [Math.min(...values), Math.max(...values)];
}

// Return true if the lines are so far apart that a linear axis would flatten the lower ones.
export function isWide({ points }) {
  const [least, most] = valueRange(points);
  return least > 0 && most / least > LOG_RATIO;
}

// size is {width, height} of the element; marks(colors, most, log, width) gives shapes and annotations of alarms.
export function layout(timeSeries, phis, colors, format, { size, log: logSelected, marks, unit }) {
  const { points, span, last } = timeSeries;
  const [least, most] = valueRange(points);
  const kind = format.axis(last.type);
  const log = logSelected && !kind.type && least > 0;
  const zero = least >= 0 && least < ZERO_SHARE * most && !log;
  const bottom = zero ? 0 : least;
  const from = Number.isFinite(span) ? last.t - span : points[0].t;
  const around = last.dated ? POINT_MARGIN : POINT_MARGIN / 1000; // a single point is in the middle
  const range = from < last.t ? [from, last.t] : [from - around, from + around];
  const thresholds = marks(colors, most, log, size.width);
  const longest = Math.max(...phis.map((phi) => format.phi(phi).length));
  return {
    label: `Quantiles over time. ${phis.map((phi, i) => `${format.phi(phi)} ${last.lines[i].text}${unit}`).join(", ")}.`,
    hovermode: "x unified",
    margin: { l: 8, r: Math.max(38, 10 + LETTER_WIDTH * longest), t: 10, b: 8 },
    xaxis: {
      ...timeAxis(last.dated, range[1] - range[0]),
      range,
      showgrid: false,
      showline: true,
      ...horizontalTicks(size.width, TIME_WIDTH),
      spikethickness: 1,
      spikecolor: colors.muted,
      spikedash: "dot",
    },
    yaxis: {
      ...kind,
      title: unit.trim(),
      ...(log ? logAxis(least, most) : {}),
      rangemode: zero ? "tozero" : "normal",
      nticks: 7,
      separatethousands: true,
      exponentformat: "e",
      minexponent: 9,
    },
    shapes: thresholds.shapes,
    annotations: [
      ...thresholds.annotations,
      ...lineLabels(last, phis, colors, format, { ...size, bottom, most, log }),
    ],
  };
}

// Layout of a chart without points.
export const emptyLayout = (colors) => ({
  label: "Quantiles over time. Nothing yet.",
  xaxis: { visible: false },
  yaxis: { visible: false },
  annotations: [{ text: "nothing to draw yet", showarrow: false, font: { color: colors.muted, size: 13 } }],
});

// A log axis with ticks at 1, 2 and 5 times each power of ten, or at the powers alone if these are many or the axis is
// too short for more.
export function logAxis(low, high, width = Infinity) {
  const [first, last] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  const few = last - first > MAX_DECADES || 3 * (last - first) * LOG_NUMBER_WIDTH > width;
  const leads = few ? [1] : [1, 2, 5];
  const tickvals = [];
  for (let power = first; power <= last; power += 1) tickvals.push(...leads.map((lead) => Number(`${lead}e${power}`)));
  const ticktext = tickvals.map((y) => y.toLocaleString("en", { maximumSignificantDigits: 3 }));
  return { type: "log", tickmode: "array", tickvals, ticktext };
}

// As many tick labels as fit below an axis without being rotated.
export const horizontalTicks = (width, each = NUMBER_WIDTH) => ({
  tickangle: 0,
  nticks: Math.max(3, Math.round(width / each)),
});

// Format of the time axis: the shorter its span, the finer its ticks.
function timeAxis(dated, span) {
  if (!dated) return { type: "linear", ticksuffix: " s" };
  const fine = { type: "date", hoverformat: "%d %b %H:%M:%S" };
  if (span < MAX_FRACTIONS) return { ...fine, tickformat: "%H:%M:%S.%1f" };
  if (span < MAX_SECONDS) return { ...fine, tickformat: "%H:%M:%S" };
  return { ...fine, tickformat: span < MAX_MINUTES ? "%H:%M" : "%d %b %H:%M" };
}

// Labels at the ends of the lines, moved up where lines are too close.
function lineLabels(last, phis, colors, format, { bottom, most, height, log }) {
  const scale = (y) => (log ? Math.log10(y) : y);
  const whole = scale(most) - scale(bottom) || 1;
  const pixel = (y) => ((scale(y) - scale(bottom)) / whole) * (height - AXIS_HEIGHT);
  let bottomEnd = -Infinity;
  return phis.flatMap((phi, i) => {
    const y = last.lines[i].value;
    if (y === null) return [];
    const labelY = Math.max(pixel(y), bottomEnd);
    bottomEnd = labelY + LABEL_HEIGHT;
    const font = { color: colors.series[i], size: 12, weight: 650 };
    const end = { x: 1, xref: "paper", xanchor: "left", xshift: 5 };
    const height = { y: scale(y), yanchor: "middle", yshift: labelY - pixel(y) };
    return [{ ...end, ...height, text: format.phi(phi), showarrow: false, font }];
  });
}
