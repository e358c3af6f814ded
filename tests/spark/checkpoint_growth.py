"""How a checkpoint and the ledger grow with batches whose files are removed after a while:

    python -m tests.spark.checkpoint_growth BATCHES [--unbounded] [--most FILES] [--files FILES]

Each batch is one commit of some small files; those of the last five batches stay. Every fiftieth batch prints the names
and bytes that Spark's checkpoint and the ledger have, and the median time of a batch since the last line. --unbounded
leaves Spark's settings as they come and begins no new checkpoint, as before there was one.
"""

import argparse
import tempfile
import time
from collections import deque
from pathlib import Path

import numpy as np

from quantide.config import read_config
from quantide.spark import ingest
from quantide.spark.stream import rollover
from quantide.spark.stream.checkpoint import count_files
from quantide.spark.stream.stream import Stream
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
            stream = Stream(session, config.streams["s"])
            stream.start()
            there: deque[list[Path]] = deque()
            took: list[float] = []
            print(f"{'batches':>8}{'checkpoint':>12}{'names':>8}{'bytes':>12}{'ledger':>10}{'base':>8}{'batch ms':>10}")
            for number in range(1, batches + 1):
                began = time.monotonic()
                there.append([feed.write(f"{number}-{i}.parquet", rows=10) for i in range(files)])
                while stream.ledger.rows < 10 * files * number:
                    assert stream.tick() is None
                    assert stream.problem() is None
                    time.sleep(0.01)
                took.append(time.monotonic() - began)
                while len(there) > STAY:
                    for path in there.popleft():
                        path.unlink()
                if number % EVERY == 0:
                    folder = feed.store / "_quantide/checkpoints" / stream.source
                    ledger = size(feed.store / "_quantide/sources")
                    told = (number, stream.source, count_files(str(folder)), size(folder), ledger)
                    print("{:>8}{:>12}{:>8,}{:>12,}{:>10,}".format(*told), end="")
                    print(f"{stream.ledger.base_files:>8,}{1000 * np.median(took):>10,.0f}", flush=True)
                    took = []
            stream.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("batches", type=int)
    parser.add_argument("--unbounded", action="store_true")
    parser.add_argument("--most", type=int, default=rollover.MOST_FILES)
    parser.add_argument("--files", type=int, default=20)
    args = parser.parse_args()
    rollover.MOST_FILES = 10**12 if args.unbounded else args.most
    if args.unbounded:
        for name in BOUNDS:
            del ingest.OF_STREAMS[name]
    measure(args.batches, args.files)
