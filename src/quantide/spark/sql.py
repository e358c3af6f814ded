"""Summaries in Spark SQL: qt_summary, qt_merge, qt_quantile, qt_rank, qt_bounds and comparisons. See docs/spark-sql.md.

Rows cross from the JVM to Python as Arrow arrays; every function processes a whole array at once.
"""

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import SparkSession
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import BinaryType, DataType, DoubleType, LongType, StructField, StructType

from quantide.errors import InvalidArgumentError, TypeMismatchError
from quantide.kernels.compression import find_nearest_tuples
from quantide.sketches.stream_sketch import StreamSketch
from quantide.spark.spark_session import check_workers
from quantide.summary.key_encoding import combine_chunks
from quantide.summary.rank_arguments import read_query_values
from quantide.summary.ranks import DEFAULT, MIN_EPS, check_eps, check_phis, check_tail, target_ranks
from quantide.summary.summaries import Summaries
from quantide.summary.summary import Summary
from quantide.summary.summary_bytes import binary_array, rows_by_type
from quantide.summary.value_types import ValueType, type_of_arrow

RANKS = StructType([StructField(name, LongType()) for name in ("lo", "hi")])
BOUNDS = StructType(
    [
        StructField("value", DoubleType()),
        StructField("rank_lo", LongType()),
        StructField("rank_hi", LongType()),
        StructField("n", LongType()),
        StructField("error", DoubleType()),
    ]
)


def register(spark: SparkSession) -> None:
    """Register all functions for the SQL of this session."""
    from quantide.spark.comparison_functions import COMPARISON_FUNCTIONS

    check_workers(spark)
    for function, returned in (FUNCTIONS | COMPARISON_FUNCTIONS).items():
        spark.udf.register(function.__name__, typed_udf(function, returned))


def qt_summary(*columns: pa.Array) -> bytes:
    """Aggregate: a summary of x within eps and, towards the ends, within a tail; nulls are skipped and counted.

    Arguments: x, eps and, if it is not the default, the tail (null for none).
    """
    if len(columns) not in (2, 3):
        raise InvalidArgumentError("write qt_summary(x, eps) or qt_summary(x, eps, tail)")
    x, eps = columns[0], _read_eps(columns[1])
    return summarise_array(x, eps, _read_tail(columns[2:], eps)).to_bytes()


def qt_weighted_summary(*columns: pa.Array) -> bytes:
    """Aggregate: as qt_summary, for values of which each counts as often as its weight says.

    Arguments: x, weight (a whole number from 0 on), eps and, if it is not the default, the tail (null for none).
    """
    if len(columns) not in (3, 4):
        raise InvalidArgumentError(
            "write qt_weighted_summary(x, weight, eps) or qt_weighted_summary(x, weight, eps, tail)"
        )
    x, weights, eps = columns[0], columns[1], _read_eps(columns[2])
    return summarise_array(x, eps, _read_tail(columns[3:], eps), weights).to_bytes()


def qt_merge(*columns: pa.Array) -> bytes | None:
    """Aggregate: merge summaries without losing accuracy; with a second argument eps, as small as eps allows.

    A third argument is the tail, if it is not the default (null for none).
    """
    blobs = columns[0].drop_null()
    if not len(blobs):
        return None
    merged = Summaries.from_binary(np.zeros(len(blobs), dtype=np.int64), blobs)[0]
    if len(columns) > 1:
        eps = _read_eps(columns[1])
        merged = thin(merged, eps, _read_tail(columns[2:], eps))
    return merged.to_bytes()


def qt_quantile(summary: pa.Array, phi: pa.Array) -> pa.Array:
    """Return the phi-quantile of each summary; null for a null or empty one."""
    return _by_row(_quantiles, summary, phi)


def qt_rank(summary: pa.Array, x: pa.Array) -> pa.Array:
    """Return proved bounds on the number of values <= x behind each summary."""
    return _by_row(_ranks, summary, x)


def qt_bounds(summary: pa.Array, phi: pa.Array) -> pa.Array:
    """Return the answer of each summary to phi: value, proved ranks, n, and the error as a fraction of n."""
    return _by_row(_bounds, summary, phi)


FUNCTIONS: dict[Callable[..., Any], DataType] = {
    qt_summary: BinaryType(),
    qt_weighted_summary: BinaryType(),
    qt_merge: BinaryType(),
    qt_quantile: DoubleType(),
    qt_rank: RANKS,
    qt_bounds: BOUNDS,
}


def summarise_array(x: pa.Array, eps: float, tail: float | None, weights: pa.Array | None = None) -> Summary:
    """Summarise an array within eps and tail; the summary has the array's type even if all values are null."""
    kind = None if pa.types.is_null(x.type) else type_of_arrow(x.type).name
    sketch = StreamSketch(eps, value_type=kind, tail=tail)
    sketch.update(x, weights=weights)
    summary = sketch.summary()
    return thin(summary, eps, tail) if summary.rank_error == 0 else summary


def thin(summary: Summary, eps: float, tail: float | None = None) -> Summary:
    """Drop as many tuples, by one compression, as a certified error within eps and a certified tail allow.

    A certified tail above that stays as it is. A summary without any has no promise about its ends.
    """
    slack = int(eps * summary.n) - summary.rank_error  # ranks that compression may add
    if slack <= 0:
        return summary
    exact = summary.rank_error == 0
    certified = None if tail is None else summary.tail
    share = None if tail is None or certified is None else max(tail - certified, MIN_EPS)
    small = summary.compress(math.ceil(summary.n / (2 * slack + 1 if exact else 2 * slack)), share)
    return small if small.error <= eps else summary


def typed_udf(function: Callable[..., Any], returned: DataType) -> Any:
    """Make a UDF: PySpark's stubs have no overload for functions whose kind their annotations give."""
    make: Any = arrow_udf
    return make(function, returned)


def scatter_rows(answers: pa.Array, rows: NDArray[Any], length: int) -> pa.Array:
    """Put answers at the rows they belong to, and null at all others."""
    index = np.full(length, -1)
    index[rows] = np.arange(len(rows))
    return answers.take(pa.array(index, mask=index < 0))


def to_doubles(values: pa.Array, kind: ValueType) -> pa.Array:
    """Return values as doubles; refuse temporal ones, because a double has no unit."""
    if kind.is_temporal:
        raise TypeMismatchError(
            f"a quantile of {kind} values is not a double; use quantide.spark.quantiles or quantiles_of, which keep "
            "the type, or make numbers of them first, as unix_micros(x) does"
        )
    return to_float64(values)


def to_float64(column: pa.Array) -> pa.Array:
    """Cast a column to float64, each value to the nearest double (Arrow's cast of decimals is less exact)."""
    if not pa.types.is_decimal(column.type):
        return column.cast(pa.float64(), safe=False)
    coded = column.dictionary_encode()
    distinct = [None if value is None else float(value) for value in coded.dictionary.to_pylist()]
    return pa.array(distinct, pa.float64()).take(coded.indices)


def _read_eps(column: pa.Array) -> float:
    ends = pc.min_max(column).as_py()
    if column.null_count or ends["min"] != ends["max"]:
        raise InvalidArgumentError("eps must be one number for all rows of a group, such as 0.01, and not null")
    eps = ends["min"]
    return check_eps(float(eps) if isinstance(eps, Decimal) else eps)


def _read_tail(columns: Sequence[pa.Array], eps: float) -> float | None:
    """Return the tail of an optional last argument: the default without it, None for null."""
    if not columns:
        return check_tail(DEFAULT, eps)
    ends = pc.min_max(columns[0]).as_py()
    if len(columns) > 1 or columns[0].null_count not in (0, len(columns[0])) or ends["min"] != ends["max"]:
        raise InvalidArgumentError("tail must be one number for all rows of a group, such as 0.1, or null for none")
    tail = ends["min"]
    return check_tail(float(tail) if isinstance(tail, Decimal) else tail, eps)


def _by_row(answer: Callable[[Summaries, pa.Array], pa.Array], summary: pa.Array, argument: pa.Array) -> pa.Array:
    """Answer all rows at once where neither summary nor argument is null; null elsewhere."""
    valid = pc.and_(summary.is_valid(), argument.is_valid())
    rows = np.flatnonzero(valid.to_numpy(zero_copy_only=False))
    blobs, arguments = binary_array(summary.filter(valid)), argument.filter(valid)
    by_type = list(rows_by_type(blobs).values()) or [np.arange(0)]
    answers = []
    for indexes in by_type:
        of_type = Summaries.from_binary(indexes, blobs.take(pa.array(indexes)))
        answers.append(answer(of_type, arguments.take(pa.array(indexes))))
    return scatter_rows(pa.concat_arrays(answers), rows[np.concatenate(by_type)], len(summary))


def _quantiles(summaries: Summaries, phi: pa.Array) -> pa.Array:
    return _bounds(summaries, phi).field("value")


def _bounds(summaries: Summaries, phi: pa.Array) -> pa.Array:
    """Answer each summary's own phi, in one kernel call; null where n is 0."""
    targets = target_ranks(check_phis(to_float64(phi).to_numpy(zero_copy_only=False)), np.maximum(summaries.n, 1))
    nearest = find_nearest_tuples(summaries.rmin, summaries.rmax, summaries.offsets, targets[:, None])[:, 0]
    rows = np.flatnonzero(nearest >= 0)
    nearest, target, n = nearest[rows], targets[rows], summaries.n[rows]
    low, high = summaries.tuples.rank_bounds(nearest, target)
    value = to_doubles(summaries.type.restore_arrow(_carried_values(summaries)[nearest]), summaries.type)
    error = np.maximum(target - low, high - target) / n
    return _scatter_structs([value, low, high, n, error], BOUNDS, rows, len(summaries))


def _ranks(summaries: Summaries, x: pa.Array) -> pa.Array:
    """As Summary.rank, for each summary its own x: one pass over all tuples."""
    first, last, n = summaries.offsets[:-1], summaries.offsets[1:], summaries.n
    bound, below_all = (np.repeat(column, last - first) for column in _read_values(x, summaries.type))
    below = np.concatenate(([0], np.cumsum((_carried_values(summaries) <= bound) & ~below_all)))
    following = first + below[last] - below[first]  # the first tuple above x
    low = np.where(following > first, summaries.rmin[following - 1], 0)
    high = np.where(following < last, np.append(summaries.rmax, 0)[following] - 1, n)
    rows = np.flatnonzero(n)
    return _scatter_structs([low[rows], high[rows]], RANKS, rows, len(summaries))


def _scatter_structs(columns: list[Any], fields: StructType, rows: NDArray[np.int64], length: int) -> pa.Array:
    structs = pa.StructArray.from_arrays([pa.array(column) for column in columns], fields.names)
    return scatter_rows(structs, rows, length)


def _carried_values(summaries: Summaries) -> NDArray[Any]:
    """Return all values as the numbers that kernels use, without copying."""
    tuples = combine_chunks(summaries.to_arrow()["tuples"]).values
    carried: NDArray[Any] = tuples.field("value").to_numpy()
    return carried


def _read_values(x: pa.Array, kind: ValueType) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return numbers to compare carried values with, and a mask of those below all of them; read distinct ones once."""
    coded = x.dictionary_encode()
    numbers, below, _ = read_query_values(coded.dictionary, kind)
    index = coded.indices.to_numpy()
    return numbers[index], below[index]
