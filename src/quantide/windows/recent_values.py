"""Recent values: the newest in arrival order, older ones in levels of blocks.

Every value has a position, 0 for the first. It may carry *marks*, numbers that never decrease from one arrival to the
next: its time, its number among other arrivals. A window is everything from some position on; its start is given as a
position, or as a threshold that its marks exceed. Among the newest values the start is found exactly, further back
between two positions. Blocks are made at fixed positions, so the state does not depend on how calls divide arrivals.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from quantide.kernels.block_sort import sorted_copy
from quantide.sketches.byte_frame import FrameReader, FrameWriter
from quantide.summary.summary import Summary, TupleArrays
from quantide.summary.value_types import ValueType
from quantide.typing import Array
from quantide.windows.block_layout import BlockLayout
from quantide.windows.block_levels import BlockLevels
from quantide.windows.window_view import Start


class RecentValues:
    """Tuples for every suffix of the arrivals.

    `first_needed` returns, when blocks are made, the first position that a window may still contain. The forgotten
    arrivals end outside every possible window, at a position whose marks are stored as the proof.
    """

    def __init__(
        self, layout: BlockLayout, kind: ValueType, marks: list[np.dtype[Any]], first_needed: Callable[[], int]
    ) -> None:
        self.layout, self.kind, self.first_needed = layout, kind, first_needed
        self.levels = BlockLevels(layout)
        self._filled = 0
        self._columns = [np.empty(0, dtype) for dtype in (kind.carrier, *marks)]  # values, then marks
        self._sorted: Array | None = None  # cached: the newest values in order

    @property
    def n(self) -> int:
        """Number of arrivals."""
        return self.levels.end + self._filled

    @property
    def nbytes(self) -> int:
        cached = 0 if self._sorted is None else self._sorted.nbytes
        return sum(column.nbytes for column in self._columns) + self.levels.nbytes + cached

    @property
    def stored_values(self) -> int:
        """Number of values in memory."""
        return self.levels.stored_values + self._filled

    def newest(self, mark: int) -> Any:
        """Return the mark of the newest arrival."""
        return self._columns[1 + mark][self._filled - 1]

    def first_mark(self, mark: int, cut: int) -> Any:
        """Return the mark of the arrival at a cut."""
        if cut >= self.levels.end:
            return self._columns[1 + mark][cut - self.levels.end]
        return self.levels.first_mark(mark, cut)

    def append(self, *columns: Array) -> None:
        """Append values and their marks."""
        self._sorted = None
        offset, count = 0, len(columns[0])
        while offset < count:
            size = min(count - offset, self.layout.max_raw - self._filled)
            self._reserve(self._filled + size)
            for target, column in zip(self._columns, columns, strict=True):
                target[self._filled : self._filled + size] = column[offset : offset + size]
            offset += size
            self._filled += size
            if self._filled == self.layout.max_raw:
                self._make_blocks()

    def _reserve(self, size: int) -> None:
        if size > len(self._columns[0]):
            capacity = min(self.layout.max_raw, max(64, 1 << (size - 1).bit_length()))
            for i, column in enumerate(self._columns):
                larger = np.empty(capacity, column.dtype)
                larger[: self._filled] = column[: self._filled]
                self._columns[i] = larger

    def _make_blocks(self) -> None:
        """Turn the oldest chunk of the newest values into blocks."""
        chunk = self.layout.chunk
        outside = self.first_needed() - 1
        start = outside if outside >= self.levels.end else self.levels.block_start(outside, self.n)
        if start > self.levels.start:
            self.levels.forget(start, [self.first_mark(mark, start) for mark in range(len(self._columns) - 1)])
        values, *marks = (column[:chunk] for column in self._columns)
        if start >= self.levels.end + chunk:
            self.levels.skip(chunk)
        else:
            self.levels.add(values, marks, self.n)
        for column in self._columns:
            column[: self._filled - chunk] = column[chunk : self._filled]
        self._filled -= chunk

    def start_after(self, mark: int, threshold: Any) -> Start:
        """Return bounds on the first position whose mark exceeds the threshold; (-1, _) if it is forgotten."""
        marks = self._columns[1 + mark][: self._filled]
        first = int(np.searchsorted(marks, threshold, side="right"))
        if first or not self.levels.end:
            return self.levels.end + first, self.levels.end + first
        return self.levels.start_after(mark, threshold, self.n)

    def cut(self, start: int) -> int:
        """Return the first position at or after this one from which tuples are available."""
        return start if start >= self.levels.end else self.levels.next_boundary(start, self.n)

    def tuples_from(self, cut: int) -> list[TupleArrays]:
        """Return the tuples of everything from a cut on."""
        if cut >= self.levels.end:
            newest = sorted_copy(self._columns[0][cut - self.levels.end : self._filled])
            return [_sample(newest, self.kind, 1)] if len(newest) else []
        if self._sorted is None:
            self._sorted = sorted_copy(self._columns[0][: self._filled])
        return [*self.levels.tuples_from(cut), _sample(self._sorted, self.kind, self.layout.raw_step(self.n - cut))]

    def position_of(self, value: Any, cut: int) -> int:
        """Return a position at or after which a covered value, as carried, occurs: the newest that is known."""
        found = np.flatnonzero(self._columns[0][: self._filled] == value)
        if len(found):
            return self.levels.end + int(found[-1])
        block = self.levels.last_block_with(value, cut)
        return cut if block is None else block

    def write(self, frame: FrameWriter) -> None:
        frame.number(self._filled)
        for column in self._columns:
            frame.array(column[: self._filled])
        self.levels.write(frame)

    def read(self, frame: FrameReader) -> None:
        """Read values as write() writes them; raise on a state that no arrivals can produce."""
        filled = frame.number(self.layout.max_raw - 1)
        marks = [column.dtype for column in self._columns[1:]]
        columns = [frame.values(filled) if filled else self._columns[0], *(frame.finite(m, filled) for m in marks)]
        self._reserve(filled)
        for target, column in zip(self._columns, columns, strict=True):
            target[:filled] = column
        self._filled = filled
        frame.require(all(bool((mark[1:] >= mark[:-1]).all()) for mark in columns[1:]))
        self.levels.read(frame, marks)
        frame.require(not self.levels.end or filled >= self.layout.raw)
        frame.require(self.levels.start <= self.n and self.levels.is_complete(self.n))


def _sample(values: Array, kind: ValueType, step: int) -> TupleArrays:
    summary = Summary.of_sorted(values, kind, step)
    return summary.carried, summary.rmin, summary.rmax, summary.n
