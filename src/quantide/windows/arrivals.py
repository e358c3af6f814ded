"""Arrivals: values in the order they came, the newest as they are, older ones in levels of blocks.

Every value stands at a position, 0 for the first. It may carry *marks*, numbers that never decrease from one arrival to
the next: its time, its number among other arrivals. A window is everything from some position on; where it starts may
be known by position, or by a threshold that its marks are above. Among the newest values that place is found exactly,
further back between two positions. Blocks are made at fixed positions, so the state does not depend on how arrivals
were cut into calls.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantide.sketches.frame import FrameReader, FrameWriter
from quantide.summary.summary import Summary
from quantide.summary.types import ValueType
from quantide.windows.layout import Layout
from quantide.windows.level import Part
from quantide.windows.levels import Levels

Array = NDArray[Any]
Start = tuple[int, int]  # a window starts at one of these positions or between them


class Arrivals:
    """Answers for every suffix of what has arrived.

    `needed` says, when blocks are made, from which position on anything can still be asked for. What is forgotten ends
    at a place that is outside every window there can be, and whose marks are known: they prove it.
    """

    def __init__(self, layout: Layout, kind: ValueType, marks: list[np.dtype[Any]], needed: Callable[[], int]) -> None:
        self.layout, self.kind, self.needed = layout, kind, needed
        self.levels = Levels(layout)
        self._filled = 0
        self._columns = [np.empty(0, dtype) for dtype in (kind.carrier, *marks)]  # values, then marks
        self._sorted: Array | None = None  # the newest values in order, for as long as none arrives

    @property
    def n(self) -> int:
        """How many have arrived."""
        return self.levels.end + self._filled

    @property
    def nbytes(self) -> int:
        kept = 0 if self._sorted is None else self._sorted.nbytes
        return sum(column.nbytes for column in self._columns) + self.levels.nbytes + kept

    @property
    def values(self) -> int:
        """How many values are held."""
        return self.levels.values + self._filled

    def newest(self, mark: int) -> Any:
        """The mark of the newest arrival."""
        return self._columns[1 + mark][self._filled - 1]

    def first_mark(self, mark: int, cut: int) -> Any:
        """The mark of the arrival at a cut."""
        if cut >= self.levels.end:
            return self._columns[1 + mark][cut - self.levels.end]
        return self.levels.first_mark(mark, cut)

    def append(self, *columns: Array) -> None:
        """Take values and their marks."""
        self._sorted = None
        at, count = 0, len(columns[0])
        while at < count:
            taken = min(count - at, self.layout.most_raw - self._filled)
            self._reserve(self._filled + taken)
            for held, column in zip(self._columns, columns, strict=True):
                held[self._filled : self._filled + taken] = column[at : at + taken]
            at += taken
            self._filled += taken
            if self._filled == self.layout.most_raw:
                self._make_blocks()

    def _reserve(self, size: int) -> None:
        if size > len(self._columns[0]):
            room = min(self.layout.most_raw, max(64, 1 << (size - 1).bit_length()))
            for i, column in enumerate(self._columns):
                larger = np.empty(room, column.dtype)
                larger[: self._filled] = column[: self._filled]
                self._columns[i] = larger

    def _make_blocks(self) -> None:
        """Let the oldest of the newest arrivals become blocks."""
        chunk = self.layout.chunk
        outside = self.needed() - 1
        start = outside if outside >= self.levels.end else self.levels.floor(outside, self.n)
        if start > self.levels.start:
            self.levels.forget(start, [self.first_mark(mark, start) for mark in range(len(self._columns) - 1)])
        values, *marks = (column[:chunk] for column in self._columns)
        if start >= self.levels.end + chunk:
            self.levels.skip(chunk)
        else:
            self.levels.add(values.copy(), marks, self.n)
        for column in self._columns:
            column[: self._filled - chunk] = column[chunk : self._filled].copy()
        self._filled -= chunk

    def after(self, mark: int, threshold: Any) -> Start:
        """Where the arrivals start whose mark is above the threshold; (-1, _) when that is no longer known."""
        marks = self._columns[1 + mark][: self._filled]
        first = int(np.searchsorted(marks, threshold, side="right"))
        if first or not self.levels.end:
            return self.levels.end + first, self.levels.end + first
        return self.levels.find(mark, threshold, self.n)

    def cut(self, start: int) -> int:
        """The first position at or after this one from which a summary can be had."""
        return start if start >= self.levels.end else self.levels.boundary(start, self.n)

    def parts(self, cut: int) -> list[Part]:
        """Tuples of everything from a cut on."""
        if cut >= self.levels.end:
            opened = np.sort(self._columns[0][cut - self.levels.end : self._filled])
            return [_sampled(opened, self.kind, 1)] if len(opened) else []
        if self._sorted is None:
            self._sorted = np.sort(self._columns[0][: self._filled])
        return [*self.levels.parts(cut), _sampled(self._sorted, self.kind, self.layout.raw_step(self.n - cut))]

    def write(self, frame: FrameWriter) -> None:
        frame.number(self._filled)
        for column in self._columns:
            frame.array(column[: self._filled])
        self.levels.write(frame)

    def read(self, frame: FrameReader) -> None:
        """Take what write() left, refusing what no arrivals could have left."""
        filled = frame.number(self.layout.most_raw - 1)
        marks = [column.dtype for column in self._columns[1:]]
        columns = [frame.values(filled) if filled else self._columns[0], *(frame.finite(m, filled) for m in marks)]
        self._reserve(filled)
        for held, column in zip(self._columns, columns, strict=True):
            held[:filled] = column
        self._filled = filled
        frame.require(all(bool((mark[1:] >= mark[:-1]).all()) for mark in columns[1:]))
        self.levels.read(frame, marks)
        frame.require(not self.levels.end or filled >= self.layout.raw)
        frame.require(self.levels.start <= self.n and self.levels.is_complete(self.n))


def _sampled(opened: Array, kind: ValueType, step: int) -> Part:
    summary = Summary.of_sorted(opened, kind, step)
    return summary.carried, summary.rmin, summary.rmax, summary.n
