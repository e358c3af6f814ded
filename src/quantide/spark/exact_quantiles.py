"""Exact quantiles: a second pass over the values that may still be the answer.

A summary brackets the element of rank r: it is at least `low`, the last tuple's value whose rmax is at most r, and at
most `high`, the first whose rmin is at least r. The second pass counts the values below `low` and those equal to it,
and collects those strictly between: fewer than rmax(high) - rmin(low) <= 2*G of them, however many ties there are.
Row groups whose statistics lie on one side of every bracket are counted without being read.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from quantide.spark.partial_summaries import SummaryRequest, row_keys
from quantide.spark.row_source import FileRows, RowSource, Tables
from quantide.spark.source_files import FilePiece, Split
from quantide.store.location import StorageOptions, read_error
from quantide.store.parquet_footer import read_footer
from quantide.summary.key_encoding import encode_keys, key_array
from quantide.summary.summaries import Summaries
from quantide.summary.value_column import has_nan, read_rows
from quantide.summary.value_types import ValueType
from quantide.summary.weighted_values import read_weights
from quantide.typing import Ints

# Counts of a task: for each slot (key * phis + phi) the number of values below and equal, and the values between with
# their weights.
COUNT_SCHEMA = StructType(
    [
        StructField("column", StringType(), False),
        StructField("slot", LongType(), False),
        StructField("below", LongType(), False),
        StructField("equal", LongType(), False),
        StructField("between", ArrayType(LongType(), False), False),
        StructField("weights", ArrayType(LongType(), False), False),
    ]
)

NUMBERS = "INT32", "INT64", "FLOAT", "DOUBLE"  # physical types


@dataclass(frozen=True)
class ValueBrackets:
    """Target ranks of one column, and the values they lie between, for every key (row) and phi (column)."""

    keys: pa.Array
    kind: ValueType
    n: Ints
    targets: Ints
    low: NDArray[Any]
    high: NDArray[Any]

    @classmethod
    def of(cls, summaries: Summaries, phis: list[float]) -> "ValueBrackets":
        targets, low, high = summaries.brackets(phis)
        return cls(summaries.keys, summaries.type, summaries.n, targets, low, high)


class BracketCounter:
    """Counts the values of one column below its brackets, and collects those inside, table by table."""

    def __init__(self, brackets: ValueBrackets) -> None:
        self.brackets = brackets
        self.below = np.zeros(brackets.targets.shape, dtype=np.int64)
        self.equal = np.zeros(brackets.targets.shape, dtype=np.int64)
        self.slots: list[Ints] = []
        self.values: list[NDArray[Any]] = []
        self.weights: list[Ints] = []

    def add(self, keys: Any, values: Any, weights: Any = None) -> None:
        rows = read_rows(values)
        key = self._key_indexes(key_array(keys))
        weight = np.ones(rows.length, dtype=np.int64) if weights is None else read_weights(weights, rows.length)
        if rows.valid is not None:
            key, weight = key[rows.valid], weight[rows.valid]
        carried = rows.column.carried().astype(self.brackets.kind.carrier, copy=False)
        if has_nan(carried) or not weight.all():
            valid = (carried == carried) & (weight > 0)
            key, carried, weight = key[valid], carried[valid], weight[valid]
        key_count, phis = self.brackets.targets.shape
        for phi in range(phis):
            low, high = self.brackets.low[key, phi], self.brackets.high[key, phi]
            for counts, chosen in ((self.below, carried < low), (self.equal, carried == low)):
                counts[:, phi] += np.bincount(key[chosen], weight[chosen], key_count).astype(np.int64)
            inside = (carried > low) & (carried < high)
            self.slots.append(key[inside] * phis + phi)
            self.values.append(carried[inside])
            self.weights.append(weight[inside])

    def _key_indexes(self, keys: pa.Array) -> Ints:
        """Return the index of each row's key among the keys of the brackets."""
        count = len(self.brackets.keys)
        if count == 1:
            return np.zeros(len(keys), dtype=np.int64)
        codes, distinct = encode_keys(pa.concat_arrays([self.brackets.keys, keys]))
        index = np.zeros(len(distinct), dtype=np.int64)  # keys without values have no rows that count
        index[codes[:count]] = np.arange(count)
        return index[codes[count:]]

    def to_columns(self, name: str) -> dict[str, Any]:
        """Return columns of COUNT_SCHEMA with one row for each slot that is not empty; values as 64-bit patterns."""
        slots = np.concatenate([np.empty(0, np.int64), *self.slots])
        values = np.concatenate([np.empty(0, self.brackets.kind.carrier), *self.values])
        order = np.argsort(slots, kind="stable")
        sizes = np.bincount(slots, minlength=self.below.size)
        used = np.flatnonzero((sizes > 0) | (self.below.reshape(-1) > 0) | (self.equal.reshape(-1) > 0))
        offsets = np.concatenate(([0], np.cumsum(sizes[used])))
        weights = np.concatenate([np.empty(0, np.int64), *self.weights])
        between, of_weights = (
            pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(numbers[order]))
            for numbers in (_patterns(values), weights)
        )
        return {
            "column": pa.repeat(name, len(used)),
            "slot": used,
            "below": self.below.reshape(-1)[used],
            "equal": self.equal.reshape(-1)[used],
            "between": between,
            "weights": of_weights,
        }


def count_brackets(rows: RowSource, request: SummaryRequest, brackets: dict[str, ValueBrackets]) -> DataFrame:
    """Run the second pass; return the counts of all tasks, as rows of COUNT_SCHEMA."""

    def count(tables: Tables) -> Iterator[dict[str, Any]]:
        counters = {name: BracketCounter(bracket) for name, bracket in brackets.items()}
        for table in tables:
            for name, counter in counters.items():
                counter.add(row_keys(table, request.by), table[name], request.weights_of(table))
        for name, counter in counters.items():
            yield counter.to_columns(name)

    def count_split(split: Split, read: Callable[[Split], Tables]) -> Iterator[dict[str, Any]]:
        name, bracket = next(iter(brackets.items()))
        counter = BracketCounter(bracket)
        overlapping, below = prune_row_groups(split, name, bracket, storage)
        counter.below += below
        for table in read(overlapping):
            counter.add(row_keys(table, ()), table[name])
        yield counter.to_columns(name)

    # Statistics do not know keys, weights, the rows that `where` selects, or NaN.
    plain = not request.by and request.weights is None
    if isinstance(rows, FileRows) and plain and rows.where is None and len(brackets) == 1:
        storage = rows.storage
        if request.nan == "refuse":
            return rows.map_splits(count_split, COUNT_SCHEMA)
    return rows.map(count, COUNT_SCHEMA)


def resolve_brackets(counts: pa.Table, name: str, bracket: ValueBrackets) -> dict[str, Any]:
    """Return the exact answers of one column, as slot and carried value, from rows of COUNT_SCHEMA."""
    rows = counts.filter(pa.compute.equal(counts["column"], name)).combine_chunks()
    phis = bracket.targets.shape[1]
    slots = rows["slot"].to_numpy()
    own, part = np.unique(slots, return_inverse=True)
    below = np.bincount(part, weights=rows["below"].to_numpy(), minlength=len(own)).astype(np.int64)
    equal = np.bincount(part, weights=rows["equal"].to_numpy(), minlength=len(own)).astype(np.int64)
    lists = rows["between"].combine_chunks()
    values = _from_patterns(lists.flatten().to_numpy(), bracket.kind)
    slot_of = np.repeat(part, np.diff(lists.offsets.to_numpy()))
    order = np.lexsort((values, slot_of))
    values, starts = values[order], np.searchsorted(slot_of[order], np.arange(len(own) + 1))
    weights = rows["weights"].combine_chunks().flatten().to_numpy()
    ends = np.concatenate(([0], np.cumsum(weights[order])))  # ranks among the values between, of all slots
    key, phi = np.divmod(own, phis)
    inner = bracket.targets[key, phi] - below - equal  # the rank among the values between, from 1
    sizes = np.diff(ends[starts])
    index = np.searchsorted(ends[1:], ends[starts[:-1]] + np.maximum(inner, 1), side="left")
    between = np.append(values, np.zeros(1, values.dtype))[index]  # the zero is for indexes that are not used
    answer = np.where(inner <= 0, bracket.low[key, phi], np.where(inner <= sizes, between, bracket.high[key, phi]))
    return {"slot": own, "value": answer}


def prune_row_groups(split: Split, name: str, bracket: ValueBrackets, storage: StorageOptions) -> tuple[Split, Ints]:
    """Return the row groups that overlap a bracket, and how many values of the others are below each bracket."""
    below = np.zeros(bracket.targets.shape[1], dtype=np.int64)
    low, high = bracket.low[0], bracket.high[0]
    overlapping: list[FilePiece] = []
    for piece in split:
        filesystem, path = storage.locate(piece.file.uri)
        try:
            with filesystem.open_input_file(path) as file:
                metadata, _ = read_footer(file)
        except (OSError, ValueError) as error:
            raise read_error(piece.file.uri, error) from error
        columns = [i for i in range(metadata.num_columns) if metadata.schema.column(i).path == name]
        groups = tuple(range(metadata.num_row_groups)) if piece.groups is None else piece.groups
        undecided = []
        for group in groups:
            stats = metadata.row_group(group).column(columns[0]).statistics if columns else None
            required = bool(columns) and metadata.schema.column(columns[0]).max_definition_level == 0
            if stats is None or not (stats.has_null_count or required) or not _is_outside(stats, low, high):
                undecided.append(group)  # without a count of nulls, num_values counts them, too
            else:
                below += np.where(low > stats.max, stats.num_values, 0)
        if undecided:
            overlapping.append(FilePiece(piece.file, tuple(undecided), piece.size))
    return tuple(overlapping), below


def _is_outside(stats: Any, low: NDArray[Any], high: NDArray[Any]) -> bool:
    """Return True if all values of a row group are on one side of every bracket, by its statistics."""
    if not stats.has_min_max or stats.physical_type not in NUMBERS or stats.logical_type.type not in ("NONE", "INT"):
        return False  # times are not read: pyarrow makes dates of them, which end in the year 9999
    return bool(((low > stats.max) | (high < stats.min)).all())


def _patterns(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return carried values as 64-bit integers, so that one schema serves every type."""
    wide = values.astype(np.float64) if values.dtype.kind == "f" else values
    return wide.view(np.int64)


def _from_patterns(patterns: NDArray[np.int64], kind: ValueType) -> NDArray[Any]:
    if not kind.is_float:
        return patterns
    return patterns.view(np.float64).astype(kind.carrier)
