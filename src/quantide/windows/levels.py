"""Levels: arrivals older than the newest, as aligned blocks of every power-of-two size.

All blocks of one size and one spacing are rows of tables, so that sorting and thinning them are single operations.
A row holds a block's smallest value and then every `spacing`-th of its sorted values: places say all about ranks, as in
a Tower. Rows are thinned again whenever their age allows twice the spacing.
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


class Levels:
    """Blocks of the arrivals from `start` to `end`. Marks before `start` are not above those in `gone`."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.end = 0
        self.start = 0
        self.gone: list[Any] = []
        self.levels: list[Level] = []
        size = layout.smallest
        while size < layout.chunk:
            self.levels.append(self._level(size, 1, 0))
            size *= 2
        spacing = _largest_spacing(1, 0, layout.chain_room(0), layout.chunk)
        self.levels.append(self._level(layout.chunk, spacing, spacing - 1))

    def _level(self, size: int, spacing: int, loose: int) -> Level:
        finest = _largest_spacing(spacing, loose, self.layout.room * (self.layout.raw + size), size)
        return Level(size, spacing, loose, finest)

    @property
    def nbytes(self) -> int:
        held = sum(segment.nbytes for level in self.levels for segment in level.segments())
        halves = [level.waiting for level in self.levels if level.waiting]
        return held + sum(half.row.nbytes + sum(mark.nbytes for mark in half.marks) for half in halves)

    @property
    def values(self) -> int:
        """How many values are held."""
        halves = sum(len(level.waiting.row) for level in self.levels if level.waiting)
        return halves + sum(segment.rows.size for level in self.levels for segment in level.segments())

    def add(self, chunk: Array, marks: list[Array], now: int) -> None:
        """Take the next chunk of arrivals, which are sorted in place; `now` arrivals there are in all."""
        start, self.end = self.end, self.end + len(chunk)
        for level in self.levels:
            size = level.size
            rows = chunk.reshape(-1, size)
            rows.sort(axis=1)
            ends = [np.stack((mark[::size], mark[size - 1 :: size]), axis=1) for mark in marks]
            if size < len(chunk):
                level.add(Segment(start, _sampled(rows, level.finest), ends))
            else:
                step = level.spacing
                self._climb(Half(start, chunk[step - 1 :: step].copy(), chunk[0], ends))
                break
        for level in self.levels:
            level.settle(now, self.layout)
            level.drop(max(self.start, now - self.layout.outlived(level.size)))

    def _climb(self, half: Half) -> None:
        """Store a block, and join it with the half that waits for it, size by size."""
        at = next(i for i, level in enumerate(self.levels) if level.size == self.layout.chunk)
        while True:
            level = self.levels[at]
            level.add(Segment(half.start, _row(half, level.finest // level.spacing), half.marks))
            left, level.waiting = level.waiting, None
            if half.start % (2 * level.size) == 0:
                level.waiting = half
                return
            if left is None:  # forgotten: what it would be a half of reaches too far back
                return
            at += 1
            if at == len(self.levels):
                self.levels.append(self._above(level))
            merged = np.concatenate((left.row, half.row))
            merged.sort()
            q = self.levels[at].spacing // level.spacing
            marks = [np.stack((a[:, 0], b[:, 1]), axis=1) for a, b in zip(left.marks, half.marks, strict=True)]
            half = Half(left.start, merged[q - 1 :: q].copy(), min(left.low, half.low), marks)

    def _above(self, level: Level) -> Level:
        """The next level: two blocks are as loose as both, and thinned as far as their making allows."""
        size = 2 * level.size
        room = self.layout.chain_room((size // self.layout.chunk).bit_length() - 1)
        spacing = _largest_spacing(level.spacing, 2 * level.loose, room, size)
        return self._level(size, spacing, 2 * level.loose + spacing - level.spacing)

    def forget(self, start: int, marks: list[Any]) -> None:
        """Nothing before this boundary, where arrivals have these marks, will be asked for."""
        self.start, self.gone = start, marks
        for level in self.levels:
            if level.waiting and level.waiting.start < self.start:
                level.waiting = None

    def boundary(self, position: int, now: int) -> int:
        """The first boundary at or after a position from which on everything is held in usable blocks."""
        best = self.end
        for level in self.levels:
            best = min(best, max(-(-position // level.size) * level.size, self._oldest(level, now)))
        return best

    def floor(self, position: int, now: int) -> int:
        """Where the finest usable block starts that holds a position."""
        for level in self.levels:
            start = position // level.size * level.size
            if start >= self._oldest(level, now):
                return start
        return self.start

    def _oldest(self, level: Level, now: int) -> int:
        """Where the oldest block starts that is held and not outlived."""
        least = max(self.start, now - self.layout.outlived(level.size) - level.size + 1)
        return -(-least // level.size) * level.size

    def find(self, mark: int, threshold: Any, now: int) -> tuple[int, int]:
        """Between which positions the first arrival lies whose mark is above a threshold; (-1, _) if not known."""
        after = self.end
        for level in self.levels:
            oldest = self._oldest(level, now)
            for segment in level.segments():
                firsts = segment.marks[mark][:, 0]
                row = int(np.searchsorted(firsts, threshold, side="right")) - 1
                start = segment.start + row * level.size
                after = min(after, max(start + level.size, oldest))
                if row < 0:
                    continue
                if start < oldest:
                    break
                return (after if segment.marks[mark][row, 1] <= threshold else start + 1), after
        if self.start == 0:
            return 0, 0
        return (self.start if self.gone[mark] <= threshold else -1), after

    def first_mark(self, mark: int, position: int) -> Any:
        """The mark of the arrival at a boundary."""
        for level in self.levels:
            for segment in level.segments():
                row, beside = divmod(position - segment.start, level.size)
                if beside == 0 and 0 <= row < len(segment.rows):
                    return segment.marks[mark][row, 0]
        raise AssertionError(f"no block starts at {position}")

    def parts(self, start: int) -> list[Part]:
        """Blocks that make up everything from a boundary to the end: the largest that fits, each time."""
        parts: list[Part] = []
        while start < self.end:
            fitting = [level for level in self.levels if start % level.size == 0 and start + level.size <= self.end]
            parts.append(fitting[-1].part(start))
            start += fitting[-1].size
        return parts

    def write(self, frame: FrameWriter) -> None:
        frame.number(self.end)
        frame.number(self.start)
        for gone in self.gone:
            frame.array(np.array([gone]))
        frame.number(len(self.levels))
        for level in self.levels:
            frame.number(len(level.bands))
            for band in level.bands:
                frame.number(len(band))
                for segment in band:
                    frame.number(segment.start)
                    frame.number(len(segment.rows))
                    for table in (segment.rows, *segment.marks):
                        frame.array(table)
            frame.number(level.waiting is not None)
            if level.waiting:
                frame.number(level.waiting.start)
                for table in (np.array([level.waiting.low], level.waiting.row.dtype), level.waiting.row):
                    frame.array(table)
                for mark in level.waiting.marks:
                    frame.array(mark)

    def read(self, frame: FrameReader, marks: list[np.dtype[Any]]) -> None:
        """Take what write() left, refusing what no arrivals could have left."""
        self.end, self.start = frame.number(MAX_N), frame.number(MAX_N)
        frame.require(self.end % self.layout.chunk == 0)
        self.gone = [frame.array(mark, 1)[0] for mark in marks] if self.start else []
        at = len(self.levels) - 1
        for i in range(frame.number(64)):
            if i == len(self.levels):
                self.levels.append(self._above(self.levels[-1]))
            level = self.levels[i]
            level.bands = [deque() for _ in range(frame.number(64))]
            for band, segments in enumerate(level.bands):
                width = 1 + level.size // (level.finest << band)
                frame.require(level.finest << band <= level.size)
                for _ in range(frame.number(MAX_N)):
                    start, count = frame.number(MAX_N), frame.number(MAX_N)
                    rows = frame.values(count * width).reshape(count, width)
                    frame.require(start % level.size == 0 and start + count * level.size <= self.end)
                    frame.require(count > 0 and bool((rows[:, 1:] >= rows[:, :-1]).all()))
                    segments.append(Segment(start, rows, [frame.array(m, 2 * count).reshape(-1, 2) for m in marks]))
            _require_order(level, frame)
            if frame.number(1):
                start = frame.number(MAX_N)
                frame.require(i >= at and start % (2 * level.size) == 0)
                low, row = frame.values(1)[0], frame.sorted_values(level.size // level.spacing)
                frame.require(bool(low <= row[0]))
                level.waiting = Half(start, row, low, [frame.array(m, 2).reshape(1, 2) for m in marks])


def _require_order(level: Level, frame: FrameReader) -> None:
    """Segments are side by side, oldest in the last band, and their marks never decrease."""
    oldest_first = [segment for band in reversed(level.bands) for segment in band]
    for before, after in pairwise(oldest_first):
        frame.require(before.start + len(before.rows) * level.size == after.start)
    for mark in range(len(oldest_first[0].marks) if oldest_first else 0):
        flat = np.concatenate([segment.marks[mark].reshape(-1) for segment in oldest_first])
        frame.require(bool((flat[1:] >= flat[:-1]).all()))


def _largest_spacing(spacing: int, loose: int, room: float, size: int) -> int:
    """The largest power-of-two spacing that stays within the room; thinning adds what the spacing grows by."""
    wider = spacing
    while 2 * wider <= size and loose + 2 * wider - spacing <= room:
        wider *= 2
    return wider


def _sampled(rows: Array, spacing: int) -> Array:
    return np.concatenate((rows[:, :1], rows[:, spacing - 1 :: spacing]), axis=1)


def _row(half: Half, q: int) -> Array:
    return np.concatenate(([half.low], half.row[q - 1 :: q]))[None, :].astype(half.row.dtype, copy=False)


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
