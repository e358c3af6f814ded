// Panel of continuous queries: their number, the evaluations they cost, and a form for new ones.
import { make, setText, table } from "./dom.js";
import { subscriptionCheckbox } from "./subscription.js";
import { createRefresher } from "./refresher.js";
import { seriesLabel } from "./series.js";
import { queryForm } from "./queryform.js";
import * as format from "./format.js";

const MIN_INTERVAL = 1000; // milliseconds between two requests
const MAX_WINDOWS = 50; // that are listed
const HEADS = ["Window", "Queries", "Clusters", "Surely right for", "Evaluations", "Saved"];
const EXPLANATION = "Queries that lie close together are one cluster, and one evaluation serves them all.";
const EMPTY_HINT = "No window has continuous queries. The form below registers one.";
const TILES = { queries: "queries", windows: "windows", clusters: "clusters", saved: "evaluations saved" };

export function mount(element, { api, state, announce }) {
  const windows = table();
  const footnote = make("p", { class: "hint" });
  const errorLine = make("p", { class: "error", role: "status" });
  const empty = make("p", { class: "hint", hidden: true }, EMPTY_HINT);
  const values = Object.fromEntries(Object.keys(TILES).map((name) => [name, make("dd")]));
  const tiles = Object.entries(TILES).map(([name, label]) =>
    make("div", { class: "tile" }, make("dt", {}, label), values[name]),
  );
  element.append(
    make("p", { class: "hint" }, EXPLANATION),
    make("dl", { class: "tiles" }, tiles),
    errorLine,
    empty,
    subscriptionCheckbox({ api }),
    windows.element,
    footnote,
    queryForm({ api, state, announce }, () => refresher.refreshNow()),
  );
  const refresher = createRefresher(element, refresh, MIN_INTERVAL);
  setInterval(refresher.schedule, MIN_INTERVAL);

  async function refresh() {
    try {
      show(await api.get("/api/monitors", { limit: MAX_WINDOWS }));
      setText(errorLine, "");
    } catch (error) {
      setText(errorLine, error.message);
    }
  }

  function scrollHint(count) {
    const { scrollHeight, clientHeight } = windows.element;
    return scrollHeight > clientHeight + 1 ? `${format.counted(count, "window")} in the table: scroll in it for more.` : "";
  }

  function show({ count, monitors, totals }) {
    const share = savedShare(totals);
    const number = make(
      "small",
      { class: "hint" },
      ` ${format.count(Math.max(0, totals.saved))} of ${format.count(separateEvaluations(totals))}`,
    );
    setText(values.queries, format.count(totals.queries));
    setText(values.windows, format.count(count));
    setText(values.clusters, format.count(totals.clusters));
    values.saved.replaceChildren(...(share === null ? ["none yet"] : [format.percent(share), number]));
    empty.hidden = count > 0;
    windows.element.hidden = count === 0;
    windows.show("Windows with continuous queries", HEADS, monitors.map(row));
    setText(footnote, [scrollHint(monitors.length), unlistedHint(count - monitors.length)].filter(Boolean).join(" "));
  }
}

const unlistedHint = (count) => (count > 0 ? `${format.count(count)} more windows are not listed.` : "");

function row(monitor) {
  const { queries, clusters, evaluations, deadline, listened } = monitor;
  const noListeners = listened ? null : make("span", { class: "hint" }, " (nobody listens)");
  const series = make("span", { class: "place" }, seriesLabel(monitor), noListeners);
  if (evaluations === undefined) return [series, format.count(queries), "–", "–", "–", "–"];
  const share = savedShare(monitor);
  return [
    series,
    format.count(queries),
    format.count(clusters),
    deadline === null ? "–" : `${format.number(deadline)} more values`,
    format.count(evaluations),
    share === null ? "–" : shareBar(share),
  ];
}

// The share of evaluations saved, compared with evaluating each query separately; null without any. At the beginning
// clusters may cost more evaluations than they save.
function savedShare({ saved, evaluations }) {
  const all = separateEvaluations({ saved, evaluations });
  return all > 0 ? Math.max(0, saved / all) : null;
}

// The number of evaluations if each query were evaluated separately.
const separateEvaluations = ({ saved, evaluations }) => saved + evaluations;

// A share as a small bar with its number.
function shareBar(share) {
  const inner = make("span", { class: "bar-fill" });
  inner.style.width = `${share * 100}%`;
  const frame = make("span", { class: "bar", "aria-hidden": "true" }, inner);
  return make("span", { class: "with-bar" }, frame, format.percent(share));
}
