"""Worst keys of stored summaries on Spark, against the exact quantiles of all values."""

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

from quantide import Summary
from quantide.errors import EmptyError, InvalidArgumentError, TypeMismatchError
from quantide.spark import summarize, worst_keys
from tests.oracle import exact_quantile


def values_of(kind: str, rng: np.random.Generator, rows: int) -> Any:
    whole = rng.integers(-500, 500, rows)
    return pa.array(whole, pa.int64()).cast(pa.timestamp("us")) if kind == "time" else pa.array(whole / 4)


@pytest.mark.parametrize("kind", [pytest.param("number", marks=pytest.mark.slow), "time"])
def test_rankings_are_true(spark: SparkSession, kind: str) -> None:
    rng = np.random.default_rng(5)
    table = pa.table(
        {"k": rng.integers(0, 40, 8000), "s": rng.choice(["x", "y"], 8000), "v": values_of(kind, rng, 8000)}
    )
    frame = spark.createDataFrame(table).repartition(3)
    stored = summarize(frame, "v", by=["k", "s"], eps=0.1, tail=None)
    rows = table.to_pandas()
    for by, smallest in ((["k", "s"], False), (["k"], True)):
        data = {key: np.sort(part["v"].to_numpy()) for key, part in rows.groupby(by if len(by) > 1 else by[0])}
        true = {key: exact_quantile(values, 0.75) for key, values in data.items()}
        ranking = worst_keys(stored, by, 0.75, most=3, smallest=smallest, min_n=100 if len(by) > 1 else 1)
        compared = {key: value for key, value in true.items() if len(data[key]) >= ranking.min_n}
        assert (ranking.keys, ranking.too_few) == (len(compared), len(true) - len(compared))
        assert len(ranking.listed) == 3
        for row in ranking.listed:
            assert row.low <= true[row.key] <= row.high
            assert row.n == len(data[row.key])
            worse = sum(other < true[row.key] if smallest else other > true[row.key] for other in compared.values())
            assert row.position_lo <= 1 + worse <= row.position_hi
        assert any(row.low < row.high for row in ranking.listed), "the summaries are approximate"


def test_values_of_different_types_are_not_ranked(spark: SparkSession) -> None:
    """Carried as whole numbers, 1.23 is 123 and 1.9 is 19."""
    stored = [(key, Summary.of(pa.array([Decimal(text)])).to_bytes()) for key, text in (("a", "1.23"), ("b", "1.9"))]
    frame = spark.createDataFrame(stored, "k string, summary binary").repartition(2, "k")
    with pytest.raises((TypeMismatchError, PythonException), match="decimal"):
        worst_keys(frame, "k", 0.5)


def test_what_cannot_be_ranked_is_refused(spark: SparkSession) -> None:
    empty = spark.createDataFrame([("a", None)], "k string, v double")
    with pytest.raises(EmptyError):
        worst_keys(summarize(empty, "v", by="k"), "k", 0.5)
    with pytest.raises(InvalidArgumentError, match="by="):
        worst_keys(summarize(empty, "v", by="k"), [], 0.5)
