"""SPARK-47836: what many partitions cost. Each has few rows, so that merging its sketch weighs more than filling it."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.report import Report, Row, say
from benchmarks.spark import local_session
from benchmarks.timing import interleave

FLOOR = "sum(v): what the partitions alone cost"


@dataclass(frozen=True)
class Settings:
    """Few rows: Spark's own merge of a thousand sketches of ten thousand rows takes minutes."""

    rows: int = 2_000_000
    partitions: tuple[int, ...] = (2, 50, 500)
    cores: int = 2
    rounds: int = 2


HOUR = Settings(rows=500_000, rounds=1)
QUICK = Settings(rows=10_000, partitions=(2, 4), rounds=1)


def run(settings: Settings, command: str, folder: Path | None) -> Report:
    return Report.in_parts("partitions", settings, {"rows": _rows}, command, folder)


def _rows(settings: Settings) -> list[Row]:
    """Nanoseconds a row (of wall time) for each number of partitions and each method."""
    with tempfile.TemporaryDirectory(prefix="quantide-bench-") as folder, local_session(settings.cores) as spark:
        return [
            row
            for number in settings.partitions
            for row in _measure(spark, Path(folder) / str(number), settings.rows, number, settings.rounds)
        ]


def _measure(spark: Any, folder: Path, rows: int, partitions: int, rounds: int) -> list[Row]:
    say(f"spark: {rows:,} rows in {partitions:,} partitions")
    _write(folder, rows, partitions)
    methods = _methods(spark, str(folder), rows, partitions)
    for run in methods.values():
        run()
    timed = interleave([(run, rounds) for run in methods.values()])
    return [
        {"partitions": partitions, "method": method, "rows": rows, "ns_a_row": round(one.best * 1e9 / rows, 1)}
        for method, one in zip(methods, timed, strict=True)
    ]


def _methods(spark: Any, path: str, rows: int, partitions: int) -> dict[str, Callable[[], Any]]:
    from pyspark.sql import functions as F

    from quantide.spark import quantiles

    frame = spark.range(0, rows, 1, partitions).selectExpr("cast(xxhash64(id) as double) as v")
    kll = "kll_sketch_get_quantile_double(kll_sketch_agg_double(v, 2600), 0.5)"

    def sql(text: str) -> Callable[[], Any]:
        return lambda: frame.agg(F.expr(text)).toArrow()

    return {
        "quantide, files": lambda: quantiles(path, "v", 0.5, eps=0.001).toArrow(),
        "quantide, DataFrame": lambda: quantiles(frame, "v", 0.5, eps=0.001).toArrow(),
        "kll_sketch_agg_double(v, 2600)": sql(kll),
        "percentile_approx(v, 0.5, 1000)": sql("percentile_approx(v, 0.5, 1000)"),
        "percentile_approx(v, 0.5, 10000), the default": sql("percentile_approx(v, 0.5)"),
        FLOOR: sql("sum(v)"),
    }


def _write(folder: Path, rows: int, files: int) -> None:
    """As many files as there are partitions."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(47836)
    for number in range(files):
        pq.write_table(pa.table({"v": rng.normal(size=rows // files)}), folder / f"{number:06}.parquet")
