// Q-Q plot: the quantiles of two series at the same phis. Zooming requests finer points of a smaller range of phi; some
// phis of the range become continuous queries, so that their points move as values arrive.
import { make, setText } from "./dom.js";
import { qqQueries } from "./qqqueries.js";
import { seriesAddress } from "./series.js";
import { pairTraces, plotLayout, plotRanges } from "./qqdraw.js";
import { createZoom } from "./zoom.js";

const POINTS = 101;
const QUERY_COUNT = 20; // phis with continuous queries, one query for each axis
const TAILS = [0.9, 0.99, 0.999];
const REFRESH_NOTE = "the points are requested again as values arrive";
// Marks of the plot and what they mean; the class has the colour.
const LEGEND = [
  ["●", "low", "low quantiles"],
  ["●", "high", "high quantiles"],
  ["◆", "named", "named quantiles"],
  ["○", "ring", "moves as values arrive"],
];

// onZoom() is called when another range is selected; it must lead to refresh().
export function qqChart({ api, charts, format, streams, announce }, onZoom) {
  const plot = make("div", { class: "chart square", tabindex: "0", "aria-keyshortcuts": "+ - 0 ArrowLeft ArrowRight" });
  const zoomTrail = make("ol");
  const precisionNote = make("p", { class: "hint" });
  const queryNote = make("p", { class: "hint" });
  const legend = make("p", { class: "hint legend" }, LEGEND.map(([mark, name, meaning]) =>
    make("span", {}, make("span", { class: `mark ${name}`, "aria-hidden": "true" }, mark), ` ${meaning}`)));
  const notes = make("div", { class: "notes" }, precisionNote, queryNote);
  const queries = qqQueries(api, applyQueryChange);
  const zoom = createZoom(applyZoom);
  let axes = null; // {x, y}: series
  let names = null; // {x, y}: their names
  let log = false;
  let response = null; // last response of /api/qq, and its range
  let ranges = null;
  let liveValues = new Map(); // phi -> {x, y}
  let queriedRange = null; // the range that has continuous queries
  let spacing = 1; // between the phis of the continuous queries
  let hasListeners = false;
  let dragging = false;

  const inUnit = (value) => format.steady(value) + streams.unit();

  const rangeLabel = ({ from, to }) =>
    from === 0 && to === 1 ? "all ranks" : `${format.phi(from)} to ${format.phi(to)}`;

  function applyZoom() {
    setText(precisionNote, `Loading ${rangeLabel(zoom.current())}.`);
    setText(queryNote, "");
    queries.release();
    queriedRange = null;
    liveValues = new Map();
    plot.classList.add("stale"); // until the points of this range are drawn
    showZoomTrail();
    onZoom();
    if (response) announce(`Q-Q plot: ${rangeLabel(zoom.current())}`, "plot");
  }

  // Register continuous queries for phis that divide the range evenly, without its ends: these may be the minimum and
  // maximum, where a rank error leaves the value open.
  function registerQueries() {
    if (queriedRange === zoom.current()) return;
    queriedRange = zoom.current();
    const { from, to } = queriedRange;
    spacing = (to - from) / QUERY_COUNT;
    const phis = Array.from({ length: QUERY_COUNT }, (_, index) => from + (index + 0.5) * spacing);
    queries.register(axes, phis, spacing / 4);
  }

  function applyQueryChange({ count, eps, refused, failed, values = [] }) {
    if (count) {
      const phrase = `${count} continuous queries, each within ${format.percent(eps, 2)} of the ranks`;
      const isFine = eps <= spacing / 2;
      setText(
        queryNote,
        isFine
          ? `The server keeps the rings up to date by ${phrase}.`
          : `Not every quantile can have a ring: the server has ${phrase}, coarse for this range. Also, ${REFRESH_NOTE}.`,
      );
    }
    if (refused) setText(queryNote, `This token may only read, so there are no continuous queries: ${REFRESH_NOTE}.`);
    if (failed) {
      setText(queryNote, `No continuous queries yet: ${failed}`);
      queriedRange = null; // retried with the next refresh
    }
    for (const { phi, axis, value, error } of values) {
      const precise = value !== null && error <= spacing / 2 ? value : undefined; // coarser values would mislead
      liveValues.set(phi, { ...liveValues.get(phi), [axis]: precise });
    }
    if (values.length && isCurrent(zoom.current())) draw();
  }

  async function refresh() {
    const requestedRange = zoom.current();
    const requestedAxes = axes;
    const [x, y] = [seriesAddress(axes.x), seriesAddress(axes.y)];
    const body = await api.get("/api/qq", { x, y, ...requestedRange, points: POINTS });
    if (requestedAxes !== axes || zoom.current() !== requestedRange) return; // the selection changed
    response = { ...body, range: requestedRange };
    zoom.setCount(Math.max(body.x.n, body.y.n));
    setText(precisionNote, ["y", "x"].map((axis) => `${names[axis]}: ${precision(body[axis])}`).join("; ") + ".");
    draw();
    registerQueries();
  }

  const isCurrent = (range) => response?.range === range;

  const precision = ({ mode, error }) =>
    error === 0 ? `${mode}, no error` : `${mode}, within ${format.percent(error, 2)} of the ranks`;

  function draw() {
    if (dragging) return; // drawing would remove the box that the user drags
    const { from, to } = zoom.current();
    ranges = plotRanges(response, log, ranges, `${from} ${to} ${log}`);
    const [body, rings, range] = [response, new Map(liveValues), ranges];
    const titles = { x: streams.inUnit(names.x), y: streams.inUnit(names.y) };
    charts
      .draw(
        plot,
        (colors) => pairTraces(body, rings, range, names, streams.unit(), colors),
        (colors) => ({ ...plotLayout(titles, body, range, plot.clientWidth, colors), label: describe(body) }),
      )
      .then(() => plot.classList.toggle("stale", !isCurrent(zoom.current())))
      .then(addChartListeners);
  }

  function describe({ points }) {
    const above = points.filter(({ x, y }) => format.drawable(y) > format.drawable(x)).length / points.length;
    const ends = [points[0], points.at(-1)].map(
      ({ phi, x, y }) => `${format.phi(phi)} is ${inUnit(y)} up and ${inUnit(x)} across`,
    );
    return (
      `Q-Q plot, ${rangeLabel(zoom.current())}: ${names.y} up, ${names.x} across. ${Math.round(above * 100)} % of the ` +
      `points are above the diagonal, where ${names.y} is higher. ${ends.join("; ")}. ` +
      "Plus and minus zoom, zero resets, arrows move."
    );
  }

  function addChartListeners() {
    if (hasListeners) return;
    hasListeners = true;
    plot.on("plotly_doubleclick", zoomOut);
    plot.on("plotly_relayout", (change) => {
      const [across, up] = [rangeOf(change, "xaxis"), rangeOf(change, "yaxis")];
      if (!across && !up) return;
      if (!isCurrent(zoom.current())) return; // the plot still shows other series, or another range
      const inside = phisIn(across, up);
      const half = (zoom.current().to - zoom.current().from) / (POINTS - 1) / 2;
      if (inside.length && zoom.zoomTo(inside[0] - half, inside.at(-1) + half)) return;
      announce("There is nothing finer to see there.");
      draw();
    });
  }

  function rangeOf(change, axis) {
    const [low, high] = [change[`${axis}.range[0]`], change[`${axis}.range[1]`]];
    return change[`${axis}.range`] ?? (low === undefined ? null : [low, high]);
  }

  // The phis of the points within a box; if there are none, those of the points above and below it.
  function phisIn(across, up) {
    const position = (value) => (log ? Math.log10(format.drawable(value)) : format.drawable(value));
    const edge = (end) => (typeof end === "string" ? format.moment(end.replace(" ", "T")) : end); // times are text
    const within = (value, range) => !range || (position(value) >= edge(range[0]) && position(value) <= edge(range[1]));
    const phis = (test) => response.points.filter(test).map(({ phi }) => phi);
    const inside = phis(({ x, y }) => within(x, across) && within(y, up));
    return inside.length ? inside : phis(({ x }) => across && within(x, across));
  }

  const zoomIn = () => zoom.zoomIn() || announce("There is nothing finer to see.");
  const zoomOut = () => zoom.backTo(zoom.levels().length - 2);
  const keys = {
    "+": zoomIn,
    "=": zoomIn,
    "-": zoomOut,
    0: () => zoom.startAt(0),
    ArrowLeft: () => zoom.pan(-1),
    ArrowRight: () => zoom.pan(1),
  };
  plot.addEventListener("keydown", (event) => {
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    keys[event.key]();
  });

  plot.addEventListener("pointerdown", () => (dragging = true), true);
  for (const end of ["pointerup", "pointercancel"]) {
    window.addEventListener(end, () => setTimeout(endDrag), true); // after the chart has reported the box
  }

  function endDrag() {
    if (!dragging) return;
    dragging = false;
    if (isCurrent(zoom.current())) draw();
  }

  const button = (text, title, click) =>
    make("button", { type: "button", class: "button small", title, "aria-label": title, click }, text);
  const tailButtons = TAILS.map((from) =>
    button(`${format.phi(from)} up`, `${format.phi(from)} to the largest`, () => zoom.startAt(from)),
  );
  const allButton = button("All", "Reset: all ranks", () => zoom.startAt(0));
  const tools = make(
    "div",
    { class: "tools-row", role: "group", "aria-label": "Zoom of the Q-Q plot" },
    button("+", "Zoom in", zoomIn),
    button("−", "Zoom out", zoomOut),
    allButton,
    tailButtons,
  );

  function showZoomTrail() {
    const levels = zoom.levels();
    const item = (range, index) =>
      index === levels.length - 1
        ? make("span", { "aria-current": "true" }, rangeLabel(range))
        : make("button", { type: "button", class: "link", click: () => zoom.backTo(index) }, rangeLabel(range));
    zoomTrail.replaceChildren(...levels.map((range, index) => make("li", {}, item(range, index))));
    const { from, to } = zoom.current();
    [allButton, ...tailButtons].forEach((one, index) => {
      one.setAttribute("aria-pressed", String(to === 1 && from === [0, ...TAILS][index]));
    });
  }

  return {
    element: make("div", {}, tools, make("nav", { class: "trail", "aria-label": "Zoom" }, zoomTrail), plot, legend, notes),
    refresh,
    setLog(enabled) {
      if (log === enabled) return;
      log = enabled;
      if (isCurrent(zoom.current())) draw();
    },
    // Show other series, at all ranks.
    setSeries(newAxes, newNames) {
      axes = newAxes;
      names = newNames;
      ranges = response = null;
      zoom.startAt(0);
    },
  };
}
