"""Outward rounding: floats below or above exact numbers, so that the ends of an interval stay proved."""

import math
from collections.abc import Sequence
from fractions import Fraction

LARGEST = math.nextafter(math.inf, 0)


def float_below(exact: Fraction) -> float:
    """Return the largest float that is not above an exact number.

    >>> float_below(Fraction(1, 2)), float_below(Fraction(1, 10)), float_below(Fraction(10**400))
    (0.5, 0.09999999999999999, 1.7976931348623157e+308)
    """
    try:
        near = float(exact)
    except OverflowError:
        return LARGEST if exact > 0 else -math.inf
    return math.nextafter(near, -math.inf) if Fraction(near) > exact else near


def float_above(exact: Fraction) -> float:
    """Return the smallest float that is not below an exact number; never -0.0.

    >>> float_above(Fraction(1, 10)), float_above(Fraction(0))
    (0.1, 0.0)
    """
    return 0.0 - float_below(-exact)


def ratio_below(numerator: int, denominator: int) -> float:
    return float_below(Fraction(numerator, denominator))


def ratio_above(numerator: int, denominator: int) -> float:
    return float_above(Fraction(numerator, denominator))


def difference_below(a: float, b: float) -> float:
    """Return a lower bound of a - b; 0 if both are the same, also of equal infinities."""
    if a == b:
        return 0.0
    if math.isinf(a) or math.isinf(b):
        return a - b
    return float_below(Fraction(a) - Fraction(b))


def difference_above(a: float, b: float) -> float:
    """Return an upper bound of a - b; 0 if both are the same, also of equal infinities."""
    return 0.0 - difference_below(b, a)


def sum_below(terms: Sequence[float]) -> float:
    """Return the largest float that is not above the exact sum of finite terms.

    `math.fsum` rounds the exact sum once, to the nearest float. The sum of the terms and of that float's negative has
    the sign of what rounding has changed.
    """
    try:
        near = math.fsum(terms)
        return math.nextafter(near, -math.inf) if math.fsum((*terms, -near)) < 0 else near
    except OverflowError:
        return float_below(sum(map(Fraction, terms), Fraction(0)))


def sum_above(terms: Sequence[float]) -> float:
    """Return the smallest float that is not below the exact sum of finite terms."""
    return 0.0 - sum_below([-term for term in terms])
