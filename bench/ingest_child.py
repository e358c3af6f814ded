"""Child process that ingests files with Spark and logs each batch: `python -m bench.ingest_child quantide|spark ...`.

Times are of the monotonic clock, which all processes of a machine share. `quantide CONFIG LOG` runs as
`quantide ingest` does; `spark FOLDER LOG` computes percentile_approx of each batch of FOLDER/in and writes Parquet.
"""

import argparse
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

    def stop(self) -> None:
        found = [] if self.query is None else [dict(one.durationMs) for one in self.query.recentProgress if one]
        write_event(self.log, progress=found)
        super().stop()


def run_quantide(path: str, log: TextIO, options: argparse.Namespace) -> None:
    config, begun, master = read_config(path), time.monotonic(), f"local[{options.cores}]"
    if options.no_window:  # no configuration says so; it shows the cost of recent rows
        none: dict[str, Any] = {"window": 0}
        config = replace(config, streams={name: replace(one, **none) for name, one in config.streams.items()})
    LoggedStream.log = log
    with session_for(config, master), patch("quantide.spark.ingest.RunningStream", LoggedStream):
        write_event(log, ready=time.monotonic(), seconds=time.monotonic() - begun)
        ingest(config, sys.stdout, master, once=options.once)


def run_spark(path: str, log: TextIO, options: argparse.Namespace) -> None:
    folder, begun = Path(path), time.monotonic()
    with spark_session(options.cores) as spark:
        write_event(log, ready=time.monotonic(), seconds=time.monotonic() - begun)

        def take(frame: DataFrame, number: int) -> None:
            started = time.monotonic()
            frame.select(F.percentile_approx("v", [0.5, 0.99], 1000)).collect()
            frame.write.mode("append").parquet(str(folder / "out"))
            write_event(log, batch=number, begun=started, ended=time.monotonic())

        files = (
            spark.readStream.schema("v DOUBLE, t TIMESTAMP").option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
        )
        writing = files.writeStream.foreachBatch(take).option("checkpointLocation", str(folder / "checkpoint"))
        writing.trigger(availableNow=True).start().awaitTermination()


def main() -> None:
    end_with_parent()
    parser = argparse.ArgumentParser(prog="python -m bench.ingest_child")
    for name in ("method", "given", "log"):
        parser.add_argument(name)
    parser.add_argument("--cores", type=int, default=2)
    for flag in ("--once", "--no-window"):
        parser.add_argument(flag, action="store_true")
    options = parser.parse_args()
    with open(options.log, "w", encoding="utf-8") as log:
        {"quantide": run_quantide, "spark": run_spark}[options.method](options.given, log, options)


if __name__ == "__main__":
    main()
