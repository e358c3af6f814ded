"""Standing queries of many keys: those that are due, each evaluated against its own key's tuples."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantide.kernels.compiled import compiled
from quantide.kernels.life import FINE, evaluate

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Values = NDArray[Any]


@compiled
def evaluate_keyed(
    due_now: Ints,
    group: Ints,
    span: Floats,
    value: Values,
    ranks: Ints,
    due: Ints,
    targets: Ints,
    values: Values,
    rmin: Ints,
    rmax: Ints,
    bounds: Ints,
    counts: Ints,
    eps: float,
) -> None:
    """Evaluate query due_now[i] with the tuples of group[i]. With too few values: the nearest tuple, for now."""
    for i in range(len(due_now)):
        q, g = due_now[i], group[i]
        start, end, n = bounds[g], bounds[g + 1], counts[g]
        own = values[start:end], rmin[start:end], rmax[start:end]
        status, _ = evaluate(due_now[i : i + 1], span, value, ranks, due, own[0], own[1], own[2], n, eps, False, False)
        if status != FINE:
            at, nearest = start, n + 1
            for j in range(start, end):
                far = max(targets[i] - rmin[j], rmax[j] - targets[i])
                if far < nearest:
                    at, nearest = j, far
            value[q], due[q] = values[at], n
            ranks[q, 0], ranks[q, 1], ranks[q, 2], ranks[q, 3] = rmin[at], rmax[at], n, at - start
