"""Block levels: arrivals older than the newest, as aligned blocks of every power-of-two size."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from quantide.kernels.block_samples import sample_blocks, sorted_positions
from quantide.kernels.block_sort import as_bits, layout_of
from quantide.kernels.run_merge import merge_pair
from quantide.sketches.byte_frame import FrameReader, FrameWriter
from quantide.summary.ranks import MAX_N
from quantide.summary.summary import TupleArrays
from quantide.typing import Array
from quantide.windows.block_layout import BlockLayout, BlockLevel, BlockSegment, HalfBlock


class BlockLevels:
    """Blocks of the arrivals from `start` to `end`. `forgotten_marks` are upper bounds on the marks before `start`."""

    def __init__(self, layout: BlockLayout) -> None:
        self.layout = layout
        self.end = 0
        self.start = 0
        self.forgotten_marks: list[Any] = []
        self.levels: list[BlockLevel] = []
        size = layout.smallest
        while size < layout.chunk:
            self.levels.append(self._new_level(size, 1, 0))
            size *= 2
        spacing = _largest_spacing(1, 0, layout.merge_budget(0), layout.chunk)
        self.levels.append(self._new_level(layout.chunk, spacing, spacing - 1))

    def _new_level(self, size: int, spacing: int, loose: int) -> BlockLevel:
        finest = _largest_spacing(spacing, loose, self.layout.budget * (self.layout.raw + size), size)
        return BlockLevel(size, spacing, loose, finest)

    @property
    def nbytes(self) -> int:
        segments = sum(segment.nbytes for level in self.levels for segment in level.segments())
        halves = [level.pending for level in self.levels if level.pending]
        return segments + sum(half.row.nbytes + sum(mark.nbytes for mark in half.marks) for half in halves)

    @property
    def stored_values(self) -> int:
        """Number of values in memory."""
        halves = sum(len(level.pending.row) for level in self.levels if level.pending)
        return halves + sum(segment.rows.size for level in self.levels for segment in level.segments())

    def add(self, chunk: Array, marks: list[Array], now: int) -> None:
        """Add the next chunk of arrivals; `now` is the number of arrivals in all."""
        start, self.end = self.end, self.end + len(chunk)
        positions = sorted_positions(as_bits(chunk), layout_of(chunk.dtype.name))
        for level in self.levels:
            size = level.size
            ends = [np.stack((mark[::size], mark[size - 1 :: size]), axis=1) for mark in marks]
            if size < len(chunk):
                level.add(BlockSegment(start, sample_blocks(chunk, positions, size, level.finest), ends))
            else:
                step = level.spacing
                self._promote(HalfBlock(start, chunk[positions[step - 1 :: step]], chunk[positions[0]], ends))
                break
        for level in self.levels:
            level.thin(now, self.layout)
            level.drop(max(self.start, now - self.layout.expiry_age(level.size)))

    def skip(self, count: int) -> None:
        """Advance past arrivals that no window needs any more, and drop everything before them."""
        self.end += count
        for level in self.levels:
            level.drop(self.end)

    def _promote(self, half: HalfBlock) -> None:
        """Store a block, and merge it with its pending first half, size by size."""
        index = next(i for i, level in enumerate(self.levels) if level.size == self.layout.chunk)
        while True:
            level = self.levels[index]
            level.add(BlockSegment(half.start, _half_row(half, level.finest // level.spacing), half.marks))
            left, level.pending = level.pending, None
            if half.start % (2 * level.size) == 0:
                level.pending = half
                return
            if left is None:  # forgotten: the merged block would reach too far back
                return
            index += 1
            if index == len(self.levels):
                self.levels.append(self._next_level(level))
            both = np.concatenate((left.row, half.row))
            merged = np.empty_like(both)
            merge_pair(both, 0, len(left.row), len(both), merged)
            q = self.levels[index].spacing // level.spacing
            marks = [np.stack((a[:, 0], b[:, 1]), axis=1) for a, b in zip(left.marks, half.marks, strict=True)]
            half = HalfBlock(left.start, merged[q - 1 :: q].copy(), min(left.low, half.low), marks)

    def _next_level(self, level: BlockLevel) -> BlockLevel:
        """Return the level of twice the size: looseness adds up, and the merge budget limits the spacing."""
        size = 2 * level.size
        budget = self.layout.merge_budget((size // self.layout.chunk).bit_length() - 1)
        spacing = _largest_spacing(level.spacing, 2 * level.loose, budget, size)
        return self._new_level(size, spacing, 2 * level.loose + spacing - level.spacing)

    def forget(self, start: int, marks: list[Any]) -> None:
        """Forget everything before this boundary, where arrivals have these marks."""
        self.start, self.forgotten_marks = start, marks
        for level in self.levels:
            if level.pending and level.pending.start < self.start:
                level.pending = None

    def next_boundary(self, position: int, now: int) -> int:
        """Return the first boundary at or after a position from which usable blocks cover everything."""
        best = self.end
        for level in self.levels:
            best = min(best, max(-(-position // level.size) * level.size, self._oldest(level, now)))
        return best

    def block_start(self, position: int, now: int) -> int:
        """Return the start of the finest usable block that contains a position."""
        for level in self.levels:
            start = position // level.size * level.size
            if start >= self._oldest(level, now):
                return start
        return self.start

    def _oldest(self, level: BlockLevel, now: int) -> int:
        """Return the start of the oldest block that has neither been dropped nor expired."""
        least = max(self.start, now - self.layout.expiry_age(level.size) - level.size + 1)
        return -(-least // level.size) * level.size

    def start_after(self, mark: int, threshold: Any, now: int) -> tuple[int, int]:
        """Return bounds on the first position whose mark exceeds the threshold; (-1, _) if it is forgotten."""
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
        return (self.start if self.forgotten_marks[mark] <= threshold else -1), after

    def first_mark(self, mark: int, position: int) -> Any:
        """Return the mark of the arrival at a boundary."""
        for level in self.levels:
            for segment in level.segments():
                row, remainder = divmod(position - segment.start, level.size)
                if remainder == 0 and 0 <= row < len(segment.rows):
                    return segment.marks[mark][row, 0]
        raise AssertionError(f"no block starts at {position}")

    def tuples_from(self, start: int) -> list[TupleArrays]:
        """Return the tuples of blocks that cover everything from a boundary to the end, largest blocks first."""
        return [tuples for _, tuples in self._blocks_from(start)]

    def last_block_with(self, value: Any, start: int) -> int | None:
        """Return the start of the newest of those blocks that has a value, as carried, among its tuples."""
        for first, (values, *_) in reversed(list(self._blocks_from(start))):
            index = int(np.searchsorted(values, value))
            if index < len(values) and values[index] == value:
                return first
        return None

    def _blocks_from(self, start: int) -> Iterator[tuple[int, TupleArrays]]:
        """Yield the start and the tuples of blocks that cover everything from a boundary to the end."""
        while start < self.end:
            fitting = [level for level in self.levels if start % level.size == 0 and start + level.size <= self.end]
            yield start, fitting[-1].block_tuples(start)
            start += fitting[-1].size

    def write(self, frame: FrameWriter) -> None:
        frame.number(self.end)
        frame.number(self.start)
        for mark in self.forgotten_marks:
            frame.array(np.array([mark]))
        frame.number(len(self.levels))
        for level in self.levels:
            level.write(frame)

    def read(self, frame: FrameReader, marks: list[np.dtype[Any]]) -> None:
        """Read levels as write() writes them; raise on a state that no arrivals can produce."""
        self.end, self.start = frame.number(MAX_N), frame.number(MAX_N)
        frame.require(self.end % self.layout.chunk == 0)
        self.forgotten_marks = [frame.finite(mark, 1)[0] for mark in marks] if self.start else []
        count = frame.number(64)
        frame.require(count >= len(self.levels))
        for i in range(count):
            if i == len(self.levels):
                self.levels.append(self._next_level(self.levels[-1]))
            self.levels[i].read(frame, self.end, marks)
            frame.require(self.levels[i].pending is None or self.levels[i].size >= self.layout.chunk)

    def is_complete(self, now: int) -> bool:
        """Return True if every block is there that a window may need; false only for forged bytes."""
        return not self._lacks_next(self.levels[-1]) and all(self._is_level_complete(x, now) for x in self.levels)

    def _lacks_next(self, level: BlockLevel) -> bool:
        """Return True if two blocks of a level should have become one of the next."""
        return self._first_start(2 * level.size) + 2 * level.size <= self.end

    def _first_start(self, size: int) -> int:
        """Return the start of the first block of a size that is not even partly forgotten."""
        return -(-self.start // size) * size

    def _is_level_complete(self, level: BlockLevel, now: int) -> bool:
        end, oldest = self.end // level.size * level.size, self._oldest(level, now)
        if level.size >= self.layout.chunk:
            half = end - level.size
            pends = half % (2 * level.size) == 0
            if not (pends and level.pending.start == half if level.pending else not pends or half < self.start):
                return False
        segments = list(level.segments())
        if oldest >= end or not segments:
            return oldest >= end
        return segments[-1].start <= oldest and segments[0].start + len(segments[0].rows) * level.size == end


def _largest_spacing(spacing: int, loose: int, budget: float, size: int) -> int:
    """Return the largest power-of-two spacing within the budget; thinning adds the growth of the spacing."""
    wider = spacing
    while 2 * wider <= size and loose + 2 * wider - spacing <= budget:
        wider *= 2
    return wider


def _half_row(half: HalfBlock, q: int) -> Array:
    return np.concatenate(([half.low], half.row[q - 1 :: q]))[None, :].astype(half.row.dtype, copy=False)
