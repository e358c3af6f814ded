"""Sketch: what all summaries of a whole growing stream have in common."""

from abc import abstractmethod
from typing import Any, Self

from quantide.errors import MergeError, TypeMismatchError
from quantide.sketches.singles import Singles
from quantide.summary.column import Column
from quantide.summary.ranks import check_count
from quantide.summary.summary import Summary


class Sketch(Singles):
    """Takes values, summaries and its like. A subclass keeps them."""

    def update(self, values: Any, nan: str | None = None) -> None:
        """Take values of any source and number: numpy, Arrow, pandas, polars, lists, single numbers.

        All of them or, when it raises, none. `nan` overrides the sketch's own rule for this call.
        """
        column = self._read(values, nan)
        self._take(column)
        self._note(column)

    def update_summary(self, summary: Summary) -> None:
        """Take all the values behind a summary; its certified error may be at most eps/2."""
        self._check_summary(summary)
        if summary.n:
            self._take_summary(summary)
        self._note_summary(summary)

    def merge(self, other: Self) -> None:
        """Take everything another sketch of the same kind, eps and type has seen; the other is unchanged."""
        if type(other) is not type(self):
            raise MergeError(
                f"a {type(self).__name__} merges with its like, not with {type(other).__name__}; "
                "update_summary() takes the summary of any other"
            )
        if other._eps != self._eps:
            raise MergeError(
                f"a sketch of eps={other._eps} cannot be merged into one of eps={self._eps}; make both with one eps"
            )
        if None not in (self._type, other._type) and self._type != other._type:
            raise TypeMismatchError(
                f"a sketch of {other._type} cannot be merged into one of {self._type}; make both with one value_type"
            )
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

    def take_column(self, column: Column) -> None:
        self._take(column)
