// Key chooser: a combobox that searches for keys while the user types, "all keys" first.

import { make } from "./dom.js";

const SETTLE = 80; // milliseconds after the last letter
const MOST = 50; // keys that are offered at a time

export function mount(element, { api, state, streams, format, announce }) {
  const input = make("input", {
    id: "key",
    type: "text",
    role: "combobox",
    "aria-expanded": "false",
    "aria-controls": "key-list",
    "aria-autocomplete": "list",
    autocomplete: "off",
    autocapitalize: "off",
    spellcheck: "false",
    placeholder: "all keys",
  });
  const label = make("label", { for: "key" }, "key");
  const list = make("ul", { id: "key-list", role: "listbox", "aria-label": "Keys", hidden: true });
  const more = make("p", { class: "keys-more", hidden: true });
  const pop = make("div", { class: "keys-pop" }, list, more);
  element.replaceChildren(label, make("div", { class: "keys-box" }, input, pop));
  let offered = [];
  let active = -1;
  let timer = null;
  let asking = null;
  let typed = false; // since keys were last offered

  const open = () => input.getAttribute("aria-expanded") === "true";

  function show() {
    const columns = streams.selected()?.key_columns ?? [];
    element.hidden = !columns.length;
    label.textContent = columns.join(" · ") || "key";
    if (!open() && !typed) input.value = state.get().key === undefined ? "" : format.key(state.get().key);
  }

  async function look(text) {
    asking?.abort();
    asking = new AbortController();
    const mine = asking;
    const path = `/api/streams/${encodeURIComponent(state.get().stream)}/keys`;
    try {
      const found = await api.get(path, { contains: text || undefined, limit: MOST }, { signal: mine.signal });
      if (mine === asking && document.activeElement === input) offer(found.keys, found.count, text);
    } catch (error) {
      if (error.name === "AbortError") return;
      offer([], 0, text);
      more.textContent = error.message;
      more.hidden = false;
    }
  }

  function offer(keys, count, text) {
    typed = false;
    offered = text ? keys : [null, ...keys];
    const chosen = JSON.stringify(state.get().key ?? null);
    list.replaceChildren(
      ...offered.map((key, i) => {
        const choice = { id: `key-${i}`, role: "option", "aria-selected": String(JSON.stringify(key) === chosen) };
        return make("li", { ...choice, pointerdown: (event) => (event.preventDefault(), choose(i)) }, format.key(key));
      }),
    );
    const left = count - keys.length;
    more.textContent = left > 0 ? `and ${format.count(left)} more: type to find them` : "";
    if (!offered.length) more.textContent = "No key contains this.";
    more.hidden = !more.textContent;
    list.hidden = !offered.length;
    input.setAttribute("aria-expanded", "true");
    pop.classList.add("open");
    move(text && offered.length ? 0 : offered.findIndex((key) => JSON.stringify(key) === chosen));
    if (text) announce(count === 1 ? "1 key" : `${count} keys`);
  }

  function move(to) {
    active = to;
    [...list.children].forEach((option, i) => option.classList.toggle("active", i === active));
    if (active < 0) input.removeAttribute("aria-activedescendant");
    else {
      input.setAttribute("aria-activedescendant", `key-${active}`);
      list.children[active].scrollIntoView({ block: "nearest" });
    }
  }

  function close() {
    clearTimeout(timer);
    asking?.abort();
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
    pop.classList.remove("open");
    list.hidden = more.hidden = true;
    active = -1;
    typed = false;
    show();
  }

  function choose(index) {
    const key = offered[index];
    close();
    state.set({ key });
    show();
    input.select();
  }

  // If the user types faster than keys are found, use the typed text, not the offered key.
  async function enter() {
    clearTimeout(timer);
    if (typed) await look(input.value.trim());
    if (active >= 0) choose(active);
    else if (!input.value) choose(0);
  }

  const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 };
  input.addEventListener("keydown", (event) => {
    if (event.key in steps) {
      event.preventDefault();
      if (!open()) look("");
      else if (offered.length) {
        const far = Math.abs(steps[event.key]) > 1;
        const next = active + steps[event.key];
        move(far ? Math.min(offered.length - 1, Math.max(0, next)) : (next + offered.length) % offered.length);
      }
    } else if (event.key === "Enter" && (open() || typed)) {
      event.preventDefault();
      enter();
    } else if (event.key === "Escape") {
      if (open()) event.stopPropagation();
      close();
      input.select();
    }
  });
  input.addEventListener("input", () => {
    typed = true;
    clearTimeout(timer);
    timer = setTimeout(() => look(input.value.trim()), SETTLE);
  });
  input.addEventListener("focus", () => input.select());
  input.addEventListener("click", () => open() || look(""));
  input.addEventListener("blur", close);
  streams.onChange(show);
  state.subscribe(show);
  show();
}
