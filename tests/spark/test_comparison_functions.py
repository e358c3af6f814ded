"""Comparisons of stored summaries in Spark SQL and by key: the results of Summary.compare."""

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, Row, SparkSession

from quantide import Summary
from quantide.errors import InvalidArgumentError
from quantide.spark import compare_summaries, register
from quantide.spark.comparison_functions import qt_shift

RNG = np.random.default_rng(6)
BEFORE = {key: Summary.of(RNG.normal(0, 1, 500)).compress(40) for key in ("/cart", "/pay")}
AFTER = {
    "/cart": Summary.of(RNG.normal(0, 1, 500)).compress(40),
    "/pay": Summary.of(RNG.normal(2, 1, 500)).compress(40),
}


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Iterator[tuple[DataFrame, DataFrame]]:
    register(spark)
    frames = []
    for name, side in (("after", AFTER), ("before", BEFORE)):
        rows: list[Any] = [(key, bytearray(summary.to_bytes())) for key, summary in side.items()]
        frame = spark.createDataFrame([*rows, ("none", None)], "endpoint string, summary binary")
        frame.createOrReplaceTempView(name)
        frames.append(frame)
    yield frames[0], frames[1]
    for name in ("after", "before"):
        spark.catalog.dropTempView(name)


def pair(row: Row) -> tuple[float, float]:
    return row.low, row.high


def test_functions_of_sql(spark: SparkSession, tables: tuple[DataFrame, DataFrame]) -> None:
    found = spark.sql(
        "SELECT endpoint, qt_ks(a.summary, b.summary) AS ks, qt_psi(a.summary, b.summary, 5) AS psi, "
        "qt_wasserstein(a.summary, b.summary) AS area, qt_shift(a.summary, b.summary, 0.9) AS shift "
        "FROM after a JOIN before b USING (endpoint)"
    )
    assert found.schema["ks"].simpleString() == "ks:struct<low:double,high:double>"
    assert found.schema["shift"].simpleString() == "shift:struct<low:double,high:double,is_above:boolean>"
    rows = {row.endpoint: row for row in found.collect()}
    assert rows["none"].ks is None
    assert rows["none"].shift is None
    for key in AFTER:
        exact = AFTER[key].compare(BEFORE[key], phis=[0.9], bins=5)
        assert pair(rows[key].ks) == exact.ks
        assert pair(rows[key].psi) == exact.psi
        assert pair(rows[key].area) == exact.wasserstein
        assert (*pair(rows[key].shift), rows[key].shift.is_above) == (*exact.shifts[0.9], exact.is_above(0.9))


def test_shifts_as_doubles_are_rounded_outward() -> None:
    for own, reference in (([2**53 + 1], [0]), ([Decimal("0.30")], [Decimal("0.20")])):
        a, b = (pa.array([Summary.of(side).to_bytes()]) for side in (own, reference))
        [found] = qt_shift(a, b, pa.array([0.5])).to_pylist()
        assert Fraction(found["low"]) < Fraction(own[0]) - Fraction(reference[0]) < Fraction(found["high"])


def test_by_key(tables: tuple[DataFrame, DataFrame]) -> None:
    found = compare_summaries(*tables, by="endpoint", phis=[0.5, 0.99])
    assert found.columns == ["endpoint", "ks", "psi", "wasserstein", "shift_0.5", "shift_0.99"]
    rows = {row.endpoint: row for row in found.collect()}
    assert pair(rows["/pay"].ks) == AFTER["/pay"].compare(BEFORE["/pay"]).ks
    assert rows["/pay"]["shift_0.5"].is_above is True


def test_missing_columns_are_named(tables: tuple[DataFrame, DataFrame]) -> None:
    after, before = tables
    with pytest.raises(InvalidArgumentError, match="no column 'summary'; there are endpoint, s"):
        compare_summaries(after, before.withColumnRenamed("summary", "s"), by="endpoint")
    with pytest.raises(InvalidArgumentError, match="no column 'page'"):
        compare_summaries(after, before, by="page")


def test_what_does_not_compare_raises(spark: SparkSession, tables: tuple[DataFrame, DataFrame]) -> None:
    for text, error in (
        ("qt_ks(a.summary, unhex('00'))", "CorruptBytesError"),
        ("qt_psi(a.summary, a.summary, 1)", "InvalidArgumentError: bins must be at least 2"),
        ("qt_shift(a.summary, a.summary, 2)", "InvalidArgumentError: phi must be"),
    ):
        with pytest.raises(PythonException, match=error):
            spark.sql(f"SELECT {text} FROM after a WHERE endpoint = '/pay'").collect()
