"""Summaries: one summary for each of many keys, as flat arrays."""

from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from quantide.errors import CorruptBytesError, InvalidArgumentError, TypeMismatchError, UnknownKeyError
from quantide.kernels.compress import bracketing_tuples, kept_tuples, nearest_tuples
from quantide.kernels.merge import merge_groups
from quantide.kernels.segments import sample, spread
from quantide.summary.column import check_nan_policy, has_nan, nan_error, read_rows
from quantide.summary.copying import Immutable
from quantide.summary.format import Tuples, check_tuples, pack_tuples, unpack_tuples
from quantide.summary.grouping import group_by_code
from quantide.summary.keys import check_same_length, encode_keys, find_key, key_array, one_array
from quantide.summary.ranks import MAX_N, check_count, check_eps, check_phis, check_size, target_ranks
from quantide.summary.summary import Summary
from quantide.summary.types import ValueType, type_named

Ints = NDArray[np.int64]

TYPE_FIELD = b"quantide.type"


class Summaries(Immutable):
    """Many keyed summaries held as flat arrays: built, merged and asked in single calls, never key by key.

    Keys are kept sorted, null last. `offsets[i]:offsets[i+1]` are the tuples of key i.

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

    def __init__(self, keys: pa.Array, tuples: Tuples) -> None:
        """For Quantide's own use; everyone else starts with Summaries.of."""
        for array in (tuples.values, tuples.rmin, tuples.rmax, tuples.bounds, tuples.n, tuples.nulls, tuples.nans):
            array.flags.writeable = False
        self._keys, self._tuples = keys, tuples

    @classmethod
    def of(cls, keys: Any, values: Any, eps: float, nan: str = "refuse") -> Self:
        """Group the values by key and summarise each group within eps; groups of fewer than 1/eps stay exact.

        `keys` is a column like `values`, or a table, record batch or dict of several columns. Nulls (and NaN,
        with nan="skip") are counted for their key; a key that has nothing else is kept with n = 0.
        """
        eps, nan = check_eps(eps), check_nan_policy(nan)
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
            bad = np.isnan(carried)
            nans = np.bincount(codes[bad], minlength=groups)
            codes, carried = codes[~bad], carried[~bad]
        grouped, bounds = group_by_code(codes, carried, groups)
        n = np.diff(bounds)
        # Kept ranks are 2*floor(eps*n) + 1 apart: G is that, and floor(G/2) is within eps*n.
        allowed = np.floor(eps * n).astype(np.int64)
        allowed -= allowed / np.maximum(n, 1) > eps  # eps * n was rounded up, by the smallest amount there is
        kept, ranks, offsets = sample(grouped, bounds, 2 * allowed + 1)
        kind = rows.column.type or type_named("float64")
        return cls(distinct, Tuples(kind, kept, ranks, ranks, offsets, n, nulls, nans))

    @staticmethod
    def merge(*many: "Summaries") -> "Summaries":
        """One summary for each key that any of these has. Relative error never grows."""
        if not many:
            raise InvalidArgumentError("merge needs at least one Summaries")
        for other in many:
            if not isinstance(other, Summaries):
                raise TypeMismatchError(f"Summaries merge with Summaries, not with {type(other).__name__}")
        held = [s for s in many if len(s)] or [many[0]]
        if len(held) == 1:
            return held[0]
        kind = next((s.type for s in held if s.n.any()), held[0].type)  # only nulls: of any type
        for other in held:
            if other._keys.type != held[0]._keys.type or (other.type != kind and other.n.any()):
                raise TypeMismatchError(
                    f"summaries of {other.type} by {other._keys.type} cannot be merged with summaries of "
                    f"{kind} by {held[0]._keys.type}"
                )
        return Summaries._grouped(pa.concat_arrays([s._keys for s in held]), _joined([s._tuples for s in held], kind))

    def compress(self, b: int) -> "Summaries":
        """Every summary to at most b+1 tuples; the G of each grows by less than n/b."""
        t = self._tuples
        kept, offsets = kept_tuples(t.rmin, t.rmax, t.bounds, t.n, min(check_size("b", b, 1), MAX_N))
        return Summaries(
            self._keys,
            Tuples(t.type, t.values[kept], t.rmin[kept], t.rmax[kept], offsets, t.n, t.nulls, t.nans),
        )

    def answer(self, phis: ArrayLike) -> pa.Table:
        """A row for each key and phi: key, phi, value, rank_lo, rank_hi, target, n, error; nulls where n is 0."""
        array = _one_row(phis)
        t = self._tuples
        targets, at = self._ask(array)
        found = (at >= 0).reshape(-1)
        places = np.maximum(at, 0).reshape(-1)
        n = np.repeat(t.n, len(array))
        target = targets.reshape(-1)
        low, high = (np.append(ranks, 0)[places] for ranks in (t.rmin, t.rmax))  # place 0 of nothing: masked
        error = np.maximum(target - low, high - target) / np.maximum(n, 1)
        index = pa.array(places, mask=~found)
        columns = {
            "key": self._keys.take(pa.array(np.repeat(np.arange(len(self)), len(array)))),
            "phi": np.tile(array, len(self)),
            "value": t.type.restore_arrow(t.values).take(index),
            "rank_lo": pa.array(low, mask=~found),
            "rank_hi": pa.array(high, mask=~found),
            "target": pa.array(target, mask=~found),
            "n": n,
            "error": pa.array(error, mask=~found),
        }
        return pa.table(columns)

    def brackets(self, phis: ArrayLike) -> tuple[Ints, NDArray[Any], NDArray[Any]]:
        """For each key and phi the target rank, and two kept values that the element of that rank lies between.

        Values are the carried numbers. Every key must have a value, and no summary may be lifted.
        """
        t = self._tuples
        targets = target_ranks(_one_row(phis)[None, :], t.n[:, None])
        below, above = bracketing_tuples(t.rmin, t.rmax, t.bounds, targets)
        return targets, t.values[below], t.values[above]

    def quantiles(self, phis: ArrayLike) -> NDArray[Any]:
        """The values alone: a row for each key, a column for each phi. Every key must have a value."""
        array = _one_row(phis)
        _, at = self._ask(array)
        if at.size and at.min() < 0:
            raise InvalidArgumentError("some keys have only nulls, and so no quantile; answer() gives nulls for them")
        restored = self._tuples.type.restore(self._tuples.values)
        return restored[at]

    def with_values(self) -> "Summaries":
        """The keys that have values."""
        return self.take(np.flatnonzero(self.n))

    def without_values(self) -> "Summaries":
        """The keys that have only nulls."""
        return self.take(np.flatnonzero(self.n == 0))

    def take(self, places: Ints) -> "Summaries":
        """The summaries at these places among the keys, which must rise."""
        t = self._tuples
        if len(places) and (places[0] < 0 or places[-1] >= len(self) or (places[1:] <= places[:-1]).any()):
            raise InvalidArgumentError(f"places must rise from 0 or more to at most {len(self) - 1}, not {places}")
        at, bounds = spread(t.bounds, places)
        flat = (t.values[at], t.rmin[at], t.rmax[at], bounds, t.n[places], t.nulls[places], t.nans[places])
        return Summaries(self._keys.take(pa.array(places)), Tuples(t.type, *flat))

    def total(self) -> Summary:
        """One summary of the values of all keys. Errors in ranks add up, so the relative error does not grow."""
        if not len(self):
            return Summary.of_sorted(self._tuples.values, self.type)
        return Summaries._grouped(pa.array(np.zeros(len(self), dtype=np.int64)), self._tuples)[0]

    @property
    def tuples(self) -> Tuples:
        """The flat arrays themselves, values carried: for Quantide's own use."""
        return self._tuples

    @property
    def keys(self) -> pa.Array:
        """The keys, sorted, null last."""
        return self._keys

    @property
    def n(self) -> Ints:
        """How many values each key has."""
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
    def values(self) -> NDArray[Any]:
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
    def error(self) -> NDArray[np.float64]:
        """The certified error of each key's summary, as a fraction of its n."""
        t = self._tuples
        some = t.n > 0
        first, last = t.bounds[:-1][some], t.bounds[1:][some] - 1
        gaps = np.empty(len(t.rmin), dtype=np.int64)
        gaps[1:] = t.rmax[1:] - t.rmin[:-1]
        gaps[first] = 1
        halves = np.maximum.reduceat(gaps, first) // 2 if len(first) else first
        ranks = np.maximum(np.maximum(t.rmax[first] - 1, t.n[some] - t.rmin[last]), halves)
        out = np.zeros(len(self))
        out[some] = ranks / t.n[some]
        return out

    @property
    def nbytes(self) -> int:
        t = self._tuples
        arrays = {id(a): a.nbytes for a in (t.values, t.rmin, t.rmax, t.bounds, t.n, t.nulls, t.nans)}
        return int(self._keys.nbytes) + sum(arrays.values())

    def __len__(self) -> int:
        """How many keys there are."""
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
        """Columns key, n, nulls, nans and tuples (a list of value, rmin, rmax), sharing this object's memory."""
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
        """The Summaries that to_arrow() described, sharing the table's memory as far as nobody can write there.

        Columns made from numpy arrays are copied. A table read from a bytearray or a mapped file is not: leave these
        as they are.
        """
        try:
            table.validate(full=True)
            kind = type_named(table.schema.metadata[TYPE_FIELD].decode())
            lists = one_array(table["tuples"])
            bounds = _numpy(lists.offsets)
            held = lists.values.slice(bounds[0], bounds[-1] - bounds[0])
            values, rmin, rmax = (_numpy(column) for column in held.flatten())
            counts = [_numpy(one_array(table[name])) for name in ("n", "nulls", "nans")]
            tuples = Tuples(kind, values, rmin, rmax, bounds - bounds[0], *counts)
            keys = key_array(table["key"])
        except (KeyError, TypeError, AttributeError, ValueError, pa.ArrowException) as error:
            raise CorruptBytesError(f"this table is not one that Summaries.to_arrow() made: {error}") from error
        check_tuples(tuples)
        codes, distinct = encode_keys(keys)
        if len(distinct) != len(keys):
            raise CorruptBytesError("this table is not one that Summaries.to_arrow() made: a key occurs twice")
        in_order = bool((codes[1:] > codes[:-1]).all())
        return cls(distinct, tuples) if in_order else cls._grouped(keys, tuples)

    def to_binary(self) -> pa.Array:
        """The bytes of each key's summary, as Summary.to_bytes() writes them, as one Arrow array."""
        packed, places = pack_tuples(self._tuples)
        buffers = [None, pa.py_buffer(places), pa.py_buffer(packed)]
        return pa.Array.from_buffers(pa.large_binary(), len(self), buffers)

    @classmethod
    def from_binary(cls, keys: Any, summaries: Any) -> "Summaries":
        """Summaries from the bytes of many, one for each key; keys that occur more than once are merged."""
        column = key_array(keys)
        blobs = _binary(summaries)
        check_same_length(len(column), len(blobs))
        if blobs.null_count:
            raise CorruptBytesError("a null is not a summary; drop null rows first")
        if not len(blobs):
            return cls.of(column, [], 0.5)
        _check_offsets(blobs)
        _, places, data = blobs.buffers()
        offsets = np.frombuffer(places, dtype=np.int64)[blobs.offset : blobs.offset + len(blobs) + 1]
        raw = np.frombuffer(data, dtype=np.uint8)
        if offsets[0] < 0 or offsets[-1] > len(raw) or (offsets[1:] < offsets[:-1]).any():
            raise CorruptBytesError("the offsets of this Arrow array lie outside its bytes; call its validate()")
        tuples = unpack_tuples(raw, offsets)
        return cls._grouped(column, tuples)

    @classmethod
    def _grouped(cls, column: pa.Array, parts: Tuples) -> "Summaries":
        """Parts with their keys in any order, several of a key or one, as Summaries."""
        codes, distinct = encode_keys(column)
        order = np.argsort(codes, kind="stable")
        places, bounds = spread(parts.bounds, order)
        groups = np.concatenate(([0], np.cumsum(np.bincount(codes, minlength=len(distinct)))))
        n, nulls, nans = (np.add.reduceat(x[order], groups[:-1]) for x in (parts.n, parts.nulls, parts.nans))
        roughly = np.add.reduceat(parts.n[order].astype(np.float64), groups[:-1])  # where 64 bits are not enough
        check_count(int(max(n.max(), roughly.max())))
        values, rmin, rmax = parts.values[places], parts.rmin[places], parts.rmax[places]
        if len(distinct) < len(column):
            values, rmin, rmax = merge_groups(values, rmin, rmax, bounds, parts.n[order], groups)
        return cls(distinct, Tuples(parts.type, values, rmin, rmax, bounds[groups], n, nulls, nans))

    def _ask(self, phis: NDArray[np.float64]) -> tuple[Ints, Ints]:
        """Target ranks and places of the answering tuples, a row for each key, a column for each phi."""
        t = self._tuples
        targets = target_ranks(phis[None, :], np.maximum(t.n, 1)[:, None])
        return targets, nearest_tuples(t.rmin, t.rmax, t.bounds, targets)


def _joined(parts: list[Tuples], kind: ValueType) -> Tuples:
    """The tuples of several Summaries one after the other."""
    shifts = np.cumsum([0] + [len(t.rmin) for t in parts])
    bounds = [t.bounds[:-1] + shift for t, shift in zip(parts, shifts, strict=False)]
    bounds.append(shifts[-1:])
    flat = {name: np.concatenate([getattr(t, name) for t in parts]) for name in ("rmin", "rmax", "n", "nulls", "nans")}
    values = np.concatenate([t.values.astype(kind.carrier, copy=False) for t in parts])
    return Tuples(type=kind, values=values, bounds=np.concatenate(bounds), **flat)


def _binary(summaries: Any) -> pa.Array:
    try:
        given = isinstance(summaries, (pa.Array, pa.ChunkedArray))
        return one_array(summaries if given else pa.array(summaries, pa.large_binary())).cast(pa.large_binary())
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise TypeMismatchError(f"the bytes of summaries are asked for: {error}") from error


def _check_offsets(blobs: pa.Array) -> None:
    """Refuse an array that leads outside its own bytes."""
    try:
        blobs.validate(full=True)
    except pa.ArrowException as error:
        raise CorruptBytesError(f"these are not the bytes of summaries: {error}") from error


def _one_row(phis: ArrayLike) -> NDArray[np.float64]:
    array = np.atleast_1d(check_phis(phis))
    if array.ndim > 1:
        raise InvalidArgumentError(f"phis must be a number or a list of numbers, not of shape {array.shape}")
    return array


def _numpy(column: pa.Array) -> NDArray[Any]:
    """A column as an array; a copy if the owner of its memory can still write there."""
    array: NDArray[Any] = column.to_numpy(zero_copy_only=True)
    writable = any(buffer is not None and buffer.is_mutable for buffer in column.buffers())
    return array.copy() if writable else array
