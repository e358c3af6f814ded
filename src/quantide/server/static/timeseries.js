// Time series of quantiles: points with values and bands, no more than a chart can show.

const MOST = 1000; // points
const FINE = 400; // points closer together than a 400th of the span are one
const GAP = 30; // a 30th of the span without a point is a gap

// Points are {t, n, lines: [{value, low, high}, ...]}; t is a number, and only grows. span is in the unit of t, or
// Infinity: then it grows from its first point, and is thinned when it is full.
export class TimeSeries {
  constructor(span) {
    this.span = span;
    this.points = [];
  }

  // Add the newest point. One too close to the last replaces it; points that are too old are removed.
  add(point) {
    const { points, span } = this;
    const last = points.at(-1);
    if (last && point.t < last.t) return;
    const step = Number.isFinite(span) ? span / FINE : 0;
    const before = points.at(-2);
    if (last && (point.t === last.t || (before && last.t - before.t < step))) points.pop();
    points.push(point);
    if (Number.isFinite(span)) {
      let old = 0;
      while (points[old].t < point.t - span) old += 1;
      points.splice(0, old);
    }
    if (points.length > MOST) {
      const end = points.length - 1;
      this.points = points.filter((_, i) => i === end || i % 2 === 0);
    }
  }

  // True if the time since the last point is so long that a straight line would hide a gap.
  misses(point) {
    return this.last !== null && point.t - this.last.t > this.span / GAP;
  }

  get last() {
    return this.points.at(-1) ?? null;
  }
}

// The corners of a band to fill: forth along low, back along high; a gap ends a polygon.
export function outline(points, index) {
  const [x, y] = [[], []];
  let piece = [];
  const end = () => {
    if (piece.length > 1) {
      for (const one of piece) (x.push(one.t), y.push(one.lines[index].low));
      for (const one of piece.reverse()) (x.push(one.t), y.push(one.lines[index].high));
      (x.push(null), y.push(null));
    }
    piece = [];
  };
  for (const point of points) {
    const line = point.lines[index];
    if (line.low === null || line.high === null) end();
    else piece.push(point);
  }
  end();
  return { x, y };
}
