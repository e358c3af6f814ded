"""Whether a block is in order already."""

import numpy as np
from numpy.typing import NDArray

from quantide.kernels.compiled import compiled


@compiled
def order_of(values: NDArray[np.generic]) -> int:
    """1 when the values never fall, -1 when they never rise, 0 otherwise or when there is a NaN.

    It stops at the first pair that decides, so a block in no order costs a few comparisons.
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
