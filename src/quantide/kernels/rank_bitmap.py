"""Bitmap of ranks with two levels: a bit for each rank, and a bit for each word of the first level that is not empty.

Ranks of values start with FIRST. Bits below are for values under a band, those of the last word for rows without a
value and for values over a band. A guard in either place is always set, so that every search ends.
"""

from typing import Any

import numpy as np
from numba.cpython.unsafe import numbers
from numpy.typing import NDArray

from quantide.kernels.jit import compiled
from quantide.typing import Words

FIRST = 64  # rank of the least value
UNDER, UNDER_GUARD = 0, 1  # rank of values under a band
OVER, OVER_GUARD = 1, 2  # rank of values over a band, counted from missing_rank()
ZERO, ONE, SIX, HALF, LAST = (np.uint64(x) for x in (0, 1, 6, 32, 63))

Ranks = NDArray[np.uint32]
leading_zeros: Any = numbers.leading_zeros  # of a uint64
trailing_zeros: Any = numbers.trailing_zeros


@compiled
def bitmap_words(present: int) -> int:
    """Return the number of words of the first level for a number of ranks."""
    return (FIRST + present + 63) // 64 + 2


@compiled
def missing_rank(present: int) -> int:
    """Return the rank of rows without a value: the last word of the bitmap, out of reach of every pointer."""
    return (bitmap_words(present) - 1) * 64


@compiled
def clear(bitmap: Words, upper: Words) -> None:
    """Remove all ranks, and set both guards."""
    bitmap[:] = ZERO
    upper[:] = ZERO
    insert(bitmap, upper, np.uint64(UNDER_GUARD))
    insert(bitmap, upper, np.uint64((len(bitmap) - 1) * 64 + OVER_GUARD))


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
def walk(bitmap: Words, upper: Words, pointer: np.uint64, steps: np.int64) -> np.uint64:
    """Return the set bit that has `steps` more set bits below it than the pointer has.

    Zero steps move a pointer whose own bit is not set to the next one that is. A walk ends at a bit that is no value.
    """
    at, end = np.int64(pointer), np.int64(len(bitmap) - 1) * 64
    if steps < 0:
        while steps < 0 and at >= FIRST:
            at = previous_set(bitmap, upper, at - 1)
            steps += 1
    else:
        at = next_set(bitmap, upper, at)
        while steps > 0 and at < end:
            at = next_set(bitmap, upper, at + 1)
            steps -= 1
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
