"""Rows: where a task's tables come from, files or a DataFrame, and how work is handed to the tasks."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from quantide.spark.reading import read_split
from quantide.spark.splits import Split
from quantide.store.storage import Storage

Batches = Iterator[pa.RecordBatch]
Tables = Iterator[pa.Table]
Work = Callable[[Tables], Iterator[dict[str, Any]]]

GATHERED = 1 << 20  # rows of a table made of a DataFrame's batches
CHUNK = 1 << 16  # rows of a message from a task: a million keys are not one


class Rows(Protocol):
    """Rows that tasks can work on. `tasks` is 0 when only Spark knows how many there will be."""

    @property
    def tasks(self) -> int: ...

    def map(self, work: Work, schema: StructType) -> DataFrame:
        """What `work` makes of each task's tables."""


@dataclass(frozen=True)
class FileRows:
    """One task a split, reading Parquet with pyarrow: values never cross the JVM."""

    session: SparkSession
    splits: tuple[Split, ...]
    columns: tuple[str, ...]
    schema: pa.Schema
    where: Any
    storage: Storage

    @property
    def tasks(self) -> int:
        return max(1, len(self.splits))

    def map(self, work: Work, schema: StructType) -> DataFrame:
        return self.map_splits(lambda split, read: work(read(split)), schema)

    def map_splits(
        self, work: Callable[[Split, Callable[[Split], Tables]], Iterator[dict[str, Any]]], schema: StructType
    ) -> DataFrame:
        """As map(), for work that wants to choose what to read of its split."""
        splits, columns, types, where, storage = self.splits, self.columns, self.schema, self.where, self.storage

        def read(split: Split) -> Tables:
            return read_split(split, columns, types, where, storage)

        def run(batches: Batches) -> Batches:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    for found in work(splits[number] if splits else (), read):
                        yield from to_batches(found)

        return self.session.range(0, self.tasks, 1, self.tasks).mapInArrow(run, schema)


@dataclass(frozen=True)
class FrameRows:
    """One task a partition of a DataFrame; here rows cross from the JVM to Python."""

    frame: DataFrame
    schema: pa.Schema

    @property
    def tasks(self) -> int:
        return 0

    def map(self, work: Work, schema: StructType) -> DataFrame:
        types = self.schema

        def run(batches: Batches) -> Batches:
            for found in work(_tables(batches, types)):
                yield from to_batches(found)

        plain = [F.col(quoted(name)).alias(f"c{i}") for i, name in enumerate(types.names)]
        return self.frame.select(*plain).mapInArrow(run, schema)


def _tables(batches: Batches, types: pa.Schema) -> Tables:
    """Batches of a DataFrame as tables of these columns: Spark's batches are small, so many make a table."""

    def table() -> pa.Table:
        named = pa.Table.from_batches(waiting).rename_columns(types.names)
        return named if named.schema.types == types.types else named.cast(types)

    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if len(batch):
            waiting.append(batch)
            rows += len(batch)
        if rows >= GATHERED:
            yield table()
            waiting, rows = [], 0
    if waiting:
        yield table()


def quoted(name: str) -> str:
    """A column's name as Spark reads it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def to_batches(columns: dict[str, Any]) -> Batches:
    """Columns as Arrow batches of moderate size."""
    yield from pa.table(columns).to_batches(max_chunksize=CHUNK)


def gather(batches: Batches) -> pa.Table | None:
    """All batches of a partition as one table; None when there are none."""
    tables = [pa.Table.from_batches([batch]) for batch in batches if len(batch)]
    return pa.concat_tables(tables) if tables else None
