// Responses of the API as points of a time series.

import { Course } from "./course.js";

const TIMES = 6; // windows that the chart reaches back when nothing is chosen
const SHORTEST = 60; // seconds, at least

// Seconds that the chart reaches back.
export function over({ window, over }, stream, words) {
  const kept = words.readSpan(stream?.window ?? "") ?? 0;
  const length = words.readSpan((window ?? "").replace("within:", "")) ?? SHORTEST;
  return Math.min(over ?? Math.max(SHORTEST, TIMES * length), Math.max(kept - length, length));
}

// Response of /quantiles. Time windows have an end; other windows use the newest time, or the clock.
export function point(body, newest, words) {
  const until = body.answers[0].span.until ?? newest;
  const lines = body.answers.map(({ value, low, high }) => line(value, low, high, words));
  const dated = words.isMoment(until) || until === null;
  return { t: words.moment(until) ?? Date.now(), dated, n: body.n, lines, type: body.value_type };
}

// Response of /lines: a whole time series.
export function course(body, seconds, words) {
  const dated = words.isMoment(body.times.at(-1));
  const found = new Course(dated ? seconds * 1000 : seconds);
  found.points = body.times.map((time, i) => ({
    t: words.moment(time),
    dated,
    n: body.n[i],
    lines: body.lines.map(({ value, low, high }) => line(value[i], low[i], high[i], words)),
    type: body.value_type,
  }));
  return found;
}

function line(value, low, high, words) {
  const [from, to] = words.bounds(low, high);
  const band = low === high ? "" : ` (${from} to ${to})`;
  const said = value === null ? "nothing" : words.number(value) + band;
  return { value: words.drawable(value), low: words.drawable(low), high: words.drawable(high), said };
}
