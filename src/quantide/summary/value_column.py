"""Value columns, read from any source: numpy, Arrow, pandas, polars, lists, single numbers."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quantide.errors import InvalidArgumentError, NaNError, QuantideError, TypeMismatchError
from quantide.summary.unproved_summary import refuse_unproved
from quantide.summary.value_types import (
    DECIMAL_DIGITS,
    FLOATS,
    INTEGERS,
    SUPPORTED,
    ValueType,
    type_of_arrow,
    type_of_dtype,
)
from quantide.typing import Array, Bools, Ints


@dataclass(frozen=True)
class ValueColumn:
    """Values without nulls, in pieces that need not be copied; `type` is None if the input does not determine it."""

    type: ValueType | None
    pieces: list[Array]
    nulls: int = 0
    nans: int = 0

    def __len__(self) -> int:
        return sum(len(piece) for piece in self.pieces)

    def carried(self) -> Array:
        """Return a new array of the carrier type, in arrival order, with -0.0 as 0.0."""
        carrier = self.type.carrier if self.type else np.dtype(np.float64)
        out = np.empty(len(self), dtype=carrier)
        offset = 0
        for piece in self.pieces:
            store(out[offset : offset + len(piece)], piece)
            offset += len(piece)
        return out

    def carried_parts(self, size: int = 1 << 20) -> Iterator[Array]:
        """Yield carried() in parts of at most `size` values."""
        for piece in self.pieces:
            for start in range(0, len(piece), size):
                yield ValueColumn(self.type, [piece[start : start + size]]).carried()

    def check_nan(self) -> None:
        """Raise NaNError if there is a NaN."""
        if any(has_nan(piece) for piece in self.pieces):
            raise nan_error()

    def without_nan(self) -> "ValueColumn":
        """Return the same values without NaN, which are counted."""
        if self.type is None or not self.type.is_float:
            return self
        pieces = [piece[~np.isnan(piece)] if has_nan(piece) else piece for piece in self.pieces]
        dropped = len(self) - sum(len(piece) for piece in pieces)
        return ValueColumn(self.type, pieces, self.nulls, self.nans + dropped)


@dataclass(frozen=True)
class ColumnRows:
    """Column of the rows that are not null; `valid` is their mask, None if no row is null."""

    column: ValueColumn
    length: int
    valid: Bools | None


def read_column(values: Any, expected: ValueType | None = None) -> ValueColumn:
    """Read values as a column of the expected type, by default of their own type."""
    plain = plain_values(values)
    if isinstance(plain, list):
        plain = list_to_arrow(plain, expected)
    return _from_numpy(plain, expected) if isinstance(plain, np.ndarray) else _from_arrow(plain, expected)


def read_rows(values: Any, expected: ValueType | None = None) -> ColumnRows:
    """Read values as read_column() does, with a mask of the rows that are not null."""
    plain = plain_values(values)
    if isinstance(plain, list) or (isinstance(plain, np.ndarray) and plain.dtype == object):
        plain = list_to_arrow(list(plain), expected)
    column = _from_numpy(plain, expected) if isinstance(plain, np.ndarray) else _from_arrow(plain, expected)
    if not column.nulls:
        return ColumnRows(column, len(plain), None)
    valid = ~np.isnat(plain) if isinstance(plain, np.ndarray) else plain.is_valid().to_numpy(zero_copy_only=False)
    return ColumnRows(column, len(plain), valid)


def plain_values(values: Any) -> Any:
    """Return values of any source as a one-dimensional numpy array, an Arrow array or a list."""
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
    refuse_unproved(values)
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
        raise TypeMismatchError(f"cannot read values from {_abbreviate(values)}; supported are {SUPPORTED}")
    return list(values) if isinstance(values, Iterable) else [values]


def _from_masked(values: Any) -> Any:
    """Turn masked values into nulls."""
    data, mask = np.atleast_1d(values.data), np.atleast_1d(np.ma.getmaskarray(values))
    if data.ndim != 1:
        return data
    if data.dtype == object or values is np.ma.masked:
        return [None if hidden else x for x, hidden in zip(data.tolist(), mask, strict=True)]
    return pa.array(data.astype(data.dtype.newbyteorder("=")), mask=mask)


def store(target: Array, piece: Array) -> None:
    """Copy a piece into an array of its carrier type, with -0.0 as 0.0."""
    if target.dtype.kind == "f":
        np.add(piece, 0.0, out=target, casting="same_kind")
    else:
        np.copyto(target, piece.view(np.int64) if piece.dtype.kind in "mM" else piece)


def has_nan(piece: Array) -> bool:
    """Return True if there is a NaN; a minimum detects it at memory speed."""
    if piece.dtype.kind != "f" or not len(piece):
        return False
    return bool(np.isnan(np.min(piece)))


def check_nan_policy(nan: str) -> str:
    if nan not in ("refuse", "skip"):
        raise InvalidArgumentError(f'nan={nan!r} is not a policy; use nan="refuse" or nan="skip"')
    return nan


def nan_error() -> NaNError:
    return NaNError('nan among the values has no rank; remove it, or pass nan="skip" to skip and count it')


def _from_numpy(values: Array, expected: ValueType | None) -> ValueColumn:
    if values.dtype == object:
        return _from_arrow(list_to_arrow(values.tolist(), expected), expected)
    if not len(values):
        return ValueColumn(_type_of_empty(values.dtype), [])
    kind = _checked_type(type_of_dtype(values.dtype), expected)
    if not values.dtype.isnative:
        values = values.astype(values.dtype.newbyteorder("="))
    if not kind.is_temporal:
        return ValueColumn(kind, [values])
    missing = np.isnat(values)
    nulls = int(np.count_nonzero(missing))
    if nulls:
        values = values[~missing]
    _check_limits(values.view(np.int64), kind)
    return ValueColumn(kind, [values], nulls)


def _type_of_empty(dtype: np.dtype[Any]) -> ValueType | None:
    try:
        return type_of_dtype(dtype)
    except TypeMismatchError:
        return None


def _check_limits(carried: Ints, kind: ValueType) -> None:
    """Raise on values outside the type: dates have 32 bits, and the smallest 64-bit time is NaT."""
    low, high = kind.limits
    if len(carried) and (carried.min() < low or carried.max() > high):
        raise TypeMismatchError(f"a {kind} outside {low}..{high} is not supported")


def _from_arrow(values: Any, expected: ValueType | None) -> ValueColumn:
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    nulls = values.null_count
    if pa.types.is_null(values.type):
        return ValueColumn(None, [], nulls)
    kind = type_of_arrow(values.type)
    if nulls == len(values):
        return ValueColumn(kind, [], nulls)
    kind = _checked_type(kind, expected)
    if nulls:
        values = values.drop_null()
    chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    pieces = [_chunk_to_numpy(chunk, kind) for chunk in chunks if len(chunk)]
    if kind.is_temporal:
        for piece in pieces:
            _check_limits(piece, kind)
    return ValueColumn(kind, pieces, nulls)


def _chunk_to_numpy(chunk: Any, kind: ValueType) -> Array:
    if not kind.is_decimal:
        if kind.name == "date":
            chunk = chunk.cast(pa.int32())
        elif kind.is_temporal:
            chunk = chunk.view(pa.int64())
        array: Array = chunk.to_numpy(zero_copy_only=True)
        return array
    words = np.frombuffer(chunk.buffers()[1], dtype=np.int64)[2 * chunk.offset : 2 * (chunk.offset + len(chunk))]
    low, high = words[0::2], words[1::2]
    largest = kind.limits[1]
    if chunk.type.precision > DECIMAL_DIGITS and np.any((high != low >> 63) | (low > largest) | (low < -largest)):
        raise TypeMismatchError(f"decimals of more than {DECIMAL_DIGITS} digits are not supported; cast to float64")
    return low


def _checked_type(kind: ValueType, expected: ValueType | None) -> ValueType:
    if expected is None:
        return kind
    if not expected.includes(kind):
        raise _mismatch_error(str(kind), expected)
    return expected


# Python lists: their values have no fixed type, and Arrow must not lose any of them


def list_to_arrow(values: list[Any], expected: ValueType | None) -> pa.Array:
    """Convert a list to Arrow; to the expected type if that changes no value."""
    array = _infer_arrow(values)
    if expected is None or array.null_count == len(array):
        return array
    kind = type_of_arrow(array.type)
    return array if kind == expected else _cast_exactly(array, kind, expected)


def _cast_exactly(array: pa.Array, kind: ValueType, expected: ValueType) -> pa.Array:
    """Cast to another type; raise if any value would change."""
    plain = (*FLOATS, *INTEGERS)
    try:
        if expected.name in plain and kind.name in plain:
            cast = array.cast(expected.arrow, safe=False)
            back = cast.cast(array.type, safe=False)
            same = pc.or_(pc.equal(back, array), pc.and_(_is_nan(back), _is_nan(array)))
            if pc.all(same).as_py():
                return cast
        elif expected.is_decimal and (kind.is_decimal or kind.name in INTEGERS):
            return array.cast(pa.decimal128(38, expected.scale)).cast(expected.arrow)
        elif kind.family == expected.family and ("tz=" in kind.name) == ("tz=" in expected.name):
            return array.cast(expected.arrow)
    except pa.ArrowException as error:
        raise _mismatch_error(f"{kind} such as {_abbreviate(array.to_pylist())}", expected) from error
    raise _mismatch_error(f"{kind} such as {_abbreviate(array.to_pylist())}", expected)


def _is_nan(array: pa.Array) -> pa.Array:
    return pc.is_nan(array) if pa.types.is_floating(array.type) else pa.repeat(False, len(array))


def _infer_arrow(values: list[Any]) -> pa.Array:
    """Convert a list as Arrow does, except where Arrow silently misreads it.

    Booleans, nested lists and mixed zones raise; times of pandas keep their nanoseconds.
    """
    types = {type(x) for x in values if x is not None}
    if types & {bool, np.bool_}:
        raise TypeMismatchError(f"cannot read values from {_abbreviate(values)}: True and False have no rank")
    if any(issubclass(kind, (list, tuple, dict, set, str, bytes)) for kind in types):
        raise TypeMismatchError(f"cannot read values from {_abbreviate(values)}; supported are {SUPPORTED}")
    try:
        if types and all(kind.__module__.startswith("pandas.") for kind in types):
            return _pandas_to_arrow(values)
        zones = {x.tzinfo is None for x in values if isinstance(x, datetime)}
        if len(zones) > 1:
            raise TypeMismatchError("times with and without a zone are mixed; give all of them one, or none")
        return pa.array(values)
    except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
        if isinstance(error, TypeMismatchError):
            raise
        raise TypeMismatchError(
            f"cannot read values from {_abbreviate(values)}: {error}; supported are {SUPPORTED}"
        ) from error


def _pandas_to_arrow(values: list[Any]) -> pa.Array:
    """Convert Timestamp and Timedelta with their nanoseconds, which Arrow drops by default."""
    times = [None if x is None or x != x else x for x in values]
    first = next((x for x in times if x is not None), None)
    if first is None:
        return pa.nulls(len(times))
    nanoseconds = pa.array([x if x is None else x.as_unit("ns").value for x in times], pa.int64())
    if type(first).__name__ == "Timedelta":
        return nanoseconds.cast(pa.duration("ns"))
    zone = str(first.tz) if first.tz is not None else None
    if any(x is not None and (x.tz is None) != (zone is None) for x in times):
        raise TypeMismatchError("times with and without a zone are mixed; give all of them one, or none")
    return nanoseconds.cast(pa.timestamp("ns", tz=zone))


def _mismatch_error(actual: str, expected: ValueType) -> TypeMismatchError:
    return TypeMismatchError(
        f"values of type {actual} do not fit among {expected} values; cast them to {expected} first"
    )


def _abbreviate(values: Any) -> str:
    text = repr(values)
    return text if len(text) <= 60 else text[:57] + "..."
