"""Reads whatever a user hands over as values: numpy, Arrow, pandas, polars, lists, single numbers."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from quantide.errors import InvalidArgumentError, NaNError, QuantideError, TypeMismatchError
from quantide.summary.lists import arrow_of, mismatch, shown_values
from quantide.summary.types import (
    DECIMAL_DIGITS,
    SUPPORTED,
    ValueType,
    type_of_arrow,
    type_of_dtype,
)


@dataclass(frozen=True)
class Column:
    """Values without nulls, in pieces that need not be copied; `type` is None when nothing tells it."""

    type: ValueType | None
    pieces: list[NDArray[Any]]
    nulls: int = 0
    nans: int = 0

    def __len__(self) -> int:
        return sum(len(piece) for piece in self.pieces)

    def carried(self) -> NDArray[Any]:
        """A new array of the carrier type, in arrival order, with -0.0 as 0.0."""
        carrier = self.type.carrier if self.type else np.dtype(np.float64)
        out = np.empty(len(self), dtype=carrier)
        at = 0
        for piece in self.pieces:
            store(out[at : at + len(piece)], piece)
            at += len(piece)
        return out

    def carried_parts(self, most: int = 1 << 20) -> Iterator[NDArray[Any]]:
        """carried(), so many values at a time."""
        for piece in self.pieces:
            for at in range(0, len(piece), most):
                yield Column(self.type, [piece[at : at + most]]).carried()

    def check_nan(self) -> None:
        """Refuse NaN."""
        if any(has_nan(piece) for piece in self.pieces):
            raise nan_error()

    def without_nan(self) -> "Column":
        """The same values less NaN, which are counted."""
        if self.type is None or not self.type.is_float:
            return self
        pieces = [piece[~np.isnan(piece)] if has_nan(piece) else piece for piece in self.pieces]
        dropped = len(self) - sum(len(piece) for piece in pieces)
        return Column(self.type, pieces, self.nulls, self.nans + dropped)


@dataclass(frozen=True)
class Rows:
    """A column together with the places it came from: `valid` is None when no row is null."""

    column: Column
    length: int
    valid: NDArray[np.bool_] | None


def read_column(values: Any, expected: ValueType | None = None) -> Column:
    """The values as a column of the expected type, or of their own type when none is expected."""
    plain = plain_values(values)
    if isinstance(plain, list):
        plain = arrow_of(plain, expected)
    return _from_numpy(plain, expected) if isinstance(plain, np.ndarray) else _from_arrow(plain, expected)


def read_rows(values: Any, expected: ValueType | None = None) -> Rows:
    """The values as a column, as read_column() reads them, and which of the rows are not null."""
    plain = plain_values(values)
    if isinstance(plain, list) or (isinstance(plain, np.ndarray) and plain.dtype == object):
        plain = arrow_of(list(plain), expected)
    column = _from_numpy(plain, expected) if isinstance(plain, np.ndarray) else _from_arrow(plain, expected)
    if not column.nulls:
        return Rows(column, len(plain), None)
    valid = ~np.isnat(plain) if isinstance(plain, np.ndarray) else plain.is_valid().to_numpy(zero_copy_only=False)
    return Rows(column, len(plain), valid)


def plain_values(values: Any) -> Any:
    """Values of any source as a numpy array of one dimension, an Arrow array or a list."""
    try:
        plain = _plain(values)
    except QuantideError:
        raise
    except (pa.ArrowException, ValueError, TypeError, NotImplementedError, AttributeError, OverflowError) as error:
        raise TypeMismatchError(f"cannot read values from a {type(values).__name__}: {error}") from error
    if isinstance(plain, np.ndarray) and plain.ndim != 1:
        raise TypeMismatchError(f"values of shape {plain.shape} are not one-dimensional; flatten them with .ravel()")
    return plain


def _plain(values: Any) -> Any:
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    if isinstance(values, np.ma.MaskedArray):
        return _from_masked(values)
    if isinstance(values, (np.ndarray, np.generic)):
        return np.atleast_1d(values)
    if type(values).__module__.partition(".")[0] == "pandas" and hasattr(values, "dtype"):
        return values.to_numpy() if isinstance(values.dtype, np.dtype) else pa.array(values, from_pandas=False)
    if hasattr(values, "__arrow_c_stream__") or hasattr(values, "__arrow_c_array__"):
        return pa.chunked_array(values)
    if isinstance(values, pa.Scalar):
        return pa.array([values.as_py()], type=values.type)
    if hasattr(values, "__array__"):
        return np.atleast_1d(np.asarray(values))
    if isinstance(values, (str, bytes, dict)):
        raise TypeMismatchError(f"cannot read values from {shown_values(values)}; supported are {SUPPORTED}")
    return list(values) if isinstance(values, Iterable) else [values]


def _from_masked(values: Any) -> Any:
    """What is masked is null."""
    data, mask = np.atleast_1d(values.data), np.atleast_1d(np.ma.getmaskarray(values))
    if data.ndim != 1:
        return data
    if data.dtype == object or values is np.ma.masked:
        return [None if hidden else x for x, hidden in zip(data.tolist(), mask, strict=True)]
    return pa.array(data.astype(data.dtype.newbyteorder("=")), mask=mask)


def store(target: NDArray[Any], piece: NDArray[Any]) -> None:
    """Write a piece into an array of its carrier type, turning -0.0 into 0.0 on the way."""
    if target.dtype.kind == "f":
        np.add(piece, 0.0, out=target, casting="same_kind")
    else:
        np.copyto(target, piece.view(np.int64) if piece.dtype.kind in "mM" else piece)


def has_nan(piece: NDArray[Any]) -> bool:
    """Whether there is a NaN; a minimum finds out at the speed of memory."""
    if piece.dtype.kind != "f" or not len(piece):
        return False
    return bool(np.isnan(np.min(piece)))


def check_nan_policy(nan: str) -> str:
    if nan not in ("refuse", "skip"):
        raise InvalidArgumentError(f'nan={nan!r} is not a policy; use nan="refuse" or nan="skip"')
    return nan


def nan_error() -> NaNError:
    return NaNError('nan among the values has no rank; remove it, or pass nan="skip" to skip and count it')


def _from_numpy(values: NDArray[Any], expected: ValueType | None) -> Column:
    if values.dtype == object:
        return _from_arrow(arrow_of(values.tolist(), expected), expected)
    if not len(values):
        return Column(_type_of_nothing(values.dtype), [])
    kind = _fitting(type_of_dtype(values.dtype), expected)
    if not values.dtype.isnative:
        values = values.astype(values.dtype.newbyteorder("="))
    if not kind.is_temporal:
        return Column(kind, [values])
    missing = np.isnat(values)
    nulls = int(np.count_nonzero(missing))
    if nulls:
        values = values[~missing]
    _check_limits(values.view(np.int64), kind)
    return Column(kind, [values], nulls)


def _type_of_nothing(dtype: np.dtype[Any]) -> ValueType | None:
    try:
        return type_of_dtype(dtype)
    except TypeMismatchError:
        return None


def _check_limits(carried: NDArray[np.int64], kind: ValueType) -> None:
    """Dates have 32 bits, and the smallest 64-bit time means "not a time"."""
    low, high = kind.limits
    if len(carried) and (carried.min() < low or carried.max() > high):
        raise TypeMismatchError(f"a {kind} outside {low}..{high} is not supported")


def _from_arrow(values: Any, expected: ValueType | None) -> Column:
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    nulls = values.null_count
    if pa.types.is_null(values.type):
        return Column(None, [], nulls)
    kind = type_of_arrow(values.type)
    if nulls == len(values):
        return Column(kind, [], nulls)
    kind = _fitting(kind, expected)
    if nulls:
        values = values.drop_null()
    chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    pieces = [_chunk_to_numpy(chunk, kind) for chunk in chunks if len(chunk)]
    if kind.is_temporal:
        for piece in pieces:
            _check_limits(piece, kind)
    return Column(kind, pieces, nulls)


def _chunk_to_numpy(chunk: Any, kind: ValueType) -> NDArray[Any]:
    if not kind.is_decimal:
        if kind.name == "date":
            chunk = chunk.cast(pa.int32())
        elif kind.is_temporal:
            chunk = chunk.view(pa.int64())
        array: NDArray[Any] = chunk.to_numpy(zero_copy_only=True)
        return array
    words = np.frombuffer(chunk.buffers()[1], dtype=np.int64)[2 * chunk.offset : 2 * (chunk.offset + len(chunk))]
    low, high = words[0::2], words[1::2]
    largest = kind.limits[1]
    if chunk.type.precision > DECIMAL_DIGITS and np.any((high != low >> 63) | (low > largest) | (low < -largest)):
        raise TypeMismatchError(f"decimals of more than {DECIMAL_DIGITS} digits are not supported; cast to float64")
    return low


def _fitting(kind: ValueType, expected: ValueType | None) -> ValueType:
    if expected is None:
        return kind
    if not expected.holds(kind):
        raise mismatch(str(kind), expected)
    return expected
