"""StreamSketch: a whole stream of unknown length, at the speed of sorting."""

import math
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from quantide.sketches.base import Sketch
from quantide.sketches.blocks import BlockCutter, sorted_blocks
from quantide.sketches.frame import FrameReader
from quantide.sketches.ladder import Ladder
from quantide.sketches.schedule import FAN, leaf_for, schedule_for
from quantide.sketches.singles import SINGLES
from quantide.sketches.tower import Tower
from quantide.summary.column import Column, has_nan, nan_error, store
from quantide.summary.ranks import MAX_N, check_eps, check_size
from quantide.summary.summary import Summary

MAGIC = b"QTK"
# How eps is shared out. Values go through the tower; a summary may bring FED of error and goes through the ladder.
# Both are compressed once when blocks have settled, and once more together with the open block when asked.
TOWER, FED, LADDER, SETTLED, ASKED = 11 / 16, 1 / 2, 11 / 64, 1 / 16, 1 / 4


class StreamSketch(Sketch):
    """Quantiles of everything that has arrived, each within eps * n ranks, at every moment.

    Blocks of `leaf` values are sorted and thinned into rows of evenly spaced ranks; FAN rows are sorted together
    and thinned into one of the next level. Until the first block is full every answer is exact. The same values
    in the same order give the same state, byte for byte, however they are cut into calls of update().

    Parameters: `eps`, the largest error as a fraction of n, in (0, 1); `nan`, "refuse" or "skip"; `value_type`,
    the name of the type to hold when it shall not be that of the first values.

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
        self._tower = Tower(schedule_for(TOWER * self._eps, leaf))
        self._ladder = Ladder(leaf, FED * self._eps, LADDER * self._eps)
        self._block: NDArray[Any] = np.empty(0)  # the open block; the first `_filled` places are in use
        self._filled = 0
        self._settled: Summary | None = None  # tower and ladder; None when they changed
        self._asked: Summary | None = None  # everything; None when anything changed
        self._changed()

    @property
    def leaf(self) -> int:
        """Values of a full block; below so many the sketch is exact."""
        return self._tower.schedule.leaf

    @property
    def n(self) -> int:
        return self._tower.n + self._ladder.n + self._filled + len(self._singles)

    @property
    def nbytes(self) -> int:
        """Memory held: rows, the open block, summaries taken in, and those kept to answer from.

        Sorting needs one more block for each thread, shared by all sketches.
        """
        kept = sum(s.nbytes for s in (self._settled, self._asked) if s is not None)
        singles = self._singles.itemsize * len(self._singles)
        return self._tower.nbytes + self._ladder.nbytes + self._block.nbytes + singles + kept

    @property
    def held(self) -> int:
        """How many values are held."""
        rows = sum(len(row) for rows in self._tower.levels for row in rows)
        return rows + sum(len(s) for s in self._ladder.held) + self._filled + len(self._singles)

    @staticmethod
    def max_nbytes(eps: float, n: int, itemsize: int = 8) -> int:
        """The most that `nbytes` reports after n values of `itemsize` bytes, not counting summaries fed in."""
        eps, n = check_eps(eps), check_size("n", n, 0)
        schedule = schedule_for(TOWER * eps, leaf_for(eps))
        values = min(schedule.leaf, 2 * n) + SINGLES
        for level, size in enumerate(schedule.size):
            top = level + 1 == len(schedule.size)
            values += (n // size if top else min(FAN - 1, n // size)) * schedule.length(level)
        tuples = n if n < schedule.leaf else min(n, _width(SETTLED, eps) + 1) + min(n, _width(ASKED, eps) + 1)
        return values * itemsize + tuples * (itemsize + 3 * 8)

    def update(self, values: Any, nan: str | None = None) -> None:
        if nan is None and self._wait(values):
            self._asked = None
            return
        self._join_singles()
        super().update(values, nan)
        self._changed()

    def update_summary(self, summary: Summary) -> None:
        self._join_singles()
        super().update_summary(summary)
        self._changed()

    def merge(self, other: Self) -> None:
        if isinstance(other, StreamSketch):
            other._join_singles()
        self._join_singles()
        super().merge(other)
        self._changed()

    def take_column(self, column: Column) -> None:
        self._take(column)
        self._asked = None

    def summary(self) -> Summary:
        """At most ceil(2/eps) + 1 tuples, certified within eps; while all values fit one block, all of them."""
        self._join_singles()
        if self._asked is None:
            self._asked = self._summarise().with_skipped(self._nulls, self._nans)
        return self._asked

    def to_bytes(self) -> bytes:
        """The whole state: from_bytes() continues exactly as if never stopped."""
        self._join_singles()
        frame = self._frame(MAGIC)
        frame.number(self._filled)
        frame.array(self._block[: self._filled])
        self._tower.write(frame)
        self._ladder.write(frame)
        return frame.finish()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """A sketch in exactly the state that to_bytes() wrote."""
        frame = FrameReader(MAGIC, data)
        sketch = cls(frame.eps, frame.nan, frame.type_name)
        sketch._nulls, sketch._nans = frame.nulls, frame.nans
        sketch._take_frame(frame)
        frame.require(sketch.n <= MAX_N)
        frame.finish()
        sketch._changed()
        return sketch

    def _take(self, column: Column) -> None:
        """Whole blocks go to a copy of the tower, the rest is looked at, and only then does the sketch change."""
        kind = self._type or column.type
        if kind is None or not len(column):
            return
        cutter, tower = BlockCutter(self.leaf), self._tower.copy()
        for piece in (self._block[: self._filled], *column.pieces):
            for run in cutter.cut(piece):
                for blocks in sorted_blocks(run, self.leaf, kind.carrier):
                    tower.add_blocks(blocks)
        grown = tower.n > self._tower.n
        fresh = cutter.waiting if grown or not self._filled else cutter.waiting[1:]
        if any(has_nan(piece) for piece in fresh):
            raise nan_error()
        self._type = kind
        if grown:
            self._tower, self._settled, self._filled = tower, None, 0
        self._extend(fresh)

    def _take_frame(self, frame: FrameReader) -> None:
        """Take the open block, the tower and the ladder that to_bytes() wrote."""
        if filled := frame.number(self.leaf - 1):
            self._extend([frame.values(filled)])
        self._tower.read(frame)
        self._ladder.read(frame, most_error=(FED + LADDER) * self._eps)

    def _take_summary(self, summary: Summary) -> None:
        self._ladder.add(summary.with_skipped(0, 0))
        self._settled = None

    def _take_sketch(self, other: Self) -> None:
        opened = other._block[: other._filled].copy()
        tower, ladder = self._tower.copy(), self._ladder.copy()
        tower.add(other._tower)
        ladder.add_all(other._ladder)
        self._tower, self._ladder, self._settled = tower, ladder, None
        self._take(Column(other._type, [opened]))

    def _extend(self, pieces: list[NDArray[Any]]) -> None:
        """Append to the open block, which has room for them, and grows by doubling until it is a leaf."""
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

    def _summarise(self) -> Summary:
        opened = np.sort(self._block[: self._filled])
        if not self._tower.levels and not self._ladder.held:
            return Summary.of_sorted(opened, self._kind())
        if self._settled is None:
            rows = [self._tower.summary(self._kind())] if self._tower.levels else []
            self._settled = Summary.merge(*rows, *self._ladder.held).compress(_width(SETTLED, self._eps))
        step = self._tower.schedule.spacing[0] if self._tower.levels else 1
        tail = Summary.of_sorted(opened, self._kind(), step)
        return Summary.merge(self._settled, tail).compress(_width(ASKED, self._eps))

    def _changed(self) -> None:
        self._asked = None
        self._expect_singles()


def _width(share: float, eps: float) -> int:
    """The number b for which compress(b) adds at most this share of eps."""
    return math.ceil(1 / (2 * share * eps))
