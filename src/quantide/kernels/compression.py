"""Selection of tuples: for compression and for ranks (algorithms section 1), of any number of summaries at once."""

import numpy as np

from quantide.kernels.jit import pure
from quantide.typing import Ints


@pure
def select_tuples(rmin: Ints, rmax: Ints, bounds: Ints, counts: Ints, b: int) -> tuple[Ints, Ints]:
    """Return indices of the tuples that compression keeps, at most b+1 of each summary, and their offsets by summary.

    The first, the last, and for i = 1..b-1 the tuple with the smallest max(r - rmin, rmax - r) where r = i*n/b.
    Tuple j+1 is strictly better than j exactly when rmin[j] + rmax[j+1] < 2r. That sum rises with j and r rises
    with i, so one walk finds them all; ties always go to the lower tuple, which the error bound needs.
    """
    selected = np.empty(len(rmin), dtype=np.int64)
    offsets = np.zeros(len(bounds), dtype=np.int64)
    at = 0
    for s in range(len(counts)):
        start, end = bounds[s], bounds[s + 1]
        if end - start <= b + 1:
            for j in range(start, end):
                selected[at] = j
                at += 1
        else:
            selected[at] = start
            at += 1
            whole, rest = (2 * counts[s]) // b, (2 * counts[s]) % b
            j = start
            for i in range(1, b):
                doubled = i * whole + (i * rest + b - 1) // b  # 2*i*n/b, rounded up: sums of ranks are whole
                while j + 1 < end and rmin[j] + rmax[j + 1] < doubled:
                    j += 1
                if selected[at - 1] != j:
                    selected[at] = j
                    at += 1
            if selected[at - 1] != end - 1:
                selected[at] = end - 1
                at += 1
        offsets[s + 1] = at
    return selected[:at], offsets


@pure
def find_nearest_tuples(rmin: Ints, rmax: Ints, bounds: Ints, targets: Ints) -> Ints:
    """Return the tuple that answers best, for each summary (row) and target rank (column); -1 in an empty summary."""
    out = np.full(targets.shape, -1, dtype=np.int64)
    for s in range(targets.shape[0]):
        start, end = bounds[s], bounds[s + 1]
        if start == end:
            continue
        for k in range(targets.shape[1]):
            low, high = start, end - 1
            while low < high:
                middle = (low + high) // 2
                if rmin[middle] + rmax[middle + 1] < 2 * targets[s, k]:
                    low = middle + 1
                else:
                    high = middle
            out[s, k] = low
    return out


@pure
def find_bracketing_tuples(rmin: Ints, rmax: Ints, bounds: Ints, targets: Ints) -> tuple[Ints, Ints]:
    """Return, for each summary and target rank, the last tuple surely not after it and the first surely not before."""
    below = np.empty(targets.shape, dtype=np.int64)
    above = np.empty(targets.shape, dtype=np.int64)
    for s in range(targets.shape[0]):
        start, end = bounds[s], bounds[s + 1]
        for k in range(targets.shape[1]):
            below[s, k] = start + np.searchsorted(rmax[start:end], targets[s, k], side="right") - 1
            above[s, k] = start + np.searchsorted(rmin[start:end], targets[s, k], side="left")
    return below, above
