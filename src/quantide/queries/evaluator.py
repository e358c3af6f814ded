"""Evaluator: all queries of a monitor, their clusters and current values, over any source."""

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import numpy as np

from quantide.kernels.compression import find_nearest_tuples
from quantide.queries.conditions import Conditions
from quantide.queries.query_clusters import ONLINE, ClusterMembers, QueryClusters
from quantide.queries.query_registry import UNCLUSTERED, QueryRegistry, compute_intervals
from quantide.queries.query_results import Lookup, QueryValues
from quantide.summary.ranks import target_ranks
from quantide.summary.summary import Summary
from quantide.summary.value_types import ValueType
from quantide.typing import Array, Bools, Floats, Ints

P = ParamSpec("P")
R = TypeVar("R")

UPDATES = TRIGGERS, TOGETHER = "triggers", "together"
MIN_RECLUSTER = 1 << 10  # fewest registrations and drops after which "online" clusters all queries again


class EvaluatorSource(Protocol):
    """Input of an evaluator: the current n elements, as a summary."""

    @property
    def eps(self) -> float: ...
    @property
    def n(self) -> int: ...
    @property
    def kind(self) -> ValueType: ...
    def summary(self) -> Summary: ...


class Evaluator(ABC):
    """Evaluates queries by clusters; one by one while there are too few values for clusters (`clusters` is None).

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
        self.stale = False
        self.changes = 0
        self.counts = dict.fromkeys(("evaluations", "triggers", "clusterings"), 0)
        self.saved = 0  # evaluations that separate queries would need, less evaluations of clusters
        self._saved_at = -1
        self._members: ClusterMembers | None = None  # built when a lookup is resolved
        self._unresolved: weakref.WeakSet[Lookup] = weakref.WeakSet()

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
        if self.clusters is not None and not self.stale:
            self.queries.slot[indices] = self.clusters.add(compute_intervals(phis, epss, self.eps))
        if self._members is not None:
            self._members.add(indices)
        return indices

    def remove(self, indices: Ints) -> None:
        self._record_changes(len(indices))
        slots = self.queries.slot[indices]
        if self.clusters is not None:
            self.clusters.remove(slots[slots != UNCLUSTERED])
        if self._members is not None:
            self._members.remove(indices)
        self.queries.remove(indices)

    def current(self, indices: Ints) -> tuple[Array, Ints, Ints]:
        """Return the values of queries, and lower and upper bounds of their ranks."""
        if self.clusters is None:
            summary = self.source.summary()
            targets = target_ranks(self.queries.phi[indices], self.source.n)
            at = find_nearest_tuples(summary.rmin, summary.rmax, np.array([0, len(summary)]), targets[None, :])[0]
            return summary.carried[at], summary.rmin[at], summary.rmax[at]
        cluster = self.clusters.roots()[self.queries.slot[indices]]
        return self.clusters.value[cluster], *self._rank_bounds(self.clusters.ranks[cluster])

    def publish(self) -> tuple[int, Lookup]:
        """Return how many queries have a value that differs from the last published one, and which; record them."""
        if self.clusters is None:
            changed = self._publish_each()
            return len(changed[0]), Lookup(lambda: changed)
        slots, values = self.clusters.publish()
        lookup = Lookup(lambda: self._find_members(slots, values), self.lock)
        self._unresolved.add(lookup)
        return int(self.clusters.sizes[slots].sum()), lookup

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

    def _can_cluster(self, reserve: int = 0) -> bool:
        """Return True if the summary's error is within eps, less one rank and a reserve, as clusters need.

        The summary of few elements is not.
        """
        n = self.source.n
        slack = self.eps * n - 1 - reserve
        if slack < 0:
            return False
        summary = self.source.summary()
        ends = max(int(summary.rmax[0]) - 1, n - int(summary.rmin[-1]))
        return summary.gap <= 2 * slack and ends <= slack

    def _cluster(self) -> None:
        """Cluster all queries at once."""
        self._resolve_lookups()
        queries, active = self.queries, self.queries.active()
        published, is_published = self._last_published(active)
        spans = compute_intervals(queries.phi[active], queries.eps[active], self.eps)
        self.clusters, queries.slot[active] = QueryClusters.build(
            spans, self.clustering, self.eps, published, is_published
        )
        self.stale, self.changes, self._members = False, 0, None
        self.counts["clusterings"] += 1

    def _dissolve(self) -> None:
        """Dissolve all clusters: queries are answered one by one until clusters can be answered again."""
        self._resolve_lookups()
        active = self.queries.active()
        published, is_published = self._last_published(active)
        self.queries.published = self.queries.published.astype(published.dtype, copy=False)
        self.queries.published[active], self.queries.is_published[active] = published, is_published
        self.queries.slot[active] = UNCLUSTERED
        self.clusters = self._members = None

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
        """Do what QueryClusters.publish() does, query by query."""
        queries, active = self.queries, self.queries.active()
        values = self.current(active)[0]
        queries.published = queries.published.astype(values.dtype, copy=False)
        changed = ~queries.is_published[active] | (queries.published[active] != values)
        indices, values = active[changed], values[changed]
        queries.published[indices], queries.is_published[indices] = values, True
        return queries.ids(indices), values

    def _find_members(self, slots: Ints, values: Array) -> QueryValues:
        """Return the queries of these slots, each with the value of its slot."""
        if self._members is None:
            assert self.clusters is not None
            self._members = ClusterMembers(self.queries, self.clusters)
        return self._members.find(slots, values)


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
