// Thresholds of alarms over the series of the chart, as lines across it.

const FAR = 2;
const NARROW = 500; // pixels of a chart's width
const SETTLE = 300; // milliseconds: alarms that change together are requested once

// A thin, soft outline of letters, in a colour: text on a line can be read, and the line stays visible between them.
const halo = (color) => `0 0 1px ${color}, 0 0 2px ${color}`;

// changed() is called when there are others.
export function mount({ api, state, format, streams }, changed) {
  let alarms = [];
  let timer = null;

  async function look() {
    timer = null;
    try {
      alarms = (await api.get("/api/alarms")).alarms;
      changed();
    } catch (error) {
      if (error.code !== "unreachable") console.warn("thresholds are not drawn:", error.message); // see their panel
    }
  }

  const soon = () => (timer ??= setTimeout(look, SETTLE));
  api.listen({ alarms: "all" }, { alarm: soon });
  document.addEventListener("alarms", soon); // an alarm was set or dropped on this page

  const here = (alarm) => {
    const { stream, key, filter } = state.get();
    const same = (one, other) => JSON.stringify(one ?? null) === JSON.stringify(other ?? null);
    return alarm.measure !== "ks" && alarm.stream === stream && same(alarm.key, key) && same(alarm.filter, filter);
  };

  // The name of a line; a narrow chart has only room for the quantile, and the panel of alarms has the rest.
  function label(alarm, narrow) {
    if (narrow) return `alarm: ${format.phi(alarm.phi)}`;
    const way = (alarm.above ?? null) === null ? "below" : "above";
    const window = format.window(alarm.window);
    const whose = window === format.window(state.get().window) ? "" : ` of the ${window}`;
    return `alarm: ${format.phi(alarm.phi)}${whose} ${way} ${format.number(alarm.above ?? alarm.below)}${streams.unit()}`;
  }

  // Shapes and names for a chart's layout. A threshold far above the largest value would squeeze the lines together.
  return {
    marks(colors, most, log, width) {
      const marks = { shapes: [], annotations: [] };
      for (const alarm of alarms.filter(here)) {
        const y = format.drawable(alarm.above ?? alarm.below);
        if (y === null || y > FAR * most || (log && y <= 0)) continue;
        const line = { color: colors.bad, width: 1.5, dash: "dash" };
        marks.shapes.push({ type: "line", xref: "paper", x0: 0, x1: 1, y0: y, y1: y, line });
        marks.annotations.push({
          x: 0,
          xref: "paper",
          xanchor: "left",
          y: log ? Math.log10(y) : y,
          yanchor: "bottom",
          text: label(alarm, width < NARROW),
          showarrow: false,
          font: { color: colors.bad, size: 11, shadow: halo(colors.panel) }, // a background would hide the lines
        });
      }
      return marks;
    },
  };
}
