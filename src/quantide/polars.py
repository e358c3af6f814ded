"""Quantiles for polars: importing this module adds the namespace `.quantide` to expressions and Series.

>>> import polars as pl
>>> import quantide.polars
>>> pl.Series([5, 1, 4, 2, 3]).quantide.rolling_quantile(3, 0.5).to_list()
[None, None, 4, 2, 3]
>>> pl.DataFrame({"ms": [5, 1, 4]}).select(pl.col("ms").quantide.quantile(0.9, "linear")).item()
4.8
"""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from quantide.errors import InvalidArgumentError, MissingPackageError
from quantide.summary.order_statistics import order_statistics
from quantide.summary.ranks import check_phis
from quantide.typing import Array, Floats
from quantide.windows.rolling_quantiles import read_fractions, read_phis, roll_column

try:
    import polars as pl
except ImportError as error:
    raise MissingPackageError(
        "quantide.polars needs polars, which is not installed; run: pip install polars"
    ) from error


METHODS = ("nearest", "higher", "lower", "midpoint", "linear", "equiprobable")
SELECTED = (pl.Float64, pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32)


def rolling_quantile(
    column: Any, window: Any, phis: ArrayLike, *, times: Any = None, min_count: int | None = None
) -> Any:
    """Return exact quantiles of the window that ends with each row, for a Series or an expression.

    Arguments and windows are those of quantide.rolling_quantile(). `times` is a Series, or for an expression another
    one or the name of a column. The result has the type of the column, with nulls where there is no answer. For several
    phis it is a struct with a field for each, such as "0.99".

    >>> calls = pl.DataFrame({"second": [0, 1, 2, 3], "ms": [5.0, 1.0, 4.0, None]})
    >>> import quantide.polars
    >>> calls.select(pl.col("ms").quantide.rolling_quantile("2 s", [0.5, 1], times="second")).unnest("ms").rows()
    [(5.0, 5.0), (1.0, 5.0), (1.0, 4.0), (4.0, 4.0)]
    """
    fractions, several = read_phis(check_phis(phis)), np.ndim(phis) > 0
    if isinstance(column, pl.Series):
        return _roll(column, window, fractions, several, times, min_count)
    if not isinstance(column, pl.Expr):
        raise InvalidArgumentError(f"give a polars Series or expression, not a {type(column).__name__}")
    inputs = [column] if times is None else [column, pl.col(times) if isinstance(times, str) else times]

    def roll(read: Any) -> Any:
        return _roll(read[0], window, fractions, several, read[1] if times is not None else None, min_count)

    return pl.map_batches(inputs, roll)  # polars finds the type by rolling over an empty column


def quantile(column: Any, quantile: float | list[float], interpolation: str = "nearest") -> Any:
    """Return the quantile of a Series or an expression as its own quantile() does: value, type and name.

    Values are selected, not sorted. Nulls are not counted, and NaN are the largest values, as in polars. Selected are
    float64 and integers up to 64 bits, except unsigned ones of 64 bits; polars itself computes other columns. Types
    without quantiles, such as Boolean and String, raise InvalidOperationError, and in groups and windows give nulls.

    >>> calls = pl.DataFrame({"page": ["/a", "/b", "/a"], "ms": [5, 1, 4]})
    >>> half = pl.col("ms").quantide.quantile(0.5, "linear")
    >>> calls.group_by("page").agg(half).sort("page").rows()
    [('/a', 4.5), ('/b', 1.0)]
    >>> calls.select(half.over("page"))["ms"].to_list()
    [4.5, 1.0, 4.5]
    """
    if interpolation not in METHODS:
        raise InvalidArgumentError(f"interpolation={interpolation!r} is unknown; use one of {', '.join(METHODS)}")
    fractions = read_fractions(quantile)
    if isinstance(column, pl.Series):
        if not _has_quantiles(column.dtype):
            column.quantile(0.5)  # raises the error of polars
        if column.dtype not in SELECTED and column.null_count() < len(column):
            own: Any = column.quantile  # its lists have other types than those of an expression
            return own(quantile, interpolation)
        return _answer(column, quantile, fractions, interpolation).to_list()[0]
    if not isinstance(column, pl.Expr):
        raise InvalidArgumentError(f"give a polars Series or expression, not a {type(column).__name__}")

    def compute(read: Any) -> Any:  # polars finds the type by a call with a few rows
        return _answer(read[0], quantile, fractions, interpolation)

    # Raises for types without quantiles, except in groups. Physical: polars 2.1 panics on dates without any value.
    refused = column.drop_nulls().first().to_physical().quantile(0.5)
    return pl.map_batches([column, refused], compute, returns_scalar=True)


@pl.api.register_expr_namespace("quantide")
@pl.api.register_series_namespace("quantide")
class PolarsNamespace:
    """Namespace `.quantide` of an expression or a Series."""

    def __init__(self, column: Any) -> None:
        self._column = column

    def quantile(self, quantile: float | list[float], interpolation: str = "nearest") -> Any:
        """Return the same as quantile() of this column, faster."""
        return _quantile(self._column, quantile, interpolation)

    def rolling_quantile(self, window: Any, phis: ArrayLike, **arguments: Any) -> Any:
        """Return rolling_quantile() of this column, with the same arguments."""
        return rolling_quantile(self._column, window, phis, **arguments)


_quantile = quantile  # the method of the namespace has the same name


def _answer(series: Any, quantile: Any, fractions: Floats, interpolation: Any) -> Any:
    """Return a Series with the answer, or with the list of answers; nulls for types without quantiles."""
    if not _has_quantiles(series.dtype):
        null = pl.Series(series.name, [None], series.dtype)
        return null if np.ndim(quantile) == 0 else null.new_from_index(0, len(fractions)).implode()
    values = series.drop_nulls()
    if series.dtype in SELECTED and len(values):
        answers = pl.Series(series.name, _interpolate(values.to_numpy(), series.null_count(), fractions, interpolation))
        return answers if np.ndim(quantile) == 0 else answers.implode()
    if not len(values):
        null = pl.Series(series.name, [None], dtype=_null_type(series, np.ndim(quantile) > 0))
        return null if np.ndim(quantile) == 0 else null.new_from_index(0, len(fractions)).implode()
    given = quantile if np.ndim(quantile) == 0 else fractions.tolist()  # polars refuses whole numbers among others
    return _polars_quantile(series, given, interpolation)


def _null_type(series: Any, several: bool) -> Any:
    """Return the type of a quantile of no values. polars 2.1 panics on such a list, and on dates."""
    if series.dtype == pl.Date:
        return pl.Datetime("us")
    return series.dtype if several and series.dtype.is_decimal() else _polars_quantile(series, 0.5, "nearest").dtype


def _polars_quantile(series: Any, quantile: Any, interpolation: Any) -> Any:
    return series.to_frame().select(pl.nth(0).quantile(quantile, interpolation)).to_series()


@lru_cache(maxsize=64)
def _has_quantiles(dtype: Any) -> bool:
    """Return True if polars computes quantiles of a type; of others, such as Boolean, groups have nulls."""
    if dtype.is_temporal():  # polars 2.1 panics on dates without any value
        return True
    try:
        pl.Series([], dtype=dtype).quantile(0.5)
    except pl.exceptions.InvalidOperationError:
        return False
    return True


def _interpolate(values: Array, nulls: int, fractions: Floats, interpolation: str) -> Floats:
    """Return quantiles by the arithmetic of polars, in which nulls are before all values."""
    position = (len(values) - 1) * fractions + nulls
    if interpolation == "nearest":  # half is rounded up
        return _select(values, np.floor(position + 0.5) - nulls)
    if interpolation == "equiprobable":
        return _select(values, np.maximum(np.ceil(len(values) * fractions) - 1, 0))
    low, high, share = np.floor(position) - nulls, np.ceil(position) - nulls, position - np.floor(position)
    if interpolation in ("lower", "higher"):
        return _select(values, low if interpolation == "lower" else high)
    a, b = np.split(_select(values, np.concatenate([low, high])), 2)
    with np.errstate(invalid="ignore", over="ignore"):
        between = (a + b) / 2 if interpolation == "midpoint" else share * (b - a) + a
    return np.where((low == high) | (a == b), a, between)


def _select(values: Array, positions: Floats) -> Floats:
    """Return the values at positions of the sorted order, where NaN are last."""
    numbers = values[~np.isnan(values)] if values.dtype.kind == "f" else values.astype(np.int64, copy=False)
    indexes, answers = positions.astype(np.int64), np.full(len(positions), np.nan)
    known = indexes < len(numbers)
    if known.any():
        answers[known] = order_statistics(numbers, indexes[known])
    return answers


def _roll(series: Any, window: Any, phis: Floats, several: bool, times: Any, min_count: int | None) -> Any:
    arrays = roll_column(series, window, phis, times=times, min_count=min_count).to_arrow()
    columns = [pl.Series(series.name, array).cast(series.dtype) for array in arrays]
    if not several:
        return columns[0]
    names = [f"{phi:g}" for phi in phis]
    return pl.DataFrame(dict(zip(names, columns, strict=True))).to_struct(series.name)
