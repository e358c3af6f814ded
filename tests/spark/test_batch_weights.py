"""Weights of rows in batch quantiles: the answers of rows that are repeated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

from quantide import Summary, errors
from quantide.spark import batch_quantiles, quantiles, summarize

PHIS = [0.0, 0.01, 0.5, 0.99, 1.0]
EPS = 0.02


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pa.Table]:
    """Two files whose rows have weights: most are small, a few as large as all others together."""
    rng = np.random.default_rng(3)
    folder = tmp_path_factory.mktemp("weighted")
    parts = []
    for i, n in enumerate((9_000, 400)):
        weights = rng.integers(0, 4, n)
        weights[rng.integers(0, n, 3)] = 20_000
        values = pa.array(np.round(rng.normal(size=n), 2), mask=rng.random(n) < 0.05)
        columns = {"v": values, "i": rng.integers(-50, 50, n), "k": rng.integers(0, 5, n), "w": weights}
        parts.append(pa.table(columns))
        pq.write_table(parts[-1], folder / f"part-{i}.parquet", row_group_size=1500)
    return folder, pa.concat_tables(parts)


def repeated(rows: pa.Table) -> pa.Table:
    return rows.take(pa.array(np.repeat(np.arange(len(rows)), rows["w"].to_numpy())))


def check(rows: list[Any], column: Any, eps: float) -> None:
    data = np.sort(column.drop_null().to_numpy())
    assert [row["phi"] for row in rows] == PHIS
    for row in rows:
        first, last = (int(np.searchsorted(data, row["value"], side)) for side in ("left", "right"))
        target = max(1, int(np.ceil(row["phi"] * len(data) - 1e-9)))
        away = max(0, first + 1 - target, target - last)
        assert first < last
        assert (row["n"], row["error"] <= eps, away <= row["error"] * len(data) + 1e-6) == (len(data), True, True)


@pytest.mark.parametrize("way", ["files", "one task", "frame"])
@pytest.mark.parametrize("exact", [False, True])
def test_quantiles(
    spark: SparkSession, lake: tuple[Path, pa.Table], way: str, exact: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, rows = lake
    if way == "files":
        monkeypatch.setattr(batch_quantiles, "ONE_TASK_BYTES", 0)
    source = spark.read.parquet(str(folder)) if way == "frame" else str(folder)
    every = repeated(rows)
    eps = 0.0 if exact else EPS
    found = quantiles(source, "v", PHIS, eps=EPS, exact=exact, weights="w").orderBy("phi").collect()
    check(found, every["v"], eps)
    by_key = quantiles(source, ["v", "i"], PHIS, by="k", eps=EPS, exact=exact, weights="w").collect()
    for key in range(5):
        own = every.filter(pa.compute.equal(every["k"], key))
        for name in ("v", "i"):
            chosen = [row for row in by_key if (row["k"], row["column"]) == (key, name)]
            check(sorted(chosen, key=lambda row: row["phi"]), own[name], eps)


def test_summaries(spark: SparkSession, lake: tuple[Path, pa.Table]) -> None:
    folder, rows = lake
    every = repeated(rows)
    (row,) = summarize(str(folder), "v", eps=EPS, weights="w").collect()
    data = np.sort(every["v"].drop_null().to_numpy())
    assert (row["n"], row["nulls"]) == (len(data), every["v"].null_count)
    assert (row["min"], row["max"]) == (data[0], data[-1])
    assert Summary.from_bytes(row["summary"]).n == len(data)
    where = summarize(str(folder), "v", by="k", eps=EPS, weights="w", where="i > 0").collect()
    positive = every.filter(pa.compute.greater(every["i"], 0))
    assert sum(row["n"] for row in where) == len(positive) - positive["v"].null_count


def test_wrong_weights(spark: SparkSession, tmp_path: Path) -> None:
    table = pa.table({"v": [1.0, 2.0], "k": [1, 2], "w": [1, -1], "f": [0.5, 1.0], "none": pa.array([1, None])})
    pq.write_table(table, tmp_path / "one.parquet")
    with pytest.raises(errors.InvalidArgumentError, match="no column 'x'"):
        quantiles(str(tmp_path), "v", 0.5, weights="x")
    for name in ("w", "f", "none"):
        for by in (None, "k"):
            with pytest.raises(PythonException, match="weight"):
                quantiles(str(tmp_path), "v", 0.5, by=by, weights=name).collect()
