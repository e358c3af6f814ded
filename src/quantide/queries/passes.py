"""Standing queries over elements that leave, too: all clusters are looked at in one pass, again and again.

In a window of N elements, an arrival and the element that leaves for it change a rank by at most one. So values that
were accepted with a reserve of B ranks on either side,

    low * N + 1 + B <= rmin        and        rmax + B <= high * N,

stay right for B arrivals, wherever they fall. The paper's pass after every floor(eps*N/2) arrivals leaves no reserve
and may be off by half of eps more. With a window of eps/2 there is always such a value, a rank aside: the answer to the
middle of a cluster's interval, (a + b)/2, has ranks within eps/2 * N of it, and B = floor(eps*N/2) is left on either
side.

A window by time may also shrink, by any number at once, and what a monitor follows may become anything else. There the
reserve is 0: they are looked at again whenever anything has changed.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantide.kernels.life import FINE, NEVER
from quantide.kernels.together import together
from quantide.queries.board import Board
from quantide.queries.conditions import Conditions
from quantide.queries.pulled import PulledSource
from quantide.queries.source import Tuples
from quantide.queries.windowed import WindowSource

Ints = NDArray[np.int64]


class PassBoard(Board):
    """All queries over a window, or over what is followed.

    `looked_at`: how many had arrived when clusters were looked at; `reserve`: after so many more they are looked at
    again. `decided_at`: how many had when conditions were decided.
    """

    stream: WindowSource | PulledSource

    def __init__(
        self, stream: WindowSource | PulledSource, clustering: str, updates: str, recluster_after: int | None
    ) -> None:
        super().__init__(stream, clustering, updates, recluster_after)
        self.looked_at = self.decided_at = -1
        self.reserve = 0
        self._lasts: int | None = None  # arrivals for which all values stay right, if nothing leaves

    def refresh(self) -> None:
        if not len(self.queries) or not self.stream.n:
            return
        if self.stale if self.clusters is not None else self._is_fine(self.stream.reserve):
            self._cluster()
        if self.clusters is not None:
            self._count_plainly(self.stream.arrived)
        if self.clusters is not None and self._is_due() and not self._pass():
            self._dissolve()

    @property
    def deadline(self) -> int | None:
        if isinstance(self.stream, WindowSource):
            return max(0, self.looked_at + self.reserve - self.stream.arrived) if self.looked_at >= 0 else None
        return self._lasts if self.stream.grows and self.clusters is not None else None

    def decide(self, conditions: Conditions) -> None:
        """All of them whenever something has arrived, for something else may have left; else those that are new."""
        moved = self.stream.arrived != self.decided_at
        if moved or conditions.first_due() < 0:
            s = self.stream.summary()
            tuples = Tuples(s.carried, s.rmin, s.rmax, True)
            conditions.evaluate(tuples, self.stream.n, self.stream.kind, NEVER + 1 if moved else 0)
            self.decided_at = self.stream.arrived

    def _bounds(self, ranks: Ints) -> tuple[Ints, Ints]:
        """The reserve is in them already."""
        return np.maximum(ranks[:, 0], 1), np.minimum(ranks[:, 1], self.stream.n)

    def _is_due(self) -> bool:
        c = self.clusters
        assert c is not None
        new = len(c) > 0 and int(c.due[c.heap[1]]) < 0
        return new or self.looked_at < 0 or self.stream.arrived - self.looked_at > self.reserve

    def _let_go(self, kept: NDArray[Any]) -> None:
        """Clusters whose value may have left do not hold on to it."""
        c = self.clusters
        assert c is not None
        mine = c.value[c.ordered]
        at = np.minimum(np.searchsorted(kept, mine), len(kept) - 1)
        c.ranks[c.ordered[kept[at] != mine], 2] = 0

    def _pass(self) -> bool:
        """Look at all clusters; whether each has a value with a reserve."""
        c, s, n, reserve = self.clusters, self.stream.summary(), self.stream.n, self.stream.reserve
        assert c is not None
        if not self.stream.grows:
            self._let_go(s.carried)
        state = (c.span, c.value, c.ranks, s.carried, s.rmin - reserve, s.rmax + reserve, n, self.eps, False)
        status, done, first = together(c.ordered, c.due, *state, True)
        self._count(done, int(self.looked_at >= 0))
        self._lasts = first - n if status == FINE and first < NEVER else None
        c.due[c.ordered] = self.stream.arrived + reserve
        self.looked_at, self.reserve = self.stream.arrived, reserve
        return bool(status == FINE)
