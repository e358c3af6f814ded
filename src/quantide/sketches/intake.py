"""Intake: the rules by which values and summaries come in, the same for every sketch and window."""

from abc import abstractmethod
from typing import Any

import numpy as np

from quantide.errors import TooCoarseError, TypeMismatchError
from quantide.sketches.frame import FrameWriter
from quantide.summary.column import Column, check_nan_policy, read_column
from quantide.summary.copying import CopiedByBytes
from quantide.summary.questions import Questions
from quantide.summary.ranks import check_count, check_eps
from quantide.summary.summaries import Summaries
from quantide.summary.summary import Summary
from quantide.summary.types import ValueType, type_named


class Intake(CopiedByBytes, Questions):
    """Types, nulls, NaN and counts. A subclass keeps the values."""

    def __init__(self, eps: float, nan: str = "refuse", value_type: str | None = None) -> None:
        self._eps = check_eps(eps)
        self._nan = check_nan_policy(nan)
        self._type: ValueType | None = type_named(value_type) if value_type is not None else None
        self._nulls = 0
        self._nans = 0

    @property
    def eps(self) -> float:
        """The promise: no answer is further than eps * n ranks from its target."""
        return self._eps

    @property
    def type(self) -> ValueType | None:
        """The type of the values; None before the first one."""
        return self._type

    @property
    def nulls(self) -> int:
        """How many nulls were skipped."""
        return self._nulls

    @property
    def nans(self) -> int:
        """How many NaN were skipped, with nan="skip"."""
        return self._nans

    @property
    @abstractmethod
    def n(self) -> int:
        """How many values an answer speaks of."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Memory held, in bytes."""

    @property
    def arrived(self) -> int:
        """How many values have ever come; a window holds fewer."""
        return self.n

    def _read(self, values: Any, nan: str | None) -> Column:
        """Values of any source as a column of the held type; NaN are still in it unless they are to be skipped."""
        if isinstance(values, (Summary, Summaries)):
            raise TypeMismatchError(
                f"a {type(values).__name__} is not a block of values; use update_summary() for a Summary"
            )
        column = read_column(values, self._type)
        check_count(self.arrived + len(column))
        if (self._nan if nan is None else check_nan_policy(nan)) == "skip":
            column = column.without_nan()
        return column

    def _note(self, column: Column) -> None:
        """Note what was skipped, and of what type the values are."""
        self._nulls += column.nulls
        self._nans += column.nans
        if len(column):
            self._type = self._type or column.type

    def _check_summary(self, summary: Summary) -> None:
        """Refuse what is no summary, too coarse, of another type, or too much."""
        if not isinstance(summary, Summary):
            raise TypeMismatchError(
                f"a Summary is asked for here, not {type(summary).__name__}; use update() for values"
            )
        if summary.error > self._eps / 2:
            raise TooCoarseError(
                f"a summary with a certified error of {summary.error:.3g} is too coarse for eps={self._eps:.3g}: "
                f"it must be within eps/2 = {self._eps / 2:.3g}; make it finer, or feed a sketch of larger eps"
            )
        if summary.n and self._type not in (None, summary.type):
            raise TypeMismatchError(
                f"a summary of {summary.type} does not fit into a sketch of {self._type}; cast its values first"
            )
        check_count(self.arrived + summary.n)

    def _note_summary(self, summary: Summary) -> None:
        self._nulls += summary.nulls
        self._nans += summary.nans
        if summary.n:
            self._type = summary.type

    def _frame(self, magic: bytes) -> FrameWriter:
        """What to_bytes() begins with."""
        return FrameWriter(magic, self._type, self._eps, self._nan == "skip", self._nulls, self._nans)

    def _nothing(self) -> Summary:
        """The summary of no values at all."""
        return Summary.of_sorted(np.empty(0, self._kind().carrier), self._kind()).with_skipped(self._nulls, self._nans)

    def _kind(self) -> ValueType:
        return self._type or type_named("float64")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(eps={self._eps}, n={self.n}, type={self._type}, nbytes={self.nbytes})"
