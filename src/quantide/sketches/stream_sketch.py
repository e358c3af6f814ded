"""StreamSketch: quantiles of a whole stream of unknown length, at the speed of sorting."""

import math
from typing import Any, Self

import numpy as np

from quantide.sketches.block_cutter import BlockCutter, sorted_blocks
from quantide.sketches.byte_frame import FrameReader
from quantide.sketches.level_schedule import FAN, leaf_for, schedule_for
from quantide.sketches.level_stack import LevelStack
from quantide.sketches.sketch_base import BUFFER_SIZE, SketchBase
from quantide.sketches.summary_stack import SummaryStack
from quantide.summary.ranks import MAX_N, check_eps, check_size
from quantide.summary.summary import Summary
from quantide.summary.value_column import ValueColumn, has_nan, nan_error, store
from quantide.typing import Array

MAGIC = b"QTK"
# Shares of eps. Values go through the level stack; an inserted summary may have an error of INSERTED * eps and goes
# through the summary stack. Both are compressed together when a block is full (STACKED), and once more with the open
# block to answer (ANSWER).
LEVELS, INSERTED, SUMMARIES, STACKED, ANSWER = 11 / 16, 1 / 2, 11 / 64, 1 / 16, 1 / 4


class StreamSketch(SketchBase):
    """Quantiles of all values so far, each within eps * n ranks, at every moment.

    Blocks of `leaf` values are sorted and thinned into rows of evenly spaced ranks; FAN rows are sorted together
    and thinned into one of the next level. Until the first block is full every answer is exact. The same values
    in the same order give the same state, byte for byte, however update() calls divide them.

    Parameters: `eps`, the largest error as a fraction of n, in (0, 1); `nan`, "refuse" or "skip"; `value_type`,
    the name of the value type, by default that of the first values.

    >>> sketch = StreamSketch(eps=0.01)
    >>> for block in range(100):
    ...     sketch.update(np.arange(block, 1_000_000, 100))
    >>> sketch.n, sketch.error <= 0.01
    (1000000, True)
    >>> answer = sketch.answer(0.99)
    >>> bool(answer.rank_lo <= answer.value + 1 <= answer.rank_hi)
    True

    Guarantee, proof and sizes: docs/guarantees/stream.md. After Zhang and Wang, "A fast algorithm for approximate
    quantiles in high speed data streams", SSDBM 2007, section 3.
    """

    def __init__(self, eps: float, nan: str = "refuse", value_type: str | None = None) -> None:
        super().__init__(eps, nan, value_type)
        leaf = leaf_for(self._eps)
        self._levels = LevelStack(schedule_for(LEVELS * self._eps, leaf))
        self._summaries = SummaryStack(leaf, INSERTED * self._eps, SUMMARIES * self._eps)
        self._block: Array = np.empty(0)  # the open block; its first `_filled` values are in use
        self._filled = 0
        self._stacked: Summary | None = None  # cached summary of both stacks
        self._summary: Summary | None = None  # cached summary of everything
        self._invalidate()

    @property
    def leaf(self) -> int:
        """Number of values in a full block; with fewer values the sketch is exact."""
        return self._levels.schedule.leaf

    @property
    def n(self) -> int:
        return self._levels.n + self._summaries.n + self._filled + len(self._scalars)

    @property
    def nbytes(self) -> int:
        """Memory in use: rows, the open block, inserted summaries, and the cached summaries.

        Sorting needs one more block for each thread, shared by all sketches.
        """
        cached = sum(s.nbytes for s in (self._stacked, self._summary) if s is not None)
        scalars = self._scalars.itemsize * len(self._scalars)
        return self._levels.nbytes + self._summaries.nbytes + self._block.nbytes + scalars + cached

    @property
    def stored_values(self) -> int:
        """Number of values in memory."""
        rows = sum(len(row) for rows in self._levels.levels for row in rows)
        return rows + sum(len(s) for s in self._summaries.summaries) + self._filled + len(self._scalars)

    @staticmethod
    def max_nbytes(eps: float, n: int, itemsize: int = 8) -> int:
        """Return the largest `nbytes` after n values of `itemsize` bytes, not counting inserted summaries."""
        eps, n = check_eps(eps), check_size("n", n, 0)
        schedule = schedule_for(LEVELS * eps, leaf_for(eps))
        values = min(schedule.leaf, 2 * n) + BUFFER_SIZE
        for level, size in enumerate(schedule.size):
            top = level + 1 == len(schedule.size)
            values += (n // size if top else min(FAN - 1, n // size)) * schedule.row_length(level)
        tuples = n if n < schedule.leaf else min(n, _width(STACKED, eps) + 1) + min(n, _width(ANSWER, eps) + 1)
        return values * itemsize + tuples * (itemsize + 3 * 8)

    def update(self, values: Any, nan: str | None = None) -> None:
        """Insert values: numpy, Arrow, pandas, polars, lists, single numbers.

        Inserts all of them or, if it raises, none. `nan` overrides the sketch's NaN policy for this call.
        """
        if nan is None and self._buffer(values):
            self._summary = None
            return
        self._flush()
        column = self._read(values, nan)
        self._insert(column)
        self._record(column)
        self._invalidate()

    def update_summary(self, summary: Summary) -> None:
        """Insert all values behind a summary; its certified error may be at most eps/2."""
        self._flush()
        self._check_summary(summary)
        if summary.n:
            self._insert_summary(summary)
        self._record_summary(summary)
        self._invalidate()

    def merge(self, other: Self) -> None:
        """Insert everything that another sketch of the same class, eps and type contains; the other is unchanged."""
        if isinstance(other, StreamSketch):
            other._flush()
        self._flush()
        self._check_mergeable(other)
        open_block = other._block[: other._filled].copy()
        levels, summaries = self._levels.copy(), self._summaries.copy()
        levels.add_stack(other._levels)
        summaries.add_stack(other._summaries)
        self._levels, self._summaries, self._stacked = levels, summaries, None
        self._insert(ValueColumn(other._type, [open_block]))
        self._record_merge(other)
        self._invalidate()

    def insert_column(self, column: ValueColumn) -> None:
        self._insert(column)
        self._summary = None

    def summary(self) -> Summary:
        """Return at most ceil(2/eps) + 1 tuples, certified within eps; every value while all fit one block."""
        self._flush()
        if self._summary is None:
            self._summary = self._summarize().with_skipped(self._nulls, self._nans)
        return self._summary

    def to_bytes(self) -> bytes:
        """Serialize the whole state: from_bytes() continues exactly from here."""
        self._flush()
        frame = self._start_frame(MAGIC)
        frame.number(self._filled)
        frame.array(self._block[: self._filled])
        self._levels.write(frame)
        self._summaries.write(frame)
        return frame.finish()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Restore a sketch from the bytes of to_bytes()."""
        frame = FrameReader(MAGIC, data)
        sketch = cls(frame.eps, frame.nan, frame.type_name)
        sketch._nulls, sketch._nans = frame.nulls, frame.nans
        sketch._read_state(frame)
        frame.require(sketch.n <= MAX_N)
        frame.finish()
        sketch._invalidate()
        return sketch

    def _insert(self, column: ValueColumn) -> None:
        """Add whole blocks to a copy of the level stack and check the rest for NaN before changing the sketch."""
        kind = self._type or column.type
        if kind is None or not len(column):
            return
        cutter, levels = BlockCutter(self.leaf), self._levels.copy()
        for piece in (self._block[: self._filled], *column.pieces):
            for run in cutter.cut(piece):
                for blocks in sorted_blocks(run, self.leaf, kind.carrier):
                    levels.add_blocks(blocks)
        grown = levels.n > self._levels.n
        remainder = cutter.pending if grown or not self._filled else cutter.pending[1:]
        if any(has_nan(piece) for piece in remainder):
            raise nan_error()
        self._type = kind
        if grown:
            self._levels, self._stacked, self._filled = levels, None, 0
        self._extend(remainder)

    def _read_state(self, frame: FrameReader) -> None:
        """Read the open block and both stacks as to_bytes() writes them."""
        if filled := frame.number(self.leaf - 1):
            self._extend([frame.values(filled)])
        self._levels.read(frame)
        self._summaries.read(frame, max_error=(INSERTED + SUMMARIES) * self._eps)

    def _insert_summary(self, summary: Summary) -> None:
        self._summaries.add(summary.with_skipped(0, 0))
        self._stacked = None

    def _extend(self, pieces: list[Array]) -> None:
        """Append to the open block, which has room for the pieces and doubles in size up to a leaf."""
        filled = self._filled + sum(len(piece) for piece in pieces)
        carrier = self._kind().carrier
        if filled > len(self._block) or self._block.dtype != carrier:
            size = min(self.leaf, max(64, 1 << (filled - 1).bit_length())) if filled else 0
            larger = np.empty(size, dtype=carrier)
            larger[: self._filled] = self._block[: self._filled]
            self._block = larger
        for piece in pieces:
            store(self._block[self._filled : self._filled + len(piece)], piece)
            self._filled += len(piece)

    def _summarize(self) -> Summary:
        open_block = np.sort(self._block[: self._filled])
        if not self._levels.levels and not self._summaries.summaries:
            return Summary.of_sorted(open_block, self._kind())
        if self._stacked is None:
            rows = [self._levels.summary(self._kind())] if self._levels.levels else []
            self._stacked = Summary.merge(*rows, *self._summaries.summaries).compress(_width(STACKED, self._eps))
        step = self._levels.schedule.spacing[0] if self._levels.levels else 1
        sampled = Summary.of_sorted(open_block, self._kind(), step)
        return Summary.merge(self._stacked, sampled).compress(_width(ANSWER, self._eps))

    def _invalidate(self) -> None:
        """Drop the cached summary and start a new scalar buffer after a change."""
        self._summary = None
        self._reset_buffer()


def _width(share: float, eps: float) -> int:
    """Return the b for which compress(b) adds at most this share of eps."""
    return math.ceil(1 / (2 * share * eps))
