// How a Q-Q plot is drawn: its points, its marks, its axes.
import { escapeMarkup } from "./dom.js";
import { horizontalTicks, logAxis } from "./figure.js";
import * as format from "./format.js";

const MARKS = [0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999];

const ON = 0.03; // of the width: closer to the diagonal, a point is as good as on it

// The points, coloured and sized by phi; rings that continuous queries move; and labelled points. names are those of
// both series, unit follows a value.
export function pairTraces(found, moving, ranges, names, unit, colors) {
  const points = found.points.map(({ phi, x, y }) => drawn(phi, x, y, unit));
  const [first, last] = [points[0].phi, points.at(-1).phi];
  const whole = [...moving].filter(([, { x, y }]) => x !== undefined && y !== undefined);
  const rings = whole.map(([phi, { x, y }]) => drawn(phi, x, y, unit));
  const marks = marked(points, first, last);
  return [
    {
      ...markers(points, names),
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
      ...markers(rings, names, ", a continuous query"),
      marker: { symbol: "circle-open", size: 12, color: colors.ink, line: { width: 1.5 } },
    },
    {
      ...markers(marks, names),
      mode: "markers+text",
      textposition: marks.map((mark) => beside(mark, ranges)),
      textfont: { color: colors.ink, size: 13 },
      marker: { symbol: "diamond", size: 11, color: colors.accent, line: { width: 1.5, color: colors.panel } },
      cliponaxis: false,
    },
  ];
}

const drawn = (phi, x, y, unit) => ({
  phi,
  x: format.drawable(x),
  y: format.drawable(y),
  texts: [format.steady(x) + unit, format.steady(y) + unit],
});

const markers = (points, names, more = "") => ({
  x: points.map(({ x }) => x),
  y: points.map(({ y }) => y),
  text: points.map(({ phi }) => format.phi(phi)),
  customdata: points.map(({ texts }) => texts),
  mode: "markers",
  hovertemplate:
    `%{text}${more}<br>${escapeMarkup(names.y)}: %{customdata[1]}<br>` + `${escapeMarkup(names.x)}: %{customdata[0]}<extra></extra>`,
});

// The phis that have names of their own; where there are fewer than two, the ends and the middle.
function marked(points, first, last) {
  const nearest = (phi) => points.reduce((a, b) => (Math.abs(b.phi - phi) < Math.abs(a.phi - phi) ? b : a));
  const near = (last - first) / (points.length - 1) / 20;
  const named = MARKS.filter((phi) => Math.abs(nearest(phi).phi - phi) <= near);
  return [...new Set((named.length > 1 ? named : [first, (first + last) / 2, last]).map(nearest))];
}

// Where there is room for the name of a point: away from the diagonal, and not over an edge.
function beside({ x, y }, { x: [low, high], position }) {
  const share = (value) => (position(value) - low) / (high - low); // of the width
  if (share(x) < 0.12) return "bottom right";
  if (share(x) < 0.85) return y < x ? "bottom right" : "top left";
  return share(x) - share(y) > ON ? "bottom center" : "top left";
}

// Both axes equally long, so that equal values are on the diagonal; unchanged while points move only a little.
// `about` identifies the plot: another one gets new axes.
export function plotRanges(found, log, before, about) {
  const position = log ? Math.log10 : Number;
  const along = (axis) => {
    const values = found.points.map((point) => format.drawable(point[axis])).filter((value) => value !== null);
    return values.map(position).filter(Number.isFinite);
  };
  const ends = { x: extent(along("x")), y: extent(along("y")) };
  if (before?.about === about && ["x", "y"].every((axis) => fits(ends[axis], before[axis]))) return before;
  const whole = found.points[0].phi === 0 && found.points.at(-1).phi === 1;
  const both = extent([...Object.values(ends.x), ...Object.values(ends.y)]);
  const [shorter, longer] = [length(ends.x), length(ends.y)].sort((a, b) => a - b);
  const range = (axis) => {
    const middle = (whole ? both.low + both.high : ends[axis].low + ends[axis].high) / 2;
    const long = whole ? length(both) : longer < 5 * shorter ? longer : length(ends[axis]);
    const half = 0.56 * (long || Math.abs(middle) * 0.01 || 1);
    return [middle - half, middle + half];
  };
  return { about, log, position, x: range("x"), y: range("y") };
}

const extent = (values) =>
  values.length ? { low: Math.min(...values), high: Math.max(...values) } : { low: 0, high: 1 };
const length = ({ low, high }) => high - low;
const fits = (ends, [low, high]) => ends.low >= low && ends.high <= high && length(ends) > 0.4 * (high - low);

// width is that of the element.
export function plotLayout(names, found, ranges, width, colors) {
  const { log } = ranges;
  const ends = [Math.min(ranges.x[0], ranges.y[0]), Math.max(ranges.x[1], ranges.y[1])];
  const [from, to] = log ? ends.map((end) => 10 ** end) : ends;
  const line = { color: colors.muted, width: 1.5, dash: "dash" };
  const axis = (name) => ({
    title: escapeMarkup(names[name]),
    ...format.axis(found[name].value_type),
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
