"""Arguments of rank queries: anything comparable, rounded down to a number that the tuples can contain.

`rank` counts the values that are at most the argument. Rounding the argument down to a possible value changes no count;
rounding it any other way would. With inclusive=False it counts the values below the argument: those that are at most
the largest number below it.
"""

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from quantide.errors import InvalidArgumentError, TypeMismatchError
from quantide.summary.value_column import plain_values, read_column
from quantide.summary.value_types import ValueType
from quantide.typing import Array, Bools

INT64 = np.iinfo(np.int64)
EXACT = 2**53  # integers up to this are exact in float64
LARGEST_FLOAT = float(np.finfo(np.float64).max)


def read_query_values(values: Any, kind: ValueType, inclusive: bool = True) -> tuple[Array, Bools, bool]:
    """Return numbers to compare with, a mask of those below every possible value, and True for a single argument.

    Values that are at most such a number are those that are at most the argument; below it, unless `inclusive`.
    """
    single = np.ndim(values) == 0 if isinstance(values, (np.ndarray, np.generic)) else not hasattr(values, "__len__")
    if kind.is_temporal:
        column = read_column(_times_of_kind(values, kind), kind)
        if column.nulls:
            raise _no_rank("null")
        carried = column.carried()
        return carried - (not inclusive), np.zeros(len(carried), dtype=bool), single
    plain = plain_values(values)
    if isinstance(plain, (pa.Array, pa.ChunkedArray)):
        if plain.null_count:
            raise _no_rank("null")
        plain = plain.to_numpy(zero_copy_only=False) if isinstance(plain, pa.Array) else plain.to_numpy()
    if isinstance(plain, np.ndarray) and plain.ndim == 1:
        if plain.dtype.kind == "f" and np.isnan(plain).any():
            raise _no_rank("nan")
        numbers = _exact_numbers(plain, kind)
        if numbers is not None:
            below = np.zeros(len(numbers), dtype=bool)
            return (numbers, below, single) if inclusive else (*_numbers_below(numbers, kind), single)
    floors = [_floor(x, kind, inclusive) for x in plain]
    below = np.array([x is None for x in floors], dtype=bool)
    numbers = np.array([0 if x is None else x for x in floors], dtype=kind.carrier if not kind.is_float else np.float64)
    return numbers, below, single


def _times_of_kind(values: Any, kind: ValueType) -> Any:
    """Convert numpy times of any unit to the type of the values; return them unchanged if that would round.

    They have no zone: if the values have one, they mean UTC, as in answers.
    """
    many = values if isinstance(values, (list, np.ndarray)) else [values]
    if not isinstance(many, np.ndarray) and not all(isinstance(x, (np.datetime64, np.timedelta64)) for x in many):
        return values
    times = np.array(many)
    if times.dtype.kind != kind.dtype.kind or np.isnat(times).any():
        return values
    cast = times.astype(kind.dtype)
    low, high = kind.limits
    fits = (cast.astype(times.dtype) == times) & (cast.view(np.int64) >= low) & (cast.view(np.int64) <= high)
    return kind.restore_arrow(cast.view(np.int64)) if fits.all() else values


def _exact_numbers(values: Array, kind: ValueType) -> Array | None:
    """Handle the common cases without a loop: floats among floats, integers that fit. None otherwise."""
    if kind.is_float and values.dtype.kind == "f" and values.dtype.itemsize <= 8:
        return values
    if values.dtype.kind in "iu" and values.dtype != np.uint64 and not kind.is_decimal:
        whole = values.astype(np.int64)
        if not kind.is_float or not len(whole) or (whole.min() >= -EXACT and whole.max() <= EXACT):
            return whole
    return None


def _numbers_below(numbers: Array, kind: ValueType) -> tuple[Array, Bools]:
    """Return the largest numbers below these, and a mask of those that are below every possible value."""
    if kind.is_float:
        floats = numbers.astype(np.float64)
        with np.errstate(over="ignore"):  # -inf is below the lowest finite number
            return np.nextafter(floats, -np.inf), floats == -np.inf
    below = numbers == INT64.min
    return numbers - ~below, below


def _floor(x: Any, kind: ValueType, inclusive: bool = True) -> Any:
    """Return the largest possible value that is not above x, or below x unless `inclusive`; None if there is none."""
    if isinstance(x, np.generic):
        x = x.item()
    if isinstance(x, bool) or not isinstance(x, (int, float, Decimal, Fraction)):
        raise TypeMismatchError(f"{x!r} cannot be compared with {kind} values")
    if x != x:
        raise _no_rank("nan")
    if x in (math.inf, -math.inf):  # math.isinf() would take a decimal beyond all floats for infinite
        if kind.is_float and (inclusive or x > 0):
            return float(x) if inclusive else LARGEST_FLOAT
        return INT64.max if x > 0 else None
    exact = Fraction(x)
    if kind.is_float:
        return _float_below(exact, inclusive)
    scaled = exact * 10**kind.scale
    whole = math.floor(scaled) if inclusive else math.ceil(scaled) - 1
    return None if whole < INT64.min else min(whole, INT64.max)


def _float_below(exact: Fraction, inclusive: bool) -> float:
    try:
        near = float(exact)
    except OverflowError:
        near = math.inf if exact > 0 else -math.inf
    if math.isinf(near):
        return LARGEST_FLOAT if near > 0 else near
    too_high = Fraction(near) > exact if inclusive else Fraction(near) >= exact
    return math.nextafter(near, -math.inf) if too_high else near


def _no_rank(value: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"{value} has no rank; remove it from the query")
