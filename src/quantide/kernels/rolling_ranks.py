"""Quantiles of every window of a column: ranks, a bitmap of the ranks in the window, and a pointer for each phi.

1. Cut the column into segments: the rest of the last window, and several times as many new values.
2. Sort the values of a segment, or only those in a band around the quantile (rolling_bands.py). Ranks replace values.
3. A bitmap has one bit for each rank (rank_bitmap.py). A step sets the bit of the value that enters and clears the bit
   of the value that leaves.
4. The pointer of a phi is the rank of its quantile. A step moves it to a set bit that is usually among the 32 next to
   it, without a branch that depends on the values.

So each value is sorted at most twice, and most values of large windows never. J. Suomela, "Median filtering is
equivalent to sorting" (2014), has linked lists in place of the bitmap.
"""

from typing import Any

import numpy as np

from quantide.kernels.block_samples import sort_with_positions
from quantide.kernels.jit import compiled
from quantide.kernels.presort import detect_order
from quantide.kernels.radix_sort import digit_for
from quantide.kernels.rank_bitmap import (
    FIRST,
    HALF,
    LAST,
    ONE,
    SIX,
    ZERO,
    Ranks,
    bitmap_words,
    clear,
    insert,
    leading_zeros,
    missing_rank,
    next_set,
    remove,
    trailing_zeros,
    walk,
)
from quantide.kernels.rolling_bands import SAMPLED, find_band, rank_band
from quantide.typing import Array, Bools, Floats, Ints, Words

MAX_ROWS = (1 << 32) - 512  # of a column: ranks have 32 bits
LOW_BITS = np.uint64((1 << 32) - 1)
SHORTEST = 512  # new values of a segment, at least
SHORT, MANY, FEW = 1 << 13, 7, 3  # new values for each of the last window: MANY up to SHORT, FEW above
PAUSE = 3  # segments without a band after one whose band did not help
ROUNDING = 1e-9  # as in summary/ranks.py
TARGET, LINEAR, LOWER, HIGHER, NEAREST, MIDPOINT = range(6)  # rules, see rank_of()


@compiled
def roll(
    values: Array,
    bits: Array,
    valid: Bools,
    starts: Ints,
    window: int,
    phis: Floats,
    rule: int,
    min_count: int,
    layout: Words,
    limits: Array,
    out: Array,
    answered: Bools,
) -> None:
    """Write the quantiles of every window: out[j, i] for phis[j] and the window that ends with row i.

    Window i starts with row starts[i], which never falls; without `starts` it has `window` rows. `bits` is a view of
    the values. Rows that are not valid have no value; `valid` may be empty. `limits` are the least and the highest
    possible value and the one to write, with answered[i] False, for a window of fewer than min_count values, which is
    at least 1.
    """
    n = len(values)
    longest = longest_segment(n, starts, window)
    words, spare = np.empty(longest, dtype=np.uint64), np.empty(longest, dtype=np.uint64)
    counters = np.empty((2, 1 << digit_for(longest)), dtype=np.uint32)
    ranks = np.empty(longest, dtype=np.uint32)
    gathered, positions = np.empty(longest // 2 + 1, dtype=bits.dtype), np.empty(longest // 2 + 1, dtype=np.uint32)
    bitmap = np.empty(bitmap_words(longest), dtype=np.uint64)
    upper = np.empty(len(bitmap) // 64 + 1, dtype=np.uint64)
    samples, band = np.empty((SAMPLED, 2), dtype=np.int64), limits[:2].copy()
    pending, pauses = np.empty(len(phis), dtype=np.bool_), np.zeros(len(phis), dtype=np.int64)
    row = 0
    while row < n:
        first = first_row(row, starts, window)
        end = segment_end(row, first, n, starts, window)
        size = end - first
        part, part_bits, part_valid = values[first:end], bits[first:end], valid[first:end] if len(valid) else valid
        part_bitmap = bitmap[: bitmap_words(size)]
        order = detect_order(part)
        large = order == 0 and choose_samples(samples, first, max(row, min_count - 1), end, starts, window)
        pending[:] = True
        for j in range(len(phis)):
            if not large or pauses[j]:
                pauses[j] = max(0, pauses[j] - 1)
                continue
            band[:] = limits[:2]
            present = -1
            buffers = gathered, positions, words, spare, counters
            if find_band(part, part_bits, part_valid, samples, phis[j], layout, *buffers, band):
                present = rank_band(part, part_bits, part_valid, band, layout, *buffers, ranks)
            if present > 0:
                ordered = part, words[:present], LOW_BITS, ranks, part_bitmap, upper
                rules = starts, window, phis[j], rule, min_count, limits[2]
                pending[j] = not roll_segment(*ordered, first, row, *rules, out[j], answered)
            pauses[j] = PAUSE if pending[j] else 0
        if pending.any():
            mask = LOW_BITS
            if order:
                for i in range(size):
                    words[i] = i if order > 0 else size - 1 - i
            else:
                mask = sort_with_positions(part_bits, layout, words[:size], spare[:size], counters)
            present = rank_segment(words[:size], mask, part_valid, ranks)
            for j in range(len(phis)):
                if pending[j]:
                    ordered = part, words[:present], mask, ranks, part_bitmap, upper
                    rules = starts, window, phis[j], rule, min_count, limits[2]
                    roll_segment(*ordered, first, row, *rules, out[j], answered)
        row = end


@compiled
def choose_samples(samples: Ints, first: int, row: int, end: int, starts: Ints, window: int) -> bool:
    """Write the rows of some windows of a segment, from `first` on; return False if it has windows of few rows."""
    if row >= end:
        return False
    for c in range(len(samples)):
        last = row + c * (end - 1 - row) // (len(samples) - 1)
        samples[c, 0], samples[c, 1] = first_row(last, starts, window) - first, last + 1 - first
        if samples[c, 1] - samples[c, 0] <= SHORT:
            return False
    return True


@compiled
def first_row(row: int, starts: Ints, window: int) -> int:
    """Return the first row of the window that ends with a row."""
    return int(starts[row]) if len(starts) else max(0, row + 1 - window)


@compiled
def segment_end(row: int, first: int, n: int, starts: Ints, window: int) -> int:
    """Return the end of the segment whose windows end with `row` or later."""
    rows = row - first if len(starts) else min(window, n)
    return min(n, row + max(SHORTEST, rows * (FEW if rows > SHORT else MANY)))


@compiled
def longest_segment(n: int, starts: Ints, window: int) -> int:
    """Return the length of the longest segment."""
    row, longest = 0, 1
    while row < n:
        first = first_row(row, starts, window)
        row = segment_end(row, first, n, starts, window)
        longest = max(longest, row - first)
    return longest


@compiled
def rank_segment(words: Words, mask: np.uint64, valid: Bools, ranks: Ranks) -> int:
    """Write the rank of each valid value, from FIRST on, and missing_rank() for the others.

    `words` are in the order of the values and end with positions. Those of valid values move to the front; return how
    many there are.
    """
    if not len(valid):
        for i in range(len(words)):
            ranks[words[i] & mask] = FIRST + i
        return len(words)
    missing = missing_rank(len(words))
    at = 0
    for i in range(len(words)):
        position = words[i] & mask
        if valid[position]:
            words[at] = words[i]
            ranks[position] = FIRST + at
            at += 1
        else:
            ranks[position] = missing
    return at


@compiled
def roll_segment(
    values: Array,
    words: Words,
    mask: np.uint64,
    ranks: Ranks,
    bitmap: Words,
    upper: Words,
    first: int,
    row: int,
    starts: Ints,
    window: int,
    phi: float,
    rule: int,
    min_count: int,
    none: Any,
    out: Array,
    answered: Bools,
) -> bool:
    """Slide the window over a segment, the rows from `first` on, and write the answers from `row` on.

    `words` end with the positions of the values that have ranks, in order. Return False if a quantile is none of them.
    """
    missing = np.uint64(missing_rank(len(values)))
    zero = np.zeros_like(values[:1])[0]  # turns -0.0 into 0.0
    clear(bitmap, upper)
    size = below = np.int64(0)  # values in the window; those whose rank is below the pointer
    for i in range(row - first):
        rank = np.uint64(ranks[i])
        insert(bitmap, upper, rank)
        size += rank != missing
        below += rank < np.uint64(FIRST)
    pointer = np.uint64(FIRST)
    target, weight, target_size = 0, 0.0, -1
    left = first
    for i in range(row, first + len(values)):
        rank = np.uint64(ranks[i - first])
        insert(bitmap, upper, rank)
        size += rank != missing
        below += rank < pointer
        until = first_row(i, starts, window)
        while left < until:
            rank = np.uint64(ranks[left - first])
            remove(bitmap, upper, rank)
            size -= rank != missing
            below -= rank < pointer
            left += 1
        answered[i] = size >= min_count
        if size < min_count:
            out[i] = none
            continue
        if size != target_size:
            target_size = size
            target, weight = rank_of(phi, size, rule)
        steps = target - below
        below = np.int64(target)
        base = pointer - HALF
        shift = base & LAST
        near = (bitmap[base >> SIX] >> shift) | ((bitmap[(base >> SIX) + ONE] << ONE) << (LAST - shift))
        up = near >> HALF  # bits from the pointer on
        up &= up - np.uint64(steps > 0)
        falls = ZERO - np.uint64(steps < 0)  # all bits or none
        chosen = ((near << HALF) & falls) | (up & ~falls)
        if -1 <= steps <= 1 and chosen != ZERO:
            down = ~np.uint64(leading_zeros(chosen))
            pointer += (down & falls) | (np.uint64(trailing_zeros(chosen)) & ~falls)
        else:
            pointer = walk(bitmap, upper, pointer, steps)
            if pointer < np.uint64(FIRST) or pointer >= missing:
                return False
        value = values[words[pointer - np.uint64(FIRST)] & mask] + zero
        if weight > 0:
            following = next_set(bitmap, upper, np.int64(pointer) + 1)
            if following >= missing_rank(len(values)):
                return False
            above = values[words[following - FIRST] & mask]
            out[i] = (value + above) / 2 if rule == MIDPOINT else value + (above - value) * weight
        else:
            out[i] = value
    return True


@compiled
def rank_of(phi: float, size: int, rule: int) -> tuple[int, float]:
    """Return the number of values below the quantile, and the fraction of the way from there to the next value.

    TARGET is the target rank of Quantide. The other rules are those of pandas, around position phi * (size - 1).
    """
    if rule == TARGET:
        return max(1, min(size, int(np.ceil(phi * size - ROUNDING)))) - 1, 0.0
    position = phi * (size - 1)
    lower = int(position)
    weight = position - lower
    if weight == 0 or rule == LOWER:
        return lower, 0.0
    if rule == HIGHER:
        return lower + 1, 0.0
    if rule == NEAREST:
        return lower + int(weight > 0.5 or (weight == 0.5 and lower % 2 == 1)), 0.0
    return lower, weight
