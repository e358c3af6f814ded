// Key chooser: a combobox that searches for keys while the user types, "all keys" first.

import { make } from "./dom.js";
import { isSelectable, sameKey } from "./series.js";

const DEBOUNCE = 80; // milliseconds after the last letter
const MAX_OPTIONS = 50; // keys that are listed

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
  const moreLine = make("p", { class: "keys-more", hidden: true });
  const popup = make("div", { class: "keys-pop" }, list, moreLine);
  element.replaceChildren(label, make("div", { class: "keys-box" }, input, popup));
  let options = [];
  let active = -1;
  let searchTimer = null;
  let searchRequest = null;
  let edited = false; // since the options were last shown

  const isOpen = () => input.getAttribute("aria-expanded") === "true";

  function show() {
    const columns = streams.selected()?.key_columns ?? [];
    element.hidden = !columns.length;
    label.textContent = columns.join(" · ") || "key";
    if (!isOpen() && !edited) input.value = state.get().key === undefined ? "" : format.key(state.get().key);
  }

  async function search(text) {
    searchRequest?.abort();
    searchRequest = new AbortController();
    const controller = searchRequest;
    const path = `/api/streams/${encodeURIComponent(state.get().stream)}/keys`;
    try {
      const body = await api.get(
        path,
        { contains: text || undefined, limit: MAX_OPTIONS },
        { signal: controller.signal },
      );
      if (controller === searchRequest && document.activeElement === input) showOptions(body.keys, body.count, text);
    } catch (error) {
      if (error.name === "AbortError") return;
      showOptions([], 0, text);
      moreLine.textContent = error.message;
      moreLine.hidden = false;
    }
  }

  function showOptions(keys, count, text) {
    edited = false;
    const selectable = keys.filter(isSelectable);
    options = text ? selectable : [null, ...selectable];
    const isSelected = (key) => sameKey(key, state.get().key);
    list.replaceChildren(
      ...options.map((key, i) => {
        const choice = { id: `key-${i}`, role: "option", "aria-selected": String(isSelected(key)) };
        return make(
          "li",
          { ...choice, pointerdown: (event) => (event.preventDefault(), selectOption(i)) },
          format.key(key),
        );
      }),
    );
    const remaining = count - keys.length;
    moreLine.textContent = remaining > 0 ? `and ${format.count(remaining)} more: type to find them` : "";
    if (!options.length) moreLine.textContent = "No key contains this.";
    moreLine.hidden = !moreLine.textContent;
    list.hidden = !options.length;
    input.setAttribute("aria-expanded", "true");
    popup.classList.add("open");
    setActive(text && options.length ? 0 : options.findIndex(isSelected));
    if (text) announce(count === 1 ? "1 key" : `${count} keys`, "keys");
  }

  function setActive(index) {
    active = index;
    [...list.children].forEach((option, i) => option.classList.toggle("active", i === active));
    if (active < 0) input.removeAttribute("aria-activedescendant");
    else {
      input.setAttribute("aria-activedescendant", `key-${active}`);
      list.children[active].scrollIntoView({ block: "nearest" });
    }
  }

  function close() {
    clearTimeout(searchTimer);
    searchRequest?.abort();
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
    popup.classList.remove("open");
    list.hidden = moreLine.hidden = true;
    active = -1;
    edited = false;
    show();
  }

  function selectOption(index) {
    const key = options[index];
    close();
    state.set({ key });
    show();
    input.select();
  }

  // If the user types faster than keys are found, search for the typed text before accepting a key.
  async function acceptInput() {
    clearTimeout(searchTimer);
    if (edited) await search(input.value.trim());
    if (active >= 0) selectOption(active);
    else if (!input.value) selectOption(0);
  }

  const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 };
  input.addEventListener("keydown", (event) => {
    if (event.key in steps) {
      event.preventDefault();
      if (!isOpen()) search("");
      else if (options.length) {
        const step = steps[event.key];
        const from = active < 0 && step < 0 ? options.length : active; // up from no option is to the last one
        const next = from + step;
        const isPage = Math.abs(step) > 1;
        setActive(isPage ? Math.min(options.length - 1, Math.max(0, next)) : (next + options.length) % options.length);
      }
    } else if (event.key === "Enter" && (isOpen() || edited)) {
      event.preventDefault();
      acceptInput();
    } else if (event.key === "Escape") {
      if (isOpen()) event.stopPropagation();
      close();
      input.select();
    }
  });
  input.addEventListener("input", () => {
    edited = true;
    clearTimeout(searchTimer);
    searchTimer = setTimeout(() => search(input.value.trim()), DEBOUNCE);
  });
  input.addEventListener("focus", () => input.select());
  input.addEventListener("click", () => isOpen() || search(""));
  input.addEventListener("blur", close);
  streams.onChange(show);
  state.subscribe(show);
  show();
}
