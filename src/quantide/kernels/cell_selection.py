"""Cells of values that share the highest bits of their keys: selection sorts only cells that contain a wanted rank."""

import numpy as np

from quantide.kernels.jit import compiled
from quantide.kernels.radix_sort import bit_length, key_of
from quantide.typing import Array, Bools, Ints, Words


@compiled
def find_cells(bits: Array, layout: Words, digit: int) -> tuple[np.uint64, int]:
    """Return the lowest key, and by how many bits keys above it are shifted to number cells below 2^digit.

    There must be a value.
    """
    low = high = key_of(bits, 0, np.uint64(0), layout)
    for i in range(1, len(bits)):
        key = key_of(bits, i, np.uint64(0), layout)
        low, high = min(low, key), max(high, key)
    return low, max(0, bit_length(high - low) - digit)


@compiled
def count_cells(bits: Array, low: np.uint64, shift: int, layout: Words, counts: Ints) -> None:
    """Add the number of values of each cell to `counts`, which has a counter for every cell."""
    drop = np.uint64(shift)
    for i in range(len(bits)):
        counts[np.int64(key_of(bits, i, low, layout) >> drop)] += 1


@compiled
def gather_cells(bits: Array, low: np.uint64, shift: int, layout: Words, wanted: Bools, out: Array) -> None:
    """Copy the bits of values in wanted cells, in their order; `out` has room for exactly these."""
    drop, size = np.uint64(shift), 0
    for i in range(len(bits)):
        if wanted[np.int64(key_of(bits, i, low, layout) >> drop)]:
            out[size] = bits[i]
            size += 1
