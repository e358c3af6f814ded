// Form for a new alarm on the selected series.
import { field, make, setOptions, setText } from "./dom.js";
import { selectedSeries, seriesBody, seriesLabel, seriesParams } from "./series.js";
import * as format from "./format.js";

const COMMON_PHIS = ["0.5", "0.9", "0.99", "0.999", "0.9999"];
const PHIS = [...COMMON_PHIS.map((phi) => [phi, format.phi(Number(phi))]), ["own", "another"]];
const HOLDS = [["0", "at once"], ["5 s", "5 s"], ["30 s", "30 s"], ["1 min", "1 min"], ["5 min", "5 min"]];
const DEFAULT_HOLD = "30 s"; // shorter ones let an alarm start and stop with every wave of the values
const NOT_FINITE = "An alarm with an infinite limit never fires, or never stops. Enter a finite number, such as 12.5.";

// onCreate() is called after an alarm is set.
export function alarmForm({ api, state, streams, announce }, onCreate) {
  const seriesLine = make("p", { class: "hint" });
  const phi = make("select", { change: showHint });
  const customPhi = make("input", { inputmode: "decimal", placeholder: "0.95", change: showHint, size: "6" });
  const customPhiField = field("phi, from 0 to 1", customPhi);
  const side = make("select");
  const threshold = make("input", { required: true, size: "10" });
  const clear = make("input", { placeholder: "the same", size: "10" });
  const hold = make("select");
  const name = make("input", { maxlength: "200", placeholder: "as you like" });
  const errorLine = make("p", { class: "error", role: "alert" });
  const submit = make("button", { class: "button primary" }, "Set the alarm");
  const units = [];
  const form = make("form", { submit: send, novalidate: true }, seriesLine,
    make("div", { class: "fields" }, field("Quantile", phi), customPhiField, field("Is", side),
      limitField("Threshold", threshold), limitField("Clears at", clear), field("Hold", hold), field("Name", name)),
    errorLine, submit);
  const details = make("details", { class: "new", toggle: onToggle }, make("summary", {}, "New alarm"), form);
  let lastRequestId = 0;

  setOptions(phi, PHIS, "0.99");
  setOptions(side, [["above", "above"], ["below", "below"]]);
  setOptions(hold, HOLDS, DEFAULT_HOLD);
  customPhiField.hidden = true;

  // A field with the unit of the stream in its label.
  function limitField(label, input) {
    const unit = make("span");
    units.push(unit);
    const container = field(label, input);
    container.querySelector("span").append(unit);
    return container;
  }

  const readPhi = () => Number(phi.value === "own" ? customPhi.value.trim() || NaN : phi.value);

  function onToggle() {
    if (details.open) showHint();
  }

  // Show the current value as a placeholder, not as the threshold: the alarm would fire at once.
  async function showHint() {
    customPhiField.hidden = phi.value !== "own";
    const series = selectedSeries(state.get());
    const phiValue = readPhi();
    const requestId = (lastRequestId += 1);
    const about = `About ${seriesLabel(series)}.`;
    setText(seriesLine, about);
    threshold.placeholder = "";
    for (const unit of units) setText(unit, streams.unit(series.stream) && ` (${streams.unit(series.stream).trim()})`);
    if (!details.open || !series.stream || !(phiValue > 0 && phiValue <= 1)) return;
    try {
      const path = `/api/streams/${encodeURIComponent(series.stream)}/quantiles`;
      const { answers } = await api.get(path, { ...seriesParams(series), phi: phiValue });
      if (requestId === lastRequestId)
        threshold.placeholder = `now ${round(answers[0].value)}${streams.unit(series.stream)}`;
    } catch (error) {
      if (requestId === lastRequestId) setText(seriesLine, `${about} No current value: ${error.message}`);
    }
  }

  async function send(event) {
    event.preventDefault();
    const message = validate();
    setText(errorLine, message ?? "");
    if (message) return;
    const body = {
      ...seriesBody(selectedSeries(state.get())),
      phi: readPhi(),
      [side.value]: parseLimit(threshold.value),
    };
    if (hold.value !== "0") body.hold = hold.value;
    if (clear.value.trim()) body.clear = parseLimit(clear.value);
    if (name.value.trim()) body.name = name.value.trim();
    submit.disabled = true;
    try {
      await api.post("/api/alarms", body);
      announce("The alarm is set.");
      name.value = clear.value = threshold.value = "";
      details.open = false;
      onCreate();
    } catch (error) {
      setText(errorLine, error.status === 403 ? `This token may not set alarms: ${error.message}` : error.message);
    } finally {
      submit.disabled = false;
    }
  }

  function validate() {
    const phi = readPhi();
    if (!(phi >= 0 && phi <= 1)) return rejectInput(customPhi, "phi must be from 0 to 1: 0.95 is p95.");
    if (!threshold.value.trim()) return rejectInput(threshold, "Enter a threshold.");
    for (const input of [threshold, clear]) if (isInfinite(input.value)) return rejectInput(input, NOT_FINITE);
    return null;
  }

  function rejectInput(input, text) {
    input.focus();
    return text;
  }

  state.subscribe(() => details.open && showHint());
  return details;
}

// 1e999 is infinite, as "inf" is.
const isInfinite = (text) => /^[+-]?(inf(inity)?|∞)$/i.test(text.trim()) || Math.abs(Number(text)) === Infinity;

// A number if the text is one; times and durations remain text.
function parseLimit(text) {
  const trimmed = text.trim();
  return trimmed !== "" && Number.isFinite(Number(trimmed)) ? Number(trimmed) : trimmed;
}

// Text with four significant digits, which may be typed into the field.
function round(value) {
  if (typeof value !== "number") return value;
  const text = value.toPrecision(4);
  return Number.isInteger(value) || text.includes("e") ? String(Number(text)) : text;
}
