"""Order statistics: values at given positions of the sorted order, without sorting all values."""

import numpy as np

from quantide.kernels.block_sort import as_bits, layout_of, sorted_copy
from quantide.kernels.cell_selection import count_cells, find_cells, gather_cells
from quantide.kernels.jit import freeze
from quantide.typing import Array, Ints

SORTED = 1 << 12  # as many values are sorted
DIGIT = 14  # bits of a cell's number: the counters fit into a processor's second cache


def order_statistics(values: Array, positions: Ints) -> Array:
    """Return the values at these positions of the sorted order, counted from 0; values are of a carrier type, not NaN.

    Values are counted in cells of keys. Only those in cells with a position are sorted, by the same method while that
    at least halves them. Each step reads its values three times, and at worst all are sorted once.

    >>> order_statistics(np.array([5.0, 1.0, 4.0, 2.0]), np.array([0, 2]))
    array([1., 4.])
    """
    n = len(values)
    if n <= SORTED:
        short: Array = sorted_copy(values)[positions]
        return short
    bits, layout = freeze(as_bits(np.ascontiguousarray(values))), layout_of(values.dtype.name)
    lowest, shift = find_cells(bits, layout, DIGIT)
    low = np.uint64(lowest)  # numba returns a Python integer
    counts = np.zeros(1 << DIGIT, dtype=np.int64)
    count_cells(bits, low, shift, layout, counts)
    ends = np.cumsum(counts)
    cells = np.searchsorted(ends, positions, side="right")
    wanted = np.zeros(1 << DIGIT, dtype=bool)
    wanted[cells] = True
    inside = np.cumsum(np.where(wanted, counts, 0))
    gathered = np.empty(inside[-1], dtype=values.dtype)
    gather_cells(bits, low, shift, layout, freeze(wanted), as_bits(gathered))
    within = positions - (ends[cells] - inside[cells])  # without the values of other cells
    if 2 * len(gathered) <= n:
        return order_statistics(gathered, within)
    answers: Array = sorted_copy(gathered)[within]
    return answers
