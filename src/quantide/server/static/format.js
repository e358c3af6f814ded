// Numbers, times and units as text; and values as numbers, for drawing.

const DURATION_UNITS = { ns: 1e-9, us: 1e-6, ms: 1e-3, s: 1 };
const SPAN_UNITS = [
  ["week", 604800],
  ["day", 86400],
  ["h", 3600],
  ["min", 60],
  ["s", 1],
];
const UNIT_SECONDS = {
  ...DURATION_UNITS,
  ...{ s: 1, second: 1, seconds: 1, m: 60, min: 60, minute: 60, minutes: 60, h: 3600, hour: 3600, hours: 3600 },
  ...{ d: 86400, day: 86400, days: 86400, w: 604800, week: 604800, weeks: 604800 },
};
const MOMENT = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?)?(Z|[+-]\d\d:\d\d)?$/;
const DURATION = /^(-?\d+) (ns|us|ms|s)$/;

const formatters = new Map();
function formatter(options) {
  const name = JSON.stringify(options);
  if (!formatters.has(name)) formatters.set(name, new Intl.NumberFormat("en", options));
  return formatters.get(name);
}

// A value of the API as text: 41.23, 1,234,567, 0.00123, 2.5e-9, 1.5 s, 2026-01-31 12:00:00, ∞.
export function number(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "string") return text(value);
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e15)) return value.toExponential(3).replace("e+", "e");
  if (Number.isInteger(value) || size >= 10_000) return formatter({ maximumFractionDigits: 0 }).format(value);
  return formatter({ maximumSignificantDigits: 4 }).format(value);
}

function text(value) {
  if (value === "inf") return "∞";
  if (value === "-inf") return "-∞";
  const duration = DURATION.exec(value);
  if (duration) return seconds(Number(duration[1]) * DURATION_UNITS[duration[2]]);
  if (MOMENT.test(value)) return time(value);
  if (/^-?\d{16,}$/.test(value)) return formatter({}).format(BigInt(value)); // too large for a JavaScript number
  return value !== "" && Number.isFinite(Number(value)) ? number(Number(value)) : value;
}

// A measured value with four significant digits, including trailing zeros, so that the values of a table have as many.
// An integer has no fraction unless one of the values `beside` it has.
export function steady(value, beside = []) {
  const parsed = asNumber(value);
  if (parsed === null || [parsed, ...beside.map(asNumber)].every((one) => one === null || Number.isInteger(one))) {
    return number(value);
  }
  const size = Math.abs(parsed);
  if (size === 0) return "0";
  if (size < 1e-4 || size >= 10_000) return number(value);
  return formatter({ minimumSignificantDigits: 4, maximumSignificantDigits: 4 }).format(parsed);
}

// Number from a number, or from a decimal, which is text; null from anything else.
function asNumber(value) {
  const parsed = typeof value === "string" && value !== "" ? Number(value) : value;
  return Number.isFinite(parsed) ? parsed : null;
}

// Two bounds, the lower rounded down and the upper up, so that the text stays proved.
export function bounds(low, high) {
  if (typeof low !== "number" || typeof high !== "number") return [String(low ?? "–"), String(high ?? "–")];
  const size = Math.max(Math.abs(low), Math.abs(high));
  const whole = Number.isSafeInteger(low) && Number.isSafeInteger(high) && size < 1e15;
  if (whole) return [number(low), number(high)];
  const digits = Math.ceil(Math.log10(size / (high - low))) + 1;
  if (!Number.isFinite(digits) || digits > 12 || size >= 1e15 || size < 1e-4) return [String(low), String(high)];
  const places = Math.max(0, Math.min(12, Math.max(digits, 4) - 1 - Math.floor(Math.log10(size))));
  const shown = formatter({ minimumFractionDigits: places, maximumFractionDigits: places });
  const unit = 10 ** places;
  const outwards = (value, round) => (Number(value.toFixed(places)) === value ? value : round(value * unit) / unit);
  return [shown.format(outwards(low, Math.floor)), shown.format(outwards(high, Math.ceil))];
}

// A value as a number to draw: durations in seconds, times in milliseconds, null if it cannot be drawn.
export function drawable(value) {
  if (typeof value === "number") return value;
  if (typeof value !== "string") return null;
  const duration = DURATION.exec(value);
  if (duration) return Number(duration[1]) * DURATION_UNITS[duration[2]];
  if (MOMENT.test(value)) return moment(value);
  const parsed = Number(value);
  return value !== "" && Number.isFinite(parsed) ? parsed : null;
}

// Options of an axis of such values: {type: "date"} for times, a suffix for durations.
export function axis(valueType = "") {
  if (/^(timestamp|date)/.test(valueType)) return { type: "date" };
  if (valueType.startsWith("duration")) return { ticksuffix: " s" };
  return {};
}

// Milliseconds since 1970 from a time of a stream; times that are seconds, as numbers, remain seconds.
export function moment(t) {
  if (typeof t === "number") return t;
  if (typeof t !== "string") return null;
  const day = t.length === 10 ? t + "T00:00" : t;
  const zoned = /(Z|[+-]\d\d:\d\d)$/.test(day) ? day : day + "Z";
  return Date.parse(zoned.replace(/(\.\d{3})\d+/, "$1"));
}

export const isMoment = (t) => typeof t === "string" && MOMENT.test(t);

// A time of a stream: 12:00:00, with its day when that is not today; seconds as a number.
export function time(t) {
  if (t === null || t === undefined) return "–";
  if (typeof t === "number") return number(t) + " s";
  const iso = new Date(moment(t)).toISOString();
  const clock = iso.slice(11, 19);
  const day = iso.slice(0, 10);
  if (t.length === 10) return day;
  return day === new Date().toISOString().slice(0, 10) ? clock : `${day} ${clock}`;
}

// 0.0123 is 1.23 %.
export function percent(fraction, digits = 3) {
  return fraction === null || fraction === undefined
    ? "–"
    : formatter({ maximumSignificantDigits: digits }).format(fraction * 100) + "\u00a0%";
}

// A percentage rounded up, so that "at most" stays true.
export const percentUp = (fraction) =>
  formatter({ maximumSignificantDigits: 2, roundingMode: "ceil" }).format(noisefree(fraction * 100)) + "\u00a0%";

// A share between two bounds, "17 to 23 %": rounded outwards, and one number where both round to the same.
export function percents(low, high) {
  if (percent(low) === percent(high)) return percent(low);
  const down = formatter({ maximumSignificantDigits: 2, roundingMode: "floor" }).format(noisefree(low * 100));
  return down + " to " + percentUp(high);
}

// A certified error in ranks of n, and as a share: "7 (0.00007 %)". Both are rounded up, so that the text stays proved.
export function rankError(error, n) {
  return `${formatter({}).format(Math.ceil(noisefree(error * n)))} (${percentUp(error)})`;
}

const noisefree = (x) => Number(x.toPrecision(9)); // 7 / n * n may be a little more than 7

// 12,345 is 12,345; 12,345,678 is 12.3 M.
export function count(n) {
  if (n === null || n === undefined) return "–";
  const steps = [
    [1e12, "T"],
    [1e9, "G"],
    [1e6, "M"],
  ];
  const [size, unit] = steps.find(([size]) => n >= size) ?? [1, ""];
  if (!unit) return formatter({}).format(n);
  return formatter({ maximumSignificantDigits: 3 }).format(n / size) + "\u00a0" + unit;
}

// A shorter count where there is little room: 600,335 is 600 k.
export const shortCount = (n) =>
  n >= 1e3 && n < 1e6 ? formatter({ maximumSignificantDigits: 3 }).format(n / 1e3) + "\u00a0k" : count(n);

export function bytes(n) {
  if (n === null || n === undefined) return "–";
  const steps = [
    [1e12, "TB"],
    [1e9, "GB"],
    [1e6, "MB"],
    [1e3, "kB"],
  ];
  const [size, unit] = steps.find(([size]) => n >= size) ?? [1, "B"];
  return formatter({ maximumSignificantDigits: 3 }).format(n / size) + "\u00a0" + unit;
}

// A short length of time as one number: 1.5 s, 12 ms, 3 min.
export function seconds(s) {
  if (s === null || s === undefined) return "–";
  const size = Math.abs(s);
  const steps = [
    [86400, "d"],
    [3600, "h"],
    [60, "min"],
    [1, "s"],
    [1e-3, "ms"],
    [1e-6, "µs"],
    [1e-9, "ns"],
  ];
  const [unit, name] = size === 0 ? [1, "s"] : (steps.find(([unit]) => size >= unit) ?? steps.at(-1));
  return formatter({ maximumSignificantDigits: 3 }).format(s / unit) + "\u00a0" + name;
}

const pluralEnding = (times, name) => (times !== 1 && (name === "day" || name === "week") ? "s" : "");
const withUnit = (times, name) => `${times}\u00a0${name}${pluralEnding(times, name)}`;

// A length of time in full: 1 h 30 min, 5 min, 2 days.
export function span(s) {
  const parts = [];
  let left = Math.round(s * 1000) / 1000;
  for (const [name, size] of SPAN_UNITS) {
    const times = size === 1 ? Math.round(left * 1000) / 1000 : Math.floor(left / size + 1e-9);
    left -= times * size;
    if (times > 0) parts.push(withUnit(times, name));
  }
  return parts.join(" ") || "0\u00a0s";
}

// Seconds of a length of time as users and the API write it: "5m", "1 h 30 min", "1 d". null if the text is not one.
export function readSpan(text) {
  let sum = 0;
  let rest = String(text).trim();
  if (!rest) return null;
  while (rest) {
    const part = /^(\d+(?:\.\d+)?)\s*([a-z]+)\s*/.exec(rest);
    if (!part || !(part[2] in UNIT_SECONDS)) return null;
    sum += Number(part[1]) * UNIT_SECONDS[part[2]];
    rest = rest.slice(part[0].length);
  }
  return sum;
}

// Text of a time that is s seconds ago: "just now", "12 s ago", "3 min ago".
export function ago(s) {
  if (s === null || s === undefined) return "–";
  if (s < 1) return "just now";
  const [name, size] = SPAN_UNITS.find(([, size]) => s >= size);
  const times = Math.floor(s / size);
  return `${withUnit(times, name)} ago`;
}

// A key: columns with a dot between them; null is all keys.
export function key(value) {
  if (value === null || value === undefined) return "all keys";
  return Array.isArray(value) ? value.join(" · ") : String(value);
}

// A key inside a sentence: "ECHO", or "eu · 8".
export const quotedKey = (value) => `"${key(value)}"`;

// A window as text: "last 5 min", "last 10,000 values".
export function window(text) {
  const within = /^within:(.+)$/.exec(text ?? "");
  if (within) return `last ${span(readSpan(within[1]) ?? 0)}`;
  const last = /^last:(\d+)$/.exec(text ?? "");
  if (last) return latest(Number(last[1]), "value");
  const steps = /^steps:(\d+)$/.exec(text ?? "");
  if (steps) return steps[1] === "0" ? "open step" : latest(Number(steps[1]), "step");
  return text === "all" || !text ? "everything" : text;
}

// A number of things: "1 file", "2 files".
export const counted = (n, name) => `${count(n)} ${name}${n === 1 ? "" : "s"}`;

const latest = (n, name) => (n === 1 ? `last ${name}` : `last ${counted(n, name)}`);

// 0.99 is p99, 0.9999 is p99.99; twelve digits, so that no tail is called p100.
export function phi(value) {
  return "p" + formatter({ maximumSignificantDigits: 12 }).format(value * 100);
}
