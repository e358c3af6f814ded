"""Search: the element of a rank among sorted segments on disk, with at most one block read from each.

Elements of all segments have one order: by value, then by segment, then by position. The first value of every block,
its fence, is in memory, and so is how many rows its own segment has before it; for another segment the fence falls
into one block, which bounds that number from both sides. Hence every fence has a lowest and a highest place.

A fence whose highest place is below the rank is *before* it, one whose lowest place is at least the rank *after* it,
any other is ambiguous. A segment's candidates are its last block before and its ambiguous ones; one of them holds
the end of what the segment has before the rank. Only segments with a single candidate are read, and what was read
makes places exact. There is always such a segment: were there an ambiguous fence in every unread segment, take the
first and the last ambiguous fence of all. Between them every unread segment has at most the rows that the bounds of
one of its blocks leave open, so that the lowest place of the last is not below the highest place of the first; but
the one is below the rank and the other is not. So each segment is read once, and one block is enough.

`stream` stands for more elements whose number below a value is only estimated. The estimate never falls as the value
rises, so adding it to places keeps everything above true. docs/guarantees/history.md has the whole proof.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantide.errors import CorruptBytesError
from quantide.history.segment import Segment
from quantide.summary.summary import Summary

Ints = NDArray[np.int64]
Read = Callable[[Segment, int], NDArray[Any]]


@dataclass(frozen=True)
class Cut:
    """Where a rank cuts the segments: `before` rows of each lie before it, `below` and `above` are the values there.

    `below` is None when nothing lies before the rank, `above` when nothing lies after.
    """

    before: Ints
    below: Any
    above: Any
    blocks_read: int


class Fences:
    """All fences of some segments in order, with the lowest and highest number of elements before each."""

    def __init__(self, segments: Sequence[Segment]) -> None:
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
        # Passing a fence, its segment's part of the lowest place grows to one more than the rows before the fence.
        grown = np.cumsum(start + 1 - previous) - (start + 1 - previous)
        self.low = grown - previous + start
        self.high = np.cumsum(rows) - rows
        self.n = int(rows.sum())
        self._estimated: tuple[Summary | None, Ints] = (None, np.zeros(len(self.value), dtype=np.int64))

    @property
    def nbytes(self) -> int:
        """About how much it holds, with what is estimated for it."""
        return int(6 * self.value.nbytes + sum(5 * segment.fences.nbytes for segment in self.segments))

    def estimates(self, stream: Summary | None) -> Ints:
        """How many elements of the stream lie below each fence, as far as its summary tells."""
        held = self._estimated  # read once: another thread may ask with another stream meanwhile
        if held[0] is not stream:
            held = self._estimated = (stream, estimate(stream, self.value))
        return held[1]


def estimate(stream: Summary | None, values: NDArray[Any]) -> Ints:
    """The middle of the bounds on how many elements are at most each value; never falls as values rise."""
    if stream is None or not stream.n:
        return np.zeros(len(values), dtype=np.int64)
    following = np.searchsorted(stream.carried, values, side="right")
    low = np.concatenate(([0], stream.rmin))[following]
    high = np.concatenate((stream.rmax - 1, [stream.n]))[following]
    middle: Ints = (low + high) // 2
    return middle


def cut(fences: Fences, stream: Summary | None, rank: int, read: Read) -> Cut:
    """Cut all segments at a rank among their elements and those of the stream."""
    state = _Search(fences, stream, rank)
    while (wave := state.wanted()) or len(state.value):
        for run, block in wave:
            state.blocks[run] = (block, read(fences.segments[run], block))
        left = len(state.value)
        state.look_again()
        if not wave and len(state.value) == left:
            raise CorruptBytesError("the first values of blocks are not in order; verify() finds the file")
    before, below, above = state.finish()
    return Cut(before, below, above, len(state.blocks))


class _Search:
    def __init__(self, fences: Fences, stream: Summary | None, rank: int) -> None:
        self.segments, self.stream, self.rank = fences.segments, stream, rank
        self.blocks: dict[int, tuple[int, NDArray[Any]]] = {}  # what was read: one block of a segment, no more
        estimated = fences.estimates(stream) + 1
        first = int(np.searchsorted(fences.high + estimated, rank, side="left"))
        last = int(np.searchsorted(fences.low + estimated, rank, side="left"))
        self.passed = np.bincount(fences.run[:first], minlength=len(self.segments))  # fences before the rank
        part = slice(first, max(first, last))
        self.value, self.run, self.block = fences.value[part], fences.run[part], fences.block[part]
        self.estimated = estimated[part]

    def wanted(self) -> list[tuple[int, int]]:
        """The only unread candidate of every segment that has just one."""
        out, ambiguous = [], [[int(b) for b in self.block[self.run == run]] for run in range(len(self.segments))]
        for run, blocks in enumerate(ambiguous):
            candidates = [*([int(self.passed[run]) - 1] if self.passed[run] else []), *blocks]
            held = self.blocks.get(run, (None,))[0]
            unread = [b for b in candidates if b != held and not self.segments[run].constant[b]]
            if len(unread) == 1:
                out.append((run, unread[0]))
        return out

    def look_again(self) -> None:
        """Places of ambiguous fences, with what is known now."""
        low, high = self.estimated.copy(), self.estimated.copy()
        for other, segment in enumerate(self.segments):
            least, most = self._before(other, segment)
            own = self.run == other
            exact = segment.starts[self.block * own]
            low += np.where(own, exact, least)
            high += np.where(own, exact, most)
        for place in np.flatnonzero(high < self.rank):
            run = self.run[place]
            self.passed[run] = max(self.passed[run], self.block[place] + 1)
        left = (low < self.rank) & (high >= self.rank)
        self.value, self.run, self.block = self.value[left], self.run[left], self.block[left]
        self.estimated = self.estimated[left]

    def _before(self, other: int, segment: Segment) -> tuple[Ints, Ints]:
        """Bounds on how many rows of a segment lie before each ambiguous fence."""
        passed = np.where(
            other < self.run,
            np.searchsorted(segment.fences, self.value, side="right"),
            np.searchsorted(segment.fences, self.value, side="left"),
        )
        block = np.maximum(passed - 1, 0)
        least = np.where(passed > 0, segment.starts[block] + 1, 0)
        most = np.where(passed > 0, segment.starts[block + 1], 0)
        least = np.where((passed > 0) & segment.constant[block], most, least)
        if other in self.blocks:
            b, values = self.blocks[other]
            here = (passed > 0) & (block == b)
            exact = segment.starts[b] + np.where(
                other < self.run,
                np.searchsorted(values, self.value, side="right"),
                np.searchsorted(values, self.value, side="left"),
            )
            least, most = np.where(here, exact, least), np.where(here, exact, most)
        return least, most

    def finish(self) -> tuple[Ints, Any, Any]:
        """Where each segment ends, once every block that matters is known."""
        runs = [run for run in range(len(self.segments)) if self.passed[run]]
        held = {run: self._block(run, int(self.passed[run]) - 1) for run in runs}
        low, high = self._window(runs, held)
        base = {run: int(self.segments[run].starts[self.passed[run] - 1]) for run in runs}
        while True:
            widest = max(runs, key=lambda run: high[run] - low[run], default=None)
            if widest is None or high[widest] <= low[widest]:
                break
            middle = (low[widest] + high[widest]) // 2
            value = held[widest][middle]
            counts = {
                run: middle
                if run == widest
                else low[run] + _rows_before(held[run][low[run] : high[run]], value, run < widest)
                for run in runs
            }
            place = sum(base[run] + counts[run] for run in runs) + 1
            if place + int(estimate(self.stream, np.array([value]))[0]) < self.rank:
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
                below.append(held[run][low[run] - 1])
            if passed and low[run] < len(held[run]):
                above.append(held[run][low[run]])
            elif passed < len(segment.fences):
                above.append(segment.fences[passed])
        return before, max(below, default=None), min(above, default=None)

    def _window(self, runs: list[int], held: dict[int, NDArray[Any]]) -> tuple[dict[int, int], dict[int, int]]:
        """Which rows of each held block are neither before a fence that is before, nor after one that is after."""
        last = max(((self.segments[run].fences[self.passed[run] - 1], run) for run in runs), default=None)
        ends = [
            (segment.fences[passed], run)
            for run, (segment, passed) in enumerate(zip(self.segments, self.passed, strict=True))
            if passed < len(segment.fences)
        ]
        following = min(ends, default=None)
        low, high = dict.fromkeys(runs, 1), {run: len(held[run]) for run in runs}
        for run in runs:
            if last is not None and run != last[1]:
                low[run] = max(1, _rows_before(held[run], last[0], run < last[1]))
            if following is not None and run != following[1]:
                high[run] = _rows_before(held[run], following[0], run < following[1])
            high[run] = max(low[run], high[run])
        return low, high

    def _block(self, run: int, block: int) -> NDArray[Any]:
        known = self.blocks.get(run)
        if known is not None and known[0] == block:
            return known[1]
        segment = self.segments[run]
        return np.full(int(segment.starts[block + 1] - segment.starts[block]), segment.fences[block])


def _rows_before(values: NDArray[Any], value: Any, first: bool) -> int:
    """How many sorted values come before one of another segment; equal ones do when theirs is the first segment."""
    return int(np.searchsorted(values, value, side="right" if first else "left"))
