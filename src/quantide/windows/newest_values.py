"""Newest values: the last values of a SlidingWindow in arrival order, with blocks that were summarised elsewhere."""

import math
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

from quantide.kernels.band_selection import select_rank
from quantide.kernels.block_sort import sort
from quantide.sketches.byte_frame import FrameReader, FrameWriter
from quantide.summary.ranks import MAX_N, MIN_EPS
from quantide.summary.summary import Summary
from quantide.summary.value_types import ValueType
from quantide.typing import Array

RUN_SIZE = 1 << 16  # values in one array
LOOSE = 1.25  # looseness of a stored summary, as a multiple of eps * n
BLOCK_TAIL = 0.6  # share of the tail by which a certified one grows when blocks are thinned


def thin_within(summary: Summary, allowed: float, tail: float | None = None) -> Summary:
    """Compress to as few tuples as a looseness of `allowed` permits; a certified tail grows by at most `tail`."""
    by_tuple = (summary.gap + 1) // 2 <= summary.rank_error  # compress() then counts the gaps of equal values, too
    room = allowed - (summary.gap if by_tuple else summary.looseness)
    return summary.compress(math.ceil(summary.n / room), tail) if room >= 1 else summary


def thin_summary(summary: Summary, eps: float, tail: float | None = None) -> Summary:
    """Compress to as few tuples as a looseness of LOOSE * eps * n permits; see thin_within()."""
    return thin_within(summary, LOOSE * eps * summary.n, tail)


def is_thinned(summary: Summary, eps: float) -> bool:
    """Return True if thin_summary() can produce this summary."""
    ends = max(int(summary.rmax[0]) - 1, summary.n - int(summary.rmin[-1]))
    return summary.looseness <= LOOSE * eps * summary.n and ends <= eps / 2 * summary.n


@dataclass(slots=True)
class EvictedBlock:
    """The block that left the window last: its size and, while a part of its values is in the window, its summary."""

    n: int = 0
    summary: Summary | None = None

    @property
    def nbytes(self) -> int:
        return self.summary.nbytes if self.summary else 0

    @property
    def tuples(self) -> int:
        return len(self.summary) if self.summary else 0

    def lift(self, summary: Summary, k: int) -> Summary:
        """Return a summary of these values and of k unknown ones of the evicted block.

        Of the block's n values, of which between low and high are not above a tuple's value, the k include between
        k - (n - low) and high that are not. Those come before the tuple.
        """
        block = self.summary
        if k == 0 or block is None:
            return summary.lift(k)
        index = np.searchsorted(block.carried, summary.carried, side="right")
        low = np.concatenate(([0], block.rmin))[index]
        high = np.concatenate((block.rmax - 1, [block.n]))[index]
        rmin = summary.rmin + np.maximum(0, k - (block.n - low))
        rmax = summary.rmax + np.minimum(k, high)
        rmin[0], rmax[-1] = 1, summary.n + k  # the form of every summary
        return Summary(summary.carried, rmin, rmax, summary.n + k, summary.type)

    def write(self, frame: FrameWriter) -> None:
        frame.number(self.n)
        frame.summaries([self.summary] if self.summary else [])

    @classmethod
    def read(cls, frame: FrameReader, eps: float) -> "EvictedBlock":
        n, summaries = frame.number(MAX_N), frame.summaries() if frame.version > 1 else []
        frame.require(len(summaries) < 2 and all(s.n == n and is_thinned(s, eps) for s in summaries))
        return cls(n, summaries[0] if summaries else None)


class ValueBuffer:
    """Consecutive values, from `first` to `end` of an array that doubles in size up to `capacity`."""

    __slots__ = ("array", "capacity", "end", "first")

    def __init__(self, dtype: np.dtype[Any], capacity: int = RUN_SIZE) -> None:
        self.array, self.first, self.end, self.capacity = np.empty(0, dtype), 0, 0, capacity

    @property
    def n(self) -> int:
        return self.end - self.first

    @property
    def nbytes(self) -> int:
        return self.array.nbytes

    @property
    def values(self) -> Array:
        return self.array[self.first : self.end]

    def extend(self, values: Array) -> None:
        """Append values; the capacity must suffice."""
        size = self.end + len(values)
        if size > len(self.array):
            larger = np.empty(min(self.capacity, max(64, 1 << (size - 1).bit_length())), self.array.dtype)
            larger[: self.end] = self.array[: self.end]
            self.array = larger
        self.array[self.end : size] = values
        self.end = size


class NewestValues:
    """The last `size` values. A value leaves alone; a block leaves as soon as its first value does."""

    def __init__(self, size: int, eps: float, kind: ValueType, tail: float | None = None) -> None:
        self.size, self.eps, self.kind = size, eps, kind
        self.covered = 0  # values covered
        self.evicted = EvictedBlock()
        self._block_tail = None if tail is None else max(MIN_EPS, BLOCK_TAIL * tail)
        self._items: deque[ValueBuffer | Summary] = deque()
        self._run_size = min(RUN_SIZE, max(1024, size))
        self._max_merged = max(1, int(eps * size / 2))  # blocks are merged up to this size

    @property
    def nbytes(self) -> int:
        items = sum(item.array.nbytes if isinstance(item, ValueBuffer) else item.nbytes for item in self._items)
        return items + self.evicted.nbytes

    @property
    def tuples(self) -> int:
        items = sum(item.n if isinstance(item, ValueBuffer) else len(item) for item in self._items)
        return items + self.evicted.tuples

    def append(self, values: Array) -> None:
        """Append values in runs that end at fixed positions, independent of how calls divide them."""
        offset = 0
        while offset < len(values):
            last = self._items[-1] if self._items else None
            if not isinstance(last, ValueBuffer) or last.end == self._run_size:
                last = ValueBuffer(self.kind.carrier, self._run_size)
                self._items.append(last)
            size = min(self._run_size - last.end, len(values) - offset)
            last.extend(values[offset : offset + size])
            offset += size
            self.covered += size
            self._evict()

    def add(self, summary: Summary) -> None:
        last = self._items[-1] if self._items else None
        if isinstance(last, Summary) and last.n + summary.n <= self._max_merged:
            self._items[-1] = thin_summary(Summary.merge(last, summary), self.eps, self._block_tail)
        else:
            self._items.append(thin_summary(summary, self.eps, self._block_tail))
        self.covered += summary.n
        self._evict()

    def _evict(self) -> None:
        while self.covered > self.size:
            first, excess = self._items[0], self.covered - self.size
            if isinstance(first, ValueBuffer) and first.n > excess:
                first.first += excess
                self.covered -= excess
                break
            self.evicted = EvictedBlock() if isinstance(first, ValueBuffer) else EvictedBlock(first.n, first)
            self.covered -= first.n
            self._items.popleft()
        if self.covered == self.size:
            self.evicted.summary = None

    def arrivals_before_eviction(self, value: Any) -> int:
        """Return the number of arrivals for which this value surely stays: until its last occurrence leaves."""
        position = self.covered
        for item in reversed(self._items):
            position -= item.n
            if isinstance(item, ValueBuffer):
                found = np.flatnonzero(item.values == value)
                if len(found):
                    return self.size - self.covered + position + int(found[-1])
        return 0  # of a block that was summarised elsewhere

    def select(self, rank: int) -> Array:
        """Return the value of a rank as an array of length 1; there are no blocks."""
        return select_rank([item.values for item in self._items if isinstance(item, ValueBuffer)], rank)

    def summary(self) -> Summary:
        runs = [item.values for item in self._items if isinstance(item, ValueBuffer)]
        values = np.concatenate(runs) if runs else np.empty(0, self.kind.carrier)
        sort(values)
        blocks = [item for item in self._items if isinstance(item, Summary)]
        return Summary.merge(Summary.of_sorted(values, self.kind), *blocks)

    def write(self, frame: FrameWriter) -> None:
        self.evicted.write(frame)
        frame.number(len(self._items))
        for item in self._items:
            frame.number(isinstance(item, ValueBuffer))
            if isinstance(item, ValueBuffer):
                frame.number(item.first)
                frame.number(item.end)
                frame.array(item.values)
            else:
                frame.summaries([item])

    def has_tail(self) -> bool:
        """Return True unless there are blocks, which only summaries make."""
        return all(isinstance(item, ValueBuffer) for item in self._items)

    def read(self, frame: FrameReader) -> None:
        """Read items as write() writes them; raise on a state that no values can produce."""
        self.evicted = EvictedBlock.read(frame, self.eps)
        for _ in range(frame.number(self.size)):
            if frame.number(1):
                run = ValueBuffer(self.kind.carrier, self._run_size)
                first, end = frame.number(self._run_size), frame.number(self._run_size)
                frame.require(first < end and (not first or not self._items))  # values leave only the first run
                before = self._items[-1] if self._items else None
                frame.require(not isinstance(before, ValueBuffer) or before.end == self._run_size)
                run.extend(np.zeros(first, self.kind.carrier))
                run.extend(frame.values(end - first))
                run.first = first
                self._items.append(run)
            else:
                summaries = frame.summaries()
                frame.require(len(summaries) == 1 and is_thinned(summaries[0], self.eps))
                self._items.append(summaries[0])
        self.covered = sum(item.n for item in self._items)
        frame.require(self.covered <= self.size)
