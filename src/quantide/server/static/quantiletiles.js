// The large numbers: each quantile with its proved bounds, and the number of values.

import { make } from "./dom.js";

const LONG = 10; // letters that fit beside each other

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
  const about = make("div", { class: "number about" }, make("h3", {}, "values in the window"), count, error, version);
  element.replaceChildren(...tiles.map((one) => one.box), about);

  return {
    // body: what /quantiles answers.
    show(body) {
      const all = body.answers.map((answer) => answer.value);
      body.answers.forEach((answer, index) => {
        const { value, band, rank, unit } = tiles[index];
        put(unit, streams.unit());
        put(value, format.steady(answer.value, all));
        value.classList.toggle("long", value.textContent.length > LONG);
        put(band, proved(answer, format) + (answer.low === answer.high ? "" : streams.unit()));
        put(rank, rankLine(answer, body.n, format));
      });
      const most = Math.max(...body.answers.map((answer) => answer.error));
      put(count, format.count(body.n));
      put(error, most ? `all ranks within ${format.rankError(most, body.n)}` : "all ranks exact");
      put(version, `as of commit ${body.version.toLocaleString("en")}`);
    },

    // Nothing to show: the window is empty, or the stream is not there.
    clear() {
      for (const { value, band, rank } of tiles) (put(value, "–"), put(band, ""), put(rank, ""));
      (put(count, "–"), put(error, ""), put(version, ""));
    },
  };
}

// A value that is exact has an exact rank: once is enough.
function rankLine({ low, high, error }, n, format) {
  if (error) return `rank off by at most ${format.rankError(error, n)}`;
  return low === high ? "" : "rank exact";
}

function proved({ low, high }, format) {
  if (low === undefined) return "";
  if (low === high) return "proved to be exact";
  const [from, to] = format.bounds(low, high);
  return `proved ${from} to ${to}`;
}

function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
