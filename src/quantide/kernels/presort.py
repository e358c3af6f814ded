"""Preparation of a sort: detect blocks that are sorted already, and partition the others at a pivot."""

import numpy as np
from numpy.typing import NDArray

from quantide.kernels.jit import compiled, pure
from quantide.typing import Array


@compiled
def detect_order(values: NDArray[np.generic]) -> int:
    """Return 1 if the values never fall, -1 if they never rise, 0 otherwise or if there is a NaN.

    It stops at the first pair that decides, so an unsorted block costs a few comparisons.
    """
    n = len(values)
    i = 1
    while i < n and values[i - 1] <= values[i]:
        i += 1
    if i >= n:
        return 1 if n > 1 or (n == 1 and values[0] == values[0]) else 0
    i = 1
    while i < n and values[i - 1] >= values[i]:
        i += 1
    return -1 if i >= n else 0


@pure
def partition(values: Array, pivot: Array) -> tuple[Array, int]:
    """Return the values below pivot[0] followed by the others, and how many are below.

    -0.0 becomes 0.0. There is no branch to mispredict: every value is written at both ends, and one end advances.
    """
    out = np.empty_like(values)
    zero = np.zeros_like(pivot)[0]
    low, high = 0, len(values) - 1
    for i in range(len(values)):
        x = values[i] + zero
        out[low] = x
        out[high] = x
        upper = x >= pivot[0]
        low += 1 - upper
        high -= upper
    return out, low
