"""Split values at a pivot, so that each side can be sorted on its own."""

import numpy as np
from numpy.typing import NDArray

from quantide.kernels.compiled import pure

Array = NDArray[np.generic]


@pure
def split(values: Array, pivot: Array) -> tuple[Array, int]:
    """Values below pivot[0], then the others, and how many are below.

    -0.0 becomes 0.0. There is no branch to mispredict: every value is written at both ends, and one end moves on.
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
