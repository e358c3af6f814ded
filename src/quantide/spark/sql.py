"""Summaries in Spark SQL: qt_summary, qt_merge, qt_quantile, qt_rank, qt_bounds. See docs/spark-sql.md.

Rows cross from the JVM to Python here, as Arrow arrays; every function works on a whole array at once.
"""

import math
from collections.abc import Callable
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
from quantide.kernels.compress import nearest_tuples
from quantide.sketches.stream import StreamSketch
from quantide.spark.session import check_workers
from quantide.summary.asked import read_asked
from quantide.summary.keys import one_array
from quantide.summary.ranks import check_eps, check_phis, target_ranks
from quantide.summary.summaries import Summaries
from quantide.summary.summary import Summary
from quantide.summary.types import ValueType, type_of_arrow

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
    """Make the five functions known to this session's SQL."""
    check_workers(spark)
    for function, returned in FUNCTIONS.items():
        spark.udf.register(function.__name__, typed_udf(function, returned))


def qt_summary(x: pa.Array, eps: pa.Array) -> bytes:
    """Grouped: a summary of x within eps, of about 1/eps tuples or fewer; nulls are skipped and counted."""
    return summarise(x, _one_eps(eps)).to_bytes()


def qt_merge(*columns: pa.Array) -> bytes | None:
    """Grouped: one summary of many, no less accurate; with a second argument eps, as small as eps allows."""
    blobs = columns[0].drop_null()
    if not len(blobs):
        return None
    merged = Summaries.from_binary(np.zeros(len(blobs), dtype=np.int64), blobs)[0]
    return (thin(merged, _one_eps(columns[1])) if len(columns) > 1 else merged).to_bytes()


def qt_quantile(summary: pa.Array, phi: pa.Array) -> pa.Array:
    """The value for the phi-quantile of each summary; null for a null or empty one."""
    return _by_row(_quantiles, summary, phi)


def qt_rank(summary: pa.Array, x: pa.Array) -> pa.Array:
    """Proved bounds on how many of the values behind each summary are <= x."""
    return _by_row(_ranks, summary, x)


def qt_bounds(summary: pa.Array, phi: pa.Array) -> pa.Array:
    """The answer of each summary to phi: the value, its proved ranks, n, and the error as a fraction of n."""
    return _by_row(_bounds, summary, phi)


FUNCTIONS: dict[Callable[..., Any], DataType] = {
    qt_summary: BinaryType(),
    qt_merge: BinaryType(),
    qt_quantile: DoubleType(),
    qt_rank: RANKS,
    qt_bounds: BOUNDS,
}


def summarise(x: pa.Array, eps: float) -> Summary:
    """The summary of an array within eps; of the array's type even when it has nothing but nulls."""
    kind = None if pa.types.is_null(x.type) else type_of_arrow(x.type).name
    sketch = StreamSketch(eps, value_type=kind)
    sketch.update(x)
    found = sketch.summary()
    return thin(found, eps) if found.rank_error == 0 else found


def thin(summary: Summary, eps: float) -> Summary:
    """As few tuples as a certified error within eps allows, by one compression; all of them when it allows none."""
    room = int(eps * summary.n) - summary.rank_error  # ranks that compression may add
    if room <= 0:
        return summary
    exact = summary.rank_error == 0
    small = summary.compress(math.ceil(summary.n / (2 * room + 1 if exact else 2 * room)))
    return small if small.error <= eps else summary


def typed_udf(function: Callable[..., Any], returned: DataType) -> Any:
    """PySpark's stubs have no overload for functions whose kind is told by their annotations."""
    make: Any = arrow_udf
    return make(function, returned)


def at_rows(answers: pa.Array, rows: NDArray[Any], length: int) -> pa.Array:
    """Answers at the rows they belong to, and null at all others."""
    place = np.full(length, -1)
    place[rows] = np.arange(len(rows))
    return answers.take(pa.array(place, mask=place < 0))


def doubles(values: pa.Array, kind: ValueType) -> pa.Array:
    """Values as the doubles SQL gives here; temporal ones are refused, because a double cannot say what they are."""
    if kind.is_temporal:
        raise TypeMismatchError(
            f"a quantile of {kind} values is not a double; use quantide.spark.quantiles or quantiles_of, which keep "
            "the type, or make numbers of them first, as unix_micros(x) does"
        )
    return numbers(values)


def numbers(column: pa.Array) -> pa.Array:
    """A column as float64, each value the nearest double (Arrow's own cast of decimals is not)."""
    if not pa.types.is_decimal(column.type):
        return column.cast(pa.float64(), safe=False)
    coded = column.dictionary_encode()
    distinct = [None if value is None else float(value) for value in coded.dictionary.to_pylist()]
    return pa.array(distinct, pa.float64()).take(coded.indices)


def _one_eps(column: pa.Array) -> float:
    ends = pc.min_max(column).as_py()
    if column.null_count or ends["min"] != ends["max"]:
        raise InvalidArgumentError("eps must be one number for all rows of a group, such as 0.01, and not null")
    eps = ends["min"]
    return check_eps(float(eps) if isinstance(eps, Decimal) else eps)


def _by_row(ask: Callable[[Summaries, pa.Array], pa.Array], summary: pa.Array, question: pa.Array) -> pa.Array:
    """Ask all rows at once where neither summary nor question is null; null elsewhere."""
    some = pc.and_(summary.is_valid(), question.is_valid())
    blobs = summary.filter(some)
    answers = ask(Summaries.from_binary(np.arange(len(blobs)), blobs), question.filter(some))
    return at_rows(answers, np.flatnonzero(some.to_numpy(zero_copy_only=False)), len(summary))


def _quantiles(held: Summaries, phi: pa.Array) -> pa.Array:
    return _bounds(held, phi).field("value")


def _bounds(held: Summaries, phi: pa.Array) -> pa.Array:
    """Each summary's answer to its own phi, in one kernel call; null where n is 0."""
    targets = target_ranks(check_phis(numbers(phi).to_numpy(zero_copy_only=False)), np.maximum(held.n, 1))
    at = nearest_tuples(held.rmin, held.rmax, held.offsets, targets[:, None])[:, 0]
    found = np.flatnonzero(at >= 0)
    at, target, n = at[found], targets[found], held.n[found]
    low, high = held.rmin[at], held.rmax[at]
    value = doubles(held.type.restore_arrow(_carried(held)[at]), held.type)
    error = np.maximum(target - low, high - target) / n
    return _spread([value, low, high, n, error], BOUNDS, found, len(held))


def _ranks(held: Summaries, x: pa.Array) -> pa.Array:
    """As Summary.rank, for each summary its own x: one pass over all tuples."""
    first, last, n = held.offsets[:-1], held.offsets[1:], held.n
    asked, below_all = (np.repeat(column, last - first) for column in _asked(x, held.type))
    below = np.concatenate(([0], np.cumsum((_carried(held) <= asked) & ~below_all)))
    following = first + below[last] - below[first]  # the first tuple above x
    low = np.where(following > first, held.rmin[following - 1], 0)
    high = np.where(following < last, np.append(held.rmax, 0)[following] - 1, n)
    some = np.flatnonzero(n)
    return _spread([low[some], high[some]], RANKS, some, len(held))


def _spread(columns: list[Any], fields: StructType, rows: NDArray[np.int64], length: int) -> pa.Array:
    structs = pa.StructArray.from_arrays([pa.array(column) for column in columns], fields.names)
    return at_rows(structs, rows, length)


def _carried(held: Summaries) -> NDArray[Any]:
    """All values as the numbers that kernels see, without copying."""
    tuples = one_array(held.to_arrow()["tuples"]).values
    carried: NDArray[Any] = tuples.field("value").to_numpy()
    return carried


def _asked(x: pa.Array, kind: ValueType) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Numbers to compare carried values with, and which are below all of them; distinct ones are read once."""
    coded = x.dictionary_encode()
    numbers, below, _ = read_asked(coded.dictionary, kind)
    place = coded.indices.to_numpy()
    return numbers[place], below[place]
