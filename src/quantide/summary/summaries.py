"""Summaries: one summary per key, as flat arrays."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from quantide.errors import CorruptBytesError, InvalidArgumentError, TypeMismatchError, UnknownKeyError
from quantide.kernels.compression import find_bracketing_tuples, find_nearest_tuples, select_tuples
from quantide.kernels.error_profile import sample_by_profile, select_by_profile
from quantide.kernels.key_segments import sample
from quantide.kernels.tuple_merge import merge_groups
from quantide.summary.copying import Immutable
from quantide.summary.key_encoding import (
    check_same_length,
    combine_chunks,
    encode_keys,
    find_key,
    group_by_code,
    key_array,
)
from quantide.summary.ranks import (
    DEFAULT,
    MAX_N,
    check_count,
    check_eps,
    check_phis,
    check_size,
    check_tail,
    check_tail_share,
    target_ranks,
)
from quantide.summary.summary import Summary
from quantide.summary.summary_bytes import SummaryTuples, binary_array, check_tuples, pack_array, unpack_array
from quantide.summary.value_column import check_nan_policy, has_nan, nan_error, read_rows
from quantide.summary.value_types import ValueType, type_named
from quantide.summary.weighted_values import read_weighted, weighted_tuples
from quantide.typing import Array, Floats, Ints

TYPE_FIELD = b"quantide.type"


class Summaries(Immutable):
    """Many keyed summaries as flat arrays: built, merged and queried in single calls, never key by key.

    Keys are sorted, null last. `offsets[i]:offsets[i+1]` are the tuples of key i.

    >>> s = Summaries.of(["a", "b", "a", "a"], [1.0, 7.0, 3.0, 2.0], eps=0.01)
    >>> s["a"].quantile(0.5), s["b"].n
    (np.float64(2.0), 1)
    >>> s.answer([0.5, 1.0]).select(["key", "phi", "value"]).to_pylist()[1]
    {'key': 'a', 'phi': 1.0, 'value': 3.0}
    >>> both = Summaries.merge(s, Summaries.of(["b", "c"], [5.0, 9.0], eps=0.01))
    >>> list(both), both.n.tolist()
    (['a', 'b', 'c'], [3, 2, 1])

    Every key's summary has the guarantee of Summary: docs/guarantees/summary.md.
    """

    __slots__ = ("_keys", "_tuples")

    def __init__(self, keys: pa.Array, tuples: SummaryTuples) -> None:
        """Create Summaries from tuples; internal. Use Summaries.of."""
        for array in tuples.arrays:
            array.flags.writeable = False
        self._keys, self._tuples = keys, tuples

    @classmethod
    def of(
        cls,
        keys: Any,
        values: Any,
        eps: float,
        nan: str = "refuse",
        tail: float | None = DEFAULT,
        weights: Any = None,
    ) -> "Summaries":
        """Group the values by key and summarise each group within eps; groups of fewer than 1/eps stay exact.

        Towards the ends of a group, answers are within `tail` of their distance from the end: by default 10 * eps for
        eps up to 0.01; None for eps alone.

        `keys` is a column like `values`, or a table, record batch or dict of several columns. Nulls (and NaN,
        with nan="skip") are counted for their key; a key without other values has n = 0. `weights` are whole numbers,
        one for each value or one for all: a value of weight w counts as w equal values.
        """
        eps, nan = check_eps(eps), check_nan_policy(nan)
        tail = check_tail(tail, eps) if tail is DEFAULT or tail is None else check_tail_share(tail)
        if weights is not None:
            exact = cls._of_weighted(key_array(keys), values, weights, nan)
            return exact.compress(math.ceil(1 / eps), tail)  # G - 1 is below eps * n: 0, while eps * n is below 1
        rows = read_rows(values)
        column = key_array(keys)
        check_same_length(len(column), rows.length)
        codes, distinct = encode_keys(column)
        groups = len(distinct)
        nulls = nans = np.zeros(groups, dtype=np.int64)
        if rows.valid is not None:
            nulls = np.bincount(codes[~rows.valid], minlength=groups)
            codes = codes[rows.valid]
        carried = rows.column.carried()
        if has_nan(carried):
            if nan == "refuse":
                raise nan_error()
            is_nan = np.isnan(carried)
            nans = np.bincount(codes[is_nan], minlength=groups)
            codes, carried = codes[~is_nan], carried[~is_nan]
        grouped, bounds = group_by_code(codes, carried, groups)
        n = np.diff(bounds)
        # Kept ranks are 2*floor(eps*n) + 1 apart: G is that, and floor(G/2) is within eps*n.
        allowed = np.floor(eps * n).astype(np.int64)
        allowed -= allowed / np.maximum(n, 1) > eps  # eps * n was rounded up
        if tail is None:
            sampled, ranks, offsets = sample(grouped, bounds, 2 * allowed + 1)
        else:
            sampled, ranks, offsets = sample_by_profile(grouped, bounds, 2 * allowed, 2 * tail)
        kind = rows.column.type or type_named("float64")
        return cls(distinct, SummaryTuples(kind, sampled, ranks, ranks, offsets, n, nulls, nans))

    @classmethod
    def _of_weighted(cls, column: pa.Array, values: Any, weights: Any, nan: str) -> "Summaries":
        """Summarise weighted values of each key exactly."""
        given = read_weighted(values, weights, nan)
        check_same_length(len(column), len(given.valid))
        codes, distinct = encode_keys(column.filter(pa.array(given.occurs)))
        groups, valid = len(distinct), given.valid[given.occurs]
        nulls, nans = (
            np.bincount(codes[skipped[given.occurs]], given.counts[skipped], groups).astype(np.int64)
            for skipped in (given.is_null, given.is_nan)
        )
        tuples, ranks, of_key = weighted_tuples(given.values, given.weights, codes[valid])
        n = np.bincount(codes[valid], given.weights, groups).astype(np.int64)
        offsets = np.searchsorted(of_key, np.arange(groups + 1))
        kind = given.type or type_named("float64")
        return cls(distinct, SummaryTuples(kind, tuples, ranks, ranks, offsets, n, nulls, nans))

    @staticmethod
    def merge(*many: "Summaries") -> "Summaries":
        """Return one summary for each key of any of these. The relative error never grows."""
        if not many:
            raise InvalidArgumentError("merge needs at least one Summaries")
        for other in many:
            if not isinstance(other, Summaries):
                raise TypeMismatchError(f"Summaries merge with Summaries, not with {type(other).__name__}")
        nonempty = [s for s in many if len(s)] or [many[0]]
        if len(nonempty) == 1:
            return nonempty[0]
        kind = next((s.type for s in nonempty if s.n.any()), nonempty[0].type)  # summaries of nulls fit any type
        for other in nonempty:
            if other._keys.type != nonempty[0]._keys.type or (other.type != kind and other.n.any()):
                raise TypeMismatchError(
                    f"summaries of {other.type} by {other._keys.type} cannot be merged with summaries of "
                    f"{kind} by {nonempty[0]._keys.type}"
                )
        keys = pa.concat_arrays([s._keys for s in nonempty])
        return Summaries._group(keys, SummaryTuples.concatenate([s._tuples for s in nonempty], kind))

    def compress(self, b: int, tail: float | None = None) -> "Summaries":
        """Compress every summary to at most b+1 tuples; the G of each grows by less than n/b.

        With a tail, more tuples are kept towards the ends, so that the certified tails grow by at most `tail`.
        """
        t, b, tail = self._tuples, min(check_size("b", b, 1), MAX_N), None if tail is None else check_tail_share(tail)
        if tail is None and not t.has_wide_ties:
            indexes, offsets = select_tuples(t.rmin, t.rmax, t.bounds, t.n, b)
        else:
            slope = -1.0 if tail is None else 2 * tail
            indexes, offsets = select_by_profile(t.values, t.rmin, t.rmax, t.bounds, t.n, b, slope)
        return Summaries(
            self._keys,
            SummaryTuples(t.type, t.values[indexes], t.rmin[indexes], t.rmax[indexes], offsets, t.n, t.nulls, t.nans),
        )

    def answer(self, phis: ArrayLike) -> pa.Table:
        """Return a row per key and phi: key, phi, value, rank_lo, rank_hi, target, n, error; nulls where n is 0."""
        array = _check_phi_list(phis)
        t = self._tuples
        targets, nearest = self._nearest(array)
        empty = (nearest < 0).reshape(-1)
        indexes = np.maximum(nearest, 0).reshape(-1)
        n = np.repeat(t.n, len(array))
        target = targets.reshape(-1)
        low = high = np.zeros(len(indexes), dtype=np.int64)  # masked where empty
        if len(t.values):
            low, high = t.rank_bounds(np.minimum(indexes, len(t.values) - 1), target)
        error = np.maximum(target - low, high - target) / np.maximum(n, 1)
        columns = {
            "key": self._keys.take(pa.array(np.repeat(np.arange(len(self)), len(array)))),
            "phi": np.tile(array, len(self)),
            "value": t.type.restore_arrow(t.values).take(pa.array(indexes, mask=empty)),
            "rank_lo": pa.array(low, mask=empty),
            "rank_hi": pa.array(high, mask=empty),
            "target": pa.array(target, mask=empty),
            "n": n,
            "error": pa.array(error, mask=empty),
        }
        return pa.table(columns)

    def brackets(self, phis: ArrayLike) -> tuple[Ints, Array, Array]:
        """Return for each key and phi the target rank, and two values that enclose the value of that rank.

        Values are the carried numbers. Every key must have a value, and no summary may be lifted.
        """
        t = self._tuples
        targets = target_ranks(_check_phi_list(phis)[None, :], t.n[:, None])
        below, above = find_bracketing_tuples(t.rmin, t.rmax, t.bounds, targets)
        return targets, t.values[below], t.values[above]

    def quantiles(self, phis: ArrayLike) -> Array:
        """Return the values alone: a row for each key, a column for each phi. Every key must have a value."""
        array = _check_phi_list(phis)
        _, nearest = self._nearest(array)
        if nearest.size and nearest.min() < 0:
            raise InvalidArgumentError("some keys have only nulls, and so no quantile; answer() gives nulls for them")
        restored = self._tuples.type.restore(self._tuples.values)
        return restored[nearest]

    def with_values(self) -> "Summaries":
        """Return the summaries of keys that have values."""
        return self.take(np.flatnonzero(self.n))

    def without_values(self) -> "Summaries":
        """Return the summaries of keys that have only nulls."""
        return self.take(np.flatnonzero(self.n == 0))

    def take(self, indexes: Ints) -> "Summaries":
        """Return the summaries at these indexes among the keys, which must increase."""
        if len(indexes) and (indexes[0] < 0 or indexes[-1] >= len(self) or (indexes[1:] <= indexes[:-1]).any()):
            raise InvalidArgumentError(f"indexes must increase within 0 to {len(self) - 1}, unlike {indexes}")
        return Summaries(self._keys.take(pa.array(indexes)), self._tuples.take(indexes))

    def total(self) -> Summary:
        """Return one summary of the values of all keys. Rank errors add up, so the relative error does not grow."""
        if not len(self):
            return Summary.of_sorted(self._tuples.values, self.type)
        return Summaries._group(pa.array(np.zeros(len(self), dtype=np.int64)), self._tuples)[0]

    @property
    def tuples(self) -> SummaryTuples:
        """Flat arrays of carried values; internal."""
        return self._tuples

    @property
    def keys(self) -> pa.Array:
        """Keys, sorted, null last."""
        return self._keys

    @property
    def n(self) -> Ints:
        """Number of values of each key."""
        return self._tuples.n

    @property
    def nulls(self) -> Ints:
        return self._tuples.nulls

    @property
    def nans(self) -> Ints:
        return self._tuples.nans

    @property
    def offsets(self) -> Ints:
        return self._tuples.bounds

    @property
    def values(self) -> Array:
        return self._tuples.type.restore(self._tuples.values)

    @property
    def rmin(self) -> Ints:
        return self._tuples.rmin

    @property
    def rmax(self) -> Ints:
        return self._tuples.rmax

    @property
    def type(self) -> ValueType:
        return self._tuples.type

    @property
    def error(self) -> Floats:
        """Certified error of each key's summary, as a fraction of its n."""
        return self._tuples.error

    @property
    def tail(self) -> Floats:
        """Certified tail of each key's summary, NaN where none below 1 holds; see Summary.tail."""
        return self._tuples.tail

    @property
    def nbytes(self) -> int:
        return int(self._keys.nbytes) + self._tuples.nbytes

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self._keys)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._keys.to_pylist())

    def __contains__(self, key: object) -> bool:
        return find_key(self._keys, key) >= 0

    def __getitem__(self, key: Any) -> Summary:
        i = find_key(self._keys, key)
        if i < 0:
            raise UnknownKeyError(f"no summary for the key {key!r}; there are {len(self)} keys, see .keys")
        t, part = self._tuples, slice(self._tuples.bounds[i], self._tuples.bounds[i + 1])
        return Summary(t.values[part], t.rmin[part], t.rmax[part], int(t.n[i]), t.type, int(t.nulls[i]), int(t.nans[i]))

    def __reduce__(self) -> tuple[Callable[[pa.Table], "Summaries"], tuple[pa.Table]]:
        return type(self).from_arrow, (self.to_arrow(),)

    def __repr__(self) -> str:
        return f"Summaries(keys={len(self)}, n={int(self.n.sum())}, tuples={len(self.rmin)}, type={self.type})"

    def to_arrow(self) -> pa.Table:
        """Return columns key, n, nulls, nans and tuples (lists of value, rmin, rmax), sharing this object's memory."""
        t = self._tuples
        tuples = pa.StructArray.from_arrays(
            [pa.array(a) for a in (t.values, t.rmin, t.rmax)], ["value", "rmin", "rmax"]
        )
        table = pa.table(
            {
                "key": self._keys,
                "n": t.n,
                "nulls": t.nulls,
                "nans": t.nans,
                "tuples": pa.LargeListArray.from_arrays(pa.array(t.bounds), tuples),
            }
        )
        return table.replace_schema_metadata({TYPE_FIELD: t.type.name})

    @classmethod
    def from_arrow(cls, table: pa.Table) -> "Summaries":
        """Restore Summaries from the table of to_arrow(), sharing its memory where that is read-only.

        Columns made from numpy arrays are copied. A table read from a bytearray or a memory-mapped file is not: do not
        modify these.
        """
        try:
            table.validate(full=True)
            kind = type_named(table.schema.metadata[TYPE_FIELD].decode())
            lists = combine_chunks(table["tuples"])
            bounds = _numpy(lists.offsets)
            structs = lists.values.slice(bounds[0], bounds[-1] - bounds[0])
            values, rmin, rmax = (_numpy(column) for column in structs.flatten())
            counts = [_numpy(combine_chunks(table[name])) for name in ("n", "nulls", "nans")]
            tuples = SummaryTuples(kind, values, rmin, rmax, bounds - bounds[0], *counts)
            keys = key_array(table["key"])
        except (KeyError, TypeError, AttributeError, ValueError, pa.ArrowException) as error:
            raise CorruptBytesError(f"this table is not one that Summaries.to_arrow() made: {error}") from error
        check_tuples(tuples)
        codes, distinct = encode_keys(keys)
        if len(distinct) != len(keys):
            raise CorruptBytesError("this table is not one that Summaries.to_arrow() made: a key occurs twice")
        in_order = bool((codes[1:] > codes[:-1]).all())
        return cls(distinct, tuples) if in_order else cls._group(keys, tuples)

    def to_binary(self) -> pa.Array:
        """Return the bytes of each key's summary, as of Summary.to_bytes(), as one Arrow array."""
        return pack_array(self._tuples)

    @classmethod
    def from_binary(cls, keys: Any, summaries: Any) -> "Summaries":
        """Restore Summaries from the bytes of one summary per key; keys that occur more than once are merged."""
        column = key_array(keys)
        blobs = binary_array(summaries)
        check_same_length(len(column), len(blobs))
        if blobs.null_count:
            raise CorruptBytesError("a null is not a summary; drop null rows first")
        return cls._group(column, unpack_array(blobs)) if len(blobs) else cls.of(column, [], 0.5)

    @classmethod
    def _group(cls, column: pa.Array, parts: SummaryTuples) -> "Summaries":
        """Merge parts by key; keys are in any order, and may repeat."""
        codes, distinct = encode_keys(column)
        order = np.argsort(codes, kind="stable")
        ordered = parts.take(order)
        groups = np.concatenate(([0], np.cumsum(np.bincount(codes, minlength=len(distinct)))))
        n, nulls, nans = (np.add.reduceat(x, groups[:-1]) for x in (ordered.n, ordered.nulls, ordered.nans))
        approximate = np.add.reduceat(ordered.n.astype(np.float64), groups[:-1])  # in case 64 bits overflow
        check_count(int(max(n.max(), approximate.max())))
        values, rmin, rmax = ordered.values, ordered.rmin, ordered.rmax
        if len(distinct) < len(column):
            values, rmin, rmax = merge_groups(values, rmin, rmax, ordered.bounds, ordered.n, groups)
        return cls(distinct, SummaryTuples(parts.type, values, rmin, rmax, ordered.bounds[groups], n, nulls, nans))

    def _nearest(self, phis: Floats) -> tuple[Ints, Ints]:
        """Return target ranks and indexes of the nearest tuples (-1 if empty), a row per key, a column per phi."""
        t = self._tuples
        targets = target_ranks(phis[None, :], np.maximum(t.n, 1)[:, None])
        return targets, find_nearest_tuples(t.rmin, t.rmax, t.bounds, targets)


def _check_phi_list(phis: ArrayLike) -> Floats:
    array = np.atleast_1d(check_phis(phis))
    if array.ndim > 1:
        raise InvalidArgumentError(f"phis must be a number or a list of numbers, not of shape {array.shape}")
    return array


def _numpy(column: pa.Array) -> Array:
    """Return a column as an array; a copy if its memory is writable."""
    array: Array = column.to_numpy(zero_copy_only=True)
    writable = any(buffer is not None and buffer.is_mutable for buffer in column.buffers())
    return array.copy() if writable else array
