"""What a monitor watches: a whole stream, read cheaply at the end of every block."""

from array import array
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quantide.kernels.marks import count, grid_of
from quantide.sketches.stream import StreamSketch
from quantide.summary.column import plain_values, read_column
from quantide.summary.summary import Summary
from quantide.summary.types import ValueType, type_named

Ints = NDArray[np.int64]
Values = NDArray[Any]

CELLS = 1 << 12  # of the table that says about where among the marks a value is
WAITING = 1 << 19  # arrivals that are counted one by one; with more a new summary is cheaper


class Tuples(NamedTuple):
    """A valid summary of everything that has arrived, and whether it was made just now."""

    values: Values
    rmin: Ints
    rmax: Ints
    fresh: bool


class Stream:
    """A StreamSketch, and marks: the tuples of one of its summaries, kept true by counting what arrived since.

    The summary of a sketch that has changed is merged from all its rows, which costs more than taking a block of
    values. Counting where values fall among marks costs less, gives bounds that are as good, and better ones as the
    stream grows: the marks' error stays what it was in ranks. Only arrivals that crowd into one gap wear marks out.
    """

    def __init__(self, eps: float, nan: str, value_type: str | None) -> None:
        self.sketch = StreamSketch(eps, nan, value_type)
        self.n = 0
        self.summaries = 0  # how often marks were made
        self._marks: tuple[Values, Ints, Ints] | None = None
        self._grid: tuple[Ints, float, float] | None = None
        self._counted = 0  # how many elements the marks speak of
        self._waiting: list[Values] = []
        self._singles: array[float] = array("d")

    @property
    def type(self) -> ValueType:
        return self.sketch.type or type_named("float64")

    def update(self, values: Any, nan: str | None = None) -> None:
        """Take values; those that marks must be told of wait until the marks are read."""
        if type(values) is float and nan is None:
            self.sketch.update(values)
            self.n = self.sketch.n
            if self._marks is not None and values == values:
                self._singles.append(values)
            return
        plain = plain_values(values)
        self.sketch.update(plain, nan)
        self.n = self.sketch.n
        if self._marks is None:
            return
        if self.n - self._counted > WAITING:
            self._forget()
        else:
            self._wait_singles()
            self._waiting.append(read_column(plain, self.type).without_nan().carried())

    def update_summary(self, summary: Summary) -> None:
        self.sketch.update_summary(summary)
        self.n = self.sketch.n
        self._forget()

    def summary(self) -> Summary:
        return self.sketch.summary()

    def tuples(self, anew: bool = False) -> Tuples:
        """The marks as they are now; `anew`, or when there are none, from the sketch."""
        if anew or self._marks is None or self.n - self._counted > WAITING:
            self._mark()
            fresh = True
        else:
            fresh = self._count()
        values, rmin, rmax = self._held()
        return Tuples(values, rmin, rmax, fresh)

    def set_marks(self, marks: Summary | None) -> None:
        """Take these tuples of everything there is as marks."""
        self._forget()
        if marks is not None:
            self._marks = marks.carried.copy(), marks.rmin.copy(), marks.rmax.copy()
            self._grid = grid_of(self._marks[0], CELLS)
            self._counted = self.n

    def marks(self) -> Summary | None:
        """The marks as a summary of everything there is."""
        if self._marks is None or self.n - self._counted > WAITING:
            return None
        self._count()
        values, rmin, rmax = (a.copy() for a in self._held())
        return Summary(values, rmin, rmax, self.n, self.type)

    def _held(self) -> tuple[Values, Ints, Ints]:
        assert self._marks is not None
        return self._marks

    def _mark(self) -> None:
        self.set_marks(self.sketch.summary().compress(int(np.ceil(2 / self.sketch.eps))))
        self.summaries += 1

    def _count(self) -> bool:
        """Count what waits; whether nothing did."""
        self._wait_singles()
        assert self._grid is not None
        for arrived in self._waiting:
            count(arrived, *self._held(), *self._grid)
            self._counted += len(arrived)
        nothing = not self._waiting
        self._waiting = []
        return nothing

    def _wait_singles(self) -> None:
        if self._singles:
            self._waiting.append(np.frombuffer(self._singles, dtype=np.float64).astype(self.type.carrier))
            self._singles = array("d")

    def _forget(self) -> None:
        self._marks, self._grid = None, None
        self._waiting, self._singles = [], array("d")
