// Panel "Now": large numbers and their time series, refreshed after every commit and selection.

import { TimeSeries } from "./timeseries.js";
import { make } from "./dom.js";
import * as lines from "./timeserieschart.js";
import * as large from "./quantiletiles.js";
import { isExact, over, point, readTimeSeries } from "./points.js";
import * as chooser from "./windowchooser.js";
import { title } from "./title.js";

const BODY = [0.5, 0.9, 0.99];
const TAILS = [0.99, 0.999, 0.9999];
const KEYS = 100; // that a missing one is looked for among
const FEW = 5; // points of the past are no line
const POINTS = 100; // of the past, to begin with
const SETTLE = 120; // milliseconds after the last move of the slider before the past is requested
const CALM = 1000; // and after a question that failed before commits lead to the next
const CALMEST = 10_000; // while nothing of a key is there, this pause doubles up to here
const ABOUT = ["stream", "key", "window", "filter", "tails"]; // selection that the numbers depend on

// Returns two promises: that the first lines are there, and that the first chart is drawn.
export function mount(element, app) {
  const { api, state, streams, format } = app;
  const part = (name) => document.getElementById(name);
  const [what, note, replaced] = [part("now-what"), part("now-note"), part("now-replaced")];
  const phis = () => (state.get().tails ? TAILS : BODY);
  let numbers = null;
  const chart = lines.mount(part("lines"), phis, app);
  app.window = chooser.mount(part("window"), app);
  const filter = () => state.set({ filter: only.value || null });
  const only = make("select", { "aria-label": "Filter", class: "only", hidden: true, change: filter });
  const names = ([value, shown]) => new Option(shown.map(format.phi).join(", "), value);
  const pick = () => state.set({ tails: quantiles.value === "tails" || null });
  const quantiles = make("select", { "aria-label": "Quantiles", class: "only", change: pick });
  quantiles.append(...[["", BODY], ["tails", TAILS]].map(names));
  what.after(only, quantiles);
  let timeSeries = null; // null until the past is loaded
  let asking = null;
  let again = false;
  let calm = 0;
  let retry = null; // timer of the next question, after one that failed
  let misses = 0; // questions in a row about a key without values
  let fresh = true; // the next answer is the first of another window
  let looked = null; // the selected stream
  let past = null;
  let recalling = false; // the past is being loaded
  let settle = null;
  const begun = Promise.withResolvers();
  const drawn = Promise.withResolvers();

  const path = (name) => `/api/streams/${encodeURIComponent(state.get().stream)}/${name}`;
  const params = () => {
    const { key, window, filter } = state.get();
    return { phi: phis(), key, window, filter };
  };

  const isTimed = () => /^within:/.test(state.get().window ?? "");

  // The numbers. One request at a time; of the selections made during it, only the newest is requested next.
  async function ask() {
    if (!streams.selected()?.ready) return;
    if (asking) {
      again = true;
      return;
    }
    asking = new AbortController();
    const mine = asking;
    try {
      const query = { ...params(), band: true };
      if (timeSeries && isTimed() && isExact(timeSeries)) query.mode = "exact"; // as the past of the chart is
      const body = await api.get(path("quantiles"), query, { signal: mine.signal });
      if (mine === asking) take(body);
    } catch (error) {
      if (mine === asking) fail(error);
    }
    if (mine !== asking) return;
    asking = null;
    if (again) {
      again = false;
      ask();
    }
  }

  // After a commit: at once, or at the end of the pause after a failure.
  function askCalmly() {
    const wait = calm - performance.now();
    if (wait <= 0) ask();
    else retry ??= setTimeout(() => ((retry = null), ask()), wait);
  }

  function take(body) {
    say("");
    misses = 0;
    app.keyMissing = false;
    numbers.show(body);
    const early = isTimed() && timeSeries && isExact(timeSeries) && body.mode !== "exact"; // requested before the past
    if (timeSeries && !early) {
      const newest = point(body, streams.selected().newest, format);
      if (!timeSeries.misses(newest)) {
        timeSeries.add(newest);
        show();
      } else if (!recalling) recall(); // the page was hidden, or the server was away: no line across the gap
    }
    if (fresh) {
      fresh = false;
      const all = body.answers.map(({ value }) => value);
      const values = body.answers.map(({ phi, value }) => `${format.phi(phi)} ${format.steady(value, all)}${streams.unit()}`);
      app.announce(`${subject()}: ${values.join(", ")}`);
    }
  }

  function fail(error) {
    if (error.name === "AbortError" || error.code === "unreachable") return; // the header reports it
    app.keyMissing = error.code === "unknown_key"; // the comparison requests nothing until it comes
    calm = performance.now() + Math.min(CALMEST, CALM * 2 ** misses);
    misses = app.keyMissing ? misses + 1 : 0;
    if (app.keyMissing) explain();
    else if (error.code === "empty") say(nothing());
    else say(error.message, true);
    numbers.clear();
  }

  function nothing() {
    const { key } = state.get();
    const what = key === undefined ? "Nothing" : `Nothing of ${key === null ? format.key(key) : format.quotedKey(key)}`;
    return `${what} lies in this window. Choose a longer one, or wait for values.`;
  }

  // A key without values in the window may be none of the stream at all.
  async function explain() {
    const { stream, key } = state.get();
    const about = JSON.stringify(key);
    const contains = String([key].flat()[0]).slice(0, 100);
    const found = await api.get(path("keys"), { contains, limit: KEYS }).catch(() => null);
    if (!app.keyMissing || JSON.stringify(state.get().key) !== about) return;
    const unknown = found?.count <= KEYS && !found.keys.some((one) => JSON.stringify(one) === about);
    if (key === "" && found && !found.keys.includes("")) return state.set({ key: null }); // keys are sorted
    say(unknown ? `The stream ${stream} has no key ${format.quotedKey(key)}. The page keeps looking for it.` : nothing());
  }

  // The past of a time window; for other windows the chart begins now.
  async function recall() {
    past?.abort();
    past = new AbortController();
    recalling = true;
    const mine = past;
    const window = chooser.read(state.get().window, format);
    const reach = over(state.get(), streams.selected(), format);
    if (window?.kind !== "within") {
      begin(new TimeSeries(Infinity));
      return;
    }
    try {
      const query = { ...params(), over: `${reach}s`, points: POINTS };
      const body = await api.get(path("lines"), query, { signal: mine.signal });
      if (mine === past) begin(withRoom(readTimeSeries(body, reach, format)));
    } catch (error) {
      if (error.name === "AbortError" || mine !== past) return;
      begin(new TimeSeries(Infinity), error.code === "unknown_key" ? "" : `No past is shown: ${error.message}`);
    }
  }

  // A window as long as the stored rows has no past: its chart begins now, and grows.
  function withRoom(loaded) {
    if (loaded.points.length >= FEW) return loaded;
    return Object.assign(new TimeSeries(Infinity), { points: loaded.points });
  }

  function begin(loaded, reason = "") {
    timeSeries = loaded;
    recalling = false;
    element.classList.remove("waiting");
    show();
    chart.say(reason);
    ask();
  }

  function show(drawable = timeSeries) {
    drawn.resolve(chart.show(drawable));
    begun.resolve();
  }

  function subject() {
    const { stream, key, window, filter } = state.get();
    const of = streams.selected()?.key_columns?.length ? format.key(key) : "";
    const parts = [stream, of, filter && `only ${filter}`, window && format.window(window)];
    return parts.filter(Boolean).join(" · ");
  }

  function say(text, bad = false) {
    if (note.textContent !== text) note.textContent = text;
    note.hidden = !text;
    note.classList.toggle("error", bad);
  }

  // Filters that the stream declares; where there are none there is nothing to choose.
  function offer() {
    const names = streams.selected()?.filters ?? [];
    only.hidden = !names.length;
    only.replaceChildren(new Option("all values", ""), ...names.map((name) => new Option(`only ${name}`, name)));
    only.value = state.get().filter ?? "";
  }

  // Another stream, key, window or other quantiles: discard responses to earlier requests.
  function turn() {
    what.textContent = subject();
    title({ what: state.get().stream });
    asking?.abort();
    asking = null;
    again = false;
    fresh = true;
    clearTimeout(retry);
    retry = null;
    [calm, misses, app.keyMissing] = [0, 0, false];
    const stream = streams.selected();
    looked = stream?.ready ? stream.name : null;
    offer();
    if (!stream?.ready) return;
    if (state.get().key === "" && stream.key_columns.length !== 1) return state.set({ key: null });
    ask();
    element.classList.add("waiting");
    clearTimeout(settle);
    settle = setTimeout(recall, timeSeries ? SETTLE : 0);
  }

  function look() {
    const instead = streams.replacementNote();
    if (replaced.textContent !== instead) replaced.textContent = instead;
    replaced.hidden = !instead;
    const failure = streams.lastError();
    const stream = streams.selected();
    if (failure || !stream) drawn.resolve(); // nothing that anyone would wait for
    if (failure) say(failure.code === "unreachable" ? `${failure.message} Trying again.` : failure.message, true);
    else if (!stream) say("There are no streams in the configuration of this server.", true);
    else if (!stream.ready) {
      say(`The stream ${stream.name} is not ready: ${stream.why ?? "its store is being opened"}.`);
      what.textContent = stream.name;
      numbers.clear();
      show(new TimeSeries(Infinity));
    } else if (looked !== stream.name) turn();
    if (!stream?.ready) looked = null;
  }

  // Other quantiles have other tiles, and lines that the loaded points do not have.
  function swap() {
    quantiles.value = state.get().tails ? "tails" : "";
    numbers = large.mount(part("numbers"), phis(), app);
    past?.abort();
    if (timeSeries) timeSeries = new TimeSeries(timeSeries.span);
  }

  swap();
  state.subscribe((_, changed) => {
    if (changed.has("tails")) swap();
    if (ABOUT.some((name) => changed.has(name))) turn();
    else if (changed.has("over")) recall();
    if (changed.has("log")) timeSeries && show();
  });
  streams.onChange(look);
  streams.onCommit(askCalmly);
  return { begun: begun.promise, drawn: drawn.promise };
}
