"""SQL text as a filter on files selects the rows that Spark itself selects."""

import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from quantide.errors import InvalidArgumentError
from quantide.spark import quantiles
from quantide.spark.sql_expressions import parse_condition

UTC = datetime.UTC
TABLE = pa.table(
    {
        "i": pa.array([1, 2, None, 4, -5, 2**53 + 1], pa.int64()),
        "x": pa.array([1.5, -2.0, 3.25, None, 0.0, 1e300]),
        "d": pa.array([Decimal("1.10"), None, Decimal("-3.00"), Decimal("2.20"), Decimal("0"), Decimal("9.99")]),
        "s": pa.array(["a", "b%", None, "abc", "A", ""]),
        "day": pa.array([datetime.date(2026, 1, n) for n in range(1, 7)]),
        "at": pa.array([datetime.datetime(2026, 1, n, 12, tzinfo=UTC) for n in range(1, 7)], pa.timestamp("us", "UTC")),
        "ok": pa.array([True, False, None, True, False, True]),
        "two words": pa.array([1, 2, 3, 4, 5, 6]),
    }
)
TEXTS = [
    "i = 2",
    "i <> 2",
    "i != 2 AND NOT x > 1",
    "NOT (i IN (1, 2))",
    "i NOT IN (1, 2) OR s IS NULL",
    "i BETWEEN -5 AND 2",
    "i NOT BETWEEN 0 AND 2",
    "i > 1.5",
    "i = 9007199254740993",
    "x >= -2 AND x < 1e10",
    "3 > x",
    "d = 1.10",
    "d > 1.1 OR d < -2",
    "s = 'a'",
    "S = 'a'",
    "s LIKE 'a%'",
    "s NOT LIKE 'a%'",
    "s IS NOT NULL",
    "day >= '2026-01-03'",
    "day = DATE '2026-01-02'",
    "day BETWEEN '2026-01-02' AND '2026-01-04'",
    "at > '2026-01-03 12:00:00'",
    "at <= TIMESTAMP '2026-01-03 13:00:00'",
    "at < DATE '2026-01-03'",
    "ok",
    "NOT ok",
    "ok = false",
    "`two words` > 3",
    "i < `two words`",
    "(i = 1 OR i = 4) AND (x IS NULL OR x > 1)",
    "true",
]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("condition") / "t.parquet"
    pq.write_table(TABLE, file)
    return str(file)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_spark_keeps_the_same_rows(spark: SparkSession, path: str, zone: str) -> None:
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        frame = spark.read.parquet(path)
        selected = frame.agg(
            *[F.sort_array(F.collect_list(F.expr(f"if({text}, `two words`, null)"))) for text in TEXTS]
        )
        expected = dict(zip(TEXTS, selected.collect()[0], strict=True))
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    rows = {text: TABLE.filter(parse_condition(text, TABLE.schema, zone))["two words"].to_pylist() for text in TEXTS}
    assert rows == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("i + 1 > 2", "is not supported on files"),
        ("upper(s) = 'A'", "is not supported on files"),
        ("i IN (SELECT 1)", "is not supported on files"),
        ("nothing > 1", "there is no column 'nothing'"),
        ("day > 'tomorrow'", "'tomorrow' is not a date32"),
        ("at > 'noon'", "'noon' is not a timestamp"),
        ("i >", "is not SQL"),
        ("i BETWEEN SYMMETRIC 4 AND 1", "is not supported on files"),
        ("s LIKE 'a!%' ESCAPE '!'", "is not supported on files"),
        ("i <=> 1", "is not supported on files"),
        ("i = 99999999999999999999", "cannot be compared"),
        ("s", "is not supported"),
    ],
)
def test_unsupported_conditions_are_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        parse_condition(text, TABLE.schema, "UTC")


def test_a_column_of_sparks_is_for_dataframes(spark: SparkSession, path: str) -> None:
    with pytest.raises(InvalidArgumentError, match="SQL text"):
        quantiles(path, "x", 0.5, where=F.col("i") > 1)


def test_views_and_files_that_lack_the_column(spark: SparkSession, tmp_path: Path) -> None:
    views = pa.table({"v": [1.0, 2.0, 3.0], "k": pa.array(["a", "b", "a"], pa.string_view())})
    pq.write_table(views, tmp_path / "0.parquet")
    pq.write_table(pa.table({"v": [4.0, 5.0], "k": pa.array(["a", "c"], pa.large_string())}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"v": [6.0]}), tmp_path / "2.parquet")
    for where in ("k = 'a'", pc.field("k") == "a"):
        rows = quantiles(str(tmp_path), "v", [1.0], by="k", where=where).collect()
        assert [(row.k, row.value, row.n) for row in rows] == [("a", 4.0, 3)]
