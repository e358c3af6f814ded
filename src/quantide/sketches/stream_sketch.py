"""StreamSketch: quantiles of a whole stream of unknown length, faster than sorting its blocks."""

import math
from functools import lru_cache
from typing import Any, Self

import numpy as np

from quantide.kernels.block_sort import select_rows, sorted_copy
from quantide.kernels.error_profile import ROUNDING, ranks_of_profile
from quantide.sketches.block_cutter import BlockCutter, whole_blocks
from quantide.sketches.byte_frame import FrameReader
from quantide.sketches.level_rows import read_version_1
from quantide.sketches.running_summary import RunningSummary
from quantide.sketches.sketch_base import BUFFER_SIZE, SketchBase
from quantide.summary.ranks import DEFAULT, MAX_N, check_eps, check_size, check_tail
from quantide.summary.summary import Summary
from quantide.summary.value_column import ValueColumn, has_nan, nan_error, store
from quantide.typing import Array, Ints

MAGIC, VERSION = b"QTK", 3
MIN_LEAF, MAX_LEAF = 1 << 12, 1 << 16
POOL_SIZE = 64  # inserted summaries that are stored before they are merged, if they are small
# Gaps in units of eps * n, which are twice the error. Blocks are sampled at gaps of SAMPLED, the running summary has
# gaps of at most 11/8, an answer adds gaps of OPEN for the open block and 1/2 for compression to 2/eps tuples. In units
# of the tail and the distance from an end: SAMPLED of blocks and the open block, 11/8, and 1/2 for compression.
SAMPLED, OPEN = 1 / 2, 1 / 8


class StreamSketch(SketchBase):
    """Quantiles of all values so far, each within eps * n ranks, at every moment, and closer towards the ends.

    Of every block of `leaf` values, those at evenly spaced ranks, and more towards the ends, are merged into a running
    summary, which is compressed as far as eps and the tail allow. Until the first block is full every answer is exact.
    The same values in the same order give the same state, byte for byte, however update() calls divide them.

    Parameters: `eps`, the largest error as a fraction of n, in (0, 1); `nan`, "refuse" or "skip"; `value_type`,
    the name of the value type, by default that of the first values; `tail`, the largest error as a fraction of the
    distance from either end, by default 10 * eps for eps up to 0.01, and None (eps alone) above.

    >>> sketch = StreamSketch(eps=0.01)
    >>> for block in range(100):
    ...     sketch.update(np.arange(block, 1_000_000, 100))
    >>> sketch.n, sketch.error <= 0.01
    (1000000, True)
    >>> answer = sketch.answer(0.99)
    >>> bool(answer.rank_lo <= answer.value + 1 <= answer.rank_hi)
    True

    The error of p99.99 is a share of the values above it, not of all values:

    >>> sketch = StreamSketch(eps=0.001)
    >>> sketch.update(np.arange(1_000_000))
    >>> sketch.tail, sketch.answer(0.9999).error <= 0.01 * 0.0001
    (0.01, True)

    Guarantee, proof and sizes: docs/guarantees/stream.md. After Zhang and Wang, "A fast algorithm for approximate
    quantiles in high speed data streams", SSDBM 2007, section 3.
    """

    def __init__(
        self, eps: float, nan: str = "refuse", value_type: str | None = None, tail: float | None = DEFAULT
    ) -> None:
        super().__init__(eps, nan, value_type)
        tail = check_tail(tail, self._eps)
        self._leaf = leaf_for(self._eps, tail)
        self._running = RunningSummary(self._eps, tail, self._leaf)
        self._pool: list[Summary] = []  # inserted summaries that are not merged yet
        self._block: Array = np.empty(0)  # the open block; its first `_filled` values are in use
        self._filled = 0
        self._summary: Summary | None = None  # cached summary of everything
        self._invalidate()

    @property
    def leaf(self) -> int:
        """Number of values in a full block; with fewer values the sketch is exact."""
        return self._leaf

    @property
    def tail(self) -> float | None:
        """Promised tail: no answer is further than tail times its distance from either end, and half a rank.

        None if there is none, or once a part was inserted that has none.
        """
        return self._running.tail

    @property
    def n(self) -> int:
        return self._running.n + sum(s.n for s in self._pool) + self._filled + len(self._scalars)

    @property
    def nbytes(self) -> int:
        """Memory in use: the running summary, the open block, inserted summaries, and the cached summary.

        An update needs a few blocks more while it runs.
        """
        cached = 0 if self._summary is None else self._summary.nbytes
        scalars = self._scalars.itemsize * len(self._scalars)
        return self._running.nbytes + sum(s.nbytes for s in self._pool) + self._block.nbytes + scalars + cached

    @property
    def stored_values(self) -> int:
        """Number of values in memory."""
        return len(self._running) + sum(len(s) for s in self._pool) + self._filled + len(self._scalars)

    @staticmethod
    def max_nbytes(eps: float, n: int, itemsize: int = 8, merged: bool = False, tail: float | None = DEFAULT) -> int:
        """Return a limit of `nbytes` after n values of `itemsize` bytes, or of a sketch `merged` from others.

        The number of tuples in this limit is that of the hardest orders and trees of merges that are known, several
        times over; it is not proved. The error bound does not depend on it.
        """
        eps, n = check_eps(eps), check_size("n", n, 0)
        tail = check_tail(tail, eps)
        leaf = leaf_for(eps, tail)
        values = min(leaf, max(64, 2 * n)) + BUFFER_SIZE
        ends = 0.0 if tail is None else math.log(2 + tail * n) / tail  # tuples that the tails add
        summary = min(n, math.ceil(2 / eps + 4 * ends) + 1) if n >= leaf else n
        running = math.ceil((200 if merged else 2 * math.log2(4 + eps * n)) * (1 / eps + ends))
        tuples = min(n, running) + summary + min(n, _pool_tuples(eps))
        return values * itemsize + tuples * (itemsize + 3 * 8)

    def update(self, values: Any, nan: str | None = None, weights: Any = None) -> None:
        """Insert values: numpy, Arrow, pandas, polars, lists, single numbers.

        Inserts all of them or, if it raises, none. `nan` overrides the sketch's NaN policy for this call.
        `weights` are whole numbers, one for each value or one for all: a value of weight w counts as w equal values.

        >>> sketch = StreamSketch(eps=0.001)
        >>> sketch.update([120.0, 80.0, 95.0], weights=[3, 10**9, 500])
        >>> sketch.n, float(sketch.quantile(0.5)), sketch.rank(100.0)
        (1000000503, 80.0, (1000000500, 1000000500))
        """
        if weights is None and nan is None and self._buffer(values):
            self._summary = None
            return
        self._flush()
        if weights is None:
            column = self._read(values, nan)
            self._insert(column)
            self._record(column)
        else:
            self._update_weighted(values, weights, nan)
        self._invalidate()

    def update_summary(self, summary: Summary) -> None:
        """Insert all values behind a summary; its certified error may be at most eps/2.

        If its certified tail is above tail/2, the tail of the sketch becomes twice that, or None.
        """
        self._flush()
        summary = self._check_summary(summary)
        if summary.n:
            self._insert_summary(summary)
            self._widen_tail(None if summary.tail is None else 2 * summary.tail)
        self._record_summary(summary)
        self._invalidate()

    def merge(self, *others: Self) -> None:
        """Insert everything that other sketches of the same class, eps and type contain; the others are unchanged.

        The largest of their tails is the sketch's from now on; None if any has none. One call for many sketches is
        faster than a call for each.
        """
        self._check_mergeable(*others)
        for sketch in (self, *others):
            sketch._flush()
        kind = next((sketch._type for sketch in (self, *others) if sketch._type), None)
        if kind is not None:
            parts = [part for other in others for part in (other._running.summary(kind), *other._pool)]
            blocks = [other._block[: other._filled].copy() for other in others]
            running = self._running.copy()
            running.insert_summaries([part for part in parts if part is not None])
            self._running = running
            self._insert(ValueColumn(kind, blocks))
        for other in others:
            if other.n:
                self._widen_tail(other.tail)
        self._record_merge(*others)
        self._invalidate()

    def insert_column(self, column: ValueColumn) -> None:
        self._insert(column)
        self._summary = None

    def summary(self) -> Summary:
        """Return tuples certified within eps and the tail; every value while all fit one block.

        They are at most ceil(2/eps) + 1, and those that the tail adds.
        """
        self._flush()
        if self._summary is None:
            self._summary = self._summarize().with_skipped(self._nulls, self._nans)
        return self._summary

    def to_bytes(self) -> bytes:
        """Serialize the whole state: from_bytes() continues exactly from here."""
        self._flush()
        frame = self._start_frame(MAGIC, VERSION)
        frame.tail(self._running.tail)
        frame.number(self._leaf)
        frame.number(self._filled)
        frame.array(self._block[: self._filled])
        running = self._running.summary(self._kind())
        frame.summaries([] if running is None else [running])
        frame.number(self._running.has_summaries)
        frame.summaries(self._pool)
        return frame.finish()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Restore a sketch from the bytes of to_bytes(), also from those of earlier versions, without a tail."""
        frame = FrameReader(MAGIC, data, VERSION)
        tail = frame.tail() if frame.version >= 3 else None
        sketch = cls(frame.eps, frame.nan, frame.type_name, tail)
        if frame.version >= 3:
            sketch._leaf = frame.number(MAX_LEAF)
            frame.require(sketch._leaf in (leaf_for(frame.eps, None), leaf_for(frame.eps, 1.0)))  # 1.0: any tail
            sketch._running = RunningSummary(frame.eps, tail, sketch._leaf)
        sketch._nulls, sketch._nans = frame.nulls, frame.nans
        sketch._read_state(frame)
        frame.require(sketch.n <= MAX_N)
        frame.finish()
        sketch._invalidate()
        return sketch

    def _insert(self, column: ValueColumn) -> None:
        """Insert whole blocks into a copy of the running summary, and check the rest for NaN, before any change."""
        kind = self._type or column.type
        if kind is None or not len(column):
            return
        cutter, running, ranks = (
            BlockCutter(self.leaf),
            self._running.copy(),
            sampled_ranks(self._eps, self.tail, self.leaf),
        )
        for piece in (self._block[: self._filled], *column.pieces):
            for run in cutter.cut(piece):
                for blocks in whole_blocks(run, self.leaf, kind.carrier):
                    rows = select_rows(blocks, ranks)
                    if rows is None:
                        raise nan_error()
                    running.insert_rows(rows, ranks, self.leaf)
        grown = running.n > self._running.n
        remainder = cutter.pending if grown or not self._filled else cutter.pending[1:]
        if any(has_nan(piece) for piece in remainder):
            raise nan_error()
        self._type = kind
        if grown:
            self._running, self._filled = running, 0
        self._extend(remainder)

    def _read_state(self, frame: FrameReader) -> None:
        """Read the open block, the running summary and the pool as to_bytes() writes them."""
        if frame.version == 1:
            self._restore_version_1(frame, *read_version_1(frame, is_uneven=False))
            return
        if filled := frame.number(self.leaf - 1):
            self._extend([frame.values(filled)])
        running, has_summaries, self._pool = frame.summaries(), bool(frame.number(1)), frame.summaries()
        frame.require(len(running) <= 1 and all(self._is_fine(s) for s in self._pool))
        frame.require(not self._is_pool_full() and (bool(running) or not has_summaries))
        frame.require(not running or self._running.restore(running[0], has_summaries))

    def _restore_version_1(self, frame: FrameReader, values: Array, summaries: list[Summary]) -> None:
        """Continue from the state of a sketch of version 0.1: its rows and summaries become the running summary."""
        if frame.kind is not None:
            self._running.insert_summaries(summaries)
            running = self._running.summary(frame.kind)
            frame.require(running is None or self._running.copy().restore(running, has_summaries=True))
            self._insert(ValueColumn(frame.kind, [values]))

    def _insert_summary(self, summary: Summary) -> None:
        self._pool = [*self._pool, summary.with_skipped(0, 0)]
        if self._is_pool_full():
            running = self._running.copy()
            running.insert_summaries(self._pool)
            self._running, self._pool = running, []

    def _is_pool_full(self) -> bool:
        return len(self._pool) > POOL_SIZE or sum(len(s) for s in self._pool) > _pool_tuples(self._eps)

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
        open_block = sorted_copy(self._block[: self._filled])
        kind, below = self._kind(), self._running.n + sum(s.n for s in self._pool)
        share = None if self.tail is None else SAMPLED / 2 * self.tail
        sampled = Summary.of_sorted(open_block, kind, max(1, int(OPEN * self._eps * below)), share)
        running = self._running.summary(kind)
        parts = [part for part in (running, *self._pool, sampled) if part is not None]
        return Summary.merge(*parts).compress(math.ceil(2 / self._eps), share) if below else sampled

    def _is_fine(self, summary: Summary) -> bool:
        """Return True if a summary can have been inserted without a change of the tail."""
        tail, own = summary.tail, self._running.tail
        return summary.error <= self._eps / 2 and (own is None or (tail is not None and 2 * tail * ROUNDING <= own))

    def _widen_tail(self, tail: float | None) -> None:
        """Promise the larger of two tails from now on, none if that is not below 1."""
        own = self._running.tail
        self._running.tail = None if own is None or tail is None or max(own, tail) >= 1 else max(own, tail)

    def _invalidate(self) -> None:
        """Drop the cached summary and start a new scalar buffer after a change."""
        self._summary = None
        self._reset_buffer()


def leaf_for(eps: float, tail: float | None) -> int:
    """Return the size of a block: large relative to the values sampled of it, small relative to a processor's cache."""
    leaf = MIN_LEAF
    while leaf < MAX_LEAF and leaf * eps < (16 if tail is None else 32):
        leaf *= 2
    return leaf


def _pool_tuples(eps: float) -> int:
    """Return how many tuples of inserted summaries are stored before they are merged."""
    return POOL_SIZE + math.ceil(1 / eps)


@lru_cache(maxsize=256)
def sampled_ranks(eps: float, tail: float | None, size: int) -> Ints:
    """Return the ranks that are sampled of a block: the first, the last, and those at gaps of SAMPLED * eps * size.

    With a tail, gaps are also at most SAMPLED * tail of the distance from either end.
    """
    step = max(1, int(SAMPLED * eps * size))
    if tail is None:
        ranks = np.unique(np.concatenate(([1], np.arange(step, size + 1, step), [size])))
    else:
        ranks = ranks_of_profile(size, step - 1, SAMPLED * tail)
    ranks.flags.writeable = False
    return ranks
