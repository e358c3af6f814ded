// Selection of the page, stored in the fragment of the URL, so that it can be linked and survives a reload.

const listeners = new Set();
// Values of other types are ignored.
const TYPES = { stream: "string", window: "string", filter: "string", over: "number", log: "boolean", tails: "boolean" };
let current = parseHash(location.hash);

function parseHash(hash) {
  const values = {};
  for (const [name, text] of new URLSearchParams(hash.slice(1))) {
    try {
      values[name] = JSON.parse(text);
    } catch {
      values[name] = text;
    }
    if (name in TYPES && typeof values[name] !== TYPES[name]) delete values[name];
  }
  return values;
}

function toHash(values) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value === undefined || value === null) continue;
    query.set(name, isPlainText(value) ? value : JSON.stringify(value));
  }
  return "#" + query;
}

// Return true if a value is text that is not also JSON, as the key "7" is; everything else is stored as JSON.
function isPlainText(value) {
  if (typeof value !== "string") return false;
  try {
    JSON.parse(value);
    return false;
  } catch {
    return true;
  }
}

function notify(before) {
  const changed = new Set(
    [...new Set([...Object.keys(before), ...Object.keys(current)])].filter(
      (name) => JSON.stringify(before[name]) !== JSON.stringify(current[name]),
    ),
  );
  if (changed.size) for (const listener of [...listeners]) listener(current, changed);
}

addEventListener("hashchange", () => {
  const before = current;
  current = parseHash(location.hash);
  notify(before);
});

export function get() {
  return current;
}

// Change some values; null removes one. Listeners are called only if a value has changed.
export function set(partial) {
  const before = current;
  current = { ...current, ...partial };
  for (const [name, value] of Object.entries(current)) if (value === null || value === undefined) delete current[name];
  history.replaceState(null, "", toHash(current));
  notify(before);
}

// listener(state, changed): changed is a Set of names. Returns a function that unsubscribes.
export function subscribe(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
