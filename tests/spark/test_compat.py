"""Drop-in replacements beside the originals: same names and shapes, answers within the requested error."""

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DoubleType

from quantide import errors
from quantide.spark.compat import approxQuantile, percentile_approx
from tests.oracle import target_rank

ROWS = 8_000


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    rng = np.random.default_rng(9)
    values: list[float | None] = rng.permutation(ROWS).astype(float).tolist()
    values[:100] = [None] * 100
    return {"k": rng.integers(0, 3, ROWS).tolist(), "v": values, "i": rng.integers(0, 99, ROWS).tolist()}


@pytest.fixture(scope="module")
def frame(spark: SparkSession, data: dict[str, Any]) -> DataFrame:
    types = {"k": pa.int32(), "v": pa.float64(), "i": pa.int32()}
    table = pa.table({name: pa.array(data[name], kind) for name, kind in types.items()})
    none = pa.nulls(ROWS, pa.float64())
    return spark.createDataFrame(table.append_column("none", none)).repartition(3)


def values_of(data: dict[str, Any], key: int) -> list[float]:
    return [v for k, v in zip(data["k"], data["v"], strict=True) if k == key and v is not None]


def assert_within(value: float, data: list[float], phi: float, eps: float) -> None:
    target = target_rank(phi, len(data))
    low, high = np.searchsorted(np.sort(data), value, "left") + 1, np.searchsorted(np.sort(data), value, "right")
    assert low - eps * len(data) <= target <= high + eps * len(data)
    assert value in data


def assert_same_shape(ours: DataFrame, theirs: DataFrame) -> None:
    """Names, types and nullability; Spark marks a name of its own making in the metadata."""
    fields = [[(field.name, field.dataType, field.nullable) for field in df.schema] for df in (ours, theirs)]
    assert fields[0] == fields[1]


def test_percentile_approx_has_the_shape_of_sparks(frame: DataFrame, data: dict[str, Any]) -> None:
    phi_lists: list[Any] = [0.5, 0, 1, [0.0, 0.1, 1.0], (0.99, 0.0001), 0.25, [0.25, 0.75]]
    percentages = [*phi_lists[:5], F.lit(0.25), F.array(F.lit(0.25), F.lit(0.75))]
    ours, theirs = (
        frame.groupBy("k").agg(*[function("v", percentage, 500) for percentage in percentages]).orderBy("k")
        for function in (percentile_approx, F.percentile_approx)
    )
    assert_same_shape(ours, theirs)
    for mine, other in zip(ours.collect(), theirs.collect(), strict=True):
        group = values_of(data, mine["k"])
        assert mine["k"] == other["k"]
        for phis, answer in zip(phi_lists, mine[1:], strict=True):
            for phi, value in zip(np.atleast_1d(phis), np.atleast_1d(answer), strict=True):
                assert_within(value, group, phi, 1 / 500)


@pytest.mark.parametrize("percentage", [0.5, [0.1, 0.9]])
def test_streamed_has_the_same_shape(frame: DataFrame, percentage: Any) -> None:
    ours = frame.groupBy("k").agg(percentile_approx("v", percentage, 10**6, streamed=True)).orderBy("k")
    theirs = frame.groupBy("k").agg(F.percentile_approx("v", percentage, 10**6)).orderBy("k")
    assert_same_shape(ours, theirs)
    assert ours.collect() == theirs.collect()


@pytest.mark.parametrize("streamed", [False, True])
def test_percentile_approx_is_within_one_over_accuracy(frame: DataFrame, data: dict[str, Any], streamed: bool) -> None:
    phis = [0.0, 0.01, 0.5, 0.77, 1.0]
    for row in frame.groupBy("k").agg(percentile_approx("v", phis, 50, streamed=streamed)).collect():
        group = values_of(data, row["k"])
        for phi, value in zip(phis, row[1], strict=True):
            assert_within(value, group, phi, 1 / 50)


def test_percentile_approx_stands_beside_other_aggregates(frame: DataFrame) -> None:
    def both(function: Any) -> DataFrame:
        exact = [function("v", 0.5, 10**6).alias("p"), function(F.col("v") * 2, [0.1, 0.9], 10**6).alias("q")]
        grouped = frame.rollup("k").agg(F.count("*").alias("c"), *exact, F.avg("v").alias("a"))
        return grouped.where("c > 10").orderBy("k")

    ours, theirs = both(percentile_approx), both(F.percentile_approx)
    assert_same_shape(ours, theirs)
    assert ours.collect() == theirs.collect()


def test_streamed_stands_alone(frame: DataFrame) -> None:
    with pytest.raises(AnalysisException, match="INVALID_PANDAS_UDF_PLACEMENT"):
        frame.agg(percentile_approx("v", 0.5, streamed=True), F.count("*")).collect()


@pytest.mark.parametrize("percentage", [0.5, [0.5]])
def test_groups_without_values_are_null(frame: DataFrame, percentage: Any) -> None:
    for source in (frame, frame.limit(0)):
        ours, theirs = (source.agg(f("none", percentage)) for f in (percentile_approx, F.percentile_approx))
        assert_same_shape(ours, theirs)
        assert ours.collect() == theirs.collect() == [(None,)]
    assert frame.agg(percentile_approx("none", percentage, streamed=True)).collect() == [(None,)]


def test_streamed_decimals_give_doubles(frame: DataFrame) -> None:
    ours = frame.agg(percentile_approx(F.col("i").cast("decimal(10,2)"), [0.5], streamed=True).alias("p"))
    assert ours.schema["p"].dataType == ArrayType(DoubleType(), False)
    assert ours.collect() == [(frame.approxQuantile("i", [0.5], 0.0),)]


def test_streamed_times_are_refused(spark: SparkSession) -> None:
    times = spark.sql("SELECT timestamp_seconds(id) AS t FROM range(3)")
    with pytest.raises(PythonException, match="TypeMismatchError: a quantile of timestamp"):
        times.agg(percentile_approx("t", 0.5, streamed=True)).collect()


@pytest.mark.parametrize(
    ("percentage", "accuracy"),
    [(1.5, 100), (-0.1, 100), ([], 100), ([0.5, 2], 100), ("0.5", 100), (0.5, 0), (0.5, 2**31)],
)
def test_percentile_approx_refuses_what_spark_refuses(spark: SparkSession, percentage: Any, accuracy: int) -> None:
    with pytest.raises(errors.InvalidArgumentError):
        percentile_approx("v", percentage, accuracy)


def test_percentages_that_are_not_constant_are_refused(spark: SparkSession) -> None:
    column: Column = F.col("v")
    with pytest.raises(errors.InvalidArgumentError, match="v is not a constant"):
        percentile_approx("v", column)


@pytest.mark.parametrize(
    ("names", "error"),
    [
        ("v", 0.01),
        ("v", 0.0),
        ("none", 0.1),
        (["v", "none", "`i`", "V"], 0.0),
        (["i", "none", "v"], 0.3),
        (("i",), 1.5),
    ],
    ids=str,
)
def test_approx_quantile_has_the_shape_of_sparks(
    frame: DataFrame, data: dict[str, Any], names: Any, error: float
) -> None:
    phis = [0.9, 0.0, 0.5, 0.5, 1.0]
    ours, theirs = approxQuantile(frame, names, phis, error), frame.approxQuantile(names, phis, error)
    if error == 0:
        assert ours == theirs
    columns: Any = ([names], [ours], [theirs]) if isinstance(names, str) else (names, ours, theirs)
    assert type(ours) is type(theirs)
    for name, mine, other in zip(*columns, strict=True):
        assert len(mine) == len(other)
        assert all(type(value) is float for value in mine)
        values = [v for v in data[name.strip("`").lower()] if v is not None] if name != "none" else []
        for phi, value in zip(phis, mine, strict=False):
            assert_within(value, values, phi, error)


def test_approx_quantile_ignores_nan_and_takes_decimals(spark: SparkSession) -> None:
    rows = [(1.0, Decimal("1.25")), (float("nan"), Decimal("2.50")), (None, None), (3.0, Decimal("3.75"))]
    holed = spark.createDataFrame(rows, "v double, d decimal(10,2)")
    for error in (0.0, 0.1):
        assert approxQuantile(holed, ["v", "d"], [0.0, 0.5, 1.0], error) == [[1.0, 1.0, 3.0], [1.25, 2.5, 3.75]]
        assert holed.approxQuantile(["v", "d"], [0.0, 0.5, 1.0], error) == [[1.0, 1.0, 3.0], [1.25, 2.5, 3.75]]


def test_approx_quantile_of_no_rows_and_of_no_probabilities(frame: DataFrame) -> None:
    assert approxQuantile(frame.limit(0), ["v", "i"], [0.5], 0.1) == [[], []]
    assert approxQuantile(frame.limit(0), "v", [0.5], 0) == frame.limit(0).approxQuantile("v", [0.5], 0) == []
    assert approxQuantile(frame, ["v", "i"], [], 0.1) == [[], []]
    assert approxQuantile(frame, [], [0.5], 0.1) == frame.approxQuantile([], [0.5], 0.1) == []


@pytest.mark.parametrize(
    ("probabilities", "error"), [([1.5], 0.1), ([-0.1], 0.1), (0.5, 0.1), (["x"], 0.1), ([0.5], -1), ([0.5], "x")]
)
def test_approx_quantile_refuses_what_spark_refuses(frame: DataFrame, probabilities: Any, error: Any) -> None:
    with pytest.raises(errors.InvalidArgumentError):
        approxQuantile(frame, "v", probabilities, error)


def test_approx_quantile_needs_columns_of_numbers(spark: SparkSession) -> None:
    with pytest.raises(errors.TypeMismatchError, match="'s' is string"):
        approxQuantile(spark.createDataFrame([("x",)], "s string"), "s", [0.5], 0.1)
    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
        approxQuantile(spark.createDataFrame([("x",)], "s string"), "missing", [0.5], 0.1)
