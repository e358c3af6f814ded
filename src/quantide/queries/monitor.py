"""Monitor: any number of continuous quantile queries over one stream, one window, or a source of summaries."""

import time
from contextlib import suppress
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from quantide.errors import CopyError, InvalidArgumentError, SpanError
from quantide.queries import monitor_bytes
from quantide.queries.cluster_evaluators import DeadlineEvaluator, PassEvaluator
from quantide.queries.conditions import (
    CONDITION_BIT,
    POSSIBLE,
    STATES,
    Conditions,
    is_condition,
    read_condition_id,
)
from quantide.queries.evaluator import TRIGGERS, UPDATES, synchronized
from quantide.queries.listeners import Listener, ListenerFailure, Listeners, check_listener
from quantide.queries.marked_sketch import MarkedSketch
from quantide.queries.query_clusters import CLUSTERINGS, ONLINE
from quantide.queries.query_registry import read_queries
from quantide.queries.query_results import Answers, Changes, Lookup, Query
from quantide.queries.query_sources import Grows, Pull, PulledSource, Window, WindowSource
from quantide.summary.answer import Answer
from quantide.summary.copying import CopiedByBytes
from quantide.summary.ranks import (
    DEFAULT,
    check_eps,
    check_not_empty,
    check_phi,
    check_size,
    check_tail,
    target_ranks,
)
from quantide.summary.summary import Summary
from quantide.summary.summary_queries import SummaryQueries
from quantide.summary.value_column import read_column
from quantide.summary.value_types import type_named
from quantide.typing import Ints

MAX_RECLUSTER = monitor_bytes.MAX_NUMBER


class Monitor(CopiedByBytes, SummaryQueries):
    """Keeps any number of quantile queries over a stream up to date, at the cost of a few.

    A query (phi, eps_q) always has a value whose rank is within eps_q * n of its target: an answer with a certificate,
    whenever it is read. Queries that one value can serve form a cluster. Each cluster has a deadline, the number of
    arrivals up to which its value must stay right wherever they fall, and is evaluated again only after it. The finest
    precision is min(eps, tail * phi, tail * (1 - phi)); a query has that by default, and a finer one is raised to it.
    While a precision below eps is fewer than 8 ranks, a query may be half a rank further from its target.

    Parameters: `eps`, the finest precision; `clustering`: "online" adds queries one by one and clusters all of them
    again after many changes, "worst-case" (QC-A) and "fewest" (QC-B) cluster all of them after every registration or
    drop; `updates`: "triggers" evaluates a cluster after its own deadline, "together" evaluates all after the first
    deadline; `nan` and `value_type` as for StreamSketch; `recluster_after`: changes after which "online" clusters all
    queries again (default: half the number of queries, at least 1,024); `window`: a SlidingWindow or a RecentWindow of
    at most half this eps to watch instead of the whole stream, with `last` or `within` for a part of a RecentWindow. A
    window is evaluated after floor(eps*n/2) arrivals; one by time, after every block (`updates` has no effect);
    `pull`: a function that returns (version, summary) of a source, which may grow, shrink and be replaced: the version
    differs whenever the source may have changed, and the summary's error is at most eps/2. Every read calls it.
    `grows`: the source only grows, so that values need not change when a summary leaves them out; or a function that
    returns False once something has left;
    `tail`: the largest error as a fraction of the distance from either end, by default 10 * eps for eps up to 0.01 and
    None (eps alone) above. Over a window it is None. Over a pulled source it is None by default, and otherwise every
    summary has a certified tail of at most tail/2;
    `member`: every value is an element of the window when it is read. By default it may have left the window since its
    cluster was evaluated, with a rank that is still right. Costs an evaluation after every arrival that is read.

    >>> monitor = Monitor(eps=0.001)
    >>> p99 = monitor.register(0.99, eps=0.005)
    >>> many = monitor.register_many(np.linspace(0.01, 1, 1000), 0.02)
    >>> monitor.update(np.arange(100_000.0))
    >>> len(monitor.changes()), monitor.stats()["clusters"] < 60
    (1001, True)
    >>> answer = monitor.answer(p99)
    >>> answer.target, answer.error <= 0.005
    (99000, True)

    Towards the ends, queries may be as precise as the tail allows:

    >>> monitor.query(monitor.register(0.9999)).eps < 1.1e-6
    True

    Threads may share a monitor: its methods wait for each other, but never for an on_change function, which may use it
    and may wait for other threads that do. These functions are called one at a time, in the order of the changes; an
    update during such a call, by another thread or by the function itself, leaves its notifications to the thread that
    makes the calls. `pull` is called under the monitor's lock: it must not wait for other users of the monitor.

    A copy, by `copy` or `pickle`, continues independently from the same state: over its own copy of the window, with no
    on_change functions (add them to the copy with listen()) and no failures. A monitor with `pull` cannot be copied:
    CopyError.

    Proofs: docs/guarantees/queries.md. After Lin, Xu, Zhang, Lu, Yu, Zhou and Yuan, "Approximate processing of massive
    continuous quantile queries over high-speed data streams", TKDE 18(5), 2006.
    """

    def __init__(
        self,
        eps: float,
        clustering: str = ONLINE,
        updates: str = TRIGGERS,
        nan: str = "refuse",
        value_type: str | None = None,
        recluster_after: int | None = None,
        window: Window | None = None,
        last: int | None = None,
        within: Any = None,
        pull: Pull | None = None,
        grows: Grows = False,
        tail: float | None = DEFAULT,
        member: bool = False,
    ) -> None:
        _check_choice("clustering", clustering, CLUSTERINGS)
        _check_choice("updates", updates, UPDATES)
        recluster = None if recluster_after is None else check_size("recluster_after", recluster_after, 1)
        if recluster is not None and recluster > MAX_RECLUSTER:
            raise InvalidArgumentError(f"recluster_after must be at most {MAX_RECLUSTER}, not {recluster}")
        if window is None and not (last is None and within is None):
            raise InvalidArgumentError("last= and within= are of use only together with window=")
        if grows and pull is None:
            raise InvalidArgumentError("grows= is of use only together with pull=")
        if member and window is None:
            raise InvalidArgumentError("member= is of use only together with window=: other values never leave")
        if window is not None and pull is not None:
            raise InvalidArgumentError("a monitor watches a window or follows a source: not window= and pull= both")
        choices = clustering, updates, recluster
        if window is not None:
            if tail is not DEFAULT and tail is not None:
                raise InvalidArgumentError("a window drops values, so a monitor over one has no tail: leave out tail=")
            watched = WindowSource(window, check_eps(eps), last, within, bool(member))
            self._start(PassEvaluator(watched, *choices), Conditions())
        elif pull is not None:
            kind = None if value_type is None else type_named(value_type)
            pulled_tail = None if tail is DEFAULT else check_tail(tail, check_eps(eps))
            source = PulledSource(pull, check_eps(eps), kind, grows, pulled_tail)
            self._start(PassEvaluator(source, *choices), Conditions())
        else:
            self._start(DeadlineEvaluator(MarkedSketch(eps, nan, value_type, tail), *choices), Conditions())

    def _start(self, evaluator: DeadlineEvaluator | PassEvaluator, conditions: Conditions) -> None:
        self._evaluator, self._conditions, self._listeners = evaluator, conditions, Listeners()
        self._source: MarkedSketch | WindowSource | PulledSource = evaluator.source
        self._lock = evaluator.lock
        self._seconds = 0.0

    @property
    def eps(self) -> float:
        """Finest precision that a query can have, unless the tail allows a finer one."""
        return self._source.eps

    @property
    def tail(self) -> float | None:
        """Share of the distance from either end that a query's error can be limited to; None for eps alone.

        It becomes larger, or None, when update_summary() adds a summary with a larger certified tail than half of it,
        or with none. The precision of queries and conditions is then raised to what is possible.
        """
        return self._source.tail

    @property
    @synchronized
    def n(self) -> int:
        """Number of values that have arrived; over a window or a pulled source, of its current elements."""
        return self._refresh_source().n

    @synchronized
    def __len__(self) -> int:
        """Number of registered queries."""
        return len(self._evaluator.queries)

    @synchronized
    def register(self, phi: float, eps: float | None = None, on_change: Listener | None = None) -> int:
        """Register a query; return its id. `on_change(id, value)` is called after an update that changed its value.

        Without a precision it has the finest one: min(eps, tail * phi, tail * (1 - phi)) of the monitor's eps and tail.
        """
        check_listener(on_change)
        ids = self.register_many([check_phi(phi)], eps)
        if on_change is not None:
            self._listeners.queries.add(ids.tolist(), on_change)
        return int(ids[0])

    @synchronized
    def register_many(self, phis: ArrayLike, epss: ArrayLike | None = None) -> Ints:
        """Register many queries, with a precision each, one for all, or the finest one of each; return their ids."""
        return self._evaluator.queries.ids(self._evaluator.add(*read_queries(phis, epss, self.eps, self.tail)))

    @synchronized
    def watch(
        self,
        phi: float,
        eps: float | None = None,
        above: Any = None,
        below: Any = None,
        on_change: Listener | None = None,
    ) -> int:
        """Add a condition: that the phi-quantile is above, or below, a limit; return its id. See condition().

        A precision below twice the finest one of a query is raised to that, which is also the default: bounds on a
        count are that far apart.
        """
        check_listener(on_change)
        if (above is None) == (below is None):
            raise InvalidArgumentError("a condition has one limit: give either above= or below=")
        phis, precisions = read_queries([check_phi(phi)], eps, self.eps, self.tail, factor=2)
        limit = below if above is None else above
        index = self._conditions.watch(phis, precisions, limit, above is not None, self._source.type)
        id = int(self._conditions.ids(np.array([index]))[0]) | CONDITION_BIT
        if on_change is not None:
            self._listeners.conditions.add([id], on_change)
        return id

    @synchronized
    def condition(self, id: int) -> str:
        """Return the state of a condition, from rank bounds: "no", "possible" (also without values) or "certain"."""
        index = self._conditions.find(read_condition_id(id))
        return STATES[self._conditions.state[index] if self._evaluate() else POSSIBLE]

    @synchronized
    def query(self, id: int) -> Query:
        """Return phi and the precision in force of a query or a condition."""
        registry = self._conditions if is_condition(id) else self._evaluator.queries
        index = registry.find(read_condition_id(id) if is_condition(id) else id)
        return Query(int(id), float(registry.phi[index]), float(registry.eps[index]))

    @synchronized
    def listen(self, id: int, on_change: Listener) -> None:
        """Call a function with (id, value) after an update that changed a query or a condition, as with register()."""
        check_listener(on_change)
        self.query(id)
        table = self._listeners.conditions if is_condition(id) else self._listeners.queries
        table.add([int(id)], on_change)

    @synchronized
    def drop(self, id: int) -> None:
        """Drop a query or a condition."""
        if is_condition(id):
            self._conditions.remove(np.array([self._conditions.find(read_condition_id(id))]))
            self._listeners.conditions.remove([int(id)])
        else:
            self.drop_many([id])

    @synchronized
    def drop_many(self, ids: ArrayLike) -> None:
        """Drop many queries."""
        indices = self._evaluator.queries.find_many(ids)
        if len(np.unique(indices)) < len(indices):
            raise InvalidArgumentError("an id is among the ids to drop twice; give each once")
        if len(self._listeners):
            self._listeners.queries.remove(self._evaluator.queries.ids(indices).tolist())
        self._evaluator.remove(indices)

    def update(self, values: Any, nan: str | None = None, times: Any = None, weights: Any = None) -> None:
        """Add values as the sketch or window does: all of them or, if it raises, none. Times are for a window.

        A value of weight w counts as w equal values.

        All on_change functions are called, and the update succeeds; failures() returns what they raised.
        """
        source = self._writable_source()
        self._lock.acquire()  # `with` costs twice as much, which shows where values are added one by one
        try:
            if self._conditions.raw_limits and (kind := read_column(values).type) is not None:
                self._conditions.check_limits(kind)
            if isinstance(source, WindowSource):
                source.update(values, nan, times, weights)
            elif times is not None:
                raise InvalidArgumentError("times are of use only to a monitor over a RecentWindow")
            else:
                source.update(values, nan, weights)
        finally:
            self._lock.release()
        self._notify()

    def update_summary(self, summary: Summary, first_time: Any = None, last_time: Any = None) -> None:
        """Add all the values behind a summary, or none if it raises.

        The certified error of the summary may be at most eps/2, of the window's eps. While a window ends inside the
        block of a summary, reads may raise SpanError and no on_change function is called; updates succeed. A summary
        whose certified tail is above tail/2 makes the monitor's tail larger, or None: see `tail`.
        """
        source = self._writable_source()
        with self._lock:
            self._conditions.check_limits(summary.type)
            if isinstance(source, WindowSource):
                source.update_summary(summary, first_time, last_time)
            elif not (first_time is None and last_time is None):
                raise InvalidArgumentError("times are of use only to a monitor over a RecentWindow")
            else:
                tail = source.tail
                source.update_summary(summary)
                if source.tail != tail:
                    self._evaluator.raise_precisions()
                    self._conditions.raise_precisions(self.eps, self.tail)
        self._notify()

    def refresh(self) -> None:
        """Notify listeners of changes. update() does it; a pulled source changes without an update."""
        listeners = self._listeners
        if listeners.queries.functions or listeners.conditions.functions:
            self._queue_changes()
            listeners.notify()

    def _notify(self) -> None:
        """Refresh after an update that has added its values and must not raise any more.

        A window that ends inside a summarized block cannot be evaluated. Listeners are called after the next update at
        which it can be; until then reads raise SpanError.
        """
        with suppress(SpanError):
            self.refresh()

    @synchronized
    def _queue_changes(self) -> None:
        if not self._evaluate():
            return
        queries, conditions = self._listeners.queries, self._listeners.conditions
        queries.apply_changes()
        conditions.apply_changes()
        values = self._evaluator.current(self._evaluator.queries.find_many(queries.ids))[0]
        states = self._conditions.state[self._conditions.find_many(conditions.ids & ~CONDITION_BIT)]
        changed, turned = queries.take_changes(values), conditions.take_changes(states)
        restored = self._source.kind.restore(values[changed])
        self._listeners.queue(queries, queries.ids[changed].tolist(), restored)
        self._listeners.queue(conditions, conditions.ids[turned].tolist(), [STATES[state] for state in states[turned]])

    @synchronized
    def answer(self, id: int) -> Answer:
        """Return the current value of a query, with proved bounds of its rank."""
        return self._answers(np.array([self._evaluator.queries.find(id)]))[0]

    @synchronized
    def answers(self, ids: ArrayLike) -> Answers:
        """Return the answers to many queries."""
        return self._answers(self._evaluator.queries.find_many(ids))

    @synchronized
    def changes(self) -> Changes:
        """Return the queries whose value, and the conditions whose state, changed since the last call."""
        if not self._evaluate():
            return Changes(self._source.kind, 0, Lookup(lambda: (np.empty(0, dtype=np.int64), np.empty(0))), [])
        conditions = self._conditions.publish() if len(self._conditions) else []
        return Changes(self._source.kind, *self._evaluator.publish(), conditions)

    @synchronized
    def summary(self) -> Summary:
        """Return a Summary of all values, or of the current elements of the window or source."""
        return self._refresh_source().summary()

    @property
    def min(self) -> Any:
        """Smallest value, exact unless a window does not cover all of its values."""
        return self.summary().min

    @property
    def max(self) -> Any:
        """Largest value, exact unless a window does not cover all of its values."""
        return self.summary().max

    @synchronized
    def failures(self) -> list[ListenerFailure]:
        """Return what on_change functions raised since the last call, the newest 1,000 exceptions."""
        return self._listeners.failures()

    @synchronized
    def stats(self) -> dict[str, Any]:
        """Return numbers of queries, clusters, evaluations of clusters, triggers fired, and more; seconds spent.

        `saved` is the number of evaluations of single queries that clusters made needless: what evaluating every query
        after each arrival that is read would take, less the evaluations of clusters. `deadline` is the number of
        further arrivals for which all values surely stay right, as of the last evaluation; None if unknown.
        """
        clusters = self._evaluator.clusters
        return {
            "n": self._source.n,
            "queries": len(self),
            "conditions": len(self._conditions),
            "clusters": 0 if clusters is None else len(clusters),
            **self._evaluator.counts,
            "saved": self._evaluator.saved,
            "deadline": self._evaluator.deadline,
            "summaries": self._source.summary_count,
            "failed_callbacks": self._listeners.failed,
            "seconds": self._seconds,
        }

    @synchronized
    def to_bytes(self) -> bytes:
        """Return the whole state except listeners and a pulled source: from_bytes() continues as if never stopped."""
        return monitor_bytes.write(self._evaluator, self._conditions)

    @classmethod
    def from_bytes(cls, data: bytes, pull: Pull | None = None, grows: bool = False) -> Self:
        """Return a monitor in exactly the state that to_bytes() wrote; add listeners again with listen().

        One with a pulled source needs `pull`, for the same source or another with values of the same type; `grows` only
        for the same source.
        """
        monitor = cls.__new__(cls)
        monitor._start(*monitor_bytes.read(data, pull, grows))
        return monitor

    def __reduce__(self) -> Any:
        if isinstance(self._source, PulledSource):
            raise CopyError(
                "a Monitor with pull= cannot be copied or pickled, since its function cannot; make another one that "
                "follows the same source: Monitor.from_bytes(monitor.to_bytes(), pull=...)"
            )
        return super().__reduce__()

    @synchronized
    def __repr__(self) -> str:
        n = self._source.n
        return f"Monitor(eps={self.eps}, n={n}, queries={len(self)}, clustering={self._evaluator.clustering!r})"

    def _writable_source(self) -> MarkedSketch | WindowSource:
        if isinstance(self._source, PulledSource):
            raise InvalidArgumentError("this monitor follows its source; give values to that, and call refresh()")
        return self._source

    def _refresh_source(self) -> MarkedSketch | WindowSource | PulledSource:
        if isinstance(self._source, PulledSource):
            self._source.refresh()
        return self._source

    def _evaluate(self) -> int:
        """Bring all queries and conditions up to date; return the number of elements."""
        started = time.perf_counter()
        n = self._refresh_source().n
        self._evaluator.evaluate()
        if n and len(self._conditions):
            self._evaluator.evaluate_conditions(self._conditions)
        self._seconds += time.perf_counter() - started
        return n

    def _answers(self, indices: Ints) -> Answers:
        n = self._evaluate()
        check_not_empty(n)
        values, low, high = self._evaluator.current(indices)
        phi = self._evaluator.queries.phi[indices]
        version = self._source.version if isinstance(self._source, PulledSource) else None
        return Answers(self._source.kind, values, phi, target_ranks(phi, n), low, high, n, version)


def _check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InvalidArgumentError(f"{name}={value!r} is not known; choose one of {', '.join(choices)}")
