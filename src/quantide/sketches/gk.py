"""GKSketch: the classic sketch of Greenwald and Khanna, element by element."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from quantide.kernels.gk import compress, insert_all, most_gap
from quantide.sketches.base import Sketch
from quantide.sketches.frame import FrameReader
from quantide.summary.column import Column
from quantide.summary.ranks import MAX_N
from quantide.summary.summary import Summary

MAGIC = b"QTG"
LEAST_ROOM = 64


class GKSketch(Sketch):
    """GK01: the smallest of the deterministic sketches, and the slowest. A baseline, and a check on StreamSketch.

    Every answer is within eps * n ranks: tuples keep g + delta <= max(1, floor(2*eps*n)), which is the G of
    Summary. merge() and update_summary() keep that too, but the published bound on the number of tuples,
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
        self._missing = 0  # of the n, how many were never seen: lifted summaries speak of such
        self._size = 0
        self._set_tuples(np.empty(0, self._kind().carrier), np.empty(0, np.int64), np.empty(0, np.int64))

    @property
    def n(self) -> int:
        return self._n

    @property
    def nbytes(self) -> int:
        return self._values.nbytes + self._g.nbytes + self._delta.nbytes

    def summary(self) -> Summary:
        """All tuples, their rmax as low as their successors allow."""
        values, g, delta = (a[: self._size] for a in (self._values, self._g, self._delta))
        rmin, place = np.cumsum(g), np.arange(self._size)
        # delta is generous: it can put rmax above that of the next tuple, whose element stands at least one higher.
        rmax = np.minimum.accumulate((rmin + delta - place)[::-1])[::-1] + place
        return Summary(values.copy(), rmin, rmax, self._n, self._kind(), self._nulls, self._nans)

    def to_bytes(self) -> bytes:
        """The whole state: from_bytes() continues exactly as if never stopped."""
        frame = self._frame(MAGIC)
        frame.number(self._missing)
        frame.number(self._size)
        for array in (self._values, self._g, self._delta):
            frame.array(array[: self._size])
        return frame.finish()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """A sketch in exactly the state that to_bytes() wrote."""
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
            most = max(1, int(2 * frame.eps * n))
            frame.require(n <= MAX_N and int((g + delta).max()) <= most)
            frame.require(bool(g[0] == 1 and delta[0] <= missing and delta[-1] == missing))
            sketch._size, sketch._n, sketch._missing = size, n, missing
            sketch._set_tuples(values, g, delta)
        frame.require(size > 0 or missing == 0)
        frame.finish()
        return sketch

    def _take(self, column: Column) -> None:
        column.check_nan()
        self._type = self._type or (column.type if len(column) else None)
        arrivals = column.carried()
        if self._values.dtype != arrivals.dtype and len(arrivals):
            self._set_tuples(np.empty(0, arrivals.dtype), self._g, self._delta)
        while len(arrivals):
            self._size, taken = insert_all(
                arrivals, self._values, self._g, self._delta, self._size, self._n, self._missing, self._eps
            )
            self._n += taken
            arrivals = arrivals[taken:]
            if len(arrivals):
                self._grow()

    def _take_summary(self, summary: Summary) -> None:
        """Merge as summaries do: G adds up, and so stays within 2*eps*n; then compress as usual."""
        merged = Summary.merge(self.summary(), summary)
        self._type = merged.type
        g = np.diff(merged.rmin, prepend=0)
        delta = merged.rmax - merged.rmin
        self._n, self._size = merged.n, len(merged)
        self._missing = merged.n - int(merged.rmin[-1])
        self._set_tuples(merged.carried.copy(), g, delta)
        self._size = compress(self._values, self._g, self._delta, self._size, most_gap(self._eps, self._n))

    def _take_sketch(self, other: Self) -> None:
        if other.n:
            self._take_summary(other.summary())

    def _set_tuples(self, values: NDArray[Any], g: NDArray[np.int64], delta: NDArray[np.int64]) -> None:
        self._values, self._g, self._delta = values, g, delta

    def _grow(self) -> None:
        room = max(LEAST_ROOM, 2 * self._size)
        carrier = self._kind().carrier
        arrays = []
        for old, dtype in ((self._values, carrier), (self._g, np.int64), (self._delta, np.int64)):
            larger = np.empty(room, dtype=dtype)
            larger[: self._size] = old[: self._size]
            arrays.append(larger)
        self._set_tuples(*arrays)
