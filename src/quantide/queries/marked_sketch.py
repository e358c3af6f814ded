"""Marked sketch: a sketch of a whole stream that can be read cheaply after every block."""

import math
from typing import NamedTuple, Self

import numpy as np

from quantide.kernels.arrival_counts import MANY_ARRIVALS, count_arrivals, count_few_arrivals
from quantide.kernels.block_sort import sort_segments
from quantide.sketches.byte_frame import FrameReader
from quantide.sketches.level_rows import read_version_1
from quantide.sketches.stream_sketch import StreamSketch, sampled_ranks
from quantide.summary.summary import Summary
from quantide.summary.value_column import ValueColumn, has_nan, nan_error, store
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

    To count a sorted block against the marks costs less than to summarise the sketch again. The bounds are as good,
    and better as the stream grows: the marks' error in ranks stays the same. Marks become too coarse only if many
    arrivals fall between two of them, towards the ends of a sketch with a tail a few.

    Blocks of `leaf` values and more are sorted whole, not cut at every leaf-th value: after such a block nothing is
    left to sort. So the bytes depend on how values are divided into calls.
    """

    _below = 0  # values in the running summary and the pool, which n needs at every arrival

    def __init__(
        self, eps: float, nan: str = "refuse", value_type: str | None = None, tail: float | None = None
    ) -> None:
        super().__init__(eps, nan, value_type, tail)
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
        if rebuild or self._marks is None or len(self._marks[0]) < 2:  # one value has no place for others
            summary = self.summary()
            if not self._below:  # else it is compressed
                summary = summary.compress(math.ceil(2 / self._eps), None if self.tail is None else self.tail / 4)
            self.set_marks(summary, self.n)
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
        values, bounds = self._sort_blocks(column, kind)
        if self._counted:  # the marks have counted a part of these values: sort the rest for them
            counted = max(0, self._counted - self._filled)  # single values, which are one piece
            pieces = [column.pieces[0][counted:]] if counted else column.pieces
            self._count_pieces([self._block[self._counted : self._filled], *pieces], kind)
        elif self._marks is not None:
            count_arrivals(values, bounds, *self._marks)
        self._type = kind
        self._insert_blocks(values, bounds)
        self._below += self._filled + len(column)
        self._filled, self._counted = 0, 0

    def merge(self, *others: Self) -> None:
        raise NotImplementedError("sketches of a monitor cannot be merged")

    def _read_state(self, frame: FrameReader) -> None:
        if frame.version == 1:
            self._restore_version_1(frame, *read_version_1(frame, is_uneven=True))
        else:
            super()._read_state(frame)
        self._below = self._running.n + sum(s.n for s in self._pool)

    def _insert_summary(self, summary: Summary) -> None:
        super()._insert_summary(summary)
        self._below += summary.n
        self._marks = None

    def _sort_blocks(self, column: ValueColumn, kind: ValueType) -> tuple[Array, Ints]:
        """Return the open block and the column, and bounds of equal blocks of them, at least a leaf each.

        Each block is sorted. Raise on NaN.
        """
        values = _concatenate([self._block[: self._filled], *column.pieces], kind)
        size, larger = divmod(len(values), len(values) // self.leaf)
        indexes = np.arange(len(values) // self.leaf + 1)
        bounds = size * indexes + np.minimum(indexes, larger)
        sort_segments(values, bounds)
        if has_nan(values[bounds[1:] - 1]):
            raise nan_error()
        return values, bounds

    def _insert_blocks(self, values: Array, bounds: Ints) -> None:
        """Insert sorted blocks: first those with a value more than the others, then the others."""
        size = len(values) // (len(bounds) - 1)
        middle = bounds[len(values) % (len(bounds) - 1)]
        for blocks, width in ((values[:middle], size + 1), (values[middle:], size)):
            if len(blocks):
                ranks = sampled_ranks(self._eps, self.tail, width)
                self._running.insert_rows(blocks.reshape(-1, width).take(ranks - 1, axis=1), ranks, width)

    def _count_open_block(self) -> None:
        """Count new values of the open block and the buffer."""
        total = self._filled + len(self._scalars)
        if self._counted < total and self._marks is not None:
            block = self._block[self._counted : self._filled]
            singles = np.frombuffer(self._scalars, self._kind().carrier)[max(0, self._counted - self._filled) :]
            if MANY_ARRIVALS * (len(block) + len(singles)) > len(self._marks[0]):
                self._count_pieces([block, singles], self._kind())
            else:
                for piece in filter(len, (block, singles)):
                    count_few_arrivals(piece, *self._marks)
        self._counted = total

    def _count_pieces(self, pieces: list[Array], kind: ValueType) -> None:
        if self._marks is not None:
            arrived = _concatenate(pieces, kind)
            bounds = np.array([0, len(arrived)])
            sort_segments(arrived, bounds)
            count_arrivals(arrived, bounds, *self._marks)


def _concatenate(pieces: list[Array], kind: ValueType) -> Array:
    """Return one new array of the carrier type, -0.0 as 0.0."""
    out = np.empty(sum(len(piece) for piece in pieces), dtype=kind.carrier)
    at = 0
    for piece in filter(len, pieces):
        store(out[at : at + len(piece)], piece)
        at += len(piece)
    return out
