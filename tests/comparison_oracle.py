"""Exact, naive results of comparisons and of sums over ranks, in fractions. Nothing here imports quantide.

An infinite result is a float; every other one is exact. Data is a list of numbers.
"""

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise
from typing import Any

Exact = Fraction | float


def exact(value: Any) -> Exact:
    return value if isinstance(value, float) and math.isinf(value) else Fraction(value)


def fraction_at_most(data: list[Any], value: Any) -> Fraction:
    return Fraction(sum(1 for x in data if x <= value), len(data))


def ks_distance(a: list[Any], b: list[Any]) -> Fraction:
    return max(abs(fraction_at_most(a, x) - fraction_at_most(b, x)) for x in {*a, *b})


def wasserstein_distance(a: list[Any], b: list[Any]) -> Exact:
    """Return the integral of |F - G|; infinite if they differ over an infinite range."""
    points, area = sorted({*a, *b}), Fraction(0)
    for left, right in pairwise(points):
        height = abs(fraction_at_most(a, left) - fraction_at_most(b, left))
        if height and (math.isinf(left) or math.isinf(right)):
            return math.inf
        area += height * (Fraction(right) - Fraction(left)) if height else 0
    return area


def stability_index(a: list[Any], b: list[Any], splits: list[Any], floor: float) -> Exact:
    """Return the sum of (p - q) * ln(p / q), to 50 digits."""
    with localcontext() as context:
        context.prec = 50
        index = Decimal(0)
        for low, high in zip([None, *splits], [*splits, None], strict=True):
            p, q = (_share(data, low, high, Fraction(floor)) for data in (a, b))
            if p == q:
                continue
            if not p or not q:
                return math.inf
            index += _decimal(p - q) * _decimal(p / q).ln()
        return Fraction(index)


def _share(data: list[Any], low: Any, high: Any, floor: Fraction) -> Fraction:
    inside = sum(1 for x in data if (low is None or x > low) and (high is None or x <= high))
    return max(Fraction(inside, len(data)), floor)


def _decimal(number: Fraction) -> Decimal:
    return Decimal(number.numerator) / Decimal(number.denominator)


def difference(x: Any, y: Any) -> Exact:
    """Return x - y; 0 if they are equal, also if both are infinite."""
    if x == y:
        return Fraction(0)
    return float(x) - float(y) if math.isinf(x) or math.isinf(y) else Fraction(x) - Fraction(y)


def rank_sum(data: list[Any], first: Fraction, last: Fraction) -> Exact:
    """Return the sum of values, each with the part of its rank's range r-1..r that lies in first..last."""
    total: Exact = Fraction(0)
    for r, value in enumerate(sorted(data), start=1):
        weight = min(last, Fraction(r)) - max(first, Fraction(r - 1))
        if weight > 0:
            total = total + (value if math.isinf(value) else weight * Fraction(value))
    return total


def mean_between(data: list[Any], first: Fraction, last: Fraction) -> Exact:
    total = rank_sum(data, first * len(data), last * len(data))
    return total if isinstance(total, float) else total / ((last - first) * len(data))


def winsorised_mean(data: list[Any], cut: Fraction) -> Exact:
    """Return the mean of Q(u) over u in 0..1, with u moved into cut..1 - cut."""
    ordered, n = sorted(data), len(data)
    first, last = cut * n, (1 - cut) * n
    low, high = ordered[math.floor(first)], ordered[math.ceil(last) - 1]
    total = rank_sum(data, first, last)
    for end in (low, high) if cut else ():
        total = total + (end if math.isinf(end) else first * Fraction(end))
    return total if isinstance(total, float) else total / n


def sum_above(data: list[Any], threshold: Any) -> Exact:
    total: Exact = Fraction(0)
    for value in data:
        if value > threshold:
            total = total + exact(value)
    return total


def contains(interval: tuple[Any, Any], result: Exact) -> bool:
    """Return True if an exact result lies in an interval of floats or exact numbers; NaN lies in every interval."""
    if isinstance(result, float) and math.isnan(result):
        return True
    low, high = (exact(end) for end in interval)
    return low <= result <= high
