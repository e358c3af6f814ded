// Streams: the list, the selected one, and its commits.

const COMMIT_INTERVAL = 100; // milliseconds between two notifications of commits
const RETRY_INTERVAL = 2000; // milliseconds between two requests while a stream is not ready or the server unreachable
const PROBLEMS_INTERVAL = 15_000; // milliseconds between two requests for the problems of streams
const CLOCK_TOLERANCE = 1000; // milliseconds by which two clocks may differ unnoticed
const MAX_TABS = 4; // more streams are offered in a dropdown
const DEFAULT_WINDOW = 300; // seconds

const commitListeners = new Set();
const changeListeners = new Set();
let streams = null; // null until the first response
let failure = null;
let selectedName = null;
let newestEvent = null; // the newest event of the selected stream
let lastNotified = 0;
let commitTimer = null;
let loadTimer = null;
let unsubscribe = null;
let replacement = ""; // sentence about a selection that this server does not have, and what replaces it
let clockOffset = 0; // milliseconds by which the server's clock is ahead of the browser's

// Properties of the selected stream: name, ready, why, n, version, newest, value_type, key_columns, ...
export const selected = () => streams?.find((one) => one.name === selectedName) ?? null;

// The unit of a stream's values, after a no-break space; "" where none is configured.
export function unit(of = selectedName) {
  const value = streams?.find((one) => one.name === of)?.unit;
  return value ? `\u00a0${value}` : "";
}

// A title with the unit: "value in ms".
export const inUnit = (title) => (unit() ? `${title} in${unit()}` : title);

// A sentence about a stream or window of the URL that the server does not have, and its replacement; "" if it has both.
export const replacementNote = () => replacement;

export const lastError = () => failure;

// listener(event) is called after commits of the selected stream, at most ten times a second. Returns a function that
// unsubscribes.
export function onCommit(listener) {
  commitListeners.add(listener);
  return () => commitListeners.delete(listener);
}

// listener() is called when the list of streams or the selected stream has changed.
export function onChange(listener) {
  changeListeners.add(listener);
  return () => changeListeners.delete(listener);
}

// Milliseconds since the newest value of the selected stream, by the server's clock; negative if that value is dated
// ahead of it, null if times are not timestamps.
export function lag(format) {
  const newest = selected()?.newest;
  if (!format.isMoment(newest)) return null;
  const milliseconds = Date.now() + clockOffset - format.moment(newest);
  return Math.abs(milliseconds) < CLOCK_TOLERANCE ? Math.max(0, milliseconds) : milliseconds;
}

function notify() {
  if (commitTimer || !newestEvent || document.hidden) return;
  commitTimer = setTimeout(
    () => {
      commitTimer = null;
      lastNotified = performance.now();
      if (newestEvent) for (const listener of [...commitListeners]) listener(newestEvent);
    },
    Math.max(0, lastNotified + COMMIT_INTERVAL - performance.now()),
  );
}

// Show the streams as tabs or a dropdown. Resolves when they are loaded.
export async function mount(element, app) {
  document.addEventListener("visibilitychange", notify);
  app.state.subscribe((selection, changed) => {
    if (!changed.has("stream") && !changed.has("window")) return;
    const fits = fitWindow(selection.window, selected() ?? {}, app.format) === selection.window;
    const before = replacement;
    replacement = ""; // it was about the previous selection
    if (changed.has("stream") || !fits) followSelected(app, element);
    else if (before) for (const listener of changeListeners) listener();
  });
  await load(app, element);
  setInterval(() => document.hidden || refreshProblems(app), PROBLEMS_INTERVAL);
}

// Update the problems of streams; events update everything else.
async function refreshProblems(app) {
  try {
    for (const update of (await app.api.get("/api/streams")).streams) {
      const stream = streams?.find((other) => other.name === update.name);
      if (stream) [stream.problems, stream.ingest] = [update.problems, update.ingest];
    }
    for (const listener of changeListeners) listener();
  } catch {
    // the server is unreachable; the header shows it
  }
}

async function load(app, element) {
  try {
    streams = (await app.api.get("/api/streams")).streams;
    failure = null;
    const timed = streams.find((one) => one.lag?.newest !== undefined && one.lag.newest !== null);
    if (timed) clockOffset = app.format.moment(timed.newest) + timed.lag.newest * 1000 - Date.now();
    followSelected(app, element);
  } catch (error) {
    failure = error;
  }
  for (const listener of changeListeners) listener();
  clearTimeout(loadTimer); // another load may have ended since this one began
  if (failure || streams.some((one) => !one.ready)) loadTimer = setTimeout(() => load(app, element), RETRY_INTERVAL);
}

// Subscribe to the stream that the URL names, or to the first one, once the streams are loaded.
function followSelected(app, element) {
  const selection = app.state.get();
  const stream = streams?.find((one) => one.name === selection.stream) ?? streams?.[0];
  if (!stream) return;
  const isNew = stream.name !== selectedName;
  selectedName = stream.name;
  if (isNew) {
    newestEvent = null;
    unsubscribe?.();
    unsubscribe = app.api.listen({ stream: selectedName }, { stream: (event) => applyEvent(event, app, element) });
  }
  const window = fitWindow(selection.window, stream, app.format);
  app.state.set({ stream: selectedName, window });
  const notes = [replacedStream(selection.stream), replacedWindow(selection.window, window, app.format)];
  if (notes.some(Boolean)) replacement = notes.filter(Boolean).join(" ");
  show(element, app);
  for (const listener of changeListeners) listener();
}

const replacedStream = (requested) =>
  requested && requested !== selectedName ? `There is no stream ${requested}: this is ${selectedName}.` : "";

function replacedWindow(requested, window, format) {
  if (!requested || requested === window) return "";
  const shown = window === "all" ? "everything" : `the ${format.window(window)}`;
  return `The stream ${selectedName} has no window ${requested}: this is ${shown}.`;
}

// A window that the stream supports: the requested one, or the nearest.
function fitWindow(window, stream, format) {
  const retained = format.readSpan(stream.window ?? "") ?? 0;
  if (!stream.ready) return window;
  if (!retained) return "all";
  const within = /^within:(.+)$/.exec(window ?? "");
  const seconds = within ? format.readSpan(within[1]) : null;
  if (/^last:\d+$/.test(window ?? "") || (seconds && seconds <= retained)) return window;
  return `within:${Math.min(seconds ?? DEFAULT_WINDOW, retained)}s`;
}

function applyEvent(event, app, element) {
  if (event.stream !== selectedName) return;
  const stream = selected();
  if (stream.ready !== event.ready) {
    Object.assign(stream, event);
    if (event.ready) load(app, element);
    for (const listener of changeListeners) listener();
  }
  Object.assign(stream, event);
  if (event.ready) {
    stream.why = null;
    newestEvent = event;
    notify();
  }
}

function show(element, app) {
  const names = streams.map((one) => one.name);
  if (element.dataset.shown !== JSON.stringify(names)) {
    element.dataset.shown = JSON.stringify(names);
    element.replaceChildren(...(names.length > MAX_TABS ? [dropdown(names, app)] : names.map((one) => tab(one, app))));
  }
  for (const button of element.querySelectorAll("button")) {
    if (button.value === selectedName) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
  }
  const select = element.querySelector("select");
  if (select) select.value = selectedName;
}

function tab(one, app) {
  const button = document.createElement("button");
  button.type = "button";
  button.value = button.textContent = one;
  button.addEventListener("click", () => selectStream(one, app));
  return button;
}

function dropdown(names, app) {
  const select = document.createElement("select");
  select.setAttribute("aria-label", "Stream");
  select.append(...names.map((one) => new Option(one, one)));
  select.addEventListener("change", () => selectStream(select.value, app));
  return select;
}

function selectStream(one, app) {
  if (one === selectedName) return;
  app.state.set({ stream: one, key: null, filter: null });
  app.announce(`stream ${one}`, "selection");
}
