"""Cluster evaluators: by deadlines over a stream, in passes over a source whose elements also leave.

Over a stream, a cluster is evaluated when its value may no longer be right.

In a window of N elements, an arrival and the element that leaves for it change a rank by at most one. So values that
were accepted with a reserve of B ranks on either side,

    low * N + 1 + B <= rmin        and        rmax + B <= high * N,

stay right for B arrivals, wherever they fall. The paper's pass after every floor(eps*N/2) arrivals leaves no reserve
and may be off by half of eps more. With a window of eps/2 there is always such a value, a rank aside: the answer to the
middle of a cluster's interval, (a + b)/2, has ranks within eps/2 * N of it, and B = floor(eps*N/2) is left on either
side.

A window by time may also shrink, by any number at once, and a pulled source may become anything else. There the reserve
is 0: clusters are evaluated after every change.
"""

import numpy as np

from quantide.kernels.cluster_evaluation import ANSWERED, EARLY_FRACTION, NEVER, evaluate_pass
from quantide.queries.conditions import Conditions
from quantide.queries.evaluator import TRIGGERS, Evaluator, TupleArrays
from quantide.queries.marked_sketch import MarkedSketch, StreamTuples
from quantide.queries.query_sources import PulledSource, WindowSource
from quantide.summary.ranks import target_ranks
from quantide.typing import Array, Ints


class DeadlineEvaluator(Evaluator):
    """All queries over a whole stream. `first_due`: the earliest deadline of all clusters, or an earlier number."""

    source: MarkedSketch

    def __init__(self, source: MarkedSketch, clustering: str, updates: str, recluster_after: int | None) -> None:
        super().__init__(source, clustering, updates, recluster_after)
        self.first_due = -1
        self._sharpened: tuple[int, Ints] | None = None  # n, and the queries for which marks were sharp enough then

    def evaluate(self) -> None:
        if len(self.queries):
            self._update_clusters()
            if self.clusters is not None:
                self._count_saved(self.source.n)
            if self._next_due() < self.source.n and not self._evaluate_due():
                self._dissolve()
                if self.tail is not None:
                    self._update_clusters()  # less precisely at the ends
                    if self._next_due() < self.source.n and not self._evaluate_due():
                        self._dissolve()
            if self.clusters is not None and len(self._separate_queries()):
                self._sharpen_marks()

    @property
    def deadline(self) -> int | None:
        due = self._next_due()
        return due - self.source.n if 0 <= due < NEVER and not len(self._separate_queries()) else None

    def evaluate_conditions(self, conditions: Conditions) -> None:
        n, kind = self.source.n, self.source.kind
        if conditions.first_due() < n:
            tuples = self._tuples_now()
            if not conditions.evaluate(tuples, n, kind, n, strict=not tuples.fresh):
                conditions.evaluate(self.source.tuples(rebuild=True), n, kind, n)

    def _tuples_now(self) -> StreamTuples:
        """Return the marks; a summary while there are too few values for clusters."""
        if self.clusters is None:
            summary = self.source.summary()
            return StreamTuples(summary.carried, summary.rmin, summary.rmax, True)
        return self.source.tuples()

    def _tuples_of_separate(self) -> TupleArrays:
        return self._tuples_now()[:3]

    def _sharpen_marks(self) -> None:
        """Rebuild the marks if they are too coarse for the separate queries."""
        n, separate = self.source.n, self._separate_queries()
        if self._sharpened is not None and self._sharpened[0] == n and self._sharpened[1] is separate:
            return
        tuples, self._sharpened = self.source.tuples(), (n, separate)
        if not tuples.fresh:
            _, low, high = self._answer_each(separate, tuples[:3])
            target = target_ranks(self.queries.phi[separate], n)
            if (np.maximum(target - low, high - target) > self.queries.eps[separate] * n + 0.5).any():
                self.source.tuples(rebuild=True)

    def _rank_bounds(self, ranks: Ints) -> tuple[Ints, Ints]:
        """Widen the upper bounds: all arrivals since the evaluation may be smaller."""
        n = self.source.n
        return ranks[:, 0], np.minimum(ranks[:, 1] + n - ranks[:, 2], n)

    def _cluster(self) -> None:
        super()._cluster()
        self.first_due = -1

    def _next_due(self) -> int:
        """Earliest deadline of all clusters; -1 if one is new."""
        c = self.clusters
        if c is None or not len(c):
            return NEVER
        return -1 if c.unevaluated[0] else self.first_due

    def _evaluate_due(self) -> bool:
        """Evaluate clusters that are due; return True if all could be answered. Marks too coarse for it are rebuilt."""
        tuples = self.source.tuples()
        return self._evaluate_from(tuples) or (
            not tuples.fresh and self._evaluate_from(self.source.tuples(rebuild=True))
        )

    def _evaluate_from(self, t: StreamTuples) -> bool:
        c, n = self.clusters, self.source.n
        assert c is not None
        state = (c.span, c.value, c.ranks, t.values, t.rmin, t.rmax, n, *self.precision, not t.fresh)
        passed = self.first_due < n
        left = EARLY_FRACTION if self.updates == TRIGGERS else float(passed)
        status, done, triggers, first = evaluate_pass(c.ordered, c.due, *state, left)
        if self.updates != TRIGGERS:
            triggers = int(passed and self.first_due >= 0)
        self.first_due = first
        c.unevaluated[0] = status != ANSWERED
        self._count_evaluations(done, triggers)
        return bool(status == ANSWERED)


class PassEvaluator(Evaluator):
    """All queries over a window or a pulled source.

    `evaluated_at`: the source's `arrived` at the last pass; `reserve`: further arrivals until the next one.
    `conditions_at`: the source's `arrived` when conditions were last evaluated.
    """

    source: WindowSource | PulledSource

    def __init__(
        self, source: WindowSource | PulledSource, clustering: str, updates: str, recluster_after: int | None
    ) -> None:
        super().__init__(source, clustering, updates, recluster_after)
        self.evaluated_at = self.conditions_at = -1
        self.reserve = 0
        self._lifetime: int | None = None  # arrivals for which all values stay right, if nothing leaves

    def evaluate(self) -> None:
        if not len(self.queries) or not self.source.n:
            return
        self._update_clusters(self.source.reserve)
        if self.clusters is not None:
            self._count_saved(self.source.arrived)
        if self.clusters is not None and self._is_due() and not self._evaluate_all():
            self._dissolve()
            self._cluster_again()

    @property
    def deadline(self) -> int | None:
        if isinstance(self.source, WindowSource):
            if self.evaluated_at < 0:
                return None
            return max(0, self.evaluated_at + self.reserve - self.source.arrived)
        known = self.source.grows and self.clusters is not None and not len(self._separate_queries())
        return self._lifetime if known else None

    def evaluate_conditions(self, conditions: Conditions) -> None:
        """Evaluate all conditions after an arrival, since other elements may have left; otherwise the new ones."""
        changed = self.source.arrived != self.conditions_at
        if changed or conditions.first_due() < 0:
            s = self.source.summary()
            tuples = StreamTuples(s.carried, s.rmin, s.rmax, True)
            conditions.evaluate(tuples, self.source.n, self.source.kind, NEVER + 1 if changed else 0)
            self.conditions_at = self.source.arrived

    def _rank_bounds(self, ranks: Ints) -> tuple[Ints, Ints]:
        """Cut the ranks, which include the reserve, to those of the source."""
        return np.maximum(ranks[:, 0], 1), np.minimum(ranks[:, 1], self.source.n)

    def _cluster_again(self) -> None:
        """Cluster less precisely at the ends, after clusters could not be answered."""
        if self.tail is not None:
            self._update_clusters(self.source.reserve)
            if self.clusters is not None and not self._evaluate_all():
                self._dissolve()

    def _is_due(self) -> bool:
        c = self.clusters
        assert c is not None
        return bool(c.unevaluated[0]) or self.evaluated_at < 0 or self.source.arrived - self.evaluated_at > self.reserve

    def _release_values(self, present: Array) -> None:
        """Mark clusters as unanswered if their value may have left the source: they need not keep it."""
        c = self.clusters
        assert c is not None
        values = c.value[c.ordered]
        at = np.minimum(np.searchsorted(present, values), len(present) - 1)
        c.ranks[c.ordered[present[at] != values], 2] = 0

    def _evaluate_all(self) -> bool:
        """Evaluate all clusters; return True if each has a value with a reserve."""
        c, s, n, reserve = self.clusters, self.source.summary(), self.source.n, self.source.reserve
        assert c is not None
        if not self.source.grows:
            self._release_values(s.carried)
        state = (c.span, c.value, c.ranks, s.carried, s.rmin - reserve, s.rmax + reserve, n, *self.precision, False)
        status, done, _, first = evaluate_pass(c.ordered, c.due, *state, 1.0)
        self._count_evaluations(done, int(self.evaluated_at >= 0))
        self._lifetime = first - n if status == ANSWERED and first < NEVER else None
        c.due[c.ordered], c.unevaluated[0] = self.source.arrived + reserve, 0
        self.evaluated_at, self.reserve = self.source.arrived, reserve
        return bool(status == ANSWERED)
