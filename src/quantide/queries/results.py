"""What a monitor hands out: answers to many queries, and changes. Arrays first; single objects when asked for."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quantide.summary.answer import Answer
from quantide.summary.types import ValueType

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Found = tuple[Ints, NDArray[Any]]  # ids of queries, and carried values


class Query(NamedTuple):
    """A standing query: its id, phi, and the precision in force."""

    id: int
    phi: float
    eps: float


class Change(NamedTuple):
    """A query that has another value than it had."""

    id: int
    value: Any


class Answers:
    """The answers to many queries as arrays; answers[i] is one Answer, np.asarray(answers) are the values.

    `n` is one number for all, or one for each where queries are over different values. `version` is that of what the
    monitor follows, as of which they hold.
    """

    def __init__(
        self,
        kind: ValueType,
        carried: NDArray[Any],
        phi: Floats,
        target: Ints,
        low: Ints,
        high: Ints,
        n: int | Ints,
        version: int | None = None,
    ) -> None:
        self.kind, self._carried, self.version = kind, carried, version
        self.phi, self.target, self.rank_lo, self.rank_hi, self.n = phi, target, low, high, n
        for array in (carried, phi, target, low, high, n):
            if isinstance(array, np.ndarray):
                array.flags.writeable = False

    def __reduce__(self) -> tuple[type["Answers"], tuple[Any, ...]]:
        ranks = self.target, self.rank_lo, self.rank_hi, self.n
        return Answers, (self.kind, self._carried, self.phi, *ranks, self.version)

    @property
    def values(self) -> NDArray[Any]:
        """The values, of the type that went in."""
        return self.kind.restore(self._carried)

    @property
    def bits(self) -> Ints:
        """A number for each that is another when its value is."""
        if self._carried.itemsize == 8:
            return self._carried.view(np.int64)
        return self._carried.view(np.int32).astype(np.int64)

    def values_at(self, places: Ints) -> NDArray[Any]:
        """Some of the values."""
        return self.kind.restore(self._carried[places])

    @property
    def error(self) -> Floats:
        """How far each may be from its target, as a fraction of n."""
        error: Floats = np.maximum(self.target - self.rank_lo, self.rank_hi - self.target) / self.n
        return error

    def __len__(self) -> int:
        return len(self._carried)

    def __getitem__(self, i: int) -> Answer:
        value = self.kind.restore(self._carried[i : i + 1] if i >= 0 else self._carried[i:][:1])[0]
        low, high, target = int(self.rank_lo[i]), int(self.rank_hi[i]), int(self.target[i])
        n = int(self.n if isinstance(self.n, int) else self.n[i])
        return Answer(value, float(self.phi[i]), target, low, high, n, max(target - low, high - target) / n, n, n)

    def __iter__(self) -> Iterator[Answer]:
        return (self[i] for i in range(len(self)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self.values, dtype=dtype)

    def __repr__(self) -> str:
        return f"Answers({len(self)})"


class Lookup:
    """Which queries changed, and their carried values: found when asked for, or before it could be found no longer."""

    __slots__ = ("__weakref__", "_find", "_found", "_lock")

    def __init__(self, find: Callable[[], Found], lock: AbstractContextManager[Any] | None = None) -> None:
        self._find: Callable[[], Found] | None = find
        self._lock = lock or nullcontext()
        self._found: Found = (np.empty(0, dtype=np.int64), np.empty(0))

    def resolve(self) -> Found:
        with self._lock:
            if self._find is not None:
                self._found, self._find = self._find(), None
            return self._found


class Changes:
    """What changed since changes() was called before: queries in `ids` and `values`, conditions in `conditions`.

    Iterating gives a Change(id, value) for each query. Which queries a changed cluster has is looked up when it is
    asked for: reading how many changed costs nothing for each of them.
    """

    def __init__(self, kind: ValueType, count: int, lookup: Lookup, conditions: list[tuple[int, str]]) -> None:
        self._kind, self._count, self._lookup = kind, count, lookup
        self.conditions = conditions

    def __reduce__(self) -> Any:
        ids, carried = self._lookup.resolve()
        return _resolved, (self._kind, self._count, ids.copy(), carried.copy(), list(self.conditions))

    @property
    def ids(self) -> Ints:
        """The queries whose value changed."""
        return self._lookup.resolve()[0]

    @property
    def values(self) -> NDArray[Any]:
        """Their values now, of the type that went in."""
        return self._kind.restore(self._lookup.resolve()[1])

    def __len__(self) -> int:
        """How many queries changed."""
        return self._count

    def __bool__(self) -> bool:
        return bool(self._count or self.conditions)

    def __iter__(self) -> Iterator[Change]:
        return (Change(*pair) for pair in zip(self.ids.tolist(), self.values, strict=True))

    def __repr__(self) -> str:
        return f"Changes({self._count} queries, {len(self.conditions)} conditions)"


def _resolved(kind: ValueType, count: int, ids: Ints, carried: NDArray[Any], conditions: Any) -> Changes:
    """Changes whose queries are known: how a copy is made."""
    return Changes(kind, count, Lookup(lambda: (ids, carried)), conditions)
