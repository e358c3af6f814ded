"""The board: all queries over a stream, their clusters, and the values they have now."""

import weakref
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantide.kernels.compress import nearest_tuples
from quantide.kernels.deadlines import fire
from quantide.kernels.life import FINE, NEVER
from quantide.kernels.together import together
from quantide.queries.clusters import ONLINE, Clusters
from quantide.queries.intervals import query_intervals
from quantide.queries.members import Members
from quantide.queries.registry import NEW, Registry
from quantide.queries.results import Found, Lookup
from quantide.queries.source import MarkedSketch, Tuples
from quantide.summary.ranks import target_ranks

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Values = NDArray[Any]

UPDATES = TRIGGERS, TOGETHER = "triggers", "together"
RECLUSTER = 1 << 10  # the fewest registrations and drops after which "online" clusters anew


class Board:
    """Keeps every query right, by clusters; while there are too few values for these, by itself.

    `clusters` is None then. `stale`: queries came or went that no clustering has seen. `changed`: how many did since
    all were clustered. `first_due`: the first deadline of all clusters, with "together".
    """

    def __init__(self, stream: MarkedSketch, clustering: str, updates: str, recluster_after: int | None) -> None:
        self.stream, self.eps = stream, stream.eps
        self.clustering, self.updates, self.recluster_after = clustering, updates, recluster_after
        self.queries = Registry()
        self.clusters: Clusters | None = None
        self.stale = False
        self.changed = 0
        self.first_due = -1
        self.counts = dict.fromkeys(("evaluations", "triggers", "clusterings"), 0)
        self._members: Members | None = None  # made when changes are looked up
        self._open: weakref.WeakSet[Lookup] = weakref.WeakSet()  # not looked up yet, and still held by someone

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

    def refresh(self) -> None:
        """Let every value be right for everything that has arrived."""
        if len(self.queries):
            if self.stale if self.clusters is not None else self._is_fine():
                self._cluster()
            if self._next_due() < self.stream.n and not self._evaluate():
                self._dissolve()

    def current(self, places: Ints) -> tuple[Values, Ints, Ints]:
        """Values, and between which ranks they are: arrivals since a cluster was looked at may all be before it."""
        n = self.stream.n
        if self.clusters is None:
            summary = self.stream.summary()
            targets = target_ranks(self.queries.phi[places], n)
            at = nearest_tuples(summary.rmin, summary.rmax, np.array([0, len(summary)]), targets[None, :])[0]
            return summary.carried[at], summary.rmin[at], summary.rmax[at]
        cluster = self.clusters.roots()[self.queries.slot[places]]
        ranks = self.clusters.ranks[cluster]
        return self.clusters.value[cluster], ranks[:, 0], np.minimum(ranks[:, 1] + n - ranks[:, 2], n)

    def condition_tuples(self, first_due: int) -> Tuples | None:
        """What conditions are decided by, the first of which is due then: a summary within eps; None when none is."""
        if first_due >= self.stream.n:
            return None
        if self.clusters is None:
            summary = self.stream.summary()
            return Tuples(summary.carried, summary.rmin, summary.rmax, True)
        tuples = self.stream.tuples()
        gap = int((tuples.rmax[1:] - tuples.rmin[:-1]).max())
        return self.stream.tuples(anew=True) if gap > 2 * self.eps * self.stream.n else tuples

    def tell(self) -> tuple[int, Lookup]:
        """How many queries have another value than was told of them last, and which."""
        if self.clusters is None:
            found = self._tell_each()
            return len(found[0]), Lookup(lambda: found)
        slots, values = self.clusters.tell()
        lookup = Lookup(lambda: self._found(slots, values))
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

    def _is_fine(self) -> bool:
        """Whether the summary is within eps in real ranks, less one, which clusters need; that of a few is not."""
        n, slack = self.stream.n, self.eps * self.stream.n - 1
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
        self.stale, self.changed, self.first_due, self._members = False, 0, -1, None
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

    def _next_due(self) -> int:
        """The first deadline of all clusters; -1 when one is new."""
        c = self.clusters
        if c is None or not len(c):
            return NEVER
        first = int(c.due[c.heap[1]])
        return first if self.updates == TRIGGERS or first < 0 else self.first_due

    def _evaluate(self) -> bool:
        """Fire what is due; whether every cluster could be answered. Marks that are worn out are made anew."""
        tuples = self.stream.tuples()
        return self._fire(tuples) or (not tuples.fresh and self._fire(self.stream.tuples(anew=True)))

    def _fire(self, t: Tuples) -> bool:
        c, n = self.clusters, self.stream.n
        assert c is not None
        state = (c.span, c.value, c.ranks, t.values, t.rmin, t.rmax, n, self.eps, not t.fresh)
        if self.updates == TRIGGERS:
            status, done, triggers = fire(c.heap, c.place, c.due, *state)
        else:
            everything = self.first_due < n
            status, done, first = together(c.ordered, c.due, *state, everything)
            triggers = int(everything and self.first_due >= 0)
            self.first_due = first
        self.counts["evaluations"] += done
        self.counts["triggers"] += triggers
        return bool(status == FINE)

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
