"""Merges of a history as Spark tasks: `History(path, executor=SparkExecutor(spark))`.

The store must lie where driver and workers see it under the same path.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from quantide.history.tasks import MergeTask, Written, merge_range
from quantide.spark.rows import Batches
from quantide.spark.session import check_workers

TEXT = StructType([StructField("text", StringType(), False)])


class SparkExecutor:
    """Runs the same task functions as the local one, one Spark task each."""

    def __init__(self, session: SparkSession) -> None:
        check_workers(session)
        self._session = session

    def map(self, tasks: Sequence[MergeTask]) -> list[Written]:
        texts = [json.dumps(task.to_dict()) for task in tasks]

        def run(batches: Batches) -> Batches:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    written = merge_range(MergeTask.from_dict(json.loads(texts[number])))
                    yield pa.RecordBatch.from_pydict({"text": [json.dumps(asdict(written))]})

        frame = self._session.range(0, len(texts), 1, len(texts)).mapInArrow(run, TEXT)
        found = [Written(**json.loads(row["text"])) for row in frame.collect()]
        return sorted(found, key=lambda written: written.part)
