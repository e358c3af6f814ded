"""K-way merge of summaries (algorithms section 1), for one group of parts or for a million groups at once.

Take all tuples of a group in the order (value, part, position). Passing a tuple raises the sum of the parts'
`rmin` by what the tuple adds in its own part, and the sum of the parts' "one less than the next rmax" likewise.
So the merged ranks are two running sums over the merged order, whatever the number of parts:

    rmin(x) = sum over parts of rmin(last tuple not after x)
    rmax(x) = 1 + sum over parts of (rmax(first tuple not before x) - 1, or n of the part when there is none)

Ties are ordered by part and then by position: then `rmin` increases strictly.
"""

import numpy as np
from numpy.typing import NDArray

from quantide.kernels.compiled import compiled


@compiled
def merge_two(
    values: NDArray[np.generic],
    source: NDArray[np.int64],
    start: int,
    middle: int,
    end: int,
    out_values: NDArray[np.generic],
    out_source: NDArray[np.int64],
) -> None:
    """Stable merge of values[start:middle] and values[middle:end], carrying where each came from."""
    i, j, k = np.int64(start), np.int64(middle), start
    while i < middle and j < end:
        right = np.int64(values[j] < values[i])
        take = i + (j - i) * right  # no branch: a random merge would mispredict every second one
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
def merge_order(
    values: NDArray[np.generic], bounds: NDArray[np.int64], first: int, last: int
) -> tuple[NDArray[np.generic], NDArray[np.int64]]:
    """Merge the sorted parts first..last-1, part p being values[bounds[p]:bounds[p+1]]; also their origins."""
    start, end = bounds[first], bounds[last]
    a = values[start:end].copy()
    at = np.arange(start, end)
    b = np.empty_like(a)
    bt = np.empty_like(at)
    edges = bounds[first : last + 1] - start
    parts = last - first
    while parts > 1:
        kept = 0
        p = 0
        while p + 1 < parts:
            merge_two(a, at, edges[p], edges[p + 1], edges[p + 2], b, bt)
            edges[kept] = edges[p]
            kept += 1
            p += 2
        if p < parts:
            b[edges[p] : edges[p + 1]] = a[edges[p] : edges[p + 1]]
            bt[edges[p] : edges[p + 1]] = at[edges[p] : edges[p + 1]]
            edges[kept] = edges[p]
            kept += 1
        edges[kept] = edges[parts]
        parts = kept
        a, b = b, a
        at, bt = bt, at
    return a, at


@compiled
def merge_groups(
    values: NDArray[np.generic],
    rmin: NDArray[np.int64],
    rmax: NDArray[np.int64],
    bounds: NDArray[np.int64],
    counts: NDArray[np.int64],
    groups: NDArray[np.int64],
) -> tuple[NDArray[np.generic], NDArray[np.int64], NDArray[np.int64]]:
    """Merge the parts of each group; group g holds parts groups[g]..groups[g+1]-1 of counts[p] elements each.

    A part may have no tuples: then only its count matters. Tuples of a group stay where its parts were.
    """
    out = np.empty_like(values)
    out_rmin = np.empty_like(rmin)
    out_rmax = np.empty_like(rmax)
    step_min = np.empty_like(rmin)  # what passing a tuple adds to the sum of rmin
    step_max = np.empty_like(rmax)  # ... and to the sum of (next rmax - 1)
    for g in range(len(groups) - 1):
        first, last = groups[g], groups[g + 1]
        ahead = np.int64(0)
        for p in range(first, last):
            start, end = bounds[p], bounds[p + 1]
            if start == end:
                ahead += counts[p]
                continue
            ahead += rmax[start] - 1
            before = np.int64(0)
            for i in range(start, end):
                step_min[i] = rmin[i] - before
                before = rmin[i]
                following = rmax[i + 1] - 1 if i + 1 < end else counts[p]
                step_max[i] = following - (rmax[i] - 1)
        merged, source = merge_order(values, bounds, first, last)
        low = np.int64(0)
        start = bounds[first]
        for i in range(len(merged)):
            t = source[i]
            low += step_min[t]
            out[start + i] = merged[i]
            out_rmin[start + i] = low
            out_rmax[start + i] = ahead + 1
            ahead += step_max[t]
    return out, out_rmin, out_rmax
