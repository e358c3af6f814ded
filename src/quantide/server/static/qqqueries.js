// Continuous queries for the points of the Q-Q plot: registers them, subscribes to them, and drops them when the plot
// shows another range or the page is left. If the page crashes, the server drops them after a minute.
import { seriesBody } from "./series.js";

const IDLE = "1 min";

// onChange(change): {count, eps} after a registration; {refused: true} if this token may not register queries;
// {failed: message} after another error; {values: [{phi, axis, value, error}]} when values of queries change.
export function qqQueries(api, onChange) {
  let current = null; // the subscription: its label, and a function that ends it
  let requested = null; // arguments of the last call of register(), null after release()
  let pending = null; // label of a registration without a response
  let lastRegistration = 0;
  let refused = false; // this token may not register queries: do not try again

  async function register(axes, phis, eps) {
    release();
    if (refused) {
      onChange({ refused });
      return;
    }
    requested = [axes, phis, eps];
    const registration = (lastRegistration += 1);
    const label = `page-${crypto.getRandomValues(new Uint32Array(2)).join("-")}`;
    const points = phis.flatMap((phi) => Object.keys(axes).map((axis) => ({ phi, axis })));
    const bodies = points.map(({ phi, axis }) => ({ ...seriesBody(axes[axis]), phi, eps, label, idle: IDLE }));
    let queries;
    pending = label;
    try {
      queries = (await api.post("/api/queries", bodies)).queries;
    } catch (error) {
      refused = error.status === 403;
      if (registration === lastRegistration) onChange(refused ? { refused } : { failed: error.message });
      return;
    } finally {
      if (pending === label) pending = null;
    }
    if (registration !== lastRegistration) {
      dropQueries(label);
      return;
    }
    const pointOfQuery = new Map(queries.map(({ id }, index) => [id, points[index]]));
    onChange({ count: queries.length, eps: Math.max(...queries.map((query) => query.eps)) });
    const renew = () => registration === lastRegistration && register(...requested);
    const close = api.listen({ label }, {
      error: (failure) => failure.status === 404 && renew(), // they expired while the page was suspended
      queries(changes) {
        const known = changes.filter(({ id }) => pointOfQuery.has(id));
        if (known.some(({ state }) => state === "dropped")) renew();
        else if (registration === lastRegistration) {
          onChange({ values: known.map(({ id, value, error }) => ({ ...pointOfQuery.get(id), value, error })) });
        }
      },
    });
    current = { label, close };
  }

  function release() {
    lastRegistration += 1;
    requested = null;
    current?.close();
    if (current) dropQueries(current.label);
    current = null;
  }

  window.addEventListener("pagehide", () => {
    const released = requested;
    if (pending) dropQueries(pending);
    release();
    if (released) window.addEventListener("pageshow", () => register(...released), { once: true });
  });
  return { register, release };
}

// keepalive sends the request while the page unloads, too. A failure is ignored: the server drops idle queries.
function dropQueries(label) {
  fetch(`/api/queries?label=${encodeURIComponent(label)}`, { method: "DELETE", keepalive: true }).catch(() => {});
}
