"""Query clusters: queries that one answer serves, as flat arrays, built all at once or one query after the other."""

from typing import Any

import numpy as np

from quantide.kernels import interval_clustering
from quantide.kernels.key_segments import permute_segments, scatter
from quantide.kernels.online_clustering import add_queries, remove_queries
from quantide.queries.query_registry import UNCLUSTERED, QueryRegistry, indices_of, reserve
from quantide.queries.query_results import QueryValues
from quantide.typing import Array, Bools, Floats, Ints

CLUSTERINGS = ONLINE, WORST_CASE, FEWEST = "online", "worst-case", "fewest"
FEW_SLOTS = 1 << 11  # up to here the members of slots are copied slot by slot

SLOT_FIELDS = (
    "span",
    "value",
    "published",
    "is_published",
    "ranks",
    "due",
    "root",
    "members",
    "sizes",
    "newest",
)
RESERVED_FIELDS = dict.fromkeys(SLOT_FIELDS, 0) | {"order": 1}  # which begins with a count


def cluster_intervals(spans: Floats, method: str, eps: float) -> tuple[Floats, Ints]:
    """Cluster query intervals; return the clusters' intervals by their left ends, and the cluster of each query.

    Intervals that contain another are removed first (they join its cluster). Then a query belongs to the first cluster
    that does not begin before it: if that one were not within the query's interval, none would be.
    """
    by_left = spans[np.argsort(spans[:, 0])]
    left, right = interval_clustering.select_innermost(by_left[:, 0], by_left[:, 1])
    if method == FEWEST:
        left, right = interval_clustering.cluster_fewest(left, right)
    else:
        left, right = interval_clustering.cluster_worst_case(left, right, eps)
    return np.stack((left, right), axis=1), np.searchsorted(left, spans[:, 0])


class QueryClusters:
    """All clusters of a monitor. See kernels/online_clustering.py for slots.

    `due[c]` is the deadline of a cluster, the n up to which its value stays right, -1 if it is new or was narrowed;
    `unevaluated[0]` is 1 if there may be one that is. `ranks[c]` is (rmin, rmax, n then, approximate index among the
    tuples), n being 0 before the first answer. `published[s]` is the last value published to the queries of slot s.
    """

    def __init__(self, carrier: np.dtype[Any]) -> None:
        self.used = 0
        self.span: Floats = np.empty((0, 2))
        self.value: Array = np.empty(0, dtype=carrier)
        self.published: Array = np.empty(0, dtype=carrier)
        self.is_published: Bools = np.empty(0, dtype=bool)
        self.ranks: Ints = np.empty((0, 4), dtype=np.int64)
        self.due, self.root, self.members, self.sizes, self.newest = (np.empty(0, dtype=np.int64) for _ in range(5))
        self.order: Ints = np.zeros(1, dtype=np.int64)
        self.unevaluated: Ints = np.zeros(1, dtype=np.int64)

    def __len__(self) -> int:
        return int(self.order[0])

    @property
    def ordered(self) -> Ints:
        """Clusters by their left ends."""
        return self.order[1 : len(self) + 1]

    @classmethod
    def build(
        cls, spans: Floats, method: str, eps: float, published: Array, is_published: Bools
    ) -> tuple["QueryClusters", Ints]:
        """Cluster all queries at once; return the clusters and the slot of each query.

        A cluster starts with the published value of one of its queries, and keeps it if that is good enough.
        """
        built = cls(published.dtype)
        edges, codes = cluster_intervals(spans, method, eps)
        k = len(edges)
        groups, slots = _assign_slots(codes, k, published, is_published)
        reserve(built, RESERVED_FIELDS, k + len(groups))
        built.used = k + len(groups)
        built.span[:k] = edges
        built.root[:k] = built.newest[:k] = built.order[1 : k + 1] = np.arange(k)
        built.order[0] = k
        built.due[:k], built.unevaluated[0] = -1, 1
        built.members[:k] = np.bincount(codes, minlength=k)
        built.sizes[: built.used] = np.bincount(slots, minlength=built.used)
        first = np.full(built.used, -1, dtype=np.int64)
        first[slots[::-1]] = np.arange(len(slots))[::-1]
        own = np.arange(k, built.used)
        built.root[own] = codes[first[own]]
        built.published[own], built.is_published[own] = published[first[own]], True
        seeded = built.root[own]
        built.value[seeded], built.ranks[seeded, 2] = built.published[own], 1
        return built, slots

    def add(self, spans: Floats) -> Ints:
        """Add queries one after the other (Algorithm 2); return the slot of each."""
        reserve(self, RESERVED_FIELDS, self.used + len(spans))
        slots = np.empty(len(spans), dtype=np.int64)
        arrays = self.span, self.order, self.root, self.members, self.due, self.unevaluated, self.sizes, self.newest
        self.used = add_queries(spans, *arrays, self.is_published, self.used, slots)
        return slots

    def set_published(self, slots: Ints, published: Array, is_published: Bools) -> Ints:
        """Move queries that were just added, and have published values, to slots with these; return all slots."""
        slots = slots.copy()
        some = np.flatnonzero(is_published)
        if len(some):
            cluster = self.roots()[slots[some]]
            _, distinct = np.unique(published[some], return_inverse=True)
            _, first, group = np.unique(distinct * self.used + cluster, return_index=True, return_inverse=True)
            new = self.used + np.arange(len(first))
            reserve(self, RESERVED_FIELDS, self.used + len(first))
            self.used += len(first)
            self.root[new], self.published[new], self.is_published[new] = cluster[first], published[some][first], True
            np.subtract.at(self.sizes, slots[some], 1)
            slots[some] = new[group]
            np.add.at(self.sizes, slots[some], 1)
        return slots

    def remove(self, slots: Ints) -> None:
        """Remove a query from each of these slots."""
        remove_queries(slots, self.span, self.order, self.root, self.members, self.sizes)

    def roots(self) -> Ints:
        """Cluster of every slot."""
        root = self.root[: self.used]
        while not np.array_equal(further := root[root], root):
            root = further
        return root

    def publish(self) -> tuple[Ints, Array]:
        """Return the slots whose value differs from the last published one, and the values; record them."""
        values = self.value[self.roots()]
        new = ~self.is_published[: self.used]
        changed = np.flatnonzero((new | (self.published[: self.used] != values)) & (self.sizes[: self.used] > 0))
        self.published[changed], self.is_published[changed] = values[changed], True
        return changed, values[changed]


def _assign_slots(codes: Ints, k: int, published: Array, is_published: Bools) -> tuple[Ints, Ints]:
    """Assign a slot, from k on, to the queries of a cluster with the same published value; to others the cluster's."""
    slots = codes.astype(np.int64)
    if not is_published.any():
        return np.empty(0, dtype=np.int64), slots
    _, distinct = np.unique(published[is_published], return_inverse=True)
    groups, inverse = np.unique(distinct * k + codes[is_published], return_inverse=True)
    slots[is_published] = k + inverse
    return groups, slots


class ClusterMembers:
    """Index of query ids by slot, so that a change costs only the queries it concerns.

    It is built once. Queries added since are in `added` and searched; dropped ones are filtered out.
    """

    def __init__(self, queries: QueryRegistry, clusters: QueryClusters) -> None:
        self.queries = queries
        active = queries.active()
        active = active[queries.slot[active] != UNCLUSTERED]
        self.bounds = np.concatenate(([0], np.cumsum(clusters.sizes[: clusters.used])))
        self.ids = scatter(queries.slot[active], queries.ids(active), self.bounds).astype(np.int64, copy=False)
        self.dropped = np.zeros(queries.used, dtype=bool)  # indices whose query is no longer the indexed one
        self.any_dropped = False
        self.added: list[Ints] = []
        self.is_added = np.zeros(queries.used, dtype=bool)  # indices that are in `added`

    def add(self, indices: Ints) -> None:
        reserve(self, {"is_added": 0, "dropped": 0}, self.queries.used)
        self.added.append(indices[~self.is_added[indices]])
        self.is_added[indices] = True

    def remove(self, indices: Ints) -> None:
        self.dropped[indices] = True
        self.any_dropped = True

    def find(self, slots: Ints, values: Array) -> QueryValues:
        """Return the queries of these slots, which are sorted, each with the value of its slot."""
        indexed = slots[: np.searchsorted(slots, len(self.bounds) - 1)]
        slot_values = np.repeat(values[: len(indexed)], self.bounds[indexed + 1] - self.bounds[indexed])
        if len(indexed) > FEW_SLOTS:
            ids = self.ids[permute_segments(self.bounds, indexed)[0]]
        else:
            ids = np.concatenate([self.ids[:0], *(self.ids[self.bounds[s] : self.bounds[s + 1]] for s in indexed)])
        if self.any_dropped:
            present = ~self.dropped[indices_of(ids)]
            ids, slot_values = ids[present], slot_values[present]
        if self.added:
            self.added = [np.concatenate(self.added)]
            late = self.added[0][np.isin(self.queries.slot[self.added[0]], slots)]
            ids = np.concatenate((ids, self.queries.ids(late)))
            slot_values = np.concatenate((slot_values, values[np.searchsorted(slots, self.queries.slot[late])]))
        return ids, slot_values
