"""Results of a monitor: answers to many queries, and changes; arrays, with single objects on demand."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np

from quantide.summary.answer import Answer
from quantide.summary.value_types import ValueType
from quantide.typing import Array, Floats, Ints

QueryValues = tuple[Ints, Array]  # ids and carried values


class Query(NamedTuple):
    """A continuous query: its id, phi, and the precision in force."""

    id: int
    phi: float
    eps: float


class Change(NamedTuple):
    """A query whose value changed, and the new value."""

    id: int
    value: Any


class Answers:
    """Answers to many queries as arrays; answers[i] is one Answer, np.asarray(answers) are the values.

    `n` is one number for all, or one for each where queries are over different values. `version` is the version of the
    pulled source that the answers are about.
    """

    def __init__(
        self,
        kind: ValueType,
        carried: Array,
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
    def values(self) -> Array:
        """Values, of the type that went in."""
        return self.kind.restore(self._carried)

    @property
    def bits(self) -> Ints:
        """Bit patterns of the values: they differ exactly if the values do."""
        if self._carried.itemsize == 8:
            return self._carried.view(np.int64)
        return self._carried.view(np.int32).astype(np.int64)

    def values_at(self, indices: Ints) -> Array:
        """Values at some indices, of the type that went in."""
        return self.kind.restore(self._carried[indices])

    @property
    def error(self) -> Floats:
        """Certified rank errors, as fractions of n."""
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

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self.values, dtype=dtype)

    def __repr__(self) -> str:
        return f"Answers({len(self)})"


class Lookup:
    """Ids and carried values of changed queries: computed when needed, or before the clusters they come from change."""

    __slots__ = ("__weakref__", "_compute", "_lock", "_result")

    def __init__(self, compute: Callable[[], QueryValues], lock: AbstractContextManager[Any] | None = None) -> None:
        self._compute: Callable[[], QueryValues] | None = compute
        self._lock = lock or nullcontext()
        self._result: QueryValues = (np.empty(0, dtype=np.int64), np.empty(0))

    def resolve(self) -> QueryValues:
        with self._lock:
            if self._compute is not None:
                self._result, self._compute = self._compute(), None
            return self._result


class Changes:
    """Changes since the last call of changes(): queries in `ids` and `values`, conditions in `conditions`.

    Iterating yields a Change(id, value) for each query. The queries of a changed cluster are looked up on demand:
    `len()` costs nothing for each of them.
    """

    def __init__(self, kind: ValueType, count: int, lookup: Lookup, conditions: list[tuple[int, str]]) -> None:
        self._kind, self._count, self._lookup = kind, count, lookup
        self.conditions = conditions

    def __reduce__(self) -> Any:
        ids, carried = self._lookup.resolve()
        return _restore_changes, (self._kind, self._count, ids.copy(), carried.copy(), list(self.conditions))

    @property
    def ids(self) -> Ints:
        """Ids of the queries whose value changed."""
        return self._lookup.resolve()[0]

    @property
    def values(self) -> Array:
        """New values, of the type that went in."""
        return self._kind.restore(self._lookup.resolve()[1])

    def __len__(self) -> int:
        """Number of changed queries."""
        return self._count

    def __bool__(self) -> bool:
        return bool(self._count or self.conditions)

    def __iter__(self) -> Iterator[Change]:
        return (Change(*pair) for pair in zip(self.ids.tolist(), self.values, strict=True))

    def __repr__(self) -> str:
        return f"Changes({self._count} queries, {len(self.conditions)} conditions)"


def _restore_changes(kind: ValueType, count: int, ids: Ints, carried: Array, conditions: Any) -> Changes:
    """Rebuild copied or unpickled Changes."""
    return Changes(kind, count, Lookup(lambda: (ids, carried)), conditions)
