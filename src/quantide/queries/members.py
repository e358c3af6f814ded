"""Members: the queries of every slot, side by side, so that a change costs only the queries it is about."""

import numpy as np
from numpy.typing import NDArray

from quantide.kernels.segments import scatter, spread
from quantide.queries.clusters import Clusters
from quantide.queries.registry import NEW, Registry, grown

Ints = NDArray[np.int64]


class Members:
    """The places of queries by their slots, as they were once; queries that came since are looked through."""

    def __init__(self, queries: Registry, clusters: Clusters) -> None:
        self.queries = queries
        alive = queries.alive()
        alive = alive[queries.slot[alive] != NEW]
        self.bounds = np.concatenate(([0], np.cumsum(clusters.sizes[: clusters.used])))
        self.grouped = scatter(queries.slot[alive], alive, self.bounds).astype(np.int64, copy=False)
        self.held = np.zeros(queries.used, dtype=bool)  # places whose query is still the one that was grouped
        self.held[alive] = True
        self.came: list[Ints] = []
        self.seen = np.zeros(queries.used, dtype=bool)  # places that are in `came`

    def join(self, places: Ints) -> None:
        self.seen, self.held = grown(self.seen, self.queries.used), grown(self.held, self.queries.used)
        self.came.append(places[~self.seen[places]])
        self.seen[places] = True

    def leave(self, places: Ints) -> None:
        self.held[places] = False

    def of(self, slots: Ints) -> tuple[Ints, Ints]:
        """The queries that these slots, which rise, have now, and for each the number of its slot among these."""
        old = slots[: np.searchsorted(slots, len(self.bounds) - 1)]
        at, begins = spread(self.bounds, old)
        places, which = self.grouped[at], np.repeat(np.arange(len(old)), np.diff(begins))
        still = self.held[places]
        if not still.all():
            places, which = places[still], which[still]
        if self.came:
            self.came = [np.concatenate(self.came)]
            late = self.came[0][np.isin(self.queries.slot[self.came[0]], slots)]
            places = np.concatenate((places, late))
            which = np.concatenate((which, np.searchsorted(slots, self.queries.slot[late])))
        return places, which
