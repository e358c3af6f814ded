"""One level: the aligned blocks of one size, thinned as they age.

All blocks of one spacing are rows of tables, so that thinning them is one operation. A row holds a block's smallest
value and then every `spacing`-th of its sorted values: places say all about ranks, as in a Tower.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantide.sketches.frame import FrameReader, FrameWriter
from quantide.summary.ranks import MAX_N
from quantide.windows.layout import Layout

Array = NDArray[Any]
Part = tuple[Array, NDArray[np.int64], NDArray[np.int64], int]  # values, rmin, rmax, n: as merge_tuples wants them

GROUP = 8  # rows are thinned when an eighth of those of their spacing are due


@dataclass(slots=True)
class Segment:
    """Consecutive blocks of one size, one to a row; `marks` has for each mark every block's first and last."""

    start: int
    rows: Array
    marks: list[Array]

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + sum(mark.nbytes for mark in self.marks)


@dataclass(slots=True)
class Half:
    """A block that waits for its other half, thinned only as far as its own making allows."""

    start: int
    row: Array  # every spacing-th value
    low: Any
    marks: list[Array]


@dataclass(slots=True)
class Level:
    """All blocks of one size. Those of band i have a spacing of `finest << i`."""

    size: int
    spacing: int  # as a block is made
    loose: int
    finest: int  # as it is stored at first
    bands: list[deque[Segment]] = field(default_factory=list)
    waiting: Half | None = None

    def age_for(self, spacing: int, layout: Layout) -> float:
        """How old a block must be to be held at this spacing: thinning adds what the spacing grows by."""
        return (self.loose + spacing - self.spacing) / layout.room

    def add(self, segment: Segment) -> None:
        if not self.bands:
            self.bands.append(deque())
        self.bands[0].append(segment)

    def settle(self, now: int, layout: Layout) -> None:
        """Thin what has become old enough."""
        for i, band in enumerate(self.bands):
            spacing = self.finest << i
            if 2 * spacing > self.size or not band:
                continue
            old_enough = now + self.size - self.age_for(2 * spacing, layout)
            due, rows, group = 0, 0, int(spacing / (layout.room * self.size * GROUP))
            for segment in band:
                if segment.start + len(segment.rows) * self.size > old_enough:
                    break
                due, rows = due + 1, rows + len(segment.rows)
            if due and rows >= group:
                if i + 1 == len(self.bands):
                    self.bands.append(deque())
                self.bands[i + 1].append(_thinned([band.popleft() for _ in range(due)]))

    def drop(self, before: int) -> None:
        """Forget segments that end at or before a position."""
        for band in reversed(self.bands):
            while band and band[0].start + len(band[0].rows) * self.size <= before:
                band.popleft()

    def segments(self) -> Iterator[Segment]:
        """Newest first."""
        for band in self.bands:
            yield from reversed(band)

    def part(self, position: int) -> Part:
        """The block that starts here."""
        for i, band in enumerate(self.bands):
            if band and band[0].start <= position:
                for segment in band:
                    row = (position - segment.start) // self.size
                    if 0 <= row < len(segment.rows):
                        rmin, rmax = _ranks(self.size, self.finest << i, self.loose - self.spacing)
                        values = segment.rows[row]
                        return values if len(values) == len(rmin) else values[1:], rmin, rmax, self.size
        raise AssertionError(f"no block of {self.size} at {position}")

    def write(self, frame: FrameWriter) -> None:
        frame.number(len(self.bands))
        for band in self.bands:
            frame.number(len(band))
            for segment in band:
                frame.number(segment.start)
                frame.number(len(segment.rows))
                for table in (segment.rows, *segment.marks):
                    frame.array(table)
        frame.number(self.waiting is not None)
        if self.waiting:
            frame.number(self.waiting.start)
            for table in (np.array([self.waiting.low], self.waiting.row.dtype), self.waiting.row, *self.waiting.marks):
                frame.array(table)

    def read(self, frame: FrameReader, end: int, marks: list[np.dtype[Any]]) -> None:
        """Take what write() left, refusing what no blocks before `end` could have left."""
        self.bands = [deque() for _ in range(frame.number(64))]
        for band, segments in enumerate(self.bands):
            frame.require(self.finest << band <= self.size)
            width = 1 + self.size // (self.finest << band)
            for _ in range(frame.number(MAX_N)):
                start, count = frame.number(MAX_N), frame.number(MAX_N)
                frame.require(count > 0 and start % self.size == 0 and start + count * self.size <= end)
                rows = frame.values(count * width).reshape(count, width)
                frame.require(bool((rows[:, 1:] >= rows[:, :-1]).all()))
                segments.append(Segment(start, rows, [frame.finite(m, 2 * count).reshape(-1, 2) for m in marks]))
        self._require_order(frame)
        if frame.number(1):
            start = frame.number(MAX_N)
            frame.require(start % (2 * self.size) == 0 and start + self.size <= end)
            low, row = frame.values(1)[0], frame.sorted_values(self.size // self.spacing)
            frame.require(bool(low <= row[0]))
            ends = [frame.finite(m, 2) for m in marks]
            frame.require(all(first <= last for first, last in ends))
            self.waiting = Half(start, row, low, [pair.reshape(1, 2) for pair in ends])

    def _require_order(self, frame: FrameReader) -> None:
        """Segments are side by side, oldest in the last band, and their marks never decrease."""
        oldest_first = [segment for band in reversed(self.bands) for segment in band]
        for before, after in pairwise(oldest_first):
            frame.require(before.start + len(before.rows) * self.size == after.start)
        for mark in range(len(oldest_first[0].marks) if oldest_first else 0):
            flat = np.concatenate([segment.marks[mark].reshape(-1) for segment in oldest_first])
            frame.require(bool((flat[1:] >= flat[:-1]).all()))


def _thinned(segments: list[Segment]) -> Segment:
    rows = [np.concatenate((s.rows[:, :1], s.rows[:, 2::2]), axis=1) for s in segments]
    marks = [np.concatenate(mark) for mark in zip(*(s.marks for s in segments), strict=True)]
    return Segment(segments[0].start, np.concatenate(rows), marks)


@lru_cache(maxsize=1024)
def _ranks(size: int, spacing: int, loose: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The ranks of a row's values; loose + spacing is how far the next value's rank may be from one's own, less one."""
    rmin = np.arange(spacing, size + 1, spacing)
    rmax = np.minimum(rmin + loose + 1, size)
    if spacing > 1:
        rmin, rmax = np.concatenate(([1], rmin)), np.concatenate(([1], rmax))
    rmin.flags.writeable = rmax.flags.writeable = False
    return rmin, rmax
