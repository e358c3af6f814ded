"""Standing queries of many keys: those that are due, each against its own key's tuples."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantide.kernels.compiled import compiled
from quantide.kernels.life import FINE, KEEP, NEVER, evaluate, lasts, terms

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Values = NDArray[Any]
Flags = NDArray[np.bool_]


@compiled
def add_counts(
    codes: Ints,
    asked: Values,
    where: NDArray[np.int32],
    values: Values,
    rmin: Ints,
    rmax: Ints,
    bounds: Ints,
    counts: Ints,
    upto: Ints,
    below: Ints,
) -> None:
    """Add what one part knows: at least so many values of the key are <= asked, at most so many are < asked."""
    for q in range(len(codes)):
        if 0 <= codes[q] < len(where) and where[codes[q]] >= 0:
            g, x = where[codes[q]], asked[q]
            start, end = bounds[g], bounds[g + 1]
            low, high = start, end
            while low < high:  # the first tuple that is not below x
                middle = (low + high) // 2
                if values[middle] < x:
                    low = middle + 1
                else:
                    high = middle
            below[q] += rmax[low] - 1 if low < end else counts[g]
            while low < end and values[low] == x:
                low += 1
            upto[q] += rmin[low - 1] if low > start else 0


@compiled
def keep(
    queries: Ints, counts: Ints, upto: Ints, below: Ints, span: Floats, ranks: Ints, due: Ints, eps: float
) -> Flags:
    """Which of these queries keep the value they have, with a new deadline: those whose value lasts long enough.

    The last of the elements with that value has a rank of at least `upto`, the first of at most `below` + 1. When
    these overlap, every rank between them is of such an element, and the ideal one is taken.
    """
    kept = np.zeros(len(queries), dtype=np.bool_)
    for i in range(len(queries)):
        q, n = queries[i], counts[i]
        low, high = span[q, 0] - eps, span[q, 1] + eps
        until, from_low, upto_n, from_high = terms(low, high, n)
        lower, upper = upto[i], below[i] + 1
        if upper < lower and low > 0 and high < 1:
            lower = upper = min(max(np.int64((n * low + 1 - high) / (1 - high + low)), upper), lower)
        elif upper < lower:
            lower = upper
        longest = lasts(lower, upper, until, from_low, upto_n, from_high)
        enough = KEEP * (span[q, 1] - span[q, 0] + eps) * n / (2 * (1 - eps))
        if ranks[q, 2] > 0 and longest >= 0 and longest >= enough:
            kept[i] = True
            ranks[q, 0], ranks[q, 1], ranks[q, 2] = lower, upper, n
            due[q] = n + np.int64(longest) if longest < NEVER - n else NEVER
    return kept


@compiled
def evaluate_keyed(
    queries: Ints,
    group: Ints,
    span: Floats,
    value: Values,
    ranks: Ints,
    due: Ints,
    targets: Ints,
    values: Values,
    rmin: Ints,
    rmax: Ints,
    bounds: Ints,
    counts: Ints,
    eps: float,
) -> None:
    """Evaluate queries[i] with the tuples of group[i]. With too few values: the nearest tuple, for now."""
    for i in range(len(queries)):
        q, g = queries[i], group[i]
        start, end, n = bounds[g], bounds[g + 1], counts[g]
        own = values[start:end], rmin[start:end], rmax[start:end]
        status, _ = evaluate(queries[i : i + 1], span, value, ranks, due, own[0], own[1], own[2], n, eps, False, False)
        if status != FINE:
            at, nearest = start, n + 1
            for j in range(start, end):
                far = max(targets[i] - rmin[j], rmax[j] - targets[i])
                if far < nearest:
                    at, nearest = j, far
            value[q], due[q] = values[at], n
            ranks[q, 0], ranks[q, 1], ranks[q, 2], ranks[q, 3] = rmin[at], rmax[at], n, at - start
