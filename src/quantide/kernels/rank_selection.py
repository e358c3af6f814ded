"""Selection of ranks of a block: a radix sort of those groups of values only that contain a rank.

Where ranks are few, one pass is enough to find their groups.
"""

import numpy as np

from quantide.kernels.jit import compiled
from quantide.kernels.radix_sort import (
    SHORT,
    Counters,
    bit_length,
    digit_for,
    group_of,
    key_of,
    lowest_key,
    sort_range,
    sort_top_bits,
    to_bits,
)
from quantide.typing import Array, Ints, Words

FEW = 32  # a selection of one rank in so many takes one pass


@compiled
def select_ranks(
    bits: Array, ranks: Ints, keys: Array, spare: Array, layout: Words, counters: Counters, guess: int, out: Array
) -> int:
    """Write the bits of the values with these ranks, ascending and counted from 1; return the next block's `guess`.

    The ranks must include the first and the last, which are NaN if any value is: then return -1.
    """
    lowest = lowest_key(bits, layout)
    shift = sort_top_bits(bits, keys, spare, lowest, layout, counters, guess)
    return shift if pick_ranks(keys, spare, ranks, shift, lowest, layout, counters, out) else -1


@compiled
def select_few_ranks(
    bits: Array, ranks: Ints, keys: Array, spare: Array, layout: Words, counters: Counters, out: Array
) -> int:
    """Do the same with one pass: groups are longer, but few of them contain a rank.

    Return 0, and write nothing, if most values are in long groups, where one pass does not help; -1 if there is a NaN.
    """
    size = len(bits)
    lowest = lowest_key(bits, layout)
    first, differ = key_of(bits, 0, lowest, layout), np.uint64(0)
    for i in range(size):
        key = key_of(bits, i, lowest, layout)
        keys[i] = key
        differ |= key ^ first
    digit = max(6, digit_for(size) - 1)
    shift = max(0, bit_length(differ) - digit)
    low, mask = np.uint64(shift), np.uint64((1 << digit) - 1)
    following = counters[0]
    following[: 1 << digit] = 0
    for i in range(size):
        following[(np.uint64(keys[i]) >> low) & mask] += np.uint32(1)
    at = np.uint32(0)
    crowded = np.uint32(0)  # values in long groups
    for d in range(1 << digit):
        count = following[d]
        following[d] = at
        at += count
        crowded += count if count > SHORT else np.uint32(0)
    if shift and 2 * np.int64(crowded) > size:
        return 0
    for i in range(size):
        key = np.uint64(keys[i])
        slot = (key >> low) & mask
        spare[following[slot]] = key
        following[slot] += np.uint32(1)
    return 1 if pick_ranks(spare, keys, ranks, shift, lowest, layout, counters, out) else -1


@compiled
def pick_ranks(
    keys: Array,
    spare: Array,
    ranks: Ints,
    shift: int,
    lowest: np.uint64,
    layout: Words,
    counters: Counters,
    out: Array,
) -> bool:
    """Write the bits of the values with these ranks; keys are sorted by the bits above `shift`. False if NaN."""
    size = len(keys)
    sorted_end = 0 if shift else size
    for r in range(len(ranks)):
        at = ranks[r] - 1
        if at >= sorted_end:
            start, sorted_end = group_of(keys, sorted_end, size, at, shift)
            if sorted_end - start > 1:
                sort_range(keys, spare, start, sorted_end, counters)
        out[r] = keys[at]
    if np.uint64(out[0]) < layout[3] or np.uint64(out[len(ranks) - 1]) > layout[4]:
        return False
    to_bits(out, out, lowest, layout)
    return True


@compiled
def select_rows(blocks: Array, ranks: Ints, layout: Words, out: Array) -> bool:
    """Write the values with these ranks of every block, as bits, to the rows of `out`; return False if there is a NaN.

    The ranks must include the first and the last.
    """
    size = blocks.shape[1]
    counters = np.empty((2, 1 << digit_for(size)), dtype=np.uint32)
    keys, spare = np.empty(size, dtype=blocks.dtype), np.empty(size, dtype=blocks.dtype)
    guess = 0
    few = FEW * len(ranks) <= size
    for b in range(blocks.shape[0]):
        found = 0
        if few:
            found = select_few_ranks(blocks[b], ranks, keys, spare, layout, counters, out[b])
            few = found != 0  # the next blocks are likely to be as crowded
        if found == 0:
            guess = select_ranks(blocks[b], ranks, keys, spare, layout, counters, guess, out[b])
            found = guess
        if found < 0:
            return False
    return True
