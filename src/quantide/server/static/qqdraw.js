// Traces and layout of the Q-Q plot, for plotly.js.
import { escapeMarkup } from "./dom.js";
import { horizontalTicks, logAxis } from "./figure.js";
import * as format from "./format.js";

const NAMED_PHIS = [0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999];

const ON_DIAGONAL = 0.03; // of the width: a point closer to the diagonal counts as on it

// Traces: points, coloured and sized by phi; rings with the values of continuous queries; labelled points. names are
// those of both series, unit follows a value.
export function pairTraces(body, liveValues, ranges, names, unit, colors) {
  const points = body.points.map(({ phi, x, y }) => plotPoint(phi, x, y, unit));
  const [first, last] = [points[0].phi, points.at(-1).phi];
  const complete = [...liveValues].filter(([, { x, y }]) => x !== undefined && y !== undefined);
  const rings = complete.map(([phi, { x, y }]) => plotPoint(phi, x, y, unit));
  const marks = namedPoints(points, first, last);
  return [
    {
      ...markerTrace(points, names),
      marker: {
        color: points.map(({ phi }) => phi),
        cmin: first,
        cmax: last,
        size: points.map(({ phi }) => 5 + (4 * (phi - first)) / (last - first)),
        opacity: 0.9,
        line: { width: 0 },
        colorscale: [[0, colors.series[1]], [1, colors.series[0]]],
      },
    },
    {
      ...markerTrace(rings, names, ", a continuous query"),
      marker: { symbol: "circle-open", size: 12, color: colors.ink, line: { width: 1.5 } },
    },
    {
      ...markerTrace(marks, names),
      mode: "markers+text",
      textposition: marks.map((mark) => labelPosition(mark, ranges)),
      textfont: { color: colors.ink, size: 13 },
      marker: { symbol: "diamond", size: 11, color: colors.accent, line: { width: 1.5, color: colors.panel } },
      cliponaxis: false,
    },
  ];
}

const plotPoint = (phi, x, y, unit) => ({
  phi,
  x: format.drawable(x),
  y: format.drawable(y),
  texts: [format.steady(x) + unit, format.steady(y) + unit],
});

const markerTrace = (points, names, suffix = "") => ({
  x: points.map(({ x }) => x),
  y: points.map(({ y }) => y),
  text: points.map(({ phi }) => format.phi(phi)),
  customdata: points.map(({ texts }) => texts),
  mode: "markers",
  hovertemplate:
    `%{text}${suffix}<br>${escapeMarkup(names.y)}: %{customdata[1]}<br>` +
    `${escapeMarkup(names.x)}: %{customdata[0]}<extra></extra>`,
});

// The points to label: those at NAMED_PHIS or, if these are fewer than two, both ends and the middle.
function namedPoints(points, first, last) {
  const nearest = (phi) => points.reduce((a, b) => (Math.abs(b.phi - phi) < Math.abs(a.phi - phi) ? b : a));
  const near = (last - first) / (points.length - 1) / 20;
  const named = NAMED_PHIS.filter((phi) => Math.abs(nearest(phi).phi - phi) <= near);
  return [...new Set((named.length > 1 ? named : [first, (first + last) / 2, last]).map(nearest))];
}

// Position of the label of a point: away from the diagonal, and inside the plot.
function labelPosition({ x, y }, { x: [low, high], position }) {
  const share = (value) => (position(value) - low) / (high - low); // of the width
  if (share(x) < 0.12) return "bottom right";
  if (share(x) < 0.85) return y < x ? "bottom right" : "top left";
  return share(x) - share(y) > ON_DIAGONAL ? "bottom center" : "top left";
}

// Ranges of both axes, equally long, so that equal values are on the diagonal. The ranges before are returned while the
// points still fit them and plotId, which identifies what is shown, is the same.
export function plotRanges(body, log, before, plotId) {
  const position = log ? Math.log10 : Number;
  const along = (axis) => {
    const values = body.points.map((point) => format.drawable(point[axis])).filter((value) => value !== null);
    return values.map(position).filter(Number.isFinite);
  };
  const ends = { x: extent(along("x")), y: extent(along("y")) };
  if (before?.plotId === plotId && ["x", "y"].every((axis) => fits(ends[axis], before[axis]))) return before;
  const allRanks = body.points[0].phi === 0 && body.points.at(-1).phi === 1;
  const both = extent([...Object.values(ends.x), ...Object.values(ends.y)]);
  const [shorter, longer] = [length(ends.x), length(ends.y)].sort((a, b) => a - b);
  const range = (axis) => {
    const middle = (allRanks ? both.low + both.high : ends[axis].low + ends[axis].high) / 2;
    const long = allRanks ? length(both) : longer < 5 * shorter ? longer : length(ends[axis]);
    const half = 0.56 * (long || Math.abs(middle) * 0.01 || 1);
    return [middle - half, middle + half];
  };
  return { plotId, log, position, x: range("x"), y: range("y") };
}

const extent = (values) =>
  values.length ? { low: Math.min(...values), high: Math.max(...values) } : { low: 0, high: 1 };
const length = ({ low, high }) => high - low;
const fits = (ends, [low, high]) => ends.low >= low && ends.high <= high && length(ends) > 0.4 * (high - low);

// width is the width of the element.
export function plotLayout(names, body, ranges, width, colors) {
  const { log } = ranges;
  const ends = [Math.min(ranges.x[0], ranges.y[0]), Math.max(ranges.x[1], ranges.y[1])];
  const [from, to] = log ? ends.map((end) => 10 ** end) : ends;
  const line = { color: colors.muted, width: 1.5, dash: "dash" };
  const axis = (name) => ({
    title: escapeMarkup(names[name]),
    ...format.axis(body[name].value_type),
    ...(log && plotLogAxis(ranges[name], width)),
    range: ranges[name],
    fixedrange: false,
    zeroline: false,
  });
  return {
    xaxis: { ...horizontalTicks(width), ...axis("x") },
    yaxis: axis("y"),
    shapes: [{ type: "line", layer: "below", x0: from, y0: from, x1: to, y1: to, line }],
    margin: { l: 8, r: 14, t: 14, b: 8 },
    dragmode: matchMedia("(pointer: fine)").matches ? "zoom" : false, // a finger scrolls the page
  };
}

const plotLogAxis = ([low, high], width) =>
  high - low > 1 ? logAxis(10 ** low, 10 ** high, width) : { type: "log" };
