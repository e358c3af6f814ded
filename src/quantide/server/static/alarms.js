// Panel of alarms, the firing ones first, announced when they begin to fire; with the form for new ones.
import { alarmCard, measureLabel, urgency, valueLabel } from "./alarmcard.js";
import { alarmForm } from "./alarmform.js";
import { make, setText } from "./dom.js";
import { createRefresher } from "./refresher.js";
import { updateTitle } from "./title.js";
import * as format from "./format.js";

const MIN_INTERVAL = 2000; // milliseconds between two requests for the values
const MAX_ALARMS = 100; // that are shown
const EMPTY_HINT = "None is set. The form below sets one for the selected series.";
const EXPLANATION = "An alarm fires only when it is proved: never because of an approximation.";

export function mount(element, app) {
  const { api, announce, onCommit, streams } = app;
  const summary = make("p", { class: "hint" });
  const alertLine = make("p", { class: "unseen", role: "alert" });
  const errorLine = make("p", { class: "error", role: "status" });
  const list = make("ul", { class: "alarms" });
  const cards = new Map(); // id -> card
  const announced = new Map(); // id -> true if it is firing, as far as was announced
  let initialized = false; // alarms that are firing already when the page opens are not announced
  const form = alarmForm(app, reload);
  element.append(summary, alertLine, errorLine, list, form, make("p", { class: "hint" }, EXPLANATION));
  const refresher = createRefresher(element, refresh, MIN_INTERVAL);

  async function refresh() {
    try {
      show((await api.get("/api/alarms")).alarms);
      setText(errorLine, "");
    } catch (error) {
      setText(errorLine, error.message);
    }
  }

  function reload() {
    document.dispatchEvent(new Event("alarms")); // thresholds.js draws them in the chart
    return refresh();
  }

  function show(alarms) {
    alarms.forEach((alarm) => announceFiring(alarm.id, alarm));
    initialized = true;
    const shown = [...alarms].sort((a, b) => urgency(a) - urgency(b) || b.id - a.id).slice(0, MAX_ALARMS);
    const ids = new Set(shown.map(({ id }) => id));
    for (const id of cards.keys()) if (!ids.has(id)) cards.delete(id);
    for (const alarm of shown) {
      if (!cards.has(alarm.id)) cards.set(alarm.id, alarmCard(app, alarm.id, reload));
      cards.get(alarm.id).show(alarm, shown.filter(({ stream }) => stream === alarm.stream).map(({ value }) => value));
    }
    arrange(shown.map(({ id }) => cards.get(id).element));
    const count = alarms.filter((alarm) => alarm.firing).length;
    const limitNote = alarms.length > MAX_ALARMS ? ` The first ${MAX_ALARMS} are shown.` : "";
    setText(
      summary,
      alarms.length ? `${format.number(alarms.length)} set, ${format.number(count)} firing.${limitNote}` : EMPTY_HINT,
    );
    updateTitle({ firing: count });
    element.closest(".panel")?.classList.toggle("has-firing", count > 0);
  }

  // Replace the cards. A moved card loses the focus: restore it; focus the form if the focused card was removed.
  function arrange(elements) {
    if (elements.length === list.children.length && elements.every((card, i) => list.children[i] === card)) return;
    const focused = list.contains(document.activeElement) ? document.activeElement : null;
    list.replaceChildren(...elements);
    (list.contains(focused) ? focused : focused && form.querySelector("summary"))?.focus({ preventScroll: true });
  }

  function announceFiring(id, alarm) {
    const { firing: isFiring, name, stream, key } = alarm;
    const wasFiring = announced.get(id) ?? (initialized ? false : undefined);
    announced.set(id, isFiring);
    if (wasFiring === undefined || wasFiring === isFiring) return;
    const subject = name || `${measureLabel(alarm)} of ${stream}, ${format.key(key)}`;
    if (isFiring)
      alertLine.textContent = `Alarm fires: ${subject}. The value is ${valueLabel(alarm, streams.unit(stream))}.`;
    else announce(`Alarm stopped: ${subject}.`);
  }

  api.listen(
    { alarms: "all" },
    {
      alarm(event) {
        announceFiring(event.alarm, event);
        refresher.refreshNow();
      },
    },
  );
  onCommit(refresher.schedule);
}
