"""Buckets: the last `size` elements in consecutive buckets of eps*size/2, each summarised; after RECENT's SW.

The newest bucket is open: its values as they are, or an eps/2 sketch of them when they are many, beside the blocks that
came summarised. A full one is thinned until G - 1 reaches 1.25 * eps times its elements; when asked, all full ones are
merged and thinned by another eps/4. The oldest leaves as soon as its first element does. So fewer than eps*size/2
elements of the window are not covered, and G + missing stays within 2 * eps * size, which is what an error of eps
needs: docs/guarantees/windows.md.

A bucket of values alone keeps its smallest and every `step`-th: all such buckets have the same ranks, which are held
once, and are merged by one sort, as the rows of a Tower.
"""

import math
from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantide.sketches.frame import FrameReader, FrameWriter
from quantide.sketches.stream import StreamSketch
from quantide.summary.column import Column
from quantide.summary.ranks import MAX_N
from quantide.summary.summary import Summary
from quantide.summary.types import ValueType
from quantide.windows.run import Run
from quantide.windows.sealed import LOOSE, loose_within, sealed

Array = NDArray[Any]

SETTLED = 1 / 4  # of eps * n: what merging all full buckets may cost
FEW = 1 << 12  # values that the open bucket may always keep; more, if all others keep as many
POOL = 64  # blocks from elsewhere that wait in the open bucket before they are merged


def bucket_of(size: int, eps: float) -> tuple[int, int]:
    """How many elements a bucket has, and the distance of the values that it keeps of its values.

    The distance divides the number, so that the largest value is always kept.
    """
    most = max(1, int(eps * size / 2))
    step = max(1, most // math.ceil(1 / (LOOSE * eps)))
    return most - most % step, step


class Buckets:
    """The last `size` elements."""

    def __init__(self, size: int, eps: float, kind: ValueType) -> None:
        self.size, self.eps, self.kind = size, eps, kind
        self.left = 0  # how large the bucket was that left last
        self._full, self._step = bucket_of(size, eps)
        self._ranks: NDArray[np.int64] | None = None  # made when a bucket has them: they may be very many
        self._as_they_are = self._step > 1 and self._full <= max(FEW, eps**-2)
        self._closed: deque[Summary] = deque()
        self._closed_n = 0
        self._settled: Summary | None = None  # all closed buckets; None when they changed
        self._open()

    def _open(self) -> None:
        self._run = Run(self.kind.carrier, self._full)
        self._sketch = StreamSketch(self.eps / 2, value_type=self.kind.name)
        self._blocks: list[Summary] = []

    @property
    def _open_n(self) -> int:
        return self._run.n + self._sketch.n + sum(block.n for block in self._blocks)

    @property
    def live(self) -> int:
        """How many elements are covered."""
        return self._closed_n + self._open_n

    @property
    def nbytes(self) -> int:
        held = [*self._closed, *self._blocks, *([self._settled] if self._settled else [])]
        arrays = {id(a): a.nbytes for s in held for a in (s.carried, s.rmin, s.rmax)}
        if self._ranks is not None:
            arrays[id(self._ranks)] = self._ranks.nbytes
        return sum(arrays.values()) + self._run.nbytes + self._sketch.nbytes

    @property
    def tuples(self) -> int:
        return sum(len(s) for s in (*self._closed, *self._blocks)) + self._run.n + self._sketch.held

    def append(self, values: Array) -> None:
        at = 0
        while at < len(values):
            taken = min(self._full - self._open_n, len(values) - at)
            piece = values[at : at + taken]
            if self._as_they_are:
                self._run.extend(piece)
            else:
                self._sketch.take_column(Column(self.kind, [piece]))
            at += taken
            if self._open_n >= self._full:
                self._close()
        self._leave()

    def add(self, summary: Summary) -> None:
        if self._open_n and self._open_n + summary.n > self._full:
            self._close()
        self._blocks.append(summary)
        if len(self._blocks) >= POOL:
            self._blocks = [sealed(Summary.merge(*self._blocks), self.eps)]
        if self._open_n >= self._full:
            self._close()
        self._leave()

    def _close(self) -> None:
        if self._run.n == self._full:
            ranks = self._common_ranks()
            values = np.sort(self._run.values)[ranks - 1]
            closed = Summary(values, ranks, ranks, self._full, self.kind)
        else:
            closed = self._shared(sealed(self._opened(), self.eps))
        self._closed.append(closed)
        self._closed_n += closed.n
        self._settled = None
        self._open()
        self._leave()

    def _opened(self) -> Summary:
        step = max(1, min(self._step, int(LOOSE * self.eps * self._run.n)))
        values = Summary.of_sorted(np.sort(self._run.values), self.kind, step)
        return Summary.merge(values, self._sketch.summary(), *self._blocks)

    def _leave(self) -> None:
        while self.live > self.size and self._closed:
            first = self._closed.popleft()
            self.left, self._closed_n, self._settled = first.n, self._closed_n - first.n, None

    def summary(self) -> Summary:
        if self._settled is None and self._closed:
            even = [s for s in self._closed if s.rmin is self._ranks]
            rows = [self._merged(even)] if len(even) > 1 else even
            merged = Summary.merge(*rows, *(s for s in self._closed if s.rmin is not self._ranks))
            self._settled = merged.compress(math.ceil(1 / (SETTLED * self.eps)))
        return Summary.merge(self._settled, self._opened()) if self._settled else self._opened()

    def _merged(self, even: list[Summary]) -> Summary:
        """Buckets of the same ranks as one summary: a value's place among all says what its rank is."""
        values = np.concatenate([s.carried[1:] for s in even])
        values.sort()
        n, slack = len(even) * self._full, len(even) * (self._step - 1) + 1 - self._step
        rmin = np.arange(1, len(values) + 1) * self._step
        low = np.array([min(s.carried[0] for s in even)], values.dtype)
        rmax = np.minimum(rmin + slack, n)
        values, rmin, rmax = (np.concatenate(pair) for pair in ((low, values), ([1], rmin), ([1], rmax)))
        return Summary(values, rmin, rmax, n, self.kind)

    def write(self, frame: FrameWriter) -> None:
        frame.number(self.left)
        frame.summaries([*self._closed])
        frame.summaries(self._blocks)
        frame.number(self._run.n)
        frame.array(self._run.values)
        frame.blob(self._sketch.to_bytes())

    def read(self, frame: FrameReader) -> None:
        """Take what write() left, refusing what no values could have left."""
        self.left = frame.number(MAX_N)
        self._closed = deque(self._shared(s) for s in frame.summaries())
        self._blocks = frame.summaries()
        if filled := frame.number(self._full - 1):
            self._run.extend(frame.values(filled))
        self._sketch = StreamSketch.from_bytes(frame.blob())
        self._closed_n = sum(s.n for s in self._closed)
        frame.require(self._sketch.eps == self.eps / 2 and self._sketch.type == self.kind)
        frame.require(all(loose_within(s, self.eps) for s in (*self._closed, *self._blocks)))
        frame.require(self.live <= self.size and self._open_n < self._full and len(self._blocks) < POOL)

    def _shared(self, summary: Summary) -> Summary:
        """The same bucket, its ranks held once for all that have the same."""
        if self._step < 2 or summary.n != self._full or len(summary) != self._full // self._step + 1:
            return summary
        ranks = self._common_ranks()
        if not all(np.array_equal(given, ranks) for given in (summary.rmin, summary.rmax)):
            return summary
        return Summary(summary.carried, ranks, ranks, summary.n, self.kind, summary.nulls, summary.nans)

    def _common_ranks(self) -> NDArray[np.int64]:
        """The ranks that full buckets of values keep."""
        if self._ranks is None:
            self._ranks = np.unique(np.append(np.arange(self._step, self._full + 1, self._step), 1))
        return self._ranks
