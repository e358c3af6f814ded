"""Spark as the executor of a history's merges: `History(path, executor=SparkExecutor(spark))`.

Driver and workers must reach the store under the same path.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from quantide.history.compaction_tasks import CompactionOutput, CompactionTask, compact_range
from quantide.spark.row_source import Batches
from quantide.spark.spark_session import check_workers

RESULT_SCHEMA = StructType([StructField("text", StringType(), False)])


class SparkExecutor:
    """Runs compaction tasks, the same functions as the local executor runs, as one Spark task each."""

    def __init__(self, session: SparkSession) -> None:
        check_workers(session)
        self._session = session

    def map(self, tasks: Sequence[CompactionTask]) -> list[CompactionOutput]:
        def merge(number: int) -> Any:
            return asdict(compact_range(tasks[number]))

        outputs = [CompactionOutput(**output) for output in run_tasks(self._session, len(tasks), merge)]
        return sorted(outputs, key=lambda output: output.part)


def run_tasks(session: SparkSession, count: int, function: Callable[[int], Any]) -> list[Any]:
    """Run function(0) to function(count - 1), one Spark task each; return their results, which travel as JSON."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield pa.RecordBatch.from_pydict({"text": [json.dumps(function(number))]})

    rows = session.range(0, count, 1, count).mapInArrow(run, RESULT_SCHEMA).collect()
    return [json.loads(row["text"]) for row in rows]
