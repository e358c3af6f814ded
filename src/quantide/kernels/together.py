"""The synchronous pass (QUERIES section 3.5.1, Algorithm 3): clusters and tuples side by side, once through both."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantide.kernels.compiled import compiled
from quantide.kernels.life import FINE, NEVER, evaluate

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Values = NDArray[Any]


@compiled
def together(
    order: Ints,
    due: Ints,
    span: Floats,
    value: Values,
    ranks: Ints,
    values: Values,
    rmin: Ints,
    rmax: Ints,
    n: int,
    eps: float,
    strict: bool,
    everything: bool,
) -> tuple[int, int, int]:
    """Evaluate all clusters, or those that are new; how that ended, how many, the first deadline.

    No interval contains another, so clusters in the order of their left ends are in that of their right ends too, and
    the best tuple moves to the right only: looking from the one before makes it one pass.
    """
    chosen = order if everything else order[due[order] < 0]
    status, done = evaluate(chosen, span, value, ranks, due, values, rmin, rmax, n, eps, strict, True)
    first = NEVER if status == FINE else -1
    for c in order:
        first = min(first, due[c])
    return status, done, first
