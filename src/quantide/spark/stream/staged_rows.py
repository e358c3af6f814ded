"""Staged rows: rows that only Spark can read or compute, written to files of the store, which batch tasks then read.

Python tasks write them through the storage, so Spark needs no library for it, and workers need no common folder. A
repeated task writes files of other names; only those of the attempt that succeeded are read, and all are removed after
the batch. A file is one request to an object store, and is never cut.
"""

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from quantide.spark.row_source import Batches
from quantide.spark.source_files import MIN_SPLIT, SourceDataFile, open_file, spark_types
from quantide.spark.spark_executor import RESULT_SCHEMA
from quantide.spark.stream.row_origin import BLOCK, SOURCE_FILE, count_blocks
from quantide.spark.stream.stream_source import raise_task_errors
from quantide.store.file_names import STAGING
from quantide.store.ingest_log import source_of
from quantide.store.storage import Sink, Storage

SIGNED = {  # types of unsigned numbers in Spark
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20),
}


@dataclass(frozen=True)
class StagedRows:
    """Files with the rows of a batch, and the row counts of the blocks of text files that they come from."""

    files: tuple[SourceDataFile, ...] = ()
    blocks: list[dict[str, Any]] = field(default_factory=list)


def stage_rows(frame: DataFrame, storage: Storage, batch: str, file_size: int = MIN_SPLIT) -> StagedRows:
    """Write the rows of a frame to files of about `file_size` bytes, in one Spark task for each partition."""

    def write(batches: Batches) -> Batches:
        for tables in _cut_batches(batches, file_size):
            yield pa.RecordBatch.from_pydict({"text": [json.dumps(_write_file(storage, batch, tables))]})

    with raise_task_errors():
        rows = frame.mapInArrow(write, RESULT_SCHEMA).collect()
    results = [json.loads(row["text"]) for row in rows]
    files = sorted((SourceDataFile(result["name"], result["size"]) for result in results), key=lambda file: file.uri)
    return StagedRows(tuple(files), _sum_blocks([block for result in results for block in result["blocks"]]))


def remove_staged(storage: Storage, source: str | None = None) -> None:
    """Remove the staged files of all batches of a source, or of all sources, also those of failed tasks."""
    for file in storage.list_files(STAGING):
        if source is None or source_of(file.name) == source:
            storage.remove(file.name)
    storage.remove_remains(STAGING)


def clear_staging(storage: Storage) -> None:
    """Remove the staged files of a process that was killed; earlier versions had folders of them."""
    shutil.rmtree(storage.local_folder(STAGING), ignore_errors=True)
    remove_staged(storage)


def read_stored_files(session: SparkSession, storage: Storage, names: Sequence[str]) -> list[DataFrame]:
    """Return frames with the rows of Parquet files of a store, which Python tasks read; one for each schema."""
    by_schema: dict[pa.Schema, list[str]] = {}
    for name in names:
        with open_file(storage, name) as file:
            by_schema.setdefault(pq.read_schema(file).remove_metadata(), []).append(name)
    return [_read_alike(session, storage, alike, schema) for schema, alike in by_schema.items()]


def _read_alike(session: SparkSession, storage: Storage, names: list[str], schema: pa.Schema) -> DataFrame:
    types = pa.schema([column.with_type(_spark_type(column.type)) for column in spark_types(schema)])

    def read(batches: Batches) -> Batches:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                with open_file(storage, names[number]) as file:
                    yield from pq.read_table(file).cast(types).to_batches()

    columns = from_arrow_schema(types, prefer_timestamp_ntz=True)
    return session.range(0, len(names), 1, len(names)).mapInArrow(read, columns)


def _spark_type(kind: pa.DataType) -> pa.DataType:
    """Return the Arrow type of the type by which Spark reads a column of a Parquet file."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    return SIGNED.get(kind, kind)


def _cut_batches(batches: Batches, target: int) -> Iterator[list[pa.RecordBatch]]:
    """Yield batches in groups of about `target` bytes."""
    pending: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if len(batch):
            pending.append(batch)
            size += batch.nbytes
        if size >= target:
            yield pending
            pending, size = [], 0
    if pending:
        yield pending


def _write_file(storage: Storage, batch: str, batches: list[pa.RecordBatch]) -> dict[str, Any]:
    """Write a file; return its name, its size and the row counts of its blocks."""
    name, table = f"{STAGING}/{batch}-{uuid4().hex}.parquet", pa.Table.from_batches(batches)

    def fill(sink: Sink) -> None:
        pq.write_table(table, pa.PythonFile(sink, "w"))

    size, _ = storage.write(name, fill, checked=False)
    blocks = count_blocks(table, SOURCE_FILE) if BLOCK in table.column_names else []
    return {"name": name, "size": size, "blocks": blocks}


def _sum_blocks(counted: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sum the row counts of blocks whose rows are in several files."""
    blocks: dict[tuple[str, int], dict[str, Any]] = {}
    for block in counted:
        total = blocks.setdefault((block["path"], block["block"]), {**block, "rows": 0})
        total["first"], total["rows"] = min(total["first"], block["first"]), total["rows"] + block["rows"]
    return list(blocks.values())
