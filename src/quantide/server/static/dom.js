// Helpers that create and update elements. Text becomes text nodes, so that no key and no name can inject markup.
const SVG_NAMESPACE = "http://www.w3.org/2000/svg";

export const make = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
export const makeSvg = (tag, attributes, ...children) =>
  fill(document.createElementNS(SVG_NAMESPACE, tag), attributes, children);

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? "" : value);
    }
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

// A table that scrolls where it is too wide; its caption is for screen readers. The first cell of a row is its header.
// An update preserves focus and scroll position.
export function table() {
  const element = make("div", { class: "scroll", tabindex: "0", role: "region" });

  function show(caption, heads, rows) {
    const head = heads.map((text, index) => make("th", { scope: "col", class: index ? "num" : null }, text));
    const body = rows.map(([first, ...rest]) =>
      make("tr", {}, make("th", { scope: "row" }, first), rest.map((cell) => make("td", { class: "num" }, cell))),
    );
    const content = make("table", { class: "table" }, make("caption", { class: "unseen" }, caption));
    content.append(make("thead", {}, make("tr", {}, head)), make("tbody", {}, body));
    element.setAttribute("aria-label", caption);
    element.replaceChildren(content);
  }

  return { element, show };
}

// An input under its label.
export const field = (label, input) => make("label", { class: "field" }, make("span", {}, label), input);

// Set the options of a select: [value, text]. The selected one stays selected while it is among them.
export function setOptions(select, choices, selected = select.value) {
  const serialized = JSON.stringify(choices);
  if (select.dataset.offered !== serialized) {
    select.replaceChildren(...choices.map(([value, text]) => make("option", { value }, text)));
    select.dataset.offered = serialized;
  }
  select.value = choices.some(([value]) => value === selected) ? selected : (choices[0]?.[0] ?? "");
}

// Escape text for a chart: plotly.js interprets some HTML tags and %{...} in its texts.
export const escapeMarkup = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/%/g, "&#37;");

// Set text only when it differs, so that screen readers announce it once.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
