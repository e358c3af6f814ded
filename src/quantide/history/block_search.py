"""Search for the element of a rank among sorted segments in files, reading at most one block of each segment.

Elements of all segments have one order: by value, then by segment, then by position. The index in memory has the first
value of every block, its *fence*, and the number of rows its own segment has before it. In any other segment the fence
falls into one block, which bounds the number of rows before it from both sides. Hence every fence has a lowest and a
highest position.

A fence whose highest position is below the rank is *before* it, one whose lowest position is at least the rank is
*after* it, any other is ambiguous. A segment's candidates are its last block before the rank and its ambiguous ones;
one of them contains the end of the rows that the segment has before the rank. Only segments with a single candidate
are read, and reading makes positions exact. There is always such a segment: suppose there were an ambiguous fence in
every unread segment, and take the first and the last ambiguous fence of all. Between them every unread segment has at
most the rows that the bounds of one of its blocks leave open, so the lowest position of the last is not below the
highest position of the first; but the one is below the rank and the other is not. So each segment is read once, and
one block is enough.

Blocks that a wave of reads needs are read together, and a search takes several waves. Where a wave takes long, as in an
object store, the first one reads ahead: the block of every segment in which the rank lies by interpolation. The guess
is right for most segments, and then no other block is read. A segment for which it is wrong is read once more, like a
segment that was not read ahead; one that has the block it was read for among its candidates waits for the others.

`open_step` stands for more elements, whose number below a value is only estimated: by the middle of its bounds, or by
one of them. The estimate never falls as the value rises, so adding it to positions preserves the argument.
docs/guarantees/history.md has the whole proof.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from quantide.errors import CorruptBytesError
from quantide.history.run import RunSegment
from quantide.summary.summary import Summary
from quantide.typing import Ints

Read = Callable[[Sequence[tuple[RunSegment, int]]], Sequence[NDArray[Any]]]  # (segment, block) of one wave
Estimate = Literal["lowest", "middle", "highest"]


@dataclass(frozen=True)
class RankCut:
    """Cut of the segments at a rank: `before` rows of each lie before it, `below` and `above` are the values there.

    `below` is None if nothing lies before the rank, `above` if nothing lies after. Blocks were read in `waves`.
    """

    before: Ints
    below: Any
    above: Any
    blocks_read: int
    waves: int


class Fences:
    """Fences of all segments in order, with the lowest and highest number of elements before each."""

    def __init__(self, segments: Sequence[RunSegment]) -> None:
        self.segments = list(segments)
        sizes = [len(segment.fences) for segment in self.segments]
        value = np.concatenate([segment.fences for segment in self.segments])
        run = np.repeat(np.arange(len(sizes)), sizes)
        order = np.lexsort((run, value))
        self.value, self.run = value[order], run[order]
        self.block = np.concatenate([np.arange(size) for size in sizes])[order]
        start = np.concatenate([segment.starts[:-1] for segment in self.segments])[order]
        rows = np.concatenate([np.diff(segment.starts) for segment in self.segments])[order]
        previous = np.concatenate([np.append(0, segment.starts[:-2] + 1) for segment in self.segments])[order]
        # At a fence, its segment's share of the lowest position grows to one more than the rows before the fence.
        lowest = np.cumsum(start + 1 - previous) - (start + 1 - previous)
        self.low = lowest - previous + start
        self.high = np.cumsum(rows) - rows
        self.n = int(rows.sum())
        self._estimated: tuple[Summary | None, dict[Estimate, Ints]] = (None, {})

    @property
    def nbytes(self) -> int:
        """Approximate size in bytes, including the cached estimates."""
        return int(8 * self.value.nbytes + sum(5 * segment.fences.nbytes for segment in self.segments))

    @cached_property
    def granularity(self) -> float:
        """Smallest difference between two fences: in rounded values, about the distance of neighbouring values."""
        with np.errstate(invalid="ignore"):  # infinities
            differences = np.diff(self.value.astype(np.float64))
        positive = differences[differences > 0]
        return float(positive.min()) if len(positive) else 0.0

    def estimates(self, open_step: Summary | None, which: Estimate) -> Ints:
        """Return the estimated number of elements of the open step below each fence."""
        cached = self._estimated  # read once: another thread may replace it
        if cached[0] is not open_step:
            cached = self._estimated = (open_step, {})
        if which not in cached[1]:
            cached[1][which] = estimate(open_step, self.value, which)
        return cached[1][which]


def estimate(open_step: Summary | None, values: NDArray[Any], which: Estimate = "middle") -> Ints:
    """Return the number of elements that are at most each value: a bound, or the middle; monotone in the value."""
    if open_step is None or not open_step.n:
        return np.zeros(len(values), dtype=np.int64)
    following = np.searchsorted(open_step.carried, values, side="right")
    low = np.concatenate(([0], open_step.rmin))[following]
    high = np.concatenate((open_step.rmax - 1, [open_step.n]))[following]
    estimates: dict[Estimate, Ints] = {"lowest": low, "middle": (low + high) // 2, "highest": high}
    return estimates[which]


def cut(
    fences: Fences,
    open_step: Summary | None,
    rank: int,
    read: Read,
    which: Estimate = "middle",
    ahead: bool = False,
) -> RankCut:
    """Cut all segments at a rank among their elements and those of the open step, whose ranks are estimated.

    With `ahead`, likely blocks are read first: few waves, and at most two blocks of a segment instead of one.
    """
    state, waves = _Search(fences, open_step, rank, which), 0
    reads = state.likely_reads() if ahead else state.next_reads()
    while reads or len(state.value):
        if reads:
            waves += 1
            values = read([(fences.segments[run], block) for run, block in reads])
            for (run, block), read_values in zip(reads, values, strict=True):
                state.blocks[run][block] = read_values
        ambiguous = len(state.value)
        state.narrow()
        if not reads and len(state.value) == ambiguous:
            raise CorruptBytesError("the first values of blocks are not in order; verify() finds the file")
        reads = state.next_reads()
    before, below, above = state.finish()
    return RankCut(before, below, above, sum(map(len, state.blocks)), waves)


class _Search:
    def __init__(self, fences: Fences, open_step: Summary | None, rank: int, which: Estimate) -> None:
        self.segments, self.open_step, self.rank, self.which = fences.segments, open_step, rank, which
        self.blocks: list[dict[int, NDArray[Any]]] = [{} for _ in self.segments]  # values by block, of each segment
        self.granularity = fences.granularity
        estimated = fences.estimates(open_step, which) + 1
        first = int(np.searchsorted(fences.high + estimated, rank, side="left"))
        last = int(np.searchsorted(fences.low + estimated, rank, side="left"))
        self.passed = np.bincount(fences.run[:first], minlength=len(self.segments))  # fences before the rank
        ambiguous = slice(first, max(first, last))
        self.value, self.run, self.block = fences.value[ambiguous], fences.run[ambiguous], fences.block[ambiguous]
        self.estimated = estimated[ambiguous]

    def next_reads(self) -> list[tuple[int, int]]:
        """Return (segment, block) of every segment that has exactly one unread candidate, and none that was read."""
        reads, ambiguous = [], [[int(b) for b in self.block[self.run == run]] for run in range(len(self.segments))]
        for run, blocks in enumerate(ambiguous):
            candidates = [*([int(self.passed[run]) - 1] if self.passed[run] else []), *blocks]
            unknown = [b for b in candidates if not self.segments[run].constant[b]]
            if len(unknown) == 1 and unknown[0] not in self.blocks[run]:
                reads.append((run, unknown[0]))
        return reads

    def likely_reads(self) -> list[tuple[int, int]]:
        """Return (segment, block) of the block of every segment in which the rank lies by interpolation."""
        passed = self.passed.copy()
        if len(self.value):
            for index in np.flatnonzero(self._interpolate() < self.rank):
                passed[self.run[index]] = max(passed[self.run[index]], self.block[index] + 1)
        blocks = ((run, int(count) - 1) for run, count in enumerate(passed) if count)
        return [(run, block) for run, block in blocks if not self.segments[run].constant[block]]

    def _interpolate(self) -> NDArray[np.float64]:
        """Estimate the positions of ambiguous fences.

        Rows of equal values count as spread over the distance to the neighbouring values, so that half of them lie
        below the value; a segment that is first in order has all of them before the fence.
        """
        position = self.estimated.astype(np.float64)
        for other, segment in enumerate(self.segments):
            half = np.where(other < self.run, self.granularity, -self.granularity) / 2
            lower, upper = self._before(other, segment)
            rows = segment.interpolate(self.value.astype(np.float64) + half)
            rows = np.where(np.isnan(rows), (lower + upper) / 2, np.clip(rows, lower, upper))
            own = self.run == other
            position += np.where(own, segment.starts[self.block * own], rows)
        return position

    def narrow(self) -> None:
        """Compute the positions of ambiguous fences from the blocks read so far; resolve those that became clear."""
        low, high = self.estimated.copy(), self.estimated.copy()
        for other, segment in enumerate(self.segments):
            lower, upper = self._before(other, segment)
            own = self.run == other
            exact = segment.starts[self.block * own]
            low += np.where(own, exact, lower)
            high += np.where(own, exact, upper)
        for index in np.flatnonzero(high < self.rank):
            run = self.run[index]
            self.passed[run] = max(self.passed[run], self.block[index] + 1)
        is_ambiguous = (low < self.rank) & (high >= self.rank)
        self.value, self.run, self.block = self.value[is_ambiguous], self.run[is_ambiguous], self.block[is_ambiguous]
        self.estimated = self.estimated[is_ambiguous]

    def _before(self, other: int, segment: RunSegment) -> tuple[Ints, Ints]:
        """Return bounds on the number of rows of a segment before each ambiguous fence."""
        passed = np.where(
            other < self.run,
            np.searchsorted(segment.fences, self.value, side="right"),
            np.searchsorted(segment.fences, self.value, side="left"),
        )
        block = np.maximum(passed - 1, 0)
        lower = np.where(passed > 0, segment.starts[block] + 1, 0)
        upper = np.where(passed > 0, segment.starts[block + 1], 0)
        lower = np.where((passed > 0) & segment.constant[block], upper, lower)
        for read_block, values in self.blocks[other].items():
            is_read = (passed > 0) & (block == read_block)
            exact = segment.starts[read_block] + np.where(
                other < self.run,
                np.searchsorted(values, self.value, side="right"),
                np.searchsorted(values, self.value, side="left"),
            )
            lower, upper = np.where(is_read, exact, lower), np.where(is_read, exact, upper)
        return lower, upper

    def finish(self) -> tuple[Ints, Any, Any]:
        """Return the cut of each segment and the values around it; every block it needs has been read."""
        runs = [run for run in range(len(self.segments)) if self.passed[run]]
        blocks = {run: self._block(run, int(self.passed[run]) - 1) for run in runs}
        low, high = self._window(runs, blocks)
        base = {run: int(self.segments[run].starts[self.passed[run] - 1]) for run in runs}
        while True:
            widest = max(runs, key=lambda run: high[run] - low[run], default=None)
            if widest is None or high[widest] <= low[widest]:
                break
            middle = (low[widest] + high[widest]) // 2
            value = blocks[widest][middle]
            counts = {
                run: middle
                if run == widest
                else low[run] + _rows_before(blocks[run][low[run] : high[run]], value, run < widest)
                for run in runs
            }
            position = sum(base[run] + counts[run] for run in runs) + 1
            if position + int(estimate(self.open_step, np.array([value]), self.which)[0]) < self.rank:
                low = {run: max(low[run], counts[run]) for run in runs}
                low[widest] = middle + 1
            else:
                high = {run: min(high[run], counts[run]) for run in runs}
        before = np.zeros(len(self.segments), dtype=np.int64)
        below, above = [], []
        for run, segment in enumerate(self.segments):
            passed = int(self.passed[run])
            if passed:
                before[run] = base[run] + low[run]
                below.append(blocks[run][low[run] - 1])
            if passed and low[run] < len(blocks[run]):
                above.append(blocks[run][low[run]])
            elif passed < len(segment.fences):
                above.append(segment.fences[passed])
        return before, max(below, default=None), min(above, default=None)

    def _window(self, runs: list[int], blocks: dict[int, NDArray[Any]]) -> tuple[dict[int, int], dict[int, int]]:
        """Return the rows of each block that lie neither before a fence that is before, nor after one that is after."""
        last = max(((self.segments[run].fences[self.passed[run] - 1], run) for run in runs), default=None)
        ends = [
            (segment.fences[passed], run)
            for run, (segment, passed) in enumerate(zip(self.segments, self.passed, strict=True))
            if passed < len(segment.fences)
        ]
        following = min(ends, default=None)
        low, high = dict.fromkeys(runs, 1), {run: len(blocks[run]) for run in runs}
        for run in runs:
            if last is not None and run != last[1]:
                low[run] = max(1, _rows_before(blocks[run], last[0], run < last[1]))
            if following is not None and run != following[1]:
                high[run] = _rows_before(blocks[run], following[0], run < following[1])
            high[run] = max(low[run], high[run])
        return low, high

    def _block(self, run: int, block: int) -> NDArray[Any]:
        values = self.blocks[run].get(block)
        if values is not None:
            return values
        segment = self.segments[run]
        return np.full(int(segment.starts[block + 1] - segment.starts[block]), segment.fences[block])


def _rows_before(values: NDArray[Any], value: Any, first: bool) -> int:
    """Return the number of sorted values before one of another segment, with equal values if theirs is `first`."""
    return int(np.searchsorted(values, value, side="right" if first else "left"))
