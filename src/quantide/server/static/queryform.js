// Form for a continuous query on the selected series.
import { field, make, setText } from "./dom.js";
import { selectedSeries, seriesBody, seriesLabel } from "./series.js";
import * as format from "./format.js";

const LABEL = "from the page";

// onCreate() is called after a query is registered.
export function queryForm({ api, state, announce }, onCreate) {
  const seriesLine = make("p", { class: "hint" });
  const phi = make("input", { value: "0.99", inputmode: "decimal", size: "8" });
  const eps = make("input", { placeholder: "the finest", inputmode: "decimal", size: "8" });
  const status = make("p", { class: "hint", role: "status" });
  const errorLine = make("p", { class: "error", role: "alert" });
  const form = make("form", { submit: send, novalidate: true }, seriesLine,
    make("div", { class: "fields" }, field("phi", phi), field("Off by at most (eps)", eps),
      make("button", { class: "button primary" }, "Register")),
    status, errorLine);
  const details = make("details", { class: "new", toggle: showSeries }, make("summary", {}, "New continuous query"), form);

  function showSeries() {
    setText(seriesLine, `About ${seriesLabel(selectedSeries(state.get()))}. It stays until it is dropped.`);
  }

  async function send(event) {
    event.preventDefault();
    const body = { ...seriesBody(selectedSeries(state.get())), phi: Number(phi.value), label: LABEL };
    if (eps.value.trim()) body.eps = Number(eps.value);
    const invalid = Number.isNaN(body.phi) || Number.isNaN(body.eps ?? 0);
    setText(errorLine, invalid ? "phi and eps are numbers, such as 0.99 and 0.01." : "");
    if (invalid) return;
    try {
      const { queries } = await api.post("/api/queries", body);
      setText(status, `Registered as query ${queries[0].id}, within ${format.percent(queries[0].eps)} of the ranks.`);
      announce(status.textContent);
      onCreate();
    } catch (error) {
      setText(errorLine, error.status === 403 ? `This token may not register queries: ${error.message}` : error.message);
    }
  }

  state.subscribe(showSeries);
  return details;
}
