"""Sums over ranks with proved bounds: mean, trimmed and winsorised mean, expected shortfall, sum above a threshold.

The value of each rank lies between the values of two tuples, so a sum with weights of at least 0 lies between two sums.
docs/guarantees/comparison.md has definitions and proofs.
"""

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from quantide.errors import InvalidArgumentError
from quantide.summary.outward_rounding import sum_above, sum_below
from quantide.summary.rank_arguments import read_query_values
from quantide.summary.ranks import check_not_empty
from quantide.summary.value_interval import Exact, restore_mean, restore_sum
from quantide.typing import Array, Floats, Ints

if TYPE_CHECKING:
    from quantide.summary.summary import Summary

SAFE = 2.0**900  # values up to this have exact products with parts of a count
PART_BITS = 18
WORD = np.uint64(0xFFFFFFFFF8000000)  # the upper 26 of a float's 53 significant bits


class RankSteps(NamedTuple):
    """Bounds of the values of ranks: those of ranks above `ends[i - 1]`, up to `ends[i]`, lie in low[i]..high[i].

    Both are carried numbers. Where `no_low` or `no_high` is True, there is no bound, because lift() left an end open.
    """

    ends: Ints
    low: Array
    high: Array
    no_low: Array
    no_high: Array


def steps_of(summary: "Summary") -> RankSteps:
    """Return bounds of the values of all ranks: the last tuple with rmax <= rank, the first with rmin >= rank."""
    check_not_empty(summary.n)
    ends = np.unique(np.concatenate((summary.rmax - 1, summary.rmin, [summary.n])))
    ends = ends[ends > 0]
    low = np.searchsorted(summary.rmax, ends, side="right") - 1
    high = np.searchsorted(summary.rmin, ends, side="left")
    no_low, no_high = low < 0, high == len(summary)
    values = summary.carried
    return RankSteps(ends, values[np.maximum(low, 0)], values[np.minimum(high, len(summary) - 1)], no_low, no_high)


def mean(summary: "Summary") -> tuple[Any, Any]:
    """Return bounds of the mean of all values."""
    return mean_between(summary, Fraction(0), Fraction(1))


def total(summary: "Summary") -> tuple[Any, Any]:
    """Return bounds of the sum of all values."""
    return restore_sum(summary.type, *_sums(summary, Fraction(0), Fraction(summary.n)))


def trimmed_mean(summary: "Summary", cut: Any) -> tuple[Any, Any]:
    """Return bounds of the mean without the smallest and the largest `cut` of all values."""
    share = _read_cut(cut)
    return mean_between(summary, share, 1 - share)


def winsorised_mean(summary: "Summary", cut: Any) -> tuple[Any, Any]:
    """Return bounds of the mean, with the smallest and largest `cut` of all values moved to the nearest other one."""
    share = _read_cut(cut)
    check_not_empty(summary.n)
    steps = steps_of(summary)
    first, last = share * summary.n, (1 - share) * summary.n
    low, high = _sums(summary, first, last)
    for rank in (math.floor(first) + 1, math.ceil(last)) if share else ():
        own_low, own_high = _value_bounds(steps, rank)
        low, high = _add(low, _times(first, own_low)), _add(high, _times(first, own_high))
    return restore_mean(summary.type, low, high, Fraction(summary.n))


def expected_shortfall(summary: "Summary", phi: Any, upper: bool = True) -> tuple[Any, Any]:
    """Return bounds of the mean of the values beyond the phi-quantile: the largest 1 - phi, or the smallest phi."""
    share = _read_share("phi", phi)
    if upper:
        if share == 1:
            raise InvalidArgumentError("phi must be below 1: no value is beyond the maximum; 0.99 is usual")
        return mean_between(summary, share, Fraction(1))
    if share == 0:
        raise InvalidArgumentError("phi must be above 0: no value is below the minimum; 0.01 is usual")
    return mean_between(summary, Fraction(0), share)


def sum_above_threshold(summary: "Summary", threshold: Any) -> tuple[Any, Any]:
    """Return bounds of the sum of the values above a threshold; 0 if there are none."""
    numbers, below, single = read_query_values(threshold, summary.type)
    if not single:
        raise InvalidArgumentError(f"the threshold must be one value, not {threshold!r}")
    if below[0]:
        return total(summary)
    limit, steps = numbers[0], steps_of(summary)
    counts = np.diff(steps.ends, prepend=0)
    surely = (steps.low > limit) & ~steps.no_low
    maybe = ~surely & ((steps.high > limit) | steps.no_high)
    least = _dot(counts[surely], steps.low[surely], -1)
    if limit < 0 and maybe.any():
        least = _add(least, _times(Fraction(int(counts[maybe].sum())), _exact(limit)))
    if (steps.no_high & (surely | maybe)).any():
        return restore_sum(summary.type, least, math.inf)
    most = _dot(counts[surely], steps.high[surely], 1)
    positive = maybe & (steps.high > 0)
    return restore_sum(summary.type, least, _add(most, _dot(counts[positive], steps.high[positive], 1)))


def mean_between(summary: "Summary", first: Fraction, last: Fraction) -> tuple[Any, Any]:
    """Return bounds of the mean of the values of ranks between two fractions of n, of which parts of a value count."""
    check_not_empty(summary.n)
    low, high = _sums(summary, first * summary.n, last * summary.n)
    return restore_mean(summary.type, low, high, (last - first) * summary.n)


def _sums(summary: "Summary", first: Fraction, last: Fraction) -> tuple[Exact, Exact]:
    """Return bounds of the sum over ranks from `first` to `last`; rank r is between r - 1 and r."""
    steps = steps_of(summary)
    start, stop = math.ceil(first), math.floor(last)  # whole ranks are start + 1 to stop
    ends = np.clip(steps.ends, start, max(start, stop))
    counts = np.diff(ends, prepend=start)
    used = counts > 0
    low = -math.inf if steps.no_low[used].any() else _dot(counts[used], steps.low[used], -1)
    high = math.inf if steps.no_high[used].any() else _dot(counts[used], steps.high[used], 1)
    parts = [(start, last - first)] if start > stop else [(start, start - first), (stop + 1, last - stop)]
    for rank, weight in parts:
        if weight:
            own_low, own_high = _value_bounds(steps, rank)
            low, high = _add(low, _times(weight, own_low)), _add(high, _times(weight, own_high))
    return low, high


def _value_bounds(steps: RankSteps, rank: int) -> tuple[Exact, Exact]:
    """Return bounds of the value of a rank."""
    index = int(np.searchsorted(steps.ends, rank))
    low = -math.inf if steps.no_low[index] else _exact(steps.low[index])
    return low, math.inf if steps.no_high[index] else _exact(steps.high[index])


def _dot(counts: Ints, values: Array, sign: int) -> Exact:
    """Return the sum of counts times values: exact for integers, rounded outward (down for sign -1) for floats."""
    if values.dtype.kind != "f":
        return Fraction(sum(map(int.__mul__, counts.tolist(), values.tolist())))
    infinite = values[np.isinf(values)]
    if len(infinite):
        worst = sign * math.inf
        return worst if (infinite == worst).any() else -worst
    wide = values.astype(np.float64)
    if len(wide) and np.abs(wide).max() > SAFE:
        products = [Fraction(value) * count for value, count in zip(wide.tolist(), counts.tolist(), strict=True)]
        return sum(products, Fraction(0))
    terms = _exact_products(counts, wide)
    return Fraction(sum_below(terms) if sign < 0 else sum_above(terms))


def _exact_products(counts: Ints, values: Floats) -> list[float]:
    """Return floats whose exact sum is the sum of counts times values: products of parts that need at most 53 bits."""
    upper = (values.view(np.uint64) & WORD).view(np.float64)
    terms = []
    for part in (upper, values - upper):
        for shift in range(0, 54, PART_BITS):
            digits = ((counts >> shift) & ((1 << PART_BITS) - 1)).astype(np.float64)
            products = part * digits * 2.0**shift
            terms.append(products[products != 0])
    return list(np.concatenate(terms).tolist())


def _read_cut(cut: Any) -> Fraction:
    """Return a share of all values that can be cut at both ends."""
    share = _read_share("cut", cut)
    if not share < 0.5:
        raise InvalidArgumentError(f"cut must be below 0.5, not {cut!r}: it is cut at both ends; 0.1 is usual")
    return share


def _read_share(name: str, share: Any) -> Fraction:
    """Return a share of all values as an exact number; raise unless it is in [0, 1]."""
    is_number = isinstance(share, (int, float, Fraction, np.floating, np.integer)) and not isinstance(share, bool)
    if not is_number or not 0 <= share <= 1:
        raise InvalidArgumentError(f"{name} must be a number in [0, 1], not {share!r}")
    return share if isinstance(share, Fraction) else Fraction(float(share))


def _exact(number: Any) -> Exact:
    plain = number.item()
    return Fraction(plain) if not isinstance(plain, float) or math.isfinite(plain) else plain


def _times(weight: Fraction, value: Exact) -> Exact:
    return value if isinstance(value, float) else weight * value


def _add(a: Exact, b: Exact) -> Exact:
    """Return a sum; of opposite infinities the first one."""
    return a if isinstance(a, float) else b if isinstance(b, float) else a + b
