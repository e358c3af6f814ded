"""What a monitor watches: a sketch of a whole stream that can be read cheaply at the end of every block."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quantide.kernels.marks import count
from quantide.sketches.blocks import sort_rows
from quantide.sketches.frame import FrameReader
from quantide.sketches.schedule import leaf_for, schedule_for
from quantide.sketches.stream import TOWER, StreamSketch
from quantide.sketches.uneven import UnevenTower
from quantide.summary.column import Column, store
from quantide.summary.summary import Summary
from quantide.summary.types import ValueType

Ints = NDArray[np.int64]
Values = NDArray[Any]


class Tuples(NamedTuple):
    """A valid summary of everything that has arrived, and whether it was made just now."""

    values: Values
    rmin: Ints
    rmax: Ints
    fresh: bool


class MarkedSketch(StreamSketch):
    """A StreamSketch with marks: the tuples of one of its summaries, kept true by counting all that arrives since.

    The summary of a sketch that has changed is merged from all its rows, which costs more than taking a block of
    values. Where values of a sorted block fall among marks is found in passing, gives bounds as good, and better
    ones as the stream grows: the marks' error stays what it was in ranks. Only arrivals that crowd into one gap
    between marks wear them out.

    Blocks of `leaf` values and more are sorted as they come, not cut at every leaf-th value: at the end of such a
    block nothing is left to sort. So the bytes depend on how values are cut into calls.
    """

    _below = 0  # how many values are in the tower and in the ladder: asked for at every arrival

    def __init__(self, eps: float, nan: str = "refuse", value_type: str | None = None) -> None:
        super().__init__(eps, nan, value_type)
        self._tower = UnevenTower(schedule_for(TOWER * self._eps, leaf_for(self._eps) // 2))
        self._marks: tuple[Values, Ints, Ints] | None = None
        self._counted = 0  # how many the marks have counted of the open block and those that wait to join it
        self.marked_at = 0  # the n of which marks were made
        self.marked = 0  # how often that was

    @property
    def n(self) -> int:
        return self._below + self._filled + len(self._singles)

    @property
    def kind(self) -> ValueType:
        return self._kind()

    def tuples(self, anew: bool = False) -> Tuples:
        """The marks as they are now; `anew`, or when there are none, from a summary."""
        if anew or self._marks is None:
            self.set_marks(self.summary().compress(math.ceil(2 / self._eps)), self.n)
            self.marked += 1
        self._count_open()
        assert self._marks is not None
        return Tuples(*self._marks, self.marked_at == self.n)

    def set_marks(self, marks: Summary, made_at: int) -> None:
        """Take these tuples of everything there is as marks; they were made when n was `made_at`."""
        self._marks = marks.carried.copy(), marks.rmin.copy(), marks.rmax.copy()
        self._counted, self.marked_at = self._filled + len(self._singles), made_at

    def marks(self) -> Summary | None:
        """The marks as a summary of everything there is."""
        if self._marks is None:
            return None
        values, rmin, rmax = (a.copy() for a in self.tuples()[:3])
        return Summary(values, rmin, rmax, self.n, self._kind())

    def _take(self, column: Column) -> None:
        kind = self._type or column.type
        if kind is None or not len(column):
            return
        if self._filled + len(column) < self.leaf:
            column.check_nan()
            self._type = kind
            self._extend(column.pieces)
            return
        blocks = self._sorted(column, kind)
        if self._counted:  # of what was sorted now, the marks know a part: the rest is sorted for them
            known = max(0, self._counted - self._filled)  # single values, which come as one piece
            pieces = [column.pieces[0][known:]] if known else column.pieces
            self._count(np.sort(_joined([self._block[self._counted : self._filled], *pieces], kind)))
        else:
            for block in blocks:
                self._count(block)
        self._type = kind
        assert isinstance(self._tower, UnevenTower)
        for block in blocks:
            self._tower.add_block(block)
        self._below += self._filled + len(column)
        self._settled, self._filled, self._counted = None, 0, 0

    def _take_frame(self, frame: FrameReader) -> None:
        super()._take_frame(frame)
        self._below = self._tower.n + self._ladder.n

    def _take_summary(self, summary: Summary) -> None:
        super()._take_summary(summary)
        self._below += summary.n
        self._marks = None

    def _sorted(self, column: Column, kind: ValueType) -> list[Values]:
        """The open block and the column, cut into equal blocks of at least a leaf, each sorted; NaN is refused."""
        every = _joined([self._block[: self._filled], *column.pieces], kind)
        count = len(every) // self.leaf
        parts = np.array_split(every, count) if count > 1 else [every]
        return [np.ascontiguousarray(sort_rows(part[None, :])[0]) for part in parts]

    def _count_open(self) -> None:
        """Count what has joined the open block, or waits to."""
        waiting = self._filled + len(self._singles)
        if self._counted < waiting:
            singles = np.array(self._singles[max(0, self._counted - self._filled) :], dtype=self._kind().carrier)
            self._count(np.sort(_joined([self._block[self._counted : self._filled], singles], self._kind())))
            self._counted = waiting

    def _count(self, arrived: Values) -> None:
        if self._marks is not None:
            count(arrived, *self._marks)


def _joined(pieces: list[Values], kind: ValueType) -> Values:
    """One new array of the carrier type, -0.0 as 0.0."""
    out = np.empty(sum(len(piece) for piece in pieces), dtype=kind.carrier)
    at = 0
    for piece in filter(len, pieces):
        store(out[at : at + len(piece)], piece)
        at += len(piece)
    return out
