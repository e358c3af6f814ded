// Streams: the list, the selected one, and its commits.

const PAUSE = 100; // milliseconds between two notifications of commits
const AGAIN = 2000; // and between two checks of streams that are not ready, or of a server that does not answer
const CHECK = 15_000; // and between two checks of the problems of streams
const SKEW = 1000; // milliseconds by which two clocks may differ unnoticed
const TABS = 4; // more streams than these are chosen from a list
const USUAL = 300; // seconds of the window that is selected at first

const followers = new Set();
const watchers = new Set();
let known = null; // null until the server has answered
let failure = null;
let name = null;
let newestEvent = null; // the newest event of the chosen stream
let last = 0;
let timer = null;
let stop = null;
let instead = ""; // what is shown in place of a selection that this server does not have
let ahead = 0; // milliseconds that the server's clock is ahead of this one

// Properties of the selected stream: name, ready, why, n, version, newest, value_type, key_columns, ...
export const chosen = () => known?.find((one) => one.name === name) ?? null;
export const all = () => known;

// The unit of a stream's values, after a space that does not break; "" where none is configured.
export function unit(of = name) {
  const found = known?.find((one) => one.name === of)?.unit;
  return found ? `\u00a0${found}` : "";
}

// A title with the unit: "value in ms".
export const inUnit = (title) => (unit() ? `${title} in${unit()}` : title);

// A sentence about a stream or a window of the address that this server does not have; "" where it has both.
export const replaced = () => instead;

export const lastError = () => failure;

// follower(event) is called when the chosen stream has moved on, about ten times a second at most. Returns a function
// that ends it.
export function onCommit(follower) {
  followers.add(follower);
  return () => followers.delete(follower);
}

// watcher() is called when the list of streams, or the chosen stream, has changed.
export function onKnown(watcher) {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
}

// Milliseconds since the newest value of the chosen stream, by the server's clock; negative when that value is dated
// ahead of it, null where times are no timestamps.
export function lag(format) {
  const newest = chosen()?.newest;
  if (!format.isMoment(newest)) return null;
  const milliseconds = Date.now() + ahead - format.moment(newest);
  return Math.abs(milliseconds) < SKEW ? Math.max(0, milliseconds) : milliseconds;
}

function notify() {
  if (timer || !newestEvent || document.hidden) return;
  timer = setTimeout(
    () => {
      timer = null;
      last = performance.now();
      if (newestEvent) for (const follower of [...followers]) follower(newestEvent);
    },
    Math.max(0, last + PAUSE - performance.now()),
  );
}

// Show the streams to choose from. Resolves when they are loaded.
export async function mount(element, app) {
  document.addEventListener("visibilitychange", notify);
  app.state.subscribe((selected, changed) => {
    if (!changed.has("stream") && !changed.has("window")) return;
    const fits = fitting(selected.window, chosen() ?? {}, app.format) === selected.window;
    const before = instead;
    instead = ""; // it was about another selection
    if (changed.has("stream") || !fits) choose(app, element);
    else if (before) for (const watcher of watchers) watcher();
  });
  await look(app, element);
  setInterval(() => document.hidden || check(app), CHECK);
}

// Update the problems of streams; events update everything else.
async function check(app) {
  try {
    for (const found of (await app.api.get("/api/streams")).streams) {
      const one = known?.find((other) => other.name === found.name);
      if (one) [one.problems, one.ingest] = [found.problems, found.ingest];
    }
    for (const watcher of watchers) watcher();
  } catch {
    // The connection is lost, and the header shows it.
  }
}

async function look(app, element) {
  try {
    known = (await app.api.get("/api/streams")).streams;
    failure = null;
    const timed = known.find((one) => one.lag?.newest !== undefined && one.lag.newest !== null);
    if (timed) ahead = app.format.moment(timed.newest) + timed.lag.newest * 1000 - Date.now();
    choose(app, element);
  } catch (error) {
    failure = error;
  }
  for (const watcher of watchers) watcher();
  if (failure || known.some((one) => !one.ready)) setTimeout(() => look(app, element), AGAIN);
}

// Follow the stream that the address names, or the first there is.
function choose(app, element) {
  const wanted = app.state.get();
  const found = known.find((one) => one.name === wanted.stream) ?? known[0];
  if (!found) return;
  const another = found.name !== name;
  name = found.name;
  if (another) {
    newestEvent = null;
    stop?.();
    stop = app.api.listen({ stream: name }, { stream: (event) => hear(event, app, element) });
  }
  const window = fitting(wanted.window, found, app.format);
  app.state.set({ stream: name, window });
  const notes = [replacedStream(wanted.stream), replacedWindow(wanted.window, window, app.format)];
  if (notes.some(Boolean)) instead = notes.filter(Boolean).join(" ");
  show(element, app);
  for (const watcher of watchers) watcher();
}

const replacedStream = (wanted) => (wanted && wanted !== name ? `There is no stream ${wanted}: this is ${name}.` : "");

function replacedWindow(wanted, window, format) {
  if (!wanted || wanted === window) return "";
  const shown = window === "all" ? "everything" : `the ${format.window(window)}`;
  return `The stream ${name} has no window ${wanted}: this is ${shown}.`;
}

// A window that the stream supports: the wanted one, or the nearest there is.
function fitting(window, stream, format) {
  const kept = format.readSpan(stream.window ?? "") ?? 0;
  if (!stream.ready) return window;
  if (!kept) return "all";
  const within = /^within:(.+)$/.exec(window ?? "");
  const seconds = within ? format.readSpan(within[1]) : null;
  if (/^last:\d+$/.test(window ?? "") || (seconds && seconds <= kept)) return window;
  return `within:${Math.min(seconds ?? USUAL, kept)}s`;
}

function hear(event, app, element) {
  if (event.stream !== name) return;
  const one = chosen();
  if (one.ready !== event.ready) {
    Object.assign(one, event);
    if (event.ready) look(app, element);
    for (const watcher of watchers) watcher();
  }
  Object.assign(one, event);
  if (event.ready) {
    one.why = null;
    newestEvent = event;
    notify();
  }
}

function show(element, app) {
  const names = known.map((one) => one.name);
  if (element.dataset.shown !== JSON.stringify(names)) {
    element.dataset.shown = JSON.stringify(names);
    element.replaceChildren(...(names.length > TABS ? [list(names, app)] : names.map((one) => tab(one, app))));
  }
  for (const button of element.querySelectorAll("button")) {
    if (button.value === name) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
  }
  const select = element.querySelector("select");
  if (select) select.value = name;
}

function tab(one, app) {
  const button = document.createElement("button");
  button.type = "button";
  button.value = button.textContent = one;
  button.addEventListener("click", () => turnTo(one, app));
  return button;
}

function list(names, app) {
  const select = document.createElement("select");
  select.setAttribute("aria-label", "Stream");
  select.append(...names.map((one) => new Option(one, one)));
  select.addEventListener("change", () => turnTo(select.value, app));
  return select;
}

function turnTo(one, app) {
  if (one === name) return;
  app.state.set({ stream: one, key: null, filter: null });
  app.announce(`stream ${one}`);
}
