"""Intervals of sums, means and differences in the type of the values, rounded outward."""

import math
from decimal import Context
from fractions import Fraction
from typing import Any

import numpy as np

from quantide.errors import TypeMismatchError
from quantide.summary.outward_rounding import float_above, float_below
from quantide.summary.value_types import ValueType

Exact = Fraction | float  # a float is infinite
LIMIT = 2**63 - 1  # of 64-bit times
DIGITS = Context(prec=40)


def restore_mean(kind: ValueType, low: Exact, high: Exact, weight: Fraction) -> tuple[Any, Any]:
    """Return sums over a weight as means: floats, or times in whole units; None if a time has no bound."""
    low, high = (end if isinstance(end, float) else end / weight / 10**kind.scale for end in (low, high))
    if kind.is_temporal:
        return _time(low, kind.dtype, math.floor), _time(high, kind.dtype, math.ceil)
    return _float(low, float_below), _float(high, float_above)


def restore_sum(kind: ValueType, low: Exact, high: Exact) -> tuple[Any, Any]:
    """Return sums: floats, exact integers and decimals, or durations; sums of points in time raise."""
    if kind.dtype.kind == "M":
        raise TypeMismatchError(f"{kind} values have no sum; mean() has their mean")
    if kind.is_temporal:
        return _time(low, kind.dtype, math.floor), _time(high, kind.dtype, math.ceil)
    if kind.is_float:
        return _float(low, float_below), _float(high, float_above)
    return _whole(low, kind), _whole(high, kind)


def restore_difference(kind: ValueType, low: Exact, high: Exact) -> tuple[Any, Any]:
    """Return differences of two values, given in their own units: floats, integers, decimals, or durations."""
    if kind.is_temporal:
        unit = np.dtype(f"m8[{np.datetime_data(kind.dtype)[0]}]")
        return _time(low, unit, math.floor), _time(high, unit, math.ceil)
    if kind.is_float:
        return _float(low, float_below), _float(high, float_above)
    return _plain(low, kind), _plain(high, kind)


def _plain(number: Exact, kind: ValueType) -> Any:
    """Return an exact difference of decimals or integers."""
    return _whole(number if isinstance(number, float) else number * 10**kind.scale, kind)


def _float(number: Exact, rounded: Any) -> float:
    return number if isinstance(number, float) else rounded(number)


def _whole(number: Exact, kind: ValueType) -> Any:
    if isinstance(number, float):
        return number
    return DIGITS.create_decimal(f"{int(number)}E-{kind.scale}") if kind.is_decimal else int(number)


def _time(number: Exact, dtype: np.dtype[Any], rounded: Any) -> Any:
    whole = None if isinstance(number, float) else rounded(number)
    return None if whole is None or abs(whole) > LIMIT else np.int64(whole).view(dtype)
