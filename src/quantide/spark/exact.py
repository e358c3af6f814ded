"""Exact quantiles in a second pass, which reads and keeps only what can still be the answer.

A summary brackets the element of rank r: it is at least `low`, the last kept value whose rmax is at most r, and at
most `high`, the first whose rmin is at least r. The second pass counts the values below `low` and those equal to it,
and keeps those strictly between: fewer than rmax(high) - rmin(low) <= 2*G of them, however many ties there are.
Row groups whose statistics lie on one side of every bracket are counted without being read.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from quantide.spark.partials import Request, keys_of
from quantide.spark.rows import FileRows, Rows, Tables
from quantide.spark.splits import Piece, Split
from quantide.store.storage import Storage
from quantide.summary.column import has_nan, read_rows
from quantide.summary.keys import encode_keys, key_array
from quantide.summary.summaries import Summaries
from quantide.summary.types import ValueType

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Brackets:
    """For every key (row) and phi (column) of one column: the target rank and the values it lies between."""

    keys: pa.Array
    kind: ValueType
    n: Ints
    targets: Ints
    low: NDArray[Any]
    high: NDArray[Any]

    @classmethod
    def of(cls, held: Summaries, phis: list[float]) -> "Brackets":
        targets, low, high = held.brackets(phis)
        return cls(held.keys, held.type, held.n, targets, low, high)


def count_schema() -> StructType:
    """What a task found: for each slot (key * phis + phi) how many values are below, how many equal, which between."""
    return StructType(
        [
            StructField("column", StringType(), False),
            StructField("slot", LongType(), False),
            StructField("below", LongType(), False),
            StructField("equal", LongType(), False),
            StructField("between", ArrayType(LongType(), False), False),
        ]
    )


class Counter:
    """Counts and keeps, table by table, what the brackets of one column leave open."""

    def __init__(self, brackets: Brackets) -> None:
        self.brackets = brackets
        self.below = np.zeros(brackets.targets.shape, dtype=np.int64)
        self.equal = np.zeros(brackets.targets.shape, dtype=np.int64)
        self.slots: list[Ints] = []
        self.values: list[NDArray[Any]] = []

    def add(self, keys: Any, values: Any) -> None:
        rows = read_rows(values)
        place = self._places(key_array(keys))
        place = place if rows.valid is None else place[rows.valid]
        carried = rows.column.carried().astype(self.brackets.kind.carrier, copy=False)
        if has_nan(carried):
            keep = ~np.isnan(carried)
            place, carried = place[keep], carried[keep]
        keys_, phis = self.brackets.targets.shape
        for phi in range(phis):
            low, high = self.brackets.low[place, phi], self.brackets.high[place, phi]
            self.below[:, phi] += np.bincount(place[carried < low], minlength=keys_)
            self.equal[:, phi] += np.bincount(place[carried == low], minlength=keys_)
            inside = (carried > low) & (carried < high)
            self.slots.append(place[inside] * phis + phi)
            self.values.append(carried[inside])

    def _places(self, keys: pa.Array) -> Ints:
        """Which key each row has, by its number among the brackets."""
        known = len(self.brackets.keys)
        if known == 1:
            return np.zeros(len(keys), dtype=np.int64)
        codes, distinct = encode_keys(pa.concat_arrays([self.brackets.keys, keys]))
        place = np.zeros(len(distinct), dtype=np.int64)  # keys without values have no rows that count
        place[codes[:known]] = np.arange(known)
        return place[codes[known:]]

    def columns(self, name: str) -> dict[str, Any]:
        """The rows of count_schema(), one for each slot with anything to tell; values as 64-bit patterns."""
        slots = np.concatenate([np.empty(0, np.int64), *self.slots])
        values = np.concatenate([np.empty(0, self.brackets.kind.carrier), *self.values])
        order = np.argsort(slots, kind="stable")
        sizes = np.bincount(slots, minlength=self.below.size)
        told = np.flatnonzero((sizes > 0) | (self.below.reshape(-1) > 0) | (self.equal.reshape(-1) > 0))
        offsets = np.concatenate(([0], np.cumsum(sizes[told])))
        lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(_patterns(values[order])))
        return {
            "column": pa.repeat(name, len(told)),
            "slot": told,
            "below": self.below.reshape(-1)[told],
            "equal": self.equal.reshape(-1)[told],
            "between": lists,
        }


def count_rows(rows: Rows, request: Request, brackets: dict[str, Brackets]) -> DataFrame:
    """The second pass: what all tasks counted and kept."""

    def work(tables: Tables) -> Iterator[dict[str, Any]]:
        counters = {name: Counter(bracket) for name, bracket in brackets.items()}
        for table in tables:
            for name, counter in counters.items():
                counter.add(keys_of(table, request.by), table[name])
        for name, counter in counters.items():
            yield counter.columns(name)

    def work_split(split: Split, read: Callable[[Split], Tables]) -> Iterator[dict[str, Any]]:
        name, bracket = next(iter(brackets.items()))
        counter = Counter(bracket)
        left, below = narrow(split, name, bracket, storage)
        counter.below += below
        for table in read(left):
            counter.add(keys_of(table, ()), table[name])
        yield counter.columns(name)

    # Statistics tell nothing about keys, about rows that `where` leaves, or about NaN.
    if isinstance(rows, FileRows) and not request.by and rows.where is None and len(brackets) == 1:
        storage = rows.storage
        if request.nan == "refuse":
            return rows.map_splits(work_split, count_schema())
    return rows.map(work, count_schema())


def settle(found: pa.Table, name: str, bracket: Brackets) -> dict[str, Any]:
    """The exact answers of one column for the slots in a table of count_schema(): slot and value, carried."""
    rows = found.filter(pa.compute.equal(found["column"], name)).combine_chunks()
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
    key, phi = np.divmod(own, phis)
    inner = bracket.targets[key, phi] - below - equal  # which of those between, from 1
    sizes = np.diff(starts)
    place = np.minimum(starts[:-1] + np.maximum(inner, 1) - 1, len(values))
    between = np.append(values, np.zeros(1, values.dtype))[place]  # the zero is for places that are not asked
    answer = np.where(inner <= 0, bracket.low[key, phi], np.where(inner <= sizes, between, bracket.high[key, phi]))
    return {"slot": own, "value": answer}


def narrow(split: Split, name: str, bracket: Brackets, storage: Storage) -> tuple[Split, Ints]:
    """The row groups that overlap a bracket, and how many values of the others are below each."""
    below = np.zeros(bracket.targets.shape[1], dtype=np.int64)
    low, high = bracket.low[0], bracket.high[0]
    left: list[Piece] = []
    for piece in split:
        filesystem, path = storage.locate(piece.file.uri)
        metadata = pq.read_metadata(path, filesystem=filesystem)
        columns = [i for i in range(metadata.num_columns) if metadata.schema.column(i).path == name]
        groups = tuple(range(metadata.num_row_groups)) if piece.groups is None else piece.groups
        undecided = []
        for group in groups:
            stats = metadata.row_group(group).column(columns[0]).statistics if columns else None
            if stats is None or not _decided(stats, low, high):
                undecided.append(group)
            else:
                below += np.where(low > stats.max, stats.num_values, 0)
        if undecided:
            left.append(Piece(piece.file, tuple(undecided), piece.size))
    return tuple(left), below


def _decided(stats: Any, low: NDArray[Any], high: NDArray[Any]) -> bool:
    """Whether all values of a row group are on one side of every bracket, by its statistics."""
    if not stats.has_min_max or not isinstance(stats.min, (int, float)):
        return False
    return bool(((low > stats.max) | (high < stats.min)).all())


def _patterns(values: NDArray[Any]) -> NDArray[np.int64]:
    """Carried values as 64-bit integers, so that one schema serves every type."""
    wide = values.astype(np.float64) if values.dtype.kind == "f" else values
    return wide.view(np.int64)


def _from_patterns(patterns: NDArray[np.int64], kind: ValueType) -> NDArray[Any]:
    if not kind.is_float:
        return patterns
    return patterns.view(np.float64).astype(kind.carrier)
