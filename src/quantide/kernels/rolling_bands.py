"""Bands: the narrow range of values in which a quantile moves while a window slides over a segment.

A value below the band counts, and one above it does not: only values in the band are sorted. The band comes from
samples of some windows. If the quantile leaves it all the same, the segment is sorted as a whole, so a band never
changes an answer.
"""

import numpy as np
from numpy.typing import NDArray

from quantide.kernels.block_samples import sort_with_positions
from quantide.kernels.jit import compiled
from quantide.kernels.radix_sort import Counters
from quantide.kernels.rank_bitmap import FIRST, OVER, UNDER, Ranks, missing_rank
from quantide.typing import Array, Bools, Ints, Words

SAMPLED = 9  # windows that are sampled
SAMPLE = 1 << 12  # values of a sample, at most
SHARE = 16  # rows of a window for each value of its sample, at least
DEVIATIONS, LEAST_MARGIN = 4.0, 8.0  # ranks of a sample on either side: standard deviations, at least so many

Positions = NDArray[np.uint32]


@compiled
def sample_size(rows: int) -> int:
    """Return how many rows of a window are sampled."""
    return min(SAMPLE, rows // SHARE)


@compiled
def find_band(
    values: Array,
    bits: Array,
    valid: Bools,
    samples: Ints,
    phi: float,
    layout: Words,
    gathered: Array,
    positions: Positions,
    words: Words,
    spare: Words,
    counters: Counters,
    band: Array,
) -> bool:
    """Narrow band[0] and band[1], the least and the highest possible value; return False if samples are too small.

    A row of `samples` has the first row of a window and its end.
    """
    lowest, highest = band[0], band[1]
    for c in range(len(samples)):
        start, rows = samples[c, 0], samples[c, 1] - samples[c, 0]
        wanted = sample_size(rows)
        size = 0
        for k in range(wanted):
            row = start + k * rows // wanted
            gathered[size] = bits[row]
            positions[size] = row
            size += 1 if len(valid) == 0 else int(valid[row])
        if size < 4 * LEAST_MARGIN:
            return False
        mask = sort_with_positions(gathered[:size], layout, words[:size], spare[:size], counters)
        margin = max(LEAST_MARGIN, DEVIATIONS * np.sqrt(phi * (1.0 - phi) * size)) + 1
        low, high = int(phi * size - margin), int(phi * size + margin)
        least = values[positions[words[low] & mask]] if low > 0 else lowest
        most = values[positions[words[high] & mask]] if high < size else highest
        band[0] = least if c == 0 else min(band[0], least)
        band[1] = most if c == 0 else max(band[1], most)
    return True


@compiled
def rank_band(
    values: Array,
    bits: Array,
    valid: Bools,
    band: Array,
    layout: Words,
    gathered: Array,
    positions: Positions,
    words: Words,
    spare: Words,
    counters: Counters,
    ranks: Ranks,
) -> int:
    """Write ranks of the values from band[0] to band[1], and UNDER or OVER for the others; return how many they are.

    `words` become the positions of the values in the band, in order. Return -1 if there is no room for them in
    `gathered` and `positions`.
    """
    missing = missing_rank(len(values))
    least, most = band[0], band[1]
    room = len(gathered) - 1
    size = 0
    for i in range(len(values)):
        x = values[i]
        gathered[size] = bits[i]
        positions[size] = i
        inside = (x >= least) & (x <= most)
        ranks[i] = UNDER if x < least else missing + OVER
        if len(valid) and not valid[i]:
            inside = False
            ranks[i] = missing
        size += int(inside)
        if size > room:
            return -1
    if size == 0:
        return -1
    mask = sort_with_positions(gathered[:size], layout, words[:size], spare[:size], counters)
    for k in range(size):
        position = positions[words[k] & mask]
        words[k] = position
        ranks[position] = FIRST + k
    return size
