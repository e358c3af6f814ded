"""Marked sketch: a sketch of a whole stream that can be read cheaply after every block."""

import math
from typing import NamedTuple

import numpy as np

from quantide.kernels.arrival_counts import count_arrivals
from quantide.sketches.block_cutter import sort_rows
from quantide.sketches.byte_frame import FrameReader
from quantide.sketches.level_schedule import leaf_for, schedule_for
from quantide.sketches.level_stack import UnevenLevelStack
from quantide.sketches.stream_sketch import LEVELS, StreamSketch
from quantide.summary.summary import Summary
from quantide.summary.value_column import ValueColumn, store
from quantide.summary.value_types import ValueType
from quantide.typing import Array, Ints


class StreamTuples(NamedTuple):
    """Tuples of a valid summary of all values; `fresh` if they were rebuilt since the last arrival."""

    values: Array
    rmin: Ints
    rmax: Ints
    fresh: bool


class MarkedSketch(StreamSketch):
    """A StreamSketch with marks: the tuples of one of its summaries, kept valid by counting all later arrivals.

    To summarise a changed sketch all its rows are merged, which costs more than to add a block of values. To count a
    sorted block against the marks is cheap, and the bounds are as good, and better as the stream grows: the marks'
    error in ranks stays the same. Marks become too coarse only if many arrivals fall between two of them.

    Blocks of `leaf` values and more are sorted whole, not cut at every leaf-th value: after such a block nothing is
    left to sort. So the bytes depend on how values are divided into calls.
    """

    _below = 0  # values in the tower and in the ladder, which n needs at every arrival

    def __init__(self, eps: float, nan: str = "refuse", value_type: str | None = None) -> None:
        super().__init__(eps, nan, value_type)
        self._levels = UnevenLevelStack(schedule_for(LEVELS * self._eps, leaf_for(self._eps) // 2))
        self._marks: tuple[Array, Ints, Ints] | None = None
        self._counted = 0  # values of the open block and the buffer that the marks have counted
        self.marked_n = 0  # n when the marks were built
        self.summary_count = 0  # times that marks were built

    @property
    def n(self) -> int:
        return self._below + self._filled + len(self._scalars)

    @property
    def kind(self) -> ValueType:
        return self._kind()

    def tuples(self, rebuild: bool = False) -> StreamTuples:
        """Return the current marks; build them from a summary with `rebuild`, or if there are none."""
        if rebuild or self._marks is None:
            self.set_marks(self.summary().compress(math.ceil(2 / self._eps)), self.n)
            self.summary_count += 1
        self._count_open_block()
        assert self._marks is not None
        return StreamTuples(*self._marks, self.marked_n == self.n)

    def set_marks(self, marks: Summary, marked_n: int) -> None:
        """Use a summary of all values as marks; they were built when n was `marked_n`."""
        self._marks = marks.carried.copy(), marks.rmin.copy(), marks.rmax.copy()
        self._counted, self.marked_n = self._filled + len(self._scalars), marked_n

    def marks(self) -> Summary | None:
        """Return the marks as a summary of all values; None if there are none."""
        if self._marks is None:
            return None
        values, rmin, rmax = (a.copy() for a in self.tuples()[:3])
        return Summary(values, rmin, rmax, self.n, self._kind())

    def _insert(self, column: ValueColumn) -> None:
        kind = self._type or column.type
        if kind is None or not len(column):
            return
        if self._filled + len(column) < self.leaf:
            column.check_nan()
            self._type = kind
            self._extend(column.pieces)
            return
        blocks = self._sort_blocks(column, kind)
        if self._counted:  # the marks have counted a part of these values: sort the rest for them
            counted = max(0, self._counted - self._filled)  # single values, which are one piece
            pieces = [column.pieces[0][counted:]] if counted else column.pieces
            self._count_arrivals(np.sort(_concatenate([self._block[self._counted : self._filled], *pieces], kind)))
        else:
            for block in blocks:
                self._count_arrivals(block)
        self._type = kind
        assert isinstance(self._levels, UnevenLevelStack)
        for block in blocks:
            self._levels.add_block(block)
        self._below += self._filled + len(column)
        self._stacked, self._filled, self._counted = None, 0, 0

    def _read_state(self, frame: FrameReader) -> None:
        super()._read_state(frame)
        self._below = self._levels.n + self._summaries.n

    def _insert_summary(self, summary: Summary) -> None:
        super()._insert_summary(summary)
        self._below += summary.n
        self._marks = None

    def _sort_blocks(self, column: ValueColumn, kind: ValueType) -> list[Array]:
        """Return the open block and the column as equal blocks of at least a leaf, each sorted; raise on NaN."""
        values = _concatenate([self._block[: self._filled], *column.pieces], kind)
        count = len(values) // self.leaf
        parts = np.array_split(values, count) if count > 1 else [values]
        return [np.ascontiguousarray(sort_rows(part[None, :])[0]) for part in parts]

    def _count_open_block(self) -> None:
        """Count new values of the open block and the buffer."""
        total = self._filled + len(self._scalars)
        if self._counted < total:
            singles = np.array(self._scalars[max(0, self._counted - self._filled) :], dtype=self._kind().carrier)
            self._count_arrivals(
                np.sort(_concatenate([self._block[self._counted : self._filled], singles], self._kind()))
            )
            self._counted = total

    def _count_arrivals(self, arrived: Array) -> None:
        if self._marks is not None:
            count_arrivals(arrived, *self._marks)


def _concatenate(pieces: list[Array], kind: ValueType) -> Array:
    """Return one new array of the carrier type, -0.0 as 0.0."""
    out = np.empty(sum(len(piece) for piece in pieces), dtype=kind.carrier)
    at = 0
    for piece in filter(len, pieces):
        store(out[at : at + len(piece)], piece)
        at += len(piece)
    return out
