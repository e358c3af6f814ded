"""Marks: a summary that is kept true by counting every later arrival against its values.

Tuples are (values, rmin, rmax) with the smallest and the largest value at the ends. An arrival x raises by one both
ranks of every tuple whose element comes after it, and nothing else. Elements equal to a tuple's value are placed
before the last tuple of that value.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantide.kernels.compiled import compiled, pure

Ints = NDArray[np.int64]
Values = NDArray[Any]


@compiled
def cell_of(x: Any, low: float, scale: float, cells: int) -> int:
    """A cell that never falls as x rises: what lies in an earlier cell is smaller."""
    at = (np.float64(x) - low) * scale
    return np.int64(min(max(at, 0.0), np.float64(cells - 1)))


@pure
def grid_of(values: Values, cells: int) -> tuple[Ints, float, float]:
    """For each cell the first inner tuple that lies in it or later; and what cell_of needs.

    Cells are spread over the middle 9/10 of the tuples, so that a long tail does not leave them empty.
    """
    m = len(values)
    low, high = np.float64(values[m // 20]), np.float64(values[m - 1 - m // 20])
    scale = cells / (high - low) if -np.inf < low < high < np.inf else 0.0
    if scale == np.inf:
        scale = 0.0
    grid = np.full(cells + 1, m - 1, dtype=np.int64)
    for i in range(m - 2, 0, -1):
        if scale > 0:
            grid[cell_of(values[i], low, scale, cells)] = i
        else:
            grid[0] = 1
    for cell in range(cells - 1, -1, -1):
        grid[cell] = min(grid[cell], grid[cell + 1])
    return grid, low, scale


@compiled
def count(
    arrived: Values, values: Values, rmin: Ints, rmax: Ints, grid: Ints, low: float, scale: float
) -> None:
    """Make tuples of n elements those of n + len(arrived)."""
    m, cells = len(values), len(grid) - 1
    steps = np.zeros(m + 1, dtype=np.int64)
    smallest, largest = values[0], values[m - 1]
    for x in arrived:
        smallest, largest = min(smallest, x), max(largest, x)
        cell = cell_of(x, low, scale, cells) if scale > 0 else 0
        first, last = grid[cell], grid[cell + 1] if scale > 0 else m - 1
        while first < last:  # the first inner tuple above x
            middle = (first + last) // 2
            if values[middle] <= x:
                first = middle + 1
            else:
                last = middle
        first -= first > 1 and values[first - 1] == x
        steps[first] += 1
    raised = np.int64(0)
    for i in range(1, m - 1):
        raised += steps[i]
        rmin[i] += raised
        rmax[i] += raised
    values[0], values[m - 1] = smallest, largest
    rmin[m - 1] += len(arrived)
    rmax[m - 1] += len(arrived)
