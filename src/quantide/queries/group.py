"""MonitorGroup: standing queries of very many keys, each over its own key's values."""

from copy import deepcopy
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quantide.errors import InvalidArgumentError, TypeMismatchError
from quantide.kernels.keyed import evaluate_keyed, keep
from quantide.queries.capacity import reserve
from quantide.queries.intervals import query_intervals, read_queries
from quantide.queries.registry import Registry
from quantide.queries.results import Answers, Changes, Lookup, Query
from quantide.queries.shelves import Shelves
from quantide.summary.answer import Answer
from quantide.summary.column import check_nan_policy, has_nan, nan_error, read_rows
from quantide.summary.keys import check_same_length, encode_keys, key_array, key_name, key_names
from quantide.summary.ranks import check_count, check_eps, check_not_empty, check_phi, target_ranks
from quantide.summary.types import ValueType, type_named

Ints = NDArray[np.int64]

QUERY_FIELDS = dict.fromkeys(("_span", "_value", "_ranks", "_due"), 0)  # a row for each place of the registry


class MonitorGroup:
    """What a Monitor does, for every key by itself, in single calls for all keys.

    A query (key, phi, eps_q) has a value whose rank among the values of its key is within eps_q * n of its target. Keys
    have few queries each, so these are not clustered: every query has a deadline of its own, in arrivals of its key,
    and only the keys of those that have passed are looked at.

    >>> group = MonitorGroup(eps=0.01)
    >>> ids = group.register_many(["a", "b"], [0.5, 0.9], 0.05)
    >>> group.update(["a", "b", "a", "a"], [1.0, 7.0, 3.0, 2.0])
    >>> [(change.id, float(change.value)) for change in group.changes()]
    [(0, 2.0), (1, 7.0)]

    A copy, by `copy` or `pickle`, has the same queries and values and shares nothing with the original.

    The guarantee is that of Monitor: docs/guarantees/queries.md.
    """

    def __init__(self, eps: float, nan: str = "refuse", value_type: str | None = None) -> None:
        self._eps, self._nan = check_eps(eps), check_nan_policy(nan)
        self._type: ValueType | None = type_named(value_type) if value_type is not None else None
        self._shelves = Shelves(self._eps)
        self._codes: dict[Any, int] = {}
        self._n: Ints = np.zeros(0, dtype=np.int64)  # values of each key
        self._queries = Registry()  # a query's slot is the code of its key
        self._span = np.empty((0, 2))
        self._value: NDArray[Any] = np.empty(0, dtype=self._kind.carrier)
        self._ranks: Ints = np.empty((0, 4), dtype=np.int64)
        self._due: Ints = np.empty(0, dtype=np.int64)
        self._evaluations = 0

    @property
    def eps(self) -> float:
        return self._eps

    @property
    def n(self) -> int:
        """How many values have arrived, of all keys."""
        return int(self._n.sum())

    def __copy__(self) -> Self:
        return deepcopy(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._codes = {key_name(key): code for key, code in self._codes.items()}  # a pickled NaN is another NaN

    def __len__(self) -> int:
        """How many queries are registered."""
        return len(self._queries)

    def register(self, key: Any, phi: float, eps: float) -> int:
        """A new query over the values of a key; its id. A key of several columns is a tuple."""
        phis, epss = read_queries([check_phi(phi)], eps, self._eps)
        return int(self._register([key_name(key)], phis, epss)[0])

    def register_many(self, keys: Any, phis: ArrayLike, epss: ArrayLike) -> Ints:
        """Many queries, one for each key of a column (or of several, as a table or a dict); their ids."""
        distinct, wanted, given = key_array(keys), *read_queries(phis, epss, self._eps)
        if len(distinct) != len(wanted):
            raise InvalidArgumentError(f"{len(distinct)} keys for {len(wanted)} queries: there must be one for each")
        return self._register(key_names(distinct), wanted, given)

    def query(self, id: int) -> Query:
        """phi and the precision in force of a query."""
        place = self._queries.place(id)
        return Query(int(id), float(self._queries.phi[place]), float(self._queries.eps[place]))

    def drop(self, id: int) -> None:
        self._queries.remove(np.array([self._queries.place(id)]))

    def drop_many(self, ids: ArrayLike) -> None:
        places = self._queries.places(ids)
        if len(np.unique(places)) < len(places):
            raise InvalidArgumentError("an id is among the ids to drop twice; give each once")
        self._queries.remove(places)

    def update(self, keys: Any, values: Any) -> None:
        """Take a block of values, each with its key."""
        rows, column = read_rows(values, self._type), key_array(keys)
        check_same_length(len(column), rows.length)
        kind = rows.column.type
        if kind is None or not len(rows.column):
            return
        carried = rows.column.carried()
        codes, distinct = encode_keys(column)
        codes = codes if rows.valid is None else codes[rows.valid]
        if has_nan(carried):
            if self._nan == "refuse":
                raise nan_error()
            kept = ~np.isnan(carried)
            codes, carried = codes[kept], carried[kept]
        check_count(self.n + len(carried))
        if self._type is None:
            self._type, self._value = kind, self._value.astype(kind.carrier)
        codes = self._codes_of(key_names(distinct))[codes]
        self._n += np.bincount(codes, minlength=len(self._n))
        self._shelves.add(codes, carried)

    def answer(self, id: int) -> Answer:
        """The value of a query now, with the ranks it is proved to have among the values of its key."""
        place = np.array([self._queries.place(id)])
        check_not_empty(int(self._n[self._queries.slot[place[0]]]))
        return self._answers(place)[0]

    def answers(self, ids: ArrayLike) -> Answers:
        """Those of many queries, whose keys all have values."""
        places = self._queries.places(ids)
        check_not_empty(int(self._n[self._queries.slot[places]].min()) if len(places) else 1)
        return self._answers(places)

    def changes(self) -> Changes:
        """The queries whose value is another than when this was called before."""
        self._refresh()
        used, queries = slice(self._queries.used), self._queries
        queries.told = queries.told.astype(self._value.dtype, copy=False)
        other = ~queries.told_known[used] | (queries.told[used] != self._value[used])
        places = np.flatnonzero(other & (self._ranks[used, 2] > 0) & (queries.slot[used] >= 0))
        values = self._value[places]
        queries.told[places], queries.told_known[places] = values, True
        found = queries.ids(places), values
        return Changes(self._kind, len(places), Lookup(lambda: found), [])

    def stats(self) -> dict[str, int]:
        return {
            "n": self.n,
            "keys": len(self._codes),
            "queries": len(self._queries),
            "evaluations": self._evaluations,
        }

    @property
    def _kind(self) -> ValueType:
        return self._type or type_named("float64")

    def _register(self, names: list[Any], phis: NDArray[np.float64], epss: NDArray[np.float64]) -> Ints:
        codes = self._codes_of(names)
        places = self._queries.add(phis, epss)
        reserve(self, QUERY_FIELDS, self._queries.used)
        self._queries.slot[places] = codes
        self._span[places] = query_intervals(phis, epss, self._eps)
        self._ranks[places], self._due[places] = 0, 0
        return self._queries.ids(places)

    def _codes_of(self, names: list[Any]) -> Ints:
        """The number of each key; a key that is new gets one."""
        try:
            codes = [self._codes.setdefault(name, len(self._codes)) for name in names]
        except TypeError as error:
            raise TypeMismatchError(f"a key must be a plain value or a tuple of such: {error}") from error
        missing = len(self._codes) - len(self._n)
        self._n = np.concatenate((self._n, np.zeros(missing, dtype=np.int64))) if missing else self._n
        return np.array(codes, dtype=np.int64)

    def _refresh(self) -> None:
        """Evaluate every query whose key has more values than its deadline."""
        slots = self._queries.slot[: self._queries.used].copy()  # another thread may drop a query meanwhile
        if not len(self._n):
            return
        due = np.flatnonzero((slots >= 0) & (self._due[: len(slots)] < self._n[np.maximum(slots, 0)]))
        if not len(due):
            return
        codes = slots[due]
        self._evaluations += len(due)
        upto, below = self._shelves.counts(codes, self._value[due], np.unique(codes))
        kept = keep(due, self._n[codes], upto, below, self._span, self._ranks, self._due, self._eps)
        if not kept.all():
            self._search(due[~kept], codes[~kept])

    def _search(self, due: Ints, keys: Ints) -> None:
        """Find the best value for these queries, given the number of the key of each."""
        codes, group = np.unique(keys, return_inverse=True)
        tuples = self._shelves.of(codes).tuples
        counts = self._n[codes]
        evaluate_keyed(
            due,
            group,
            self._span,
            self._value,
            self._ranks,
            self._due,
            target_ranks(self._queries.phi[due], counts[group]),
            np.array(tuples.values),
            np.array(tuples.rmin),
            np.array(tuples.rmax),
            np.array(tuples.bounds),
            counts,
            self._eps,
        )

    def _answers(self, places: Ints) -> Answers:
        self._refresh()
        n, ranks, phi = self._n[self._queries.slot[places]], self._ranks[places], self._queries.phi[places]
        high = np.minimum(ranks[:, 1] + n - ranks[:, 2], n)
        return Answers(self._kind, self._value[places], phi, target_ranks(phi, n), ranks[:, 0], high, n)
