// Card of one alarm: its state, its series, its history, and a button to drop it.
import { make, setText } from "./dom.js";
import { sameKey, seriesLabel } from "./series.js";
import * as format from "./format.js";

const MAX_TRANSITIONS = 8; // that are shown
// Icon, label and tooltip of each state, the most urgent first.
const STATES = {
  firing: ["●", "firing", "It fires: the value was proved to be beyond the threshold."],
  certain: ["▲", "waiting", "Beyond the threshold, proved; it fires when the hold time is over."],
  possible: ["?", "possible", "The bounds cannot decide."],
  no: ["✓", "quiet", "Not beyond the threshold, proved."],
};
// Text after "firing" in the list of transitions: how the bounds of the value compare with the threshold.
const FIRING = {
  certain: "proved to be beyond the threshold",
  possible: "the bounds leave open whether it is beyond the threshold",
  no: "proved not to be beyond the threshold, but not cleared yet",
};

// State that the card shows: one of STATES.
export const displayState = ({ firing, state }) => (firing ? "firing" : state);
export const urgency = (alarm) => Object.keys(STATES).indexOf(displayState(alarm));

// onDrop() is called after the alarm is dropped.
export function alarmCard({ api, state, announce, streams }, id, onDrop) {
  const badge = make("span", { class: "badge" });
  const titleLine = make("h3");
  const ruleLine = make("p", { class: "hint" });
  const valueLine = make("p");
  const sinceLine = make("p", { class: "hint" });
  const transitionList = make("ol", { class: "transitions" });
  const errorLine = make("p", { class: "error", role: "alert" });
  const onToggle = () => details.open && loadHistory();
  const details = make("details", { toggle: onToggle }, make("summary", {}, "What happened"), transitionList);
  const button = (text, click, kind = "") =>
    make("button", { type: "button", class: `button small ${kind}`, click }, text);
  const showButton = button("Show", () => state.set(selection));
  const dropButton = button("Drop", () => setConfirming(true));
  const confirmation = make("span", { class: "row", hidden: true });
  confirmation.append("Drop it?", button("Yes, drop", drop, "danger"), button("Keep", () => setConfirming(false)));
  const head = make("div", { class: "alarm-head" }, titleLine, badge);
  const foot = make("div", { class: "alarm-foot" }, details, showButton, dropButton, confirmation);
  const element = make("li", { class: "alarm" }, head, valueLine, ruleLine, sinceLine, foot, errorLine);
  let shownState = null;
  let selection = null; // the series of the alarm, for the button Show

  function setConfirming(confirming) {
    dropButton.hidden = confirming;
    confirmation.hidden = !confirming;
    (confirming ? confirmation.querySelector("button") : dropButton).focus();
  }

  async function drop() {
    try {
      await api.remove(`/api/alarms/${id}`);
      announce("The alarm was dropped.");
      onDrop();
    } catch (error) {
      setText(errorLine, error.message);
      setConfirming(false);
    }
  }

  async function loadHistory() {
    try {
      const { transitions } = await api.get(`/api/alarms/${id}/history`, { limit: MAX_TRANSITIONS });
      const when = ({ at }) => make("time", { datetime: at }, format.time(at));
      const items = transitions.map((one) =>
        make("li", {}, when(one), describeTransition(one, streams.unit(selection.stream))),
      );
      transitionList.replaceChildren(
        ...(items.length ? items : [make("li", {}, "Nothing has changed since it was set.")]),
      );
    } catch (error) {
      setText(errorLine, error.message);
    }
  }

  // others are the values of the alarms of the same stream: all are shown with as many digits.
  function show(alarm, others) {
    const currentState = displayState(alarm);
    const [icon, label, meaning] = STATES[currentState];
    if (badge.dataset.state !== currentState) {
      badge.dataset.state = element.dataset.state = currentState;
      badge.title = meaning;
      badge.replaceChildren(make("span", { "aria-hidden": "true" }, icon), ` ${label}`);
    }
    const [side, limit] = (alarm.above ?? null) === null ? ["below", alarm.below] : ["above", alarm.above];
    const unit = isDistance(alarm) ? "" : streams.unit(alarm.stream);
    const beyond = `${side} ${format.number(limit)}${unit}`;
    const duration = alarm.hold ? `, for ${format.span(alarm.hold)}` : "";
    const cleared = alarm.clear === limit ? "" : `, clears at ${format.number(alarm.clear)}${unit}`;
    setText(titleLine, alarm.name || `${measureLabel(alarm)} ${beyond}`);
    setText(
      ruleLine,
      `${measureLabel(alarm)} of ${seriesLabel(alarm)}${describeReference(alarm)}, ${beyond}${duration}${cleared}`,
    );
    setText(
      valueLine,
      (alarm.value ?? null) === null ? (alarm.why ?? "No value yet.") : describeValue(alarm, unit, others),
    );
    const quietLabel = currentState === "no" ? "Quiet" : "Not firing"; // "quiet" is proved, other states are not
    setText(sinceLine, `${alarm.firing ? "Fires" : quietLabel} since ${format.time(alarm.since)}`);
    selection = { stream: alarm.stream, key: alarm.key, filter: alarm.filter };
    if (/^(within:|last:\d+$)/.test(alarm.window)) selection.window = alarm.window; // windows that the slider offers
    showButton.setAttribute("aria-label", `Show ${seriesLabel(alarm)}`);
    if (shownState !== alarm.since + currentState && details.open) loadHistory();
    shownState = alarm.since + currentState;
  }

  return { element, show };
}

const isDistance = ({ measure }) => measure === "ks";

// "p99", or "KS distance".
export const measureLabel = (alarm) => (isDistance(alarm) ? "KS distance" : format.phi(alarm.phi));

// "41.2 ms", or both bounds of a distance: "0.084 to 0.166".
export function valueLabel({ measure, value }, unit) {
  if ((value ?? null) === null) return format.number(value);
  if (!isDistance({ measure })) return format.steady(value) + unit;
  const [low, high] = format.bounds(value.low, value.high);
  return low === high ? low : `${low} to ${high}`;
}

// Reference of a distance: " from everything", with its key and filter if they differ from the alarm's.
function describeReference({ key, filter, against }) {
  if (!against) return "";
  const parts = [format.window(against.window)];
  if (!sameKey(against.key, key)) parts.unshift(format.key(against.key));
  if ((against.filter ?? null) !== (filter ?? null)) parts.push(against.filter ? `only ${against.filter}` : "no filter");
  return ` from ${parts.join(", ")}`;
}

function describeValue(alarm, unit, others) {
  const { phi, value, rank_lo, rank_hi, n } = alarm;
  if (isDistance(alarm)) {
    return `KS distance is ${valueLabel(alarm, "")}, of ${format.number(n)} and ${format.number(alarm.against_n)} values`;
  }
  const [low, high, of] = [rank_lo, rank_hi, n].map(format.number);
  return `${format.phi(phi)} is ${format.steady(value, others)}${unit}, rank ${low === high ? low : `${low} to ${high}`} of ${of}`;
}

function describeTransition(transition, unit) {
  const { firing, state, value, why } = transition;
  const at = (value ?? null) === null ? (why ? `: ${why}` : "") : ` at ${valueLabel(transition, unit)}`;
  return ` ${firing ? `firing, ${FIRING[state]}` : STATES[state][1]}${at}`; // "quiet" is proved, other states are not
}
