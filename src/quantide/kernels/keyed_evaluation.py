"""Evaluation of continuous queries of many keys, each from its own key's tuples."""

import numpy as np
from numpy.typing import NDArray

from quantide.kernels.cluster_evaluation import (
    ANSWERED,
    KEEP_FRACTION,
    NEVER,
    accepted_range,
    evaluate,
    finest_precision,
    ideal_rank,
    lifetime,
    lifetime_terms,
)
from quantide.kernels.jit import compiled
from quantide.typing import Array, Bools, Floats, Ints


@compiled
def add_rank_bounds(
    codes: Ints,
    query_values: Array,
    group_of: NDArray[np.int32],
    values: Array,
    rmin: Ints,
    rmax: Ints,
    bounds: Ints,
    counts: Ints,
    le_bound: Ints,
    lt_bound: Ints,
) -> None:
    """Add one part's bounds of each query's key: a lower one of values <= the query's, an upper one of values < it."""
    for q in range(len(codes)):
        if 0 <= codes[q] < len(group_of) and group_of[codes[q]] >= 0:
            g, x = group_of[codes[q]], query_values[q]
            start, end = bounds[g], bounds[g + 1]
            low, high = start, end
            while low < high:  # the first tuple that is not below x
                middle = (low + high) // 2
                if values[middle] < x:
                    low = middle + 1
                else:
                    high = middle
            lt_bound[q] += rmax[low] - 1 if low < end else counts[g]
            while low < end and values[low] == x:
                low += 1
            le_bound[q] += rmin[low - 1] if low > start else 0


@compiled
def extend_answers(
    queries: Ints,
    counts: Ints,
    le_bound: Ints,
    lt_bound: Ints,
    span: Floats,
    ranks: Ints,
    due: Ints,
    eps: float,
    tail: float,
) -> Bools:
    """Extend the deadlines of queries whose value has a lifetime that is long enough; return which these are.

    The last element with that value has a rank of at least `le_bound`, the first of at most `lt_bound` + 1. If these
    overlap, every rank between them is of such an element, and the ideal rank is taken.
    """
    extended = np.zeros(len(queries), dtype=np.bool_)
    for i in range(len(queries)):
        q, n = queries[i], counts[i]
        low, high = accepted_range(span[q, 0], span[q, 1], eps, tail, 0.0)
        low_rank, low_scale, high_rank, high_scale = lifetime_terms(low, high, n)
        lower, upper = le_bound[i], lt_bound[i] + 1
        if upper < lower and low > 0 and high < 1:
            lower = upper = ideal_rank(low, high, n, upper, lower)
        elif upper < lower:
            lower = upper
        longest = lifetime(lower, upper, low_rank, low_scale, high_rank, high_scale)
        finest = min(finest_precision(span[q, 0], eps, tail, 0.0), finest_precision(span[q, 1], eps, tail, 0.0))
        min_lifetime = KEEP_FRACTION * (span[q, 1] - span[q, 0] + finest) * n / (2 * (1 - eps))
        if ranks[q, 2] > 0 and longest >= 0 and longest >= min_lifetime:
            extended[i] = True
            ranks[q, 0], ranks[q, 1], ranks[q, 2] = lower, upper, n
            due[q] = n + np.int64(longest) if longest < NEVER - n else NEVER
    return extended


@compiled
def evaluate_keyed(
    queries: Ints,
    group: Ints,
    span: Floats,
    value: Array,
    ranks: Ints,
    due: Ints,
    targets: Ints,
    values: Array,
    rmin: Ints,
    rmax: Ints,
    bounds: Ints,
    counts: Ints,
    eps: float,
    tail: float,
) -> None:
    """Evaluate queries[i] from the tuples of group[i]; with too few values take the nearest one, due at once.

    Between two tuples of one value every rank has that value.
    """
    for i in range(len(queries)):
        q, g = queries[i], group[i]
        start, end, n = bounds[g], bounds[g + 1], counts[g]
        own = values[start:end], rmin[start:end], rmax[start:end]
        status, _ = evaluate(
            queries[i : i + 1], span, value, ranks, due, own[0], own[1], own[2], n, eps, tail, 0.0, False, False
        )
        if status != ANSWERED:
            at, nearest, target = start, n + 1, targets[i]
            lower = upper = target
            for j in range(start, end):
                low, high = rmin[j], rmax[j]
                if j + 1 < end and values[j + 1] == values[j] and low <= target <= rmin[j + 1]:
                    low, high = target, max(target, high)
                distance = max(target - low, high - target)
                if distance < nearest:
                    at, nearest, lower, upper = j, distance, low, high
            value[q], due[q] = values[at], n
            ranks[q, 0], ranks[q, 1], ranks[q, 2], ranks[q, 3] = lower, upper, n, at - start
