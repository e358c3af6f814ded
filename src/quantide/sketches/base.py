"""Sketch: what all summaries of a growing stream have in common."""

from abc import abstractmethod
from typing import Any, Self

from quantide.errors import MergeError, TooCoarseError, TypeMismatchError
from quantide.summary.column import Column, check_nan_policy, read_column
from quantide.summary.questions import Questions
from quantide.summary.ranks import check_count, check_eps
from quantide.summary.summaries import Summaries
from quantide.summary.summary import Summary
from quantide.summary.types import ValueType, type_named


class Sketch(Questions):
    """Keeps the input rules: types, nulls, NaN, counts. A subclass keeps the values."""

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
        """How many values have arrived."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Memory held, in bytes."""

    def update(self, values: Any, nan: str | None = None) -> None:
        """Take values of any source and number: numpy, Arrow, pandas, polars, lists, single numbers.

        All of them or, when it raises, none. `nan` overrides the sketch's own rule for this call.
        """
        if isinstance(values, (Summary, Summaries)):
            raise TypeMismatchError(
                f"a {type(values).__name__} is not a block of values; use update_summary() for a Summary"
            )
        column = read_column(values, self._type)
        check_count(self.n + len(column))
        if (self._nan if nan is None else check_nan_policy(nan)) == "skip":
            column = column.without_nan()
        self._take(column)
        self._nulls += column.nulls
        self._nans += column.nans
        if len(column):
            self._type = self._type or column.type

    def update_summary(self, summary: Summary) -> None:
        """Take all the values behind a summary; its certified error may be at most eps/2."""
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
            raise TypeMismatchError(f"a summary of {summary.type} does not fit into a sketch of {self._type}")
        check_count(self.n + summary.n)
        if summary.n:
            self._take_summary(summary)
            self._type = summary.type
        self._nulls += summary.nulls
        self._nans += summary.nans

    def merge(self, other: Self) -> None:
        """Take everything another sketch of the same kind, eps and type has seen; the other is unchanged."""
        if type(other) is not type(self):
            raise MergeError(f"a {type(self).__name__} merges with its like, not with {type(other).__name__}")
        if other._eps != self._eps:
            raise MergeError(f"a sketch of eps={other._eps} cannot be merged into one of eps={self._eps}")
        if None not in (self._type, other._type) and self._type != other._type:
            raise TypeMismatchError(f"a sketch of {other._type} cannot be merged into one of {self._type}")
        check_count(self.n + other.n)
        self._take_sketch(other)
        self._type = self._type or other._type
        self._nulls += other._nulls
        self._nans += other._nans

    @abstractmethod
    def _take(self, column: Column) -> None:
        """Add the values; raise nan_error() and change nothing when there is a NaN."""

    @abstractmethod
    def _take_summary(self, summary: Summary) -> None:
        """Add the values behind a summary that fits."""

    @abstractmethod
    def _take_sketch(self, other: Self) -> None:
        """Add what another sketch of the same eps and type holds."""

    def _kind(self) -> ValueType:
        return self._type or type_named("float64")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(eps={self._eps}, n={self.n}, type={self._type}, nbytes={self.nbytes})"
