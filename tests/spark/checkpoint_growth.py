"""Measure how a checkpoint and the ingest log grow with batches whose files are removed after a while:

    python -m tests.spark.checkpoint_growth BATCHES [--unbounded] [--most FILES] [--files FILES]

Each batch is one commit of some small files; those of the last five batches stay. Every fiftieth batch prints the names
and bytes of Spark's checkpoint and of the ingest log, and the median time of a batch since the last line. --unbounded
uses Spark's default settings and begins no new checkpoint.
"""

import argparse
import tempfile
import time
from collections import deque
from pathlib import Path

import numpy as np

from quantide.config import read_config
from quantide.spark import ingest
from quantide.spark.stream import spark_checkpoint
from quantide.spark.stream.running_stream import RunningStream
from quantide.spark.stream.spark_checkpoint import count_files
from tests.spark.streams import Feed

STAY, EVERY = 5, 50
BOUNDS = ("spark.sql.streaming.minBatchesToRetain", "spark.sql.streaming.fileSource.log.cleanupDelay")


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def measure(batches: int, files: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        feed = Feed(Path(place), "step = { rows = 1_000_000 }")
        config = read_config(feed.config)
        with ingest.session_for(config, "local[2]") as session:
            stream = RunningStream(session, config.streams["s"])
            stream.start()
            there: deque[list[Path]] = deque()
            seconds: list[float] = []
            print(f"{'batches':>8}{'checkpoint':>12}{'names':>8}{'bytes':>12}{'log':>10}{'base':>8}{'batch ms':>10}")
            for number in range(1, batches + 1):
                began = time.monotonic()
                there.append([feed.write(f"{number}-{i}.parquet", rows=10) for i in range(files)])
                while stream.ingest_log.rows < 10 * files * number:
                    assert stream.tick() is None
                    assert stream.failure() is None
                    time.sleep(0.01)
                seconds.append(time.monotonic() - began)
                while len(there) > STAY:
                    for path in there.popleft():
                        path.unlink()
                if number % EVERY == 0:
                    folder = feed.store / "_quantide/checkpoints" / stream.source
                    log_size = size(feed.store / "_quantide/sources")
                    measured = (number, stream.source, count_files(str(folder)), size(folder), log_size)
                    print("{:>8}{:>12}{:>8,}{:>12,}{:>10,}".format(*measured), end="")
                    print(f"{stream.ingest_log.base_files:>8,}{1000 * np.median(seconds):>10,.0f}", flush=True)
                    seconds = []
            stream.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("batches", type=int)
    parser.add_argument("--unbounded", action="store_true")
    parser.add_argument("--most", type=int, default=spark_checkpoint.MAX_FILES)
    parser.add_argument("--files", type=int, default=20)
    args = parser.parse_args()
    spark_checkpoint.MAX_FILES = 10**12 if args.unbounded else args.most
    if args.unbounded:
        for name in BOUNDS:
            del ingest.STREAM_CONF[name]
    measure(args.batches, args.files)
