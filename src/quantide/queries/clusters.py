"""Clusters: queries that one answer serves, as flat arrays, made all at once or one query after the other."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantide.kernels import intervals
from quantide.kernels.online import join, leave
from quantide.queries.capacity import reserve

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Values = NDArray[Any]
Flags = NDArray[np.bool_]

CLUSTERINGS = ONLINE, WORST_CASE, FEWEST = "online", "worst-case", "fewest"

SLOT_FIELDS = (
    "span",
    "value",
    "told",
    "told_known",
    "ranks",
    "due",
    "place",
    "root",
    "members",
    "sizes",
    "newest",
)
ROOM = dict.fromkeys(SLOT_FIELDS, 0) | {"order": 1, "heap": 1}  # these two begin with a count


def clustered(spans: Floats, method: str, eps: float) -> tuple[Floats, Ints]:
    """The intervals of clusters for query intervals, by their left ends, and the cluster of each query.

    Intervals that contain another are left out first (they join its cluster). Then a query belongs to the first
    cluster that does not begin before it: were that not within the query's interval, none would be.
    """
    by_left = spans[np.argsort(spans[:, 0])]
    left, right = intervals.innermost(by_left[:, 0], by_left[:, 1])
    if method == FEWEST:
        left, right = intervals.fewest(left, right)
    else:
        left, right = intervals.worst_case(left, right, eps)
    return np.stack((left, right), axis=1), np.searchsorted(left, spans[:, 0])


class Clusters:
    """All clusters of a monitor. See kernels/online.py for slots, kernels/deadlines.py for the heap.

    `ranks[c]` is (rmin, rmax, n then, about where among the tuples), n being 0 before the first answer; `told[s]` is
    what was last reported to the queries of slot s.
    """

    def __init__(self, carrier: np.dtype[Any]) -> None:
        self.used = 0
        self.span: Floats = np.empty((0, 2))
        self.value: Values = np.empty(0, dtype=carrier)
        self.told: Values = np.empty(0, dtype=carrier)
        self.told_known: Flags = np.empty(0, dtype=bool)
        self.ranks: Ints = np.empty((0, 4), dtype=np.int64)
        self.due, self.place, self.root, self.members, self.sizes, self.newest = (
            np.empty(0, dtype=np.int64) for _ in range(6)
        )
        self.order: Ints = np.zeros(1, dtype=np.int64)
        self.heap: Ints = np.zeros(1, dtype=np.int64)

    def __len__(self) -> int:
        return int(self.order[0])

    @property
    def ordered(self) -> Ints:
        """The clusters by their left ends."""
        return self.order[1 : len(self) + 1]

    @classmethod
    def of(cls, spans: Floats, method: str, eps: float, told: Values, known: Flags) -> tuple["Clusters", Ints]:
        """Clusters made at once, and the slot of each query; `told` is what was reported of each, where known.

        A cluster begins with the value of one of its queries, to keep it if that is good enough.
        """
        made = cls(told.dtype)
        edges, codes = clustered(spans, method, eps)
        k = len(edges)
        groups, slots = _slots(codes, k, told, known)
        reserve(made, ROOM, k + len(groups))
        made.used = k + len(groups)
        made.span[:k] = edges
        made.root[:k] = made.newest[:k] = made.order[1 : k + 1] = made.heap[1 : k + 1] = np.arange(k)
        made.order[0] = made.heap[0] = k
        made.place[:k] = np.arange(1, k + 1)
        made.due[:k] = -1
        made.members[:k] = np.bincount(codes, minlength=k)
        made.sizes[: made.used] = np.bincount(slots, minlength=made.used)
        first = np.full(made.used, -1, dtype=np.int64)
        first[slots[::-1]] = np.arange(len(slots))[::-1]
        own = np.arange(k, made.used)
        made.root[own] = codes[first[own]]
        made.told[own], made.told_known[own] = told[first[own]], True
        seeded = made.root[own]
        made.value[seeded], made.ranks[seeded, 2] = made.told[own], 1
        return made, slots

    def join(self, spans: Floats) -> Ints:
        """Take queries one after the other (Algorithm 2); the slot of each."""
        reserve(self, ROOM, self.used + len(spans))
        slots = np.empty(len(spans), dtype=np.int64)
        self.used = join(spans, *self._structure(), self.newest, self.told_known, self.used, slots)
        return slots

    def leave(self, slots: Ints) -> None:
        """Let a query go from each of these slots."""
        leave(slots, *self._structure())

    def _structure(self) -> tuple[Floats, Ints, Ints, Ints, Ints, Ints, Ints, Ints]:
        return self.span, self.order, self.root, self.members, self.heap, self.place, self.due, self.sizes

    def roots(self) -> Ints:
        """The cluster of every slot."""
        root = self.root[: self.used]
        while not np.array_equal(further := root[root], root):
            root = further
        return root

    def tell(self) -> tuple[Ints, Values]:
        """The slots whose queries have not been told the value they have now, and those values; now they have."""
        values = self.value[self.roots()]
        fresh = ~self.told_known[: self.used]
        changed = np.flatnonzero((fresh | (self.told[: self.used] != values)) & (self.sizes[: self.used] > 0))
        self.told[changed], self.told_known[changed] = values[changed], True
        return changed, values[changed]


def _slots(codes: Ints, k: int, told: Values, known: Flags) -> tuple[Ints, Ints]:
    """Queries of a cluster that were told the same share a slot, from k on; who was told nothing has the cluster's."""
    slots = codes.astype(np.int64)
    if not known.any():
        return np.empty(0, dtype=np.int64), slots
    _, said = np.unique(told[known], return_inverse=True)
    groups, inverse = np.unique(said * k + codes[known], return_inverse=True)
    slots[known] = k + inverse
    return groups, slots
