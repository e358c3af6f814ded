// Standing queries for what the Q-Q plot shows just now: registered, listened to, and dropped when it shows something
// else. Whoever leaves the page drops them; whoever vanishes has them dropped by the server after a minute.
import { placeBody } from "./places.js";

const IDLE = "1 min";

// told(change): {count, eps} when they stand; {refused: true} when this token may not; {failed: why};
// {values: [{phi, axis, value, error}]} whenever some of them say something else.
export function following(api, told) {
  let current = null;
  let turn = 0;

  async function follow(axes, phis, eps) {
    release();
    const mine = (turn += 1);
    const label = `page-${crypto.getRandomValues(new Uint32Array(2)).join("-")}`;
    const places = phis.flatMap((phi) => Object.keys(axes).map((axis) => ({ phi, axis })));
    const bodies = places.map(({ phi, axis }) => ({ ...placeBody(axes[axis]), phi, eps, label, idle: IDLE }));
    let made;
    try {
      made = (await api.post("/api/queries", bodies)).queries;
    } catch (error) {
      if (mine === turn) told(error.status === 403 ? { refused: true } : { failed: error.message });
      return;
    }
    if (mine !== turn) {
      drop(label);
      return;
    }
    const by = new Map(made.map(({ id }, index) => [id, places[index]]));
    told({ count: made.length, eps: Math.max(...made.map((query) => query.eps)) });
    const again = () => mine === turn && follow(axes, phis, eps);
    const close = api.listen({ label }, {
      error: again, // this page slept for so long that they were dropped
      queries(changes) {
        const ours = changes.filter(({ id }) => by.has(id));
        if (ours.some(({ state }) => state === "dropped")) again();
        else if (mine === turn) told({ values: ours.map(({ id, value, error }) => ({ ...by.get(id), value, error })) });
      },
    });
    current = { label, close, again: () => follow(axes, phis, eps) };
  }

  function release() {
    turn += 1;
    current?.close();
    if (current) drop(current.label);
    current = null;
  }

  window.addEventListener("pagehide", () => {
    const { again } = current ?? {};
    release();
    if (again) window.addEventListener("pageshow", again, { once: true });
  });
  return { follow, release };
}

// Also while the page goes away; nobody is there any more to be told if it fails, and the server drops them anyway.
function drop(label) {
  fetch(`/api/queries?label=${encodeURIComponent(label)}`, { method: "DELETE", keepalive: true }).catch(() => {});
}
