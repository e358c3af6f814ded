"""Quantile shift: the difference of a quantile of two distributions, from bounds of both."""

import math
from fractions import Fraction
from typing import Any

import numpy as np

from quantide.summary.value_interval import Exact, restore_difference
from quantide.summary.value_types import ValueType

Bounds = tuple[Any, Any]  # values between which a quantile lies; None where there is no bound


def shift_between(kind: ValueType, a: Bounds, b: Bounds) -> tuple[Any, Any]:
    """Return bounds of the difference of two quantiles, a minus b, in the type of differences.

    Equal infinities differ by 0. A missing bound is infinite; of times it is None.
    """
    (a_low, a_high), (b_low, b_high) = _exact_bounds(a), _exact_bounds(b)
    return restore_difference(kind, _subtract(a_low, b_high), _subtract(a_high, b_low))


def is_above(a: Bounds, b: Bounds) -> bool | None:
    """Return True or False if it is proved whether a quantile is above another one, else None."""
    if a[0] is not None and b[1] is not None and a[0] > b[1]:
        return True
    if a[1] is not None and b[0] is not None and a[1] <= b[0]:
        return False
    return None


def _exact_bounds(bounds: Bounds) -> tuple[Exact, Exact]:
    low, high = bounds
    return (-math.inf if low is None else _exact(low)), (math.inf if high is None else _exact(high))


def _exact(value: Any) -> Exact:
    """Return a value as an exact number; of times, the number of units."""
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return Fraction(int(value.astype(np.int64)))
    plain = value.item() if isinstance(value, np.generic) else value
    return plain if isinstance(plain, float) and math.isinf(plain) else Fraction(plain)


def _subtract(a: Exact, b: Exact) -> Exact:
    if a == b:
        return Fraction(0)
    if isinstance(b, float):
        return -b
    return a if isinstance(a, float) else a - b
