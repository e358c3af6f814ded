"""The truth: every value that went in, sorted piece by piece. A rank among all is the sum of ranks in the pieces."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from benchmarks.data import targets


class Truth:
    """Pieces in the order in which they came; ranks of the last few of them, or of all."""

    def __init__(self) -> None:
        self._pieces: list[NDArray[Any]] = []

    def add(self, values: NDArray[Any]) -> None:
        self._pieces.append(np.sort(values))

    def n(self, last: int | None = None) -> int:
        return sum(map(len, self._last(last)))

    def rank_errors(self, phis: NDArray[np.float64], found: ArrayLike, last: int | None = None) -> NDArray[np.float64]:
        """How many ranks lie between each phi's and those of the value found; one that is no element has the next."""
        asked, pieces = np.asarray(found), self._last(last)
        below = sum((np.searchsorted(piece, asked, side="left") for piece in pieces), np.zeros(len(asked)))
        upto = sum((np.searchsorted(piece, asked, side="right") for piece in pieces), np.zeros(len(asked)))
        target = targets(phis, self.n(last))
        off: NDArray[np.float64] = np.maximum(below + 1 - target, target - np.maximum(upto, below + 1))
        return np.maximum(off, 0)

    def _last(self, last: int | None) -> list[NDArray[Any]]:
        return self._pieces if last is None else self._pieces[len(self._pieces) - last :]
