"""Deal values out by where they lie between pivots, so that each lot can be sorted on its own."""

import numpy as np
from numpy.typing import NDArray

from quantide.kernels.compiled import pure

Ints = NDArray[np.int64]
Array = NDArray[np.generic]


@pure
def deal(values: Array, pivots: Array) -> tuple[Array, Ints]:
    """The values lot by lot, and where lots begin: lot k has those with k pivots at or below them."""
    lots = len(pivots) + 1
    counts = np.zeros(lots + 1, dtype=np.int64)
    for i in range(len(values)):
        lot = 0
        for pivot in pivots:
            lot += values[i] >= pivot
        counts[lot + 1] += 1
    bounds = np.cumsum(counts)
    places = bounds[:-1].copy()
    out = np.empty_like(values)
    for i in range(len(values)):
        lot = 0
        for pivot in pivots:
            lot += values[i] >= pivot
        out[places[lot]] = values[i]
        places[lot] += 1
    return out, bounds
