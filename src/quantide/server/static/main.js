// Starts the page: the streams there are, then the live part, then everything below it.

import * as api from "./api.js";
import * as charts from "./charts.js";
import * as keys from "./keychooser.js";
import * as live from "./livestatus.js";
import * as now from "./nowpanel.js";
import * as shortcuts from "./shortcuts.js";
import * as state from "./state.js";
import * as streams from "./streams.js";
import * as format from "./format.js";

const PATIENCE = 350; // milliseconds for the first answers, before the other panels start
const FIRST = 1500; // and that the first chart gets before everything below it is begun
const SPEAK = 4000; // between two announcements

const app = { api, state, charts, format, announce, streams, onCommit: streams.onCommit };

let spoken = 0;
let waiting = null;

// Announce text to screen readers; only the newest, when there is too much.
function announce(text) {
  clearTimeout(waiting);
  waiting = setTimeout(
    () => {
      spoken = performance.now();
      document.getElementById("announcer").textContent = text;
    },
    Math.max(0, spoken + SPEAK - performance.now()),
  );
}

const after = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

const painted = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));

// A panel that fails shows its error, and does not affect the others.
async function mountPanel(element) {
  try {
    const panel = await import(`./${element.dataset.panel}.js`);
    element.replaceChildren();
    await panel.mount(element, app);
  } catch (error) {
    element.textContent = `This part of the page failed: ${error.message}`;
    element.classList.remove("loading");
    element.classList.add("error");
    console.error(error);
  }
}

async function start() {
  const [alarms, ...panels] = document.querySelectorAll("[data-panel]");
  streams.onChange(() => (document.getElementById("worst").hidden = !streams.selected()?.key_columns?.length));
  shortcuts.mount(app);
  live.mount(document.getElementById("live"), app);
  keys.mount(document.getElementById("keys"), app);
  const { begun, drawn } = now.mount(document.getElementById("now"), app);
  await Promise.race([streams.mount(document.getElementById("streams"), app), after(PATIENCE)]);
  await Promise.race([begun.then(painted), after(PATIENCE)]);
  mountPanel(alarms); // beside the first chart, and without a chart of its own
  await Promise.race([drawn, after(FIRST)]);
  for (const panel of panels) mountPanel(panel);
}

start();
