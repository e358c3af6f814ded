// Continuous queries for the points of the Q-Q plot: registered, subscribed to, and dropped when it shows something
// else. Leaving the page drops them; the server drops those of a page that vanished after a minute.
import { placeBody } from "./places.js";

const IDLE = "1 min";

// told(change): {count, eps} when they are registered; {refused: true} when this token may not; {failed: reason};
// {values: [{phi, axis, value, error}]} whenever some of their values change.
export function following(api, told) {
  let current = null;
  let turn = 0;
  let refused = false; // once is enough to know

  async function follow(axes, phis, eps) {
    release();
    if (refused) {
      told({ refused });
      return;
    }
    const mine = (turn += 1);
    const label = `page-${crypto.getRandomValues(new Uint32Array(2)).join("-")}`;
    const places = phis.flatMap((phi) => Object.keys(axes).map((axis) => ({ phi, axis })));
    const bodies = places.map(({ phi, axis }) => ({ ...placeBody(axes[axis]), phi, eps, label, idle: IDLE }));
    let made;
    try {
      made = (await api.post("/api/queries", bodies)).queries;
    } catch (error) {
      refused = error.status === 403;
      if (mine === turn) told(refused ? { refused } : { failed: error.message });
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
      error: (trouble) => trouble.status === 404 && again(), // this page was suspended so long that they expired
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

// Also while the page unloads; a failure needs no report, because the server drops them anyway.
function drop(label) {
  fetch(`/api/queries?label=${encodeURIComponent(label)}`, { method: "DELETE", keepalive: true }).catch(() => {});
}
