// Thresholds of alarms on the selected series, as lines across its chart.

import { sameKey } from "./series.js";

const MAX_RATIO = 2; // thresholds above this multiple of the largest value are not drawn
const NARROW_WIDTH = 500; // pixels; narrower charts have shorter labels
const LOAD_DELAY = 300; // milliseconds: alarms that change together are requested once

// Text shadow that outlines letters, so that a label on a line can be read and the line stays visible.
const halo = (color) => `0 0 1px ${color}, 0 0 2px ${color}`;

// onLoad() is called after the alarms are loaded.
export function mount({ api, state, format, streams }, onLoad) {
  let alarms = [];
  let timer = null;

  async function load() {
    timer = null;
    try {
      alarms = (await api.get("/api/alarms")).alarms;
      onLoad();
    } catch (error) {
      if (error.code !== "unreachable") console.warn("thresholds are not drawn:", error.message); // their panel shows it
    }
  }

  const scheduleLoad = () => (timer ??= setTimeout(load, LOAD_DELAY));
  api.listen({ alarms: "all" }, { alarm: scheduleLoad });
  document.addEventListener("alarms", scheduleLoad); // an alarm was set or dropped on this page

  const isOfSelectedSeries = (alarm) => {
    const { stream, key, filter } = state.get();
    const sameFilter = (alarm.filter ?? null) === (filter ?? null);
    return alarm.measure !== "ks" && alarm.stream === stream && sameKey(alarm.key, key) && sameFilter;
  };

  // Label of a line; a narrow chart has room for the quantile only, and the panel of alarms shows the rest.
  function label(alarm, narrow) {
    if (narrow) return `alarm: ${format.phi(alarm.phi)}`;
    const side = (alarm.above ?? null) === null ? "below" : "above";
    const window = format.window(alarm.window);
    const windowNote = window === format.window(state.get().window) ? "" : ` of the ${window}`;
    return `alarm: ${format.phi(alarm.phi)}${windowNote} ${side} ${format.number(alarm.above ?? alarm.below)}${streams.unit()}`;
  }

  // Shapes and labels for the layout of a chart. A threshold far above the largest value would flatten the lines.
  return {
    marks(colors, most, log, width) {
      const marks = { shapes: [], annotations: [] };
      for (const alarm of alarms.filter(isOfSelectedSeries)) {
        const y = format.drawable(alarm.above ?? alarm.below);
        if (y === null || y > MAX_RATIO * most || (log && y <= 0)) continue;
        const line = { color: colors.bad, width: 1.5, dash: "dash" };
        marks.shapes.push({ type: "line", xref: "paper", x0: 0, x1: 1, y0: y, y1: y, line });
        marks.annotations.push({
          x: 0,
          xref: "paper",
          xanchor: "left",
          y: log ? Math.log10(y) : y,
          yanchor: "bottom",
          text: label(alarm, width < NARROW_WIDTH),
          showarrow: false,
          font: { color: colors.bad, size: 11, shadow: halo(colors.panel) }, // a background would hide the lines
        });
      }
      return marks;
    },
  };
}
