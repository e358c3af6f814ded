// The thresholds of alarms about what the chart shows, as lines across it.

const FAR = 2;
const SETTLE = 300; // milliseconds: alarms that change together are asked for once

// changed() is called when there are others.
export function mount({ api, state, words }, changed) {
  let alarms = [];
  let timer = null;

  async function look() {
    timer = null;
    try {
      alarms = (await api.get("/api/alarms")).alarms;
      changed();
    } catch (error) {
      if (error.code !== "unreachable") console.warn("thresholds are not drawn:", error.message); // the alarms' own panel tells
    }
  }

  api.listen({ alarms: "all" }, { alarm: () => (timer ??= setTimeout(look, SETTLE)) });

  const here = (alarm) => {
    const { stream, key } = state.get();
    return alarm.stream === stream && JSON.stringify(alarm.key ?? null) === JSON.stringify(key ?? null);
  };

  return {
    // Shapes of a chart's layout. A threshold far above the largest value would squeeze the lines together.
    lines: (colors, most) =>
      alarms.filter(here).flatMap((alarm) => {
        const y = words.drawable(alarm.above ?? alarm.below);
        if (y === null || y > FAR * most) return [];
        return {
          type: "line",
          xref: "paper",
          x0: 0,
          x1: 1,
          y0: y,
          y1: y,
          line: { color: colors.bad, width: 1.5, dash: "dash" },
          label: {
            text: `alarm: ${words.phi(alarm.phi)} ${alarm.above === undefined || alarm.above === null ? "below" : "above"} ${words.number(alarm.above ?? alarm.below)}`,
            textposition: "start",
            yanchor: "bottom",
            font: { color: colors.bad, size: 11 },
          },
        };
      }),
  };
}
