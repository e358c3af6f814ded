"""Common type of two summaries: the type in which values of both can be compared exactly."""

from typing import TYPE_CHECKING

import numpy as np

from quantide.errors import TypeMismatchError
from quantide.summary.value_types import FLOATS, INTEGERS, ValueType, type_named
from quantide.typing import Array

if TYPE_CHECKING:
    from quantide.summary.summary import Summary

EXACT = 2**53  # integers up to this are exact in float64
UNITS = {"s": 10**0, "ms": 10**3, "us": 10**6, "ns": 10**9}


def in_common_type(a: "Summary", b: "Summary") -> tuple["Summary", "Summary"]:
    """Return both summaries with values of one type; raise if no type has the values of both without rounding.

    Floats and integers compare, decimals compare with decimals and integers, times with times of any unit.
    """
    if a.type == b.type:
        return a, b
    kind = common_type(a.type, b.type)
    return _cast(a, kind), _cast(b, kind)


def common_type(a: ValueType, b: ValueType) -> ValueType:
    """Return the type to compare values of two types in.

    >>> names = [("int32", "int64"), ("float32", "int8"), ("decimal[2]", "int64"), ("duration[s]", "duration[ms]")]
    >>> [str(common_type(type_named(x), type_named(y))) for x, y in names]
    ['int64', 'float64', 'decimal[2]', 'duration[ms]']
    """
    if a == b:
        return a
    names = {a.name, b.name}
    if names <= {*FLOATS, *INTEGERS}:
        return type_named("float64" if names & set(FLOATS) else "int64")
    if all(kind.is_decimal or kind.name in INTEGERS for kind in (a, b)):
        return max(a, b, key=lambda kind: (kind.scale, kind.is_decimal))
    zones = {kind.name.partition("tz=")[2] != "" for kind in (a, b)}
    if a.is_temporal and a.family == b.family and len(zones) == 1:
        return max(a, b, key=_resolution)
    raise TypeMismatchError(f"values of type {a} cannot be compared with values of type {b}; cast one of them")


def _resolution(kind: ValueType) -> int:
    """Return the number of units in a second."""
    return UNITS[np.datetime_data(kind.dtype)[0]]


def _cast(summary: "Summary", kind: ValueType) -> "Summary":
    """Return a summary with its values in another type; raise if that would round one of them."""
    values, own = summary.carried, summary.type
    if kind.is_decimal:
        cast = _multiplied(values, 10 ** (kind.scale - own.scale), own, kind)
    elif kind.is_temporal:
        cast = _multiplied(values, _resolution(kind) // _resolution(own), own, kind)
    else:
        cast = values.astype(kind.carrier)
        if kind.is_float and not own.is_float and np.any((values > EXACT) | (values < -EXACT)):
            raise TypeMismatchError(
                f"{own} values beyond {EXACT} cannot be compared exactly with floating-point ones; cast one side"
            )
    return type(summary)(cast, summary.rmin, summary.rmax, summary.n, kind, summary.nulls, summary.nans)


def _multiplied(values: Array, factor: int, own: ValueType, kind: ValueType) -> Array:
    low, high = kind.limits
    if len(values) and (int(values[0]) * factor < low or int(values[-1]) * factor > high):
        raise TypeMismatchError(f"{own} values from {values[0]} to {values[-1]} do not fit among {kind} values; cast")
    return np.asarray(values * factor, dtype=np.int64)
