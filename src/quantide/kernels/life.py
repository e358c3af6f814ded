"""How long an answer must stay right (QUERIES section 3.2), and which tuple stays so the longest.

A cluster is answered by a tuple exactly when low*n <= rmin and rmax <= high*n, with low = a - eps and
high = b + eps for the cluster's interval [a, b] (Theorem 3). An arrival raises n by one, and the element's rank by one
or not: so both lines hold for so many more arrivals, wherever they fall (Theorem 4).
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantide.kernels.compiled import compiled

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Values = NDArray[Any]

KEEP = 0.5  # a value stays while it lasts at least this part of what the best one would
NEVER = 2**62  # a deadline that does not come
FINE, STALE, NONE = 0, 1, 2


@compiled
def life(rmin: float, rmax: float, low: float, high: float, n: int) -> float:
    """The number of further arrivals for which an element of rank rmin..rmax surely answers; negative: it does not."""
    before = (rmin - low * n) / low if low > 0 else math.inf
    after = (high * n - rmax) / (1 - high) if high < 1 else math.inf
    return min(before, after)


@compiled
def past_middle(rmin: Ints, rmax: Ints, i: int, low: float, high: float, n: int) -> bool:
    """Whether tuple i outlives more arrivals after it than before it; true from some i on."""
    if low <= 0 and high >= 1:
        return rmin[i] + rmax[i] >= (low + high) * n
    if low <= 0 or high >= 1:
        return low <= 0
    return (rmin[i] - low * n) * (1 - high) >= (high * n - rmax[i]) * low


@compiled
def crossing(rmin: Ints, rmax: Ints, low: float, high: float, n: int, start: int) -> int:
    """The first tuple past the middle, searched outward from a place near it."""
    m = len(rmin)
    i = min(max(start, 0), m - 1)
    step = 1
    if past_middle(rmin, rmax, i, low, high, n):
        first = i
        while first > 0 and past_middle(rmin, rmax, first, low, high, n):
            first, i = max(0, first - step), first
            step *= 2
        if past_middle(rmin, rmax, first, low, high, n):
            return first
    else:
        first = i
        while i < m and not past_middle(rmin, rmax, i, low, high, n):
            first, i = i, i + step
            step *= 2
        i = min(i, m)
    while i - first > 1:
        middle = (first + i) // 2
        if past_middle(rmin, rmax, middle, low, high, n):
            i = middle
        else:
            first = middle
    return i


@compiled
def best(values: Values, rmin: Ints, rmax: Ints, low: float, high: float, n: int, start: int) -> tuple[int, int, int]:
    """The tuple with the longest life: its place and the ranks to count with.

    Before the crossing life grows with the place and after it falls, so it is one of the two tuples there. If both
    have the same value, every rank between them is of an element with that value: the ideal one is taken.
    """
    i = crossing(rmin, rmax, low, high, n, start)
    at = min(i, len(rmin) - 1)
    longest = life(rmin[at], rmax[at], low, high, n)
    lower, upper = rmin[at], rmax[at]
    if 0 < i < len(rmin):
        if life(rmin[i - 1], rmax[i - 1], low, high, n) >= longest:
            at, lower, upper = i - 1, rmin[i - 1], rmax[i - 1]
            longest = life(lower, upper, low, high, n)
        if values[i - 1] == values[i] and low > 0 and high < 1 and rmax[i - 1] <= rmin[i]:
            ideal = min(max(np.int64(n * low / (1 - high + low)), rmax[i - 1]), rmin[i])
            if life(ideal, ideal, low, high, n) > longest:
                at, lower, upper = i, ideal, ideal
    return at, lower, upper


@compiled
def ranks_of(values: Values, rmin: Ints, rmax: Ints, n: int, value: Any) -> tuple[int, int]:
    """Between which ranks an element of this value lies, a tuple of the summary or not."""
    after = np.searchsorted(values, value)
    if after < len(values) and values[after] == value:
        return rmin[after], rmax[after]
    lower = rmin[after - 1] + 1 if after > 0 else np.int64(1)
    upper = rmax[after] - 1 if after < len(values) else np.int64(n)
    return lower, upper


@compiled
def evaluate(
    c: int,
    span: Floats,
    value: Values,
    ranks: Ints,
    values: Values,
    rmin: Ints,
    rmax: Ints,
    n: int,
    eps: float,
    start: int,
    strict: bool,
) -> tuple[int, int]:
    """Answer cluster c anew: FINE with its deadline; STALE; NONE.

    ranks[c] is (rmin, rmax, n when that was so, place of the tuple); n = 0 before the first answer. STALE, only when
    strict: an answer lasts less than KEEP of what a summary within eps must give (Theorem 5). NONE: nothing answers.
    """
    low, high = span[c, 0] - eps, span[c, 1] + eps
    at, lower, upper = best(values, rmin, rmax, low, high, n, start)
    chosen, lasts = values[at], life(lower, upper, low, high, n)
    if ranks[c, 2] > 0 and chosen != value[c]:
        held_lower, held_upper = ranks_of(values, rmin, rmax, n, value[c])
        held = life(held_lower, held_upper, low, high, n)
        if held >= 0 and held >= KEEP * lasts:
            chosen, lower, upper, lasts = value[c], held_lower, held_upper, held
    if lasts < 0:
        return NONE, 0
    if strict and lasts < KEEP * (span[c, 1] - span[c, 0]) * n / (2 * (1 - eps)):
        return STALE, 0
    value[c] = chosen
    ranks[c, 0], ranks[c, 1], ranks[c, 2], ranks[c, 3] = lower, upper, n, at
    return FINE, n + np.int64(lasts) if lasts < NEVER - n else NEVER
