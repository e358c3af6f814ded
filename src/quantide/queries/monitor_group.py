"""MonitorGroup: continuous queries of very many keys, each over its own key's values."""

from copy import deepcopy
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from quantide.errors import InvalidArgumentError, TypeMismatchError
from quantide.kernels.keyed_evaluation import evaluate_keyed, extend_answers
from quantide.queries.keyed_summary_levels import KeyedSummaryLevels
from quantide.queries.query_registry import QueryRegistry, compute_intervals, read_queries, reserve
from quantide.queries.query_results import Answers, Changes, Lookup, Query
from quantide.summary.answer import Answer
from quantide.summary.key_encoding import check_same_length, encode_keys, hashable_key, hashable_keys, key_array
from quantide.summary.ranks import (
    DEFAULT,
    check_count,
    check_eps,
    check_not_empty,
    check_phi,
    check_tail,
    target_ranks,
)
from quantide.summary.value_column import check_nan_policy, has_nan, nan_error, read_rows
from quantide.summary.value_types import ValueType, type_named
from quantide.summary.weighted_values import WeightedValues, read_weighted
from quantide.typing import Array, Floats, Ints

QUERY_FIELDS = dict.fromkeys(("_span", "_value", "_ranks", "_due"), 0)  # a row for each index of the registry


class MonitorGroup:
    """Monitors many keys at once: each query is over the values of one key, and one call serves all keys.

    A query (key, phi, eps_q) has a value whose rank among the values of its key is within eps_q * n of its target; half
    a rank more if eps_q is below eps and only a few ranks. Parameters and precisions are those of Monitor.

    Keys have few queries each, so these are not clustered: every query has its own deadline, in arrivals of its key,
    and only queries whose deadline has passed are evaluated.

    >>> group = MonitorGroup(eps=0.01)
    >>> ids = group.register_many(["a", "b"], [0.5, 0.9], 0.05)
    >>> group.update(["a", "b", "a", "a"], [1.0, 7.0, 3.0, 2.0])
    >>> [(change.id, float(change.value)) for change in group.changes()]
    [(0, 2.0), (1, 7.0)]

    A copy, by `copy` or `pickle`, has the same queries and values and shares nothing with the original.

    The guarantee is that of Monitor: docs/guarantees/queries.md.
    """

    _tail: float | None = None

    def __init__(
        self, eps: float, nan: str = "refuse", value_type: str | None = None, tail: float | None = DEFAULT
    ) -> None:
        self._eps, self._nan = check_eps(eps), check_nan_policy(nan)
        self._tail = check_tail(tail, self._eps)
        self._type: ValueType | None = type_named(value_type) if value_type is not None else None
        self._levels = KeyedSummaryLevels(self._eps, self._tail)
        self._codes: dict[Any, int] = {}
        self._n: Ints = np.zeros(0, dtype=np.int64)  # values of each key
        self._queries = QueryRegistry()  # a query's slot is the code of its key
        self._span = np.empty((0, 2))
        self._value: Array = np.empty(0, dtype=self._kind.carrier)
        self._ranks: Ints = np.empty((0, 4), dtype=np.int64)
        self._due: Ints = np.empty(0, dtype=np.int64)
        self._evaluations = 0

    @property
    def eps(self) -> float:
        return self._eps

    @property
    def tail(self) -> float | None:
        """Share of the distance from either end that a query's error can be limited to; None for eps alone."""
        return self._tail

    @property
    def n(self) -> int:
        """Number of values that have arrived, of all keys."""
        return int(self._n.sum())

    def __copy__(self) -> Self:
        return deepcopy(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._codes = {hashable_key(key): code for key, code in self._codes.items()}  # a pickled NaN is another NaN

    def __len__(self) -> int:
        """Number of registered queries."""
        return len(self._queries)

    def register(self, key: Any, phi: float, eps: float | None = None) -> int:
        """Register a query over the values of a key; return its id. A key of several columns is a tuple.

        Without a precision it has the finest one: min(eps, tail * phi, tail * (1 - phi)) of the group's eps and tail.
        """
        phis, epss = read_queries([check_phi(phi)], eps, self._eps, self._tail)
        return int(self._register([hashable_key(key)], phis, epss)[0])

    def register_many(self, keys: Any, phis: ArrayLike, epss: ArrayLike | None = None) -> Ints:
        """Register one query for each key of a column (or of several, as a table or a dict); return their ids."""
        distinct, checked_phis, precisions = key_array(keys), *read_queries(phis, epss, self._eps, self._tail)
        if len(distinct) != len(checked_phis):
            raise InvalidArgumentError(
                f"{len(distinct)} keys for {len(checked_phis)} queries: there must be one for each"
            )
        return self._register(hashable_keys(distinct), checked_phis, precisions)

    def query(self, id: int) -> Query:
        """Return phi and the precision in force of a query."""
        index = self._queries.find(id)
        return Query(int(id), float(self._queries.phi[index]), float(self._queries.eps[index]))

    def drop(self, id: int) -> None:
        self._queries.remove(np.array([self._queries.find(id)]))

    def drop_many(self, ids: ArrayLike) -> None:
        indices = self._queries.find_many(ids)
        if len(np.unique(indices)) < len(indices):
            raise InvalidArgumentError("an id is among the ids to drop twice; give each once")
        self._queries.remove(indices)

    def update(self, keys: Any, values: Any, weights: Any = None) -> None:
        """Add a block of values, each with its key.

        `weights` are whole numbers, one for each value or one for all: a value of weight w counts as w equal values.

        >>> group = MonitorGroup(eps=0.01)
        >>> median = group.register("a", 0.5)
        >>> group.update(["a", "b", "a"], [1.0, 7.0, 3.0], weights=[2, 1, 10**9])
        >>> group.answer(median).value
        np.float64(3.0)
        """
        column = key_array(keys)
        if weights is not None:
            self._update_weighted(column, read_weighted(values, weights, self._nan, self._type))
            return
        rows = read_rows(values, self._type)
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
            valid = ~np.isnan(carried)
            codes, carried = codes[valid], carried[valid]
        check_count(self.n + len(carried))
        codes = self._accept(kind, distinct)[codes]
        self._n += np.bincount(codes, minlength=len(self._n))
        self._levels.add(codes, carried)

    def answer(self, id: int) -> Answer:
        """Return the current value of a query, with proved bounds of its rank among the values of its key."""
        index = np.array([self._queries.find(id)])
        check_not_empty(int(self._n[self._queries.slot[index[0]]]))
        return self._answers(index)[0]

    def answers(self, ids: ArrayLike) -> Answers:
        """Return the answers to many queries, whose keys all have values."""
        indices = self._queries.find_many(ids)
        check_not_empty(int(self._n[self._queries.slot[indices]].min()) if len(indices) else 1)
        return self._answers(indices)

    def changes(self) -> Changes:
        """Return the queries whose value changed since the last call."""
        self._evaluate_due()
        used, queries = slice(self._queries.used), self._queries
        queries.published = queries.published.astype(self._value.dtype, copy=False)
        changed = ~queries.is_published[used] | (queries.published[used] != self._value[used])
        indices = np.flatnonzero(changed & (self._ranks[used, 2] > 0) & (queries.slot[used] >= 0))
        values = self._value[indices]
        queries.published[indices], queries.is_published[indices] = values, True
        changes = queries.ids(indices), values
        return Changes(self._kind, len(indices), Lookup(lambda: changes), [])

    def stats(self) -> dict[str, int]:
        return {
            "n": self.n,
            "keys": len(self._codes),
            "queries": len(self._queries),
            "evaluations": self._evaluations,
        }

    @property
    def _precision(self) -> tuple[float, float]:
        """The eps and the tail as kernels take them: a tail of -1 if there is none."""
        return self._eps, -1.0 if self._tail is None else self._tail

    @property
    def _kind(self) -> ValueType:
        return self._type or type_named("float64")

    def _register(self, names: list[Any], phis: Floats, epss: Floats) -> Ints:
        codes = self._encode(names)
        indices = self._queries.add(phis, epss)
        reserve(self, QUERY_FIELDS, self._queries.used)
        self._queries.slot[indices] = codes
        self._span[indices] = compute_intervals(phis, epss, self._eps, self._tail)
        self._ranks[indices], self._due[indices] = 0, 0
        return self._queries.ids(indices)

    def _update_weighted(self, column: pa.Array, weighted: WeightedValues) -> None:
        check_same_length(len(column), len(weighted.valid))
        if weighted.type is None or not len(weighted):
            return
        check_count(self.n + weighted.total)
        codes, distinct = encode_keys(column.filter(pa.array(weighted.valid)))
        codes = self._accept(weighted.type, distinct)[codes]
        self._n += np.bincount(codes, weighted.weights, len(self._n)).astype(np.int64)
        self._levels.add_weighted(codes, weighted)

    def _accept(self, kind: ValueType, distinct: pa.Array) -> Ints:
        """Take the type of the first values; return the code of each distinct key of a block."""
        codes = self._encode(hashable_keys(distinct))
        if self._type is None:
            self._type, self._value = kind, self._value.astype(kind.carrier)
        return codes

    def _encode(self, names: list[Any]) -> Ints:
        """Return the code of each key; assign codes to new keys."""
        try:
            codes = [self._codes.setdefault(name, len(self._codes)) for name in names]
        except TypeError as error:
            raise TypeMismatchError(f"a key must be a plain value or a tuple of such: {error}") from error
        missing = len(self._codes) - len(self._n)
        self._n = np.concatenate((self._n, np.zeros(missing, dtype=np.int64))) if missing else self._n
        return np.array(codes, dtype=np.int64)

    def _evaluate_due(self) -> None:
        """Evaluate every query whose key has more values than its deadline."""
        slots = self._queries.slot[: self._queries.used].copy()  # another thread may drop a query
        if not len(self._n):
            return
        due = np.flatnonzero((slots >= 0) & (self._due[: len(slots)] < self._n[np.maximum(slots, 0)]))
        if not len(due):
            return
        codes = slots[due]
        self._evaluations += len(due)
        le_bound, lt_bound = self._levels.rank_bounds(codes, self._value[due], np.unique(codes))
        extended = extend_answers(
            due, self._n[codes], le_bound, lt_bound, self._span, self._ranks, self._due, *self._precision
        )
        if not extended.all():
            self._search(due[~extended], codes[~extended])

    def _search(self, due: Ints, keys: Ints) -> None:
        """Find the best value for these queries, given the code of each one's key."""
        codes, group = np.unique(keys, return_inverse=True)
        tuples = self._levels.of(codes).tuples
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
            *self._precision,
        )

    def _answers(self, indices: Ints) -> Answers:
        self._evaluate_due()
        n, ranks, phi = self._n[self._queries.slot[indices]], self._ranks[indices], self._queries.phi[indices]
        high = np.minimum(ranks[:, 1] + n - ranks[:, 2], n)
        return Answers(self._kind, self._value[indices], phi, target_ranks(phi, n), ranks[:, 0], high, n)
