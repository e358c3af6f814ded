"""Drop-ins for Spark's percentile_approx and DataFrame.approxQuantile: a job changes one import. See docs/spark-sql.md.

>>> from quantide.spark.compat import percentile_approx  # instead of: from pyspark.sql.functions import ...
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DoubleType, NumericType

from quantide.errors import InvalidArgumentError, TypeMismatchError
from quantide.sketches.stream import StreamSketch
from quantide.spark.batch import quantiles
from quantide.spark.sql import at_rows, doubles, typed_udf
from quantide.summary.column import check_nan_policy
from quantide.summary.summaries import Summaries

MOST_ACCURATE = 2**31 - 1
MINIMUM = float(np.finfo(np.float64).tiny)  # the phi whose target is rank 1 whatever n is
NUMBER = r"[-+]?[0-9.]+(?:E-?[0-9]+)?"
CONSTANT = re.compile(rf"(?P<one>{NUMBER})|array\((?P<list>{NUMBER}(?:, {NUMBER})*)\)")

Percentage = Column | float | Sequence[float]


def percentile_approx(
    col: Column | str,
    percentage: Percentage,
    accuracy: Column | int = 10000,
    *,
    nan: str = "refuse",
    streamed: bool = False,
) -> Column:
    """As pyspark.sql.functions.percentile_approx: same arguments, name and shape; every answer within 1/accuracy.

    It may stand beside any other aggregates, and so Spark collects the values of a group for it. With
    streamed=True they are taken in as they come, in bounded memory, but Spark then allows no other aggregate
    beside it, not even a second streamed one. Values come as doubles; NaN is refused unless nan="skip".
    """
    phis, several = _phis(percentage)
    eps = 1 / max(2, _accuracy(accuracy))
    check_nan_policy(nan)
    source = F.col(col) if isinstance(col, str) else col
    returned: DataType = ArrayType(DoubleType(), False) if several else DoubleType()
    if streamed:
        found = typed_udf(_streamed(phis, several, eps, nan), returned)(source)
    else:
        found = typed_udf(_collected(phis, several, eps, nan), returned)(F.collect_list(source))
    named: Column = found.alias(_text(F.percentile_approx(source, percentage, accuracy)))
    return named


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
    phis = _list_of(probabilities)
    error = _relative_error(relativeError)
    columns = _values_of(df, names, phis, error) if names and phis else [[] for _ in names]
    return columns[0] if isinstance(col, str) else columns


def _values_of(df: DataFrame, names: list[str], phis: list[float], error: float) -> list[list[float]]:
    asked = sorted(set(phis))
    numbered = [str(i) for i in range(len(names))]
    exact = {"exact": True} if error == 0 else {"eps": min(error, 0.5)}
    rows = quantiles(_doubles_of(df, names), numbered, asked, nan="skip", **exact).collect()
    values = {(row["column"], row["phi"]): row["value"] for row in rows if row["value"] is not None}
    return [[values[i, phi] for phi in phis if (i, phi) in values] for i in numbered]


def _doubles_of(df: DataFrame, names: list[str]) -> DataFrame:
    """The columns as doubles, named by their places: a name may occur twice."""
    chosen = [df.select(name) for name in names]
    for name, one in zip(names, chosen, strict=True):
        kind = one.schema.fields[0].dataType
        if len(one.columns) != 1 or not isinstance(kind, NumericType):
            raise TypeMismatchError(f"approxQuantile needs columns of numbers; {name!r} is {kind.simpleString()}")
    return df.select(*[F.col(name).cast("double").alias(str(i)) for i, name in enumerate(names)])


def _collected(phis: list[float], several: bool, eps: float, nan: str) -> Callable[..., Any]:
    """A function of lists, one a group: all of them are sorted and asked in one call."""

    def percentile_approx(groups: pa.Array) -> pa.Array:
        held = Summaries.of(pc.list_parent_indices(groups), groups.flatten(), eps, nan)
        rows = held.keys.filter(pa.array(held.n > 0)).to_numpy(zero_copy_only=False)
        return at_rows(_answers(held, phis, several), rows, len(groups))

    return percentile_approx


def _answers(held: Summaries, phis: list[float], several: bool) -> pa.Array:
    """What each summary that has values answers, as a double or a list of them."""
    values = doubles(held.answer(phis)["value"].combine_chunks(), held.type).drop_null()
    if not several:
        return values
    return pa.FixedSizeListArray.from_arrays(values, len(phis)).cast(pa.list_(pa.float64()))


def _streamed(phis: list[float], several: bool, eps: float, nan: str) -> Callable[..., Any]:
    """A function of one group's values as they come."""

    def percentile_approx(batches: Iterator[pa.Array]) -> Any:
        sketch = StreamSketch(eps, nan)
        for batch in batches:
            sketch.update(batch)
        held = Summaries.from_binary([0], [sketch.summary().to_bytes()])
        return _answers(held, phis, several)[0] if sketch.n else None

    return percentile_approx


def _phi(probability: Any) -> float:
    if isinstance(probability, bool) or not isinstance(probability, (int, float)) or not 0 <= probability <= 1:
        raise InvalidArgumentError(f"a probability must be a number from 0 to 1, not {probability!r}")
    return max(float(probability), MINIMUM)


def _list_of(probabilities: Any) -> list[float]:
    if not isinstance(probabilities, (list, tuple)):
        raise InvalidArgumentError(f"probabilities must be a list or a tuple, not {probabilities!r}")
    return [_phi(probability) for probability in probabilities]


def _phis(percentage: Any) -> tuple[list[float], bool]:
    """The phis that are asked, and whether for an array of answers."""
    several = isinstance(percentage, (list, tuple))
    if isinstance(percentage, Column):
        several, percentage = _constant(percentage)
    elif not several:
        percentage = [percentage]
    phis = _list_of(percentage)
    if not phis:
        raise InvalidArgumentError("percentage is an empty list; name at least one, such as [0.5]")
    return phis, several


def _accuracy(accuracy: Any) -> int:
    if isinstance(accuracy, Column):
        accuracy = int(_constant(accuracy)[1][0])
    if isinstance(accuracy, bool) or not isinstance(accuracy, int) or not 0 < accuracy <= MOST_ACCURATE:
        raise InvalidArgumentError(f"accuracy must be a whole number from 1 to {MOST_ACCURATE}, not {accuracy!r}")
    return accuracy


def _relative_error(error: Any) -> float:
    if isinstance(error, bool) or not isinstance(error, (int, float)) or not error >= 0:
        raise InvalidArgumentError(f"relativeError must be a number that is not negative, not {error!r}")
    return float(error)


def _constant(column: Column) -> tuple[bool, list[float]]:
    """What is in a literal such as lit(0.5) or array(lit(0.5), lit(0.9)), and whether it is an array."""
    found = CONSTANT.fullmatch(_text(column))
    if found is None:
        raise InvalidArgumentError(f"{_text(column)} is not a constant; give percentage and accuracy as numbers")
    listed = found["list"]
    return listed is not None, [float(number) for number in (listed or found["one"]).split(",")]


def _text(column: Column) -> str:
    """A column as Spark names it in a result."""
    return str(column).removeprefix("Column<'").removesuffix("'>")
