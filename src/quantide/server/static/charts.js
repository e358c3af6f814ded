// Draws the charts of all panels with plotly.js, in the colours of the theme, and throttles redraws by their cost.

const SCRIPT = "/page/plotly.min.js";
const RETRY_DELAY = 5000; // milliseconds before the library is requested again, after it could not be loaded
const LOAD_ERROR = `The charts cannot be drawn: ${SCRIPT} could not be loaded. Trying again.`;
const MIN_PAUSE = 100; // milliseconds between two drawings of a chart
const COST_FACTOR = 4; // a pause is at least this many times as long as the last drawing: the page stays responsive
const CONFIG = { displayModeBar: false, responsive: false, doubleClick: false, showTips: false };

const figures = new Map();
let library = null;

export const isLoaded = () => Boolean(window.Plotly);

// Resolves when the chart library is loaded. All charts wait for the same promise; failed requests are repeated.
function load() {
  library ??= requestUntilLoaded();
  return library;
}

async function requestUntilLoaded() {
  const note = document.getElementById("charts-note");
  while (!(await requestLibrary())) {
    note.textContent = LOAD_ERROR;
    note.hidden = false;
    await new Promise((done) => setTimeout(done, RETRY_DELAY));
  }
  note.hidden = true;
}

// Resolves to true if the library is loaded; a truncated script runs without defining it.
function requestLibrary() {
  return new Promise((done) => {
    const script = document.createElement("script");
    script.src = SCRIPT;
    script.onload = script.onerror = () => done(isLoaded());
    document.head.append(script);
  });
}

// Colours of the theme by name: ink, muted, line, panel, accent, bad, good, and series, a list.
export function colors() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(`--${name}`).trim();
  const names = ["ink", "muted", "line", "grid", "panel", "accent", "bad", "good", "warn"];
  return {
    ...Object.fromEntries(names.map((name) => [name, of(name)])),
    series: [1, 2, 3, 4, 5, 6].map((i) => of(`series-${i}`)),
    fade: (color, alpha) => `${color}${Math.round(alpha * 255).toString(16).padStart(2, "0")}`,
  };
}

// Draw or redraw. traces and layout may be functions of colors(), so that they follow the theme. layout.label is
// the text of the chart for screen readers. Resolves when it is drawn.
export function draw(element, traces, layout = {}) {
  let figure = figures.get(element);
  if (!figure) {
    figure = { element, visible: false, cost: 0, lastDrawn: 0, timer: null, pending: null, config: CONFIG };
    figures.set(element, figure);
    visibilityObserver.observe(element);
    sizeObserver.observe(element);
  }
  Object.assign(figure, { traces, layout, dirty: true });
  const { promise } = (figure.pending ??= Promise.withResolvers());
  schedule(figure);
  return promise;
}

function schedule(figure) {
  if (figure.timer || figure.busy || !figure.dirty || !figure.visible || document.hidden) return;
  const wait = figure.lastDrawn + Math.max(MIN_PAUSE, COST_FACTOR * figure.cost) - performance.now();
  figure.timer = setTimeout(() => requestAnimationFrame(() => render(figure)), Math.max(0, wait));
}

async function render(figure) {
  figure.timer = null;
  if (!figure.visible || document.hidden) return;
  figure.busy = true;
  try {
    await load();
    figure.dirty = false;
    const { pending } = figure;
    figure.pending = null;
    const start = performance.now();
    const palette = colors();
    const resolve = (option) => (typeof option === "function" ? option(palette) : option);
    const { label, ...layout } = resolve(figure.layout);
    if (!figure.drawn) figure.element.replaceChildren(); // the placeholder
    await Plotly.react(figure.element, resolve(figure.traces), addDefaults(layout, palette), figure.config);
    figure.drawn = true;
    document.getElementById("js-plotly-tester")?.setAttribute("aria-hidden", "true"); // plotly.js measures texts in it
    if (label) {
      figure.element.setAttribute("role", "img");
      figure.element.setAttribute("aria-label", label);
    }
    figure.lastDrawn = performance.now();
    figure.cost = figure.lastDrawn - start;
    figure.element.classList.add("drawn");
    pending?.resolve(); // a change of the theme redraws without a call of draw()
  } catch (error) {
    figure.element.textContent = `This chart cannot be drawn: ${error.message}`;
    console.error(error);
  } finally {
    figure.busy = false;
    schedule(figure);
  }
}

// Complete a layout with the defaults of all charts.
function addDefaults(layout, palette) {
  const axis = {
    gridcolor: palette.grid,
    linecolor: palette.line,
    zerolinecolor: palette.grid,
    tickcolor: palette.line,
    automargin: true,
    fixedrange: true,
    ticklen: 4,
    tickfont: { color: palette.muted },
  };
  const font = getComputedStyle(document.body).fontFamily;
  const full = {
    autosize: true,
    margin: { l: 8, r: 8, t: 8, b: 8 },
    paper_bgcolor: palette.panel,
    plot_bgcolor: palette.panel,
    font: { family: font, size: 12, color: palette.ink },
    showlegend: false,
    dragmode: false,
    hovermode: "closest",
    colorway: palette.series,
    separators: ".,",
    ...layout,
    hoverlabel: {
      bgcolor: palette.panel,
      bordercolor: palette.line,
      font: { family: font, size: 12, color: palette.ink },
      ...layout.hoverlabel,
    },
    xaxis: { ...axis, ...layout.xaxis },
    yaxis: { ...axis, ...layout.yaxis },
  };
  for (const name of ["xaxis", "yaxis"]) {
    if (typeof full[name].title === "string") {
      full[name].title = { text: full[name].title, font: { color: palette.muted, size: 12 }, standoff: 8 };
    }
  }
  return full;
}

const visibilityObserver = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting } of entries) {
      const figure = figures.get(target);
      if (!figure) continue;
      figure.visible = isIntersecting;
      schedule(figure);
    }
  },
  { rootMargin: "150px" },
);

const sizeObserver = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const figure = figures.get(target);
    if (!figure?.drawn || !target.clientWidth) continue;
    clearTimeout(figure.sizing);
    figure.sizing = setTimeout(() => Plotly.Plots.resize(target), 60);
  }
});

function redrawAll() {
  for (const figure of figures.values()) {
    if (figure.traces) figure.dirty = true;
    schedule(figure);
  }
}

document.addEventListener("themechange", redrawAll);
document.addEventListener("visibilitychange", () => figures.forEach(schedule));
