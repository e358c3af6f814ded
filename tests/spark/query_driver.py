"""Run the same queries on every kind of Spark, in this process or as a driver process:

    python -m tests.spark.query_driver CONNECTION DATA ANSWERS [QUESTION ...]

CONNECTION is a master (local[2], spark://...) or, after "connect:", what Spark Connect is to connect to. DATA is a
folder of Parquet files with the columns v, i, k. Every answer becomes a Parquet file in the folder ANSWERS. There a
file `running` appears as soon as the first task of a question with many tasks is done.
"""

import operator
import sys
import threading
import time
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from quantide.spark import merge_summaries, quantiles, quantiles_of, source_files, summarize

PHIS = [0.001, 0.25, 0.5, 0.99, 1.0]
EPS = 0.01
KEYS = 7
MANY = 3  # tasks

Question = Callable[[SparkSession, str], DataFrame]

QUESTIONS: dict[str, Question] = {
    "summary": lambda spark, path: summarize(path, "v", eps=EPS),
    "summaries of two columns": lambda spark, path: summarize(path, ["v", "i"], by="k", eps=EPS),
    "quantiles": lambda spark, path: quantiles(path, "v", PHIS, eps=EPS),
    "quantiles by key": lambda spark, path: quantiles(path, "v", PHIS, by="k", eps=EPS),
    "exact": lambda spark, path: quantiles(path, "v", PHIS, eps=EPS, exact=True),
    "exact by key": lambda spark, path: quantiles(path, "v", PHIS, by="k", eps=EPS, exact=True),
    "where": lambda spark, path: quantiles(path, "v", PHIS, by="k", eps=EPS, where=pc.field("i") > 0),
    "merged": lambda spark, path: merge_summaries(summarize(path, "v", by="k", eps=EPS)),
    "asked": lambda spark, path: quantiles_of(summarize(path, "v", by="k", eps=EPS), PHIS),
}
# These are cut into tasks by Spark, each time its own way: right within the bound, not the same to the byte.
FRAMES: dict[str, Question] = {
    "frame": lambda spark, path: quantiles(spark.read.parquet(path), "v", PHIS, eps=EPS),
    "frame by key": lambda spark, path: quantiles(spark.read.parquet(path), "v", PHIS, by="k", eps=EPS),
}
EVEN = pc.match_substring_regex(pc.field("t"), "(ab?)*(x|y)[0-9]*even$")
SLOW: dict[str, Question] = {
    "slow": lambda spark, path: quantiles(path, "v", PHIS, by="k", eps=EPS, where=reduce(operator.and_, [EVEN] * 8))
}


def write_lake(folder: Path, files: int, rows: int, text: bool = False) -> pa.Table:
    """Files of almost 8 MiB, so that each is a split of its own on any number of cores; and all their rows."""
    rng = np.random.default_rng(3)
    tables = []
    for number in range(files):
        values = pa.array(rng.normal(size=rows), mask=rng.random(rows) < 0.01)
        columns = {"v": values, "i": rng.integers(-9, 9, rows, dtype=np.int32), "k": rng.integers(0, KEYS, rows)}
        if text:
            texts = pa.array([f"{'ab' * 30}x{i}{'even' if i % 2 == 0 else 'odd'}" for i in range(100)])
            columns["t"] = pa.DictionaryArray.from_arrays(columns["i"] + 9, texts).cast(pa.string())
        tables.append(pa.table(columns))
        pq.write_table(tables[-1], folder / f"part-{number}.parquet", row_group_size=rows // 5)
    return pa.concat_tables(tables)


def connect(connection: str) -> SparkSession:
    how, _, remote = connection.partition("connect:")
    builder = SparkSession.builder.remote(remote) if remote else SparkSession.builder.master(how)
    return builder.appName("quantide-tests").getOrCreate()


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """Return rows sorted: Spark promises no order."""
    order = [(name, "ascending") for name in ("column", "k", "phi") if name in table.column_names]
    return list((table.sort_by(order) if order else table).to_pylist())


def mark_running(spark: SparkSession, sign: Path) -> None:
    tracker = spark.sparkContext.statusTracker()
    while not sign.exists():
        for stage in tracker.getActiveStageIds():
            info = tracker.getStageInfo(stage)
            if info and info.numTasks >= MANY and info.numCompletedTasks > 0:
                sign.touch()
        time.sleep(0.02)


def main(connection: str, data: str, answers: str, *names: str) -> None:
    spark = connect(connection)
    if SLOW.keys() & {*names}:
        source_files.MAX_SPLIT = source_files.MIN_SPLIT  # so that some tasks have ended while others run
    if "connect:" not in connection:
        watch = threading.Thread(target=mark_running, args=(spark, Path(answers, "running")), daemon=True)
        watch.start()
    for name, question in (QUESTIONS | FRAMES | SLOW).items():
        if name in names:
            pq.write_table(question(spark, data).toArrow(), Path(answers, f"{name}.parquet"))
    Path(answers, "running").touch()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
