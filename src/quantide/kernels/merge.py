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

from quantide.kernels.compiled import compiled, pure


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
def merge_halves(values: NDArray[np.generic], size: int, out: NDArray[np.generic]) -> None:
    """Merge the sorted halves of every `size` values, from both ends at once: two chains that do not wait.

    Each end writes half of the values, so neither can run past what it reads.
    """
    half = size // 2
    for start in range(0, len(values), size):
        i, j = np.int64(start), np.int64(start + half)
        x, y = np.int64(start + half - 1), np.int64(start + size - 1)
        for k in range(half):
            a, b = values[i], values[j]
            right = np.int64(b < a)
            out[start + k] = b if right else a
            j += right
            i += 1 - right
            c, d = values[x], values[y]
            left = np.int64(d < c)
            out[start + size - 1 - k] = c if left else d
            x -= left
            y -= 1 - left


@compiled
def merge_parts(
    a: NDArray[np.generic],
    at: NDArray[np.int64],
    b: NDArray[np.generic],
    bt: NDArray[np.int64],
    edges: NDArray[np.int64],
    parts: int,
) -> bool:
    """Merge the sorted parts a[edges[p]:edges[p+1]] pair by pair, to and fro; whether they end in a (or in b)."""
    in_a = True
    while parts > 1:
        kept = 0
        p = 0
        while p + 1 < parts:
            merge_two(a, at, edges[p], edges[p + 1], edges[p + 2], b, bt)
            edges[kept] = edges[p]
            kept += 1
            p += 2
        if p < parts:
            for i in range(edges[p], edges[p + 1]):
                b[i], bt[i] = a[i], at[i]
            edges[kept] = edges[p]
            kept += 1
        edges[kept] = edges[parts]
        parts = kept
        a, b = b, a
        at, bt = bt, at
        in_a = not in_a
    return in_a


@pure
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
    widest, most = 0, 0
    for g in range(len(groups) - 1):
        widest = max(widest, bounds[groups[g + 1]] - bounds[groups[g]])
        most = max(most, groups[g + 1] - groups[g])
    a, b = np.empty(widest, dtype=values.dtype), np.empty(widest, dtype=values.dtype)
    at, bt = np.empty(widest, dtype=np.int64), np.empty(widest, dtype=np.int64)
    edges = np.empty(most + 1, dtype=np.int64)
    step_min = np.empty(widest, dtype=np.int64)  # what passing a tuple adds to the sum of rmin
    step_max = np.empty(widest, dtype=np.int64)  # ... and to the sum of (next rmax - 1)
    out = np.empty(len(values), dtype=values.dtype)
    out_rmin, out_rmax = np.empty(len(values), dtype=np.int64), np.empty(len(values), dtype=np.int64)
    for g in range(len(groups) - 1):
        first, last = groups[g], groups[g + 1]
        base = bounds[first]
        ahead = np.int64(0)
        for p in range(first, last):
            start, end = bounds[p], bounds[p + 1]
            edges[p - first] = start - base
            ahead += rmax[start] - 1 if start < end else counts[p]
            before = np.int64(0)
            for i in range(start, end):
                a[i - base] = values[i]
                at[i - base] = i - base
                step_min[i - base] = rmin[i] - before
                before = rmin[i]
                following = rmax[i + 1] - 1 if i + 1 < end else counts[p]
                step_max[i - base] = following - (rmax[i] - 1)
        edges[last - first] = bounds[last] - base
        in_a = merge_parts(a, at, b, bt, edges, last - first)
        merged, source = (a, at) if in_a else (b, bt)
        low = np.int64(0)
        for i in range(bounds[last] - base):
            t = source[i]
            low += step_min[t]
            out[base + i] = merged[i]
            out_rmin[base + i] = low
            out_rmax[base + i] = ahead + 1
            ahead += step_max[t]
    return out, out_rmin, out_rmax
