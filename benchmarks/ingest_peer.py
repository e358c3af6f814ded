"""Plain Spark in a process of its own: the same files as a stream, percentile_approx of each batch, Parquet written.

`python -m benchmarks.ingest_peer FOLDER LOG --cores N`: FOLDER/in is read, FOLDER/out written; tells as ingest_driver.
"""

import argparse
import time
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.ingest_driver import end_with_parent, tell
from benchmarks.spark import local_session

SCHEMA = "v DOUBLE, t TIMESTAMP"


def main() -> None:
    end_with_parent()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ingest_peer")
    parser.add_argument("folder", type=Path)
    parser.add_argument("log")
    parser.add_argument("--cores", type=int, default=2)
    options = parser.parse_args()
    folder: Path = options.folder
    begun = time.monotonic()
    with open(options.log, "w", encoding="utf-8") as log, local_session(options.cores) as spark:
        tell(log, ready=time.monotonic(), seconds=time.monotonic() - begun)

        def take(frame: DataFrame, number: int) -> None:
            started = time.monotonic()
            frame.select(F.percentile_approx("v", [0.5, 0.99], 1000)).collect()
            frame.write.mode("append").parquet(str(folder / "out"))
            tell(log, batch=number, begun=started, ended=time.monotonic())

        files = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
        writing = files.writeStream.foreachBatch(take).option("checkpointLocation", str(folder / "checkpoint"))
        query = writing.trigger(availableNow=True).start()
        query.awaitTermination()
        tell(log, progress=[dict(one.durationMs) for one in query.recentProgress if one])
        tell(log, done=time.monotonic())


if __name__ == "__main__":
    main()
