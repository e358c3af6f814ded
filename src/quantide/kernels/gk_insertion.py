"""GK01 sketch: insertion and compression of (value, g, delta) tuples, one element at a time.

Greenwald and Khanna, "Space-efficient online computation of quantile summaries", SIGMOD 2001, sections 2.1 and 3.
rmin of a tuple is the sum of g up to it, rmax is rmin + delta; always g + delta <= max(1, floor(2*eps*n)).
"""

import numpy as np
from numpy.typing import NDArray

from quantide.kernels.jit import compiled
from quantide.typing import Ints


@compiled
def band(delta: int, p: int) -> int:
    """Band of a tuple if floor(2*eps*n) is p: lower for later insertions; the oldest tuples have their own band."""
    if delta == 0:
        return 64
    if delta >= p:
        return 0
    alpha = 1
    while True:
        width = np.int64(1) << np.int64(alpha)
        if delta > p - width - p % width:
            return alpha
        alpha += 1


@compiled
def compress(values: NDArray[np.generic], g: Ints, delta: Ints, size: int, p: int) -> int:
    """Merge tuples, with their descendants, into successors of the same or a higher band; return the new size.

    It works from right to left, collects survivors at the right end and finally moves them to the front. The first
    tuple, the minimum, is never merged away: that would double the error.
    """
    if size < 3:
        return size
    last = size - 1  # the leftmost survivor so far
    i = size - 2
    while i >= 1:
        own = band(delta[i], p)
        weight = g[i]
        j = i - 1
        while j >= 1 and band(delta[j], p) < own:
            weight += g[j]
            j -= 1
        if own <= band(delta[last], p) and weight + g[last] + delta[last] <= p:
            g[last] += weight
            i = j
        else:
            last -= 1
            values[last], g[last], delta[last] = values[i], g[i], delta[i]
            i -= 1
    for k in range(last, size):
        values[1 + k - last], g[1 + k - last], delta[1 + k - last] = values[k], g[k], delta[k]
    return 1 + size - last


@compiled
def max_gap(eps: float, n: int) -> int:
    """Largest g + delta allowed: floor(2*eps*n), or one less where rounding would make the error exceed eps."""
    p = int(2 * eps * n)
    return p - 1 if p // 2 / n > eps else p


@compiled
def insert_arrivals(
    arrivals: NDArray[np.generic],
    values: NDArray[np.generic],
    g: Ints,
    delta: Ints,
    size: int,
    n: int,
    missing: int,
    eps: float,
) -> tuple[int, int]:
    """Insert arrivals one by one until all are in or the arrays are full; return the size and how many are in.

    `missing` of the n elements were never seen (lifted summaries): then not even the rank of a new minimum is exact.
    """
    period = max(1, int(1 / (2 * eps)))
    room = min(len(values), len(g), len(delta))  # another thread may be replacing the arrays of a shared sketch
    for k in range(len(arrivals)):
        if size >= room:
            return size, k
        x = arrivals[k]
        low, high = 0, size
        while low < high:
            middle = (low + high) // 2
            if values[middle] <= x:
                low = middle + 1
            else:
                high = middle
        n += 1
        p = max_gap(eps, n)
        spread = max(missing, p - 1) if 0 < low < size else missing
        for i in range(size, low, -1):
            values[i], g[i], delta[i] = values[i - 1], g[i - 1], delta[i - 1]
        values[low], g[low], delta[low] = x, 1, spread
        size += 1
        if n % period == 0:
            size = compress(values, g, delta, size, p)
    return size, len(arrivals)
