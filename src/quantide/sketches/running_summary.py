"""Running summary: one compressed summary of all values so far, into which blocks and summaries are merged.

The gap between two neighbouring tuples, G - 1 in the terms of Summary, adds up when summaries are merged; the number
of values adds up as well. So if every part has gaps of at most some share of its values, so has the whole, and it can
be compressed until its gaps use up that share. No error accumulates, however many parts there are. The same is true of
the share of a tuple's distance from the ends, for tails. The proof is in docs/guarantees/stream.md.

Blocks are precise, so there is always room to compress after one. Other summaries have used up their share: merged,
they could not be compressed at all, and the number of tuples would double with every merge of equals. So the share of a
summary with such parts rises a little each time that the number of its values doubles.
"""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from quantide.kernels.error_profile import ROUNDING
from quantide.kernels.tuple_insertion import Limits, gap_limit, insert_parts, insert_rows
from quantide.summary.summary import Summary
from quantide.summary.value_types import ValueType
from quantide.typing import Array, Ints

# Gaps in units of eps * n: of a summary of blocks, and the limit of one that has other parts; how often n may double,
# from the smallest leaf of 2^12 values to 2^53.
BLOCKS, LIMIT, DOUBLINGS = 9 / 8, 11 / 8, 42


class RunningSummary:
    """Tuples of n values whose gaps are at most LIMIT * eps * n, unless the parts have larger ones.

    With a tail, gaps are also at most LIMIT * tail of the distance from either end. `leaf` is the number of values from
    which doublings are counted. Arrays are never changed in place, so copies share them.
    """

    def __init__(self, eps: float, tail: float | None, leaf: int) -> None:
        self._eps, self.tail, self._leaf = eps, tail, leaf
        self.n = 0
        self.has_summaries = False  # not of blocks alone
        self.tuples: tuple[Array, Ints, Ints] | None = None  # values, rmin, rmax

    def copy(self) -> Self:
        """Return a summary that can grow without changing this one."""
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    def __len__(self) -> int:
        return 0 if self.tuples is None else len(self.tuples[0])

    @property
    def nbytes(self) -> int:
        return 0 if self.tuples is None else sum(array.nbytes for array in self.tuples)

    def insert_rows(self, rows: Array, ranks: Ints, size: int) -> None:
        """Insert blocks of `size` values: each row has the values of a block with these ranks."""
        own = self._tuples_of(rows.dtype)
        self._store(insert_rows(*own, self.n, rows, ranks, size, self._limits()))
        self.n += size * len(rows)

    def insert_summaries(self, summaries: Sequence[Summary]) -> None:
        """Insert summaries, in this order."""
        parts = [summary for summary in summaries if summary.n]
        if parts:
            self.has_summaries = True
            values = np.concatenate([s.carried for s in parts])
            rmin, rmax = np.concatenate([s.rmin for s in parts]), np.concatenate([s.rmax for s in parts])
            bounds, counts = np.cumsum([0, *(len(s) for s in parts)]), np.array([s.n for s in parts])
            own = self._tuples_of(values.dtype)
            inserted = insert_parts(*own, self.n, values, rmin, rmax, bounds, counts, self._limits())
            self._store(inserted)
            self.n += int(counts.sum())

    def summary(self, kind: ValueType) -> Summary | None:
        """Return the tuples as a Summary; None if there are none."""
        return None if self.tuples is None else Summary(*self.tuples, self.n, kind)

    def restore(self, summary: Summary, has_summaries: bool) -> bool:
        """Continue from the tuples of another running summary; return False if no running summary can have them."""
        self.n, self.tuples, self.has_summaries = (
            summary.n,
            (summary.carried, summary.rmin, summary.rmax),
            has_summaries,
        )
        gap = summary.gap
        ends = max(int(summary.rmax[0]) - 1, self.n - int(summary.rmin[-1]))
        allowed = self._eps * self.n / ROUNDING  # of the parts, whose error of eps/2 was computed in floats
        largest = max(gap_limit(LIMIT, self._eps * ROUNDING, self.n), int(allowed))
        has_tail = self.tail is None or (summary.tail is not None and 2 * summary.tail * ROUNDING <= LIMIT * self.tail)
        return gap <= largest and 2 * ends <= allowed and has_tail

    def _limits(self) -> Limits:
        """Return what limits gaps; their share of eps and of the tail rises if there are summaries among the parts."""
        growth = (LIMIT - BLOCKS) / DOUBLINGS if self.has_summaries else 0.0
        tail = -1.0 if self.tail is None else self.tail * ROUNDING
        return self._eps * ROUNDING, tail, BLOCKS, growth, self._leaf

    def _tuples_of(self, carrier: np.dtype[Any]) -> tuple[Array, Ints, Ints]:
        return self.tuples or (np.empty(0, dtype=carrier), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))

    def _store(self, tuples: tuple[Array, Ints, Ints]) -> None:
        """Copy tuples: the arrays of a kernel have room for more."""
        values, rmin, rmax = tuples
        self.tuples = values.copy(), rmin.copy(), rmax.copy()
