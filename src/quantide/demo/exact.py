"""The truth to compare with: exact counts of every value seen."""

import numpy as np
from numpy.typing import NDArray


class Counts:
    """How often each whole number from 0 to `largest` has occurred: exact, however long it is fed.

    >>> counts = Counts(largest=9)
    >>> counts.update(np.array([5, 2, 5, 9]))
    >>> counts.value_at(1), counts.value_at(3), counts.ranks(5)
    (2, 5, (2, 3))
    """

    def __init__(self, largest: int) -> None:
        self._counts = np.zeros(largest + 1, dtype=np.int64)
        self._up_to = np.zeros(largest + 1, dtype=np.int64)
        self._stale = False

    def update(self, values: NDArray[np.int64]) -> None:
        np.add.at(self._counts, values, 1)
        self._stale = True

    def value_at(self, rank: int) -> int:
        """The value of this rank, counted from 1."""
        return int(np.searchsorted(self._cumulated(), rank))

    def ranks(self, value: int) -> tuple[int, int]:
        """The first and the last rank that `value`, which must have occurred, takes."""
        up_to = self._cumulated()
        return int(up_to[value] - self._counts[value]) + 1, int(up_to[value])

    def distance(self, value: int, rank: int) -> int:
        """How many ranks `value` is away from `rank`."""
        first, last = self.ranks(value)
        return max(0, first - rank, rank - last)

    def _cumulated(self) -> NDArray[np.int64]:
        if self._stale:
            np.cumsum(self._counts, out=self._up_to)
            self._stale = False
        return self._up_to
