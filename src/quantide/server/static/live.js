// How live the page is, in the header: the connection, how late the newest value is, and how many there are.

const TEXT = { live: "live", reconnecting: "reconnecting…", connecting: "connecting…" };
const LATE = 15_000; // milliseconds without anything new before it is said that nothing comes

export function mount(element, { api, streams, words, announce }) {
  const [state, more] = [element.querySelector(".live-state"), element.querySelector(".live-more")];
  let before = "connecting";
  let standing = "connecting";

  function show() {
    const stream = streams.chosen();
    const lag = streams.lag(words);
    const shown = standing === "live" && stream && !stream.ready ? "waiting" : standing;
    const quiet = shown === "live" && lag !== null && lag > LATE;
    element.dataset.state = quiet ? "quiet" : shown;
    document.body.classList.toggle("away", standing === "reconnecting");
    put(state, shown === "waiting" ? "not ready" : quiet ? "nothing new" : TEXT[shown]);
    const parts = [];
    if (lag !== null) parts.push(quiet ? `newest ${words.ago(lag / 1000)}` : `lag ${(lag / 1000).toFixed(1)}\u00a0s`);
    if (stream?.n !== undefined) parts.push(`${words.count(stream.n)} values`);
    put(more, parts.join(" · "));
  }

  api.onConnection((now) => {
    standing = now;
    if (now !== before && now !== "connecting") {
      if (now === "reconnecting") announce("The connection is lost. Trying again.");
      else if (before === "reconnecting") announce("Connected again.");
      before = now;
    }
    show();
  });
  streams.onKnown(show);
  setInterval(() => document.hidden || show(), 500);
}

function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
