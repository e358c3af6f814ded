"""Inputs of sketches in several orders, and the one way in which rank errors are counted."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Values = NDArray[Any]
Floats = NDArray[np.float64]
ORDERS, DTYPES = ("random", "sorted", "reversed", "clustered"), ("float64", "float32")


def make(order: str, dtype: str, n: int, seed: int = 20070709) -> Values:
    """Return uniform values; clustered: a normal distribution rounded to two digits (some 900 distinct values)."""
    rng = np.random.default_rng(seed)
    if order == "constant":
        return np.full(n, 0.5, dtype=dtype)
    if order == "clustered":
        return rng.standard_normal(n).round(2).astype(dtype)
    if order not in ORDERS:
        raise ValueError(f"unknown order {order!r}; choose one of {(*ORDERS, 'constant')}")
    values = rng.random(n, dtype=np.dtype(dtype).type)
    if order != "random":
        values.sort()
    return np.ascontiguousarray(values[::-1]) if order == "reversed" else values


def targets(phis: Floats, n: int) -> Floats:
    """Return the target rank of each phi."""
    return np.maximum(1.0, np.ceil(phis * n - 1e-9))


def rank_error(ordered: Values, phis: Floats, answers: Values) -> float:
    """Return the largest distance between a target rank and the ranks of the answer in `ordered`, divided by n.

    An answer that is no element counts as lying between its neighbours.
    """
    below, upto = (np.searchsorted(ordered, answers, side=side) for side in ("left", "right"))
    found, target = upto > below, targets(phis, len(ordered))
    low, high = np.where(found, below + 1, below), np.where(found, upto, below + 1)
    return float(np.maximum(np.maximum(low - target, target - high), 0.0).max() / len(ordered))


def answer_holds(answer: Any, ordered: Values, allowed: float) -> bool:
    """Return True if an answer is an element, within its certified error, and that within `allowed` ranks."""
    low, high = (int(np.searchsorted(ordered, answer.value, side=side)) for side in ("left", "right"))
    off, certified = max(0, low + 1 - answer.target, answer.target - high), answer.error * answer.n
    return bool(answer.n == len(ordered) and high > low and off <= certified + 1e-6 and certified <= allowed + 1e-6)


class Truth:
    """Every value, sorted piece by piece; a rank among all is the sum of the ranks in the pieces."""

    def __init__(self) -> None:
        self._pieces: list[Values] = []

    def add(self, values: Values) -> None:
        self._pieces.append(np.sort(values))

    def n(self, last: int | None = None) -> int:
        return sum(map(len, self._last(last)))

    def rank_errors(self, phis: Floats, answers: ArrayLike, last: int | None = None) -> Floats:
        """Return the ranks between each phi's and its answer's, among the last pieces or all of them."""
        values, pieces = np.asarray(answers), self._last(last)
        below = sum((np.searchsorted(piece, values, side="left") for piece in pieces), np.zeros(len(values)))
        upto = sum((np.searchsorted(piece, values, side="right") for piece in pieces), np.zeros(len(values)))
        target = targets(phis, self.n(last))
        off: Floats = np.maximum(below + 1 - target, target - np.maximum(upto, below + 1))
        return np.maximum(off, 0)

    def _last(self, last: int | None) -> list[Values]:
        return self._pieces if last is None else self._pieces[len(self._pieces) - last :]
