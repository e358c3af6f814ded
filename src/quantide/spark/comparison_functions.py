"""Comparisons of stored summaries: qt_ks, qt_psi, qt_wasserstein, qt_shift in SQL, and compare_summaries by key.

Every result is a proved interval. Only summaries cross from the JVM to Python.
"""

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import pyarrow as pa
from numpy.typing import ArrayLike
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DataType, DoubleType, StructField, StructType

from quantide.errors import InvalidArgumentError
from quantide.spark.sql import to_float64, typed_udf
from quantide.spark.stored_summaries import check_columns
from quantide.summary.comparison import BINS, FLOOR, PHIS, Comparison
from quantide.summary.outward_rounding import float_above, float_below
from quantide.summary.ranks import check_phis
from quantide.summary.summary import Summary

INTERVAL = StructType([StructField(name, DoubleType()) for name in ("low", "high")])
SHIFT = StructType([*INTERVAL.fields, StructField("is_above", BooleanType())])
ARROW_INTERVAL = pa.struct([("low", pa.float64()), ("high", pa.float64())])
ARROW_SHIFT = pa.struct([*ARROW_INTERVAL, ("is_above", pa.bool_())])


def qt_ks(a: pa.Array, b: pa.Array) -> pa.Array:
    """Return bounds of the KS distance of two summaries; null if one of them is null or empty."""
    return pa.array([pair and _interval(pair.ks) for pair in _pairs(a, b)], ARROW_INTERVAL)


def qt_psi(*columns: pa.Array) -> pa.Array:
    """Return bounds of the PSI of a summary against a reference: qt_psi(a, b) or qt_psi(a, b, bins)."""
    if len(columns) not in (2, 3):
        raise InvalidArgumentError("write qt_psi(a, b) or qt_psi(a, b, bins)")
    bins = columns[2].to_pylist() if len(columns) == 3 else [BINS] * len(columns[0])
    pairs = _pairs(columns[0], columns[1], bins=bins)
    return pa.array([pair and _interval(pair.psi) for pair in pairs], ARROW_INTERVAL)


def qt_wasserstein(a: pa.Array, b: pa.Array) -> pa.Array:
    """Return bounds of the Wasserstein distance of two summaries."""
    return pa.array([pair and _interval(pair.wasserstein) for pair in _pairs(a, b)], ARROW_INTERVAL)


def qt_shift(a: pa.Array, b: pa.Array, phi: pa.Array) -> pa.Array:
    """Return bounds of the phi-quantile of a minus that of b, and whether it is proved to be above."""
    pairs = zip(_pairs(a, b), to_float64(phi).to_pylist(), strict=True)
    return pa.array([None if pair is None or phi is None else _shift(pair, phi) for pair, phi in pairs], ARROW_SHIFT)


COMPARISON_FUNCTIONS: dict[Callable[..., Any], DataType] = {
    qt_ks: INTERVAL,
    qt_psi: INTERVAL,
    qt_wasserstein: INTERVAL,
    qt_shift: SHIFT,
}


def compare_summaries(
    a: DataFrame, b: DataFrame, by: str | list[str], phis: ArrayLike = PHIS, summary: str = "summary"
) -> DataFrame:
    """Compare the summaries of two tables key by key: one row for each key that both have, with proved bounds.

    The columns are those of `by`, then `ks`, `psi` and `wasserstein` (structs of low and high), and `shift_<phi>` for
    each phi (low, high, is_above).
    """
    keys = [by] if isinstance(by, str) else list(by)
    for side in (a, b):
        check_columns(side, [*keys, summary])
    ks, psi, area, shift = (typed_udf(function, returned) for function, returned in COMPARISON_FUNCTIONS.items())
    own = a.select(*keys, F.col(summary).alias("_own"))
    joined = own.join(b.select(*keys, F.col(summary).alias("_reference")), keys)
    sides = F.col("_own"), F.col("_reference")
    shifts = [shift(*sides, F.lit(phi)).alias(f"shift_{phi:g}") for phi in check_phis(phis).ravel().tolist()]
    return joined.select(
        *keys, ks(*sides).alias("ks"), psi(*sides).alias("psi"), area(*sides).alias("wasserstein"), *shifts
    )


def _pairs(a: pa.Array, b: pa.Array, bins: list[Any] | None = None) -> Iterator[Comparison | None]:
    """Yield the comparison of each row; None where a side is null or empty."""
    numbers = [BINS] * len(a) if bins is None else bins
    for own, reference, number in zip(a, b, numbers, strict=True):
        if not own.is_valid or not reference.is_valid or number is None:
            yield None
            continue
        sides = Summary.from_bytes(own.as_py()), Summary.from_bytes(reference.as_py())
        yield Comparison(*sides, PHIS, number, FLOOR) if all(side.n for side in sides) else None


def _interval(bounds: tuple[float, float]) -> dict[str, float]:
    return {"low": bounds[0], "high": bounds[1]}


def _shift(pair: Comparison, phi: float) -> dict[str, Any]:
    """Return a shift as doubles, rounded outward; raise for times, whose differences are no numbers."""
    (low, high), kind = pair.shift(phi), pair.a.type
    if kind.is_temporal:
        raise InvalidArgumentError(f"shifts of {kind} are no numbers; summarise unix_micros(x) instead")
    return {"low": _double(low, float_below), "high": _double(high, float_above), "is_above": pair.is_above(phi)}


def _double(end: Any, rounded: Callable[[Fraction], float]) -> float:
    return end if isinstance(end, float) else rounded(Fraction(end))
