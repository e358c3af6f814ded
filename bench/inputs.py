"""Inputs of sketches in several orders, and the one way in which rank errors are counted."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Values = NDArray[Any]
Floats = NDArray[np.float64]
ORDERS = ("random", "sorted", "reversed", "clustered")


def make(order: str, dtype: str, n: int, seed: int = 20070709) -> Values:
    """Return uniform values; clustered: a normal distribution rounded to two digits (some 900 distinct values)."""
    rng = np.random.default_rng(seed)
    if order == "clustered":
        return rng.standard_normal(n).round(2).astype(dtype)
    values = rng.random(n, dtype=np.dtype(dtype).type)
    if order == "constant":
        return np.full_like(values, 0.5)
    return {"random": values, "sorted": np.sort(values), "reversed": np.sort(values)[::-1].copy()}[order]


def targets(phis: Floats, n: int) -> Floats:
    """Return the target rank of each phi."""
    return np.maximum(1.0, np.ceil(phis * n - 1e-9))


def rank_error(ordered: Values, phis: Floats, answers: Values) -> float:
    """Return the largest distance between a target rank and the ranks of the answer in `ordered`, divided by n.

    An answer that is no element counts as lying between its neighbours.
    """
    below, upto = (np.searchsorted(ordered, answers, side=side) for side in ("left", "right"))
    target = targets(phis, len(ordered))
    off = np.maximum(below + (upto > below) - target, target - np.maximum(upto, below + 1))
    return float(np.maximum(off, 0.0).max() / len(ordered))


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
        return sum(map(len, self._pieces[-(last or 0) :]))

    def rank_errors(self, phis: Floats, answers: ArrayLike, last: int | None = None) -> Floats:
        """Return the ranks between each phi's and its answer's, among the last pieces or all of them."""
        pieces, target = self._pieces[-(last or 0) :], targets(phis, self.n(last))
        below, upto = (sum(np.searchsorted(piece, answers, side) for piece in pieces) for side in ("left", "right"))
        return np.maximum(0.0, np.maximum(below + 1 - target, target - np.maximum(upto, below + 1)))
