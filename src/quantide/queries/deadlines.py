"""Standing queries over a stream: a cluster is looked at when its value need no longer be right."""

import numpy as np
from numpy.typing import NDArray

from quantide.kernels.deadlines import fire
from quantide.kernels.life import FINE, NEVER
from quantide.kernels.together import together
from quantide.queries.board import TRIGGERS, Board
from quantide.queries.conditions import Conditions
from quantide.queries.source import MarkedSketch, Tuples

Ints = NDArray[np.int64]


class DeadlineBoard(Board):
    """All queries over a whole stream. `first_due`: the first deadline of all clusters, with "together"."""

    stream: MarkedSketch

    def __init__(self, stream: MarkedSketch, clustering: str, updates: str, recluster_after: int | None) -> None:
        super().__init__(stream, clustering, updates, recluster_after)
        self.first_due = -1

    def refresh(self) -> None:
        if len(self.queries):
            if self.stale if self.clusters is not None else self._is_fine():
                self._cluster()
            if self.clusters is not None:
                self._count_plainly(self.stream.n)
            if self._next_due() < self.stream.n and not self._evaluate():
                self._dissolve()

    @property
    def deadline(self) -> int | None:
        due = self._next_due()
        return due - self.stream.n if 0 <= due < NEVER else None

    def decide(self, conditions: Conditions) -> None:
        n = self.stream.n
        if conditions.first_due() < n:
            conditions.evaluate(self._condition_tuples(), n, self.stream.kind, n)

    def _condition_tuples(self) -> Tuples:
        """What conditions are decided by: a summary within eps."""
        if self.clusters is None:
            summary = self.stream.summary()
            return Tuples(summary.carried, summary.rmin, summary.rmax, True)
        tuples = self.stream.tuples()
        gap = int((tuples.rmax[1:] - tuples.rmin[:-1]).max())
        return self.stream.tuples(anew=True) if gap > 2 * self.eps * self.stream.n else tuples

    def _bounds(self, ranks: Ints) -> tuple[Ints, Ints]:
        """Arrivals since a cluster was looked at may all be before it."""
        n = self.stream.n
        return ranks[:, 0], np.minimum(ranks[:, 1] + n - ranks[:, 2], n)

    def _cluster(self) -> None:
        super()._cluster()
        self.first_due = -1

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
        self._count(done, triggers)
        return bool(status == FINE)
