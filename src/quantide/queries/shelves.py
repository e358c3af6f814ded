"""Shelves: summaries of many keys, kept up to date block by block as flat arrays."""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from quantide.summary.summaries import Summaries

Ints = NDArray[np.int64]

WAITING = 1 << 18  # rows that wait as they came
FAN = 4  # summaries of one shelf that make one of the next
SHELVES = 18  # WAITING * FAN**18 rows are more than there can be


class Shelves:
    """Rows (key, value) wait, and are then summarised together; FAN summaries of a shelf are merged into one above.

    What is put on the first shelf has G - 1 <= eps/2 * n for each key. Each climb compresses to b = 2*SHELVES/eps and
    so adds less than n/b to G: SHELVES climbs add eps/2 * n. Merging adds up. So G - 1 < eps * n, and a key is exact
    while it has fewer than 4/eps values.
    """

    def __init__(self, eps: float) -> None:
        self.eps = eps
        self.width = int(np.ceil(2 * SHELVES / eps))
        self.shelves: list[list[Summaries]] = []
        self.waiting: list[tuple[Ints, NDArray[Any]]] = []
        self.rows = 0

    def add(self, codes: Ints, values: NDArray[Any]) -> None:
        self.waiting.append((codes, values))
        self.rows += len(codes)
        if self.rows >= WAITING:
            every = self._summarised(self.waiting)
            self.waiting, self.rows = [], 0
            self._put(every)

    def of(self, codes: Ints) -> Summaries:
        """The summaries of these keys, which rise, and of which each has a value."""
        parts = [part for shelf in self.shelves for held in shelf if len(part := _some(held, codes))]
        wanted = np.zeros(int(codes[-1]) + 2, dtype=bool)
        wanted[codes] = True
        rows = []
        for own, values in self.waiting:
            chosen = wanted[np.minimum(own, codes[-1] + 1)]
            rows.append((own[chosen], values[chosen]))
        if any(len(own) for own, _ in rows):
            parts.append(self._summarised(rows))
        return Summaries.merge(*parts)

    def _summarised(self, rows: list[tuple[Ints, NDArray[Any]]]) -> Summaries:
        codes, values = np.concatenate([own for own, _ in rows]), np.concatenate([values for _, values in rows])
        return Summaries.of(codes, values, self.eps / 4)

    def _put(self, summaries: Summaries) -> None:
        for shelf in self.shelves:
            shelf.append(summaries)
            if len(shelf) < FAN:
                return
            summaries = Summaries.merge(*shelf).compress(self.width)
            shelf.clear()
        self.shelves.append([summaries])


def _some(held: Summaries, codes: Ints) -> Summaries:
    keys = held.keys.to_numpy()
    at = np.minimum(np.searchsorted(keys, codes), len(keys) - 1)
    return held.take(at[keys[at] == codes])


def key_names(distinct: pa.Array) -> list[Any]:
    """Keys as Python values that can be looked up; those of several columns as tuples."""
    names = distinct.to_pylist()
    return [tuple(name.values()) for name in names] if pa.types.is_struct(distinct.type) else names
