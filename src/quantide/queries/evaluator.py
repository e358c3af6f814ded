"""Evaluator: all queries of a monitor, their clusters and current values, over any source."""

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import numpy as np

from quantide.queries.conditions import Conditions
from quantide.queries.query_clusters import ONLINE, ClusterMembers, QueryClusters
from quantide.queries.query_registry import (
    UNCLUSTERED,
    QueryRegistry,
    compute_intervals,
    finest_precisions,
    lowest_phis,
)
from quantide.queries.query_results import Lookup, QueryValues
from quantide.summary.ranks import target_ranks
from quantide.summary.summary import Summary
from quantide.summary.value_types import ValueType
from quantide.typing import Array, Bools, Floats, Ints

P = ParamSpec("P")
R = TypeVar("R")

UPDATES = TRIGGERS, TOGETHER = "triggers", "together"
MIN_RECLUSTER = 1 << 10  # fewest registrations and drops after which "online" clusters all queries again
MIN_RANKS = 8  # the finest precision of a cluster is at least as many ranks

TupleArrays = tuple[Array, Ints, Ints]  # values, rmin, rmax


class EvaluatorSource(Protocol):
    """Input of an evaluator: the current n elements, as a summary."""

    @property
    def eps(self) -> float: ...
    @property
    def tail(self) -> float | None: ...
    @property
    def n(self) -> int: ...
    @property
    def kind(self) -> ValueType: ...
    def summary(self) -> Summary: ...


class Evaluator(ABC):
    """Evaluates queries by clusters; one by one while there are too few values for clusters (`clusters` is None).

    With a tail, precise queries towards the ends need more values than others. `least` is the finest precision that
    clusters have at the ends, since n was `least_n`. Queries that need a finer one are *separate*: in no cluster, and
    answered one by one.

    `stale`: queries were added or dropped without being clustered. `changes`: how many since all were clustered.
    DeadlineEvaluator and PassEvaluator decide when clusters are evaluated, and for how long their values are right.
    """

    source: EvaluatorSource

    def __init__(self, source: EvaluatorSource, clustering: str, updates: str, recluster_after: int | None) -> None:
        self.source, self.eps = source, source.eps
        self.clustering, self.updates, self.recluster_after = clustering, updates, recluster_after
        self.lock = RLock()  # held by all users of the evaluator, and to resolve lookups
        self.queries = QueryRegistry()
        self.clusters: QueryClusters | None = None
        self.least, self.least_n = self.eps, 0
        self._separate: Ints | None = None  # indices of separate queries, None if not known
        self.stale = False
        self.changes = 0
        self.counts = dict.fromkeys(("evaluations", "triggers", "clusterings"), 0)
        self.saved = 0  # evaluations that separate queries would need, less evaluations of clusters
        self._saved_at = -1
        self._members: ClusterMembers | None = None  # built when a lookup is resolved
        self._unresolved: weakref.WeakSet[Lookup] = weakref.WeakSet()

    @property
    def tail(self) -> float | None:
        return self.source.tail

    @property
    def precision(self) -> tuple[float, float, float]:
        """The eps, the tail and `least` as kernels take them: a tail of -1 if there is none."""
        return self.eps, -1.0 if self.tail is None else self.tail, self.least

    @abstractmethod
    def evaluate(self) -> None:
        """Bring every value up to date with the current elements."""

    @abstractmethod
    def evaluate_conditions(self, conditions: Conditions) -> None:
        """Bring every condition up to date with the current elements, of which there is one at least."""

    @abstractmethod
    def _rank_bounds(self, ranks: Ints) -> tuple[Ints, Ints]:
        """Return current rank bounds of values that had these `ranks` (see QueryClusters) when last evaluated."""

    @property
    @abstractmethod
    def deadline(self) -> int | None:
        """Further arrivals for which all values surely stay right, wherever they fall; None if unknown."""

    def _count_saved(self, arrived: int) -> None:
        """Count the evaluations that separate queries would need, once for each state of the source."""
        if arrived != self._saved_at:
            self.saved += len(self.queries)
            self._saved_at = arrived

    def _count_evaluations(self, evaluations: int, triggers: int) -> None:
        self.counts["evaluations"] += evaluations
        self.counts["triggers"] += triggers
        self.saved -= evaluations

    def add(self, phis: Floats, epss: Floats) -> Ints:
        """Add queries; return their indices."""
        self._record_changes(len(phis))
        indices = self.queries.add(phis, epss)
        self._separate = None
        if self.clusters is not None and not self.stale:
            spans, inside = self._compute_intervals(phis, epss)
            self.queries.slot[indices[inside]] = self.clusters.add(spans[inside])
        if self._members is not None:
            self._members.add(indices)
        return indices

    def remove(self, indices: Ints) -> None:
        self._record_changes(len(indices))
        self._separate = None
        slots = self.queries.slot[indices]
        if self.clusters is not None:
            self.clusters.remove(slots[slots != UNCLUSTERED])
        if self._members is not None:
            self._members.remove(indices)
        self.queries.remove(indices)

    def current(self, indices: Ints) -> tuple[Array, Ints, Ints]:
        """Return the values of queries, and lower and upper bounds of their ranks."""
        if self.clusters is None or not self.clusters.used:
            return self._answer_each(indices, self._tuples_of_separate())
        slots = self.queries.slot[indices]
        cluster = self.clusters.roots()[slots]  # any one for a separate query
        low, high = self._rank_bounds(self.clusters.ranks[cluster])
        values = self.clusters.value[cluster]
        separate = slots == UNCLUSTERED
        if separate.any():
            answers = self._answer_each(indices[separate], self._tuples_of_separate())
            values[separate], low[separate], high[separate] = answers
        return values, low, high

    def raise_precisions(self) -> None:
        """Raise the precision of queries to the finest one, after the source's tail became larger or None."""
        active = self.queries.active()
        finest = finest_precisions(self.queries.phi[active], self.eps, self.tail)
        self.queries.eps[active] = np.maximum(self.queries.eps[active], finest)
        if self.clusters is not None:
            self._dissolve()

    def _tuples_of_separate(self) -> TupleArrays:
        """Return tuples that answer separate queries within their precision and half a rank."""
        summary = self.source.summary()
        return summary.carried, summary.rmin, summary.rmax

    def _answer_each(self, indices: Ints, tuples: TupleArrays) -> tuple[Array, Ints, Ints]:
        """Return the nearest values to the targets of queries, and lower and upper bounds of their ranks.

        Between two tuples of one value every rank has that value.
        """
        values, rmin, rmax = tuples
        targets = target_ranks(self.queries.phi[indices], self.source.n)
        chosen = values[np.searchsorted(rmin[:-1] + rmax[1:], 2 * targets)]
        first, last = np.searchsorted(values, chosen), np.searchsorted(values, chosen, side="right") - 1
        low = np.maximum(rmin[first], np.minimum(targets, rmin[last]))
        return chosen, low, np.minimum(rmax[last], np.maximum(targets, rmax[first]))

    def _separate_queries(self) -> Ints:
        """Return the indices of queries that are in no cluster."""
        if self._separate is None:
            self._separate = np.flatnonzero(self.queries.slot[: self.queries.used] == UNCLUSTERED)
        return self._separate

    def publish(self) -> tuple[int, Lookup]:
        """Return how many queries have a value that differs from the last published one, and which; record them."""
        if self.clusters is None:
            changed = self._publish_each()
            return len(changed[0]), Lookup(lambda: changed)
        slots, values = self.clusters.publish()
        separate = self._publish_each() if len(self._separate_queries()) else None
        lookup = Lookup(lambda: self._find_members(slots, values, separate), self.lock)
        self._unresolved.add(lookup)
        count = 0 if separate is None else len(separate[0])
        return int(self.clusters.sizes[slots].sum()) + count, lookup

    def _resolve_lookups(self) -> None:
        """Resolve lookups before slots change: they refer to the queries of now."""
        for lookup in list(self._unresolved):
            lookup.resolve()
        self._unresolved.clear()

    def _record_changes(self, count: int) -> None:
        self._resolve_lookups()
        self.changes += count
        if count:
            limit = self.recluster_after or max(MIN_RECLUSTER, len(self.queries) // 2)
            self.stale |= self.clustering != ONLINE or self.changes > limit

    def _update_clusters(self, reserve: int = 0) -> None:
        """Cluster queries if that is possible and necessary."""
        if self.clusters is None:
            if self._find_least(reserve):
                self._cluster()
        elif self.stale:
            if self.tail is None or self._find_least(reserve):
                self._cluster()
            else:
                self._dissolve()
        elif self.source.n >= 2 * self.least_n and len(self._separate_queries()):
            self._admit_separate(reserve)

    def _find_least(self, reserve: int) -> bool:
        """Find the finest precision of clusters near the ends; return False if there is none.

        Everywhere the summary's error has to be within the precision, less one rank and a reserve. The summary of few
        elements is not.
        """
        n = self.source.n
        slack = self.eps * n - 1 - reserve
        if slack < 0:
            return False
        s = self.source.summary()
        ends = max(int(s.rmax[0]) - 1, n - int(s.rmin[-1]))
        apart = s.carried[1:] != s.carried[:-1]  # between equal values every rank has that value
        below, above = np.concatenate((s.rmin, s.rmin[:-1][apart])), np.concatenate((s.rmax, s.rmax[1:][apart]))
        if int((above - below).max()) > 2 * slack or ends > slack:
            return False
        self.least, self.least_n = self.eps, n
        if self.tail is not None:
            # Where `start` is below `end` no tuple is within the tail: one is too low and the next one too high.
            start = lowest_phis((below - 1 - reserve) / n, self.eps, self.tail, 0.0)
            end = 1 - lowest_phis(1 - (above + reserve) / n, self.eps, self.tail, 0.0)
            missed = start < end
            needed = (int((above - below)[missed].max(initial=1)) + 1) / 2 + reserve
            self.least = min(self.eps, max(MIN_RANKS, 2 * needed) / n)
        return True

    def _compute_intervals(self, phis: Floats, epss: Floats) -> tuple[Floats, Bools]:
        """Return the intervals of queries, and which of them are not empty."""
        spans = compute_intervals(phis, epss, self.eps, self.tail, self.least)
        return spans, spans[:, 0] <= spans[:, 1]

    def _cluster(self) -> None:
        """Cluster all queries at once, except those that remain separate."""
        self._resolve_lookups()
        queries, active = self.queries, self.queries.active()
        published, is_published = self._last_published(active)
        spans, inside = self._compute_intervals(queries.phi[active], queries.eps[active])
        if not inside.all():
            self._store_published(active, published, is_published)
            queries.slot[active] = UNCLUSTERED
        self.stale, self.changes, self._members, self._separate = False, 0, None, None
        self.clusters = None
        if inside.any():
            self.clusters, queries.slot[active[inside]] = QueryClusters.build(
                spans[inside], self.clustering, self.eps, published[inside], is_published[inside]
            )
            self.counts["clusterings"] += 1

    def _admit_separate(self, reserve: int) -> None:
        """Move separate queries into clusters that can be precise enough for them by now.

        Clusters stay valid: with a smaller `least` they accept less, and intervals of queries become wider.
        """
        separate, before = self._separate_queries(), self.least
        if not self._find_least(reserve) or self.least >= before:
            self.least, self.least_n = before, self.source.n  # try again when that has doubled
            return
        spans, inside = self._compute_intervals(self.queries.phi[separate], self.queries.eps[separate])
        indices = separate[inside]
        if not len(indices):
            return
        self._record_changes(len(indices))
        if self.stale:
            self._cluster()
            return
        assert self.clusters is not None
        published = self.queries.published[indices].astype(self.source.kind.carrier)
        slots = self.clusters.add(spans[inside])
        self.queries.slot[indices] = self.clusters.set_published(slots, published, self.queries.is_published[indices])
        self._separate = None
        if self._members is not None:
            self._members.add(indices)

    def _dissolve(self) -> None:
        """Dissolve all clusters: queries are answered one by one until clusters can be answered again."""
        self._resolve_lookups()
        active = self.queries.active()
        published, is_published = self._last_published(active)
        self._store_published(active, published, is_published)
        self.queries.slot[active] = UNCLUSTERED
        self.clusters = self._members = self._separate = None

    def _store_published(self, indices: Ints, published: Array, is_published: Bools) -> None:
        """Store the last published values of queries that leave their clusters."""
        self.queries.published = self.queries.published.astype(published.dtype, copy=False)
        self.queries.published[indices], self.queries.is_published[indices] = published, is_published

    def _last_published(self, indices: Ints) -> tuple[Array, Bools]:
        """Return the last published values of queries, and which have one."""
        published = self.queries.published[indices].astype(self.source.kind.carrier)
        is_published = self.queries.is_published[indices]
        if self.clusters is not None:
            slots = self.queries.slot[indices]
            own = slots != UNCLUSTERED
            published[own] = self.clusters.published[slots[own]]
            is_published[own] = self.clusters.is_published[slots[own]]
        return published, is_published

    def _publish_each(self) -> QueryValues:
        """Do what QueryClusters.publish() does, query by query, for those in no cluster."""
        queries, active = self.queries, self._separate_queries()
        values = self.current(active)[0]
        queries.published = queries.published.astype(values.dtype, copy=False)
        changed = ~queries.is_published[active] | (queries.published[active] != values)
        indices, values = active[changed], values[changed]
        queries.published[indices], queries.is_published[indices] = values, True
        return queries.ids(indices), values

    def _find_members(self, slots: Ints, values: Array, separate: QueryValues | None) -> QueryValues:
        """Return the queries of these slots, each with the value of its slot, and separate ones with their values."""
        if self._members is None:
            assert self.clusters is not None
            self._members = ClusterMembers(self.queries, self.clusters)
        ids, found = self._members.find(slots, values)
        if separate is None:
            return ids, found
        return np.concatenate((ids, separate[0])), np.concatenate((found, separate[1]))


class Lockable(Protocol):
    @property
    def _lock(self) -> Any: ...


L = TypeVar("L", bound=Lockable)


def synchronized(method: Callable[Concatenate[L, P], R]) -> Callable[Concatenate[L, P], R]:
    """Hold the object's reentrant lock while a method runs."""

    @wraps(method)
    def run(self: L, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._lock:
            return method(self, *args, **kwargs)

    return run
