"""Weighted values: a value of weight w counts as w equal values, none of which is stored twice."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from quantide.errors import InvalidArgumentError
from quantide.summary.ranks import MAX_N, check_count
from quantide.summary.value_column import ValueColumn, check_nan_policy, has_nan, nan_error, plain_values, read_rows
from quantide.summary.value_types import ValueType
from quantide.typing import Array, Bools, Ints

MAX_REPEATED = 1 << 16  # weighted values that are inserted one by one, as many as a block of any sketch
PART_SIZE = 1 << 20  # repeated values that are in memory together
MAX_REPEATS = 1 << 27  # arrivals of a weighted update of a window


@dataclass(frozen=True)
class WeightedValues:
    """Rows of values and weights; `values` and `weights` are of those that count, in arrival order.

    A row does not count if it is null, a skipped NaN, or has a weight of 0.
    """

    type: ValueType | None
    values: Array  # carried
    weights: Ints
    counts: Ints  # weights of all rows
    is_null: Bools  # rows that are null, and those that are a skipped NaN, with a weight above 0
    is_nan: Bools

    def __len__(self) -> int:
        return len(self.values)

    @property
    def occurs(self) -> Bools:
        """Mask of the rows whose weight is above 0."""
        return self.counts > 0

    @property
    def valid(self) -> Bools:
        """Mask of the rows that count."""
        return self.occurs & ~self.is_null & ~self.is_nan

    @property
    def nulls(self) -> int:
        """Weight of the nulls."""
        return int(self.counts[self.is_null].sum())

    @property
    def nans(self) -> int:
        """Weight of the skipped NaN."""
        return int(self.counts[self.is_nan].sum())

    @property
    def total(self) -> int:
        """Number of values that these stand for."""
        return int(self.weights.sum())

    @property
    def is_light(self) -> bool:
        """Return True if inserting the values one by one costs no more than a block does."""
        return self.total <= max(MAX_REPEATED, 2 * len(self))

    def repeated(self) -> ValueColumn:
        """Return a column with every value as often as its weight says."""
        return ValueColumn(self.type, [np.repeat(self.values, self.weights)], self.nulls, self.nans)

    def skipped(self) -> ValueColumn:
        """Return a column of the skipped values alone, for counters."""
        return ValueColumn(self.type, [], self.nulls, self.nans)

    def index_parts(self, start: int = 0) -> Iterator[Ints]:
        """Yield the index of the value of each arrival from `start` on, PART_SIZE at a time."""
        return repeat_indexes(self.weights, PART_SIZE, start)

    def tuples(self) -> tuple[Array, Ints]:
        """Return the distinct values with their first and their last rank, as sorted tuples with exact ranks."""
        return weighted_tuples(self.values, self.weights, None)[:2]


def repeat_indexes(weights: Ints, size: int, start: int = 0) -> Iterator[Ints]:
    """Yield each index as often as its weight says, `size` at a time, without the first `start`."""
    ends = np.cumsum(weights)
    total = int(ends[-1]) if len(ends) else 0
    while start < total:
        end = min(start + size, total)
        first, last = int(np.searchsorted(ends, start, side="right")), int(np.searchsorted(ends, end, side="left"))
        counts = weights[first : last + 1].copy()
        counts[0] = ends[first] - start
        counts[-1] -= ends[last] - end
        yield np.repeat(np.arange(first, last + 1), counts)
        start = end


def weighted_tuples(values: Array, weights: Ints, codes: Ints | None) -> tuple[Array, Ints, Ints]:
    """Return two tuples of each distinct value of a code, with its first and its last rank; one if these are the same.

    The third array has the code of each tuple; None is code 0 for all. Ranks are those among the values of a code.
    """
    order = np.argsort(values, kind="stable") if codes is None else np.lexsort((values, codes))
    ordered, code = values[order], np.zeros(len(order), dtype=np.int64) if codes is None else codes[order]
    ends = np.cumsum(weights[order])
    is_last = np.ones(len(order), dtype=bool)
    is_last[:-1] = (ordered[1:] != ordered[:-1]) | (code[1:] != code[:-1])
    last, code, ordered = ends[is_last], code[is_last], ordered[is_last]
    first = np.concatenate(([0], last[:-1]))[: len(last)] + 1
    before = np.concatenate(([0], last))[np.searchsorted(code, code)]  # weights of all codes before
    ranks = np.stack((first - before, last - before), axis=1).reshape(-1)
    kept = np.ones(len(ranks), dtype=bool)
    kept[1::2] = first < last
    return np.repeat(ordered, 2)[kept], ranks[kept], np.repeat(code, 2)[kept]


def read_weighted(values: Any, weights: Any, nan: str = "refuse", expected: ValueType | None = None) -> WeightedValues:
    """Read values as read_column() does, and their weights: one for each, or one for all.

    A weight of 0 is that of a value that does not occur. A null or a skipped NaN counts as often as its weight says.
    """
    check_nan_policy(nan)
    rows = read_rows(values, expected)
    counts = read_weights(weights, rows.length)
    occurs, carried = counts > 0, rows.column.carried()
    is_null = np.zeros(rows.length, dtype=bool) if rows.valid is None else ~rows.valid & occurs
    is_nan = np.zeros(rows.length, dtype=bool)
    index = np.arange(rows.length) if rows.valid is None else np.flatnonzero(rows.valid)  # rows of the values
    if not occurs.all():
        carried, index = carried[occurs[index]], index[occurs[index]]
    if has_nan(carried):
        if nan == "refuse":
            raise nan_error()
        skipped = np.isnan(carried)
        is_nan[index[skipped]] = True
        carried, index = carried[~skipped], index[~skipped]
    return WeightedValues(rows.column.type, carried, counts[index], counts, is_null, is_nan)


def read_weights(weights: Any, length: int) -> Ints:
    """Return `length` weights, whole numbers from 0 on whose sum is at most MAX_N; one weight is that of all."""
    plain = plain_values(weights)
    if isinstance(plain, (pa.Array, pa.ChunkedArray)):
        if plain.null_count:
            raise InvalidArgumentError("a weight is null; give a whole number, 0 to leave a value out")
        plain = plain.to_numpy(zero_copy_only=False) if isinstance(plain, pa.Array) else plain.to_numpy()
    array = np.array(plain, dtype=object) if _is_nested(plain) else np.asarray(plain)
    if array.dtype.kind not in "iuf" and array.size:
        array = _read_objects(array)
    is_one = len(array) == 1 and not hasattr(weights, "__len__")
    if len(array) != length and not (is_one or np.ndim(weights) == 0):
        raise InvalidArgumentError(f"{len(array)} weights for {length} values; give one for each, or one for all")
    wrong = ~((array >= 0) & (array < np.inf) & (np.floor(array) == array))
    if wrong.any():
        raise _weight_error(array[wrong][0])
    if array.size:
        check_count(int(array.max()))
    counts = array.astype(np.int64)
    if len(counts) != length:
        counts = np.repeat(counts, length)
    if float(counts.sum(dtype=np.float64)) > 2 * MAX_N:  # the exact sum might not fit 64 bits
        check_count(int(counts.sum(dtype=np.float64)))
    check_count(int(counts.sum()))
    return counts


def _is_nested(plain: Any) -> bool:
    return isinstance(plain, list) and any(hasattr(x, "__len__") for x in plain)


def _read_objects(array: Array) -> Ints:
    """Return integers of any size and whole decimals as numbers; raise on anything else."""
    for x in array.tolist():
        is_number = isinstance(x, (int, float, Decimal)) and not isinstance(x, bool) and array.dtype == object
        if not is_number or not 0 <= x < math.inf or x != int(x):
            raise _weight_error(x)
        check_count(int(x))
    return array.astype(np.int64)


def check_repeats(count: int) -> None:
    """Raise if a window would insert more equal values, one by one, than takes some seconds."""
    if count > MAX_REPEATS:
        raise InvalidArgumentError(
            f"a window inserts a value of weight w as w arrivals, and these are {count}; at most {MAX_REPEATS} in a "
            "call are possible. Divide them, or insert update_summary(Summary.of(values, weights=...)): one block, "
            "which leaves the window as a whole"
        )


def _weight_error(weight: Any) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"a weight must be a whole number, 0 or more, not {weight}; a value of weight w counts as w equal values"
    )
