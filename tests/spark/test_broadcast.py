"""Sketches and windows in Spark tasks: sent and returned as pickles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

from quantide import Monitor, RecentWindow, StreamSketch, Summary


def test_tasks_ask_a_sketch_that_was_broadcast(spark: SparkSession, rng: np.random.Generator) -> None:
    sketch, window = StreamSketch(0.01), RecentWindow(0.01, max_items=5000)
    for one in (sketch, window):
        one.update(rng.normal(size=20_000))
    shared, recent = spark.sparkContext.broadcast(sketch), spark.sparkContext.broadcast(window)

    def places(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            values = batch.column("v").to_numpy()
            low, high = shared.value.rank(values)
            yield pa.record_batch({"v": values, "low": low, "high": high, "share": recent.value.cdf(values)})

    frame = spark.createDataFrame([(float(v),) for v in np.linspace(-2, 2, 41)], "v double").repartition(3)
    for row in frame.mapInArrow(places, "v double, low long, high long, share double").collect():
        assert (row.low, row.high) == sketch.rank(row.v)
        assert row.share == window.cdf(row.v)

    above = udf(lambda v: bool(v > shared.value.quantile(0.9)), "boolean")
    assert frame.filter(above("v")).count() == int((np.linspace(-2, 2, 41) > sketch.quantile(0.9)).sum())


def test_tasks_feed_copies_and_send_them_back(spark: SparkSession, rng: np.random.Generator) -> None:
    values = rng.normal(size=6_000)
    empty = StreamSketch(0.05)

    def fed(part: Iterable[float]) -> Iterator[Any]:
        empty.update(list(part))  # the task's own: every task gets a pickle of it
        yield empty

    parts = spark.sparkContext.parallelize(values.tolist(), 3).mapPartitions(fed).collect()
    assert (empty.n, len(parts), sum(part.n for part in parts)) == (0, 3, 6_000)
    total = StreamSketch(0.05)
    for part in parts:
        total.merge(part)
    assert total.n == 6_000
    assert abs(np.searchsorted(np.sort(values), total.quantile(0.5), side="right") - 3_000) <= 0.05 * 6_000

    monitor = Monitor(0.01)
    median = monitor.register(0.5, 0.02, on_change=print)
    monitor.update(values)
    answers = spark.sparkContext.parallelize([0, 1], 2).map(lambda _: monitor.answer(median)).collect()
    assert answers == [monitor.answer(median)] * 2
    summaries = spark.sparkContext.parallelize([1, 2], 2).map(lambda k: Summary.of(np.full(3, float(k)))).collect()
    assert Summary.merge(*summaries) == Summary.of([1.0] * 3 + [2.0] * 3)


def test_a_monitor_that_follows_a_source_raises_before_any_task_runs(spark: SparkSession) -> None:
    monitor = Monitor(0.1, pull=lambda: (1, Summary.of([1.0])))
    with pytest.raises(Exception, match=r"pull= cannot be copied or pickled"):
        spark.sparkContext.broadcast(monitor)
