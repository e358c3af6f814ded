"""The registry: phi and precision of every query, as flat arrays. An id is never used twice."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quantide.errors import InvalidArgumentError, UnknownQueryError
from quantide.queries.capacity import reserve

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

PLACES = 32  # bits of an id that say where the query is; those above count how often the place was used before
LAST_USE = (1 << 30) - 1  # a place used so often is not used again: ids stay below 2**62, the bit of a condition
GONE, NEW = -2, -1  # slots of a query that was dropped, and of one that is in no cluster yet


class Registry:
    """Where each query is: `slot` leads to its cluster. Without a slot, `told` is what was reported of it last."""

    FIELDS: tuple[str, ...] = ("phi", "eps", "slot", "uses", "told", "told_known")  # in the order of the bytes

    def __init__(self) -> None:
        self.phi: Floats = np.empty(0)
        self.eps: Floats = np.empty(0)
        self.slot: Ints = np.empty(0, dtype=np.int64)
        self.uses: Ints = np.empty(0, dtype=np.int64)
        self.told: NDArray[Any] = np.empty(0)
        self.told_known: NDArray[np.bool_] = np.empty(0, dtype=bool)
        self.used = 0  # places that were ever used
        self.free: list[int] = []
        self.retired = 0  # places that are neither in use nor free

    def __len__(self) -> int:
        """How many queries there are."""
        return self.used - len(self.free) - self.retired

    def add(self, phis: Floats, epss: Floats) -> Ints:
        """Places for new queries, those of dropped ones first."""
        count = len(phis)
        again = min(count, len(self.free))
        fresh = np.arange(self.used, self.used + count - again, dtype=np.int64)
        reused = np.array(self.free[len(self.free) - again :][::-1], dtype=np.int64)
        del self.free[len(self.free) - again :]
        places = np.concatenate((reused, fresh)) if again else fresh
        self.used += len(fresh)
        reserve(self, dict.fromkeys(self.FIELDS, 0), self.used)
        self.phi[places], self.eps[places], self.slot[places] = phis, epss, NEW
        self.told_known[places] = False
        return places

    def remove(self, places: Ints) -> None:
        self.slot[places] = GONE
        self.uses[places] += 1
        again = places[self.uses[places] <= LAST_USE]
        self.free.extend(again.tolist())
        self.retired += len(places) - len(again)

    def alive(self) -> Ints:
        """The places of all queries."""
        return np.flatnonzero(self.slot[: self.used] != GONE)

    def ids(self, places: Ints) -> Ints:
        return (self.uses[places] << PLACES) | places

    def place(self, query: Any) -> int:
        """Where a query is; UnknownQueryError when it is not there."""
        if isinstance(query, bool) or not isinstance(query, (int, np.integer)):
            raise InvalidArgumentError(f"the id of a query is the number that register() returned, not {query!r}")
        place = int(query) & ((1 << PLACES) - 1)
        if query < 0 or place >= self.used or self.slot[place] == GONE or self.uses[place] != int(query) >> PLACES:
            raise unknown(int(query), len(self))
        return place

    def places(self, queries: ArrayLike) -> Ints:
        """Where many queries are."""
        array = np.asarray(queries)
        if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
            raise InvalidArgumentError(f"ids are a list of the numbers that register() returned, not {queries!r}")
        ids = array.astype(np.int64)
        places = places_of(ids)
        wrong = (ids < 0) | (places >= self.used)
        held = np.where(wrong, 0, places)
        if self.used:
            wrong |= (self.slot[held] == GONE) | (self.uses[held] != ids >> PLACES)
        if wrong.any():
            raise unknown(int(ids[wrong][0]), len(self))
        return places


def places_of(ids: Ints) -> Ints:
    """The places that ids speak of."""
    return ids & ((1 << PLACES) - 1)


def unknown(query: int, count: int) -> UnknownQueryError:
    return UnknownQueryError(f"no query has the id {query}; it was dropped, or never registered here ({count} are)")
