"""Drop-in replacements for Spark's percentile_approx, percentile and approxQuantile. See docs/spark-sql.md.

>>> from quantide.spark.compat import percentile_approx  # instead of: from pyspark.sql.functions import ...
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, WindowSpec
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DoubleType, NumericType

from quantide.errors import InvalidArgumentError, TypeMismatchError
from quantide.sketches.stream_sketch import StreamSketch
from quantide.spark.batch_quantiles import quantiles
from quantide.spark.sorted_percentiles import PercentileQuery, read_literal
from quantide.spark.sql import to_doubles, typed_udf
from quantide.summary.ranks import target_ranks
from quantide.summary.summary import Summary
from quantide.summary.value_column import nan_error

MAX_ACCURACY = 2**31 - 1

Percentage = Column | float | Sequence[float]


def percentile_approx(
    col: Column | str,
    percentage: Percentage,
    accuracy: Column | int = 10000,
    *,
    nan: str = "last",
    over: WindowSpec | None = None,
    streamed: bool = False,
) -> Column:
    """As pyspark.sql.functions.percentile_approx: same arguments, name and type; every answer is exact.

    Spark collects and sorts the values of a group, or of each window that `over` defines. NaN are the largest values,
    as in Spark, unless nan is "skip" or "refuse". With streamed=True the values of a group pass through a sketch of
    bounded memory: answers are doubles within 1/accuracy, and Spark allows no other aggregate beside it, not even a
    second streamed one.
    """
    phis, several = _read_percentage(percentage)
    eps = 1 / max(2, _read_accuracy(accuracy))
    source = _apply_nan_policy(F.col(col) if isinstance(col, str) else col, nan)
    name = _column_text(F.percentile_approx(col, percentage, accuracy))
    if not streamed:
        return PercentileQuery(phis, several).approx_column(source, over).alias(name)
    if over is not None:
        raise InvalidArgumentError("streamed=True has no windows; leave out over= or streamed=")
    returned: DataType = ArrayType(DoubleType(), False) if several else DoubleType()
    answer: Column = typed_udf(_streamed(phis, several, eps), returned)(source).alias(name)
    return answer


def percentile(
    col: Column | str,
    percentage: Percentage,
    frequency: Column | int = 1,
    *,
    over: WindowSpec | None = None,
) -> Column:
    """As pyspark.sql.functions.percentile: same arguments, name, type and value, from sorted numbers.

    Spark's own function computes intervals, and everything if there is a frequency or a window.
    """
    phis, several = _read_percentage(percentage)
    own = F.percentile(col, percentage, frequency)
    if over is not None:
        return own.over(over)
    if isinstance(frequency, Column) or frequency != 1:
        return own
    source = F.col(col) if isinstance(col, str) else col
    return PercentileQuery(phis, several).exact_column(source).alias(_column_text(own))


@overload
def approxQuantile(df: DataFrame, col: str, probabilities: Sequence[float], relativeError: float) -> list[float]: ...
@overload
def approxQuantile(
    df: DataFrame, col: list[str] | tuple[str, ...], probabilities: Sequence[float], relativeError: float
) -> list[list[float]]: ...
def approxQuantile(
    df: DataFrame, col: str | list[str] | tuple[str, ...], probabilities: Sequence[float], relativeError: float
) -> list[float] | list[list[float]]:
    """As DataFrame.approxQuantile: a list for a name, a list of lists for several; nulls and NaN are ignored.

    relativeError 0 is exact. A column without any value gives an empty list.
    """
    names = [col] if isinstance(col, str) else list(col)
    phis = _read_probabilities(probabilities)
    error = _read_relative_error(relativeError)
    columns = _compute_quantiles(df, names, phis, error) if names and phis else [[] for _ in names]
    return columns[0] if isinstance(col, str) else columns


def _compute_quantiles(df: DataFrame, names: list[str], phis: list[float], error: float) -> list[list[float]]:
    distinct = sorted(set(phis))
    numbered = [str(i) for i in range(len(names))]
    exact = {"exact": True} if error == 0 else {"eps": min(error, 0.5)}
    rows = quantiles(_select_doubles(df, names), numbered, distinct, nan="skip", **exact).collect()
    values = {(row["column"], row["phi"]): row["value"] for row in rows if row["value"] is not None}
    return [[values[i, phi] for phi in phis if (i, phi) in values] for i in numbered]


def _select_doubles(df: DataFrame, names: list[str]) -> DataFrame:
    """Select columns as doubles, named by their positions: a name may occur twice."""
    selected = [df.select(name) for name in names]
    for name, one in zip(names, selected, strict=True):
        kind = one.schema.fields[0].dataType
        if len(one.columns) != 1 or not isinstance(kind, NumericType):
            raise TypeMismatchError(f"approxQuantile needs columns of numbers; {name!r} is {kind.simpleString()}")
    return df.select(*[F.col(name).cast("double").alias(str(i)) for i, name in enumerate(names)])


def _apply_nan_policy(source: Column, nan: str) -> Column:
    """Return a column with NaN as null, or one that raises; any type has a text, and only NaN has this one."""
    if nan not in ("last", "skip", "refuse"):
        raise InvalidArgumentError(f'nan={nan!r} is not a policy; use nan="last", nan="skip" or nan="refuse"')
    if nan == "last":
        return source
    refusal = F.lit(None) if nan == "skip" else F.raise_error(F.lit(f"NaNError: {nan_error()}"))
    return F.when(source.cast("string") == "NaN", refusal).otherwise(source)


def _streamed(phis: list[float], several: bool, eps: float) -> Callable[..., Any]:
    """Return a UDF over the batches of one group."""

    def percentile_approx(batches: Iterator[pa.Array]) -> Any:
        sketch = StreamSketch(eps, "skip")
        for batch in batches:
            sketch.update(batch)
        answers = _answers(sketch.summary(), phis)
        return answers if several or answers is None else answers[0]

    return percentile_approx


def _answers(summary: Summary, phis: list[float]) -> list[float] | None:
    """Return the answers as doubles; NaN, which the summary only counts, are the largest values."""
    total = summary.n + summary.nans
    if not total:
        return None
    ranks = target_ranks(phis, total)
    answers = np.full(len(phis), np.nan)
    numbers = ranks <= summary.n
    if numbers.any():
        values = pa.array(summary.quantiles((ranks[numbers] - 0.5) / summary.n), summary.type.arrow)
        answers[numbers] = to_doubles(values, summary.type).to_numpy()
    doubles: list[float] = answers.tolist()
    return doubles


def _read_phi(probability: Any) -> float:
    if isinstance(probability, bool) or not isinstance(probability, (int, float)) or not 0 <= probability <= 1:
        raise InvalidArgumentError(f"a probability must be a number from 0 to 1, not {probability!r}")
    return float(probability)


def _read_probabilities(probabilities: Any) -> list[float]:
    if not isinstance(probabilities, (list, tuple)):
        raise InvalidArgumentError(f"probabilities must be a list or a tuple, not {probabilities!r}")
    return [_read_phi(probability) for probability in probabilities]


def _read_percentage(percentage: Any) -> tuple[list[float], bool]:
    """Return the phis, and True if the result is an array."""
    several = isinstance(percentage, (list, tuple))
    if isinstance(percentage, Column):
        percentage, several = _read_literal(percentage)
    elif not several:
        percentage = [percentage]
    phis = _read_probabilities(percentage)
    if not phis:
        raise InvalidArgumentError("percentage is an empty list; name at least one, such as [0.5]")
    return phis, several


def _read_accuracy(accuracy: Any) -> int:
    if isinstance(accuracy, Column):
        accuracy = int(_read_literal(accuracy)[0][0])
    if isinstance(accuracy, bool) or not isinstance(accuracy, int) or not 0 < accuracy <= MAX_ACCURACY:
        raise InvalidArgumentError(f"accuracy must be a whole number from 1 to {MAX_ACCURACY}, not {accuracy!r}")
    return accuracy


def _read_relative_error(error: Any) -> float:
    if isinstance(error, bool) or not isinstance(error, (int, float)) or not error >= 0:
        raise InvalidArgumentError(f"relativeError must be a number that is not negative, not {error!r}")
    return float(error)


def _read_literal(column: Column) -> tuple[list[float], bool]:
    """Return the numbers of a column such as lit(0.5) or array(lit(0.5), lit(0.9)), and True if it is an array."""
    literal = read_literal(_column_text(column))
    if literal is None:
        raise InvalidArgumentError(f"{_column_text(column)} is not a constant; give percentage and accuracy as numbers")
    return literal


def _column_text(column: Column) -> str:
    """Return the name that Spark gives a column in a result."""
    return str(column).removeprefix("Column<'").removesuffix("'>")
