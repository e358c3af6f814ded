// Tiles with large numbers: one for each quantile with its proved bounds, and one for the number of values.

import { make, setText } from "./dom.js";

const MAX_LETTERS = 10; // longer values are shown smaller

export function mount(element, phis, { format, streams }) {
  const tiles = phis.map((phi, index) => {
    const [value, band, rank] = ["value", "band", "rank"].map((name) => make("p", { class: `number-${name}` }));
    const swatch = make("span", { class: `swatch series-${index + 1}`, "aria-hidden": "true" });
    const unit = make("span", { class: "muted" });
    const box = make("div", { class: "number" }, make("h3", {}, swatch, format.phi(phi), unit), value, band, rank);
    return { box, value, band, rank, unit };
  });
  const count = make("p", { class: "number-value" });
  const error = make("p", { class: "number-band" });
  const version = make("p", { class: "number-rank" });
  const summary = make("div", { class: "number about" }, make("h3", {}, "values in the window"), count, error, version);
  element.replaceChildren(...tiles.map((one) => one.box), summary);

  return {
    // body is a response of /quantiles.
    show(body) {
      const values = body.answers.map((answer) => answer.value);
      body.answers.forEach((answer, index) => {
        const { value, band, rank, unit } = tiles[index];
        setText(unit, streams.unit());
        setText(value, format.steady(answer.value, values));
        value.classList.toggle("long", value.textContent.length > MAX_LETTERS);
        setText(band, bandLine(answer, format) + (answer.low === answer.high ? "" : streams.unit()));
        setText(rank, rankLine(answer, body.n, format));
      });
      const maxError = Math.max(...body.answers.map((answer) => answer.error));
      setText(count, format.count(body.n));
      setText(error, maxError ? `all ranks within ${format.rankError(maxError, body.n)}` : "all ranks exact");
      setText(version, `as of commit ${body.version.toLocaleString("en")}`);
    },

    // Show that there are no values: the window is empty, or the stream is not ready.
    clear() {
      for (const { value, band, rank } of tiles) (setText(value, "–"), setText(band, ""), setText(rank, ""));
      (setText(count, "–"), setText(error, ""), setText(version, ""));
    },
  };
}

// The rank error; "" where the band already says that the value is exact.
function rankLine({ low, high, error }, n, format) {
  if (error) return `rank off by at most ${format.rankError(error, n)}`;
  return low === high ? "" : "rank exact";
}

function bandLine({ low, high }, format) {
  if (low === undefined) return "";
  if (low === high) return "proved to be exact";
  const [from, to] = format.bounds(low, high);
  return `proved ${from} to ${to}`;
}
