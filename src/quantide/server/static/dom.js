// Elements in one expression. Text is always text: no key and no name can become markup.
const PICTURES = "http://www.w3.org/2000/svg";

export const make = (tag, attributes, ...children) => filled(document.createElement(tag), attributes, children);
export const drawn = (tag, attributes, ...children) =>
  filled(document.createElementNS(PICTURES, tag), attributes, children);

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? "" : value);
    }
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

// A table that scrolls where it is too wide; its caption is for screen readers. The first cell of a row heads it.
// An update preserves focus and scroll position.
export function table() {
  const element = make("div", { class: "scroll", tabindex: "0", role: "region" });

  function show(caption, heads, rows) {
    const head = heads.map((text, index) => make("th", { scope: "col", class: index ? "num" : null }, text));
    const body = rows.map(([first, ...rest]) =>
      make("tr", {}, make("th", { scope: "row" }, first), rest.map((cell) => make("td", { class: "num" }, cell))),
    );
    const whole = make("table", { class: "table" }, make("caption", { class: "unseen" }, caption));
    whole.append(make("thead", {}, make("tr", {}, head)), make("tbody", {}, body));
    element.setAttribute("aria-label", caption);
    element.replaceChildren(whole);
  }

  return { element, show };
}

// An input under its label.
export const field = (label, input) => make("label", { class: "field" }, make("span", {}, label), input);

// The choices of a select: [value, text]; the chosen one stays while it is among them.
export function offer(select, choices, chosen = select.value) {
  const same = JSON.stringify(choices);
  if (select.dataset.offered !== same) {
    select.replaceChildren(...choices.map(([value, text]) => make("option", { value }, text)));
    select.dataset.offered = same;
  }
  select.value = choices.some(([value]) => value === chosen) ? chosen : (choices[0]?.[0] ?? "");
}

// A chart reads some markup and %{...} in its texts: a key is neither.
export const plain = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/%/g, "&#37;");

// Set text only when it differs, so that screen readers announce it once.
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
