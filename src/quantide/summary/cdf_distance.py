"""Distances of two distributions from the bounds of their CDFs: Kolmogorov-Smirnov and Wasserstein.

docs/guarantees/comparison.md proves the bounds.
"""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from quantide.summary.outward_rounding import LARGEST, ratio_above, ratio_below, sum_above, sum_below
from quantide.typing import Array, Floats

if TYPE_CHECKING:
    from quantide.summary.summary import Summary

Interval = tuple[float, float]

MAX_PRODUCT = 2**62  # products of ranks and counts up to this are exact in int64
ROUNDING = 2.0**-51  # of a difference of two quotients in 0..1: less than that
SMALLEST = 5e-324


class CdfGaps(NamedTuple):
    """Bounds of |F - G| between neighbouring values x of the tuples of both summaries.

    Entry i is about x[i-1] <= v < x[i]; the first is about all v below x[0], the last about all v from x[-1] on. The
    bounds are `low / scale` and `high / scale`: exact whole numbers, unless `scale` is 1.
    """

    x: Array
    low: Array
    high: Array
    scale: int


def gaps_of(a: "Summary", b: "Summary") -> CdfGaps:
    """Return bounds of |F - G| for the CDFs F and G of two summaries of one type."""
    x = np.unique(np.concatenate((a.carried, b.carried)))
    divisor = math.gcd(a.n, b.n)
    factor_a, factor_b = b.n // divisor, a.n // divisor
    scale = a.n * factor_a
    low_a, high_a = _counts(a, x)
    low_b, high_b = _counts(b, x)
    if scale <= MAX_PRODUCT:
        low_a, high_a, low_b, high_b = low_a * factor_a, high_a * factor_a, low_b * factor_b, high_b * factor_b
    else:
        low_a, high_a, low_b, high_b = low_a / a.n, high_a / a.n, low_b / b.n, high_b / b.n
    low = np.maximum(np.maximum(low_a - high_b, low_b - high_a), 0)
    high = np.maximum(high_a - low_b, high_b - low_a)
    if scale <= MAX_PRODUCT:
        return CdfGaps(x, low, high, scale)
    is_rounded = high > 0
    is_rounded[1:-1] = True  # a difference of 0 at an end is exact
    return CdfGaps(x, np.maximum(low - ROUNDING, 0), np.minimum(high + ROUNDING * is_rounded, 1), 1)


def _counts(summary: "Summary", x: Array) -> tuple[Array, Array]:
    """Return bounds on the number of values below x[0], at most x[0], at most x[1], ..."""
    indexes = np.searchsorted(summary.carried, x, side="right")
    low, high = np.zeros(len(x) + 1, dtype=np.int64), np.empty(len(x) + 1, dtype=np.int64)
    low[1:] = np.concatenate(([0], summary.rmin))[indexes]
    ends = np.concatenate((summary.rmax - 1, [summary.n]))
    high[0], high[1:] = ends[0], ends[indexes]
    return low, high


def find_ks(gaps: CdfGaps) -> Interval:
    """Return bounds of the Kolmogorov-Smirnov distance, the largest |F - G|."""
    low, high = gaps.low.max(), gaps.high.max()
    if gaps.scale == 1:  # exact whole numbers, or fractions that are rounded outward already
        return float(low), float(high)
    return ratio_below(int(low), gaps.scale), ratio_above(int(high), gaps.scale)


def find_wasserstein(gaps: CdfGaps, decimals: int) -> Interval:
    """Return bounds of the Wasserstein distance, the integral of |F - G|, in units of the values.

    Where a summary leaves an end open, the upper bound is infinite. Every term is at least 0, and all roundings
    together change it by less than 8 units in the last place.
    """
    low, high = _integral(gaps, gaps.low, sum_below), _integral(gaps, gaps.high, sum_above)
    slack = (len(gaps.x) + 1) * SMALLEST  # roundings below the normal floats
    low, high = low / 10**decimals * (1 - 2.0**-49) - slack, high / 10**decimals * (1 + 2.0**-49) + slack
    return max(0.0, low), high if gaps.high.any() else 0.0


def _integral(gaps: CdfGaps, heights: Array, total: Callable[[Sequence[float]], float]) -> float:
    """Return the sum of heights times widths of the intervals between x."""
    if heights[0] or heights[-1]:
        return math.inf
    used = np.flatnonzero(heights[1:-1])
    left, right = gaps.x[used], gaps.x[used + 1]
    if gaps.x.dtype.kind == "f":
        if np.isinf(left).any() or np.isinf(right).any():
            return math.inf
        with np.errstate(over="ignore"):
            widths: Floats = right.astype(np.float64) - left
    else:
        widths = (right.view(np.uint64) - left.view(np.uint64)).astype(np.float64)  # an int64 would overflow
    areas = np.minimum(widths, LARGEST) * (heights[1:-1][used] / gaps.scale)
    if total is sum_above and np.isinf(widths).any():
        return math.inf
    return total(areas.tolist())
