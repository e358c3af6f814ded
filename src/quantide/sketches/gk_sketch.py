"""GKSketch: the classic sketch of Greenwald and Khanna, one value at a time."""

from typing import Any, Self

import numpy as np

from quantide.kernels.gk_insertion import compress, insert_arrivals, max_gap
from quantide.sketches.byte_frame import FrameReader
from quantide.sketches.sketch_base import SketchBase
from quantide.summary.ranks import MAX_N
from quantide.summary.summary import Summary
from quantide.summary.value_column import ValueColumn
from quantide.typing import Array, Ints

MAGIC = b"QTG"
MIN_CAPACITY = 64


class GKSketch(SketchBase):
    """GK01: the smallest and slowest of the deterministic sketches; a baseline for StreamSketch.

    Every answer is within eps * n ranks: tuples satisfy g + delta <= max(1, floor(2*eps*n)), which is the G of
    Summary. merge() and update_summary() preserve that too, but the published bound on the number of tuples,
    11/(2 eps) * log2(2*eps*n), is proved for update() only.

    >>> sketch = GKSketch(eps=0.05)
    >>> sketch.update(np.arange(1000.0))
    >>> sketch.error <= 0.05, len(sketch.summary()) < 100
    (True, True)

    Greenwald and Khanna, "Space-efficient online computation of quantile summaries", SIGMOD 2001.
    """

    def __init__(self, eps: float, nan: str = "refuse", value_type: str | None = None) -> None:
        super().__init__(eps, nan, value_type)
        self._n = 0
        self._missing = 0  # of the n values, those that lifted summaries count but never saw
        self._size = 0
        self._set_tuples(np.empty(0, self._kind().carrier), np.empty(0, np.int64), np.empty(0, np.int64))

    @property
    def n(self) -> int:
        return self._n

    @property
    def nbytes(self) -> int:
        return self._values.nbytes + self._g.nbytes + self._delta.nbytes

    def update(self, values: Any, nan: str | None = None, weights: Any = None) -> None:
        """Insert values: numpy, Arrow, pandas, polars, lists, single numbers.

        Inserts all of them or, if it raises, none. `nan` overrides the sketch's NaN policy for this call.
        `weights` are whole numbers, one for each value or one for all: a value of weight w counts as w equal values.
        Many of them are merged as update_summary() merges, for which the bound on the number of tuples is not proved.
        """
        if weights is None:
            column = self._read(values, nan)
            self.insert_column(column)
            self._record(column)
        else:
            self._update_weighted(values, weights, nan)

    def update_summary(self, summary: Summary) -> None:
        """Insert all values behind a summary; its certified error may be at most eps/2."""
        summary = self._check_summary(summary)
        if summary.n:
            self._insert_summary(summary)
        self._record_summary(summary)

    def merge(self, other: Self) -> None:
        """Insert everything that another sketch of the same class, eps and type contains; the other is unchanged."""
        self._check_mergeable(other)
        if other.n:
            self._insert_summary(other.summary())
        self._record_merge(other)

    def summary(self) -> Summary:
        """Return all tuples, with rmax as low as the next tuple allows."""
        values, g, delta = (a[: self._size] for a in (self._values, self._g, self._delta))
        rmin, index = np.cumsum(g), np.arange(self._size)
        # delta can put rmax above that of the next tuple, although that tuple's rank is at least one higher.
        rmax = np.minimum.accumulate((rmin + delta - index)[::-1])[::-1] + index
        return Summary(values.copy(), rmin, rmax, self._n, self._kind(), self._nulls, self._nans)

    def to_bytes(self) -> bytes:
        """Serialize the whole state: from_bytes() continues exactly from here."""
        frame = self._start_frame(MAGIC)
        frame.number(self._missing)
        frame.number(self._size)
        for array in (self._values, self._g, self._delta):
            frame.array(array[: self._size])
        return frame.finish()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Restore a sketch from the bytes of to_bytes()."""
        frame = FrameReader(MAGIC, data)
        sketch = cls(frame.eps, frame.nan, frame.type_name)
        sketch._nulls, sketch._nans = frame.nulls, frame.nans
        missing = frame.number(MAX_N)
        if size := frame.number(MAX_N):
            values, g, delta = (
                frame.sorted_values(size),
                *(frame.array(np.dtype(np.int64), size) for _ in "gd"),
            )
            frame.require(bool(g.min() >= 1 and g.max() <= MAX_N and delta.min() >= 0 and delta.max() <= MAX_N))
            n = sum(g.tolist()) + missing
            max_gap = max(1, int(2 * frame.eps * n))
            frame.require(n <= MAX_N and int((g + delta).max()) <= max_gap)
            frame.require(bool(g[0] == 1 and delta[0] <= missing and delta[-1] == missing))
            sketch._size, sketch._n, sketch._missing = size, n, missing
            sketch._set_tuples(values, g, delta)
        frame.require(size > 0 or missing == 0)
        frame.finish()
        return sketch

    def insert_column(self, column: ValueColumn) -> None:
        column.check_nan()
        self._type = self._type or (column.type if len(column) else None)
        values = column.carried()
        if self._values.dtype != values.dtype and len(values):
            self._set_tuples(np.empty(0, values.dtype), self._g, self._delta)
        while len(values):
            self._size, inserted = insert_arrivals(
                values, self._values, self._g, self._delta, self._size, self._n, self._missing, self._eps
            )
            self._n += inserted
            values = values[inserted:]
            if len(values):
                self._grow()

    def _insert_summary(self, summary: Summary) -> None:
        """Merge as summaries do, where G adds up and stays within 2*eps*n, then compress as usual."""
        merged = Summary.merge(self.summary(), summary)
        self._type = merged.type
        g = np.diff(merged.rmin, prepend=0)
        delta = merged.rmax - merged.rmin
        self._n, self._size = merged.n, len(merged)
        self._missing = merged.n - int(merged.rmin[-1])
        self._set_tuples(merged.carried.copy(), g, delta)
        self._size = compress(self._values, self._g, self._delta, self._size, max_gap(self._eps, self._n))

    def _set_tuples(self, values: Array, g: Ints, delta: Ints) -> None:
        self._values, self._g, self._delta = values, g, delta

    def _grow(self) -> None:
        capacity = max(MIN_CAPACITY, 2 * self._size)
        carrier = self._kind().carrier
        arrays = []
        for old, dtype in ((self._values, carrier), (self._g, np.int64), (self._delta, np.int64)):
            larger = np.empty(capacity, dtype=dtype)
            larger[: self._size] = old[: self._size]
            arrays.append(larger)
        self._set_tuples(*arrays)
