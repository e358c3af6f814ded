"""Monitor: any number of standing quantile queries over one stream."""

import time
import weakref
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quantide.errors import InvalidArgumentError
from quantide.kernels.compress import nearest_tuples
from quantide.kernels.deadlines import fire
from quantide.kernels.life import FINE, NEVER
from quantide.kernels.together import together
from quantide.queries.clusters import FEWEST, ONLINE, WORST_CASE, Clusters
from quantide.queries.conditions import STATES, Conditions
from quantide.queries.intervals import query_intervals, read_queries
from quantide.queries.listeners import Failure, Listener, Listeners, check_listener
from quantide.queries.registry import NEW, Registry
from quantide.queries.results import Answers, Changes, Query
from quantide.queries.source import MarkedSketch, Tuples
from quantide.summary.answer import Answer
from quantide.summary.ranks import check_eps, check_not_empty, check_phi, check_size, target_ranks
from quantide.summary.summary import Summary

Ints = NDArray[np.int64]
Values = NDArray[Any]

TRIGGERS, TOGETHER = "triggers", "together"
RECLUSTER = 1 << 10  # the fewest registrations and drops after which "online" clusters anew
CONDITION = 1 << 62  # the bit that tells the id of a condition from that of a query


class Monitor:
    """Keeps any number of quantile queries right over a stream, at the cost of a few.

    A query (phi, eps_q) always has a value whose rank is within eps_q * n of phi * n: an answer with a certificate,
    whenever it is read. Queries that one value can serve are a cluster; each cluster has a deadline, the number of
    arrivals up to which its value must stay right wherever they fall, and only then is it looked at again. A
    precision finer than the monitor's eps is raised to it.

    Parameters: `eps`, the finest precision; `clustering`: "online" takes queries one by one and clusters all of them
    anew after many changes, "worst-case" (QC-A) and "fewest" (QC-B) cluster all of them whenever some were registered
    or dropped; `updates`: "triggers" looks at a cluster when its own deadline has passed, "together" at all when the
    first has; `nan` and `value_type` as for StreamSketch; `recluster_after`: changes after which "online" clusters
    anew (default: half the number of queries, at least 1,024).

    >>> monitor = Monitor(eps=0.001)
    >>> p99 = monitor.register(0.99, eps=0.005)
    >>> many = monitor.register_many(np.linspace(0.01, 1, 1000), 0.02)
    >>> monitor.update(np.arange(100_000.0))
    >>> len(monitor.changes()), monitor.stats()["clusters"]
    (1001, 26)
    >>> answer = monitor.answer(p99)
    >>> answer.target, answer.error <= 0.005
    (99000, True)

    Proofs: docs/guarantees/queries.md. After Lin, Xu, Zhang, Wang, Yu: "Processing continuous quantile queries over
    data streams", TKDE 2006.
    """

    def __init__(
        self,
        eps: float,
        clustering: str = ONLINE,
        updates: str = TRIGGERS,
        nan: str = "refuse",
        value_type: str | None = None,
        recluster_after: int | None = None,
    ) -> None:
        self._eps = check_eps(eps)
        self._clustering = _check_choice("clustering", clustering, (ONLINE, WORST_CASE, FEWEST))
        self._updates = _check_choice("updates", updates, (TRIGGERS, TOGETHER))
        self._recluster_after = None if recluster_after is None else check_size("recluster_after", recluster_after, 1)
        self._stream = MarkedSketch(eps, nan, value_type)
        self._queries = Registry()
        self._conditions = Conditions()
        self._listeners = Listeners()
        self._clusters: Clusters | None = None  # None: too few values yet, every query is answered by itself
        self._stale = False  # queries came or went that no clustering has seen
        self._changed = 0  # registrations and drops since all were clustered
        self._first_due = -1  # of all clusters, with "together"
        self._reported: weakref.ref[Changes] | None = None
        self._counts = dict.fromkeys(("evaluations", "triggers", "clusterings"), 0)
        self._seconds = 0.0

    @property
    def eps(self) -> float:
        """The finest precision a query can have."""
        return self._eps

    @property
    def n(self) -> int:
        """How many values have arrived."""
        return self._stream.n

    def __len__(self) -> int:
        """How many queries are registered."""
        return len(self._queries)

    def register(self, phi: float, eps: float, on_change: Listener | None = None) -> int:
        """A new query; its id. `on_change(id, value)` is called after an update that changed its value."""
        check_listener(on_change)
        ids = self.register_many([check_phi(phi)], eps)
        if on_change is not None:
            self._listeners.add(ids.tolist(), on_change)
        return int(ids[0])

    def register_many(self, phis: ArrayLike, epss: ArrayLike) -> Ints:
        """Many queries at once, with a precision each or one for all; their ids."""
        wanted, given = read_queries(phis, epss, self._eps)
        self._before_change(len(wanted))
        places = self._queries.add(wanted, given)
        if self._clusters is not None and not self._stale:
            self._queries.slot[places] = self._clusters.join(query_intervals(wanted, given, self._eps))
        return self._queries.ids(places)

    def watch(
        self, phi: float, eps: float, above: Any = None, below: Any = None, on_change: Listener | None = None
    ) -> int:
        """A condition: whether the phi-quantile is above, or below, a limit; its id. See condition()."""
        check_listener(on_change)
        if (above is None) == (below is None):
            raise InvalidArgumentError("a condition has one limit: give either above= or below=")
        wanted, given = read_queries([check_phi(phi)], eps, self._eps)
        limit = below if above is None else above
        place = self._conditions.watch(wanted, given, limit, above is not None, self._stream.type)
        one = int(self._conditions.ids(np.array([place]))[0]) | CONDITION
        if on_change is not None:
            self._listeners.add([one], on_change)
        return one

    def condition(self, id: int) -> str:
        """Whether a condition holds: "no", "possible" or "certain", proved by rank bounds; no values: "possible"."""
        place = self._conditions.place(_condition_id(id))
        self._refresh()
        return STATES[self._conditions.state[place]]

    def query(self, id: int) -> Query:
        """phi and the precision in force of a query or a condition."""
        held = self._conditions if _is_condition(id) else self._queries
        place = held.place(_condition_id(id) if _is_condition(id) else id)
        return Query(int(id), float(held.phi[place]), float(held.eps[place]))

    def drop(self, id: int) -> None:
        """Forget a query or a condition."""
        if _is_condition(id):
            self._conditions.remove(np.array([self._conditions.place(_condition_id(id))]))
            self._listeners.remove([int(id)])
        else:
            self.drop_many([id])

    def drop_many(self, ids: ArrayLike) -> None:
        """Forget many queries."""
        places = self._queries.places(ids)
        if len(np.unique(places)) < len(places):
            raise InvalidArgumentError("an id is among the ids to drop twice; give each once")
        self._before_change(len(places))
        slots = self._queries.slot[places]
        if self._clusters is not None:
            self._clusters.leave(slots[slots != NEW])
        self._listeners.remove(self._queries.ids(places).tolist())
        self._queries.remove(places)

    def update(self, values: Any, nan: str | None = None) -> None:
        """Take values as StreamSketch.update does: all of them or, when it raises, none."""
        self._stream.update(values, nan)
        self._notify()

    def update_summary(self, summary: Summary) -> None:
        """Take all the values behind a summary; its certified error may be at most eps/2."""
        self._stream.update_summary(summary)
        self._notify()

    def answer(self, id: int) -> Answer:
        """The value of a query now, with the ranks it is proved to have."""
        return self._answers(np.array([self._queries.place(id)]))[0]

    def answers(self, ids: ArrayLike) -> Answers:
        """Those of many queries."""
        return self._answers(self._queries.places(ids))

    def changes(self) -> Changes:
        """The queries whose value, and the conditions whose state, is another than when this was called before."""
        self._before_change(0)
        if not self.n:
            return Changes(self._stream.kind, 0, lambda: (np.empty(0, dtype=np.int64), np.empty(0)), [])
        self._refresh()
        conditions = [(one | CONDITION, state) for one, state in self._conditions.tell()]
        if self._clusters is None:
            found = self._tell_each()
            changes = Changes(self._stream.kind, len(found[0]), lambda: found, conditions)
        else:
            slots, values = self._clusters.tell()
            count = int(self._clusters.sizes[slots].sum())
            changes = Changes(self._stream.kind, count, lambda: self._members(slots, values), conditions)
        self._reported = weakref.ref(changes)
        return changes

    def summary(self) -> Summary:
        """A Summary of everything that has arrived."""
        return self._stream.summary()

    def failures(self) -> list[Failure]:
        """What on_change functions raised since this was asked, the last 1,000 of it."""
        failed = list(self._listeners.failures)
        self._listeners.failures.clear()
        return failed

    def stats(self) -> dict[str, Any]:
        """Numbers of queries, clusters, evaluations of clusters, triggers fired, and so on; seconds spent on them."""
        return {
            "n": self.n,
            "queries": len(self._queries),
            "conditions": len(self._conditions),
            "clusters": 0 if self._clusters is None else len(self._clusters),
            **self._counts,
            "summaries": self._stream.marked,
            "failed_callbacks": self._listeners.failed,
            "seconds": self._seconds,
        }

    def __repr__(self) -> str:
        return f"Monitor(eps={self._eps}, n={self.n}, queries={len(self)}, clustering={self._clustering!r})"

    def _before_change(self, count: int) -> None:
        """Before queries come or go: changes that were handed out are about the queries there are now."""
        changes = self._reported() if self._reported is not None else None
        if changes is not None:
            changes.resolve()
        self._reported = None
        self._changed += count
        if count:
            limit = self._recluster_after or max(RECLUSTER, len(self._queries) // 2)
            self._stale |= self._clustering != ONLINE or self._changed > limit

    def _refresh(self) -> None:
        """Let every value be right for everything that has arrived."""
        begun = time.perf_counter()
        n = self.n
        if (self._stale or self._clusters is None) and len(self._queries) and (self._clusters is not None or self._is_fine()):
            self._cluster()
        if self._clusters is not None and self._next_due() < n and not self._evaluate(n):
            self._dissolve()
        if n and self._conditions.first_due() < n:
            tuples = self._stream.tuples() if self._clusters is not None else _tuples(self._stream.summary())
            self._conditions.evaluate(tuples, n, self._stream.kind)
        self._seconds += time.perf_counter() - begun

    def _is_fine(self) -> bool:
        """Whether the summary is within eps in real ranks, which clusters need: a few values are not."""
        if self.n * self._eps < 1:
            return False
        summary = self._stream.summary()
        slack = self._eps * self.n
        ends = max(int(summary.rmax[0]) - 1, self.n - int(summary.rmin[-1]))
        return summary.gap <= 2 * slack and ends <= slack

    def _cluster(self) -> None:
        """Cluster all queries at once."""
        queries, alive = self._queries, self._queries.alive()
        told, known = self._told(alive)
        spans = query_intervals(queries.phi[alive], queries.eps[alive], self._eps)
        self._clusters, queries.slot[alive] = Clusters.of(spans, self._clustering, self._eps, told, known)
        self._stale, self._changed, self._first_due = False, 0, -1
        self._counts["clusterings"] += 1

    def _dissolve(self) -> None:
        """Answer each query by itself until clusters can be served again."""
        alive = self._queries.alive()
        told, known = self._told(alive)
        self._queries.told = self._queries.told.astype(told.dtype, copy=False)
        self._queries.told[alive], self._queries.told_known[alive] = told, known
        self._queries.slot[alive] = NEW
        self._clusters = None

    def _told(self, places: Ints) -> tuple[Values, NDArray[np.bool_]]:
        """What was reported of these queries last, where anything was."""
        told = self._queries.told[places].astype(self._stream.kind.carrier)
        known = self._queries.told_known[places]
        if self._clusters is not None:
            slots = self._queries.slot[places]
            held = slots != NEW
            told[held], known[held] = self._clusters.told[slots[held]], self._clusters.told_known[slots[held]]
        return told, known

    def _next_due(self) -> int:
        """The first deadline of all clusters; -1 when one is new."""
        c = self._clusters
        if c is None or not len(c):
            return NEVER
        first = int(c.due[c.heap[1]])
        return first if self._updates == TRIGGERS or first < 0 else self._first_due

    def _evaluate(self, n: int) -> bool:
        """Fire what is due; whether every cluster could be answered. Marks that are worn out are made anew."""
        for anew in (False, True):
            tuples = self._stream.tuples(anew)
            if self._fire(tuples, n):
                return True
            if tuples.fresh:
                return False
        return False

    def _fire(self, t: Tuples, n: int) -> bool:
        c = self._clusters
        assert c is not None
        state = (c.span, c.value, c.ranks, t.values, t.rmin, t.rmax, n, self._eps, not t.fresh)
        if self._updates == TRIGGERS:
            status, done, triggers = fire(c.heap, c.place, c.due, *state)
        else:
            everything = self._first_due < n
            status, done, first = together(c.ordered, c.due, *state, everything)
            triggers = int(everything and self._first_due >= 0)
            self._first_due = first
        self._counts["evaluations"] += done
        self._counts["triggers"] += triggers
        return bool(status == FINE)

    def _answers(self, places: Ints) -> Answers:
        check_not_empty(self.n)
        self._refresh()
        values, low, high = self._current(places)
        phi = self._queries.phi[places]
        return Answers(self._stream.kind, values, phi, target_ranks(phi, self.n), low, high, self.n)

    def _current(self, places: Ints) -> tuple[Values, Ints, Ints]:
        """Values, and between which ranks they are: arrivals since a cluster was looked at may all be before it."""
        if self._clusters is None:
            summary = self._stream.summary()
            targets = target_ranks(self._queries.phi[places], self.n)
            at = nearest_tuples(summary.rmin, summary.rmax, np.array([0, len(summary)]), targets[None, :])[0]
            return summary.carried[at], summary.rmin[at], summary.rmax[at]
        cluster = self._clusters.roots()[self._queries.slot[places]]
        ranks = self._clusters.ranks[cluster]
        return self._clusters.value[cluster], ranks[:, 0], np.minimum(ranks[:, 1] + self.n - ranks[:, 2], self.n)

    def _tell_each(self) -> tuple[Ints, Values]:
        """As Clusters.tell, query by query."""
        alive = self._queries.alive()
        values = self._current(alive)[0]
        self._queries.told = self._queries.told.astype(values.dtype, copy=False)
        changed = ~self._queries.told_known[alive] | (self._queries.told[alive] != values)
        places, values = alive[changed], values[changed]
        self._queries.told[places], self._queries.told_known[places] = values, True
        return self._queries.ids(places), values

    def _members(self, slots: Ints, values: Values) -> tuple[Ints, Values]:
        """The queries of these slots, and for each the value of its slot."""
        assert self._clusters is not None
        which = np.full(self._clusters.used + 2, -1, dtype=np.int64)  # two more for NEW and GONE, from the end
        which[slots] = np.arange(len(slots))
        mine = which[self._queries.slot[: self._queries.used]]
        places = np.flatnonzero(mine >= 0)
        return self._queries.ids(places), values[mine[places]]

    def _notify(self) -> None:
        """Tell listeners what is new."""
        if not self._listeners.functions or not self.n:
            return
        self._refresh()
        ids = list(self._listeners.functions)
        conditions = [one for one in ids if one & CONDITION]
        queries = np.array([one for one in ids if not one & CONDITION], dtype=np.int64)
        values = self._stream.kind.restore(self._current(self._queries.places(queries))[0]) if len(queries) else []
        states = [STATES[self._conditions.state[self._conditions.place(_condition_id(one))]] for one in conditions]
        self._listeners.tell([*zip(queries.tolist(), values, strict=True), *zip(conditions, states, strict=True)])


def _tuples(summary: Summary) -> Tuples:
    return Tuples(summary.carried, summary.rmin, summary.rmax, True)


def _is_condition(id: Any) -> bool:
    return isinstance(id, (int, np.integer)) and not isinstance(id, bool) and id >= CONDITION


def _condition_id(id: Any) -> int:
    if not _is_condition(id):
        raise InvalidArgumentError(f"the id of a condition is the number that watch() returned, not {id!r}")
    return int(id) & ~CONDITION


def _check_choice(name: str, given: Any, known: tuple[str, ...]) -> str:
    if given not in known:
        raise InvalidArgumentError(f"{name}={given!r} is not known; choose one of {', '.join(known)}")
    return str(given)
