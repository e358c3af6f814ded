"""K-way merge of summaries (algorithms section 1), for one group of parts or for a million groups at once.

Take all tuples of a group in the order (value, part, index). Passing a tuple raises the sum of the parts' `rmin` by
the tuple's step in its own part, and the sum of the parts' "next rmax minus one" likewise. So the merged ranks are two
running sums over the merged order, for any number of parts:

    rmin(x) = sum over parts of rmin(last tuple not after x)
    rmax(x) = 1 + sum over parts of (rmax(first tuple not before x) - 1, or n of the part when there is none)

Ties are ordered by part and then by index: then `rmin` increases strictly.
"""

import numpy as np

from quantide.kernels.jit import compiled, pure
from quantide.typing import Array, Ints


@compiled
def merge_two(
    values: Array,
    source: Ints,
    start: int,
    middle: int,
    end: int,
    out_values: Array,
    out_source: Ints,
) -> None:
    """Merge values[start:middle] and values[middle:end], stably, with the source index of each."""
    i, j, k = np.int64(start), np.int64(middle), start
    while i < middle and j < end:
        right = np.int64(values[j] < values[i])
        take = i + (j - i) * right  # no branch: of random values every second one would be mispredicted
        out_values[k] = values[take]
        out_source[k] = source[take]
        j += right
        i += 1 - right
        k += 1
    while i < middle:
        out_values[k] = values[i]
        out_source[k] = source[i]
        i += 1
        k += 1
    while j < end:
        out_values[k] = values[j]
        out_source[k] = source[j]
        j += 1
        k += 1


@compiled
def merge_parts(
    a: Array,
    a_source: Ints,
    b: Array,
    b_source: Ints,
    edges: Ints,
    parts: int,
) -> bool:
    """Merge the sorted parts a[edges[p]:edges[p+1]] pairwise, between a and b; return True if the result is in a."""
    in_a = True
    while parts > 1:
        count = 0
        p = 0
        while p + 1 < parts:
            merge_two(a, a_source, edges[p], edges[p + 1], edges[p + 2], b, b_source)
            edges[count] = edges[p]
            count += 1
            p += 2
        if p < parts:
            for i in range(edges[p], edges[p + 1]):
                b[i], b_source[i] = a[i], a_source[i]
            edges[count] = edges[p]
            count += 1
        edges[count] = edges[parts]
        parts = count
        a, b = b, a
        a_source, b_source = b_source, a_source
        in_a = not in_a
    return in_a


@pure
def merge_groups(
    values: Array,
    rmin: Ints,
    rmax: Ints,
    bounds: Ints,
    counts: Ints,
    groups: Ints,
) -> tuple[Array, Ints, Ints]:
    """Merge the parts of each group; group g has parts groups[g]..groups[g+1]-1 of counts[p] elements each.

    A part may have no tuples: then only its count matters. Merged tuples of a group replace those of its parts.
    """
    max_tuples, max_parts = 0, 0
    for g in range(len(groups) - 1):
        max_tuples = max(max_tuples, bounds[groups[g + 1]] - bounds[groups[g]])
        max_parts = max(max_parts, groups[g + 1] - groups[g])
    a, b = np.empty(max_tuples, dtype=values.dtype), np.empty(max_tuples, dtype=values.dtype)
    a_source, b_source = np.empty(max_tuples, dtype=np.int64), np.empty(max_tuples, dtype=np.int64)
    edges = np.empty(max_parts + 1, dtype=np.int64)
    step_min = np.empty(max_tuples, dtype=np.int64)  # increase of the sum of rmin at a tuple
    step_max = np.empty(max_tuples, dtype=np.int64)  # increase of the sum of (next rmax - 1)
    out = np.empty(len(values), dtype=values.dtype)
    out_rmin, out_rmax = np.empty(len(values), dtype=np.int64), np.empty(len(values), dtype=np.int64)
    for g in range(len(groups) - 1):
        first, last = groups[g], groups[g + 1]
        base = bounds[first]
        high = np.int64(0)
        for p in range(first, last):
            start, end = bounds[p], bounds[p + 1]
            edges[p - first] = start - base
            high += rmax[start] - 1 if start < end else counts[p]
            previous = np.int64(0)
            for i in range(start, end):
                a[i - base] = values[i]
                a_source[i - base] = i - base
                step_min[i - base] = rmin[i] - previous
                previous = rmin[i]
                following = rmax[i + 1] - 1 if i + 1 < end else counts[p]
                step_max[i - base] = following - (rmax[i] - 1)
        edges[last - first] = bounds[last] - base
        in_a = merge_parts(a, a_source, b, b_source, edges, last - first)
        merged, source = (a, a_source) if in_a else (b, b_source)
        low = np.int64(0)
        for i in range(bounds[last] - base):
            t = source[i]
            low += step_min[t]
            out[base + i] = merged[i]
            out_rmin[base + i] = low
            out_rmax[base + i] = high + 1
            high += step_max[t]
    return out, out_rmin, out_rmax
