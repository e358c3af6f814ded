// Continuous queries for the points of the Q-Q plot: registered, subscribed to, and dropped when it shows something
// else. Leaving the page drops them; the server drops those of a page that vanished after a minute.
import { seriesBody } from "./series.js";

const IDLE = "1 min";

// onChange(change): {count, eps} when they are registered; {refused: true} when this token may not; {failed: reason};
// {values: [{phi, axis, value, error}]} whenever some of their values change.
export function qqQueries(api, onChange) {
  let current = null;
  let pending = null; // label of a registration without a response
  let turn = 0;
  let refused = false; // once is enough to know

  async function follow(axes, phis, eps) {
    release();
    if (refused) {
      onChange({ refused });
      return;
    }
    const mine = (turn += 1);
    const label = `page-${crypto.getRandomValues(new Uint32Array(2)).join("-")}`;
    const points = phis.flatMap((phi) => Object.keys(axes).map((axis) => ({ phi, axis })));
    const bodies = points.map(({ phi, axis }) => ({ ...seriesBody(axes[axis]), phi, eps, label, idle: IDLE }));
    let made;
    pending = label;
    try {
      made = (await api.post("/api/queries", bodies)).queries;
    } catch (error) {
      refused = error.status === 403;
      if (mine === turn) onChange(refused ? { refused } : { failed: error.message });
      return;
    } finally {
      if (pending === label) pending = null;
    }
    if (mine !== turn) {
      drop(label);
      return;
    }
    const by = new Map(made.map(({ id }, index) => [id, points[index]]));
    onChange({ count: made.length, eps: Math.max(...made.map((query) => query.eps)) });
    const restart = () => mine === turn && follow(axes, phis, eps);
    const close = api.listen({ label }, {
      error: (failure) => failure.status === 404 && restart(), // this page was suspended so long that they expired
      queries(changes) {
        const ours = changes.filter(({ id }) => by.has(id));
        if (ours.some(({ state }) => state === "dropped")) restart();
        else if (mine === turn) {
          onChange({ values: ours.map(({ id, value, error }) => ({ ...by.get(id), value, error })) });
        }
      },
    });
    current = { label, close, restart: () => follow(axes, phis, eps) };
  }

  function release() {
    turn += 1;
    current?.close();
    if (current) drop(current.label);
    current = null;
  }

  window.addEventListener("pagehide", () => {
    const { restart } = current ?? {};
    if (pending) drop(pending);
    release();
    if (restart) window.addEventListener("pageshow", restart, { once: true });
  });
  return { follow, release };
}

// Also while the page unloads; a failure needs no report, because the server drops them anyway.
function drop(label) {
  fetch(`/api/queries?label=${encodeURIComponent(label)}`, { method: "DELETE", keepalive: true }).catch(() => {});
}
