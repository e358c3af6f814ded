// Q-Q plot: the same phi of two series against each other. A smaller range of phi is requested anew, and finer; the
// visible phis become continuous queries, so that their points move with the streams.
import { make, setText } from "./dom.js";
import { qqQueries } from "./qqqueries.js";
import { seriesAddress } from "./series.js";
import { pairTraces, plotLayout, plotRanges } from "./qqdraw.js";
import { zooming } from "./zoom.js";

const POINTS = 101;
const LIVE = 20; // phis with continuous queries, one for each axis
const TAILS = [0.9, 0.99, 0.999];
const AGAIN = "the points are requested again as values arrive";
// Marks of the plot and what they mean; the class has the colour.
const LEGEND = [
  ["●", "low", "low quantiles"],
  ["●", "high", "high quantiles"],
  ["◆", "named", "named quantiles"],
  ["○", "ring", "moves as values arrive"],
];

// asked() is called when another range is selected; it calls refresh().
export function qqChart({ api, charts, format, streams, announce }, asked) {
  const plot = make("div", { class: "chart square", tabindex: "0", "aria-keyshortcuts": "+ - 0 ArrowLeft ArrowRight" });
  const trail = make("ol");
  const fine = make("p", { class: "hint" });
  const live = make("p", { class: "hint" });
  const legend = make("p", { class: "hint legend" }, LEGEND.map(([mark, name, meaning]) =>
    make("span", {}, make("span", { class: `mark ${name}`, "aria-hidden": "true" }, mark), ` ${meaning}`)));
  const notes = make("div", { class: "notes" }, fine, live);
  const follower = qqQueries(api, heard);
  const zoom = zooming(zoomed);
  let axes = null; // {x, y}: series
  let names = null; // {x, y}: their names
  let log = false;
  let shown = null; // last response of /api/qq, and its range
  let ranges = null;
  let moving = new Map(); // phi -> {x, y}
  let followed = null; // the range that has continuous queries
  let spacing = 1; // between the phis of the continuous queries
  let listening = false;
  let dragging = false;

  const inUnit = (value) => format.steady(value) + streams.unit();

  const rangeWords = ({ from, to }) =>
    from === 0 && to === 1 ? "all ranks" : `${format.phi(from)} to ${format.phi(to)}`;

  function zoomed() {
    setText(fine, `Loading ${rangeWords(zoom.here())}.`);
    setText(live, "");
    follower.release();
    followed = null;
    moving = new Map();
    plot.classList.add("stale"); // until the points of this range are drawn
    showTrail();
    asked();
    if (shown) announce(`Q-Q plot: ${rangeWords(zoom.here())}`);
  }

  // The middles of as many parts of the range: its ends may be the extremes, which no fraction of ranks bounds well.
  function follow() {
    if (followed === zoom.here()) return;
    followed = zoom.here();
    const { from, to } = followed;
    spacing = (to - from) / LIVE;
    const phis = Array.from({ length: LIVE }, (_, index) => from + (index + 0.5) * spacing);
    follower.follow(axes, phis, spacing / 4);
  }

  function heard({ count, eps, refused, failed, values = [] }) {
    if (count) {
      const queries = `${count} continuous queries, each within ${format.percent(eps, 2)} of the ranks`;
      const fits = eps <= spacing / 2;
      setText(live, fits ? `The server keeps the rings up to date by ${queries}.` : `Not every quantile can have a ring: the server has ${queries}, coarse for this range. Also, ${AGAIN}.`);
    }
    if (refused) setText(live, `This token may only read, so there are no continuous queries: ${AGAIN}.`);
    if (failed) {
      setText(live, `No continuous queries yet: ${failed}`);
      followed = null; // retried with the next refresh
    }
    for (const { phi, axis, value, error } of values) {
      const precise = value !== null && error <= spacing / 2 ? value : undefined; // coarser values would mislead
      moving.set(phi, { ...moving.get(phi), [axis]: precise });
    }
    if (values.length && isShown(zoom.here())) draw();
  }

  async function refresh() {
    const asked = zoom.here();
    const about = axes;
    const [x, y] = [seriesAddress(axes.x), seriesAddress(axes.y)];
    const found = await api.get("/api/qq", { x, y, ...asked, points: POINTS });
    if (about !== axes || zoom.here() !== asked) return; // the selection changed
    shown = { ...found, range: asked };
    zoom.among(Math.max(found.x.n, found.y.n));
    setText(fine, ["y", "x"].map((axis) => `${names[axis]}: ${fineness(found[axis])}`).join("; ") + ".");
    draw();
    follow();
  }

  const isShown = (range) => shown?.range === range;

  const fineness = ({ mode, error }) =>
    error === 0 ? `${mode}, no error` : `${mode}, within ${format.percent(error, 2)} of the ranks`;

  function draw() {
    if (dragging) return; // a box that is being dragged would be lost
    const { from, to } = zoom.here();
    ranges = plotRanges(shown, log, ranges, `${from} ${to} ${log}`);
    const [found, points, range] = [shown, new Map(moving), ranges];
    const titles = { x: streams.inUnit(names.x), y: streams.inUnit(names.y) };
    charts
      .draw(
        plot,
        (colors) => pairTraces(found, points, range, names, streams.unit(), colors),
        (colors) => ({ ...plotLayout(titles, found, range, plot.clientWidth, colors), label: inWords(found) }),
      )
      .then(() => plot.classList.toggle("stale", !isShown(zoom.here())))
      .then(listen);
  }

  function inWords({ points }) {
    const above = points.filter(({ x, y }) => format.drawable(y) > format.drawable(x)).length / points.length;
    const ends = [points[0], points.at(-1)].map(
      ({ phi, x, y }) => `${format.phi(phi)} is ${inUnit(y)} up and ${inUnit(x)} across`,
    );
    return (
      `Q-Q plot, ${rangeWords(zoom.here())}: ${names.y} up, ${names.x} across. ${Math.round(above * 100)} % of the ` +
      `points are above the diagonal, where ${names.y} is higher. ${ends.join("; ")}. ` +
      "Plus and minus zoom, zero resets, arrows move."
    );
  }

  function listen() {
    if (listening) return;
    listening = true;
    plot.on("plotly_doubleclick", further);
    plot.on("plotly_relayout", (change) => {
      const [across, up] = [rangeOf(change, "xaxis"), rangeOf(change, "yaxis")];
      if (!across && !up) return;
      const inside = phisIn(across, up);
      const half = (zoom.here().to - zoom.here().from) / (POINTS - 1) / 2;
      if (inside.length && zoom.into(inside[0] - half, inside.at(-1) + half)) return;
      announce("There is nothing finer to see there.");
      draw();
    });
  }

  function rangeOf(change, axis) {
    const [low, high] = [change[`${axis}.range[0]`], change[`${axis}.range[1]`]];
    return change[`${axis}.range`] ?? (low === undefined ? null : [low, high]);
  }

  // The phis of the points within a box; of those above and below it, too, where it has none.
  function phisIn(across, up) {
    const position = (value) => (log ? Math.log10(format.drawable(value)) : format.drawable(value));
    const edge = (end) => (typeof end === "string" ? format.moment(end.replace(" ", "T")) : end); // times are text
    const within = (value, range) => !range || (position(value) >= edge(range[0]) && position(value) <= edge(range[1]));
    const phis = (test) => shown.points.filter(test).map(({ phi }) => phi);
    const inside = phis(({ x, y }) => within(x, across) && within(y, up));
    return inside.length ? inside : phis(({ x }) => across && within(x, across));
  }

  const closer = () => zoom.closer() || announce("There is nothing finer to see.");
  const further = () => zoom.back(zoom.levels().length - 2);
  const keys = {
    "+": closer,
    "=": closer,
    "-": further,
    0: () => zoom.jump(0),
    ArrowLeft: () => zoom.move(-1),
    ArrowRight: () => zoom.move(1),
  };
  plot.addEventListener("keydown", (event) => {
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    keys[event.key]();
  });

  plot.addEventListener("pointerdown", () => (dragging = true), true);
  for (const end of ["pointerup", "pointercancel"]) {
    window.addEventListener(end, () => setTimeout(letGo), true); // after the chart has reported the box
  }

  function letGo() {
    if (!dragging) return;
    dragging = false;
    if (isShown(zoom.here())) draw();
  }

  const button = (text, title, click) =>
    make("button", { type: "button", class: "button small", title, "aria-label": title, click }, text);
  const tails = TAILS.map((from) =>
    button(`${format.phi(from)} up`, `${format.phi(from)} to the largest`, () => zoom.jump(from)),
  );
  const whole = button("All", "Reset: all ranks", () => zoom.jump(0));
  const tools = make(
    "div",
    { class: "tools-row", role: "group", "aria-label": "Zoom of the Q-Q plot" },
    button("+", "Zoom in", closer),
    button("−", "Zoom out", further),
    whole,
    tails,
  );

  function showTrail() {
    const levels = zoom.levels();
    const item = (range, index) =>
      index === levels.length - 1
        ? make("span", { "aria-current": "true" }, rangeWords(range))
        : make("button", { type: "button", class: "link", click: () => zoom.back(index) }, rangeWords(range));
    trail.replaceChildren(...levels.map((range, index) => make("li", {}, item(range, index))));
    const { from, to } = zoom.here();
    [whole, ...tails].forEach((one, index) => {
      one.setAttribute("aria-pressed", String(to === 1 && from === [0, ...TAILS][index]));
    });
  }

  return {
    element: make("div", {}, tools, make("nav", { class: "trail", "aria-label": "Zoom" }, trail), plot, legend, notes),
    refresh,
    setLog(wanted) {
      if (log === wanted) return;
      log = wanted;
      if (isShown(zoom.here())) draw();
    },
    // Other series: the whole plot is about them from now on.
    about(sides, called) {
      axes = sides;
      names = called;
      ranges = shown = null;
      zoom.jump(0);
    },
  };
}
