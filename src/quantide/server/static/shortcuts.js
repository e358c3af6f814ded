// Keyboard shortcuts, and the dialog that lists them; disabled while a text input has the focus.

import { make } from "./dom.js";

// Keys that a chart handles itself while it has the focus; listed in the dialog only.
const PANEL_KEYS = {
  "+ - 0 ← →": "in the Q-Q plot: zoom in, zoom out, all ranks, move sideways",
  "← → Home End": "in the picture of runs: from one to the next",
};

export function mount(app) {
  const help = document.getElementById("help");
  const click = (selector) => document.querySelector(selector).click();
  const focusSection = (id) => {
    const target = document.getElementById(id);
    target.setAttribute("tabindex", "-1");
    target.focus();
    target.scrollIntoView({ block: "start" });
  };
  const keys = {
    "/": ["choose a key", () => document.getElementById("key")?.focus()],
    "[": ["a shorter window", () => app.window.step(-1)],
    "]": ["a longer window", () => app.window.step(1)],
    l: ["log scale on or off", () => click("#lines-tools input")],
    n: ["to Now", () => focusSection("now")],
    c: ["to Now against history", () => focusSection("compare")],
    a: ["to Alarms", () => focusSection("alarms")],
    w: ["to Worst keys", () => focusSection("worst")],
    q: ["to Continuous queries", () => focusSection("queries")],
    r: ["to Runs of history", () => focusSection("runs")],
    t: ["light or dark", () => click("[data-theme-toggle]")],
    "?": ["this help", () => help.showModal()],
  };

  const line = (names, text) =>
    make("div", {}, make("dt", {}, names.map((name) => make("kbd", {}, name))), make("dd", {}, text));
  help.querySelector("dl").replaceChildren(
    ...Object.entries(keys).map(([key, [text]]) => line([key], text)),
    ...Object.entries(PANEL_KEYS).map(([names, text]) => line(names.split(" "), text)),
  );
  help.querySelector("[data-close]").addEventListener("click", () => help.close());
  help.addEventListener("click", (event) => event.target === help && help.close());
  document.querySelector("[data-help]").addEventListener("click", () => help.showModal());
  document.querySelector("[data-skip]").addEventListener("click", (event) => {
    event.preventDefault(); // the fragment of the URL is the selection
    focusSection("now");
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (document.querySelector("dialog[open]") || isTextInput(event.target) || !(event.key in keys)) return;
    event.preventDefault();
    keys[event.key][1]();
  });
}

function isTextInput(element) {
  if (element.isContentEditable || ["TEXTAREA", "SELECT"].includes(element.tagName)) return true;
  return element.tagName === "INPUT" && !["range", "checkbox", "radio", "button"].includes(element.type);
}
