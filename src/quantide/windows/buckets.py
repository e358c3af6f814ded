"""Buckets: the last `size` elements in consecutive buckets of eps*size/2, each summarised; after RECENT's SW.

The newest bucket is open, an eps/2 sketch of its values beside the blocks that came summarised. A full one is
compressed until G - 1 reaches 1.5 * eps times its elements. The oldest leaves as soon as its first element does. So
fewer than eps*size/2 elements of the window are not covered, and G + missing stays within 2 * eps * size, which is what
an error of eps needs: docs/guarantees/windows.md.
"""

import math
from collections import deque
from typing import Any

from numpy.typing import NDArray

from quantide.sketches.frame import FrameReader, FrameWriter
from quantide.sketches.stream import StreamSketch
from quantide.summary.column import Column
from quantide.summary.ranks import MAX_N
from quantide.summary.summary import Summary
from quantide.summary.types import ValueType

Array = NDArray[Any]

POOL = 64  # blocks from elsewhere that wait in the open bucket before they are merged


def sealed(summary: Summary, eps: float) -> Summary:
    """With as few tuples as G - 1 <= 1.5 * eps * n allows."""
    room = 1.5 * eps * summary.n - (summary.gap - 1)
    return summary.compress(math.ceil(summary.n / room)) if room >= 1 else summary


def loose_within(summary: Summary, eps: float) -> bool:
    """Whether a summary is one that sealed() gives."""
    ends = max(int(summary.rmax[0]) - 1, summary.n - int(summary.rmin[-1]))
    return summary.gap - 1 <= 1.5 * eps * summary.n and ends <= eps / 2 * summary.n


class Buckets:
    """The last `size` elements."""

    def __init__(self, size: int, eps: float, kind: ValueType) -> None:
        self.size, self.eps, self.kind = size, eps, kind
        self.left = 0  # how large the bucket was that left last
        self._full = bucket_size(size, eps)
        self._closed: deque[Summary] = deque()
        self._settled: Summary | None = None  # all closed buckets; None when they changed
        self._closed_n = 0
        self._open()

    def _open(self) -> None:
        self._values = StreamSketch(self.eps / 2, value_type=self.kind.name)
        self._blocks: list[Summary] = []
        self._blocks_n = 0

    @property
    def _open_n(self) -> int:
        return self._values.n + self._blocks_n

    @property
    def live(self) -> int:
        """How many elements are covered."""
        return self._closed_n + self._open_n

    @property
    def nbytes(self) -> int:
        settled = self._settled.nbytes if self._settled else 0
        return sum(s.nbytes for s in (*self._closed, *self._blocks)) + self._values.nbytes + settled

    @property
    def tuples(self) -> int:
        return sum(len(s) for s in (*self._closed, *self._blocks)) + self._values.tuples

    def append(self, values: Array) -> None:
        at = 0
        while at < len(values):
            taken = min(self._full - self._open_n, len(values) - at)
            self._values.take_column(Column(self.kind, [values[at : at + taken]]))
            at += taken
            if self._open_n >= self._full:
                self._close()
        self._leave()

    def add(self, summary: Summary) -> None:
        if self._open_n and self._open_n + summary.n > self._full:
            self._close()
        self._blocks.append(summary)
        self._blocks_n += summary.n
        if len(self._blocks) >= POOL:
            self._blocks = [sealed(Summary.merge(*self._blocks), self.eps)]
        if self._open_n >= self._full:
            self._close()
        self._leave()

    def _close(self) -> None:
        closed = sealed(self._opened(), self.eps)
        self._closed.append(closed)
        self._closed_n += closed.n
        self._settled = None
        self._open()
        self._leave()

    def _opened(self) -> Summary:
        return Summary.merge(self._values.summary(), *self._blocks)

    def _leave(self) -> None:
        while self.live > self.size and self._closed:
            first = self._closed.popleft()
            self.left, self._closed_n, self._settled = first.n, self._closed_n - first.n, None

    def summary(self) -> Summary:
        if self._settled is None and self._closed:
            self._settled = Summary.merge(*self._closed)
        return Summary.merge(self._settled, self._opened()) if self._settled else self._opened()

    def write(self, frame: FrameWriter) -> None:
        frame.number(self.left)
        frame.summaries([*self._closed])
        frame.summaries(self._blocks)
        frame.blob(self._values.to_bytes())

    def read(self, frame: FrameReader) -> None:
        """Take what write() left, refusing what no values could have left."""
        self.left = frame.number(MAX_N)
        self._closed, self._blocks = deque(frame.summaries()), frame.summaries()
        self._values = StreamSketch.from_bytes(frame.blob())
        self._closed_n, self._blocks_n = (sum(s.n for s in held) for held in (self._closed, self._blocks))
        frame.require(self._values.eps == self.eps / 2 and self._values.type == self.kind)
        frame.require(all(loose_within(s, self.eps) for s in (*self._closed, *self._blocks)))
        frame.require(self.live <= self.size and self._open_n < self._full)


def bucket_size(size: int, eps: float) -> int:
    return max(1, int(eps * size / 2))
