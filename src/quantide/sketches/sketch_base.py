"""Base of every sketch and window: input checks, counters, and the buffer for single values."""

from abc import abstractmethod
from array import array
from typing import Any, Self

import numpy as np

from quantide.errors import MergeError, TooCoarseError, TypeMismatchError
from quantide.sketches.byte_frame import FrameWriter
from quantide.summary.copying import CopiedByBytes
from quantide.summary.quantile_queries import QuantileQueries
from quantide.summary.ranks import MAX_N, check_count, check_eps
from quantide.summary.summaries import Summaries
from quantide.summary.summary import Summary
from quantide.summary.unproved_summary import refuse_unproved
from quantide.summary.value_column import ValueColumn, check_nan_policy, read_column
from quantide.summary.value_types import ValueType, type_named
from quantide.summary.weighted_values import WeightedValues, read_weighted

BUFFER_SIZE = 4096  # single values that are inserted together
SCALAR_TYPES = {  # Python types that need no conversion to a value type, and the array code that stores them
    "float64": (frozenset((float, np.float64)), "d"),
    "int64": (frozenset((int, np.int64)), "q"),
    "float32": (frozenset((np.float32,)), "f"),
}


class SketchBase(CopiedByBytes, QuantileQueries):
    """Checks types, nulls, NaN and counts, and buffers single values. A subclass stores the values.

    A subclass that calls `_buffer()` must call `_flush()` before it reads its own state.
    """

    def __init__(self, eps: float, nan: str = "refuse", value_type: str | None = None) -> None:
        self._eps = check_eps(eps)
        self._nan = check_nan_policy(nan)
        self._type: ValueType | None = type_named(value_type) if value_type is not None else None
        self._nulls = 0
        self._nans = 0
        self._scalar_types: frozenset[type] = frozenset()  # types that may be buffered
        self._scalars: array[Any] = array("d")

    @property
    def eps(self) -> float:
        """Promised error: no answer is further than eps * n ranks from its target."""
        return self._eps

    @property
    def type(self) -> ValueType | None:
        """Type of the values; None before the first one."""
        return self._type

    @property
    def nulls(self) -> int:
        """Number of skipped nulls."""
        return self._nulls

    @property
    def nans(self) -> int:
        """Number of NaN skipped with nan="skip"."""
        return self._nans

    @property
    @abstractmethod
    def n(self) -> int:
        """Number of values an answer covers."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Memory in use, in bytes."""

    @property
    def arrived(self) -> int:
        """Number of values ever inserted; a window covers fewer."""
        return self.n

    def insert_column(self, column: ValueColumn) -> None:
        """Insert values that were already read and checked; internal. Required of a subclass that buffers scalars."""
        raise NotImplementedError

    def _read(self, values: Any, nan: str | None) -> ValueColumn:
        """Read values from any source as a column of the sketch's type; drop NaN only if the policy is "skip"."""
        if isinstance(values, (Summary, Summaries)):
            raise TypeMismatchError(
                f"a {type(values).__name__} is not a block of values; use update_summary() for a Summary"
            )
        column = read_column(values, self._type)
        check_count(self.arrived + len(column))
        if (self._nan if nan is None else check_nan_policy(nan)) == "skip":
            column = column.without_nan()
        return column

    def _read_weighted(self, values: Any, weights: Any, nan: str | None) -> WeightedValues:
        """Read values and weights, and check them like _read(); NaN raises unless the policy is "skip"."""
        if isinstance(values, (Summary, Summaries)):
            raise TypeMismatchError(f"a {type(values).__name__} has no weights; use update_summary() for a Summary")
        weighted = read_weighted(values, weights, self._nan if nan is None else nan, self._type)
        check_count(self.arrived + weighted.total)
        return weighted

    def _update_weighted(self, values: Any, weights: Any, nan: str | None) -> None:
        """Insert weighted values: repeated if they are few, as one block would be, else as an exact summary."""
        weighted = self._read_weighted(values, weights, nan)
        if weighted.is_light:
            self.insert_column(weighted.repeated())
        else:
            self._insert_summary(self._check_summary(Summary.of_weighted(weighted)))
            self._type = weighted.type
        self._record(weighted.skipped())

    def _insert_summary(self, summary: Summary) -> None:
        """Insert a checked summary; internal. Required of a subclass that calls _update_weighted()."""
        raise NotImplementedError

    def _record(self, column: ValueColumn) -> None:
        """Update the counters of skipped values, and the type, after an insert."""
        self._nulls += column.nulls
        self._nans += column.nans
        if len(column):
            self._type = self._type or column.type

    def _check_summary(self, summary: Summary) -> Summary:
        """Raise unless this is a Summary of the same type, within eps/2, that fits below MAX_N.

        Return it with tuples whose gaps are within eps/2 also between tuples of one value.
        """
        refuse_unproved(summary)
        if not isinstance(summary, Summary):
            raise TypeMismatchError(
                f"update_summary() takes a Summary, not {type(summary).__name__}; use update() for values"
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
        return summary.fill_ties(max(1, int(self._eps * summary.n)))

    def _record_summary(self, summary: Summary) -> None:
        self._nulls += summary.nulls
        self._nans += summary.nans
        if summary.n:
            self._type = summary.type

    def _check_mergeable(self, *others: Self) -> None:
        """Raise unless the other sketches have the same class, eps and type."""
        kind, n = self._type, self.n
        for other in others:
            if type(other) is not type(self):
                raise MergeError(
                    f"a {type(self).__name__} merges only with its own class, not with {type(other).__name__}; "
                    "pass the summary of another class to update_summary()"
                )
            if other._eps != self._eps:
                raise MergeError(
                    f"a sketch of eps={other._eps} cannot be merged into one of eps={self._eps}; make both with one eps"
                )
            kind = kind or other._type
            if other._type not in (None, kind):
                raise TypeMismatchError(
                    f"a sketch of {other._type} cannot be merged into one of {kind}; make both with one value_type"
                )
            n += other.n
        check_count(n)

    def _record_merge(self, *others: Self) -> None:
        self._type = next((sketch._type for sketch in (self, *others) if sketch._type), None)
        self._nulls += sum(other._nulls for other in others)
        self._nans += sum(other._nans for other in others)

    def _buffer(self, value: Any) -> bool:
        """Append one plain value of the sketch's type to the buffer; return False for anything else."""
        if type(value) not in self._scalar_types or value != value:
            return False
        try:
            self._scalars.append(value)
        except OverflowError:  # an int beyond 64 bits
            return False
        if len(self._scalars) >= BUFFER_SIZE:
            self._flush()
        return True

    def _reset_buffer(self) -> None:
        """Start an empty buffer for the current type and count; near MAX_N nothing is buffered."""
        types, code = SCALAR_TYPES.get(self._type.name if self._type else "", (frozenset(), "d"))
        self._scalar_types = types if self.arrived <= MAX_N - BUFFER_SIZE else frozenset()
        self._scalars = array(code)

    def _flush(self) -> None:
        """Insert the buffered values."""
        if self._scalars:
            scalars, self._scalars = self._scalars, array(self._scalars.typecode)
            self.insert_column(ValueColumn(self._type, [np.frombuffer(scalars, dtype=self._kind().carrier)]))
            if self.arrived > MAX_N - BUFFER_SIZE:
                self._scalar_types = frozenset()

    def _start_frame(self, magic: bytes, version: int = 1) -> FrameWriter:
        """Return a frame with the header of to_bytes()."""
        return FrameWriter(magic, self._type, self._eps, self._nan == "skip", self._nulls, self._nans, version)

    def _empty_summary(self) -> Summary:
        return Summary.of_sorted(np.empty(0, self._kind().carrier), self._kind()).with_skipped(self._nulls, self._nans)

    def _carried(self, value: Any) -> Any:
        """Return a value of the sketch as the number that carries it."""
        column = read_column(np.array([value], dtype=self._kind().dtype), self._type)
        return next(iter(column.carried_parts()))[0]

    def _kind(self) -> ValueType:
        return self._type or type_named("float64")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(eps={self._eps}, n={self.n}, type={self._type}, nbytes={self.nbytes})"
