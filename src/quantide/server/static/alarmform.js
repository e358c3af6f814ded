// Form for a new alarm over the selected series.
import { field, make, setOptions, setText } from "./dom.js";
import { selectedSeries, seriesBody, seriesLabel, seriesParams } from "./series.js";
import * as format from "./format.js";

const USUAL = ["0.5", "0.9", "0.99", "0.999", "0.9999"];
const PHIS = [...USUAL.map((phi) => [phi, format.phi(Number(phi))]), ["own", "another"]];
const HOLDS = [["0", "at once"], ["5 s", "5 s"], ["30 s", "30 s"], ["1 min", "1 min"], ["5 min", "5 min"]];
const HOLD = "30 s"; // a shorter one may start and stop the alarm with every wave of the values
const FINITE = "An alarm with an infinite limit never fires, or never stops. Enter a finite number, such as 12.5.";

export function alarmForm({ api, state, streams, announce }, made) {
  const about = make("p", { class: "hint" });
  const phi = make("select", { change: hint });
  const own = make("input", { inputmode: "decimal", placeholder: "0.95", change: hint, size: "6" });
  const ownField = field("phi, from 0 to 1", own);
  const side = make("select");
  const threshold = make("input", { required: true, size: "10" });
  const clear = make("input", { placeholder: "the same", size: "10" });
  const hold = make("select");
  const name = make("input", { maxlength: "200", placeholder: "as you like" });
  const errorLine = make("p", { class: "error", role: "alert" });
  const submit = make("button", { class: "button primary" }, "Set the alarm");
  const units = [];
  const form = make("form", { submit: send, novalidate: true }, about,
    make("div", { class: "fields" }, field("Quantile", phi), ownField, field("Is", side), limitField("Threshold", threshold),
      limitField("Clears at", clear), field("Hold", hold), field("Name", name)),
    errorLine, submit);
  const details = make("details", { class: "new", toggle: opened }, make("summary", {}, "New alarm"), form);
  let turn = 0;

  setOptions(phi, PHIS, "0.99");
  setOptions(side, [["above", "above"], ["below", "below"]]);
  setOptions(hold, HOLDS, HOLD);
  ownField.hidden = true;

  // A field with the unit of the stream in its label.
  function limitField(label, input) {
    const unit = make("span");
    units.push(unit);
    const whole = field(label, input);
    whole.querySelector("span").append(unit);
    return whole;
  }

  const chosenPhi = () => Number(phi.value === "own" ? own.value.trim() || NaN : phi.value);

  function opened() {
    if (details.open) hint();
  }

  // The value as it is now, as a hint: as a threshold it would set the alarm off at once.
  async function hint() {
    ownField.hidden = phi.value !== "own";
    const series = selectedSeries(state.get());
    const wanted = chosenPhi();
    const mine = (turn += 1);
    setText(about, `About ${seriesLabel(series)}.`);
    threshold.placeholder = "";
    for (const unit of units) setText(unit, streams.unit(series.stream) && ` (${streams.unit(series.stream).trim()})`);
    if (!details.open || !series.stream || !(wanted > 0 && wanted <= 1)) return;
    try {
      const path = `/api/streams/${encodeURIComponent(series.stream)}/quantiles`;
      const { answers } = await api.get(path, { ...seriesParams(series), phi: wanted });
      if (mine === turn) threshold.placeholder = `now ${shortened(answers[0].value)}${streams.unit(series.stream)}`;
    } catch (error) {
      setText(errorLine, error.message);
    }
  }

  async function send(event) {
    event.preventDefault();
    const wrong = wrongWith();
    setText(errorLine, wrong ?? "");
    if (wrong) return;
    const body = { ...seriesBody(selectedSeries(state.get())), phi: chosenPhi(), [side.value]: read(threshold.value) };
    if (hold.value !== "0") body.hold = hold.value;
    if (clear.value.trim()) body.clear = read(clear.value);
    if (name.value.trim()) body.name = name.value.trim();
    submit.disabled = true;
    try {
      await api.post("/api/alarms", body);
      announce("The alarm is set.");
      name.value = clear.value = threshold.value = "";
      details.open = false;
      made();
    } catch (error) {
      setText(errorLine, error.status === 403 ? `This token may not set alarms: ${error.message}` : error.message);
    } finally {
      submit.disabled = false;
    }
  }

  function wrongWith() {
    const phi = chosenPhi();
    if (!(phi >= 0 && phi <= 1)) return point(own, "phi must be from 0 to 1: 0.95 is p95.");
    if (!threshold.value.trim()) return point(threshold, "Enter a threshold.");
    for (const input of [threshold, clear]) if (isInfinite(input.value)) return point(input, FINITE);
    return null;
  }

  function point(input, text) {
    input.focus();
    return text;
  }

  state.subscribe(() => details.open && hint());
  return details;
}

// 1e999 is infinite, as "inf" is.
const isInfinite = (text) => /^[+-]?(inf(inity)?|∞)$/i.test(text.trim()) || Math.abs(Number(text)) === Infinity;

// Numbers are numbers in JSON; times and durations are text.
function read(text) {
  const trimmed = text.trim();
  return trimmed !== "" && Number.isFinite(Number(trimmed)) ? Number(trimmed) : trimmed;
}

// Four significant digits, in a form that can be typed.
function shortened(value) {
  if (typeof value !== "number") return value;
  const text = value.toPrecision(4);
  return Number.isInteger(value) || text.includes("e") ? String(Number(text)) : text;
}
