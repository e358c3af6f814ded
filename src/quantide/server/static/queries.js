// Standing queries: how many there are, how few looks they cost, and new ones for what is looked at.
import { make, say, table } from "./dom.js";
import { paced } from "./pace.js";
import { placeWords } from "./places.js";
import { queryForm } from "./queryform.js";
import * as words from "./words.js";

const LEAST = 1000; // milliseconds between two looks
const MOST = 50; // windows that are listed
const HEADS = ["Window", "Queries", "Clusters", "Next look", "Looks", "Saved"];

export function mount(element, app) {
  const tiles = make("dl", { class: "tiles" });
  const windows = table();
  const rest = make("p", { class: "hint" });
  const trouble = make("p", { class: "error", role: "status" });
  const empty = make("p", { class: "hint", hidden: true }, "No window has standing queries. The form below registers one.");
  element.append(
    make("p", { class: "hint" }, "Queries whose answers lie close together are looked at as one cluster, and only when one of them could have changed."),
    tiles, trouble, empty, windows.element, rest, queryForm(app, () => looking.now()));
  const values = {};
  for (const [name, label] of [["queries", "queries"], ["windows", "windows"], ["clusters", "clusters"], ["saved", "looks saved"]]) {
    values[name] = make("dd");
    tiles.append(make("div", { class: "tile" }, make("dt", {}, label), values[name]));
  }

  const looking = paced(element, refresh, LEAST);
  setInterval(looking.later, LEAST);

  async function refresh() {
    try {
      show(await app.api.get("/api/monitors", { limit: MOST }));
      say(trouble, "");
    } catch (error) {
      say(trouble, error.message);
    }
  }

  function show({ count, monitors, totals }) {
    const looks = totals.evaluations + totals.saved;
    say(values.queries, words.count(totals.queries));
    say(values.windows, words.count(count));
    say(values.clusters, words.count(totals.clusters));
    say(values.saved, looks ? `${words.percent(totals.saved / looks)}, ${words.count(totals.saved)}` : "none yet");
    empty.hidden = count > 0;
    windows.element.hidden = count === 0;
    windows.show("Windows with standing queries", HEADS, monitors.map(row));
    say(rest, count > monitors.length ? `${words.count(count - monitors.length)} more windows are not listed.` : "");
  }
}

function row(monitor) {
  const { queries, clusters, evaluations, saved, deadline, listened } = monitor;
  const seen = evaluations !== undefined;
  const share = seen && saved + evaluations > 0 ? saved / (saved + evaluations) : null;
  return [
    make("span", { class: "place" }, placeWords(monitor), listened ? "" : make("span", { class: "hint" }, " (nobody listens)")),
    words.count(queries),
    seen ? words.count(clusters) : "–",
    !seen ? "–" : deadline === null || deadline === undefined ? "at each commit" : `in ${words.count(deadline)} values`,
    seen ? words.count(evaluations) : "–",
    share === null ? "–" : bar(share),
  ];
}

// A share as a small bar beside its number.
function bar(share) {
  const inner = make("span", { class: "bar-fill" });
  inner.style.width = `${share * 100}%`;
  return make("span", { class: "with-bar" }, words.percent(share), make("span", { class: "bar", "aria-hidden": "true" }, inner));
}
