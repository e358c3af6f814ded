"""Quantiles of every window of a column: ranks, a bitmap of the ranks in the window, and a pointer for each phi.

1. Cut the column into segments: the rest of the last window, and several times as many new values.
2. Sort a segment once. Ranks within the segment replace values.
3. A bitmap has one bit for each rank. A step sets the bit of the value that enters and clears the bit of the value that
   leaves. A second level of the bitmap has a bit for each word of the first, to skip empty words.
4. The pointer of a phi is the rank of its quantile. A step moves it to a set bit that is usually among the 32 next to
   it, without a branch that depends on the values.

So each value is sorted at most twice, and a step costs as much for a million values as for a thousand while the bitmap
fits into a processor's cache. J. Suomela, "Median filtering is equivalent to sorting" (2014), has linked lists in place
of the bitmap.
"""

from typing import Any

import numpy as np
from numba.cpython.unsafe import numbers
from numpy.typing import NDArray

from quantide.kernels.block_samples import sort_with_positions
from quantide.kernels.jit import compiled
from quantide.kernels.radix_sort import digit_for
from quantide.typing import Array, Bools, Floats, Ints, Words

FIRST = 64  # rank of the least value of a segment: the first word of a bitmap has no ranks
MAX_ROWS = (1 << 32) - 256  # of a column: ranks have 32 bits
SHORTEST = 512  # new values of a segment, at least
SHORT, MANY, FEW = 1 << 13, 7, 3  # new values for each of the last window: MANY up to SHORT, FEW above
ROUNDING = 1e-9  # as in summary/ranks.py
TARGET, LINEAR, LOWER, HIGHER, NEAREST, MIDPOINT = range(6)  # rules, see rank_of()
ZERO, ONE, SIX, HALF, LAST = (np.uint64(x) for x in (0, 1, 6, 32, 63))

Ranks = NDArray[np.uint32]
leading_zeros: Any = numbers.leading_zeros  # of a uint64
trailing_zeros: Any = numbers.trailing_zeros


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
    out: Array,
    answered: Bools,
) -> None:
    """Write the quantiles of every window: out[j, i] for phis[j] and the window that ends with row i.

    Window i starts with row starts[i], which never falls; without `starts` it has `window` rows. `bits` is a view of
    the values. Rows that are not valid have no value; `valid` may be empty. answered[i] is False, and nothing is
    written to `out`, if window i has fewer than min_count values, at least 1.
    """
    n = len(values)
    longest = longest_segment(n, starts, window)
    words, spare = np.empty(longest, dtype=np.uint64), np.empty(longest, dtype=np.uint64)
    counters = np.empty((2, 1 << digit_for(longest)), dtype=np.uint32)
    ranks = np.empty(longest, dtype=np.uint32)
    bitmap = np.empty(longest // 64 + 4, dtype=np.uint64)
    upper = np.empty(len(bitmap) // 64 + 1, dtype=np.uint64)
    row = 0
    while row < n:
        first = first_row(row, starts, window)
        end = segment_end(row, first, n, starts, window)
        size = end - first
        mask = sort_with_positions(bits[first:end], layout, words[:size], spare[:size], counters)
        present = rank_segment(words[:size], mask, valid[first:end] if len(valid) else valid, ranks)
        for j in range(len(phis)):
            roll_segment(
                values[first:end],
                words[:present],
                mask,
                ranks,
                bitmap[: present // 64 + 4],
                upper,
                first,
                row,
                starts,
                window,
                phis[j],
                rule,
                min_count,
                out[j],
                answered,
            )
        row = end


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
    present = 0
    for i in range(len(words)):
        present += valid[words[i] & mask]
    missing = missing_rank(present)
    at = 0
    for i in range(len(words)):
        position = words[i] & mask
        if valid[position]:
            words[at] = words[i]
            ranks[position] = FIRST + at
            at += 1
        else:
            ranks[position] = missing
    return present


@compiled
def missing_rank(present: int) -> int:
    """Return the rank of rows without a value: in the last word of the bitmap, out of reach of every pointer."""
    return ((FIRST + present + 63) // 64) * 64 + 64


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
    out: Array,
    answered: Bools,
) -> None:
    """Slide the window over a segment, the rows from `first` on, and write the answers from `row` on."""
    missing = np.uint64(missing_rank(len(words)))
    bitmap[:] = ZERO
    upper[:] = ZERO
    size = below = np.int64(0)  # values in the window; those whose rank is below the pointer
    for i in range(row - first):
        rank = np.uint64(ranks[i])
        insert(bitmap, upper, rank)
        size += rank != missing
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
        value = values[words[pointer - np.uint64(FIRST)] & mask]
        if weight > 0:
            following = next_set(bitmap, upper, np.int64(pointer) + 1)
            above = values[words[following - FIRST] & mask]
            out[i] = (value + above) / 2 if rule == MIDPOINT else value + (above - value) * weight
        else:
            out[i] = value


@compiled
def insert(bitmap: Words, upper: Words, rank: np.uint64) -> None:
    """Set the bit of a rank."""
    at = rank >> SIX
    word = bitmap[at]
    bitmap[at] = word | ONE << (rank & LAST)
    if word == ZERO:
        upper[at >> SIX] |= ONE << (at & LAST)


@compiled
def remove(bitmap: Words, upper: Words, rank: np.uint64) -> None:
    """Clear the bit of a rank."""
    at = rank >> SIX
    word = bitmap[at] & ~(ONE << (rank & LAST))
    bitmap[at] = word
    if word == ZERO:
        upper[at >> SIX] &= ~(ONE << (at & LAST))


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


@compiled
def walk(bitmap: Words, upper: Words, pointer: np.uint64, steps: np.int64) -> np.uint64:
    """Return the set bit that has `steps` more set bits below it than the pointer has; there is one.

    Zero steps move a pointer whose own bit is not set to the next one that is.
    """
    at = np.int64(pointer)
    if steps < 0:
        for _ in range(-steps):
            at = previous_set(bitmap, upper, at - 1)
    else:
        at = next_set(bitmap, upper, at)
        for _ in range(steps):
            at = next_set(bitmap, upper, at + 1)
    return np.uint64(at)


@compiled
def next_set(bitmap: Words, upper: Words, at: np.int64) -> np.int64:
    """Return the first set bit from `at` on; there is one."""
    word = bitmap[at >> 6] >> np.uint64(at & 63)
    if word:
        return at + np.int64(trailing_zeros(word))
    at = (at >> 6) + 1
    word = upper[at >> 6] >> np.uint64(at & 63)
    if word:
        at += np.int64(trailing_zeros(word))
    else:
        at = (at >> 6) + 1
        while upper[at] == ZERO:
            at += 1
        at = (at << 6) + np.int64(trailing_zeros(upper[at]))
    return (at << 6) + np.int64(trailing_zeros(bitmap[at]))


@compiled
def previous_set(bitmap: Words, upper: Words, at: np.int64) -> np.int64:
    """Return the last set bit up to `at`; there is one."""
    word = bitmap[at >> 6] << np.uint64(63 - (at & 63))
    if word:
        return at - np.int64(leading_zeros(word))
    at = (at >> 6) - 1
    word = upper[at >> 6] << np.uint64(63 - (at & 63))
    if word:
        at -= np.int64(leading_zeros(word))
    else:
        at = (at >> 6) - 1
        while upper[at] == ZERO:
            at -= 1
        at = (at << 6) + 63 - np.int64(leading_zeros(upper[at]))
    return (at << 6) + 63 - np.int64(leading_zeros(bitmap[at]))
