"""Radix sort of blocks: about as fast on every processor.

np.sort is fast where its vector kernels are, and slow on processors that run their instructions in microcode. A radix
sort needs no vector instructions. It sorts unsigned keys in the order of the values:

1. Map the bits of each value to a key. Only the bits in which keys differ matter; the others are skipped.
2. Sort by the highest 26 of them: two stable passes of 13 bits.
3. Values that agree in those bits form a group, and groups are few and short in most data. Sort each by its own highest
   bits. A group has at least 12 bits less to sort by than the range that contains it, so the work is bounded on every
   input.

Keys of float64 and int64 are uint64, keys of float32 are uint32. `layout` says how bits become keys, see key_layout().
"""

import numpy as np
from numpy.typing import NDArray

from quantide.kernels.jit import compiled
from quantide.typing import Array, Ints, Words

DIGIT = 13  # most bits of one pass: 8,192 counters of four bytes fit into a processor's first cache
SHORT = 32  # groups up to this size are sorted by insertion
BLOCK = 1 << 16  # longer arrays are distributed to buckets first
BUCKET, MAX_BUCKETS = 1 << 14, 1 << 11  # keys of a bucket, about; the most buckets
CELL, SAMPLE = 12, 1 << 14  # bits that define a cell of the keys; keys in the sample that divides buckets among cells

Counters = NDArray[np.uint32]


def key_layout(dtype: np.dtype[np.generic]) -> Words:
    """Return how the bits of a carrier type become keys: position of the sign bit, sign bit, mask of floats, lowest
    and highest key of a number, and the highest bits of a number: a NaN is beyond them.
    """
    width = 8 * dtype.itemsize
    sign, ones = 1 << (width - 1), (1 << width) - 1
    if dtype.kind != "f":
        return np.array([width - 1, sign, 0, 0, ones, ones], dtype=np.uint64)
    infinity = int(np.array(np.inf, dtype=dtype).view(f"u{dtype.itemsize}"))
    negative = infinity | sign
    return np.array([width - 1, sign, ones, ones ^ negative, negative, negative], dtype=np.uint64)


@compiled
def bit_length(x: np.uint64) -> int:
    """Return the position of the highest set bit, counted from 1; 0 if there is none."""
    length = 0
    for step in (32, 16, 8, 4, 2, 1):
        if x >> np.uint64(step):
            length += step
            x = x >> np.uint64(step)
    return length + int(x)


@compiled
def lowest_key(bits: Array, layout: Words) -> np.uint64:
    """Return the lowest key of integers, which is subtracted from all of them; 0 for floats.

    Otherwise 1 and -1 would differ in their highest bit, and agree in all others that a pass sorts by.
    """
    sign = layout[1]
    lowest = np.uint64(0)
    if layout[2] == 0 and len(bits):
        lowest = np.uint64(bits[0]) ^ sign
        for i in range(1, len(bits)):
            lowest = min(lowest, np.uint64(bits[i]) ^ sign)
    return lowest


@compiled
def key_of(bits: Array, i: int, lowest: np.uint64, layout: Words) -> np.uint64:
    """Return the key of a value, as to_keys() writes it."""
    x = np.uint64(bits[i])
    x = np.uint64(0) if x == layout[1] & layout[2] else x
    key: np.uint64 = (x ^ (((np.uint64(0) - (x >> layout[0])) & layout[2]) | layout[1])) - lowest
    return key


@compiled
def to_keys(
    bits: Array, keys: Array, lowest: np.uint64, layout: Words, counters: Counters, shift: int, digit: int
) -> np.uint64:
    """Write the keys of values and count both digits above `shift`; return the bits in which keys differ.

    All bits of a negative float are flipped, the sign bit of any other value. -0.0 gets the key of 0.0.
    """
    top, sign, floats = layout[0], layout[1], layout[2]
    negative_zero = sign & floats
    mask, low, high = np.uint64((1 << digit) - 1), np.uint64(shift), np.uint64(shift + digit)
    lower, upper = counters[0], counters[1]
    lower[: 1 << digit] = 0
    upper[: 1 << digit] = 0
    first = differ = np.uint64(0)
    for i in range(len(bits)):
        x = np.uint64(bits[i])
        x = np.uint64(0) if x == negative_zero else x
        key = (x ^ (((np.uint64(0) - (x >> top)) & floats) | sign)) - lowest
        keys[i] = key
        first = key if i == 0 else first
        differ |= key ^ first
        lower[(key >> low) & mask] += 1
        upper[(key >> high) & mask] += 1
    return differ


@compiled
def to_bits(keys: Array, bits: Array, lowest: np.uint64, layout: Words) -> None:
    """Write the bits of the values that have these keys."""
    top, sign, floats = layout[0], layout[1], layout[2]
    for i in range(len(keys)):
        key = np.uint64(keys[i]) + lowest
        bits[i] = key ^ ((((key >> top) - np.uint64(1)) & floats) | sign)


@compiled
def count_digits(keys: Array, start: int, end: int, shift: int, digit: int, counters: Counters) -> None:
    """Count both digits of `digit` bits above `shift`."""
    mask, low, high = np.uint64((1 << digit) - 1), np.uint64(shift), np.uint64(shift + digit)
    lower, upper = counters[0], counters[1]
    lower[: 1 << digit] = 0
    upper[: 1 << digit] = 0
    for i in range(start, end):
        key = np.uint64(keys[i])
        lower[(key >> low) & mask] += 1
        upper[(key >> high) & mask] += 1


@compiled
def sort_counted(keys: Array, spare: Array, start: int, end: int, shift: int, digit: int, counters: Counters) -> None:
    """Sort keys[start:end] by the two digits above `shift`, which are counted; `spare` is overwritten."""
    mask, low, high = np.uint64((1 << digit) - 1), np.uint64(shift), np.uint64(shift + digit)
    lower, upper = counters[0], counters[1]
    at_lower = at_upper = np.uint32(start)
    for d in range(1 << digit):
        count = lower[d]
        lower[d] = at_lower
        at_lower += count
        count = upper[d]
        upper[d] = at_upper
        at_upper += count
    for i in range(start, end):
        key = np.uint64(keys[i])
        slot = (key >> low) & mask
        spare[lower[slot]] = key
        lower[slot] += np.uint32(1)
    for i in range(start, end):
        key = np.uint64(spare[i])
        slot = (key >> high) & mask
        keys[upper[slot]] = key
        upper[slot] += np.uint32(1)


@compiled
def insertion_sort(keys: Array, start: int, end: int) -> None:
    """Sort a few keys by insertion."""
    for i in range(start + 1, end):
        key = keys[i]
        j = i
        while j > start and keys[j - 1] > key:
            keys[j] = keys[j - 1]
            j -= 1
        keys[j] = key


@compiled
def sort_range(keys: Array, spare: Array, start: int, end: int, counters: Counters) -> None:
    """Sort keys[start:end] by all their bits; `spare` is overwritten."""
    if end - start <= SHORT:
        insertion_sort(keys, start, end)
        return
    pending = np.empty(
        (2 + (end - start) // SHORT, 2), dtype=np.int64
    )  # ranges that are longer than SHORT and disjoint
    pending[0, 0], pending[0, 1] = start, end
    count = 1
    while count:
        count -= 1
        start, end = pending[count, 0], pending[count, 1]
        differ = np.uint64(0)
        for i in range(start, end):
            differ |= np.uint64(keys[i] ^ keys[start])
        if differ == 0:
            continue
        digit = digit_for(end - start)
        shift = max(0, bit_length(differ) - 2 * digit)
        count_digits(keys, start, end, shift, digit, counters)
        sort_counted(keys, spare, start, end, shift, digit, counters)
        i = start + 1 if shift else end
        while i < end:
            if keys[i] >= keys[i - 1]:
                i += 1
                continue
            begin, i = group_of(keys, start, end, i, shift)
            if i - begin > SHORT:
                pending[count, 0], pending[count, 1] = begin, i
                count += 1
            else:
                insertion_sort(keys, begin, i)


@compiled
def group_of(keys: Array, start: int, end: int, index: int, shift: int) -> tuple[int, int]:
    """Return the bounds, within start..end, of the keys that agree with keys[index] in the bits above `shift`."""
    low = np.uint64(shift)
    group = np.uint64(keys[index]) >> low
    begin = index
    while begin > start and np.uint64(keys[begin - 1]) >> low == group:
        begin -= 1
    stop = index + 1
    while stop < end and np.uint64(keys[stop]) >> low == group:
        stop += 1
    return begin, stop


@compiled
def digit_for(size: int) -> int:
    """Return how many bits a pass over `size` keys sorts by: clearing the counters costs less than the pass."""
    return max(6, min(DIGIT, bit_length(np.uint64(size))))


@compiled
def sort_top_bits(
    bits: Array, keys: Array, spare: Array, lowest: np.uint64, layout: Words, counters: Counters, guess: int
) -> int:
    """Write the keys of values, sorted by their highest varying bits; return how many lower bits were left out.

    `guess` is the return value of a similar block: if it is right for this one, its digits are counted in one pass.
    """
    size = len(bits)
    digit = digit_for(size)
    guess = min(guess, 64 - 2 * digit)
    differ = to_keys(bits, keys, lowest, layout, counters, guess, digit)
    shift = max(0, bit_length(differ) - 2 * digit)
    if differ:
        if shift != guess:
            count_digits(keys, 0, size, shift, digit, counters)
        sort_counted(keys, spare, 0, size, shift, digit, counters)
    return shift


@compiled
def sort_block(
    bits: Array, keys: Array, spare: Array, lowest: np.uint64, layout: Words, counters: Counters, guess: int
) -> int:
    """Write the sorted keys of a block of values; return the next block's `guess`."""
    size = len(bits)
    shift = sort_top_bits(bits, keys, spare, lowest, layout, counters, guess)
    i = 1 if shift else size
    while i < size:
        if keys[i] >= keys[i - 1]:
            i += 1
        else:
            start, i = group_of(keys, 0, size, i, shift)
            sort_range(keys, spare, start, i, counters)
    return shift


@compiled
def sort_large(keys: Array, out: Array, differ: np.uint64, counters: Counters) -> None:
    """Sort many keys into `out`: distribute them to buckets that fit into a processor's cache, then sort each.

    Keys with the same highest CELL bits are a cell. A sample tells how many buckets each cell gets; within a cell,
    buckets divide the keys evenly. An unfortunate sample makes buckets unequal, never wrong.
    """
    size = len(keys)
    shift = max(0, bit_length(differ) - CELL)
    low, cells = np.uint64(shift), np.uint64((1 << CELL) - 1)
    right, left = np.uint64(max(0, shift - 16)), np.uint64(max(0, 16 - shift))
    within = np.uint64(0xFFFF)
    sampled = np.zeros(1 << CELL, dtype=np.int64)
    step = max(1, size // SAMPLE)
    total = 0
    for i in range(0, size, step):
        sampled[(np.uint64(keys[i]) >> low) & cells] += 1
        total += 1
    buckets = max(1, min(MAX_BUCKETS, size // BUCKET))
    base = np.empty(1 << CELL, dtype=np.uint64)  # first bucket of each cell and number of its buckets, times 2**16
    width = np.empty(1 << CELL, dtype=np.uint64)
    before = 0
    for c in range(1 << CELL):
        base[c] = (before * buckets << 16) // total
        before += sampled[c]
        width[c] = np.uint64((before * buckets << 16) // total) - base[c]
    chosen = np.empty(size, dtype=np.uint16)
    following = np.zeros(buckets, dtype=np.uint32)
    for i in range(size):
        key = np.uint64(keys[i])
        cell = (key >> low) & cells
        offset = ((key >> right) << left) & within
        bucket = (base[cell] + (offset * width[cell] >> np.uint64(16))) >> np.uint64(16)
        bucket = min(bucket, np.uint64(buckets - 1))
        chosen[i] = bucket
        following[bucket] += np.uint32(1)
    at = np.uint32(0)
    for b in range(buckets):
        count = following[b]
        following[b] = at
        at += count
    for i in range(size):
        bucket = np.uint64(chosen[i])
        out[following[bucket]] = keys[i]
        following[bucket] += np.uint32(1)
    start = 0
    for b in range(buckets):
        end = int(following[b])
        sort_range(out, keys, start, end, counters)
        start = end


@compiled
def sort_segments(bits: Array, bounds: Ints, chosen: Ints, layout: Words) -> None:
    """Sort the chosen segments bits[bounds[s]:bounds[s+1]] by their values: -0.0 becomes 0.0, NaN come last."""
    longest = 1
    for s in chosen:
        longest = max(longest, bounds[s + 1] - bounds[s])
    counters = np.empty((2, 1 << digit_for(longest)), dtype=np.uint32)
    all_keys, all_spare = np.empty(longest, dtype=bits.dtype), np.empty(min(longest, BLOCK), dtype=bits.dtype)
    guess = 0
    for s in chosen:
        segment = bits[bounds[s] : bounds[s + 1]]
        size = len(segment)
        if size == 0:
            continue
        keys = all_keys[:size]
        lowest = lowest_key(segment, layout)
        if size > BLOCK:
            differ = to_keys(segment, keys, lowest, layout, counters, 0, DIGIT)
            sort_large(keys, segment, differ, counters)
            keys = segment
        else:
            guess = sort_block(segment, keys, all_spare[:size], lowest, layout, counters, guess)
        to_bits(keys, segment, lowest, layout)
        negative_nans = 0  # a NaN whose sign bit is set has a key below those of all numbers
        while negative_nans < size and np.uint64(segment[negative_nans]) > layout[5]:
            negative_nans += 1
        if negative_nans:
            nans = segment[:negative_nans].copy()
            segment[: size - negative_nans] = segment[negative_nans:].copy()
            segment[size - negative_nans :] = nans
