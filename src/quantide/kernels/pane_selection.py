"""Selection of ranks in windows of panes: ranks, a bitmap of the ranks in the window, and a pointer for each target.

As in rolling_ranks.py, values are sorted once and replaced by their ranks. A window enters and leaves by whole panes.
"""

import numpy as np

from quantide.kernels.block_samples import sort_with_positions
from quantide.kernels.jit import compiled
from quantide.kernels.pane_scan import Panes
from quantide.kernels.radix_sort import digit_for
from quantide.kernels.rank_bitmap import FIRST, bitmap_words, clear, insert, remove, walk
from quantide.typing import Array, Ints, Words


@compiled
def select_in_windows(
    values: Array,
    bits: Array,
    panes: Panes,
    bounds: Ints,
    starts: Ints,
    ends: Ints,
    targets: Ints,
    layout: Words,
    out: Array,
) -> bool:
    """Write the value of each target: out[j, k] has targets[j, k] values of window k below it, among those in `values`.

    panes[i] is the pane of values[i], and bounds[p] the number of values in panes before p, of all panes. Window k has
    the panes from starts[k] to ends[k]; neither falls. Targets below 0 are left out. Return False if a window has not
    as many values.
    """
    n = len(values)
    words, spare = np.empty(n, dtype=np.uint64), np.empty(n, dtype=np.uint64)
    counters = np.empty((2, 1 << digit_for(n)), dtype=np.uint32)
    mask = sort_with_positions(bits, layout, words, spare, counters)
    ranks, indexes = np.empty(n, dtype=np.uint32), bounds.copy()
    for i in range(n):
        words[i] &= mask
        pane = panes[words[i]]
        ranks[indexes[pane]] = FIRST + i
        indexes[pane] += 1
    bitmap = np.empty(bitmap_words(n), dtype=np.uint64)
    upper = np.empty(len(bitmap) // 64 + 1, dtype=np.uint64)
    for j in range(len(targets)):
        clear(bitmap, upper)
        left = right = below = np.int64(0)
        pointer = np.uint64(FIRST)
        for k in range(len(starts)):
            if targets[j, k] < 0:
                continue
            start, end = bounds[starts[k]], bounds[ends[k]]
            if targets[j, k] >= end - start:
                return False
            while right < end:
                rank = np.uint64(ranks[right])
                insert(bitmap, upper, rank)
                below += rank < pointer
                right += 1
            while left < start:
                rank = np.uint64(ranks[left])
                remove(bitmap, upper, rank)
                below -= rank < pointer
                left += 1
            pointer = walk(bitmap, upper, pointer, targets[j, k] - below)
            below = targets[j, k]
            out[j, k] = values[words[pointer - np.uint64(FIRST)]]
    return True
