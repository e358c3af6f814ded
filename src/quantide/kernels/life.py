"""How long an answer must stay right (QUERIES section 3.2), and which tuple stays so the longest.

A cluster is answered by a tuple when low*n + 1 <= rmin and rmax <= high*n, with low = a - eps and high = b + eps for
the cluster's interval [a, b] (Theorem 3; the 1 is because a query asks for the rank ceil(phi*n), not phi*n). An arrival
raises n by one, and the element's rank by one or not: so both lines hold for so many more arrivals, wherever they fall
(Theorem 4).
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
    """What `lasts` needs: low*n + 1 and 1/low, high*n and 1/(1 - high); infinite where a line always holds."""
    until, from_low, upto, from_high = -math.inf, math.inf, math.inf, math.inf
    if low > 0:
        until, from_low = low * n + 1, 1 / low
    if high < 1:
        upto, from_high = high * n, 1 / (1 - high)
    return until, from_low, upto, from_high


@compiled
def lasts(rmin: float, rmax: float, until: float, from_low: float, upto: float, from_high: float) -> float:
    """The number of further arrivals for which an element of rank rmin..rmax surely answers; negative: it does not."""
    return min((rmin - until) * from_low, (upto - rmax) * from_high)


@compiled
def past_middle(rmin: int, rmax: int, low: float, high: float, n: int) -> bool:
    """Whether a tuple outlives more arrivals after it than before it; true from some tuple on."""
    if low <= 0 or high >= 1:
        return rmin + rmax >= (low + high) * n if low <= 0 and high >= 1 else low <= 0
    return (rmin - 1 - low * n) * (1 - high) >= (high * n - rmax) * low


@compiled
def evaluate(
    clusters: Ints,
    span: Floats,
    value: Values,
    ranks: Ints,
    due: Ints,
    values: Values,
    rmin: Ints,
    rmax: Ints,
    n: int,
    eps: float,
    strict: bool,
    follow: bool,
) -> tuple[int, int]:
    """Answer these clusters anew, from the n elements behind the tuples: how that ended, and how many were done.

    ranks[c] becomes (rmin, rmax, n, where among the tuples); its n is 0 before the first answer. due[c] becomes the
    deadline. STALE, only when strict: an answer would last less than KEEP of what a summary within eps must give
    (Theorem 5). NONE: nothing answers. The search for a tuple begins where the cluster's last one was or, to `follow`,
    where that of the cluster before is.

    It is one function, because numba counts references to every array whenever one is handed to another.
    """
    m, start, status, done = len(rmin), 0, FINE, 0
    while done < len(clusters) and status == FINE:
        c = clusters[done]
        low, high = span[c, 0] - eps, span[c, 1] + eps
        until, from_low, upto, from_high = terms(low, high, n)
        # 1. The first tuple past the middle, outward from the start: it is in before+1 .. i.
        i = min(start if follow else ranks[c, 3], m - 1)
        before, step = i - 1, 1
        if past_middle(rmin[i], rmax[i], low, high, n):
            while before >= 0 and past_middle(rmin[before], rmax[before], low, high, n):
                before, i = max(-1, before - step), before
                step *= 2
        else:
            while i < m and not past_middle(rmin[i], rmax[i], low, high, n):
                before, i = i, i + step
                step *= 2
            i = min(i, m)
        while i - before > 1:
            middle = (before + i) // 2
            if past_middle(rmin[middle], rmax[middle], low, high, n):
                i = middle
            else:
                before = middle
        # 2. Before it life grows with the place, from it on it falls: the best tuple is one of the two there. If both
        # have the same value, every rank between them is of an element with that value: the ideal one is taken.
        at = min(i, m - 1)
        lower, upper = rmin[at], rmax[at]
        longest = lasts(lower, upper, until, from_low, upto, from_high)
        if 0 < i < m:
            other = lasts(rmin[i - 1], rmax[i - 1], until, from_low, upto, from_high)
            if other >= longest:
                at, lower, upper, longest = i - 1, rmin[i - 1], rmax[i - 1], other
            if values[i - 1] == values[i] and low > 0 and high < 1 and rmax[i - 1] <= rmin[i]:
                ideal = min(max(np.int64((n * low + 1 - high) / (1 - high + low)), rmax[i - 1]), rmin[i])
                other = lasts(ideal, ideal, until, from_low, upto, from_high)
                if other > longest:
                    at, lower, upper, longest = i, ideal, ideal, other
        # 3. The value there is stays while it is good enough. It may be no tuple any more: then it lies between two.
        chosen = values[at]
        if ranks[c, 2] > 0 and chosen != value[c]:
            held = value[c]
            first, last = 0, m
            near = ranks[c, 3]
            if near <= m and (near == m or values[near] >= held) and (near == 0 or values[near - 1] < held):
                first = last = near
            while first < last:
                middle = (first + last) // 2
                if values[middle] < held:
                    first = middle + 1
                else:
                    last = middle
            here = first < m and values[first] == held
            held_lower = rmin[first] if here else rmin[first - 1] + 1 if first > 0 else 1
            held_upper = rmax[first] if here else rmax[first] - 1 if first < m else n
            other = lasts(held_lower, held_upper, until, from_low, upto, from_high)
            if other >= 0 and other >= KEEP * longest:
                at, chosen, lower, upper, longest = first, held, held_lower, held_upper, other
        start = min(at, m - 1)
        if longest < 0:
            status = NONE
        elif strict and longest < KEEP * (span[c, 1] - span[c, 0]) * n / (2 * (1 - eps)):
            status = STALE
        else:
            value[c] = chosen
            ranks[c, 0], ranks[c, 1], ranks[c, 2], ranks[c, 3] = lower, upper, n, at
            due[c] = n + np.int64(longest) if longest < NEVER - n else NEVER
            done += 1
    return status, done
