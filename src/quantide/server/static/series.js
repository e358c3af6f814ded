// Series: a window of a stream or of one of its keys; as the parts of URLs, as JSON bodies and as text.
import * as format from "./format.js";

const isSet = (key) => key !== null && key !== undefined;

// The selected series.
export const selectedSeries = ({ stream, key, window, filter }) => ({
  stream,
  key: key ?? null,
  window: window ?? "all",
  filter: filter ?? null,
});

// As /api/qq parses it: stream[:key]@window.
export function seriesAddress({ stream, key, window }) {
  const several = Array.isArray(key) || String(key ?? "").startsWith("[");
  const keyText = several ? JSON.stringify([key].flat()) : key;
  return `${stream}${isSet(key) ? `:${keyText}` : ""}@${window}`;
}

// As query parameters of a route about one stream; null is omitted.
export const seriesParams = ({ key, window, filter }) => ({ key: isSet(key) ? [key].flat() : null, window, filter });

// As fields of a body of queries and alarms.
export const seriesBody = ({ stream, key, window, filter }) => ({
  stream,
  window,
  ...(isSet(key) && { key }),
  ...(filter && { filter }),
});

export const seriesLabel = ({ stream, key, window, filter }) =>
  [stream, format.key(key), format.window(window), ...(filter ? [`only ${filter}`] : [])].join(", ");

// Return true if a key can be selected: a part that is null cannot be written in a URL.
export const isSelectable = (key) => ![key].flat().includes(null);

// null and undefined are all keys.
export const sameKey = (a, b) => JSON.stringify(a ?? null) === JSON.stringify(b ?? null);

export const sameSeries = (a, b) => seriesAddress(a) === seriesAddress(b) && (a.filter ?? null) === (b.filter ?? null);

// "p97.1 to p97.3": rounded outwards, so that the bounds stay valid.
export function phiRange(low, high) {
  const digits = high > low ? Math.min(5, Math.max(1, Math.ceil(-Math.log10((high - low) * 100)) + 1)) : 5;
  const scale = 10 ** digits;
  const [from, to] = [Math.floor(low * 100 * scale + 1e-9) / scale, Math.ceil(high * 100 * scale - 1e-9) / scale];
  return from === to ? `p${from}` : `p${from} to p${to}`;
}
