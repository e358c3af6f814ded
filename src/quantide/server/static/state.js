// Selection: stored in the fragment of the URL, so that a view can be linked and survives a reload.

const listeners = new Set();
const KINDS = { stream: "string", window: "string", filter: "string", over: "number", log: "boolean", tails: "boolean" }; // or nothing
let current = read(location.hash);

function read(hash) {
  const found = {};
  for (const [name, text] of new URLSearchParams(hash.slice(1))) {
    try {
      found[name] = JSON.parse(text);
    } catch {
      found[name] = text;
    }
    if (name in KINDS && typeof found[name] !== KINDS[name]) delete found[name];
  }
  return found;
}

function write(values) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value === undefined || value === null) continue;
    query.set(name, isPlain(value) ? value : JSON.stringify(value));
  }
  return "#" + query;
}

// Quote text that would be parsed as another type, such as the key "7".
function isPlain(value) {
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
  current = read(location.hash);
  notify(before);
});

export function get() {
  return current;
}

// Change some of it; null forgets. Listeners hear of it only when something is another.
export function set(partial) {
  const before = current;
  current = { ...current, ...partial };
  for (const [name, value] of Object.entries(current)) if (value === null || value === undefined) delete current[name];
  history.replaceState(null, "", write(current));
  notify(before);
}

// listener(state, changed): changed is a Set of names. Returns a function that ends it.
export function subscribe(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
