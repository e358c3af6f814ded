"""Window buckets: the last `size` values in consecutive summarised buckets of eps*size/2; after RECENT's SW.

The newest bucket is open: its values unchanged, or an eps/4 sketch of them if they are many, beside the blocks that
arrived summarised. A full bucket is thinned until G - 1 reaches 1.25 * eps times its size; for an answer, all full
buckets are merged and thinned by another eps/4. The oldest leaves as soon as its first value does. So fewer than
eps*size/2 values of the window are not covered, and G + missing stays within 2 * eps * size, which is what an error of
eps needs: docs/guarantees/windows.md. The bucket that left is kept while a part of its values is in the window: it
bounds the ranks of these.

A bucket of values alone keeps its minimum and every `step`-th, and more towards the ends if there is a tail. All such
buckets have the same ranks, which are stored once. Merges bound the rank of each value from its place in every bucket.
To assume that every bucket is as loose as it may be, as for values in random order, would shift the answers of other
orders.
"""

import math
from collections import deque
from typing import Any

import numpy as np

from quantide.kernels.block_sort import select_rows, sorted_copy
from quantide.kernels.error_profile import ROUNDING, ranks_of_profile
from quantide.sketches.byte_frame import FrameReader, FrameWriter
from quantide.sketches.stream_sketch import StreamSketch
from quantide.summary.ranks import MIN_EPS
from quantide.summary.summary import Summary
from quantide.summary.value_column import ValueColumn
from quantide.summary.value_types import ValueType
from quantide.typing import Array, Ints
from quantide.windows.newest_values import BLOCK_TAIL, LOOSE, EvictedBlock, ValueBuffer, is_thinned, thin_summary

MERGE_SHARE = 1 / 4  # of eps * n, for merging all full buckets
OPEN_TAIL, MERGE_TAIL = 0.25, 0.15  # shares of the tail: open bucket, merging; BLOCK_TAIL is for closing
SKETCH_SHARE = 4  # eps over that of the open bucket's sketch; 2 in windows of version 1
MIN_OPEN_VALUES = 1 << 12  # values that the open bucket may always store; more, if all others store as many
MAX_BLOCKS = 64  # summarised blocks in the open bucket before they are merged


def bucket_sizes(size: int, eps: float) -> tuple[int, int]:
    """Return the number of values in a bucket, and the step at which it samples them.

    The step divides the number, so that the maximum is always kept.
    """
    limit = max(1, int(eps * size / 2))
    step = max(1, limit // math.ceil(1 / (LOOSE * eps)))
    return limit - limit % step, step


def bucket_tuples(size: int, eps: float, tail: float | None) -> float:
    """Return about how many tuples a full bucket keeps; a bucket may be too large for counting them.

    With a tail, a step of j is allowed from j/slope ranks before the end on, so that the ends keep the harmonic sum of
    the steps over the slope.
    """
    full, step = bucket_sizes(size, eps)
    ends = 0.0 if tail is None else 2 / bucket_slope(tail) * max(0.0, math.log(step) + 0.58 - (step - 1) / step)
    return full / step + 1 + ends


def bucket_slope(tail: float) -> float:
    return 2 * (OPEN_TAIL + BLOCK_TAIL) * tail


class WindowBuckets:
    """The last `size` values, in buckets."""

    def __init__(self, size: int, eps: float, kind: ValueType, tail: float | None = None) -> None:
        self.size, self.eps, self.kind, self.tail = size, eps, kind, tail
        self.evicted = EvictedBlock()
        self._full, self._step = bucket_sizes(size, eps)
        self._ranks: Ints | None = None  # made when the first bucket needs them: they may be many
        self._stores_values = self._step > 1 and self._full <= max(MIN_OPEN_VALUES, eps**-2)
        self._closed: deque[Summary] = deque()
        self._closed_n = 0
        self._merged: Summary | None = None  # cached summary of all closed buckets
        self._open()

    def _open(self) -> None:
        self._run = ValueBuffer(self.kind.carrier, self._full)
        self._sketch = StreamSketch(self.eps / SKETCH_SHARE, value_type=self.kind.name, tail=self._share(OPEN_TAIL))
        self._blocks: list[Summary] = []

    def _share(self, share: float) -> float | None:
        """Return a share of the tail."""
        return None if self.tail is None else max(MIN_EPS, share * self.tail)

    @property
    def _open_n(self) -> int:
        return self._run.n + self._sketch.n + sum(block.n for block in self._blocks)

    @property
    def covered(self) -> int:
        """Number of values covered."""
        return self._closed_n + self._open_n

    @property
    def nbytes(self) -> int:
        summaries = [*self._closed, *self._blocks, *([self._merged] if self._merged else [])]
        arrays = {id(a): a.nbytes for s in summaries for a in (s.carried, s.rmin, s.rmax)}
        if self._ranks is not None:
            arrays[id(self._ranks)] = self._ranks.nbytes
        return sum(arrays.values()) + self._run.nbytes + self._sketch.nbytes + self.evicted.nbytes

    @property
    def tuples(self) -> int:
        summarised = sum(len(s) for s in (*self._closed, *self._blocks)) + self.evicted.tuples
        return summarised + self._run.n + self._sketch.stored_values

    def append(self, values: Array) -> None:
        offset = 0
        while offset < len(values):
            open_n, left = self._open_n, len(values) - offset
            if not open_n and left >= self._full and self._stores_values:
                count = left - left % self._full
                self._add_even(values[offset : offset + count].reshape(-1, self._full))
            else:
                count = min(self._full - open_n, left)
                self._append_open(values[offset : offset + count])
                if open_n + count >= self._full:
                    self._close()
            offset += count
        self._evict()

    def _append_open(self, values: Array) -> None:
        """Append values to the open bucket, which has room for them."""
        if self._stores_values:
            self._run.extend(values)
        else:
            self._sketch.insert_column(ValueColumn(self.kind, [values]))

    def _add_even(self, buckets: Array) -> None:
        """Add full buckets of values, one a row."""
        ranks = self._common_ranks()
        rows = select_rows(buckets, ranks)
        assert rows is not None  # NaN were refused before
        self._closed.extend(Summary(row.copy(), ranks, ranks, self._full, self.kind) for row in rows)
        self._closed_n += buckets.size
        self._merged = None

    def add(self, summary: Summary) -> None:
        if self._open_n and self._open_n + summary.n > self._full:
            self._close()
        self._blocks.append(summary)
        if len(self._blocks) >= MAX_BLOCKS:
            self._blocks = [thin_summary(Summary.merge(*self._blocks), self.eps, self._share(BLOCK_TAIL))]
        if self._open_n >= self._full:
            self._close()
        self._evict()

    def _close(self) -> None:
        if self._run.n == self._full:
            self._add_even(self._run.values[None, :])
        else:
            closed = self._share_ranks(thin_summary(self._open_summary(), self.eps, self._share(BLOCK_TAIL)))
            self._closed.append(closed)
            self._closed_n += closed.n
            self._merged = None
        self._open()
        self._evict()

    def _open_summary(self) -> Summary:
        step = max(1, min(self._step, int(LOOSE * self.eps * self._run.n)))
        values = Summary.of_sorted(sorted_copy(self._run.values), self.kind, step, self._share(OPEN_TAIL))
        return Summary.merge(values, self._sketch.summary(), *self._blocks)

    def _evict(self) -> None:
        excess = self.covered - self.size
        while excess > 0 and self._closed:
            first = self._closed.popleft()
            excess -= first.n
            self.evicted, self._closed_n, self._merged = EvictedBlock(first.n, first), self._closed_n - first.n, None
        if self.covered == self.size:
            self.evicted.summary = None

    def arrivals_before_eviction(self, value: Any) -> int:
        """Return the number of arrivals for which a value surely stays: until the oldest bucket leaves."""
        return self.size - self.covered

    def summary(self) -> Summary:
        if self._merged is None and self._closed:
            merged = Summary.merge(*self._closed)
            self._merged = merged.compress(math.ceil(1 / (MERGE_SHARE * self.eps)), self._share(MERGE_TAIL))
        return Summary.merge(self._merged, self._open_summary()) if self._merged else self._open_summary()

    def write(self, frame: FrameWriter) -> None:
        self.evicted.write(frame)
        frame.summaries([*self._closed])
        frame.summaries(self._blocks)
        frame.number(self._run.n)
        frame.array(self._run.values)
        frame.blob(self._sketch.to_bytes())

    def has_tail(self) -> bool:
        """Return True if buckets are as precise towards the ends as values alone make them."""
        tails = [s.tail for s in self._closed]
        allowed = math.inf if self.tail is None else bucket_slope(self.tail) / 2 / ROUNDING
        return not self._blocks and all(tail is not None and tail <= allowed for tail in tails)

    def read(self, frame: FrameReader) -> None:
        """Read buckets as write() writes them; raise on a state that no values can produce."""
        self.evicted = EvictedBlock.read(frame, self.eps)
        self._closed = deque(self._share_ranks(s) for s in frame.summaries())
        self._blocks = frame.summaries()
        if filled := frame.number(self._full - 1):
            self._run.extend(frame.values(filled))
        self._sketch = StreamSketch.from_bytes(frame.blob())
        self._closed_n = sum(s.n for s in self._closed)
        frame.require(self._sketch.eps in (self.eps / SKETCH_SHARE, self.eps / 2) and self._sketch.type == self.kind)
        frame.require(self._sketch.tail == self._share(OPEN_TAIL))
        frame.require(all(is_thinned(s, self.eps) for s in (*self._closed, *self._blocks)))
        frame.require(self.covered <= self.size and self._open_n < self._full and len(self._blocks) < MAX_BLOCKS)

    def _share_ranks(self, summary: Summary) -> Summary:
        """Return the same bucket with the shared rank array, if its ranks are the common ones."""
        if (
            self._step < 2
            or summary.n != self._full
            or 2 * len(summary) < bucket_tuples(self.size, self.eps, self.tail)
        ):
            return summary
        ranks = self._common_ranks()
        if not all(np.array_equal(given, ranks) for given in (summary.rmin, summary.rmax)):
            return summary
        return Summary(summary.carried, ranks, ranks, summary.n, self.kind, summary.nulls, summary.nans)

    def _common_ranks(self) -> Ints:
        """Return the ranks that full buckets of values keep."""
        if self._ranks is None:
            if self.tail is None:
                self._ranks = np.unique(np.append(np.arange(self._step, self._full + 1, self._step), 1))
            else:
                self._ranks = ranks_of_profile(self._full, self._step - 1, bucket_slope(self.tail))
        return self._ranks
