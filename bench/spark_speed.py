"""Percentiles of files on Spark: quantide.spark beside Spark's own functions, and the cost of many partitions."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.collection import Subject
from bench.processes import spark_session
from bench.rendering import group as group_rows
from bench.report import Report, Row, show, sized
from bench.tables import markdown
from bench.timing import interleave, scratch

OURS, ARRAY, KLL = "quantide, files", "array(0.5, 0.99)", "kll_sketch_agg_double(v, 2600)"
TPCH = Path(sys.executable).with_name("tpchgen-cli")  # of quantide[bench]
Job = Callable[[], Any]


@dataclass(frozen=True)
class Settings:
    """`exact_rows` of the exact methods, of which Spark's store every distinct value; `tpch`: a scale factor.

    Of `rows`, Spark's fixed cost of two stages in Python is most of our time; of `many_rows`, a small part of it.
    """

    rows: int = sized(100_000_000, 20_000_000, 40_000)
    many_rows: int = sized(400_000_000, 100_000_000, 50_000)
    files: int = sized(8, quick=2)
    keys: tuple[int, ...] = sized((1_000, 1_000_000), quick=(10, 1_000))
    exact_rows: int = sized(10_000_000, 2_000_000, 20_000)
    cores: int = 2
    rounds: int = sized(3, 2, 1)
    warm_up: bool = True  # of every method; stored, because results without it remain
    group: int = sized(1 << 20, quick=10_000)
    tpch: float = sized(10, 1, 0)


def write_lake(folder: Path, rows: int, files: int, *keys: int, group: int = 1 << 20, values: int = 0) -> list[str]:
    """Write random float64 (with `values`, so many distinct ones) and, for each number of keys but 0, their column."""
    folder.mkdir(parents=True)
    rng, paths = np.random.default_rng([rows, files, *keys, values]), []
    for part, n in enumerate(np.diff(np.arange(files + 1) * rows // files).tolist()):
        columns = {f"k{one}": rng.integers(0, one, n) for one in keys if one}
        # A dictionary of random values would be given up half way; of few values it leaves some bits of each.
        packed, path = [*columns, *(["v"] if values else [])], folder / f"{part:06}.parquet"
        columns["v"] = rng.integers(0, values, n).astype(np.float64) if values else rng.normal(size=n)
        pq.write_table(pa.table(columns), path, row_group_size=group, use_dictionary=packed)
        paths.append(str(path))
    return paths


def _ours(source: Any, column: str = "v", phis: Any = (0.5, 0.99), **more: Any) -> Job:
    from quantide.spark import quantiles

    return lambda: quantiles(source, column, phis, **more).toArrow()


def _sql(frame: Any, text: str, *by: str) -> Job:
    from pyspark.sql import functions as F

    return lambda: frame.groupBy(*by).agg(F.expr(text)).toArrow()


def measure(s: Settings) -> list[Row]:
    """Measure every question; the first method is ours on files."""
    rows: list[Row] = []
    with scratch() as folder, spark_session(s.cores) as spark:
        for question, count, jobs in _questions(spark, folder, s):
            show(f"spark: {question}")
            timed = interleave(jobs, s.rounds, s.warm_up)
            for name, one in timed.items():
                ratio = None if name == OURS else round(one.best / timed[OURS].best, 2)
                row = {"question": question, "method": name, "rows": count, "ratio": ratio}
                rows.append(row | {"seconds": round(one.best, 3), "rounds": len(one.seconds)})
    return rows


def _questions(spark: Any, folder: Path, s: Settings) -> Iterator[tuple[str, int, dict[str, Job]]]:
    """Yield the name of each question, its number of rows, and its methods."""
    lake, small, large = (str(folder / name) for name in ("lake", "small", "large"))
    for path, rows, columns in ((lake, s.rows, s.keys), (small, s.exact_rows, s.keys), (large, s.many_rows, ())):
        show(f"spark: write {rows:,} rows of Parquet")
        write_lake(Path(path), rows, s.files, *columns, group=s.group)
    frame, few, approx = spark.read.parquet(lake), spark.read.parquet(small), "percentile_approx(v, ..., {})"
    both = f"struct({', '.join(f'kll_sketch_get_quantile_double({KLL}, {phi})' for phi in (0.5, 0.99))})"
    for question, path, count in (("two quantiles", lake, s.rows), ("two quantiles of many rows", large, s.many_rows)):
        values = spark.read.parquet(path)
        jobs = {OURS: _ours(path, eps=0.001), KLL: _sql(values, both)}
        jobs[approx.format(1000)] = _sql(values, f"percentile_approx(v, {ARRAY}, 1000)")
        if path == lake:  # a DataFrame takes equally long for each row
            jobs["quantide, DataFrame"] = _ours(values, eps=0.001)
        yield f"{question}, eps 0.001", count, jobs
    for keys in s.keys:
        peer = _sql(frame, f"percentile_approx(v, {ARRAY}, 100)", f"k{keys}")
        jobs = {OURS: _ours(lake, by=f"k{keys}", eps=0.01), approx.format(100): peer}
        yield f"two quantiles by {keys:,} keys, eps 0.01", s.rows, jobs
    jobs = {OURS: _ours(small, exact=True), "percentile(v, ...)": _sql(few, f"percentile(v, {ARRAY})")}
    jobs["a full sort"] = few.select("v").orderBy("v").write.format("noop").mode("overwrite").save
    yield "two exact quantiles", s.exact_rows, jobs
    if s.tpch and TPCH.exists():  # lineitem has decimals, seven string keys, sixteen columns
        command = f"{TPCH} parquet -s {s.tpch:g} --tables lineitem --output-dir {folder / 'tpch'}"
        subprocess.run(command.split(), check=True, stdout=subprocess.DEVNULL)
        path, call = str(folder / "tpch" / "lineitem.parquet"), f"percentile_approx(l_extendedprice, {ARRAY}, 1000)"
        frame = spark.read.parquet(path)
        jobs = {OURS: _ours(path, "l_extendedprice", by="l_shipmode")}
        jobs["percentile_approx(..., 1000)"] = _sql(frame, call, "l_shipmode")
        yield f"TPC-H scale {s.tpch:g}: l_extendedprice by l_shipmode, eps 0.001", frame.count(), jobs


SUBJECT = Subject("percentiles of files, beside Spark's own functions", Settings, {"rows": measure})


@dataclass(frozen=True)
class PartitionSettings:
    """Few rows: Spark's own merge of a thousand sketches of ten thousand rows takes minutes."""

    rows: int = sized(2_000_000, 500_000, 10_000)
    partitions: tuple[int, ...] = sized((2, 50, 500), quick=(2, 4))
    cores: int = 2
    rounds: int = sized(2, 1, 1)


def partitions(s: PartitionSettings) -> list[Row]:
    """Measure SPARK-47836: in partitions with few rows, merging a sketch costs more than filling it."""
    texts = {KLL: f"kll_sketch_get_quantile_double({KLL}, 0.5)"}
    texts["percentile_approx(v, 0.5, 1000)"] = "percentile_approx(v, 0.5, 1000)"
    texts["percentile_approx(v, 0.5, 10000), the default"] = "percentile_approx(v, 0.5)"
    texts["sum(v): what the partitions alone cost"] = "sum(v)"
    rows: list[Row] = []
    with scratch() as folder, spark_session(s.cores) as spark:
        for number in s.partitions:
            show(f"spark: {s.rows:,} rows in {number:,} partitions")
            write_lake(folder / str(number), s.rows, number)
            frame = spark.range(0, s.rows, 1, number).selectExpr("cast(xxhash64(id) as double) as v")
            jobs = {OURS: _ours(str(folder / str(number)), phis=0.5, eps=0.001)}
            jobs["quantide, DataFrame"] = _ours(frame, phis=0.5, eps=0.001)
            jobs |= {name: _sql(frame, text) for name, text in texts.items()}
            for job in jobs.values():
                job()
            about, found = {"partitions": number, "rows": s.rows}, interleave(jobs, s.rounds).items()
            rows += [about | {"method": name, "ns_a_row": round(one.best * 1e9 / s.rows, 1)} for name, one in found]
    return rows


def partition_context(report: Report) -> Row:
    numbers, methods = report.settings["partitions"], group_rows(report.rows["rows"], "method")
    body = [[method, *(f"{row['ns_a_row']:,.0f}" for row in rows)] for method, rows in methods.items()]
    return {"costs": markdown(["method", *(f"{number:,} partitions" for number in numbers)], body), "most": numbers[-1]}


PARTITIONS = Subject("the cost of many partitions on Spark", PartitionSettings, {"rows": partitions}, partition_context)
