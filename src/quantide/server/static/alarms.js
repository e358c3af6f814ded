// Alarms: how each stands, what has become of it, and new ones.
import { alarmForm } from "./alarmform.js";
import { make, say } from "./dom.js";
import { paced } from "./pace.js";
import { placeWords } from "./places.js";
import * as words from "./words.js";

const LEAST = 2000; // milliseconds between two looks at the values
const RECENT = 8; // transitions that are shown
const STATES = {
  firing: ["●", "firing"],
  certain: ["▲", "certain"],
  possible: ["?", "possible"],
  no: ["✓", "no"],
};
const MEANT = {
  firing: "It fires: the quantile was proved to be beyond the threshold.",
  certain: "Beyond the threshold, proved; it fires when the hold time is over.",
  possible: "The bounds leave it open: nothing is said.",
  no: "Not beyond the threshold, proved.",
};
const ORDER = Object.keys(STATES);

export function mount(element, app) {
  const { api, announce, onCommit } = app;
  const summary = make("p", { class: "hint" });
  const loud = make("p", { class: "unseen", role: "alert" });
  const trouble = make("p", { class: "error", role: "status" });
  const list = make("ul", { class: "alarms" });
  const cards = new Map(); // id -> card
  const firing = new Map(); // id -> whether it was told to fire
  const form = alarmForm(app, () => refresh());
  element.append(summary, loud, trouble, list, form,
    make("p", { class: "hint" }, "An alarm fires only when it is proved: never because of an approximation."));

  const looking = paced(element, refresh, LEAST);

  async function refresh() {
    try {
      show((await api.get("/api/alarms")).alarms);
      say(trouble, "");
    } catch (error) {
      say(trouble, error.message);
    }
  }

  function show(alarms) {
    const there = new Set(alarms.map(({ id }) => id));
    for (const [id, card] of cards) {
      if (there.has(id)) continue;
      card.element.remove();
      cards.delete(id);
      firing.delete(id);
    }
    for (const alarm of alarms) {
      if (!cards.has(alarm.id)) cards.set(alarm.id, alarmCard(app, alarm.id, refresh));
      cards.get(alarm.id).show(alarm);
      tellFiring(alarm.id, alarm);
    }
    const sorted = [...alarms].sort((a, b) => ORDER.indexOf(standing(a)) - ORDER.indexOf(standing(b)) || b.id - a.id);
    const wanted = sorted.map(({ id }) => cards.get(id).element);
    if (wanted.some((card, index) => list.children[index] !== card)) rearrange(wanted);
    const count = alarms.filter((alarm) => alarm.firing).length;
    say(summary, alarms.length ? `${alarms.length} set, ${count} firing.` : "None is set. The form below sets one for what you look at.");
    element.closest(".panel")?.classList.toggle("has-firing", count > 0);
  }

  // Moved cards lose the focus: it goes back where it was.
  function rearrange(wanted) {
    const focused = list.contains(document.activeElement) ? document.activeElement : null;
    list.replaceChildren(...wanted);
    focused?.focus({ preventScroll: true });
  }

  function tellFiring(id, { firing: fires, name, stream, key, phi, value }) {
    const before = firing.get(id);
    firing.set(id, fires);
    if (before === undefined || before === fires) return;
    const what = name || `${words.phi(phi)} of ${stream}, ${words.key(key)}`;
    if (fires) loud.textContent = `Alarm fires: ${what}. The value is ${words.number(value)}.`;
    else announce(`Alarm stopped: ${what}.`);
  }

  api.listen({ alarms: "all" }, {
    alarm(event) {
      if (firing.has(event.alarm)) tellFiring(event.alarm, event);
      looking.now();
    },
  });
  onCommit(looking.later);
}

const standing = ({ firing, state }) => (firing ? "firing" : state);

function alarmCard({ api, announce }, id, changed) {
  const badge = make("span", { class: "badge" });
  const title = make("h3");
  const rule = make("p", { class: "hint" });
  const value = make("p");
  const since = make("p", { class: "hint" });
  const recent = make("ol", { class: "transitions" });
  const trouble = make("p", { class: "error", role: "alert" });
  const details = make("details", { toggle: () => details.open && learn() }, make("summary", {}, "What happened"), recent);
  const sure = make("span", { class: "row", hidden: true },
    "Drop it?",
    make("button", { type: "button", class: "button small danger", click: drop }, "Yes, drop"),
    make("button", { type: "button", class: "button small", click: () => ask(false) }, "Keep"));
  const dropper = make("button", { type: "button", class: "button small", click: () => ask(true) }, "Drop");
  const element = make("li", { class: "alarm" },
    make("div", { class: "alarm-head" }, title, badge), value, rule, since, make("div", { class: "alarm-foot" }, details, dropper, sure), trouble);
  let version = null;

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
      say(trouble, error.message);
      ask(false);
    }
  }

  async function learn() {
    try {
      const { transitions } = await api.get(`/api/alarms/${id}/history`, { limit: RECENT });
      recent.replaceChildren(...transitions.map((one) => make("li", {},
        make("time", { datetime: one.at }, words.time(one.at)), " ",
        `${one.firing ? "firing" : "not firing"}, ${one.state}`,
        one.value === null ? (one.why ? `: ${one.why}` : "") : ` at ${words.number(one.value)}`)));
      if (!transitions.length) recent.replaceChildren(make("li", {}, "Nothing has changed since it was set."));
    } catch (error) {
      say(trouble, error.message);
    }
  }

  function show(alarm) {
    const now = standing(alarm);
    const [icon, text] = STATES[now];
    if (badge.dataset.state !== now) {
      badge.dataset.state = element.dataset.state = now;
      badge.title = MEANT[now];
      badge.replaceChildren(make("span", { "aria-hidden": "true" }, icon), ` ${text}`);
    }
    const [side, limit] = alarm.above === undefined || alarm.above === null ? ["below", alarm.below] : ["above", alarm.above];
    say(title, alarm.name || `${words.phi(alarm.phi)} ${side} ${words.number(limit)}`);
    const held = alarm.hold ? `, for ${words.span(alarm.hold)}` : "";
    const cleared = alarm.clear === limit ? "" : `, clears at ${words.number(alarm.clear)}`;
    say(rule, `${words.phi(alarm.phi)} of ${placeWords(alarm)} ${side} ${words.number(limit)}${held}${cleared}`);
    say(value, alarm.value === null ? (alarm.why ?? "No value yet.") : `${words.phi(alarm.phi)} is ${words.number(alarm.value)}, rank ${ranks(alarm)} of ${words.count(alarm.n)}`);
    const seconds = (Date.now() - Date.parse(alarm.since)) / 1000;
    say(since, `${alarm.firing ? "Fires" : "Does not fire"}, since ${words.ago(Math.max(0, seconds))}`);
    if (version !== alarm.since + now && details.open) learn();
    version = alarm.since + now;
  }

  return { element, show };
}

const ranks = ({ rank_lo, rank_hi }) =>
  rank_lo === rank_hi ? words.number(rank_lo) : `${words.number(rank_lo)} to ${words.number(rank_hi)}`;
