// Card of one alarm: its state, its series, its history, and a button to drop it.
import { make, setText } from "./dom.js";
import { seriesLabel } from "./series.js";
import * as format from "./format.js";

const RECENT = 8; // transitions that are shown
const STATES = {
  firing: ["●", "firing", "It fires: the value was proved to be beyond the threshold."],
  certain: ["▲", "waiting", "Beyond the threshold, proved; it fires when the hold time is over."],
  possible: ["?", "possible", "The bounds cannot decide."],
  no: ["✓", "quiet", "Not beyond the threshold, proved."],
};
// What is added to "firing" in the list of changes: the bounds of the value beside the threshold.
const FIRING = {
  certain: "proved to be beyond the threshold",
  possible: "the bounds leave open whether it is beyond the threshold",
  no: "proved not to be beyond the threshold, but not cleared yet",
};

// State in one word; the most urgent first.
export const standing = ({ firing, state }) => (firing ? "firing" : state);
export const urgency = (alarm) => Object.keys(STATES).indexOf(standing(alarm));

// changed() is called when it was dropped.
export function alarmCard({ api, state, announce, streams }, id, changed) {
  const badge = make("span", { class: "badge" });
  const title = make("h3");
  const rule = make("p", { class: "hint" });
  const value = make("p");
  const since = make("p", { class: "hint" });
  const recent = make("ol", { class: "transitions" });
  const errorLine = make("p", { class: "error", role: "alert" });
  const opened = () => details.open && learn();
  const details = make("details", { toggle: opened }, make("summary", {}, "What happened"), recent);
  const button = (text, click, kind = "") =>
    make("button", { type: "button", class: `button small ${kind}`, click }, text);
  const shower = button("Show", () => state.set(looked));
  const dropper = button("Drop", () => ask(true));
  const sure = make("span", { class: "row", hidden: true });
  sure.append("Drop it?", button("Yes, drop", drop, "danger"), button("Keep", () => ask(false)));
  const head = make("div", { class: "alarm-head" }, title, badge);
  const foot = make("div", { class: "alarm-foot" }, details, shower, dropper, sure);
  const element = make("li", { class: "alarm" }, head, value, rule, since, foot, errorLine);
  let before = null;
  let looked = null; // its series, for the button Show

  function ask(open) {
    dropper.hidden = open;
    sure.hidden = !open;
    (open ? sure.querySelector("button") : dropper).focus();
  }

  async function drop() {
    try {
      await api.remove(`/api/alarms/${id}`);
      announce("The alarm was dropped.");
      changed();
    } catch (error) {
      setText(errorLine, error.message);
      ask(false);
    }
  }

  async function learn() {
    try {
      const { transitions } = await api.get(`/api/alarms/${id}/history`, { limit: RECENT });
      const when = ({ at }) => make("time", { datetime: at }, format.time(at));
      const items = transitions.map((one) => make("li", {}, when(one), happened(one, streams.unit(looked.stream))));
      recent.replaceChildren(...(items.length ? items : [make("li", {}, "Nothing has changed since it was set.")]));
    } catch (error) {
      setText(errorLine, error.message);
    }
  }

  // beside: the values of other alarms of the stream.
  function show(alarm, beside) {
    const now = standing(alarm);
    const [icon, label, meant] = STATES[now];
    if (badge.dataset.state !== now) {
      badge.dataset.state = element.dataset.state = now;
      badge.title = meant;
      badge.replaceChildren(make("span", { "aria-hidden": "true" }, icon), ` ${label}`);
    }
    const [side, limit] = (alarm.above ?? null) === null ? ["below", alarm.below] : ["above", alarm.above];
    const unit = isDistance(alarm) ? "" : streams.unit(alarm.stream);
    const beyond = `${side} ${format.number(limit)}${unit}`;
    const duration = alarm.hold ? `, for ${format.span(alarm.hold)}` : "";
    const cleared = alarm.clear === limit ? "" : `, clears at ${format.number(alarm.clear)}${unit}`;
    setText(title, alarm.name || `${measureLabel(alarm)} ${beyond}`);
    setText(rule, `${measureLabel(alarm)} of ${seriesLabel(alarm)}${reference(alarm)}, ${beyond}${duration}${cleared}`);
    setText(value, (alarm.value ?? null) === null ? (alarm.why ?? "No value yet.") : valueWords(alarm, unit, beside));
    const standstill = now === "no" ? "Quiet" : "Not firing"; // quiet is proved, the rest is open
    setText(since, `${alarm.firing ? "Fires" : standstill} since ${format.time(alarm.since)}`);
    looked = { stream: alarm.stream, key: alarm.key, filter: alarm.filter };
    if (/^(within:|last:\d+$)/.test(alarm.window)) looked.window = alarm.window; // the windows that the slider has
    shower.setAttribute("aria-label", `Show ${seriesLabel(alarm)}`);
    if (before !== alarm.since + now && details.open) learn();
    before = alarm.since + now;
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

// What a distance is measured from: " from everything", with the key and the filter if they differ from the alarm's.
function reference({ key, filter, against }) {
  if (!against) return "";
  const parts = [format.window(against.window)];
  if (JSON.stringify(against.key ?? null) !== JSON.stringify(key ?? null)) parts.unshift(format.key(against.key));
  if ((against.filter ?? null) !== (filter ?? null)) parts.push(against.filter ? `only ${against.filter}` : "no filter");
  return ` from ${parts.join(", ")}`;
}

function valueWords(alarm, unit, beside) {
  const { phi, value, rank_lo, rank_hi, n } = alarm;
  if (isDistance(alarm)) {
    return `KS distance is ${valueLabel(alarm, "")}, of ${format.number(n)} and ${format.number(alarm.against_n)} values`;
  }
  const [low, high, of] = [rank_lo, rank_hi, n].map(format.number);
  return `${format.phi(phi)} is ${format.steady(value, beside)}${unit}, rank ${low === high ? low : `${low} to ${high}`} of ${of}`;
}

function happened(transition, unit) {
  const { firing, state, value, why } = transition;
  const at = (value ?? null) === null ? (why ? `: ${why}` : "") : ` at ${valueLabel(transition, unit)}`;
  return ` ${firing ? `firing, ${FIRING[state]}` : STATES[state][1]}${at}`; // quiet is proved, the rest is open
}
