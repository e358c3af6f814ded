// Time series of quantiles: points with values and bands, at most as many as a chart can show.

const MAX_POINTS = 1000;
const RESOLUTION = 400; // points closer together than a 400th of the span become one
const GAP = 30; // a 30th of the span without a point is a gap

// Points are {t, n, lines: [{value, low, high}, ...]}, in ascending order of t, a number. span is in the unit of t. If
// it is Infinity, no point is too old, and every second point is removed when there are too many.
export class TimeSeries {
  constructor(span) {
    this.span = span;
    this.points = [];
  }

  // Add the newest point. It replaces the last one if that is at the same time, or too close to the one before. Points
  // that are too old are removed.
  add(point) {
    const { points, span } = this;
    const last = points.at(-1);
    if (last && point.t < last.t) return;
    const step = Number.isFinite(span) ? span / RESOLUTION : 0;
    const before = points.at(-2);
    if (last && (point.t === last.t || (before && last.t - before.t < step))) points.pop();
    points.push(point);
    if (Number.isFinite(span)) {
      let old = 0;
      while (points[old].t < point.t - span) old += 1;
      points.splice(0, old);
    }
    if (points.length > MAX_POINTS) {
      const end = points.length - 1;
      this.points = points.filter((_, i) => i === end || i % 2 === 0);
    }
  }

  // Return true if the last point is so old that a straight line to this one would hide a gap.
  hasGapBefore(point) {
    return this.last !== null && point.t - this.last.t > this.span / GAP;
  }

  get last() {
    return this.points.at(-1) ?? null;
  }
}

// Corners of the polygons that fill a band: along its lower bounds, then back along its upper bounds. A missing value
// ends a polygon.
export function outline(points, index) {
  const [x, y] = [[], []];
  let polygon = [];
  const end = () => {
    if (polygon.length > 1) {
      for (const one of polygon) (x.push(one.t), y.push(one.lines[index].low));
      for (const one of polygon.reverse()) (x.push(one.t), y.push(one.lines[index].high));
      (x.push(null), y.push(null));
    }
    polygon = [];
  };
  for (const point of points) {
    const line = point.lines[index];
    if (line.low === null || line.high === null) end();
    else polygon.push(point);
  }
  end();
  return { x, y };
}
