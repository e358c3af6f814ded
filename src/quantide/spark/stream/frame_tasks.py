"""Frame tasks: rows of a large micro-batch, ingested by the Spark tasks that read them.

The rows of a partition cross from the JVM once and become chunks at once; nothing is staged. A repeated task writes
files of the same names.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import suppress

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from quantide.history.appended_rows import PIECE_ROWS
from quantide.spark.row_source import Batches
from quantide.spark.spark_executor import RESULT_SCHEMA, run_tasks
from quantide.spark.spark_session import count_cores
from quantide.spark.stream.batch_task import BatchTask, RowCollector, TaskResult, prepare_worker
from quantide.spark.stream.row_reader import read_rows
from quantide.spark.stream.stream_source import raise_task_errors

MAX_PREPARED = 8  # workers that are prepared for a first batch
READ_ROWS = 1 << 18  # rows that are read at once


def frame_schema(frame: DataFrame) -> pa.Schema:
    """Return the types in which the columns of a frame reach Python."""
    return to_arrow_schema(frame.schema, timezone="UTC")


def prepare_workers(session: SparkSession) -> None:
    """Let workers load what tasks need while a stream starts; whatever fails here fails there, with its reason."""

    def prepare() -> None:
        with suppress(Exception):
            run_tasks(session, min(count_cores(session), MAX_PREPARED), prepare_worker)

    threading.Thread(target=prepare, daemon=True).start()


def run_frame_tasks(task: BatchTask, frame: DataFrame) -> list[TaskResult]:
    """Read, sort and write the rows of a frame, one task for each of its partitions."""

    def run(batches: Batches) -> Batches:
        context = TaskContext.get()
        assert context is not None
        result = collect_rows(task, context.partitionId(), batches)
        yield pa.RecordBatch.from_pydict({"text": [json.dumps(result.to_dict())]})

    with raise_task_errors():
        rows = frame.mapInArrow(run, RESULT_SCHEMA).collect()
    return [TaskResult.from_dict(json.loads(row["text"])) for row in rows]


def collect_rows(task: BatchTask, number: int, batches: Batches) -> TaskResult:
    """Write rows as chunks, as task `number` of a batch."""
    collector = RowCollector(task, number)
    for table in join_batches(batches):
        rows = task.decode(table, collector.result)
        if collector.result.gives_up:
            return collector.result
        collector.add([read_rows(rows, task.rules)], "")
        if collector.rows >= PIECE_ROWS:
            collector.flush()
    collector.flush()
    return collector.result


def join_batches(batches: Batches, rows: int = READ_ROWS) -> Iterator[pa.Table]:
    """Join batches into tables of at least this many rows, but for the last one: each table has a cost of its own."""
    pending: list[pa.RecordBatch] = []
    for batch in batches:
        if len(batch):
            pending.append(batch)
        if sum(map(len, pending)) >= rows:
            yield pa.Table.from_batches(pending)
            pending = []
    if pending:
        yield pa.Table.from_batches(pending)
