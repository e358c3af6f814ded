"""Child process that ingests a topic with Spark: `python -m bench.kafka_child quantide|spark FOLDER CORES ...`.

More arguments: flags for `quantide`; servers, topic and rows of a batch for `spark`, which decodes the same JSON and
writes Parquet. Both log the time of their batches into FOLDER/log.jsonl.
"""

import sys
import time
from pathlib import Path
from typing import TextIO

from pyspark.sql import functions as F

from bench.ingest_child import run_quantide
from bench.processes import end_with_parent, write_event
from quantide.config import read_config
from quantide.spark.ingest import session_for

SCHEMA = "v DOUBLE, t TIMESTAMP"


def run_spark(folder: Path, log: TextIO, cores: int, servers: str, topic: str, rows: str) -> None:
    """Read the topic, decode it and write Parquet, in the same session settings."""
    begun = time.monotonic()
    with session_for(read_config(folder / "quantide.toml"), f"local[{cores}]") as spark:
        write_event(log, ready=time.monotonic(), seconds=time.monotonic() - begun)
        frame = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
        frame = frame.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", rows)
        decoded = F.from_json(F.col("value").cast("string"), SCHEMA).alias("r")
        writer = frame.load().select(decoded).select("r.*").writeStream.format("parquet")
        writer = writer.option("checkpointLocation", str(folder / "checkpoint")).option("path", str(folder / "out"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        ended = 0.0
        for progress in query.recentProgress:
            seconds = progress.durationMs["triggerExecution"] / 1000
            write_event(log, batch=progress.batchId, begun=ended, ended=ended + seconds, rows=progress.numInputRows)
            ended += seconds


if __name__ == "__main__":
    end_with_parent()
    method, path, number, *given = sys.argv[1:]
    with open(Path(path, "log.jsonl"), "w", encoding="utf-8") as events:
        if method == "quantide":
            run_quantide(Path(path), events, int(number), *given)
        else:
            run_spark(Path(path), events, int(number), *given)
