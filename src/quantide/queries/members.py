"""Members: the queries of every slot, side by side, so that a change costs only the queries it is about."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantide.kernels.segments import scatter, spread
from quantide.queries.capacity import reserve
from quantide.queries.clusters import Clusters
from quantide.queries.registry import NEW, Registry, places_of
from quantide.queries.results import Found

Ints = NDArray[np.int64]

FEW = 1 << 11  # slots that are copied one by one


class Members:
    """The ids of queries by their slots, as they were once; queries that came since are looked through."""

    def __init__(self, queries: Registry, clusters: Clusters) -> None:
        self.queries = queries
        alive = queries.alive()
        alive = alive[queries.slot[alive] != NEW]
        self.bounds = np.concatenate(([0], np.cumsum(clusters.sizes[: clusters.used])))
        self.ids = scatter(queries.slot[alive], queries.ids(alive), self.bounds).astype(np.int64, copy=False)
        self.gone = np.zeros(queries.used, dtype=bool)  # places whose query is no longer the one that was grouped
        self.any_gone = False
        self.came: list[Ints] = []
        self.seen = np.zeros(queries.used, dtype=bool)  # places that are in `came`

    def join(self, places: Ints) -> None:
        reserve(self, {"seen": 0, "gone": 0}, self.queries.used)
        self.came.append(places[~self.seen[places]])
        self.seen[places] = True

    def leave(self, places: Ints) -> None:
        self.gone[places] = True
        self.any_gone = True

    def of(self, slots: Ints, values: NDArray[Any]) -> Found:
        """The queries that these slots, which rise, have now, and for each the value of its slot."""
        old = slots[: np.searchsorted(slots, len(self.bounds) - 1)]
        found = np.repeat(values[: len(old)], self.bounds[old + 1] - self.bounds[old])
        if len(old) > FEW:
            ids = self.ids[spread(self.bounds, old)[0]]
        else:
            ids = np.concatenate([self.ids[:0], *(self.ids[self.bounds[s] : self.bounds[s + 1]] for s in old)])
        if self.any_gone:
            still = ~self.gone[places_of(ids)]
            ids, found = ids[still], found[still]
        if self.came:
            self.came = [np.concatenate(self.came)]
            late = self.came[0][np.isin(self.queries.slot[self.came[0]], slots)]
            ids = np.concatenate((ids, self.queries.ids(late)))
            found = np.concatenate((found, values[np.searchsorted(slots, self.queries.slot[late])]))
        return ids, found
