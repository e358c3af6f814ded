"""Tail: the last values themselves, in the order they came, with blocks that were summarised elsewhere among them."""

from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantide.sketches.frame import FrameReader, FrameWriter
from quantide.summary.ranks import MAX_N
from quantide.summary.summary import Summary
from quantide.summary.types import ValueType
from quantide.windows.run import RUN, Run
from quantide.windows.sealed import loose_within, sealed

Array = NDArray[Any]


class Tail:
    """The last `size` elements. A value leaves by itself; a block leaves as soon as its first element does."""

    def __init__(self, size: int, eps: float, kind: ValueType) -> None:
        self.size, self.eps, self.kind = size, eps, kind
        self.live = 0
        self.left = 0  # how large the block was that left last
        self._items: deque[Run | Summary] = deque()
        self._run = min(RUN, max(1024, size))  # values that are held as one array
        self._joins = max(1, int(eps * size / 2))  # blocks are joined up to this size

    @property
    def nbytes(self) -> int:
        return sum(item.array.nbytes if isinstance(item, Run) else item.nbytes for item in self._items)

    @property
    def tuples(self) -> int:
        return sum(item.n if isinstance(item, Run) else len(item) for item in self._items)

    def append(self, values: Array) -> None:
        """Take values, in runs that end at fixed places: how values were cut into calls does not matter."""
        at = 0
        while at < len(values):
            last = self._items[-1] if self._items else None
            if not isinstance(last, Run) or last.end == self._run:
                last = Run(self.kind.carrier, self._run)
                self._items.append(last)
            taken = min(self._run - last.end, len(values) - at)
            last.extend(values[at : at + taken])
            at += taken
            self.live += taken
            self._leave()

    def add(self, summary: Summary) -> None:
        last = self._items[-1] if self._items else None
        if isinstance(last, Summary) and last.n + summary.n <= self._joins:
            self._items[-1] = sealed(Summary.merge(last, summary), self.eps)
        else:
            self._items.append(sealed(summary, self.eps))
        self.live += summary.n
        self._leave()

    def _leave(self) -> None:
        while self.live > self.size:
            first, excess = self._items[0], self.live - self.size
            if isinstance(first, Run) and first.n > excess:
                first.first += excess
                self.live -= excess
                return
            self.left = 0 if isinstance(first, Run) else first.n
            self.live -= first.n
            self._items.popleft()

    def summary(self) -> Summary:
        runs = [item.values for item in self._items if isinstance(item, Run)]
        values = np.concatenate(runs) if runs else np.empty(0, self.kind.carrier)
        values.sort()
        blocks = [item for item in self._items if isinstance(item, Summary)]
        return Summary.merge(Summary.of_sorted(values, self.kind), *blocks)

    def write(self, frame: FrameWriter) -> None:
        frame.number(self.left)
        frame.number(len(self._items))
        for item in self._items:
            frame.number(isinstance(item, Run))
            if isinstance(item, Run):
                frame.number(item.first)
                frame.number(item.end)
                frame.array(item.values)
            else:
                frame.summaries([item])

    def read(self, frame: FrameReader) -> None:
        """Take what write() left, refusing what no values could have left."""
        self.left = frame.number(MAX_N)
        for _ in range(frame.number(self.size)):
            if frame.number(1):
                run, first, end = Run(self.kind.carrier, self._run), frame.number(self._run), frame.number(self._run)
                frame.require(first < end and (not first or not self._items))  # values leave the first run alone
                before = self._items[-1] if self._items else None
                frame.require(not isinstance(before, Run) or before.end == self._run)
                run.extend(np.zeros(first, self.kind.carrier))
                run.extend(frame.values(end - first))
                run.first = first
                self._items.append(run)
            else:
                summaries = frame.summaries()
                frame.require(len(summaries) == 1 and loose_within(summaries[0], self.eps))
                self._items.append(summaries[0])
        self.live = sum(item.n for item in self._items)
        frame.require(self.live <= self.size)
