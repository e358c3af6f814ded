"""Outward rounding: floats below or above exact numbers, so that the ends of an interval stay proved."""

import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from quantide.typing import Floats, Ints

LARGEST = math.nextafter(math.inf, 0)
NEAREST, BILLION = Context(prec=6), 10**9
DOWN, UP = Context(prec=6, rounding=ROUND_FLOOR), Context(prec=6, rounding=ROUND_CEILING)


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


def fractions_below(counts: Ints, n: int) -> Floats:
    """Return the largest floats that are not above counts / n, for counts from 0 to n, and n up to 2^53.

    >>> fractions_below(np.array([0, 5, 3, 10]), 10).tolist(), fractions_above(np.array([0, 5, 3, 10]), 10).tolist()
    ([0.0, 0.5, 0.3, 1.0], [0.0, 0.5, 0.30000000000000004, 1.0])
    """
    near = counts / n
    return np.where(_excess(near, counts, n) > 0, np.nextafter(near, 0.0), near)


def fractions_above(counts: Ints, n: int) -> Floats:
    """Return the smallest floats that are not below counts / n, for counts from 0 to n, and n up to 2^53."""
    near = counts / n
    return np.where(_excess(near, counts, n) < 0, np.nextafter(near, 1.0), near)


def _excess(near: Floats, counts: Ints, n: int) -> Floats:
    """Return numbers with the sign of near * n - counts: the product is exact as a sum of two floats (Dekker)."""
    near_high, n_high = _upper_half(near), _upper_half(np.float64(n))
    near_low, n_low = near - near_high, n - n_high
    product = near * n
    rest = near_low * n_low - (((product - near_high * n_high) - near_low * n_high) - near_high * n_low)
    return np.asarray((product - counts) + rest)


def _upper_half(number: Any) -> Any:
    """Return the upper 26 significant bits of floats."""
    scaled = number * (2.0**27 + 1)
    return scaled - (scaled - number)


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


def interval_texts(low: Any, high: Any) -> tuple[str, str]:
    """Return both ends as texts, floats with six digits, rounded outward: a proved interval stays one.

    >>> interval_texts(0.10000004, 3.8999999999999986), interval_texts(1.5, 2)
    (('0.1', '3.9'), ('1.5', '2'))
    >>> interval_texts(-0.10000004, 0.10000004), interval_texts(1e-300, math.inf)
    (('-0.100001', '0.100001'), ('1e-300', 'inf'))
    """
    return _text(low, DOWN), _text(high, UP)


def interval_text(low: Any, high: Any) -> str:
    """Return both ends as one text; "about 3.4" if both are within a billionth of a number of six digits.

    Differences of decimals such as 8.6 - 5.2 are not exactly 3.4 in floats. "about" claims the billionth, no more.

    >>> interval_text(0.25, 3.8999999999999986), interval_text(8.6 - 5.2, 3.4000000000000004)
    ('0.25 to 3.9', 'about 3.4')
    """
    low_text, high_text = interval_texts(low, high)
    if low_text != high_text and all(isinstance(end, float) and math.isfinite(end) for end in (low, high)):
        ends = Decimal(low), Decimal(high)
        near = NEAREST.create_decimal(ends[0])
        if all(abs(Fraction(end) - Fraction(near)) <= abs(Fraction(near)) / BILLION for end in ends):
            return f"about {_text(float(near), NEAREST)}"
    return f"{low_text} to {high_text}"


def _text(end: Any, context: Context) -> str:
    if not isinstance(end, float):
        return str(end)
    if not math.isfinite(end):
        return f"{end:g}"
    rounded = context.create_decimal(Decimal(end + 0.0))  # -0.0 becomes 0.0
    is_short = abs(rounded) < 10**6 and rounded == rounded.to_integral_value()
    return f"{rounded.to_integral_value()}" if is_short else f"{rounded.normalize():g}"
