"""Arrival counts: a summary stays valid because every later arrival is counted against its tuples.

Tuples are (values, rmin, rmax) with the minimum and the maximum at the ends. An arrival x raises by one both ranks of
every tuple whose element is ordered after it, and nothing else. Elements equal to a tuple's value are ordered before
the last tuple of that value.
"""

from typing import Any

import numpy as np

from quantide.kernels.jit import compiled
from quantide.typing import Array, Ints

MANY_ARRIVALS = 8  # where there is an arrival for so many tuples, sorting arrivals costs less than searching tuples


@compiled
def skip_before(arrived: Array, at: int, end: int, value: Any, with_equal: bool, step: int) -> int:
    """Return the first index of at..end whose arrival is after a value, or equal to it unless `with_equal`.

    `step`, a power of two, should rarely be too small: then no branch depends on the values.
    """
    while at + step <= end and (arrived[at + step - 1] < value or (with_equal and arrived[at + step - 1] == value)):
        at += step
        step *= 2
    while step > 1:
        step //= 2
        if at + step <= end:
            last = arrived[at + step - 1]
            at += step * int((last < value) | (with_equal & (last == value)))
    return at


@compiled
def count_few_arrivals(arrived: Array, values: Array, rmin: Ints, rmax: Ints) -> None:
    """Turn tuples of n elements into tuples of n + len(arrived), for a few arrivals in any order."""
    m = len(values)
    counts = np.zeros(m + 1, dtype=np.int64)  # arrivals that are before a tuple, and not before the previous one
    for x in arrived:
        first, last = 1, m
        while first < last:  # the first tuple above x, except the minimum
            middle = (first + last) // 2
            if values[middle] <= x:
                first = middle + 1
            else:
                last = middle
        if first > 1 and values[first - 1] == x:
            first -= 1
        counts[first] += 1
    before = np.int64(0)
    for i in range(1, m - 1):
        before += counts[i]
        rmin[i] += before
        rmax[i] += before
    rmin[m - 1] += len(arrived)
    rmax[m - 1] += len(arrived)
    zero = np.zeros_like(values[:1])[0]  # added, it turns -0.0 into 0.0
    for x in arrived:
        values[0] = min(values[0], x + zero)
        values[m - 1] = max(values[m - 1], x + zero)


@compiled
def count_arrivals(arrived: Array, bounds: Ints, values: Array, rmin: Ints, rmax: Ints) -> None:
    """Turn tuples of n elements into tuples of n + len(arrived); every arrived[bounds[b]:bounds[b+1]] is sorted."""
    m, total, blocks = len(values), len(arrived), len(bounds) - 1
    step = 2  # about twice the number of a block's arrivals between two tuples
    while step * m * blocks <= total:
        step *= 2
    at = bounds[:blocks].copy()  # arrivals before the tuple
    for i in range(1, m - 1):
        value, with_equal = values[i], values[i + 1] != values[i]
        before = np.int64(0)
        for b in range(blocks):  # a search in one block does not wait for that in another
            at[b] = skip_before(arrived, at[b], bounds[b + 1], value, with_equal, step)
            before += at[b] - bounds[b]
        rmin[i] += before
        rmax[i] += before
    rmin[m - 1] += total
    rmax[m - 1] += total
    for b in range(blocks):
        if bounds[b] < bounds[b + 1]:
            values[0] = min(values[0], arrived[bounds[b]])
            values[m - 1] = max(values[m - 1], arrived[bounds[b + 1] - 1])
