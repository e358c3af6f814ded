"""Level stack: rows of sorted values, level above level, merged by plain sorts.

Every row of a level keeps evenly spaced ranks, so the index of a value in its row determines its rank bounds and no
ranks are stored. Merging rows means sorting their values together; thinning means taking every q-th value.
"""

from typing import Any, Self

import numpy as np

from quantide.sketches.byte_frame import FrameReader, FrameWriter
from quantide.sketches.level_schedule import FAN, LevelSchedule
from quantide.summary.ranks import MAX_N
from quantide.summary.summary import Summary, TupleArrays, merge_tuples
from quantide.summary.value_types import ValueType
from quantide.typing import Array


class LevelStack:
    """Sorted blocks of a stream, thinned level by level. Rows never change once made."""

    def __init__(self, schedule: LevelSchedule) -> None:
        self.schedule = schedule
        self.levels: list[list[Array]] = []
        self.low: Any = None  # minimum and maximum of all blocks
        self.high: Any = None

    def copy(self) -> Self:
        """Return a stack that can grow without changing this one; rows are shared."""
        twin = type(self)(self.schedule)
        twin.levels = [list(rows) for rows in self.levels]
        twin.low, twin.high = self.low, self.high
        return twin

    @property
    def n(self) -> int:
        """Number of values that the rows stand for."""
        return sum(self._size(level) for level in range(len(self.levels)))

    @property
    def nbytes(self) -> int:
        return sum(row.nbytes for rows in self.levels for row in rows)

    def add_blocks(self, blocks: Array) -> None:
        """Add sorted blocks of schedule.leaf values each, one a row."""
        step = self.schedule.spacing[0]
        for block in blocks:
            self.widen(block[0] + 0, block[-1] + 0)  # adding 0 turns -0.0 into 0.0
            self.promote(_positive_zero(block[step - 1 :: step].copy()), 0)

    def widen(self, low: Any, high: Any) -> None:
        """Update the running minimum and maximum."""
        self.low = low if self.low is None or low < self.low else self.low
        self.high = high if self.high is None or high > self.high else self.high

    def promote(self, row: Array, level: int) -> None:
        """Add a row to a level; FAN rows become one row of the next level, like a carry when counting."""
        while True:
            while level >= len(self.levels):
                self.levels.append([])
            rows = self.levels[level]
            rows.append(row)
            if len(rows) < FAN or level + 1 == len(self.schedule.size):
                return
            merged = _merge_rows(rows[:FAN])
            q = self.schedule.thinning(level)
            row = merged[q - 1 :: q].copy()
            self.levels[level] = rows[FAN:]
            level += 1

    def add_stack(self, other: "LevelStack") -> None:
        """Add all rows of a stack with the same schedule."""
        if other.levels:
            self.widen(other.low, other.high)
        for level, rows in enumerate(other.levels):
            for row in rows:
                self.promote(row, level)

    def write(self, frame: FrameWriter) -> None:
        frame.number(len(self.levels))
        for rows in self.levels:
            frame.number(len(rows))
            for row in rows:
                frame.array(row)
        self._write_extremes(frame)

    def read(self, frame: FrameReader) -> None:
        """Read rows as write() writes them; raise on a state that no stream can produce."""
        top = len(self.schedule.size) - 1
        for level in range(frame.number(top + 1)):
            limit = MAX_N // self.schedule.size[level] if level == top else FAN - 1
            length = self.schedule.row_length(level)
            self.levels.append([frame.sorted_values(length) for _ in range(frame.number(limit))])
        self._read_extremes(frame)

    def summary(self, kind: ValueType) -> Summary:
        """Return all rows as one Summary that begins with the minimum and ends with the maximum."""
        parts = [self._level_tuples(level) for level, rows in enumerate(self.levels) if rows]
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

    def _write_extremes(self, frame: FrameWriter) -> None:
        if self.levels:
            frame.array(np.array([self.low, self.high], dtype=self.levels[-1][0].dtype))

    def _read_extremes(self, frame: FrameReader) -> None:
        if self.levels:
            self.low, self.high = frame.sorted_values(2)
            frame.require(bool(self.levels[-1]))
            frame.require(all(self.low <= row[0] and row[-1] <= self.high for rows in self.levels for row in rows))

    def _level_tuples(self, level: int) -> TupleArrays:
        """Merge the rows of a level; ranks follow from the indexes alone."""
        rows = self.levels[level]
        values = _merge_rows(rows)
        n = self._size(level)
        spacing = self.schedule.spacing[level]
        rmin = np.arange(1, len(values) + 1, dtype=np.int64) * spacing
        slack = len(rows) * self.schedule.loose[level] + 1 - spacing
        return values, rmin, np.minimum(rmin + slack, n), n

    def _size(self, level: int) -> int:
        """Return how many values the rows of a level stand for."""
        return len(self.levels[level]) * self.schedule.size[level]


class UnevenLevelStack(LevelStack):
    """Level stack of sorted blocks of any size from a leaf on; stores the number of values behind each row.

    The proof of the level stack does not need blocks of one size: a sorted block of n values of which every S-th is
    kept is a row of type (S, S - 1) whatever n is, and the larger n, the smaller its share of the error.
    """

    def __init__(self, schedule: LevelSchedule) -> None:
        super().__init__(schedule)
        self.counts: list[list[int]] = []

    def copy(self) -> Self:
        twin = super().copy()
        twin.counts = [list(counts) for counts in self.counts]
        return twin

    def add_block(self, block: Array) -> None:
        """Add a sorted block of at least schedule.leaf values."""
        step = self.schedule.spacing[0]
        self.widen(block[0], block[-1])
        self._promote_count(len(block))
        self.promote(block[step - 1 :: step].copy(), 0)

    def add_stack(self, other: LevelStack) -> None:
        raise NotImplementedError("sketches of a monitor cannot be merged")

    def write(self, frame: FrameWriter) -> None:
        frame.number(len(self.levels))
        for rows, counts in zip(self.levels, self.counts, strict=True):
            frame.number(len(rows))
            for row, count in zip(rows, counts, strict=True):
                frame.number(count)
                frame.number(len(row))
                frame.array(row)
        self._write_extremes(frame)

    def read(self, frame: FrameReader) -> None:
        top = len(self.schedule.size) - 1
        for level in range(frame.number(top + 1)):
            rows: list[Array] = []
            counts: list[int] = []
            for _ in range(frame.number(MAX_N if level == top else FAN - 1)):
                counts.append(frame.number(MAX_N))
                rows.append(frame.sorted_values(frame.number(MAX_N)))
                covered = len(rows[-1]) * self.schedule.spacing[level]
                frame.require(covered <= counts[-1] <= covered + self.schedule.loose[level])
                frame.require(counts[-1] >= self.schedule.size[level])
            self.levels.append(rows)
            self.counts.append(counts)
        self._read_extremes(frame)

    def _promote_count(self, size: int) -> None:
        """Add the size of the next row, and sum the sizes of full levels as promote() merges their rows."""
        for counts in self.counts[: len(self.schedule.size) - 1]:
            counts.append(size)
            if len(counts) < FAN:
                return
            size = sum(counts)
            counts.clear()
        if len(self.counts) < len(self.schedule.size):
            self.counts.append([])
        self.counts[-1].append(size)

    def _size(self, level: int) -> int:
        return sum(self.counts[level])


def _merge_rows(rows: list[Array]) -> Array:
    merged = np.concatenate(rows)
    merged.sort()
    return merged


def _positive_zero(values: Array) -> Array:
    """Turn -0.0 into 0.0: equal values must give equal bytes."""
    if values.dtype.kind == "f":
        values += 0.0
    return values
