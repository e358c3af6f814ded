"""Levels: arrivals older than the newest, as aligned blocks of every power-of-two size, made of smaller ones."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantide.kernels.merge import merge_halves
from quantide.sketches.frame import FrameReader, FrameWriter
from quantide.summary.ranks import MAX_N
from quantide.windows.layout import Layout
from quantide.windows.level import Half, Level, Part, Segment

Array = NDArray[Any]

SORTED = 512  # up to this size sorting is faster than merging two halves


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
        """Take the next chunk of arrivals, which it may sort in place; `now` arrivals there are in all."""
        start, self.end = self.end, self.end + len(chunk)
        spare = np.empty_like(chunk)
        for level in self.levels:
            size = level.size
            if size <= max(SORTED, self.layout.smallest):
                chunk.reshape(-1, size).sort(axis=1)
            else:
                merge_halves(chunk, size, spare)
                chunk, spare = spare, chunk
            rows = chunk.reshape(-1, size)
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

    def skip(self, count: int) -> None:
        """Let arrivals pass that nobody will ask for, nor for any before them."""
        self.end += count
        for level in self.levels:
            level.drop(self.end)

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
            level.write(frame)

    def read(self, frame: FrameReader, marks: list[np.dtype[Any]]) -> None:
        """Take what write() left, refusing what no arrivals could have left."""
        self.end, self.start = frame.number(MAX_N), frame.number(MAX_N)
        frame.require(self.end % self.layout.chunk == 0)
        self.gone = [frame.finite(mark, 1)[0] for mark in marks] if self.start else []
        count = frame.number(64)
        frame.require(count >= len(self.levels))
        for i in range(count):
            if i == len(self.levels):
                self.levels.append(self._above(self.levels[-1]))
            self.levels[i].read(frame, self.end, marks)
            frame.require(self.levels[i].waiting is None or self.levels[i].size >= self.layout.chunk)

    def is_complete(self, now: int) -> bool:
        """Whether every block is there that a window may need: it is, unless someone else wrote the bytes."""
        return not self._joins(self.levels[-1]) and all(self._holds_all(level, now) for level in self.levels)

    def _joins(self, level: Level) -> bool:
        """Whether two blocks of a level have become one of the next."""
        return self._first(2 * level.size) + 2 * level.size <= self.end

    def _first(self, size: int) -> int:
        """Where the first block of a size starts of which nothing was forgotten."""
        return -(-self.start // size) * size

    def _holds_all(self, level: Level, now: int) -> bool:
        end, oldest = self.end // level.size * level.size, self._oldest(level, now)
        if level.size >= self.layout.chunk:
            half = end - level.size
            waits = half % (2 * level.size) == 0
            if not (waits and level.waiting.start == half if level.waiting else not waits or half < self.start):
                return False
        held = list(level.segments())
        if oldest >= end or not held:
            return oldest >= end
        return held[-1].start <= oldest and held[0].start + len(held[0].rows) * level.size == end


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
