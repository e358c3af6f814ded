// Client of the server's API: requests that return promises of JSON, and server-sent events.

import { signIn } from "./signin.js";

const RETRY_DELAY = 2000; // milliseconds before a refused event stream is retried
const HIDDEN_DELAY = 2000; // milliseconds before a hidden page closes its connection: a browser allows six per server

export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export const get = (path, params, options) => request("GET", path, params, undefined, options);
export const post = (path, body, options) => request("POST", path, undefined, body, options);
export const remove = (path, params, options) => request("DELETE", path, params, undefined, options);

// Lists become repeated parameters; null and undefined are omitted.
export function buildUrl(path, params = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined) query.append(name, one);
    }
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

async function request(method, path, params, body, { signal } = {}) {
  const init = { method, signal, headers: {} };
  if (body !== undefined) {
    init.headers["Content-Type"] = "application/json";
    init.body = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(buildUrl(path, params), init);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "unreachable", "The server does not answer.");
  }
  if (response.status === 401) {
    await signIn();
    restartClosed();
    return request(method, path, params, body, { signal });
  }
  if (!response.ok) throw await toApiError(response);
  return response.status === 204 ? null : parseJson(await response.text());
}

// Parse JSON; integers that a JavaScript number cannot represent exactly remain text.
const parseJson = (text) => (/\d{16}/.test(text) ? JSON.parse(text, keepInteger) : JSON.parse(text));

const keepInteger = (_, value, context) =>
  Number.isInteger(value) && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source) ? context.source : value;

async function toApiError(response) {
  try {
    const { code, message } = (await response.json()).error;
    return new ApiError(response.status, code, message);
  } catch {
    return new ApiError(response.status, "internal", `The server answered with status ${response.status}.`);
  }
}

// Events. All subscriptions share one connection: a browser allows six for all pages of a server.

const shared = { subscriptions: new Set(), channel: null };
let suspended = false; // the page is hidden: no connection is open, and none is opened
const channels = new Set();
const connectionListeners = new Set();

// listen({stream, label, alarms: "all"}, {queries, stream, alarm, error}) returns a function that unsubscribes. queries
// is called with a list of changes, stream and alarm with the data of the event, error with an ApiError.
export function listen(params, handlers) {
  const subscription = { params, handlers };
  shared.subscriptions.add(subscription);
  scheduleReopen();
  return () => {
    shared.subscriptions.delete(subscription);
    scheduleReopen();
  };
}

// listener("live" | "reconnecting" | "connecting") is called with the state of the connection.
export function onConnection(listener) {
  connectionListeners.add(listener);
  listener(connectionState());
  return () => connectionListeners.delete(listener);
}

function connectionState() {
  const states = [...channels].map((channel) => channel.state);
  if (states.includes("reconnecting")) return "reconnecting";
  return states.length && states.every((one) => one === "live") ? "live" : "connecting";
}

function notifyConnection() {
  for (const listener of connectionListeners) listener(connectionState());
}

// Reopen the connection for the current subscriptions; simultaneous changes reopen it once.
function scheduleReopen() {
  if (shared.reopenScheduled) return;
  shared.reopenScheduled = true;
  queueMicrotask(() => {
    shared.reopenScheduled = false;
    const params = { alarms: undefined };
    for (const { params: one } of shared.subscriptions) params.alarms ??= one.alarms;
    for (const name of ["stream", "label", "query"]) {
      params[name] = [...new Set([...shared.subscriptions].flatMap(({ params: one }) => one[name] ?? []))];
    }
    shared.channel?.close();
    shared.channel = shared.subscriptions.size ? openChannel(params) : null;
  });
}

function openChannel(params) {
  const channel = { params, state: "connecting", source: null, timer: null, close, start };
  const handlers = () => [...shared.subscriptions].map((one) => one.handlers);

  function start() {
    clearTimeout(channel.timer);
    channel.source?.close();
    if (suspended) return;
    const source = (channel.source = new EventSource(buildUrl("/api/events", params)));
    source.addEventListener("open", () => setState("live"));
    source.addEventListener("error", () => {
      setState("reconnecting");
      if (source.readyState === EventSource.CLOSED) retry();
    });
    for (const name of ["queries", "stream", "alarm"]) {
      source.addEventListener(name, (event) => {
        const data = parseJson(event.data);
        for (const one of handlers()) one[name]?.(name === "queries" ? data.changes : data);
      });
    }
  }

  // An EventSource does not report why it was refused: fetch the same URL to get the status and the error.
  async function retry() {
    channel.timer = setTimeout(start, RETRY_DELAY);
    const controller = new AbortController();
    try {
      const response = await fetch(buildUrl("/api/events", params), { signal: controller.signal });
      if (response.status === 401) {
        clearTimeout(channel.timer);
        setState("connecting");
        await signIn();
        if (channels.has(channel)) start();
      } else if (!response.ok) {
        reportError(await toApiError(response));
      }
    } catch {
      // the server is unreachable; the timer retries
    } finally {
      controller.abort();
    }
  }

  // The server refuses the whole connection if a query of it was dropped: remove the subscriptions to queries, and
  // report the error to their handlers, which register new queries.
  function reportError(error) {
    const querySubscriptions = [...shared.subscriptions].filter(({ params: one }) => one.label || one.query);
    if (error.status === 404 && querySubscriptions.length) {
      querySubscriptions.forEach((subscription) => shared.subscriptions.delete(subscription));
      querySubscriptions.forEach(({ handlers: one }) => one.error?.(error));
      scheduleReopen();
    } else {
      for (const one of handlers()) one.error?.(error);
    }
  }

  function setState(state) {
    channel.state = state;
    notifyConnection();
  }

  function close() {
    clearTimeout(channel.timer);
    channel.source?.close();
    channels.delete(channel);
    notifyConnection();
  }

  channels.add(channel);
  start();
  return channel;
}

function restartClosed() {
  const isClosed = ({ source }) => !source || source.readyState === EventSource.CLOSED;
  for (const channel of channels) if (isClosed(channel)) channel.start();
}

function suspend() {
  suspended = true;
  for (const channel of channels) channel.source?.close();
}

function resume() {
  suspended = false;
  restartClosed();
}

let hiddenTimer = null;
document.addEventListener("visibilitychange", () => {
  clearTimeout(hiddenTimer);
  if (document.hidden) hiddenTimer = setTimeout(suspend, HIDDEN_DELAY);
  else resume();
});
addEventListener("pagehide", suspend);
addEventListener("pageshow", resume); // from the back/forward cache
