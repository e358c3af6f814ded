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
    done = start = 0
    first = NEVER
    for c in order:
        if everything or due[c] < 0:
            status, deadline = evaluate(c, span, value, ranks, values, rmin, rmax, n, eps, start, strict)
            if status != FINE:
                return status, done, -1
            due[c] = deadline
            start = ranks[c, 3]
            done += 1
        first = min(first, due[c])
    return FINE, done, first
