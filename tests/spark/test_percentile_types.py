"""Percentile drop-ins beside Spark's own functions, in text and as Columns: schema first, then values."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from pyspark.errors import AnalysisException, SparkRuntimeException
from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F

from quantide import errors
from quantide.spark import install, uninstall
from quantide.spark.compat import percentile, percentile_approx
from quantide.spark.percentile_rewrite import rewrite_percentiles
from quantide.spark.sorted_percentiles import PercentileQuery
from tests.oracle import target_rank

ROWS = 600
# Each type is computed from id, 0 to 599 in a random order, so that its values ascend with id.
TYPES = {
    "tiny": "CAST(id % 100 AS TINYINT)",
    "small": "CAST(id AS SMALLINT)",
    "whole": "CAST(id AS INT)",
    "long": "id + 9007199254740992",  # beyond 2^53, where doubles are no longer exact
    "float": "CAST(id / 7 AS FLOAT)",
    "double": "id / 7D - 30",
    "money": "CAST(id / 100 AS DECIMAL(9, 2))",
    "wide": "CAST(CAST('12345678901234567890123456789012345.67' AS DECIMAL(38, 2)) + id / 100 AS DECIMAL(38, 2))",
    "day": "date_add(DATE'1969-12-01', CAST(id AS INT))",
    "instant": "timestamp_micros(id * 1000001 - 77)",
    "local": "CAST(timestamp_micros(id * 1000001 - 77) AS TIMESTAMP_NTZ)",
    "months": "make_ym_interval(0, CAST(id - 40 AS INT))",
    "time": "make_dt_interval(0, 0, 0, id - 40.000001)",
    "month": "CAST(make_ym_interval(0, CAST(id AS INT)) AS INTERVAL MONTH)",
    "second": "CAST(make_dt_interval(0, 0, 0, id) AS INTERVAL SECOND)",
    "none": "CAST(NULL AS DATE)",
}
NUMBERS = ("tiny", "small", "whole", "long", "float", "double", "money", "wide")
INTERVALS = ("months", "time", "month", "second")
PHIS = [0.0, 0.001, 0.25, 0.5, 0.777, 1.0]


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> Iterator[DataFrame]:
    ids = [(int(i), int(i) % 3) for i in np.random.default_rng(5).permutation(ROWS)]
    made = spark.createDataFrame(ids, "id bigint, k int").selectExpr(
        "k", "id", *[f"IF(id % 10 = 9, NULL, {text}) AS {name}" for name, text in TYPES.items()]
    )
    made.cache().createOrReplaceTempView("typed")
    yield made
    made.unpersist()
    spark.catalog.dropTempView("typed")


@pytest.fixture
def installed(spark: SparkSession) -> Iterator[SparkSession]:
    install(spark)
    yield spark
    uninstall(spark)


def fields(frame: DataFrame) -> list[Any]:
    return [(field.name, field.dataType, field.nullable) for field in frame.schema]


def as_text(frame: DataFrame, names: Any) -> list[Row]:
    """Rows with intervals as text: PySpark has no Python type for months."""
    return frame.select("k", *[F.col(f"`{name}`").cast("string") for name in names]).orderBy("k").collect()


def sorted_groups(frame: DataFrame) -> dict[int, dict[str, list[str]]]:
    """The texts of the values of each group, sorted in Python by the number that they were made of."""
    rows = frame.select("k", "id", *[F.col(name).cast("string").alias(name) for name in TYPES]).collect()
    out: dict[int, dict[str, list[str]]] = {k: {} for k in range(3)}
    for k, name in itertools.product(out, TYPES):
        group = [row for row in rows if row["k"] == k and row[name] is not None]
        group.sort(key=lambda row: row["id"] % 100 if name == "tiny" else row["id"])
        out[k][name] = [row[name] for row in group]
    return out


def test_percentile_approx_of_every_type(spark: SparkSession, installed: SparkSession, frame: DataFrame) -> None:
    calls = [f"percentile_approx({name}, array({', '.join(map(str, PHIS))}))" for name in TYPES]
    text = f"SELECT k, {', '.join(calls)} FROM typed GROUP BY k"
    theirs = SparkSession.sql(spark, text)
    ours = installed.sql(text)
    columns = frame.groupBy("k").agg(*[percentile_approx(name, PHIS) for name in TYPES])
    assert fields(ours) == fields(theirs) == fields(columns)
    names = [f"p{i}" for i in range(len(TYPES))]
    groups = sorted_groups(frame)
    for result in (ours, columns):
        for row in as_text(result.toDF("k", *names), names):
            for column, (name, values) in zip(row[1:], groups[row["k"]].items(), strict=True):
                expected = [values[target_rank(phi, len(values)) - 1] for phi in PHIS] if values else None
                assert column == (None if expected is None else f"[{', '.join(expected)}]"), name


def test_percentile_equals_sparks_own(spark: SparkSession, installed: SparkSession, frame: DataFrame) -> None:
    phis = f"array({', '.join(map(str, PHIS))})"
    calls = [f"percentile({name}, {phi})" for name in (*NUMBERS, *INTERVALS) for phi in ("0.3", phis)]
    text = f"SELECT k, {', '.join(calls)}, percentile(whole, 0.9, k) FROM typed GROUP BY k"
    theirs, ours = SparkSession.sql(spark, text), installed.sql(text)
    names = [f"p{i}" for i in range(len(calls) + 1)]
    columns: list[Column] = []
    for name in (*NUMBERS, *INTERVALS):
        columns += [percentile(name, 0.3), percentile(F.col(name), PHIS)]
    mine = frame.groupBy("k").agg(*columns, percentile("whole", 0.9, F.col("k")))
    assert fields(ours) == fields(theirs) == fields(mine)
    expected = as_text(theirs.toDF("k", *names), names)
    assert as_text(ours.toDF("k", *names), names) == expected
    assert as_text(mine.toDF("k", *names), names) == expected


SPECIAL = "VALUES (1D), (double('NaN')), (3D), (double('NaN')), (2D), (NULL), (-double('inf')), (double('inf')) t(x)"


def test_nan_sorts_last_and_counts(spark: SparkSession, installed: SparkSession) -> None:
    phis = "array(0.0, 0.1, 0.2, 0.3, 0.5, 0.6, 0.7, 0.72, 0.8, 1.0)"
    text = f"SELECT percentile(x, {phis}), percentile_approx(x, array(0, 0.2, 0.5, 0.7, 0.72, 1)) FROM {SPECIAL}"
    theirs, ours = SparkSession.sql(spark, text), installed.sql(text)
    assert fields(ours) == fields(theirs)
    expected, answers = theirs.first(), ours.first()
    assert expected is not None
    assert answers is not None
    np.testing.assert_array_equal(answers[0], expected[0])  # the same bits, and NaN in the same positions
    np.testing.assert_array_equal(answers[1], [-np.inf, 1.0, 3.0, np.inf, np.nan, np.nan])
    assert np.isnan(expected[1][-2:]).all()  # as above 5/7 here
    frame = SparkSession.sql(spark, f"SELECT * FROM {SPECIAL}")
    rows = [frame.agg(percentile_approx("x", [0.5, 1.0], nan="skip").alias("p"))]
    rows += [
        frame.agg(percentile_approx("x", [0.5, 1.0], nan=nan, streamed=True).alias("p")) for nan in ("last", "skip")
    ]
    results = [row["p"] for frame in rows for row in frame.collect()]
    np.testing.assert_array_equal(results, [[2.0, np.inf], [3.0, np.nan], [2.0, np.inf]])
    with pytest.raises(SparkRuntimeException, match="NaNError"):
        frame.agg(percentile_approx("x", 0.5, nan="refuse")).collect()
    with pytest.raises(errors.InvalidArgumentError, match="nan='drop'"):
        percentile_approx("x", 0.5, nan="drop")


def test_windows_filters_and_distinct(spark: SparkSession, installed: SparkSession, frame: DataFrame) -> None:
    """Query small groups, for which Spark's own sketch is exact."""
    text = """
        WITH few AS (SELECT k, id % 7 AS id, day FROM typed WHERE id < 60)  -- percentile(id, 0.5) in a comment
        SELECT k, id, percentile_approx(day, 0.5) OVER (PARTITION BY k) AS p,
            percentile_approx(id, array(0.1, 0.9), 100) OVER w, percentile(id, 0.3) OVER w,
            percentile(id, 0.5) FILTER (WHERE id > 2) OVER (PARTITION BY k), 'percentile(x, 0.5)' AS text
        FROM few WINDOW w AS (PARTITION BY k ORDER BY id ROWS BETWEEN 3 PRECEDING AND CURRENT ROW)
        ORDER BY ALL
    """
    theirs, ours = SparkSession.sql(spark, text), installed.sql(text)
    assert fields(ours) == fields(theirs)
    assert ours.collect() == theirs.collect()
    over = Window.partitionBy("k").orderBy("id").rowsBetween(-2, 0)
    few = frame.where("id < 30")
    mine = few.select(
        "id", percentile_approx("day", 0.5, over=over).alias("a"), percentile("id", [0.5], over=over).alias("b")
    )
    own = few.select(
        "id", F.percentile_approx("day", 0.5).over(over).alias("a"), F.percentile("id", [0.5]).over(over).alias("b")
    )
    assert mine.orderBy("id").collect() == own.orderBy("id").collect()
    with pytest.raises(AnalysisException):  # over() of a Column is for single functions; over= is for these
        few.select(percentile_approx("id", 0.5).over(over)).collect()
    with pytest.raises(errors.InvalidArgumentError, match="has no windows"):
        percentile_approx("id", 0.5, over=over, streamed=True)


def test_other_clauses_and_constants(spark: SparkSession, installed: SparkSession, frame: DataFrame) -> None:
    text = """
        SELECT k, approx_percentile(DISTINCT id % 7, 0.25D + 0.25D, 200 + 800), percentile(DISTINCT id % 7, :half) AS h,
            Percentile_Approx(id, array(0.1, :half)) FILTER (WHERE id > 100), percentile(id, '0.5') + 1,
            (SELECT percentile(id, 0.1) FROM typed), count(*), percentile_approx(NULL, 0.5)
        FROM typed WHERE id < 300 GROUP BY k HAVING percentile_approx(id, 0.5) > 0 ORDER BY k
    """
    theirs, ours = SparkSession.sql(spark, text, {"half": 0.5}), installed.sql(text, {"half": 0.5})
    assert fields(ours) == fields(theirs)
    assert ours.collect() == theirs.collect()
    ordered = "SELECT k, percentile(id, 0.5) FROM typed GROUP BY k ORDER BY percentile_approx(id, 0.5) DESC, k"
    assert installed.sql(ordered).collect() == SparkSession.sql(spark, ordered).collect()
    pivot = "SELECT * FROM (SELECT k, id FROM typed) PIVOT (percentile_approx(id, 0.5) FOR k IN (0, 1))"
    assert installed.sql(pivot).collect() == SparkSession.sql(spark, pivot).collect()
    installed.sql("CREATE OR REPLACE TEMP VIEW halves AS SELECT percentile(id, 0.5) AS p FROM typed")
    middle = installed.sql("SELECT percentile(id, 0.5) AS p FROM {frame}", frame=frame)
    assert installed.sql("SELECT p FROM halves").collect() == middle.collect() == [(299.5,)]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("percentile_approx(id, 1.5)", "VALUE_OUT_OF_RANGE"),
        ("percentile_approx(id, id)", "NON_FOLDABLE_INPUT"),
        ("percentile_approx(id, 0.5, 0)", "VALUE_OUT_OF_RANGE"),
        ("percentile_approx(id, NULL, 100)", "UNEXPECTED_NULL"),
        ("percentile_approx(id, array(0.5), NULL)", "UNEXPECTED_NULL"),
        ("percentile_approx(true, 0.5)", "UNEXPECTED_INPUT_TYPE"),
        ("percentile(true, 0.5)", "UNEXPECTED_INPUT_TYPE"),
        ("percentile(id)", "WRONG_NUM_ARGS"),
        ("percentile_approx(id, 0.5", "PARSE_SYNTAX_ERROR"),
    ],
)
def test_spark_reports_wrong_arguments(installed: SparkSession, frame: DataFrame, call: str, error: str) -> None:
    with pytest.raises(AnalysisException, match=error):
        installed.sql(f"SELECT {call} FROM typed")


def test_refusals(installed: SparkSession, frame: DataFrame) -> None:
    with pytest.raises(errors.TypeMismatchError, match="is double in Spark, and string here"):
        installed.sql("SELECT percentile_approx(CAST(id AS STRING), 0.5) FROM typed")
    with pytest.raises(SparkRuntimeException, match=r"TypeMismatchError: percentile_approx of Quantide needs .*string"):
        frame.agg(percentile_approx(F.col("id").cast("string"), 0.5)).collect()
    with pytest.raises(errors.InvalidArgumentError, match=r"not array\(\)"):
        installed.sql("SELECT percentile_approx(id, array()) FROM typed")
    with pytest.raises(errors.InvalidArgumentError, match="parameter without a name"):
        installed.sql("SELECT percentile(id + ?, 0.5) FROM typed", [1])
    with pytest.raises(errors.InvalidArgumentError, match="is not a constant"):
        installed.sql("CREATE TEMP VIEW none AS SELECT percentile_approx(id, id) AS p FROM typed")


def test_only_a_session_can_be_given() -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"install\(\) takes a SparkSession, not 'local'"):
        install("local")  # type: ignore[arg-type]


def test_uninstall_gives_sparks_own_back(spark: SparkSession, frame: DataFrame) -> None:
    text = "SELECT percentile_approx(wide, 0.5) AS p FROM typed"
    plain = spark.sql
    install(spark)
    install(spark)
    assert "sort_array" in spark.sql(text)._jdf.queryExecution().toString()
    uninstall(spark)
    uninstall(spark)
    assert spark.sql == plain
    assert "sort_array" not in spark.sql(text)._jdf.queryExecution().toString()


# The cases of Spark's own suites: ApproximatePercentileQuerySuite and PercentileQuerySuite


def test_cases_of_sparks_suites(installed: SparkSession) -> None:
    """Answers of Spark's tests, whose data are few enough for its sketch to be exact, in one query for each table."""
    cases: dict[str, tuple[str, tuple[Any, ...]]] = {
        "single percentages": (
            "percentile_approx(col, 0.25), percentile_approx(col, 0.5), percentile_approx(col, 0.75d), "
            "percentile_approx(col, 0.0), percentile_approx(col, 1.0), percentile_approx(col, 0), "
            "percentile_approx(col, 1), percentile_approx(col, array(0.25 + 0.25D), 200 + 800), sum(col)",
            (250, 500, 750, 1, 1000, 1, 1000, [500], 500500),
        ),
        "types": (
            "percentile_approx(CAST(col AS DECIMAL(38, 18)), array(0.25, 0.75D))[1] = 750, "
            "percentile_approx(date_from_unix_date(col), array(0.25, 0.5))[1] = DATE'1971-05-16', "
            "percentile_approx(timestamp_micros(col), 0.5) = TIMESTAMP'1970-01-01 00:00:00.0005'",
            (True, True, True),
        ),
        "accuracies": (
            ", ".join(f"percentile_approx(col, {p}/1000, {a})" for p in (100, 314, 777) for a in (1, 100, 10000)),
            (100, 100, 100, 314, 314, 314, 777, 777, 777),
        ),
    }
    source = "(SELECT CAST(id AS INT) AS col FROM range(1, 1001))"
    calls = ", ".join(text for text, _ in cases.values())
    row = installed.sql(f"SELECT {calls} FROM {source}").first()
    assert row is not None
    assert tuple(row) == tuple(value for _, expected in cases.values() for value in expected)
    small = {
        "percentile_approx(col, array(0.01, 0.1, 0.11)) FROM range(1, 11) t(col)": [1, 1, 2],
        "percentile_approx(col, array(0.5)) FROM VALUES (1), (1), (2), (1), (1), (3), (1), (1), (4), (1) t(col)": [1],
        "ROUND(PERCENTILE_APPROX(2150 / 1000.0, 0.95), 3) = 2.15": True,
        "percentile_approx(c, 0.5) = INTERVAL '16-8' YEAR TO MONTH FROM VALUES (INTERVAL '100' MONTH), "
        "(INTERVAL '200' MONTH), (INTERVAL '300' MONTH) t(c)": True,
        "CAST(percentile(c, 0.5) AS STRING) FROM VALUES (INTERVAL '100' MONTH), (INTERVAL '300' MONTH) t(c)": (
            "INTERVAL '16-8' YEAR TO MONTH"
        ),
        "CAST(percentile(c, 0.5) AS STRING) FROM VALUES (INTERVAL '100' SECOND), (INTERVAL '300' SECOND) t(c)": (
            "INTERVAL '0 00:03:20' DAY TO SECOND"
        ),
        "percentile(col, 0.3) FROM VALUES (0), (10) t(col)": 3.0,
        "percentile(col, array(0.25, 0.75)) FROM VALUES (0), (10) t(col)": [2.5, 7.5],
        "percentile_approx(col, 0.5) FROM VALUES (1) t(col) WHERE col > 1": None,
        "percentile(col, 0.5) FROM VALUES (1) t(col) WHERE col > 1": None,
    }
    text = ", ".join(f"(SELECT {case})" for case in small)
    answers = installed.sql(f"SELECT {text}").first()
    assert answers is not None
    assert list(answers) == list(small.values())
    assert installed.sql("SELECT percentile_approx(c, 0.5) FROM VALUES (1) t(c) WHERE c > 1 GROUP BY c").collect() == []


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE percentile (a INT, b INT)",
        "INSERT INTO percentile (a, b) VALUES (1, 2)",
        "CREATE TABLE IF NOT EXISTS percentile (a INT, b INT)",
        "CREATE VIEW percentile (a, b) AS SELECT 1, 2",
        "WITH percentile (a, b) AS (SELECT 1, 2) SELECT * FROM percentile",
        "SELECT * FROM VALUES (1, 2) AS percentile (a, b)",
    ],
)
def test_tables_may_be_called_percentile(text: str) -> None:
    def read(percentage: str) -> PercentileQuery:
        raise AssertionError(f"{percentage} was taken for a percentage")

    assert rewrite_percentiles(text, read) == text
