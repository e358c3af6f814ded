// The server's API: questions as promises of JSON, and events.

import { signIn } from "./signin.js";

const AGAIN = 2000; // milliseconds before a refused event stream is retried
const HIDDEN = 2000; // and until a hidden page closes its connection: browsers have only six

export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export const get = (path, params, options) => ask("GET", path, params, undefined, options);
export const post = (path, body, options) => ask("POST", path, undefined, body, options);
export const remove = (path, params, options) => ask("DELETE", path, params, undefined, options);

// Lists become repeated parameters; null and undefined are omitted.
export function address(path, params = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined) query.append(name, one);
    }
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

async function ask(method, path, params, body, { signal } = {}) {
  const request = { method, signal, headers: {} };
  if (body !== undefined) {
    request.headers["Content-Type"] = "application/json";
    request.body = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(address(path, params), request);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "unreachable", "The server does not answer.");
  }
  if (response.status === 401) {
    await signIn();
    reopen();
    return ask(method, path, params, body, { signal });
  }
  if (!response.ok) throw await problem(response);
  return response.status === 204 ? null : read(await response.text());
}

// JSON, with integers that JavaScript has no numbers for as text.
const read = (text) => (/\d{16}/.test(text) ? JSON.parse(text, exactly) : JSON.parse(text));

const exactly = (_, value, context) =>
  Number.isInteger(value) && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source) ? context.source : value;

async function problem(response) {
  try {
    const { code, message } = (await response.json()).error;
    return new ApiError(response.status, code, message);
  } catch {
    return new ApiError(response.status, "internal", `The server answered with status ${response.status}.`);
  }
}

// Events. All subscribers share one connection: a browser has six for all the pages of a server.

const shared = { wanted: new Set(), channel: null };
const channels = new Set();
const watchers = new Set();

// listen({stream, label, alarms: "all"}, {queries, stream, alarm, error}) returns a function that ends it. queries is
// called with a list of changes, stream and alarm with the data of the event, error with an ApiError.
export function listen(params, handlers) {
  const wish = { params, handlers };
  shared.wanted.add(wish);
  renew();
  return () => {
    shared.wanted.delete(wish);
    renew();
  };
}

// watcher("live" | "reconnecting" | "connecting"): the state of the connection.
export function onConnection(watcher) {
  watchers.add(watcher);
  watcher(standing());
  return () => watchers.delete(watcher);
}

function standing() {
  const found = [...channels].map((channel) => channel.state);
  if (found.includes("reconnecting")) return "reconnecting";
  return found.length && found.every((one) => one === "live") ? "live" : "connecting";
}

function tellStanding() {
  for (const watcher of watchers) watcher(standing());
}

// All subscriptions in one connection, which is reopened once for any number of simultaneous changes.
function renew() {
  if (shared.renewing) return;
  shared.renewing = true;
  queueMicrotask(() => {
    shared.renewing = false;
    const params = { alarms: undefined };
    for (const { params: one } of shared.wanted) params.alarms ??= one.alarms;
    for (const name of ["stream", "label", "query"]) {
      params[name] = [...new Set([...shared.wanted].flatMap(({ params: one }) => one[name] ?? []))];
    }
    shared.channel?.close();
    shared.channel = shared.wanted.size ? open(params) : null;
  });
}

function open(params) {
  const channel = { params, state: "connecting", source: null, timer: null, close, start };
  const handlers = () => [...shared.wanted].map((one) => one.handlers);

  function start() {
    clearTimeout(channel.timer);
    channel.source?.close();
    const source = (channel.source = new EventSource(address("/api/events", params)));
    source.addEventListener("open", () => turn("live"));
    source.addEventListener("error", () => {
      turn("reconnecting");
      if (source.readyState === EventSource.CLOSED) refused();
    });
    for (const name of ["queries", "stream", "alarm"]) {
      source.addEventListener(name, (event) => {
        const data = read(event.data);
        for (const one of handlers()) one[name]?.(name === "queries" ? data.changes : data);
      });
    }
  }

  // A browser does not report the reason: an ordinary request to the server does.
  async function refused() {
    channel.timer = setTimeout(start, AGAIN);
    const stop = new AbortController();
    try {
      const response = await fetch(address("/api/events", params), { signal: stop.signal });
      if (response.status === 401) {
        clearTimeout(channel.timer);
        turn("connecting");
        await signIn();
        if (channels.has(channel)) start();
      } else if (!response.ok) {
        refuse(await problem(response));
      }
    } catch {
      // the server does not answer; the timer retries
    } finally {
      stop.abort();
    }
  }

  // Dropped queries would block all other subscriptions: report the error to their subscribers, who register anew.
  function refuse(error) {
    const rejected = [...shared.wanted].filter(({ params: one }) => one.label || one.query);
    if (error.status === 404 && rejected.length) {
      rejected.forEach((wish) => shared.wanted.delete(wish));
      rejected.forEach(({ handlers: one }) => one.error?.(error));
      renew();
    } else {
      for (const one of handlers()) one.error?.(error);
    }
  }

  function turn(state) {
    channel.state = state;
    tellStanding();
  }

  function close() {
    clearTimeout(channel.timer);
    channel.source?.close();
    channels.delete(channel);
    tellStanding();
  }

  channels.add(channel);
  start();
  return channel;
}

function reopen() {
  for (const channel of channels) if (channel.source.readyState === EventSource.CLOSED) channel.start();
}

let asleep = null;
document.addEventListener("visibilitychange", () => {
  clearTimeout(asleep);
  if (document.hidden) {
    asleep = setTimeout(() => channels.forEach((channel) => channel.source.close()), HIDDEN);
  } else {
    reopen();
  }
});
addEventListener("pagehide", () => channels.forEach((channel) => channel.source.close()));
