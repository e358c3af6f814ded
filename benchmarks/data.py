"""The input: the same values in four orders, and a constant."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[Any]

ORDERS = ("random", "sorted", "reversed", "clustered")
DTYPES = ("float64", "float32")


def make(order: str, dtype: str, n: int, seed: int = 20070709) -> Values:
    """`n` values of `dtype`: uniform for the first three orders; clustered is a normal
    distribution rounded to two digits (some 900 distinct values)."""
    rng = np.random.default_rng(seed)
    if order == "constant":
        return np.full(n, 0.5, dtype=dtype)
    if order == "clustered":
        return rng.standard_normal(n).round(2).astype(dtype)
    values = rng.random(n, dtype=np.dtype(dtype).type)
    if order == "random":
        return values
    values.sort()
    if order == "sorted":
        return values
    if order == "reversed":
        return np.ascontiguousarray(values[::-1])
    raise ValueError(f"unknown order {order!r}; choose one of {(*ORDERS, 'constant')}")


def targets(phis: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """The target rank of each phi."""
    return np.maximum(1.0, np.ceil(phis * n - 1e-9))


def rank_error(ordered: Values, phis: NDArray[np.float64], answers: Values) -> float:
    """The largest distance, as a fraction of n, between a target rank and the ranks that the
    answered value occupies in `ordered`. A value that is no element counts as lying between
    its neighbours."""
    below = np.searchsorted(ordered, answers, side="left")
    upto = np.searchsorted(ordered, answers, side="right")
    low = np.where(upto > below, below + 1, below)
    high = np.where(upto > below, upto, below + 1)
    target = targets(phis, len(ordered))
    misses = np.maximum(np.maximum(low - target, target - high), 0.0)
    return float(misses.max() / len(ordered))
