"""A process of its own that takes in a stream as `quantide ingest` does, and tells what each batch took.

`python -m benchmarks.ingest_driver CONFIG LOG [--once] [--cores N] [--no-window]`: a line of JSON for each event, with
times of the monotonic clock, which all processes of a machine share.
"""

import argparse
import json
import os
import sys
import threading
import time
from dataclasses import replace
from typing import Any, TextIO
from unittest.mock import patch

from pyspark.sql import DataFrame

from quantide.config import Config, read_config
from quantide.spark.ingest import ingest, session_for
from quantide.spark.stream.stream import Stream


class Told(Stream):
    """A stream that tells of its batches."""

    log: TextIO

    def _take(self, frame: DataFrame, number: int) -> None:
        begun, before = time.monotonic(), self.status.rows
        super()._take(frame, number)
        tell(self.log, batch=number, begun=begun, ended=time.monotonic(), rows=self.status.rows - before)

    def stop(self) -> None:
        found = [] if self.query is None else [dict(one.durationMs) for one in self.query.recentProgress if one]
        tell(self.log, progress=found)
        super().stop()


def tell(log: TextIO, **event: Any) -> None:
    log.write(json.dumps(event) + "\n")
    log.flush()


def end_with_parent() -> None:
    """A benchmark that was killed leaves no driver behind."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    end_with_parent()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ingest_driver")
    parser.add_argument("config")
    parser.add_argument("log")
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--no-window", action="store_true")
    options = parser.parse_args()
    config, master = read_config(options.config), f"local[{options.cores}]"
    if options.no_window:
        config = without_window(config)
    with open(options.log, "w", encoding="utf-8") as log:
        Told.log = log
        begun = time.monotonic()
        with session_for(config, master), patch("quantide.spark.ingest.Stream", Told):
            tell(log, ready=time.monotonic(), seconds=time.monotonic() - begun)
            ingest(config, sys.stdout, master, once=options.once)
            tell(log, done=time.monotonic())


def without_window(config: Config) -> Config:
    """Streams whose stores keep no recent rows. No configuration says so; it shows what they cost."""
    none: dict[str, Any] = {"window": 0}
    return replace(config, streams={name: replace(one, **none) for name, one in config.streams.items()})


if __name__ == "__main__":
    main()
