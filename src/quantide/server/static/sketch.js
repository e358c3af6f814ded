// The first sight of the chart: its lines without axes, drawn at once, while the charts' library is still being read.

import { outline } from "./course.js";
import { drawn } from "./dom.js";

const EDGE = { left: 36, right: 38, top: 10, bottom: 30 }; // about where the chart will have them

export function sketch(element, points, colors) {
  const all = points.flatMap((point) => point.lines.map((line) => line.value)).filter((y) => y !== null);
  if (!all.length) return;
  const [width, height] = [element.clientWidth, element.clientHeight];
  const [from, to] = [points[0].t, points.at(-1).t];
  const [least, most] = [Math.min(0, ...all), Math.max(...all) * 1.06];
  const x = (t) => (EDGE.left + ((t - from) / (to - from || 1)) * (width - EDGE.left - EDGE.right)).toFixed(1);
  const y = (v) => (height - EDGE.bottom - ((v - least) / (most - least || 1)) * (height - EDGE.top - EDGE.bottom)).toFixed(1);
  const path = (xs, ys, close) => xs.reduce((said, t, i) => (t === null || ys[i] === null ? said : `${said}${i === 0 || xs[i - 1] === null || ys[i - 1] === null ? "M" : "L"}${x(t)} ${y(ys[i])}`), "") + close;
  const parts = points[0].lines.flatMap((_, i) => {
    const band = outline(points, i);
    const values = points.map((point) => point.lines[i].value);
    return [
      drawn("path", { d: path(band.x, band.y, "Z"), fill: colors.fade(colors.series[i], 0.25) }),
      drawn("path", { d: path(points.map((point) => point.t), values, ""), fill: "none", stroke: colors.series[i], "stroke-width": 2 }),
    ];
  });
  element.replaceChildren(drawn("svg", { class: "sketch", width, height, "aria-hidden": "true" }, parts));
}
