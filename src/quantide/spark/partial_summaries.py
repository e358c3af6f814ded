"""Partial summaries: made by tasks, shuffled as rows of a DataFrame, merged as a tree.

A task summarises its tables by column and key. Only these summaries are shuffled: a row of the DataFrame holds some
thousands of keys of one task, because a row for each key would make Spark sort and move millions of rows. A hash of
the key chooses the bucket of a row, so that one task merges all partial summaries of a key.

Merging adds no error, and the tail of merged summaries is at most the largest of theirs. Whatever drops tuples has a
share of eps and one of the tail, and the shares of all of them add up to at most 1 (docs/spark.md).
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from quantide.errors import TypeMismatchError
from quantide.sketches.stream_sketch import StreamSketch
from quantide.spark.row_source import Batches, RowSource, Tables, concat_batches, to_batches
from quantide.summary.key_encoding import encode_keys
from quantide.summary.summaries import Summaries

FAN_IN = 8  # Summaries of one level that are merged into one of the next
LEVELS = 4  # enough for 8^4 tables of a million rows in one task
GROUP_ROWS = 1 << 22  # rows that are grouped together; a task with keys needs some ten times their size as memory
# Shares of eps and of the tail: of a task (its sketches; or its groups and levels), and of each merge after it.
TASK_SHARE, GROUP_SHARE, LEVEL_SHARE, MERGE_SHARE = 1 / 2, 1 / 4, 1 / 16, 1 / 4
GROUP_TAIL_SHARE = 1 / 2  # groups and levels may have 3/4 of the tail: summaries with keys are merged once
ALL_KEY = "all"  # the key of a summary without keys
MAX_ROW_KEYS = 1 << 17  # keys of a row: the JVM holds a row as one array of bytes, which is limited to 2 GB
MAX_SINGLE_MERGE = 64  # tasks without keys whose partial summaries one task merges
PARTIAL_SCHEMA = StructType(
    [
        StructField("bucket", IntegerType(), False),
        StructField("column", StringType(), False),
        StructField("part", BinaryType(), False),
    ]
)
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
SHIFT = np.uint64(32)

ToRows = Callable[[str, Summaries], Iterable[dict[str, Any]]]  # result rows of the merged summaries of a column


@dataclass(frozen=True)
class SummaryRequest:
    """Columns that every task summarises, the keys to group by, and the promised error and tail."""

    columns: tuple[str, ...]
    types: tuple[str, ...]  # names of the columns' value types
    by: tuple[str, ...]
    eps: float
    nan: str
    tail: float | None = None
    weights: str | None = None  # the column of weights

    def tail_share(self, share: float) -> float | None:
        return None if self.tail is None else share * self.tail

    def weights_of(self, table: pa.Table) -> Any:
        """Return the weights of a table's rows; None if all count once."""
        return None if self.weights is None else table[self.weights]


# In a task


def summarise_tables(tables: Iterable[pa.Table], request: SummaryRequest) -> Iterator[tuple[str, Summaries]]:
    """Yield Summaries of each column; several of a column may share keys.

    Their certified error is within TASK_SHARE of eps, their certified tail within 1/2 (with keys 3/4) of the tail.
    """
    return _summarise_by_key(tables, request) if request.by else _summarise_all(tables, request)


def _summarise_all(tables: Iterable[pa.Table], request: SummaryRequest) -> Iterator[tuple[str, Summaries]]:
    eps, tail = TASK_SHARE * request.eps, request.tail_share(TASK_SHARE)
    sketches = {
        name: StreamSketch(eps, request.nan, kind, tail)
        for name, kind in zip(request.columns, request.types, strict=True)
    }
    for table in tables:
        for name, sketch in sketches.items():
            sketch.update(table[name], weights=request.weights_of(table))
    for name, sketch in sketches.items():
        yield name, Summaries.from_binary(pa.array([ALL_KEY]), [sketch.summary().to_bytes()])


def _summarise_by_key(tables: Iterable[pa.Table], request: SummaryRequest) -> Iterator[tuple[str, Summaries]]:
    eps, tail = GROUP_SHARE * request.eps, request.tail_share(GROUP_TAIL_SHARE)
    level_eps, level_tail = LEVEL_SHARE * request.eps, request.tail_share(LEVEL_SHARE)
    levels = {name: PartialLevels(level_eps, level_tail) for name in request.columns}
    for table in _join_tables(tables):
        keys = row_keys(table, request.by)
        for name in request.columns:
            summaries = Summaries.of(keys, table[name], eps, request.nan, tail, request.weights_of(table))
            if 2 * len(summaries.rmin) > len(table):  # so many keys that a merge would not make it smaller
                yield name, summaries
            else:
                levels[name].add(summaries)
    for name, of_column in levels.items():
        for level in of_column.levels:
            yield from ((name, summaries) for summaries in level)


def _join_tables(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield tables of about GROUP_ROWS rows."""
    pending: list[pa.Table] = []
    rows = 0
    for table in tables:
        pending.append(table)
        rows += len(table)
        if rows >= GROUP_ROWS:
            yield pa.concat_tables(pending)
            pending, rows = [], 0
    if pending:
        yield pa.concat_tables(pending)


class PartialLevels:
    """Levels of Summaries, merged FAN_IN at a time; a merge adds at most `eps` to the error and `tail` to the tail."""

    def __init__(self, eps: float, tail: float | None) -> None:
        self.width, self.tail = -int(-1 // (2 * eps)), tail
        self.levels: list[list[Summaries]] = [[]]

    def add(self, summaries: Summaries) -> None:
        level = 0
        self.levels[0].append(summaries)
        while len(self.levels[level]) >= FAN_IN and level < LEVELS:
            merged = Summaries.merge(*self.levels[level]).compress(self.width, self.tail)
            self.levels[level] = []
            level += 1
            if level == len(self.levels):
                self.levels.append([])
            self.levels[level].append(merged)


def row_keys(table: pa.Table, by: Sequence[str]) -> Any:
    """Return the keys of a table's rows in the form that Summaries takes."""
    if not by:
        return pa.repeat(ALL_KEY, len(table))
    if len(by) == 1:
        return table[by[0]]
    return table.select(list(by)).rename_columns([f"key{i}" for i in range(len(by))])


def split_keys(keys: pa.Array, by: Sequence[str]) -> list[pa.Array]:
    """Return the keys of Summaries as one array for each column of `by`."""
    return [keys.field(i) for i in range(len(by))] if len(by) > 1 else [keys] * len(by)


# As rows


def to_partial_rows(column: str, summaries: Summaries, buckets: int) -> Iterator[dict[str, Any]]:
    """Yield rows of PARTIAL_SCHEMA with these summaries, each key in its bucket."""
    bucket = assign_buckets(summaries.keys, buckets)
    order = np.argsort(bucket, kind="stable")
    ends = np.searchsorted(bucket[order], np.arange(buckets + 1))
    for number in range(buckets):
        for start in range(ends[number], ends[number + 1], MAX_ROW_KEYS):
            part = summaries.take(order[start : min(start + MAX_ROW_KEYS, ends[number + 1])])
            yield {"bucket": pa.array([number], pa.int32()), "column": [column], "part": [_to_bytes(part)]}


def from_partial_rows(rows: pa.Table, column: str) -> list[Summaries]:
    """Read the summaries of a column from rows of PARTIAL_SCHEMA, sorted by their bytes: Spark keeps no order."""
    parts = rows.filter(pc.equal(rows["column"], column))["part"].to_pylist()
    return [Summaries.from_arrow(pa.ipc.open_stream(part).read_all()) for part in sorted(parts)]


def assign_buckets(keys: pa.Array, buckets: int) -> NDArray[np.int64]:
    """Return a number below `buckets` for each key, the same in every process."""
    return ((_hash_keys(keys) >> SHIFT) % np.uint64(buckets)).astype(np.int64)


def _hash_keys(keys: pa.Array) -> NDArray[np.uint64]:
    """Hash each key by its value alone: the hash of a key must not depend on others, such as a null."""
    if pa.types.is_struct(keys.type):
        mixed = np.zeros(len(keys), dtype=np.uint64)
        for i in range(keys.type.num_fields):
            mixed = mixed * MULTIPLIER + _hash_keys(keys.field(i))
        return mixed
    if pa.types.is_integer(keys.type):
        numbers: NDArray[np.uint64] = keys.fill_null(0).to_numpy().astype(np.uint64)
        return numbers * MULTIPLIER
    objects = keys.to_numpy(zero_copy_only=False).astype(object)
    hashes: NDArray[np.uint64] = pd.util.hash_array(objects, categorize=False)
    return hashes


def _to_bytes(summaries: Summaries) -> bytes:
    table, sink = summaries.to_arrow(), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


# Merged as a tree


def bucket_count(tasks: int, cores: int) -> int:
    """Choose the number of buckets; `tasks` is 0 if only Spark knows their number."""
    return min(tasks or 4 * cores, max(4 * cores, 4 * math.isqrt(tasks)))


def summarise_source(rows: RowSource, request: SummaryRequest, buckets: int) -> DataFrame:
    """Return the partial summaries of all tasks, as rows of PARTIAL_SCHEMA."""

    def summarise(tables: Tables) -> Iterator[dict[str, Any]]:
        for name, summaries in summarise_tables(tables, request):
            yield from to_partial_rows(name, summaries, buckets)

    return rows.map(summarise, PARTIAL_SCHEMA)


def summarise_in_one_task(rows: RowSource, request: SummaryRequest, to_rows: ToRows, schema: StructType) -> DataFrame:
    """Return the rows that `to_rows` makes of the summaries of a source that has one task."""

    def summarise(tables: Tables) -> Iterator[dict[str, Any]]:
        for name, summaries in summarise_tables(tables, request):
            yield from to_rows(name, compress_within(summaries, request))

    return rows.map(summarise, schema)


def merge_partials(
    partials: DataFrame, tasks: int, buckets: int, request: SummaryRequest, to_rows: ToRows, schema: StructType
) -> DataFrame:
    """Merge the partial summaries of each column and key, and return the rows that `to_rows` makes of them.

    With keys, one task merges a bucket. Without, as many tasks as the square root of the number of partial summaries
    merge first, and then one task.
    """
    if request.by:
        return partials.repartitionById(buckets, partials["bucket"]).mapInArrow(_merger(request, to_rows), schema)
    if tasks == 0 or tasks > MAX_SINGLE_MERGE:
        width = math.ceil(math.sqrt(tasks)) if tasks else int(math.sqrt(MAX_SINGLE_MERGE))
        partials = partials.repartition(width).mapInArrow(_merger(request, None), PARTIAL_SCHEMA)
    return partials.repartition(1).mapInArrow(_merger(request, to_rows), schema)


def _merger(request: SummaryRequest, to_rows: ToRows | None) -> Callable[[Batches], Batches]:
    """Return the function of a merging task; without `to_rows` it makes partial summaries again."""

    def merge(batches: Batches) -> Batches:
        table = concat_batches(batches)
        if table is None and (request.by or to_rows is None):
            return
        empty = dict(summarise_tables([], request)) if table is None else {}  # without rows, an answer with n = 0
        for name in request.columns:
            parts = [empty[name]] if table is None else from_partial_rows(table, name)
            for merged in merge_by_type(parts):
                small = compress_within(merged, request)
                for rows in to_rows(name, small) if to_rows else to_partial_rows(name, small, 1):
                    yield from to_batches(rows)

    return merge


def merge_by_type(parts: Sequence[Summaries]) -> list[Summaries]:
    """Merge parts whose values have one or several types, as those of several columns; a key has one type.

    Summaries without values fit any type.
    """
    by_type: dict[str, list[Summaries]] = {}
    for part in parts:
        by_type.setdefault(part.type.name, []).append(part)
    merged = [Summaries.merge(*by_type[name]) for name in sorted(by_type)]
    if len(merged) < 2:
        return merged
    filled = [summaries.with_values() for summaries in merged]
    empty = Summaries.merge(*(summaries.without_values() for summaries in merged))
    codes, distinct = encode_keys(pa.concat_arrays([summaries.keys for summaries in (*filled, empty)]))
    *own, of_empty = np.split(codes, np.cumsum([len(summaries) for summaries in filled]))
    counts = np.bincount(np.concatenate(own), minlength=len(distinct))
    if (counts > 1).any():
        raise TypeMismatchError(
            f"summaries of the key {distinct[int(counts.argmax())].as_py()!r} have values of different types, "
            f"{' and '.join(sorted(by_type))}; add the column that tells them apart to by="
        )
    joined = [
        Summaries.merge(summaries, empty.take(np.flatnonzero(np.isin(of_empty, keys))))
        for summaries, keys in zip(filled, own, strict=True)
    ]
    return [one for one in (*joined, empty.take(np.flatnonzero(counts[of_empty] == 0))) if len(one)]


def compress_within(summaries: Summaries, request: SummaryRequest) -> Summaries:
    """Drop as many tuples as adding MERGE_SHARE to error and tail allows; none of a key that would exceed the promise.

    A key whose summaries were made without a tail has no promise about it. With an eps of 0 nothing is dropped.
    """
    if request.eps == 0 or not len(summaries):
        return summaries
    small = summaries.compress(-int(-1 // (2 * MERGE_SHARE * request.eps)), request.tail_share(MERGE_SHARE))
    within = small.error <= request.eps
    if request.tail is not None:
        within &= np.isnan(summaries.tail) | (small.tail <= request.tail)
    if within.all():
        return small
    return Summaries.merge(small.take(np.flatnonzero(within)), summaries.take(np.flatnonzero(~within)))
