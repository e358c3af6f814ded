"""Row sources: files or a DataFrame, whose rows reach the functions of tasks as Arrow tables."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from quantide.spark.source_files import Split, read_split
from quantide.store.location import StorageOptions

Batches = Iterator[pa.RecordBatch]
Tables = Iterator[pa.Table]
TableFunction = Callable[[Tables], Iterator[dict[str, Any]]]
SplitFunction = Callable[[Split, Callable[[Split], Tables]], Iterator[dict[str, Any]]]

TABLE_ROWS = 1 << 20  # rows of a table made of a DataFrame's batches
MESSAGE_ROWS = 1 << 16  # rows of a message from a task: a million keys are several messages


class RowSource(Protocol):
    """Rows that tasks process. `tasks` is 0 if only Spark knows their number."""

    @property
    def tasks(self) -> int: ...

    def map(self, function: TableFunction, schema: StructType) -> DataFrame:
        """Apply a function to the tables of each task."""


@dataclass(frozen=True)
class FileRows:
    """Parquet files that tasks read with pyarrow, one split each: values never cross the JVM."""

    session: SparkSession
    splits: tuple[Split, ...]
    columns: tuple[str, ...]
    schema: pa.Schema
    where: Any
    storage: StorageOptions

    @property
    def tasks(self) -> int:
        return max(1, len(self.splits))

    @property
    def size(self) -> int:
        """Bytes of all files, or of the row groups of their pieces."""
        return sum(piece.size for split in self.splits for piece in split)

    def in_one_task(self) -> "FileRows":
        """Return the same rows as a single split."""
        return replace(self, splits=(tuple(piece for split in self.splits for piece in split),))

    def map(self, function: TableFunction, schema: StructType) -> DataFrame:
        return self.map_splits(lambda split, read: function(read(split)), schema)

    def map_splits(self, function: SplitFunction, schema: StructType) -> DataFrame:
        """As map(), for a function that chooses the pieces of its split to read."""
        splits, columns, types, where, storage = self.splits, self.columns, self.schema, self.where, self.storage

        def read(split: Split) -> Tables:
            return read_split(split, columns, types, where, storage)

        def run(batches: Batches) -> Batches:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    for rows in function(splits[number] if splits else (), read):
                        yield from to_batches(rows)

        return self.session.range(0, self.tasks, 1, self.tasks).mapInArrow(run, schema)


@dataclass(frozen=True)
class FrameRows:
    """A DataFrame, one task for each partition; its rows cross from the JVM to Python."""

    frame: DataFrame
    schema: pa.Schema

    @property
    def tasks(self) -> int:
        return 0

    def map(self, function: TableFunction, schema: StructType) -> DataFrame:
        types = self.schema

        def run(batches: Batches) -> Batches:
            for rows in function(_to_tables(batches, types)):
                yield from to_batches(rows)

        numbered = [F.col(quote_name(name)).alias(f"c{i}") for i, name in enumerate(types.names)]
        return self.frame.select(*numbered).mapInArrow(run, schema)


def _to_tables(batches: Batches, types: pa.Schema) -> Tables:
    """Join the small batches of a DataFrame into tables with the columns of a schema."""

    def table() -> pa.Table:
        named = pa.Table.from_batches(pending).rename_columns(types.names)
        return named if named.schema.types == types.types else named.cast(types)

    pending: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if len(batch):
            pending.append(batch)
            rows += len(batch)
        if rows >= TABLE_ROWS:
            yield table()
            pending, rows = [], 0
    if pending:
        yield table()


def quote_name(name: str) -> str:
    """Return a column's name quoted for Spark SQL, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def to_batches(columns: dict[str, Any]) -> Batches:
    """Yield columns as Arrow batches of moderate size."""
    yield from pa.table(columns).to_batches(max_chunksize=MESSAGE_ROWS)


def concat_batches(batches: Batches) -> pa.Table | None:
    """Return all batches of a partition as one table; None if they have no rows."""
    tables = [pa.Table.from_batches([batch]) for batch in batches if len(batch)]
    return pa.concat_tables(tables) if tables else None
