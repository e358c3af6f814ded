"""Values asked about: anything comparable, as the largest number the tuples can hold that is not above it.

`rank` counts the kept values that are at most the one asked about. Rounding that one down to what can be held at all
changes no count; rounding it any other way would.
"""

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from quantide.errors import InvalidArgumentError, TypeMismatchError
from quantide.summary.column import plain_values, read_column
from quantide.summary.types import ValueType

INT64 = np.iinfo(np.int64)
EXACT = 2**53  # integers up to here are float64 exactly


def read_asked(values: Any, kind: ValueType) -> tuple[NDArray[Any], NDArray[np.bool_], bool]:
    """The numbers to compare with, which of them are below everything there can be, and whether one was asked."""
    single = np.ndim(values) == 0 if isinstance(values, (np.ndarray, np.generic)) else not hasattr(values, "__len__")
    if kind.is_temporal:
        column = read_column(_own_times(values, kind), kind)
        if column.nulls:
            raise _no_rank("null")
        carried = column.carried()
        return carried, np.zeros(len(carried), dtype=bool), single
    plain = plain_values(values)
    if isinstance(plain, (pa.Array, pa.ChunkedArray)):
        if plain.null_count:
            raise _no_rank("null")
        plain = plain.to_numpy(zero_copy_only=False) if isinstance(plain, pa.Array) else plain.to_numpy()
    if isinstance(plain, np.ndarray) and plain.ndim == 1:
        if plain.dtype.kind == "f" and np.isnan(plain).any():
            raise _no_rank("nan")
        numbers = _at_once(plain, kind)
        if numbers is not None:
            return numbers, np.zeros(len(numbers), dtype=bool), single
    floors = [_floor(x, kind) for x in plain]
    below = np.array([x is None for x in floors], dtype=bool)
    numbers = np.array([0 if x is None else x for x in floors], dtype=kind.carrier if not kind.is_float else np.float64)
    return numbers, below, single


def _own_times(values: Any, kind: ValueType) -> Any:
    """Times of numpy, of whatever unit, in the type of the values. They have no zone: where values have one they mean
    UTC, as in answers. What would have to be rounded is left as it is."""
    some = values if isinstance(values, (list, np.ndarray)) else [values]
    if not isinstance(some, np.ndarray) and not all(isinstance(x, (np.datetime64, np.timedelta64)) for x in some):
        return values
    found = np.array(some)
    if found.dtype.kind != kind.dtype.kind or np.isnat(found).any():
        return values
    own = found.astype(kind.dtype)
    low, high = kind.limits
    fits = (own.astype(found.dtype) == found) & (own.view(np.int64) >= low) & (own.view(np.int64) <= high)
    return kind.restore_arrow(own.view(np.int64)) if fits.all() else values


def _at_once(values: NDArray[Any], kind: ValueType) -> NDArray[Any] | None:
    """The common cases without a loop: floats among floats, integers that fit."""
    if kind.is_float and values.dtype.kind == "f" and values.dtype.itemsize <= 8:
        return values
    if values.dtype.kind in "iu" and values.dtype != np.uint64 and not kind.is_decimal:
        whole = values.astype(np.int64)
        if not kind.is_float or not len(whole) or (whole.min() >= -EXACT and whole.max() <= EXACT):
            return whole
    return None


def _floor(x: Any, kind: ValueType) -> Any:
    """The largest value that can be held and is not above x; None when there is none."""
    if isinstance(x, np.generic):
        x = x.item()
    if isinstance(x, bool) or not isinstance(x, (int, float, Decimal, Fraction)):
        raise TypeMismatchError(f"{x!r} cannot be compared with {kind} values")
    if x != x:
        raise _no_rank("nan")
    if not isinstance(x, int) and math.isinf(x):
        return (x if kind.is_float else INT64.max) if x > 0 else (x if kind.is_float else None)
    exact = Fraction(x)
    if kind.is_float:
        return _float_below(exact)
    whole = math.floor(exact * 10**kind.scale)
    return None if whole < INT64.min else min(whole, INT64.max)


def _float_below(exact: Fraction) -> float:
    try:
        near = float(exact)
    except OverflowError:
        near = math.inf if exact > 0 else -math.inf
    too_high = near == math.inf or (near != -math.inf and Fraction(near) > exact)
    return math.nextafter(near, -math.inf) if too_high else near


def _no_rank(what: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"{what} has no rank; ask about values only")
