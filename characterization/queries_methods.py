"""The methods of the paper: eager first-hit, SU, CSU and CASU.

Lin, Xu, Zhang, Lu, Yu, Zhou, Yuan: Approximate processing of massive continuous quantile queries over high-speed data
streams, TKDE 2006, section 5.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quantide.kernels.compiled import compiled
from quantide.queries.board import TOGETHER, TRIGGERS
from quantide.queries.capacity import reserve
from quantide.queries.clusters import FEWEST, ONLINE, ROOM, WORST_CASE, Clusters
from quantide.queries.deadlines import DeadlineBoard
from quantide.queries.intervals import query_intervals
from quantide.queries.source import MarkedSketch

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Method:
    """How queries are clustered (or not) and updated; `name` is the paper's."""

    name: str
    clustering: str | None
    updates: str

    def board(self, stream: MarkedSketch, phis: Floats, epss: Floats) -> DeadlineBoard:
        """All queries over a stream of which the head has arrived; "online" has taken them one by one."""
        if self.clustering is None:
            board: DeadlineBoard = Separate(stream, FEWEST, self.updates, None)
        else:
            board = DeadlineBoard(stream, self.clustering, self.updates, len(phis) + 1)
        if self.clustering == ONLINE:
            board.add(phis[:1], epss[:1])
            board.refresh()
            phis, epss = phis[1:], epss[1:]
        board.add(phis, epss)
        board.refresh()
        return board


METHODS = (
    Method("SU", None, TOGETHER),
    *(
        Method(f"{kind} {short}", clustering, updates)
        for kind, updates in (("CSU", TOGETHER), ("CASU", TRIGGERS))
        for short, clustering in (("QC-A", WORST_CASE), ("QC-B", FEWEST), ("online", ONLINE))
    ),
)


class Separate(DeadlineBoard):
    """Every query is a cluster of its own."""

    def _cluster(self) -> None:
        alive = self.queries.alive()
        spans = query_intervals(self.queries.phi[alive], self.queries.eps[alive], self.eps)
        k, every = len(alive), np.arange(len(alive))
        made = Clusters(self.stream.kind.carrier)
        reserve(made, ROOM, k)
        made.used = k
        made.span[:k], made.due[:k], made.members[:k], made.sizes[:k] = spans, -1, 1, 1
        made.root[:k] = made.newest[:k] = made.heap[1 : k + 1] = every
        made.order[1 : k + 1] = np.argsort(spans[:, 0])
        made.order[0] = made.heap[0] = k
        made.place[:k] = every + 1
        self.clusters, self.queries.slot[alive] = made, every
        self.stale, self.changed, self.first_due = False, 0, -1


@compiled
def first_hits(low: Floats, high: Floats, rmin: Ints, rmax: Ints, n: int, out: Ints) -> None:
    """Every query scans the summary from its beginning until a tuple answers it."""
    for q in range(len(low)):
        i = 0
        while i < len(rmin) and not (low[q] * n <= rmin[i] and rmax[i] <= high[q] * n):
            i += 1
        out[q] = i
