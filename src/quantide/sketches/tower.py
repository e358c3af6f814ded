"""The tower: rows of sorted values, level above level, all merging done by plain sorts.

Because every row of a level keeps evenly spaced ranks, a value's place in its row says all about its rank and
no ranks are stored. Merging rows is sorting their values together; thinning is taking every q-th.
"""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from quantide.sketches.frame import FrameReader, FrameWriter
from quantide.sketches.schedule import FAN, Schedule
from quantide.summary.ranks import MAX_N
from quantide.summary.summary import Summary, merge_tuples
from quantide.summary.types import ValueType

Row = NDArray[Any]


class Tower:
    """The sorted blocks of a stream, thinned level by level. Rows are never changed once made."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.levels: list[list[Row]] = []
        self.low: Any = None  # the smallest and the largest value of all rows' blocks
        self.high: Any = None

    def copy(self) -> Self:
        """A tower that can grow without changing this one."""
        twin = type(self)(self.schedule)
        twin.levels = [list(rows) for rows in self.levels]
        twin.low, twin.high = self.low, self.high
        return twin

    @property
    def n(self) -> int:
        """How many values the rows stand for."""
        return sum(self._size(level) for level in range(len(self.levels)))

    @property
    def nbytes(self) -> int:
        return sum(row.nbytes for rows in self.levels for row in rows)

    def add_blocks(self, blocks: NDArray[Any]) -> None:
        """Take sorted blocks of schedule.leaf values each, one to a row."""
        step = self.schedule.spacing[0]
        for block in blocks:
            self.widen(block[0] + 0, block[-1] + 0)  # adding 0 turns -0.0 into 0.0
            self.add_row(_positive_zero(block[step - 1 :: step].copy()), 0)

    def widen(self, low: Any, high: Any) -> None:
        """Let the smallest and the largest value be known."""
        self.low = low if self.low is None or low < self.low else self.low
        self.high = high if self.high is None or high > self.high else self.high

    def add_row(self, row: Row, level: int) -> None:
        """Put a row on a level; FAN of them become one row of the next, like a carry when counting."""
        while True:
            while level >= len(self.levels):
                self.levels.append([])
            rows = self.levels[level]
            rows.append(row)
            if len(rows) < FAN or level + 1 == len(self.schedule.size):
                return
            merged = _sorted_together(rows[:FAN])
            q = self.schedule.thinning(level)
            row = merged[q - 1 :: q].copy()
            self.levels[level] = rows[FAN:]
            level += 1

    def add(self, other: "Tower") -> None:
        """Take all rows of a tower with the same schedule."""
        if other.levels:
            self.widen(other.low, other.high)
        for level, rows in enumerate(other.levels):
            for row in rows:
                self.add_row(row, level)

    def write(self, frame: FrameWriter) -> None:
        frame.number(len(self.levels))
        for rows in self.levels:
            frame.number(len(rows))
            for row in rows:
                frame.array(row)
        self._write_ends(frame)

    def read(self, frame: FrameReader) -> None:
        """Take the rows that write() left, refusing what no stream could have left."""
        top = len(self.schedule.size) - 1
        for level in range(frame.number(top + 1)):
            most = MAX_N // self.schedule.size[level] if level == top else FAN - 1
            length = self.schedule.length(level)
            self.levels.append([frame.sorted_values(length) for _ in range(frame.number(most))])
        self._read_ends(frame)

    def summary(self, kind: ValueType) -> Summary:
        """All rows as one Summary, its ends being the smallest and the largest value."""
        parts = [self._part(level) for level, rows in enumerate(self.levels) if rows]
        values, rmin, rmax = merge_tuples(parts)
        n = self.n
        inner = slice(int(np.searchsorted(rmin, 1, side="right")), int(np.searchsorted(rmin, n, side="left")))
        ends = np.array([self.low, self.high], dtype=values.dtype)
        return Summary(
            np.concatenate((ends[:1], values[inner], ends[1:])),
            np.concatenate(([1], rmin[inner], [n])),
            np.concatenate(([1], np.minimum(rmax[inner], n), [n])),
            n,
            kind,
        )

    def _write_ends(self, frame: FrameWriter) -> None:
        if self.levels:
            frame.array(np.array([self.low, self.high], dtype=self.levels[-1][0].dtype))

    def _read_ends(self, frame: FrameReader) -> None:
        if self.levels:
            self.low, self.high = frame.sorted_values(2)
            frame.require(bool(self.levels[-1]))
            frame.require(all(self.low <= row[0] and row[-1] <= self.high for rows in self.levels for row in rows))

    def _part(self, level: int) -> tuple[Row, NDArray[np.int64], NDArray[np.int64], int]:
        """The rows of a level merged: ranks follow from the places alone."""
        rows = self.levels[level]
        values = _sorted_together(rows)
        n = self._size(level)
        spacing = self.schedule.spacing[level]
        rmin = np.arange(1, len(values) + 1, dtype=np.int64) * spacing
        slack = len(rows) * self.schedule.loose[level] + 1 - spacing
        return values, rmin, np.minimum(rmin + slack, n), n

    def _size(self, level: int) -> int:
        """How many values the rows of a level stand for."""
        return len(self.levels[level]) * self.schedule.size[level]


def _sorted_together(rows: list[Row]) -> Row:
    merged = np.concatenate(rows)
    merged.sort()
    return merged


def _positive_zero(values: Row) -> Row:
    """-0.0 becomes 0.0: equal values must give equal bytes."""
    if values.dtype.kind == "f":
        values += 0.0
    return values
