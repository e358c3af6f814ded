// Panel "Now": current quantiles as tiles and their time series as a chart, refreshed after commits and new selections.

import { TimeSeries } from "./timeseries.js";
import { make } from "./dom.js";
import * as timeSeriesChart from "./timeserieschart.js";
import * as quantileTiles from "./quantiletiles.js";
import { sameKey } from "./series.js";
import { chartSpan, isExact, readPoint, readTimeSeries } from "./points.js";
import * as windowChooser from "./windowchooser.js";
import { updateTitle } from "./title.js";

const BODY = [0.5, 0.9, 0.99];
const TAILS = [0.99, 0.999, 0.9999];
const MAX_KEYS = 100; // keys that are searched for a selected key without values
const MIN_POINTS = 5; // fewer points of the past are not shown as a line
const POINTS = 100; // points of the past that are requested
const DEBOUNCE = 120; // milliseconds after the last change of the selection before the past is requested
const BACKOFF = 1000; // milliseconds after a failed request before a commit triggers the next one
const MAX_BACKOFF = 10_000; // milliseconds; the backoff doubles up to this while the selected key has no values
const REQUEST_FIELDS = ["stream", "key", "window", "filter", "tails"]; // of the selection

// Returns two promises: the first lines are shown, at least as a preview; the first chart is drawn.
export function mount(element, app) {
  const { api, state, streams, format } = app;
  const part = (name) => document.getElementById(name);
  const [subjectLine, note, replacementLine] = [part("now-what"), part("now-note"), part("now-replaced")];
  const phis = () => (state.get().tails ? TAILS : BODY);
  let tiles = null;
  const chart = timeSeriesChart.mount(part("lines"), phis, app);
  app.window = windowChooser.mount(part("window"), app);
  const selectFilter = () => state.set({ filter: filterSelect.value || null });
  const filterSelect = make("select", {
    "aria-label": "Filter",
    class: "head-select",
    hidden: true,
    change: selectFilter,
  });
  const toOption = ([value, shown]) => new Option(shown.map(format.phi).join(", "), value);
  const selectQuantiles = () => state.set({ tails: quantilesSelect.value === "tails" || null });
  const quantilesSelect = make("select", { "aria-label": "Quantiles", class: "head-select", change: selectQuantiles });
  quantilesSelect.append(...[["", BODY], ["tails", TAILS]].map(toOption));
  subjectLine.after(filterSelect, quantilesSelect);
  let timeSeries = null; // null until the past of the selection is loaded
  let inFlight = null; // AbortController of the current request for quantiles
  let refreshPending = false; // another refresh follows the current request
  let backoffEnd = 0;
  let retryTimer = null;
  let missCount = 0; // consecutive requests that failed because the key has no values
  let announceNext = true; // the next response is the first of a new selection
  let shownStream = null; // name of the stream that is shown; null while it is not ready
  let pastRequest = null; // AbortController
  let loadingPast = false;
  let pastTimer = null;
  const linesShown = Promise.withResolvers();
  const chartDrawn = Promise.withResolvers();

  const path = (name) => `/api/streams/${encodeURIComponent(state.get().stream)}/${name}`;
  const params = () => {
    const { key, window, filter } = state.get();
    return { phi: phis(), key, window, filter };
  };

  const isTimed = () => /^within:/.test(state.get().window ?? "");

  // Request the quantiles, one request at a time: refreshes during a request are combined into one that follows it.
  async function refresh() {
    if (!streams.selected()?.ready) return;
    if (inFlight) {
      refreshPending = true;
      return;
    }
    inFlight = new AbortController();
    const controller = inFlight;
    try {
      const query = { ...params(), band: true };
      if (timeSeries && isTimed() && isExact(timeSeries)) query.mode = "exact"; // as the past of the chart is
      const body = await api.get(path("quantiles"), query, { signal: controller.signal });
      if (controller === inFlight) showResponse(body);
    } catch (error) {
      if (controller === inFlight) showError(error);
    }
    if (controller !== inFlight) return;
    inFlight = null;
    if (refreshPending) {
      refreshPending = false;
      refresh();
    }
  }

  // Refresh after a commit: now, or at the end of the backoff.
  function refreshAfterBackoff() {
    const wait = backoffEnd - performance.now();
    if (wait <= 0) refresh();
    else retryTimer ??= setTimeout(() => ((retryTimer = null), refresh()), wait);
  }

  function showResponse(body) {
    showNote("");
    missCount = 0;
    app.keyMissing = false;
    tiles.show(body);
    // An approximate response to a request that was sent before the past was loaded is no point of an exact chart.
    const early = isTimed() && timeSeries && isExact(timeSeries) && body.mode !== "exact";
    if (timeSeries && !early) {
      const newest = readPoint(body, streams.selected().newest, format);
      if (!timeSeries.hasGapBefore(newest)) {
        timeSeries.add(newest);
        show();
      } else if (!loadingPast) loadPast(); // the page was hidden or the server down: no line across the gap
    }
    if (announceNext) {
      announceNext = false;
      const all = body.answers.map(({ value }) => value);
      const values = body.answers.map(({ phi, value }) => `${format.phi(phi)} ${format.steady(value, all)}${streams.unit()}`);
      app.announce(`${describeSelection()}: ${values.join(", ")}`, "selection");
    }
  }

  function showError(error) {
    if (error.name === "AbortError" || error.code === "unreachable") return; // the header reports it
    app.keyMissing = error.code === "unknown_key"; // the comparison requests nothing until the key has values
    backoffEnd = performance.now() + Math.min(MAX_BACKOFF, BACKOFF * 2 ** missCount);
    missCount = app.keyMissing ? missCount + 1 : 0;
    if (app.keyMissing) explainMissingKey();
    else if (error.code === "empty") showNote(emptyMessage());
    else showNote(error.message, true);
    tiles.clear();
  }

  function emptyMessage() {
    const { key } = state.get();
    const subject = key === undefined ? "Nothing" : `Nothing of ${key === null ? format.key(key) : format.quotedKey(key)}`;
    return `${subject} lies in this window. Choose a longer one, or wait for values.`;
  }

  // Explain why a key has no values in the window: the stream may not have this key at all.
  async function explainMissingKey() {
    const { stream, key } = state.get();
    const contains = String([key].flat()[0]).slice(0, 100);
    const matches = await api.get(path("keys"), { contains, limit: MAX_KEYS }).catch(() => null);
    if (!app.keyMissing || !sameKey(state.get().key, key)) return;
    const unknown = matches?.count <= MAX_KEYS && !matches.keys.some((one) => sameKey(one, key));
    if (key === "" && matches && !matches.keys.includes("")) return state.set({ key: null }); // "" sorts first
    showNote(
      unknown
        ? `The stream ${stream} has no key ${format.quotedKey(key)}. The page keeps looking for it.`
        : emptyMessage(),
    );
  }

  // Load the past of a time window; for other windows the chart begins now.
  async function loadPast() {
    pastRequest?.abort();
    pastRequest = new AbortController();
    loadingPast = true;
    const controller = pastRequest;
    const window = windowChooser.parseWindow(state.get().window, format);
    const seconds = chartSpan(state.get(), streams.selected(), format);
    if (window?.kind !== "within") {
      startTimeSeries(new TimeSeries(Infinity));
      return;
    }
    try {
      const query = { ...params(), over: `${seconds}s`, points: POINTS };
      const body = await api.get(path("lines"), query, { signal: controller.signal });
      if (controller === pastRequest) startTimeSeries(withOpenStart(readTimeSeries(body, seconds, format)));
    } catch (error) {
      if (error.name === "AbortError" || controller !== pastRequest) return;
      startTimeSeries(
        new TimeSeries(Infinity),
        error.code === "unknown_key" ? "" : `No past is shown: ${error.message}`,
      );
    }
  }

  // A window as long as the retained rows has no past: the span of its chart is not fixed, but grows from now on.
  function withOpenStart(loaded) {
    if (loaded.points.length >= MIN_POINTS) return loaded;
    return Object.assign(new TimeSeries(Infinity), { points: loaded.points });
  }

  function startTimeSeries(loaded, reason = "") {
    timeSeries = loaded;
    loadingPast = false;
    element.classList.remove("waiting");
    show();
    chart.showNote(reason);
    refresh();
  }

  function show(drawable = timeSeries) {
    chartDrawn.resolve(chart.show(drawable));
    linesShown.resolve();
  }

  function describeSelection() {
    const { stream, key, window, filter } = state.get();
    const of = streams.selected()?.key_columns?.length ? format.key(key) : "";
    const parts = [stream, of, filter && `only ${filter}`, window && format.window(window)];
    return parts.filter(Boolean).join(" · ");
  }

  function showNote(text, bad = false) {
    if (note.textContent !== text) note.textContent = text;
    note.hidden = !text;
    note.classList.toggle("error", bad);
  }

  // Offer the filters of the stream; without filters the select is hidden.
  function showFilters() {
    const names = streams.selected()?.filters ?? [];
    filterSelect.hidden = !names.length;
    filterSelect.replaceChildren(
      new Option("all values", ""),
      ...names.map((name) => new Option(`only ${name}`, name)),
    );
    filterSelect.value = state.get().filter ?? "";
  }

  // Abort all requests, and discard what they would have shown.
  function cancelRequests() {
    inFlight?.abort();
    pastRequest?.abort();
    inFlight = pastRequest = timeSeries = null;
    refreshPending = loadingPast = false;
    clearTimeout(retryTimer);
    clearTimeout(pastTimer);
    retryTimer = null;
    element.classList.remove("waiting");
  }

  // Another stream, key, window, filter or other quantiles. A stream that is not selected yet, or not ready, is shown by
  // applyStreamState().
  function applySelection() {
    subjectLine.textContent = describeSelection();
    updateTitle({ stream: state.get().stream });
    cancelRequests();
    announceNext = true;
    [backoffEnd, missCount, app.keyMissing] = [0, 0, false];
    const stream = streams.selected();
    shownStream = stream?.ready && stream.name === state.get().stream ? stream.name : null;
    showFilters();
    if (!shownStream) return;
    if (state.get().key === "" && stream.key_columns.length !== 1) return state.set({ key: null });
    refresh();
    element.classList.add("waiting");
    pastTimer = setTimeout(loadPast, pastTimer === null ? 0 : DEBOUNCE); // the first one is loaded at once
  }

  function applyStreamState() {
    const replacement = streams.replacementNote();
    if (replacementLine.textContent !== replacement) replacementLine.textContent = replacement;
    replacementLine.hidden = !replacement;
    const failure = streams.lastError();
    const stream = streams.selected();
    if (failure || !stream) chartDrawn.resolve(); // no chart will be drawn: the other panels need not wait
    if (failure) showNote(failure.code === "unreachable" ? `${failure.message} Trying again.` : failure.message, true);
    else if (!stream) showNote("There are no streams in the configuration of this server.", true);
    else if (!stream.ready) {
      cancelRequests();
      showNote(`The stream ${stream.name} is not ready: ${stream.why ?? "its store is being opened"}.`);
      subjectLine.textContent = stream.name;
      tiles.clear();
      show(new TimeSeries(Infinity));
    } else if (shownStream !== stream.name) applySelection();
    if (!stream?.ready) shownStream = null;
  }

  // Other quantiles need new tiles.
  function applyQuantiles() {
    quantilesSelect.value = state.get().tails ? "tails" : "";
    tiles = quantileTiles.mount(part("numbers"), phis(), app);
  }

  applyQuantiles();
  state.subscribe((_, changed) => {
    if (changed.has("tails")) applyQuantiles();
    if (REQUEST_FIELDS.some((name) => changed.has(name))) applySelection();
    else if (changed.has("over") && shownStream) loadPast();
    if (changed.has("log")) timeSeries && show();
  });
  streams.onChange(applyStreamState);
  streams.onCommit(refreshAfterBackoff);
  return { linesShown: linesShown.promise, chartDrawn: chartDrawn.promise };
}
