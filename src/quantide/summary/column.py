"""Reads whatever a user hands over as values: numpy, Arrow, pandas, polars, lists, single numbers."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from quantide.errors import InvalidArgumentError, NaNError, TypeMismatchError
from quantide.summary.types import (
    DECIMAL_DIGITS,
    FLOATS,
    INTEGERS,
    SUPPORTED,
    ValueType,
    type_of_arrow,
    type_of_dtype,
)


@dataclass(frozen=True)
class Column:
    """Values without nulls, in pieces that need not be copied; `type` is None when there is no value at all."""

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
    plain = _plain(values)
    if isinstance(plain, list):
        return _from_python(plain, expected)
    return _from_numpy(plain, expected) if isinstance(plain, np.ndarray) else _from_arrow(plain, expected)


def read_rows(values: Any) -> Rows:
    """The values as a column, and which of the rows are not null."""
    plain = _plain(values)
    if isinstance(plain, list) or (isinstance(plain, np.ndarray) and plain.dtype == object):
        plain = _arrow_of(list(plain))
    column = _from_numpy(plain, None) if isinstance(plain, np.ndarray) else _from_arrow(plain, None)
    if not column.nulls:
        return Rows(column, len(plain), None)
    valid = ~np.isnat(plain) if isinstance(plain, np.ndarray) else plain.is_valid().to_numpy(zero_copy_only=False)
    return Rows(column, len(plain), valid)


def _plain(values: Any) -> Any:
    """Values of any source as a numpy array, an Arrow array or a list."""
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    if isinstance(values, np.ma.MaskedArray):
        return pa.array(values.data, mask=np.ma.getmaskarray(values))
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
        raise TypeMismatchError(f"cannot read values from {_shown(values)}; supported are {SUPPORTED}")
    return list(values) if isinstance(values, Iterable) else [values]


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
    if values.ndim != 1:
        raise TypeMismatchError(f"values of shape {values.shape} are not one-dimensional; flatten them with .ravel()")
    if values.dtype == object:
        return _from_python(values.tolist(), expected)
    if not len(values):
        return Column(None, [])
    kind = _fitting(type_of_dtype(values.dtype), expected)
    if not values.dtype.isnative:
        values = values.astype(values.dtype.newbyteorder("="))
    if not kind.is_temporal:
        return Column(kind, [values])
    missing = np.isnat(values)
    nulls = int(np.count_nonzero(missing))
    if nulls:
        values = values[~missing]
    return Column(kind if len(values) else None, [values], nulls)


def _from_arrow(values: Any, expected: ValueType | None) -> Column:
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    nulls = values.null_count
    if pa.types.is_null(values.type) or nulls == len(values):
        return Column(None, [], nulls)
    kind = _fitting(type_of_arrow(values.type), expected)
    if nulls:
        values = values.drop_null()
    chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    return Column(kind, [_chunk_to_numpy(chunk, kind) for chunk in chunks if len(chunk)], nulls)


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


def _from_python(values: list[Any], expected: ValueType | None) -> Column:
    """Python's own numbers have no fixed type: they take the expected one when no value changes by it."""
    array = _arrow_of(values)
    if expected is None or array.null_count == len(array):
        return _from_arrow(array, expected)
    kind = type_of_arrow(array.type)
    if kind != expected:
        if not _comparable(kind, expected):
            raise _mismatch(str(kind), expected)
        try:
            cast = array.cast(expected.arrow)
        except pa.ArrowException as error:
            raise _mismatch(f"{kind} such as {_shown(values)}", expected) from error
        if expected.name == "float32" and not cast.cast(array.type).equals(array):
            raise _mismatch(f"{kind} such as {_shown(values)}, which are not float32 exactly,", expected)
        array = cast
    return _from_arrow(array, expected)


def _arrow_of(values: list[Any]) -> pa.Array:
    if bool in set(map(type, values)):
        raise TypeMismatchError(f"cannot read values from {_shown(values)}: True and False have no rank")
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
        raise TypeMismatchError(
            f"cannot read values from {_shown(values)}: {error}; supported are {SUPPORTED}"
        ) from error


def _comparable(kind: ValueType, expected: ValueType) -> bool:
    plain = (*FLOATS, *INTEGERS)
    if expected.name in plain:
        return kind.name in plain
    if expected.is_decimal:
        return kind.is_decimal or kind.name in INTEGERS
    return kind.dtype.kind == expected.dtype.kind and ("tz=" in kind.name) == ("tz=" in expected.name)


def _fitting(kind: ValueType, expected: ValueType | None) -> ValueType:
    if expected is None:
        return kind
    if not expected.holds(kind):
        raise _mismatch(str(kind), expected)
    return expected


def _mismatch(found: str, expected: ValueType) -> TypeMismatchError:
    return TypeMismatchError(
        f"values of type {found} do not fit among {expected} values; cast them to {expected} first"
    )


def _shown(values: Any) -> str:
    text = repr(values)
    return text if len(text) <= 60 else text[:57] + "..."
