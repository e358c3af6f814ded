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
def terms(low: float, high: float, n: int) -> tuple[float, float, float, float]:
    """What `lasts` needs: low*n and 1/low, high*n and 1/(1 - high); where a line always holds, for ever."""
    until, from_low = low * n, math.inf
    if low > 0:
        from_low = 1 / low
    if high < 1:
        return until, from_low, high * n, 1 / (1 - high)
    return until, from_low, high * n + 1, math.inf


@compiled
def lasts(rmin: float, rmax: float, until: float, from_low: float, upto: float, from_high: float) -> float:
    return min((rmin - until) * from_low, (upto - rmax) * from_high)


@compiled
def life(rmin: float, rmax: float, low: float, high: float, n: int) -> float:
    """The number of further arrivals for which an element of rank rmin..rmax surely answers; negative: it does not."""
    return lasts(rmin, rmax, *terms(low, high, n))


@compiled
def past_middle(rmin: Ints, rmax: Ints, i: int, low: float, high: float, n: int) -> bool:
    """Whether tuple i outlives more arrivals after it than before it; true from some i on."""
    if low <= 0 or high >= 1:
        return bool(rmin[i] + rmax[i] >= (low + high) * n) if low <= 0 and high >= 1 else low <= 0
    return bool((rmin[i] - low * n) * (1 - high) >= (high * n - rmax[i]) * low)


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
def best(
    values: Values, rmin: Ints, rmax: Ints, low: float, high: float, n: int, start: int
) -> tuple[int, int, int, float]:
    """The tuple with the longest life: its place, the ranks to count with, and that life.

    Before the crossing life grows with the place and after it falls, so it is one of the two tuples there. If both
    have the same value, every rank between them is of an element with that value: the ideal one is taken.
    """
    until, from_low, upto, from_high = terms(low, high, n)
    i = crossing(rmin, rmax, low, high, n, start)
    at = min(i, len(rmin) - 1)
    longest = lasts(rmin[at], rmax[at], until, from_low, upto, from_high)
    lower, upper = rmin[at], rmax[at]
    if 0 < i < len(rmin):
        other = lasts(rmin[i - 1], rmax[i - 1], until, from_low, upto, from_high)
        if other >= longest:
            at, lower, upper, longest = i - 1, rmin[i - 1], rmax[i - 1], other
        if values[i - 1] == values[i] and low > 0 and high < 1 and rmax[i - 1] <= rmin[i]:
            ideal = min(max(np.int64(n * low / (1 - high + low)), rmax[i - 1]), rmin[i])
            other = lasts(ideal, ideal, until, from_low, upto, from_high)
            if other > longest:
                at, lower, upper, longest = i, ideal, ideal, other
    return at, lower, upper, longest


@compiled
def first_from(values: Values, value: Any, start: int) -> int:
    """The first tuple that is not below a value, perhaps near `start`."""
    low, high = 0, len(values)
    if start <= high and (start == high or values[start] >= value) and (start == 0 or values[start - 1] < value):
        return start
    while low < high:
        middle = (low + high) // 2
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def ranks_of(values: Values, rmin: Ints, rmax: Ints, n: int, value: Any, after: int) -> tuple[Any, Any]:
    """Between which ranks an element of this value lies; `after` is the first tuple that is not below it."""
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

    ranks[c] is (rmin, rmax, n when that was so, about where among the tuples); n = 0 before the first answer. STALE,
    only when strict: an answer lasts less than KEEP of what a summary within eps must give (Theorem 5). NONE: nothing
    answers.
    """
    low, high = span[c, 0] - eps, span[c, 1] + eps
    at, lower, upper, longest = best(values, rmin, rmax, low, high, n, start)
    chosen = values[at]
    if ranks[c, 2] > 0 and chosen != value[c]:
        near = first_from(values, value[c], ranks[c, 3])
        held_lower, held_upper = ranks_of(values, rmin, rmax, n, value[c], near)
        held = life(held_lower, held_upper, low, high, n)
        if held >= 0 and held >= KEEP * longest:
            at, chosen, lower, upper, longest = near, value[c], held_lower, held_upper, held
    if longest < 0:
        return NONE, 0
    if strict and longest < KEEP * (span[c, 1] - span[c, 0]) * n / (2 * (1 - eps)):
        return STALE, 0
    value[c] = chosen
    ranks[c, 0], ranks[c, 1], ranks[c, 2], ranks[c, 3] = lower, upper, n, at
    return FINE, n + int(longest) if longest < NEVER - n else NEVER
