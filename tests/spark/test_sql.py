"""The SQL functions: schemas first, then answers within their bounds of the exact ranks."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession

from quantide import StreamSketch, Summary, errors
from quantide.spark.sql import (
    qt_bounds,
    qt_merge,
    qt_quantile,
    qt_rank,
    qt_summary,
    qt_weighted_summary,
    register,
    thin,
)
from tests.oracle import target_rank

EPS = 0.01
PHIS = (0.001, 0.25, 0.5, 0.99, 1.0)
BOUNDS = "struct<value:double,rank_lo:bigint,rank_hi:bigint,n:bigint,error:double>"
ROWS = 30_000


@pytest.fixture(scope="module")
def sql(spark: SparkSession) -> Iterator[SparkSession]:
    """A session that knows the functions, and a view `t` of three groups: 20,000 values, 9,900, and 100 nulls."""
    register(spark)
    table = pa.table(dict(zip(("k", "v", "i"), columns(), strict=True)))
    spark.createDataFrame(table).repartition(3).createOrReplaceTempView("t")
    yield spark
    spark.catalog.dropTempView("t")


def columns() -> tuple[list[str], list[float | None], list[int]]:
    rng = np.random.default_rng(3)
    keys = ["a"] * 20_000 + ["b"] * 9_900 + ["none"] * 100
    values: list[float | None] = np.round(rng.normal(size=ROWS), 2).tolist()
    values[-100:] = [None] * 100
    values[0] = None
    return keys, values, rng.integers(-500, 500, ROWS).tolist()


def group(key: str, column: int = 1) -> np.ndarray[Any, Any]:
    """The values of a key that are not null, sorted."""
    data = columns()
    return np.sort([x for k, x in zip(data[0], data[column], strict=True) if k == key and x is not None])


def rows(frame: DataFrame, schema: str) -> list[Any]:
    assert frame.schema.simpleString() == schema
    return frame.collect()


def assert_answers(data: np.ndarray[Any, Any], phi: float, bounds: Any, eps: float = EPS) -> None:
    n, target = len(data), target_rank(phi, len(data))
    assert bounds["n"] == n
    assert bounds["rank_lo"] <= np.searchsorted(data, bounds["value"], "right")
    assert bounds["rank_hi"] >= np.searchsorted(data, bounds["value"], "left") + 1
    assert bounds["value"] in data
    certified = max(target - bounds["rank_lo"], bounds["rank_hi"] - target)
    assert bounds["error"] == certified / n <= eps


def test_a_summary_for_each_group_within_eps(sql: SparkSession) -> None:
    answers = rows(
        sql.sql(f"SELECT k, qt_summary(v, {EPS}) AS s FROM t GROUP BY k ORDER BY k"), "struct<k:string,s:binary>"
    )
    summaries = {row["k"]: Summary.from_bytes(bytes(row["s"])) for row in answers}
    assert [(k, s.n, s.nulls) for k, s in summaries.items()] == [("a", 19_999, 1), ("b", 9_900, 0), ("none", 0, 100)]
    assert all(s.error <= EPS and str(s.type) == "float64" for s in summaries.values())
    ends = {k: 4 * np.log(2 + 10 * EPS * s.n) / (10 * EPS) for k, s in summaries.items()}  # what the tail may add
    assert all(len(s) <= 2 / EPS + 1 + ends[k] and (s.tail or 0) <= 10 * EPS for k, s in summaries.items())
    assert all(s.tail is not None for s in summaries.values())
    plain = sql.sql(f"SELECT qt_summary(v, {EPS}, CAST(NULL AS DOUBLE)) AS s FROM t GROUP BY k").collect()
    for without_tail in [Summary.from_bytes(bytes(row["s"])) for row in plain]:
        assert without_tail.error <= EPS
        assert len(without_tail) <= 2 / EPS + 1
        assert without_tail.n == 0 or without_tail.tail is None


def test_bounds_hold_the_exact_ranks(sql: SparkSession) -> None:
    phis = ", ".join(f"({phi}D)" for phi in PHIS)
    query = f"""
        SELECT k, p, qt_bounds(s, p) AS b, qt_quantile(s, p) AS q
        FROM (SELECT k, qt_summary(v, {EPS}) AS s FROM t GROUP BY k) CROSS JOIN (VALUES {phis} AS phis(p))
    """
    answers = rows(sql.sql(query), f"struct<k:string,p:double,b:{BOUNDS},q:double>")
    assert len(answers) == 3 * len(PHIS)
    for row in answers:
        if row["k"] == "none":
            assert row["b"] is None
            assert row["q"] is None
        else:
            assert row["q"] == row["b"]["value"]
            assert_answers(group(row["k"]), row["p"], row["b"])


def test_rank_bounds_hold_the_number_of_values_up_to_x(sql: SparkSession) -> None:
    query = f"""
        SELECT k, x, qt_rank(s, x) AS r FROM (SELECT k, qt_summary(v, {EPS}) AS s FROM t GROUP BY k)
        CROSS JOIN (VALUES (-9D), (-0.5D), (0D), (0.125D), (9D), (NULL) AS xs(x))
    """
    answers = rows(sql.sql(query), "struct<k:string,x:double,r:struct<lo:bigint,hi:bigint>>")
    for row in answers:
        if row["k"] == "none" or row["x"] is None:
            assert row["r"] is None
            continue
        data = group(row["k"])
        assert row["r"]["lo"] <= np.searchsorted(data, row["x"], "right") <= row["r"]["hi"]
        assert row["r"]["hi"] - row["r"]["lo"] <= 2 * EPS * len(data)


@pytest.mark.parametrize("kind", ["INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10, 2)"])
def test_rank_compares_any_number_with_any_summary(sql: SparkSession, kind: str) -> None:
    expected_ranks = {"3": 4, "3.5": 4, "2.999D": 3, "-1e300D": 0, "1e300D": 10, "CAST('Infinity' AS DOUBLE)": 10}
    ranks = ", ".join(f"qt_rank(s, {x}) AS r{i}" for i, x in enumerate(expected_ranks))
    query = f"SELECT {ranks} FROM (SELECT qt_summary(CAST(id AS {kind}), 0.01) AS s FROM range(10))"
    fields = ",".join(f"r{i}:struct<lo:bigint,hi:bigint>" for i in range(len(expected_ranks)))
    (row,) = rows(sql.sql(query), f"struct<{fields}>")
    assert [tuple(ranks) for ranks in row] == [(expected, expected) for expected in expected_ranks.values()]


def test_one_summary_of_several_is_that_of_all(sql: SparkSession) -> None:
    query = f"""
        SELECT qt_bounds(qt_merge(s), 0.9) AS merged, qt_bounds(qt_merge(s, 0.05), 0.9) AS thinned,
               octet_length(qt_merge(s, 0.05)) < octet_length(qt_merge(s)) AS smaller
        FROM (SELECT i % 7 AS part, qt_summary(i, {EPS}) AS s FROM t GROUP BY i % 7)
    """
    (row,) = rows(sql.sql(query), f"struct<merged:{BOUNDS},thinned:{BOUNDS},smaller:boolean>")
    data = np.sort(columns()[2])
    assert_answers(data, 0.9, row["merged"])
    assert_answers(data, 0.9, row["thinned"], 0.05)
    assert row["smaller"]


def test_null_summaries_are_skipped_and_nothing_but_nulls_is_null(sql: SparkSession) -> None:
    query = """
        SELECT qt_quantile(qt_merge(s), 1) AS q, qt_merge(IF(false, s, NULL)) AS none
        FROM (SELECT qt_summary(id, 0.1) AS s FROM range(5) UNION ALL SELECT CAST(NULL AS BINARY))
    """
    (row,) = rows(sql.sql(query), "struct<q:double,none:binary>")
    assert tuple(row) == (4.0, None)


def test_null_questions_have_null_answers(sql: SparkSession) -> None:
    query = """
        SELECT id, qt_quantile(s, p) AS q, qt_bounds(s, p) AS b FROM VALUES (1, 0.5D), (2, NULL), (3, 1D) AS q(id, p)
        CROSS JOIN (SELECT qt_summary(id, 0.1) AS s FROM range(3)) ORDER BY id
    """
    answers = rows(sql.sql(query), f"struct<id:int,q:double,b:{BOUNDS}>")
    assert [row["q"] for row in answers] == [1.0, None, 2.0]
    assert answers[1]["b"] is None


def test_several_summaries_in_one_query_and_over_windows(sql: SparkSession) -> None:
    query = f"SELECT qt_summary(v, {EPS}) AS v, qt_summary(i, {EPS}) AS i FROM t WHERE k = 'b'"
    (row,) = rows(sql.sql(query), "struct<v:binary,i:binary>")
    assert [str(Summary.from_bytes(bytes(blob)).type) for blob in row] == ["float64", "int64"]
    query = "SELECT qt_quantile(qt_summary(id, 0.1) OVER (PARTITION BY id % 2), 1) AS q FROM range(4)"
    assert sorted(row["q"] for row in rows(sql.sql(query), "struct<q:double>")) == [2.0, 2.0, 3.0, 3.0]


def test_a_global_summary_of_no_rows_is_no_row(sql: SparkSession) -> None:
    """Spark's own aggregates give one row; its Python aggregates are not called. docs/spark-sql.md says so."""
    assert rows(sql.sql("SELECT qt_summary(v, 0.1) AS s FROM t WHERE false"), "struct<s:binary>") == []


def test_decimals_are_exact_inside_and_doubles_outside(sql: SparkSession) -> None:
    query = "SELECT qt_summary(CAST(id / 100 AS DECIMAL(10, 2)), 0.01) AS s FROM range(50)"
    (row,) = rows(sql.sql(query), "struct<s:binary>")
    assert Summary.from_bytes(bytes(row["s"])).max == Decimal("0.49")
    query = f"SELECT qt_quantile(s, 0.3) AS q, qt_rank(s, 0.07) AS r FROM ({query})"
    (row,) = rows(sql.sql(query), "struct<q:double,r:struct<lo:bigint,hi:bigint>>")
    assert row["q"] == 0.14
    assert tuple(row["r"]) == (8, 8)


def test_timestamps_have_summaries_and_ranks_and_no_double(sql: SparkSession) -> None:
    summary = "SELECT qt_summary(timestamp_seconds(id), 0.1) AS s FROM range(10)"
    (row,) = rows(
        sql.sql(f"SELECT qt_rank(s, timestamp_seconds(3.5)) AS r FROM ({summary})"),
        "struct<r:struct<lo:bigint,hi:bigint>>",
    )
    assert row["r"]["lo"] <= 4 <= row["r"]["hi"]
    with pytest.raises(PythonException, match=r"TypeMismatchError: a quantile of timestamp\[us.*unix_micros"):
        sql.sql(f"SELECT qt_quantile(s, 0.5) FROM ({summary})").collect()


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("SELECT qt_summary(CAST('NaN' AS DOUBLE), 0.1)", "NaNError: nan among the values"),
        ("SELECT qt_summary(id, 1.5) FROM range(3)", r"InvalidArgumentError: eps must be in \(0, 1\), not 1.5"),
        ("SELECT qt_quantile(X'00', 0.5)", "CorruptBytesError: these 1 bytes are not a summary"),
    ],
)
def test_errors_reach_the_driver_with_their_names(sql: SparkSession, query: str, error: str) -> None:
    with pytest.raises(PythonException, match=error):
        sql.sql(query).collect()


SUMMARY = pa.array([Summary.of([1.0, 2.0]).to_bytes()])
TENTH = pa.array([0.1, 0.1])


@pytest.mark.parametrize(
    ("function", "arguments", "error", "message"),
    [
        (qt_summary, ([1.0, 2.0], [0.1, 0.2]), errors.InvalidArgumentError, "eps must be one number"),
        (qt_summary, ([1.0, 2.0], [None, 0.1]), errors.InvalidArgumentError, "eps must be one number"),
        (qt_summary, (["a", "b"], TENTH), errors.TypeMismatchError, "Arrow type string"),
        (qt_summary, ([float("nan"), 1.0], TENTH), errors.NaNError, "no rank"),
        (qt_merge, ([b"junk"],), errors.CorruptBytesError, "not a summary"),
        (qt_merge, (SUMMARY, [2]), errors.InvalidArgumentError, "eps must be in"),
        (qt_quantile, (SUMMARY, [-0.1]), errors.InvalidArgumentError, "phi must be in"),
        (qt_bounds, (SUMMARY, [1.5]), errors.InvalidArgumentError, "phi must be in"),
        (qt_rank, (SUMMARY, ["x"]), errors.TypeMismatchError, "cannot be compared"),
        (qt_rank, (SUMMARY, [float("nan")]), errors.InvalidArgumentError, "nan has no rank"),
    ],
)
def test_errors_are_named(function: Any, arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        function(*[pa.array(argument) for argument in arguments])


@pytest.mark.parametrize("eps", [0.3, 0.05, 0.01, 0.007, 0.001])
@pytest.mark.parametrize("n", [1, 2, 99, 100, 101, 5_000])
def test_thinning_keeps_within_eps(eps: float, n: int, rng: np.random.Generator) -> None:
    exact = Summary.of(rng.normal(size=n))
    small = thin(exact, eps)
    assert small.error <= eps
    assert len(small) <= 1 / eps + 2
    coarse = Summary.merge(*[thin(Summary.of(rng.normal(size=n)), eps) for _ in range(9)])
    assert thin(coarse, 3 * eps / 2).error <= 3 * eps / 2
    assert thin(coarse, coarse.error / 2) == coarse


def test_thinning_leaves_a_sketch_of_no_values_alone() -> None:
    assert thin(StreamSketch(0.1).summary(), 0.1).n == 0


@pytest.mark.parametrize("power", [0, 9])
def test_weighted_summaries_are_those_of_repeated_rows(power: int, sql: SparkSession) -> None:
    query = f"SELECT qt_weighted_summary(v, abs(i) * {10**power}, {EPS}) AS s FROM t WHERE k = 'b'"
    bounds = sql.sql(f"SELECT qt_bounds(s, 0.25) AS a, qt_bounds(s, 0.999) AS b FROM ({query})").first()
    assert bounds is not None
    keys, values, weights = (np.array(column, dtype=object) for column in columns())
    own = keys == "b"
    repeated = np.sort(np.repeat(values[own].astype(float), np.abs(weights[own].astype(int))))
    for answer, phi in ((bounds["a"], 0.25), (bounds["b"], 0.999)):
        n, each = answer["n"], 10**power
        assert n == len(repeated) * each
        low = np.searchsorted(repeated, answer["value"], "left") * each + 1
        high = np.searchsorted(repeated, answer["value"], "right") * each
        assert low <= high
        assert (low <= answer["rank_hi"], answer["rank_lo"] <= high) == (True, True)
        assert answer["error"] <= EPS
        assert low - EPS * n <= phi * n <= high + EPS * n


def test_bad_weights_of_sql() -> None:
    x, eps = pa.array([1.0, 2.0]), pa.array([0.1, 0.1])
    for weights in ([1, -1], [1, None], [1, 0.5]):
        with pytest.raises(errors.InvalidArgumentError, match="weight"):
            qt_weighted_summary(x, pa.array(weights), eps)
    with pytest.raises(errors.InvalidArgumentError, match="write qt_weighted_summary"):
        qt_weighted_summary(x, eps)


def test_summaries_of_several_types_in_a_column(sql: SparkSession) -> None:
    stored = [Summary.of([1.5, 2.5]), Summary.of([3, 4, 5]), None, Summary.of([7.5]), Summary.of(pa.nulls(2))]
    blobs = pa.array([None if one is None else one.to_bytes() for one in stored], pa.binary())
    assert qt_quantile(blobs, pa.array([1.0, 0.5, 0.5, 0.5, 0.5])).to_pylist() == [2.5, 4.0, None, 7.5, None]
    ranks = qt_rank(blobs, pa.array([2.0, 4.0, 4.0, None, 4.0])).to_pylist()
    assert ranks == [{"lo": 1, "hi": 1}, {"lo": 2, "hi": 2}, None, None, None]
    with pytest.raises(errors.TypeMismatchError, match="number 1 has values of type int64, the first"):
        qt_merge(blobs)
