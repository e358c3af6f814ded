// Preview of the chart: its lines without axes, drawn as SVG while the chart library is loading.

import { outline } from "./timeseries.js";
import { makeSvg } from "./dom.js";

const EDGE = { left: 36, right: 38, top: 10, bottom: 30 }; // about the margins of the chart

export function drawPreview(element, points, colors, log) {
  const all = points.flatMap((point) => point.lines.map((line) => line.value)).filter((y) => y !== null);
  if (!all.length) return;
  const [width, height] = [element.clientWidth, element.clientHeight];
  const times = points.map((point) => point.t);
  const [from, to] = [times[0], times.at(-1)];
  const scale = log ? Math.log10 : (value) => value;
  const [least, most] = log ? [Math.min(...all), Math.max(...all)] : [Math.min(0, ...all), Math.max(...all) * 1.06];
  const [low, spread] = [scale(least), scale(most) - scale(least) || 1];
  const x = (t) => (EDGE.left + ((t - from) / (to - from || 1)) * (width - EDGE.left - EDGE.right)).toFixed(1);
  const high = height - EDGE.top - EDGE.bottom;
  const y = (v) => (EDGE.top + high - ((scale(v) - low) / spread) * high).toFixed(1);
  const parts = points[0].lines.flatMap((_, i) => {
    const band = outline(points, i);
    const values = points.map((point) => point.lines[i].value);
    return [
      makeSvg("path", { d: path(band.x, band.y, x, y), fill: colors.fade(colors.series[i], 0.25) }),
      makeSvg("path", { d: path(times, values, x, y), fill: "none", stroke: colors.series[i], "stroke-width": 2 }),
    ];
  });
  element.replaceChildren(makeSvg("svg", { class: "chart-preview", width, height, "aria-hidden": "true" }, parts));
}

// Path commands of a line through points, with gaps where a value is missing.
function path(xs, ys, x, y) {
  let [commands, pen] = ["", "M"];
  xs.forEach((t, i) => {
    const there = t !== null && ys[i] !== null;
    if (there) commands += `${pen}${x(t)} ${y(ys[i])}`;
    pen = there ? "L" : "M";
  });
  return commands;
}
