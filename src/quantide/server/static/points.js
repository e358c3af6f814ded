// Responses of the API as points of a time series.

import { TimeSeries } from "./timeseries.js";

const DEFAULT_WINDOWS = 6; // the chart spans as many windows unless another span is selected
const MIN_SPAN = 60; // seconds

// Span of the chart in seconds.
export function chartSpan({ window, over }, stream, format) {
  const retained = format.readSpan(stream?.window ?? "") ?? 0;
  const length = format.readSpan((window ?? "").replace("within:", "")) ?? MIN_SPAN;
  return Math.min(over ?? Math.max(MIN_SPAN, DEFAULT_WINDOWS * length), Math.max(retained - length, length));
}

const MAX_EXACT = 1_000_000; // larger windows are not requested with exact quantiles

// True if no band has any width so far: then the next point must be exact, too, or a band would begin with it.
export function isExact({ points }) {
  const exact = ({ n, lines }) => n <= MAX_EXACT && lines.every(({ low, high }) => low === high);
  return points.length > 1 && points.every(exact);
}

// Point from a response of /quantiles, at the end of a time window; at the newest time or now for other windows.
export function readPoint(body, newest, format) {
  const until = body.answers[0].span.until ?? newest;
  const beside = body.answers.map(({ value }) => value);
  const lines = body.answers.map(({ value, low, high }) => readLine(value, low, high, format, beside));
  const dated = format.isMoment(until) || until === null;
  return { t: format.moment(until) ?? Date.now(), dated, n: body.n, lines, type: body.value_type };
}

// Time series from a response of /lines.
export function readTimeSeries(body, seconds, format) {
  const dated = format.isMoment(body.times.at(-1));
  const series = new TimeSeries(dated ? seconds * 1000 : seconds);
  const besides = body.times.map((_, i) => body.lines.map(({ value }) => value[i]));
  series.points = body.times.map((time, i) => ({
    t: format.moment(time),
    dated,
    n: body.n[i],
    lines: body.lines.map(({ value, low, high }) => readLine(value[i], low[i], high[i], format, besides[i])),
    type: body.value_type,
  }));
  return series;
}

function readLine(value, low, high, format, beside) {
  const [from, to] = format.bounds(low, high);
  const band = low === high ? "" : ` (${from} to ${to})`;
  const text = value === null ? "nothing" : format.steady(value, beside) + band;
  return { value: format.drawable(value), low: format.drawable(low), high: format.drawable(high), text };
}
