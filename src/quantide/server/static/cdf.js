// Chart of two distributions: the fraction of values that are at most x, with its proved bounds.
import { make, escapeMarkup } from "./dom.js";
import { horizontalTicks, logAxis } from "./figure.js";

export function cdfChart({ charts, format, streams }) {
  const inUnit = (value) => format.steady(value) + streams.unit();
  const FORMATS = [inUnit, (fraction) => format.percent(fraction, 4), (fraction) => format.percent(fraction, 4)];
  const plot = make("div", { class: "chart", tabindex: "0" });

  // sides: [{name, series, curve}], the first drawn on top; curve is the response of /cdf.
  function show(sides, log) {
    charts.draw(
      plot,
      (colors) => [...sides].reverse().flatMap((side) => curveTraces(side, colors)),
      { ...layout(sides, log), label: describe(sides) },
    );
  }

  // Traces of a curve and its band. A CDF never decreases: between two values of the response it is at least the lower
  // bound of the left one and at most the upper bound of the right one. So the band has steps, and is valid everywhere.
  function curveTraces({ name, series, curve }, colors) {
    const color = colors.series[series];
    const x = curve.points.map((point) => format.drawable(point.value));
    const edge = { x, mode: "lines", hoverinfo: "skip", showlegend: false, legendgroup: name };
    const line = { width: 0, color };
    return [
      { ...edge, y: curve.points.map((point) => point.lo), line: { ...line, shape: "hv" } },
      {
        ...edge,
        y: curve.points.map((point) => point.hi),
        line: { ...line, shape: "vh" },
        fill: "tonexty",
        fillcolor: colors.fade(color, 0.25),
      },
      {
        x,
        y: curve.points.map((point) => point.fraction),
        customdata: curve.points.map(({ value, lo, hi }) => [value, lo, hi].map((one, at) => FORMATS[at](one))),
        name: escapeMarkup(name),
        legendgroup: name,
        mode: "lines",
        line: { color, width: 2, dash: series ? "dot" : "solid" },
        hovertemplate:
          `%{customdata[1]} to %{customdata[2]} are at most %{customdata[0]}<extra>${escapeMarkup(name)}</extra>`,
      },
    ];
  }

  function layout(sides, log) {
    const values = sides.flatMap(({ curve }) => curve.points.map(({ value }) => format.drawable(value)));
    const ends = log && [Math.min, Math.max].map((end) => end(...values.filter((value) => value > 0)));
    return {
      xaxis: {
        title: streams.inUnit("value"),
        ...horizontalTicks(plot.clientWidth),
        ...format.axis(sides[0].curve.value_type),
        ...(log && logAxis(...ends, plot.clientWidth)),
      },
      yaxis: { title: "fraction at most this", tickformat: ".0%", range: [0, 1.02], zeroline: false },
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", traceorder: "reversed" },
      margin: { l: 8, r: 12, t: 36, b: 8 },
      showlegend: true,
    };
  }

  function describe(sides) {
    const parts = sides.map(({ name, curve }) => {
      const half = inUnit(curve.points.find((point) => point.fraction >= 0.5).value);
      const most = inUnit(curve.points.at(-1).value);
      return `${name}: half of ${format.count(curve.n)} values are at most ${half}, the largest is ${most}`;
    });
    return `Distributions of two series. ${parts.join(". ")}.`;
  }

  return { plot, show };
}
