// Status in the header: the connection, the lag of the newest value, the number of values; below it the problems of the
// stream.

import { setText } from "./dom.js";

const CONNECTION_TEXTS = { live: "live", reconnecting: "reconnecting…", connecting: "connecting…" };
const STATE_TEXTS = { waiting: "not ready", quiet: "nothing new", ahead: "dated ahead" };
const QUIET_AFTER = 15_000; // milliseconds of lag

export function mount(element, { api, streams, format, announce }) {
  const [stateText, detailText] = [element.querySelector(".live-state"), element.querySelector(".live-more")];
  const list = document.getElementById("problems");
  let lastAnnounced = "connecting";
  let connection = "connecting";

  function show() {
    const stream = streams.selected();
    const lag = streams.lag(format);
    const state = connection === "live" && stream && !stream.ready ? "waiting" : connection;
    const lagState = state !== "live" || lag === null ? null : lag > QUIET_AFTER ? "quiet" : lag < 0 ? "ahead" : null;
    element.dataset.state = lagState ?? state;
    document.body.classList.toggle("away", connection === "reconnecting");
    setText(stateText, STATE_TEXTS[lagState ?? state] ?? CONNECTION_TEXTS[state]);
    const parts = [];
    if (lag !== null) parts.push(lagText(lag, format));
    if (stream?.n !== undefined) parts.push(`${format.count(stream.n)} values`);
    if (stream?.ingest?.bad_rows) parts.push(`${format.count(stream.ingest.bad_rows)} bad rows`);
    if (stream?.ingest?.held_files) parts.push(format.counted(stream.ingest.held_files, "held file"));
    setText(detailText, parts.join(" · "));
    showProblems(stream?.ready ? stream.problems ?? [] : []);
  }

  function showProblems(problems) {
    const text = problems.join("\n");
    if (list.dataset.shown === text) return;
    list.dataset.shown = text;
    list.hidden = !problems.length;
    list.replaceChildren(...problems.map((problem) => Object.assign(document.createElement("li"), { textContent: problem })));
    if (problems.length) announce(`Problems of the stream: ${text}`, "problems");
  }

  api.onConnection((next) => {
    connection = next;
    if (next !== lastAnnounced && next !== "connecting") {
      if (next === "reconnecting") announce("The connection is lost. Reconnecting.", "connection");
      else if (lastAnnounced === "reconnecting") announce("Connected again.", "connection");
      lastAnnounced = next;
    }
    show();
  });
  streams.onChange(show);
  setInterval(() => document.hidden || show(), 500);
}

function lagText(lag, format) {
  if (lag < 0) return `newest ${format.ago(-lag / 1000).replace(/ ago$/, "")} ahead of the clock`;
  return lag > QUIET_AFTER ? `newest ${format.ago(lag / 1000)}` : `lag ${(lag / 1000).toFixed(1)}\u00a0s`;
}
