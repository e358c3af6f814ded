// Starts the page: loads the streams, then the panel of current quantiles, then the panels below it.

import * as api from "./api.js";
import * as charts from "./charts.js";
import * as keyChooser from "./keychooser.js";
import * as liveStatus from "./livestatus.js";
import * as nowPanel from "./nowpanel.js";
import * as shortcuts from "./shortcuts.js";
import * as state from "./state.js";
import * as streams from "./streams.js";
import * as format from "./format.js";

const FIRST_PAINT_TIMEOUT = 350; // milliseconds to wait for the first responses before the alarms are loaded
const FIRST_CHART_TIMEOUT = 1500; // milliseconds to wait for the first chart before the panels below it are loaded
const ANNOUNCEMENT_INTERVAL = 4000; // milliseconds between two announcements

const app = { api, state, charts, format, announce, streams, onCommit: streams.onCommit };

const pendingTexts = new Map(); // by topic
let lastAnnounced = 0;
let announcementTimer = null;

// Announce text to screen readers, once per interval: all texts since the last time, of each topic the newest.
function announce(text, topic = text) {
  pendingTexts.delete(topic);
  pendingTexts.set(topic, text);
  announcementTimer ??= setTimeout(
    () => {
      const texts = [...pendingTexts.values()];
      pendingTexts.clear();
      announcementTimer = null;
      lastAnnounced = performance.now();
      const sentences = texts.map((one) => one.replace(/\.?$/, "."));
      document.getElementById("announcer").textContent = texts.length > 1 ? sentences.join(" ") : texts[0];
    },
    Math.max(0, lastAnnounced + ANNOUNCEMENT_INTERVAL - performance.now()),
  );
}

const delay = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

const nextPaint = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));

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
  liveStatus.mount(document.getElementById("live"), app);
  keyChooser.mount(document.getElementById("keys"), app);
  const { linesShown, chartDrawn } = nowPanel.mount(document.getElementById("now"), app);
  await Promise.race([streams.mount(document.getElementById("streams"), app), delay(FIRST_PAINT_TIMEOUT)]);
  await Promise.race([linesShown.then(nextPaint), delay(FIRST_PAINT_TIMEOUT)]);
  mountPanel(alarms); // it has no chart, and may load while the first chart is drawn
  await Promise.race([chartDrawn, delay(FIRST_CHART_TIMEOUT)]);
  for (const panel of panels) mountPanel(panel);
}

start();
