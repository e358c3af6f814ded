// Responses of the API as points of a time series.

import { TimeSeries } from "./timeseries.js";

const TIMES = 6; // windows that the chart reaches back when nothing is chosen
const SHORTEST = 60; // seconds, at least

// Seconds that the chart reaches back.
export function over({ window, over }, stream, format) {
  const retained = format.readSpan(stream?.window ?? "") ?? 0;
  const length = format.readSpan((window ?? "").replace("within:", "")) ?? SHORTEST;
  return Math.min(over ?? Math.max(SHORTEST, TIMES * length), Math.max(retained - length, length));
}

const EXACT = 1_000_000; // values of a window whose quantiles are computed from every row

// True if every band so far is a line: then the next point has to be as exact, or the band would begin with it.
export function isExact({ points }) {
  const exact = ({ n, lines }) => n <= EXACT && lines.every(({ low, high }) => low === high);
  return points.length > 1 && points.every(exact);
}

// Response of /quantiles. Time windows have an end; other windows use the newest time, or the clock.
export function point(body, newest, format) {
  const until = body.answers[0].span.until ?? newest;
  const beside = body.answers.map(({ value }) => value);
  const lines = body.answers.map(({ value, low, high }) => line(value, low, high, format, beside));
  const dated = format.isMoment(until) || until === null;
  return { t: format.moment(until) ?? Date.now(), dated, n: body.n, lines, type: body.value_type };
}

// Response of /lines: a whole time series.
export function readTimeSeries(body, seconds, format) {
  const dated = format.isMoment(body.times.at(-1));
  const series = new TimeSeries(dated ? seconds * 1000 : seconds);
  const besides = body.times.map((_, i) => body.lines.map(({ value }) => value[i]));
  series.points = body.times.map((time, i) => ({
    t: format.moment(time),
    dated,
    n: body.n[i],
    lines: body.lines.map(({ value, low, high }) => line(value[i], low[i], high[i], format, besides[i])),
    type: body.value_type,
  }));
  return series;
}

function line(value, low, high, format, beside) {
  const [from, to] = format.bounds(low, high);
  const band = low === high ? "" : ` (${from} to ${to})`;
  const text = value === null ? "nothing" : format.steady(value, beside) + band;
  return { value: format.drawable(value), low: format.drawable(low), high: format.drawable(high), text };
}
