"""Insertion of sorted tuples into a running summary, which is compressed on the way.

Both are walked from the largest value down, in the order of a merge. A tuple is dropped if the gap between its
neighbours stays within the limit and the slope of `error_profile`. The first and the last tuple are always kept.
"""

import numpy as np

from quantide.kernels.error_profile import lowest_neighbour
from quantide.kernels.jit import compiled, pure
from quantide.kernels.radix_sort import bit_length
from quantide.typing import Array, Ints

Tuples = tuple[Array, Ints, Ints]
Limits = tuple[float, float, float, float, int]  # eps, tail, share, growth, leaf


@compiled
def gap_limit(share: float, eps: float, n: int) -> int:
    """Return the largest gap that compression may create in a summary of n values: below share * eps * n."""
    return max(0, int(share * eps * n) - 1)


@compiled
def insert_part(values: Array, rmin: Ints, rmax: Ints, n: int, part: Tuples, size: int, limits: Limits) -> Tuples:
    """Merge the tuples of n values with those of a part of `size` values; return those that are kept.

    Gaps are at most share * eps * n, and share * tail of the distance from an end; a tail below 0 means no such limit.
    The share grows by `growth` for every time that the number of leaves has doubled.
    """
    eps, tail, share, growth, leaf = limits
    share += growth * bit_length(np.uint64((n + size) // leaf))
    limit, slope = gap_limit(share, eps, n + size), share * tail
    x, low, high = part
    end, part_end = len(values), len(x)
    capacity = end + part_end
    out = np.empty(capacity, dtype=values.dtype)
    out_rmin, out_rmax = np.empty(capacity, dtype=np.int64), np.empty(capacity, dtype=np.int64)
    i, j, at = end - 1, part_end - 1, capacity
    lowest = 0  # lowest rmin of a neighbour of the last tuple that was kept
    value, value_low, value_high = x[0], np.int64(0), np.int64(0)  # the tuple above, not yet kept or dropped
    has_candidate = False
    while i >= 0 or j >= 0:
        if j < 0 or (i >= 0 and values[i] > x[j]):
            next_value = values[i]
            next_low = rmin[i] + (low[j] if j >= 0 else 0)
            next_high = rmax[i] + (high[j + 1] - 1 if j + 1 < part_end else size)
            i -= 1
        else:
            next_value = x[j]
            next_low = low[j] + (rmin[i] if i >= 0 else 0)
            next_high = high[j] + (rmax[i + 1] - 1 if i + 1 < end else n)
            j -= 1
        if has_candidate and (at == capacity or next_low < lowest):
            at -= 1
            out[at], out_rmin[at], out_rmax[at] = value, value_low, value_high
            lowest = lowest_neighbour(int(value_high), n + size, limit, slope)
        value, value_low, value_high = next_value, next_low, next_high
        has_candidate = True
    if has_candidate:
        at -= 1
        out[at], out_rmin[at], out_rmax[at] = value, value_low, value_high
    return out[at:], out_rmin[at:], out_rmax[at:]


@pure
def insert_rows(
    values: Array, rmin: Ints, rmax: Ints, n: int, rows: Array, ranks: Ints, size: int, limits: Limits
) -> Tuples:
    """Insert rows of values that have these ranks in blocks of `size` values, one after the other."""
    tuples = values.copy(), rmin.copy(), rmax.copy()
    for r in range(rows.shape[0]):
        tuples = insert_part(*tuples, n + r * size, (rows[r], ranks, ranks), size, limits)
    return tuples


@pure
def insert_parts(
    values: Array,
    rmin: Ints,
    rmax: Ints,
    n: int,
    parts: Array,
    parts_rmin: Ints,
    parts_rmax: Ints,
    bounds: Ints,
    counts: Ints,
    limits: Limits,
) -> Tuples:
    """Insert parts of counts[p] values, whose tuples are at bounds[p]:bounds[p+1], one after the other."""
    tuples = values.copy(), rmin.copy(), rmax.copy()
    for p in range(len(counts)):
        start, end = bounds[p], bounds[p + 1]
        part = parts[start:end], parts_rmin[start:end], parts_rmax[start:end]
        tuples = insert_part(*tuples, n, part, counts[p], limits)
        n += counts[p]
    return tuples
