"""Percentiles of files on Spark: quantide.spark beside Spark's own functions, and the cost of many partitions."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.collection import Subject
from bench.processes import spark_session
from bench.report import Report, Row, say, sized
from bench.tables import markdown
from bench.timing import interleave, scratch

PHIS = [0.5, 0.99]
ARRAY = "array(0.5, 0.99)"
KLL = "kll_sketch_agg_double(v, 2600)"
Job = Callable[[], Any]


@dataclass(frozen=True)
class Settings:
    """`exact_rows` of the exact methods, of which Spark's store every distinct value; `tpch`: a scale factor."""

    rows: int = sized(100_000_000, 20_000_000, 40_000)
    files: int = sized(8, quick=2)
    keys: tuple[int, ...] = sized((1_000, 1_000_000), quick=(10, 1_000))
    exact_rows: int = sized(10_000_000, 2_000_000, 20_000)
    cores: int = 2
    rounds: int = sized(3, 2, 1)
    other_rounds: int = 1
    group: int = sized(1 << 20, quick=10_000)
    tpch: float = sized(10, 1, 0)


def write_lake(folder: Path, rows: int, files: int, keys: tuple[int, ...] = (), group: int = 1 << 20) -> None:
    """Write random float64 and, for each number of keys, a column of keys."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(1)
    for part in range(files):
        n = rows // files
        columns = {"v": rng.normal(size=n)} | {f"k{one}": rng.integers(0, one, n) for one in keys}
        pq.write_table(pa.table(columns), folder / f"{part:06}.parquet", row_group_size=group)


def measure(s: Settings) -> list[Row]:
    """Measure every question; the first method is ours on files, and warms up."""
    rows: list[Row] = []
    with scratch() as folder, spark_session(s.cores) as spark:
        say(f"spark: write {s.rows:,} rows of Parquet")
        lake, small = folder / "lake", folder / "small"
        write_lake(lake, s.rows, s.files, s.keys, s.group)
        write_lake(small, s.exact_rows, s.files, s.keys, s.group)
        for question, count, jobs in chain(_questions(spark, str(lake), str(small), s), _tpch(spark, folder, s)):
            say(f"spark: {question}")
            (ours, first), *_ = jobs.items()
            first()
            timed = interleave(jobs, {name: s.rounds if name == ours else s.other_rounds for name in jobs})
            for name, one in timed.items():
                ratio = None if name == ours else round(one.best / timed[ours].best, 2)
                row = {"question": question, "method": name, "rows": count, "ratio": ratio}
                rows.append(row | {"seconds": round(one.best, 3), "rounds": len(one.seconds)})
    return rows


def _questions(spark: Any, lake: str, small: str, s: Settings) -> Iterator[tuple[str, int, dict[str, Job]]]:
    from pyspark.sql import functions as F

    from quantide.spark import quantiles

    frame, few = spark.read.parquet(lake), spark.read.parquet(small)

    def sql(text: str, *by: str, frame: Any = frame) -> Job:
        return lambda: (frame.groupBy(*by).agg(F.expr(text)) if by else frame.agg(F.expr(text))).toArrow()

    def ours(source: Any, **more: Any) -> Job:
        return lambda: quantiles(source, "v", PHIS, **more).toArrow()

    both = f"struct({', '.join(f'kll_sketch_get_quantile_double({KLL}, {phi})' for phi in PHIS)})"
    own, approx = "quantide, files", "percentile_approx(v, ..., {})"
    whole = {own: ours(lake, eps=0.001), KLL: sql(both)}
    whole[approx.format(1000)] = sql(f"percentile_approx(v, {ARRAY}, 1000)")
    yield "two quantiles, eps 0.001", s.rows, whole | {"quantide, DataFrame": ours(frame, eps=0.001)}
    for keys in s.keys:
        jobs = {own: ours(lake, by=f"k{keys}", eps=0.01)}
        jobs[approx.format(100)] = sql(f"percentile_approx(v, {ARRAY}, 100)", f"k{keys}")
        yield f"two quantiles by {keys:,} keys, eps 0.01", s.rows, jobs
    exact = {own: ours(small, exact=True), "percentile(v, ...)": sql(f"percentile(v, {ARRAY})", frame=few)}
    sort = partial(lambda: few.select("v").orderBy("v").write.format("noop").mode("overwrite").save())
    yield "two exact quantiles", s.exact_rows, exact | {"a full sort": sort}


def _tpch(spark: Any, folder: Path, s: Settings) -> Iterator[tuple[str, int, dict[str, Job]]]:
    """Ask prices by the mode of shipping in TPC-H's lineitem: decimals, seven string keys, sixteen columns."""
    generator = Path(sys.executable).with_name("tpchgen-cli")
    if not s.tpch:
        return
    if not generator.exists():
        say("spark: tpchgen-cli is not installed (pip install 'quantide[bench]'): TPC-H is left out")
        return
    from pyspark.sql import functions as F

    from quantide.spark import quantiles

    command = f"{generator} parquet -s {s.tpch:g} --tables lineitem --output-dir {folder / 'tpch'}"
    subprocess.run(command.split(), check=True, stdout=subprocess.DEVNULL)
    path, call = str(folder / "tpch" / "lineitem.parquet"), f"percentile_approx(l_extendedprice, {ARRAY}, 1000)"
    frame = spark.read.parquet(path)
    jobs: dict[str, Job] = {}
    jobs["quantide, files"] = lambda: quantiles(path, "l_extendedprice", PHIS, by="l_shipmode").toArrow()
    jobs["percentile_approx(..., 1000)"] = lambda: frame.groupBy("l_shipmode").agg(F.expr(call)).toArrow()
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
    from pyspark.sql import functions as F

    from quantide.spark import quantiles

    texts = {KLL: f"kll_sketch_get_quantile_double({KLL}, 0.5)"}
    texts["percentile_approx(v, 0.5, 1000)"] = "percentile_approx(v, 0.5, 1000)"
    texts["percentile_approx(v, 0.5, 10000), the default"] = "percentile_approx(v, 0.5)"
    texts["sum(v): what the partitions alone cost"] = "sum(v)"
    rows: list[Row] = []
    with scratch() as folder, spark_session(s.cores) as spark:
        for number in s.partitions:
            say(f"spark: {s.rows:,} rows in {number:,} partitions")
            path = folder / str(number)
            write_lake(path, s.rows, number)
            frame = spark.range(0, s.rows, 1, number).selectExpr("cast(xxhash64(id) as double) as v")
            sources = {"files": str(path), "DataFrame": frame}
            jobs: dict[str, Job] = {
                f"quantide, {name}": lambda source=source: quantiles(source, "v", 0.5, eps=0.001).toArrow()  # type: ignore[misc]
                for name, source in sources.items()
            }
            for name, text in texts.items():
                jobs[name] = lambda text=text, frame=frame: frame.agg(F.expr(text)).toArrow()  # type: ignore[misc]
            for job in jobs.values():
                job()
            about = {"partitions": number, "rows": s.rows}
            found = interleave(jobs, s.rounds).items()
            rows += [about | {"method": name, "ns_a_row": round(one.best * 1e9 / s.rows, 1)} for name, one in found]
    return rows


def partition_context(report: Report) -> Row:
    rows = report.rows["rows"]
    numbers = sorted({row["partitions"] for row in rows})
    found = {(row["method"], row["partitions"]): row for row in rows}
    methods = dict.fromkeys(row["method"] for row in rows)
    body = [[method, *(f"{found[method, number]['ns_a_row']:,.0f}" for number in numbers)] for method in methods]
    return {"costs": markdown(["method", *(f"{number:,} partitions" for number in numbers)], body), "most": numbers[-1]}


PARTITIONS = Subject("the cost of many partitions on Spark", PartitionSettings, {"rows": partitions}, partition_context)
