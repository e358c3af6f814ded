"""Child process that ingests FOLDER/in with Spark: `python -m bench.ingest_child quantide|spark FOLDER CORES`.

It logs its batches into FOLDER/log.jsonl. `spark` computes percentile_approx of each batch and writes Parquet.
"""

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO
from unittest.mock import patch

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from bench.processes import end_with_parent, spark_session, write_event
from quantide.config import read_config
from quantide.spark.ingest import ingest, session_for
from quantide.spark.stream.running_stream import RunningStream


class LoggedStream(RunningStream):
    """A stream that logs its batches."""

    log: TextIO

    def _process_batch(self, frame: DataFrame, number: int) -> None:
        begun, before = time.monotonic(), self.status.rows
        super()._process_batch(frame, number)
        write_event(self.log, batch=number, begun=begun, ended=time.monotonic(), rows=self.status.rows - before)


def run_quantide(folder: Path, log: TextIO, cores: int, *flags: str) -> None:
    config, begun, master = read_config(folder / "quantide.toml"), time.monotonic(), f"local[{cores}]"
    if "--no-window" in flags:  # no configuration omits recent rows; this shows their cost
        none: dict[str, Any] = {"window": 0}
        config = replace(config, streams={name: replace(one, **none) for name, one in config.streams.items()})
    LoggedStream.log = log
    with session_for(config, master), patch("quantide.spark.ingest.RunningStream", LoggedStream):
        write_event(log, ready=time.monotonic(), seconds=time.monotonic() - begun)
        ingest(config, sys.stdout, master, once="--once" in flags)


def run_spark(folder: Path, log: TextIO, cores: int, *flags: str) -> None:
    begun = time.monotonic()
    with spark_session(cores) as spark:
        write_event(log, ready=time.monotonic(), seconds=time.monotonic() - begun)

        def take(frame: DataFrame, number: int) -> None:
            started = time.monotonic()
            frame.select(F.percentile_approx("v", [0.5, 0.99], 1000)).collect()
            frame.write.mode("append").parquet(str(folder / "out"))
            write_event(log, batch=number, begun=started, ended=time.monotonic())

        reader = spark.readStream.schema("v DOUBLE, t TIMESTAMP").option("maxFilesPerTrigger", 1)
        writer = reader.parquet(str(folder / "in")).writeStream.foreachBatch(take)
        writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    end_with_parent()
    method, path, number, *given = sys.argv[1:]
    with open(Path(path, "log.jsonl"), "w", encoding="utf-8") as events:
        {"quantide": run_quantide, "spark": run_spark}[method](Path(path), events, int(number), *given)
