"""Evaluation of clusters: the tuple that answers a cluster for the most further arrivals (QUERIES section 3.2).

A tuple answers a cluster when low*n + 1 <= rmin and rmax <= high*n, with low = a - e(a) and high = b + e(b) for the
cluster's interval [a, b] (Theorem 3; the 1 is because the target rank of a query is ceil(phi*n), not phi*n). Here e is
the finest precision at a place: eps, and towards the ends a share of the distance from them. An arrival raises n by
one, and the element's rank by one or not at all. So both inequalities hold for a computable number of further arrivals,
wherever they fall (Theorem 4): the lifetime of the answer.
"""

import math

import numpy as np

from quantide.kernels.jit import compiled
from quantide.typing import Array, Floats, Ints

KEEP_FRACTION = 0.5  # a cluster keeps its value if that has at least this fraction of the longest lifetime
EARLY_FRACTION = 0.5  # a wakeup evaluates clusters that have at most this fraction of their lifetime left
NEVER = 2**62  # deadline that no stream reaches
ANSWERED, STALE, UNANSWERED = 0, 1, 2  # how an evaluation ends


@compiled
def finest_precision(phi: float, eps: float, tail: float, least: float) -> float:
    """Return the finest precision of a cluster at phi, at least `least`; a tail below 0 means that there is none."""
    return eps if tail < 0 else min(eps, max(least, tail * min(phi, 1 - phi)))


@compiled
def accepted_range(left: float, right: float, eps: float, tail: float, least: float) -> tuple[float, float]:
    """Return `low` and `high` of a cluster with this interval."""
    return left - finest_precision(left, eps, tail, least), right + finest_precision(right, eps, tail, least)


@compiled
def ideal_rank(low: float, high: float, n: int, first: int, last: int) -> int:
    """Return the rank of first..last that stays accepted for the most arrivals; low is above 0 and high below 1."""
    balanced = int((n * low + 1 - high) / (1 - high + low))
    return min(max(balanced, math.ceil(low * n + 1), first), last)


@compiled
def lifetime_terms(low: float, high: float, n: int) -> tuple[float, float, float, float]:
    """Arguments of `lifetime`: low*n + 1 and 1/low, high*n and 1/(1 - high); infinite where a line always holds."""
    low_rank, low_scale, high_rank, high_scale = -math.inf, math.inf, math.inf, math.inf
    if low > 0:
        low_rank, low_scale = low * n + 1, 1 / low
    if high < 1:
        high_rank, high_scale = high * n, 1 / (1 - high)
    return low_rank, low_scale, high_rank, high_scale


@compiled
def lifetime(rmin: float, rmax: float, low_rank: float, low_scale: float, high_rank: float, high_scale: float) -> float:
    """Further arrivals for which an element of rank rmin..rmax surely answers; negative if it does not answer now."""
    return min((rmin - low_rank) * low_scale, (high_rank - rmax) * high_scale)


@compiled
def is_past_middle(rmin: int, rmax: int, low: float, high: float, n: int) -> bool:
    """Return True if a tuple outlives more arrivals after it than before it; true from some tuple on."""
    if low <= 0 or high >= 1:
        return rmin + rmax >= (low + high) * n if low <= 0 and high >= 1 else low <= 0
    return (rmin - 1 - low * n) * (1 - high) >= (high * n - rmax) * low


@compiled
def evaluate(
    clusters: Ints,
    span: Floats,
    value: Array,
    ranks: Ints,
    due: Ints,
    values: Array,
    rmin: Ints,
    rmax: Ints,
    n: int,
    eps: float,
    tail: float,
    least: float,
    strict: bool,
    in_order: bool,
) -> tuple[int, int]:
    """Evaluate these clusters from tuples that summarise n elements; return how that ended, and how many were done.

    ranks[c] becomes (rmin, rmax, n, index among the tuples); its n is 0 before the first answer. due[c] becomes the
    deadline. STALE, only if `strict`: an answer has less than KEEP_FRACTION of the lifetime that a summary within eps
    and the tail guarantees (Theorem 5). UNANSWERED: no tuple answers. The search for a tuple starts at the cluster's
    last one or, if `in_order`, at that of the cluster before.

    This is one function because numba counts references to every array that is passed to another one.
    """
    m, start, status, done = len(rmin), 0, ANSWERED, 0
    kept = KEEP_FRACTION * (1 - max(tail, 0.0)) / (2 * (1 - eps))
    while done < len(clusters) and status == ANSWERED:
        c = clusters[done]
        low, high = accepted_range(span[c, 0], span[c, 1], eps, tail, least)
        low_rank, low_scale, high_rank, high_scale = lifetime_terms(low, high, n)
        # 1. The first tuple past the middle, by exponential search from the start: it is in before+1 .. i.
        i = min(start if in_order else ranks[c, 3], m - 1)
        before, step = i - 1, 1
        if is_past_middle(rmin[i], rmax[i], low, high, n):
            while before >= 0 and is_past_middle(rmin[before], rmax[before], low, high, n):
                before, i = max(-1, before - step), before
                step *= 2
        else:
            while i < m and not is_past_middle(rmin[i], rmax[i], low, high, n):
                before, i = i, i + step
                step *= 2
            i = min(i, m)
        while i - before > 1:
            middle = (before + i) // 2
            if is_past_middle(rmin[middle], rmax[middle], low, high, n):
                i = middle
            else:
                before = middle
        # 2. Lifetimes grow up to that tuple and fall from it on: the best tuple is one of the two there. If both have
        # the same value, every rank between theirs is of an element with that value: the ideal rank is taken.
        at = min(i, m - 1)
        lower, upper = rmin[at], rmax[at]
        longest = lifetime(lower, upper, low_rank, low_scale, high_rank, high_scale)
        if 0 < i < m:
            other = lifetime(rmin[i - 1], rmax[i - 1], low_rank, low_scale, high_rank, high_scale)
            if other >= longest:
                at, lower, upper, longest = i - 1, rmin[i - 1], rmax[i - 1], other
            if values[i - 1] == values[i] and low > 0 and high < 1 and rmax[i - 1] <= rmin[i]:
                ideal = ideal_rank(low, high, n, rmax[i - 1], rmin[i])
                other = lifetime(ideal, ideal, low_rank, low_scale, high_rank, high_scale)
                if other > longest:
                    at, lower, upper, longest = i, ideal, ideal, other
        # 3. The current value stays if its lifetime is long enough. If it is no tuple any more, it lies between two.
        chosen = values[at]
        if ranks[c, 2] > 0 and chosen != value[c]:
            current = value[c]
            first, last = 0, m
            hint = ranks[c, 3]
            if hint <= m and (hint == m or values[hint] >= current) and (hint == 0 or values[hint - 1] < current):
                first = last = hint
            while first < last:
                middle = (first + last) // 2
                if values[middle] < current:
                    first = middle + 1
                else:
                    last = middle
            is_tuple = first < m and values[first] == current
            current_lower = rmin[first] if is_tuple else rmin[first - 1] + 1 if first > 0 else 1
            current_upper = rmax[first] if is_tuple else rmax[first] - 1 if first < m else n
            other = lifetime(current_lower, current_upper, low_rank, low_scale, high_rank, high_scale)
            if other >= 0 and other >= KEEP_FRACTION * longest:
                at, chosen, lower, upper, longest = first, current, current_lower, current_upper, other
        start = min(at, m - 1)
        if longest < 0:
            status = UNANSWERED
        elif strict and longest < kept * (span[c, 1] - span[c, 0]) * n:
            status = STALE
        else:
            value[c] = chosen
            ranks[c, 0], ranks[c, 1], ranks[c, 2], ranks[c, 3] = lower, upper, n, at
            due[c] = n + np.int64(longest) if longest < NEVER - n else NEVER
            done += 1
    return status, done


@compiled
def evaluate_pass(
    order: Ints,
    due: Ints,
    span: Floats,
    value: Array,
    ranks: Ints,
    values: Array,
    rmin: Ints,
    rmax: Ints,
    n: int,
    eps: float,
    tail: float,
    least: float,
    strict: bool,
    left: float,
) -> tuple[int, int, int, int]:
    """Evaluate clusters that have at most the fraction `left` of their lifetime left: all if it is 1.

    Return how that ended, how many, how many of them had a deadline that has passed, and the first deadline now.

    With all clusters this is the synchronous pass (QUERIES section 3.5.1, Algorithm 3) over clusters and tuples. No
    interval contains another, so clusters ordered by their left ends are ordered by their right ends too, and the best
    tuple only moves to the right: starting each search at the tuple before makes it one pass.

    With fewer it is the asynchronous one (section 3.5.2, Algorithm 4). The paper's heap of triggers lowers its root by
    one at each arrival; deadlines are absolute, so an arrival is compared with the first of them. Where values arrive
    one by one, a wakeup costs more than the evaluations after it, and to reorder a heap costs more than to compare all
    deadlines. A deadline of -1 is that of a new or narrowed cluster, which is always evaluated.
    """
    everything = left >= 1
    chosen = np.empty(len(order), dtype=np.int64)
    count = 0
    for c in order:
        if everything or due[c] - n <= left * (due[c] - ranks[c, 2]):
            chosen[count] = c
            count += 1
    clusters = chosen[:count]
    deadlines = due[clusters]
    state = span, value, ranks, due, values, rmin, rmax, n, eps, tail, least, strict
    status, done = evaluate(clusters, *state, everything)
    passed = int(np.count_nonzero((deadlines[:done] >= 0) & (deadlines[:done] < n)))
    first = NEVER if status == ANSWERED else -1
    for c in order:
        first = min(first, due[c])
    return status, done, passed, first
