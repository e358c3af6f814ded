"""Replacement of percentile_approx, approx_percentile and percentile by name in the SQL text of a session."""

from typing import Any
from weakref import WeakSet

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from quantide.errors import InvalidArgumentError, TypeMismatchError
from quantide.spark.percentile_rewrite import is_query, rewrite_percentiles
from quantide.spark.sorted_percentiles import PercentileQuery, read_literal

_installed: WeakSet[SparkSession] = WeakSet()


def install(spark: SparkSession) -> None:
    """Replace percentile_approx, approx_percentile and percentile in the text that spark.sql() of this session gets.

    Results have the names and types of Spark's own. The text is rewritten, because a function of a session has one type
    for all arguments, and cannot be used beside other aggregates. Calls in selectExpr() and expr() and the functions of
    pyspark.sql.functions stay Spark's own; quantide.spark.compat has functions for Columns.
    """
    if not callable(getattr(spark, "sql", None)):
        raise InvalidArgumentError(f"install() takes a SparkSession, not {spark!r}")
    if spark in _installed:
        return
    own = spark.sql

    def sql(sqlQuery: str, args: Any = None, **frames: Any) -> DataFrame:
        return _run(own, sqlQuery, args, frames)

    setattr(spark, "sql", sql)  # noqa: B010 - an attribute of the instance hides the method
    _installed.add(spark)


def uninstall(spark: SparkSession) -> None:
    """Give a session its own functions back; without effect if nothing was installed."""
    if spark in _installed:
        delattr(spark, "sql")
        _installed.discard(spark)


def _run(own: Any, text: str, args: Any, frames: dict[str, Any]) -> DataFrame:
    """Run a statement with its calls replaced; Spark first checks a query as it is written."""
    expected = own(text, args, **frames) if is_query(text) else None
    rewritten = rewrite_percentiles(text, lambda percentage: _read_percentage(own, percentage, args))
    if expected is None or rewritten == text:
        result: DataFrame = own(rewritten, args, **frames) if expected is None else expected
        return result
    return _as_expected(own(rewritten, args, **frames), expected)


def _as_expected(result: DataFrame, expected: DataFrame) -> DataFrame:
    """Return a result under the names of the original; raise if a type differs."""
    for ours, theirs in zip(result.schema, expected.schema, strict=True):
        if ours.dataType != theirs.dataType:
            raise TypeMismatchError(
                f"{theirs.name} is {theirs.dataType.simpleString()} in Spark, and {ours.dataType.simpleString()} here; "
                "cast the values to numbers, dates, timestamps or intervals, or write system.builtin.percentile_approx"
            )
    return result.toDF(*expected.columns)


def _read_percentage(own: Any, percentage: str, args: Any) -> PercentileQuery:
    """Read a literal; let Spark compute any other constant."""
    literal = read_literal(percentage)
    if literal is not None:
        return _checked(*literal, percentage)
    try:
        value = own(f"SELECT {percentage}", args).collect()[0][0]
    except AnalysisException as error:
        raise InvalidArgumentError(f"percentage {percentage} is not a constant, such as 0.5: {error}") from error
    several = isinstance(value, list)
    return _checked(value if several else [value], several, percentage)


def _checked(numbers: list[Any], several: bool, text: str) -> PercentileQuery:
    phis = [float(number) for number in numbers if number is not None]
    if not phis or len(phis) < len(numbers) or not all(0 <= phi <= 1 for phi in phis):
        raise InvalidArgumentError(f"percentage must be a number from 0 to 1, or an array of those, not {text}")
    return PercentileQuery(phis, several)
