"""Layout of recent data: sizes of blocks, how long each size is kept, and how coarse a block may be.

Arrivals have positions 0, 1, 2, ... The newest `raw` of them are stored unchanged. Older ones are in aligned blocks of
every power-of-two size s, each thinned to a few of its values. The *age* of a position is the number of arrivals since
it. After Arasu and Manku, "Approximate counts and quantiles over sliding windows", PODS 2004; proof in
docs/guarantees/windows.md. In short, for a window of n:

- a block whose end has age a is in use while a < s * (4/eps + 2). So there is a boundary at most eps*n/2 late;
- from there to now, at most one block of each size lies on the rising side, `L + 1` of them, L = log2(4/eps + 3),
  and one of each size on the falling side, whose ages together are below 3n;
- a block that began age a ago may be loose by `budget * a` ranks, budget = BLOCK_SHARE * eps / (L + 4).

So all blocks together are loose by at most BLOCK_SHARE * eps * n. The newest values, sorted, are sampled with a step of
at most RAW_SHARE * eps * n, the late boundary costs eps*n/2, and one rank remains: together within 2 * eps * n, which
is what an error of eps * n needs.
"""

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from quantide.sketches.byte_frame import FrameReader, FrameWriter
from quantide.summary.ranks import MAX_N
from quantide.summary.summary import TupleArrays
from quantide.typing import Array, Ints

CHUNK = 1 << 16  # smallest number of arrivals that leave the newest ones, and are sorted, together
BLOCK_SHARE, RAW_SHARE = 1.40, 0.08  # of the 2 * eps * n allowed; 0.50 is for the late boundary, 0.02 for the last rank
MIN_RAW = 1 << 10  # arrivals that are stored unchanged in any case
MIN_RAW_ERROR = 256  # eps * raw is at least this
STEADY, SPARSE = 12, 104  # the first STEADY levels above a chunk may use 1/16 of their budget each, later ones 1/SPARSE
GROUP = 8  # rows are thinned when an eighth of those of their spacing are due


@dataclass(frozen=True)
class BlockLayout:
    """The numbers above for one eps."""

    eps: float
    raw: int  # smallest number of newest arrivals that are stored unchanged
    chunk: int  # arrivals that become blocks together
    smallest: int  # smallest block size
    budget: float  # ranks that a block may be loose by, for each arrival since its start

    @property
    def max_raw(self) -> int:
        """Largest number of arrivals that are stored unchanged."""
        return self.raw + self.chunk

    def expiry_age(self, size: int) -> int:
        """Return the age of a block's end from which blocks of this size are not needed."""
        return math.ceil(size * (4 / self.eps + 2))

    def merge_budget(self, level: int) -> float:
        """Return the looseness allowed for a block of size chunk * 2**level before it is thinned for its age.

        Blocks are merged from smaller ones, and each merge thins: the budget is divided among the levels.
        """
        steady, later = min(level + 1, STEADY), max(0, level + 1 - STEADY)
        return min(1.0, steady / 16 + later / SPARSE) * self.budget * (self.chunk << level)

    def raw_step(self, n: int) -> int:
        """Return the step at which the newest values are sampled for an answer over n values."""
        return max(1, int(RAW_SHARE * self.eps * n))


@lru_cache(maxsize=256)
def layout_for(
    eps: float, max_items: int | None = None, chunk: int = CHUNK, min_raw_error: int = MIN_RAW_ERROR
) -> BlockLayout:
    """Return the layout that keeps every answer over at most `max_items` arrivals within eps.

    If the newest arrivals alone are as many, no more are stored unchanged. `min_raw_error` may be as low as 50, for
    the one remaining rank.
    """
    raw = max(chunk, 1 << math.ceil(math.log2(min_raw_error / eps)))
    if max_items is not None and max_items <= raw:
        raw = chunk = max(MIN_RAW, 1 << max_items.bit_length())
    smallest = 1 << max(0, int(math.log2(eps * raw / 2)))
    return BlockLayout(eps, raw, max(chunk, raw // 4), smallest, BLOCK_SHARE * eps / budget_divisor(eps))


def budget_divisor(eps: float) -> float:
    """Return the looseness of all blocks of a window together, as a multiple of the budget of its oldest block."""
    return math.log2(4 / eps + 3) + 4


@dataclass(slots=True)
class BlockSegment:
    """Consecutive blocks of one size, one a row; each array of `marks` has every block's first and last mark."""

    start: int
    rows: Array
    marks: list[Array]

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + sum(mark.nbytes for mark in self.marks)


@dataclass(slots=True)
class HalfBlock:
    """The first half of a block of the next size, thinned only as far as its merge budget allows."""

    start: int
    row: Array  # every spacing-th value
    low: Any
    marks: list[Array]


@dataclass(slots=True)
class BlockLevel:
    """The aligned blocks of one size, thinned as they age. Blocks of band i have a spacing of `finest << i`.

    All blocks of one spacing are rows of tables, so thinning them is one operation. A row contains a block's minimum
    and then every `spacing`-th of its sorted values: indexes determine the ranks.
    """

    size: int
    spacing: int  # when a block is merged
    loose: int
    finest: int  # spacing when a block is first stored
    bands: list[deque[BlockSegment]] = field(default_factory=list)
    pending: HalfBlock | None = None

    def min_age(self, spacing: int, layout: BlockLayout) -> float:
        """Return the age at which a block may have this spacing: thinning adds the growth of the spacing."""
        return (self.loose + spacing - self.spacing) / layout.budget

    def add(self, segment: BlockSegment) -> None:
        if not self.bands:
            self.bands.append(deque())
        self.bands[0].append(segment)

    def thin(self, now: int, layout: BlockLayout) -> None:
        """Double the spacing of blocks that are old enough."""
        for i, band in enumerate(self.bands):
            spacing = self.finest << i
            if 2 * spacing > self.size or not band:
                continue
            old_enough = now + self.size - self.min_age(2 * spacing, layout)
            if band[0].start + self.size > old_enough:
                continue
            due, rows, group = 0, 0, int(spacing / (layout.budget * self.size * GROUP))
            for segment in band:
                if segment.start + len(segment.rows) * self.size > old_enough:
                    break
                due, rows = due + 1, rows + len(segment.rows)
            if due and rows >= group:
                if i + 1 == len(self.bands):
                    self.bands.append(deque())
                self.bands[i + 1].append(_thin_segments([band.popleft() for _ in range(due)]))

    def drop(self, before: int) -> None:
        """Remove segments that end at or before a position."""
        for band in reversed(self.bands):
            while band and band[0].start + len(band[0].rows) * self.size <= before:
                band.popleft()

    def segments(self) -> Iterator[BlockSegment]:
        """Yield all segments, newest first."""
        for band in self.bands:
            yield from reversed(band)

    def block_tuples(self, position: int) -> TupleArrays:
        """Return the tuples of the block that starts at a position."""
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
        frame.number(self.pending is not None)
        if self.pending:
            frame.number(self.pending.start)
            for table in (np.array([self.pending.low], self.pending.row.dtype), self.pending.row, *self.pending.marks):
                frame.array(table)

    def read(self, frame: FrameReader, end: int, marks: list[np.dtype[Any]]) -> None:
        """Read a level as write() writes it; raise on a state that no blocks before `end` can produce."""
        self.bands = [deque() for _ in range(frame.number(64))]
        for band, segments in enumerate(self.bands):
            frame.require(self.finest << band <= self.size)
            width = 1 + self.size // (self.finest << band)
            for _ in range(frame.number(MAX_N)):
                start, count = frame.number(MAX_N), frame.number(MAX_N)
                frame.require(count > 0 and start % self.size == 0 and start + count * self.size <= end)
                rows = frame.values(count * width).reshape(count, width)
                frame.require(bool((rows[:, 1:] >= rows[:, :-1]).all()))
                segments.append(BlockSegment(start, rows, [frame.finite(m, 2 * count).reshape(-1, 2) for m in marks]))
        self._require_order(frame)
        if frame.number(1):
            start = frame.number(MAX_N)
            frame.require(start % (2 * self.size) == 0 and start + self.size <= end)
            low, row = frame.values(1)[0], frame.sorted_values(self.size // self.spacing)
            frame.require(bool(low <= row[0]))
            ends = [frame.finite(m, 2) for m in marks]
            frame.require(all(first <= last for first, last in ends))
            self.pending = HalfBlock(start, row, low, [pair.reshape(1, 2) for pair in ends])

    def _require_order(self, frame: FrameReader) -> None:
        """Raise unless segments are adjacent, oldest in the last band, and their marks never decrease."""
        oldest_first = [segment for band in reversed(self.bands) for segment in band]
        for before, after in pairwise(oldest_first):
            frame.require(before.start + len(before.rows) * self.size == after.start)
        for mark in range(len(oldest_first[0].marks) if oldest_first else 0):
            flat = np.concatenate([segment.marks[mark].reshape(-1) for segment in oldest_first])
            frame.require(bool((flat[1:] >= flat[:-1]).all()))


def _thin_segments(segments: list[BlockSegment]) -> BlockSegment:
    """Return segments as one, of twice the spacing: a row begins with the minimum, which stays."""
    rows = np.concatenate([segment.rows[:, ::2] for segment in segments])
    marks = [np.concatenate(mark) for mark in zip(*(segment.marks for segment in segments), strict=True)]
    return BlockSegment(segments[0].start, rows, marks)


@lru_cache(maxsize=1024)
def _ranks(size: int, spacing: int, loose: int) -> tuple[Ints, Ints]:
    """Return the ranks of a row's values; loose + spacing + 1 is the largest rmax[i+1] - rmin[i]."""
    rmin = np.arange(spacing, size + 1, spacing)
    rmax = np.minimum(rmin + loose + 1, size)
    if spacing > 1:
        rmin, rmax = np.concatenate(([1], rmin)), np.concatenate(([1], rmax))
    rmin.flags.writeable = rmax.flags.writeable = False
    return rmin, rmax
