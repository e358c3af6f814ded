"""Shelves: summaries of many keys, kept up to date block by block as flat arrays."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quantide.kernels.compiled import frozen
from quantide.kernels.keyed import add_counts
from quantide.summary.summaries import Summaries

Ints = NDArray[np.int64]

WAITING = 1 << 15  # rows that wait as they came
FAN = 4  # parts of one shelf that make one of the next
SHELVES = 19  # WAITING * FAN**19 rows are more than there can be


class Part(NamedTuple):
    """Summaries by the codes of keys, and where among them each code is, -1 for none."""

    summaries: Summaries
    where: NDArray[np.int32]

    @classmethod
    def of(cls, summaries: Summaries) -> "Part":
        keys = summaries.keys.to_numpy()
        where = np.full(int(keys[-1]) + 1, -1, dtype=np.int32)
        where[keys] = np.arange(len(keys))
        return cls(summaries, where)

    def some(self, codes: Ints) -> Summaries:
        """The summaries of these codes, as far as there are any."""
        inside = codes[codes < len(self.where)]
        at = self.where[inside]
        return self.summaries.take(at[at >= 0].astype(np.int64))


class Shelves:
    """Rows (key, value) wait, and are then summarised together; FAN summaries of a shelf are merged into one above.

    What is put on the first shelf has G - 1 <= eps/2 * n for each key. Each climb compresses to b = 2*SHELVES/eps and
    so adds less than n/b to G: SHELVES climbs add eps/2 * n. Merging adds up. So G - 1 < eps * n, and a key is exact
    while it has fewer than 4/eps values.
    """

    def __init__(self, eps: float) -> None:
        self.eps = eps
        self.width = int(np.ceil(2 * SHELVES / eps))
        self.shelves: list[list[Part]] = []
        self.waiting: list[tuple[Ints, NDArray[Any]]] = []
        self.rows = 0

    def add(self, codes: Ints, values: NDArray[Any]) -> None:
        self.waiting.append((codes, values))
        self.rows += len(codes)
        if self.rows >= WAITING:
            every = self._summarised(self.waiting)
            self.waiting, self.rows = [], 0
            self._put(Part.of(every))

    def of(self, codes: Ints) -> Summaries:
        """The summaries of these keys, which rise, and of which each has a value."""
        found = [part.some(codes) for part in self._parts(codes)]
        return Summaries.merge(*(some for some in found if len(some)))

    def counts(self, codes: Ints, values: NDArray[Any], keys: Ints) -> tuple[Ints, Ints]:
        """For each code and value: how many values of the key are surely not above it, how many at most below it.

        `keys` are the codes, each once, rising.
        """
        upto, below = np.zeros(len(codes), dtype=np.int64), np.zeros(len(codes), dtype=np.int64)
        for part in self._parts(keys):
            t = part.summaries.tuples
            held = frozen(t.values), frozen(t.rmin), frozen(t.rmax), frozen(t.bounds), frozen(t.n)
            add_counts(codes, values, part.where, *held, upto, below)
        return upto, below

    def _parts(self, codes: Ints) -> list[Part]:
        """Everything there is of these keys."""
        parts = [part for shelf in self.shelves for part in shelf]
        wanted = np.zeros(int(codes[-1]) + 2, dtype=bool)
        wanted[codes] = True
        rows = []
        for own, values in self.waiting:
            chosen = wanted[np.minimum(own, codes[-1] + 1)]
            rows.append((own[chosen], values[chosen]))
        if any(len(own) for own, _ in rows):
            parts.append(Part.of(self._summarised(rows)))
        return parts

    def _summarised(self, rows: list[tuple[Ints, NDArray[Any]]]) -> Summaries:
        codes, values = np.concatenate([own for own, _ in rows]), np.concatenate([values for _, values in rows])
        return Summaries.of(codes, values, self.eps / 4)

    def _put(self, part: Part) -> None:
        for shelf in self.shelves:
            shelf.append(part)
            if len(shelf) < FAN:
                return
            part = Part.of(Summaries.merge(*(held.summaries for held in shelf)).compress(self.width))
            shelf.clear()
        self.shelves.append([part])
