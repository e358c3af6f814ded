"""Spark's percentile_approx over many partitions, as installed, beside ours."""

import tempfile
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import data
from benchmarks.breaks_merge import ORDERS, partitions
from benchmarks.breaks_rows import OURS
from benchmarks.breaks_settings import Settings
from benchmarks.data import Values
from benchmarks.report import Row, say
from benchmarks.spark import local_session
from quantide import StreamSketch

PHIS = np.arange(1, 200) / 200
OPEN = 128 << 20  # what opening a file is said to cost: as much as a partition, so that each file is one


def run(settings: Settings) -> dict[str, list[Row]]:
    if not settings.spark_partitions:
        return {}
    with tempfile.TemporaryDirectory(prefix="quantide-bench-") as folder, local_session(settings.cores) as spark:
        spark.conf.set("spark.sql.files.openCostInBytes", str(OPEN))
        asked = [_asked(spark, Path(folder) / order, order, settings) for order in ORDERS]
    return {"spark": list(chain(*asked))}


def _asked(spark: Any, folder: Path, order: str, settings: Settings) -> list[Row]:
    parts = partitions(order, settings.spark_partitions, settings.part_rows)
    folder.mkdir()
    for number, part in enumerate(parts):
        pq.write_table(pa.table({"v": part}), folder / f"{number:05}.parquet")
    frame = spark.read.parquet(str(folder))
    count = frame.rdd.getNumPartitions()
    rows = []
    for accuracy in settings.accuracies:
        say(f"breaks: Spark, {order}, {count} partitions, accuracy {accuracy:,}")
        text = f"percentile_approx(v, array({', '.join(map(str, PHIS))}), {accuracy})"
        answers = np.array(frame.selectExpr(text).collect()[0][0])
        about = {"order": order, "accuracy": accuracy, "partitions": count}
        rows += [_row(about, "percentile_approx", parts, answers, None), _ours(about, parts, 1 / accuracy)]
    return rows


def _ours(about: Row, parts: list[Values], eps: float) -> Row:
    """A sketch a partition, merged."""
    whole = StreamSketch(eps)
    for part in parts:
        one = StreamSketch(eps)
        one.update(part)
        whole.merge(one)
    return _row(about, OURS, parts, np.asarray(whole.quantiles(PHIS)), float(whole.error))


def _row(about: Row, method: str, parts: list[Values], answers: Values, certified: float | None) -> Row:
    error, bound = data.rank_error(np.sort(np.concatenate(parts)), PHIS, answers), 1 / about["accuracy"]
    held = error <= bound + 1e-12
    return {**about, "method": method, "rank_error": error, "bound": bound, "certified": certified, "held": held}
