"""Percentiles of a lake: quantide.spark beside what Spark has built in, on the same files, in one run."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.report import Report, Row, say
from benchmarks.timing import interleave

PHIS = (0.5, 0.99)
OURS = "quantide"


@dataclass(frozen=True)
class Settings:
    """`exact_rows` for the exact methods, of which Spark's own keep every distinct value; `tpch` is a scale factor."""

    rows: int = 100_000_000
    files: int = 8
    keys: tuple[int, ...] = (1_000, 1_000_000)
    exact_rows: int = 10_000_000
    cores: int = 2
    rounds: int = 3
    other_rounds: int = 1
    group: int = 1 << 20
    tpch: float = 10


HOUR = Settings(rows=20_000_000, exact_rows=2_000_000, rounds=2, tpch=1)
QUICK = Settings(
    rows=40_000,
    files=2,
    keys=(10, 1_000),
    exact_rows=20_000,
    rounds=1,
    group=10_000,
    tpch=0,
)


@dataclass(frozen=True)
class Job:
    """A question and how to ask it; the first job of a question is ours."""

    question: str
    method: str
    run: Callable[[], Any]
    rows: int


def run(settings: Settings, command: str, folder: Path | None) -> Report:
    return Report.in_parts("spark", settings, {"rows": _rows}, command, folder)


def _rows(settings: Settings) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="quantide-bench-") as folder, local_session(settings.cores) as spark:
        say(f"spark: writing {settings.rows:,} rows of Parquet")
        lake, small = Path(folder) / "lake", Path(folder) / "small"
        write_lake(lake, settings.rows, settings)
        write_lake(small, settings.exact_rows, settings)
        questions = chain(_questions(spark, str(lake), str(small), settings), _tpch(spark, Path(folder), settings))
        return [row for jobs in questions for row in _measure(jobs, settings)]


@contextmanager
def local_session(cores: int) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "8g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


def write_lake(folder: Path, rows: int, settings: Settings) -> None:
    """Random float64 and, for each number of keys, a column that tells each row's key."""
    folder.mkdir()
    rng = np.random.default_rng(1)
    for part in range(settings.files):
        n = rows // settings.files
        columns = {"v": rng.normal(size=n)} | {f"k{keys}": rng.integers(0, keys, n) for keys in settings.keys}
        pq.write_table(pa.table(columns), folder / f"{part}.parquet", row_group_size=settings.group)


def _questions(spark: Any, lake: str, small: str, settings: Settings) -> Iterator[list[Job]]:
    from quantide.spark import quantiles

    frame, phis = spark.read.parquet(lake), list(PHIS)
    listed = f"array({', '.join(map(str, PHIS))})"

    def sql(text: str, *by: str) -> Callable[[], Any]:
        return lambda: (frame.groupBy(*by).agg(_expr(text)) if by else frame.agg(_expr(text))).toArrow()

    def job(question: str, method: str, work: Callable[[], Any], rows: int = settings.rows) -> Job:
        return Job(question, method, work, rows)

    whole = "two quantiles, eps 0.001"
    yield [
        job(whole, f"{OURS}, files", lambda: quantiles(lake, "v", phis, eps=0.001).toArrow()),
        job(whole, "kll_sketch_agg_double(v, 2600)", sql(_kll())),
        job(whole, "percentile_approx(v, ..., 1000)", sql(f"percentile_approx(v, {listed}, 1000)")),
        job(whole, f"{OURS}, DataFrame", lambda: quantiles(frame, "v", phis, eps=0.001).toArrow()),
    ]
    for keys in settings.keys:
        question, by = f"two quantiles by {keys:,} keys, eps 0.01", f"k{keys}"
        yield [
            job(question, f"{OURS}, files", _ours(quantiles, lake, phis, by)),
            job(question, "percentile_approx(v, ..., 100)", sql(f"percentile_approx(v, {listed}, 100)", by)),
        ]
    exact, few = "two exact quantiles", spark.read.parquet(small)
    yield [
        job(exact, f"{OURS}, files", lambda: quantiles(small, "v", phis, exact=True).toArrow(), settings.exact_rows),
        job(
            exact,
            "percentile(v, ...)",
            lambda: few.agg(_expr(f"percentile(v, {listed})")).toArrow(),
            settings.exact_rows,
        ),
        job(
            exact,
            "a full sort",
            lambda: few.select("v").orderBy("v").write.format("noop").mode("overwrite").save(),
            settings.exact_rows,
        ),
    ]


def _tpch(spark: Any, folder: Path, settings: Settings) -> Iterator[list[Job]]:
    """Prices by the mode of shipping, in TPC-H's lineitem: decimals, seven string keys, sixteen columns."""
    generator = Path(sys.executable).with_name("tpchgen-cli")
    if not settings.tpch:
        return
    if not generator.exists():
        say("spark: tpchgen-cli is not installed (pip install 'quantide[bench]'): TPC-H is left out")
        return
    from quantide.spark import quantiles

    say(f"spark: generating TPC-H's lineitem at scale factor {settings.tpch:g}")
    target = folder / "tpch"
    subprocess.run(
        [generator, "parquet", "-s", f"{settings.tpch:g}", "--tables", "lineitem", "--output-dir", target],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    path, phis = str(target / "lineitem.parquet"), list(PHIS)
    frame = spark.read.parquet(path)
    question = f"TPC-H scale {settings.tpch:g}: l_extendedprice by l_shipmode, eps 0.001"
    spark_own = f"percentile_approx(l_extendedprice, array({', '.join(map(str, PHIS))}), 1000)"
    rows = frame.count()
    yield [
        Job(question, method, run, rows)
        for method, run in (
            (f"{OURS}, files", lambda: quantiles(path, "l_extendedprice", phis, by="l_shipmode").toArrow()),
            ("percentile_approx(..., 1000)", lambda: frame.groupBy("l_shipmode").agg(_expr(spark_own)).toArrow()),
        )
    ]


def _ours(quantiles: Any, path: str, phis: list[float], by: str) -> Callable[[], Any]:
    return lambda: quantiles(path, "v", phis, by=by, eps=0.01).toArrow()


def _expr(text: str) -> Any:
    from pyspark.sql import functions as F

    return F.expr(text)


def _kll() -> str:
    sketch = "kll_sketch_agg_double(v, 2600)"
    return f"struct({', '.join(f'kll_sketch_get_quantile_double({sketch}, {phi})' for phi in PHIS)})"


def _measure(jobs: list[Job], settings: Settings) -> list[Row]:
    """The first job is run once to warm up, then all take turns."""
    say(f"spark: {jobs[0].question}")
    jobs[0].run()
    timed = interleave([(j.run, settings.rounds if i == 0 else settings.other_rounds) for i, j in enumerate(jobs)])
    best = [one.best for one in timed]
    return [
        {
            "question": j.question,
            "method": j.method,
            "rows": j.rows,
            "ratio": None if i == 0 else round(best[i] / best[0], 2),
            "seconds": round(best[i], 3),
            "rounds": len(timed[i].seconds),
        }
        for i, j in enumerate(jobs)
    ]
