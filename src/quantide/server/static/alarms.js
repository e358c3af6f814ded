// Alarms, the firing ones first, announced when they begin to fire; and the form for new ones.
import { alarmCard, measureLabel, urgency, valueLabel } from "./alarmcard.js";
import { alarmForm } from "./alarmform.js";
import { make, setText } from "./dom.js";
import { createRefresher } from "./refresher.js";
import { updateTitle } from "./title.js";
import * as format from "./format.js";

const MIN_INTERVAL = 2000; // milliseconds between two requests for the values
const MOST = 100; // alarms that are shown
const NONE = "None is set. The form below sets one for the selected series.";
const MEANT = "An alarm fires only when it is proved: never because of an approximation.";

export function mount(element, app) {
  const { api, announce, onCommit, streams } = app;
  const summary = make("p", { class: "hint" });
  const loud = make("p", { class: "unseen", role: "alert" });
  const errorLine = make("p", { class: "error", role: "status" });
  const list = make("ul", { class: "alarms" });
  const cards = new Map(); // id -> card
  const firing = new Map(); // id -> true if it was announced as firing
  let begun = false; // alarms that fire when the page opens are shown, not announced
  const form = alarmForm(app, changed);
  element.append(summary, loud, errorLine, list, form, make("p", { class: "hint" }, MEANT));
  const refresher = createRefresher(element, refresh, MIN_INTERVAL);

  async function refresh() {
    try {
      show((await api.get("/api/alarms")).alarms);
      setText(errorLine, "");
    } catch (error) {
      setText(errorLine, error.message);
    }
  }

  function changed() {
    document.dispatchEvent(new Event("alarms")); // their thresholds are drawn elsewhere
    return refresh();
  }

  function show(alarms) {
    alarms.forEach((alarm) => tellFiring(alarm.id, alarm));
    begun = true;
    const shown = [...alarms].sort((a, b) => urgency(a) - urgency(b) || b.id - a.id).slice(0, MOST);
    const there = new Set(shown.map(({ id }) => id));
    for (const id of cards.keys()) if (!there.has(id)) cards.delete(id);
    for (const alarm of shown) {
      if (!cards.has(alarm.id)) cards.set(alarm.id, alarmCard(app, alarm.id, changed));
      cards.get(alarm.id).show(alarm, shown.filter(({ stream }) => stream === alarm.stream).map(({ value }) => value));
    }
    arrange(shown.map(({ id }) => cards.get(id).element));
    const count = alarms.filter((alarm) => alarm.firing).length;
    const more = alarms.length > MOST ? ` The first ${MOST} are shown.` : "";
    setText(summary, alarms.length ? `${format.number(alarms.length)} set, ${format.number(count)} firing.${more}` : NONE);
    updateTitle({ firing: count });
    element.closest(".panel")?.classList.toggle("has-firing", count > 0);
  }

  // A moved card loses the focus: return it, or pass it on from a removed card.
  function arrange(wanted) {
    if (wanted.length === list.children.length && wanted.every((card, index) => list.children[index] === card)) return;
    const focused = list.contains(document.activeElement) ? document.activeElement : null;
    list.replaceChildren(...wanted);
    (list.contains(focused) ? focused : focused && form.querySelector("summary"))?.focus({ preventScroll: true });
  }

  function tellFiring(id, alarm) {
    const { firing: fires, name, stream, key } = alarm;
    const before = firing.get(id) ?? (begun ? false : undefined);
    firing.set(id, fires);
    if (before === undefined || before === fires) return;
    const what = name || `${measureLabel(alarm)} of ${stream}, ${format.key(key)}`;
    if (fires) loud.textContent = `Alarm fires: ${what}. The value is ${valueLabel(alarm, streams.unit(stream))}.`;
    else announce(`Alarm stopped: ${what}.`);
  }

  api.listen(
    { alarms: "all" },
    {
      alarm(event) {
        tellFiring(event.alarm, event);
        refresher.refreshNow();
      },
    },
  );
  onCommit(refresher.schedule);
}
