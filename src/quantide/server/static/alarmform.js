// Form for a new alarm over the selected series.
import { field, make, offer, say } from "./dom.js";
import { chosenPlace, placeBody, placeParams, placeWords } from "./places.js";
import * as words from "./words.js";

const PHIS = [["0.5", "p50"], ["0.9", "p90"], ["0.99", "p99"], ["0.999", "p99.9"], ["own", "another"]];
const HOLDS = [["0", "at once"], ["5 s", "5 s"], ["30 s", "30 s"], ["1 min", "1 min"], ["5 min", "5 min"]];

export function alarmForm({ api, state, announce }, made) {
  const about = make("p", { class: "hint" });
  const phi = make("select", { change: prefill });
  const own = make("input", { inputmode: "decimal", placeholder: "0.95", change: prefill, size: "6" });
  const ownField = field("phi, above 0, at most 1", own);
  const side = make("select");
  const threshold = make("input", { required: true, size: "10", input: () => (touched = true) });
  const clear = make("input", { placeholder: "the same", size: "10" });
  const hold = make("select");
  const name = make("input", { maxlength: "200", placeholder: "as you like" });
  const trouble = make("p", { class: "error", role: "alert" });
  const submit = make("button", { class: "button primary" }, "Set the alarm");
  const form = make("form", { submit: send, novalidate: true }, about,
    make("div", { class: "fields" }, field("Quantile", phi), ownField, field("Is", side), field("Threshold", threshold),
      field("Clears at", clear), field("Hold", hold), field("Name", name)),
    trouble, submit);
  const details = make("details", { class: "new", toggle: opened }, make("summary", {}, "New alarm"), form);
  let touched = false;
  let turn = 0;

  offer(phi, PHIS, "0.99");
  offer(side, [["above", "above"], ["below", "below"]]);
  offer(hold, HOLDS);
  ownField.hidden = true;

  const chosenPhi = () => Number(phi.value === "own" ? own.value : phi.value);

  function opened() {
    touched = false;
    if (details.open) prefill();
  }

  // The threshold as it is now, for a start.
  async function prefill() {
    ownField.hidden = phi.value !== "own";
    const place = chosenPlace(state.get());
    const wanted = chosenPhi();
    const mine = (turn += 1);
    say(about, `About ${placeWords(place)}.`);
    if (touched || !details.open || !place.stream || !(wanted > 0 && wanted <= 1)) return;
    try {
      const path = `/api/streams/${encodeURIComponent(place.stream)}/quantiles`;
      const { answers } = await api.get(path, { ...placeParams(place), phi: wanted });
      if (mine === turn && !touched) threshold.value = shortened(answers[0].value);
    } catch (error) {
      say(trouble, error.message);
    }
  }

  async function send(event) {
    event.preventDefault();
    const wrong = wrongWith();
    say(trouble, wrong ?? "");
    if (wrong) return;
    const body = { ...placeBody(chosenPlace(state.get())), phi: chosenPhi(), [side.value]: read(threshold.value) };
    if (hold.value !== "0") body.hold = hold.value;
    if (clear.value.trim()) body.clear = read(clear.value);
    if (name.value.trim()) body.name = name.value.trim();
    submit.disabled = true;
    try {
      await api.post("/api/alarms", body);
      announce("The alarm is set.");
      name.value = clear.value = "";
      details.open = false;
      made();
    } catch (error) {
      say(trouble, error.status === 403 ? `This token may not set alarms: ${error.message}` : error.message);
    } finally {
      submit.disabled = false;
    }
  }

  function wrongWith() {
    const asked = chosenPhi();
    if (!(asked > 0 && asked <= 1)) return point(own, "phi must be above 0 and at most 1: 0.95 is p95.");
    if (!threshold.value.trim()) return point(threshold, "Enter a threshold.");
    return null;
  }

  function point(input, text) {
    input.focus();
    return text;
  }

  state.subscribe(() => details.open && prefill());
  return details;
}

// Numbers are numbers in JSON; times, durations and infinities are text.
function read(text) {
  const said = text.trim();
  return said !== "" && Number.isFinite(Number(said)) ? Number(said) : said;
}

const shortened = (value) => (typeof value === "number" ? String(Number(value.toPrecision(4))) : value);
