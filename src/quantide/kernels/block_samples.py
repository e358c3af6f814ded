"""Samples of blocks of every size of a chunk, from one sort of the chunk.

Each value is sorted with its position. Then the sorted values are read in order, and a counter for each block tells
the rank of a value in its block: every spacing-th is written to the block's row. So no block but the chunk is sorted.

A value and its position are one word: the highest bits in which keys differ, then the position.
"""

import numpy as np
from numpy.typing import NDArray

from quantide.kernels.jit import compiled
from quantide.kernels.radix_sort import (
    BLOCK,
    Counters,
    bit_length,
    count_digits,
    digit_for,
    group_of,
    key_of,
    lowest_key,
    sort_counted,
    sort_large,
    sort_range,
)
from quantide.typing import Array, Words

Positions = NDArray[np.uint32]


@compiled
def sorted_positions(bits: Array, layout: Words) -> Positions:
    """Return the positions of values in the order of the values."""
    size = len(bits)
    words, spare = np.empty(size, dtype=np.uint64), np.empty(size, dtype=np.uint64)
    counters = np.empty((2, 1 << digit_for(size)), dtype=np.uint32)
    positions = np.empty(size, dtype=np.uint32)
    mask = sort_with_positions(bits, layout, words, spare, counters)
    for i in range(size):
        positions[i] = words[i] & mask
    return positions


@compiled
def sort_with_positions(bits: Array, layout: Words, words: Words, spare: Words, counters: Counters) -> np.uint64:
    """Write words in the order of the values, which end with the positions of the values; return the positions' mask.

    `words` and `spare` are as long as `bits`; `counters` has room for the digits of a pass over them.
    """
    size = len(bits)
    width = bit_length(np.uint64(size - 1))
    lowest = lowest_key(bits, layout)
    first, differ = key_of(bits, 0, lowest, layout), np.uint64(0)
    for i in range(size):
        differ |= key_of(bits, i, lowest, layout) ^ first
    dropped = np.uint64(max(0, bit_length(differ) + width - 64))  # lowest bits that have no room beside the position
    left = np.uint64(width)
    digit = digit_for(size)
    if differ and size > BLOCK:
        for i in range(size):
            spare[i] = ((key_of(bits, i, lowest, layout) >> dropped) << left) | np.uint64(i)
        sort_large(spare, words, (differ >> dropped) << left, counters)
    else:
        for i in range(size):
            words[i] = ((key_of(bits, i, lowest, layout) >> dropped) << left) | np.uint64(i)
        if differ:
            shift = max(width, bit_length(differ) - int(dropped) + width - 2 * digit)
            count_digits(words, 0, size, shift, digit, counters)
            sort_counted(words, spare, 0, size, shift, digit, counters)
            i = 1 if shift > width else size
            while i < size:
                if words[i] >= words[i - 1]:
                    i += 1
                else:
                    start, i = group_of(words, 0, size, i, shift)
                    sort_range(words, spare, start, i, counters)
    if dropped:
        sort_dropped_bits(words, spare, width, bits, lowest, layout, counters)
    return (np.uint64(1) << left) - np.uint64(1)


@compiled
def sort_dropped_bits(
    words: Words, spare: Words, width: int, bits: Array, lowest: np.uint64, layout: Words, counters: Array
) -> None:
    """Sort words that agree in all but their positions by the keys of the values there."""
    size, left = len(words), np.uint64(width)
    mask = (np.uint64(1) << left) - np.uint64(1)
    i = 1
    while i < size:
        if (words[i] ^ words[i - 1]) > mask:
            i += 1
            continue
        start, end = group_of(words, 0, size, i, width)
        high = words[start] & ~mask
        falls = False
        for k in range(start, end):  # the other bits of these keys agree
            position = words[k] & mask
            words[k] = (key_of(bits, int(position), lowest, layout) << left) | position
            falls |= k > start and words[k] < words[k - 1]
        if falls:
            sort_range(words, spare, start, end, counters)
        for k in range(start, end):
            words[k] = high | (words[k] & mask)
        i = end


@compiled
def sample_blocks(values: Array, positions: Positions, size: int, spacing: int) -> Array:
    """Return a row for each block of `size` values, a power of two: its least value, then every spacing-th."""
    count = len(values) // size
    rows = np.empty((count, 1 + size // spacing), dtype=values.dtype)
    until = np.ones(count, dtype=np.uint32)  # values of a block until the next that is written
    written = np.zeros(count, dtype=np.uint32)
    right = np.uint32(bit_length(np.uint64(size)) - 1)
    for i in range(len(positions)):
        block = positions[i] >> right
        until[block] -= np.uint32(1)
        while until[block] == 0:
            rows[block, written[block]] = values[positions[i]]
            until[block] = spacing - 1 if written[block] == 0 else spacing
            written[block] += np.uint32(1)
    return rows
