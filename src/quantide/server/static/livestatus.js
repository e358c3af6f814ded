// How live the page is, in the header: the connection, the lag of the newest value, the number of values; and below it
// the problems of the stream.

const TEXT = { live: "live", reconnecting: "reconnecting…", connecting: "connecting…" };
const STATES = { waiting: "not ready", quiet: "nothing new", ahead: "dated ahead" };
const LATE = 15_000; // milliseconds without a new value before the page reports it

export function mount(element, { api, streams, format, announce }) {
  const [state, more] = [element.querySelector(".live-state"), element.querySelector(".live-more")];
  const list = document.getElementById("problems");
  let before = "connecting";
  let standing = "connecting";

  function show() {
    const stream = streams.selected();
    const lag = streams.lag(format);
    const shown = standing === "live" && stream && !stream.ready ? "waiting" : standing;
    const late = shown !== "live" || lag === null ? null : lag > LATE ? "quiet" : lag < 0 ? "ahead" : null;
    element.dataset.state = late ?? shown;
    document.body.classList.toggle("away", standing === "reconnecting");
    put(state, STATES[late ?? shown] ?? TEXT[shown]);
    const parts = [];
    if (lag !== null) parts.push(lagText(lag, format));
    if (stream?.n !== undefined) parts.push(`${format.count(stream.n)} values`);
    if (stream?.ingest?.bad_rows) parts.push(`${format.count(stream.ingest.bad_rows)} bad rows`);
    if (stream?.ingest?.held_files) parts.push(format.counted(stream.ingest.held_files, "held file"));
    put(more, parts.join(" · "));
    showProblems(stream?.ready ? stream.problems ?? [] : []);
  }

  function showProblems(problems) {
    const text = problems.join("\n");
    if (list.dataset.shown === text) return;
    list.dataset.shown = text;
    list.hidden = !problems.length;
    list.replaceChildren(...problems.map((problem) => Object.assign(document.createElement("li"), { textContent: problem })));
    if (problems.length) announce(`Problems of the stream: ${text}`);
  }

  api.onConnection((now) => {
    standing = now;
    if (now !== before && now !== "connecting") {
      if (now === "reconnecting") announce("The connection is lost. Reconnecting.");
      else if (before === "reconnecting") announce("Connected again.");
      before = now;
    }
    show();
  });
  streams.onChange(show);
  setInterval(() => document.hidden || show(), 500);
}

function lagText(lag, format) {
  if (lag < 0) return `newest ${format.ago(-lag / 1000).replace(/ ago$/, "")} ahead of the clock`;
  return lag > LATE ? `newest ${format.ago(lag / 1000)}` : `lag ${(lag / 1000).toFixed(1)}\u00a0s`;
}

function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
