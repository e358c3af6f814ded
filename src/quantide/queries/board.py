"""The board: all queries, their clusters, and the values they have now, whatever they are over."""

import weakref
from abc import ABC, abstractmethod
from threading import RLock
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from quantide.kernels.compress import nearest_tuples
from quantide.queries.clusters import ONLINE, Clusters
from quantide.queries.conditions import Conditions
from quantide.queries.intervals import query_intervals
from quantide.queries.members import Members
from quantide.queries.registry import NEW, Registry
from quantide.queries.results import Found, Lookup
from quantide.summary.ranks import target_ranks
from quantide.summary.summary import Summary
from quantide.summary.types import ValueType

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Values = NDArray[Any]

UPDATES = TRIGGERS, TOGETHER = "triggers", "together"
RECLUSTER = 1 << 10  # the fewest registrations and drops after which "online" clusters anew


class Source(Protocol):
    """What a board reads: the n elements there are now, as a summary."""

    @property
    def eps(self) -> float: ...
    @property
    def n(self) -> int: ...
    @property
    def kind(self) -> ValueType: ...
    def summary(self) -> Summary: ...


class Board(ABC):
    """Keeps every query right, by clusters; while there are too few values for these, by itself.

    `clusters` is None then. `stale`: queries came or went that no clustering has seen. `changed`: how many did since
    all were clustered. When clusters are looked at, and how long that lasts, is for a DeadlineBoard or a PassBoard.
    """

    stream: Source

    def __init__(self, stream: Source, clustering: str, updates: str, recluster_after: int | None) -> None:
        self.stream, self.eps = stream, stream.eps
        self.clustering, self.updates, self.recluster_after = clustering, updates, recluster_after
        self.lock = RLock()  # whoever uses the board, or looks up what it told, holds it
        self.queries = Registry()
        self.clusters: Clusters | None = None
        self.stale = False
        self.changed = 0
        self.counts = dict.fromkeys(("evaluations", "triggers", "clusterings"), 0)
        self.saved = 0  # evaluations of single queries that were not needed, less those of clusters that were
        self._counted = -1
        self._members: Members | None = None  # made when changes are looked up
        self._open: weakref.WeakSet[Lookup] = weakref.WeakSet()  # not looked up yet, and still held by someone

    @abstractmethod
    def refresh(self) -> None:
        """Let every value be right for all elements there are now."""

    @abstractmethod
    def decide(self, conditions: Conditions) -> None:
        """Let every condition be right for all elements there are now, of which there is one at least."""

    @abstractmethod
    def _bounds(self, ranks: Ints) -> tuple[Ints, Ints]:
        """Between which ranks values are now that had these `ranks` (as in Clusters) when they were looked at."""

    @property
    @abstractmethod
    def deadline(self) -> int | None:
        """For how many further arrivals all values surely stay right, wherever they fall; None: that is not known."""

    def _count_plainly(self, arrived: int) -> None:
        """Count what evaluating each query by itself takes, whenever something has arrived."""
        if arrived != self._counted:
            self.saved += len(self.queries)
            self._counted = arrived

    def _count(self, evaluations: int, triggers: int) -> None:
        self.counts["evaluations"] += evaluations
        self.counts["triggers"] += triggers
        self.saved -= evaluations

    def add(self, phis: Floats, epss: Floats) -> Ints:
        """Take queries; their places."""
        self._note_changes(len(phis))
        places = self.queries.add(phis, epss)
        if self.clusters is not None and not self.stale:
            self.queries.slot[places] = self.clusters.join(query_intervals(phis, epss, self.eps))
        if self._members is not None:
            self._members.join(places)
        return places

    def remove(self, places: Ints) -> None:
        self._note_changes(len(places))
        slots = self.queries.slot[places]
        if self.clusters is not None:
            self.clusters.leave(slots[slots != NEW])
        if self._members is not None:
            self._members.leave(places)
        self.queries.remove(places)

    def current(self, places: Ints) -> tuple[Values, Ints, Ints]:
        """Values, and between which ranks they are."""
        if self.clusters is None:
            summary = self.stream.summary()
            targets = target_ranks(self.queries.phi[places], self.stream.n)
            at = nearest_tuples(summary.rmin, summary.rmax, np.array([0, len(summary)]), targets[None, :])[0]
            return summary.carried[at], summary.rmin[at], summary.rmax[at]
        cluster = self.clusters.roots()[self.queries.slot[places]]
        return self.clusters.value[cluster], *self._bounds(self.clusters.ranks[cluster])

    def tell(self) -> tuple[int, Lookup]:
        """How many queries have another value than was told of them last, and which."""
        if self.clusters is None:
            found = self._tell_each()
            return len(found[0]), Lookup(lambda: found)
        slots, values = self.clusters.tell()
        lookup = Lookup(lambda: self._found(slots, values), self.lock)
        self._open.add(lookup)
        return int(self.clusters.sizes[slots].sum()), lookup

    def _settle(self) -> None:
        """Before slots get other queries: what was told is about the queries there are now."""
        for lookup in list(self._open):
            lookup.resolve()
        self._open.clear()

    def _note_changes(self, count: int) -> None:
        self._settle()
        self.changed += count
        if count:
            limit = self.recluster_after or max(RECLUSTER, len(self.queries) // 2)
            self.stale |= self.clustering != ONLINE or self.changed > limit

    def _is_fine(self, reserve: int = 0) -> bool:
        """Whether the summary is within eps in real ranks, less one and a reserve, as clusters need; few are not."""
        n = self.stream.n
        slack = self.eps * n - 1 - reserve
        if slack < 0:
            return False
        summary = self.stream.summary()
        ends = max(int(summary.rmax[0]) - 1, n - int(summary.rmin[-1]))
        return summary.gap <= 2 * slack and ends <= slack

    def _cluster(self) -> None:
        """Cluster all queries at once."""
        self._settle()
        queries, alive = self.queries, self.queries.alive()
        told, known = self._told(alive)
        spans = query_intervals(queries.phi[alive], queries.eps[alive], self.eps)
        self.clusters, queries.slot[alive] = Clusters.of(spans, self.clustering, self.eps, told, known)
        self.stale, self.changed, self._members = False, 0, None
        self.counts["clusterings"] += 1

    def _dissolve(self) -> None:
        """Answer each query by itself until clusters can be served again."""
        self._settle()
        alive = self.queries.alive()
        told, known = self._told(alive)
        self.queries.told = self.queries.told.astype(told.dtype, copy=False)
        self.queries.told[alive], self.queries.told_known[alive] = told, known
        self.queries.slot[alive] = NEW
        self.clusters = self._members = None

    def _told(self, places: Ints) -> tuple[Values, NDArray[np.bool_]]:
        """What was reported of these queries last, where anything was."""
        told = self.queries.told[places].astype(self.stream.kind.carrier)
        known = self.queries.told_known[places]
        if self.clusters is not None:
            slots = self.queries.slot[places]
            held = slots != NEW
            told[held], known[held] = self.clusters.told[slots[held]], self.clusters.told_known[slots[held]]
        return told, known

    def _tell_each(self) -> Found:
        """As Clusters.tell, query by query."""
        alive = self.queries.alive()
        values = self.current(alive)[0]
        self.queries.told = self.queries.told.astype(values.dtype, copy=False)
        changed = ~self.queries.told_known[alive] | (self.queries.told[alive] != values)
        places, values = alive[changed], values[changed]
        self.queries.told[places], self.queries.told_known[places] = values, True
        return self.queries.ids(places), values

    def _found(self, slots: Ints, values: Values) -> Found:
        """The queries of these slots, and for each the value of its slot."""
        if self._members is None:
            assert self.clusters is not None
            self._members = Members(self.queries, self.clusters)
        return self._members.of(slots, values)
