"""Exact quantiles of Series and DataFrames, equal to those of pandas, by selection instead of a sort.

Columns of float64, integers, datetimes and timedeltas are selected. pandas itself computes other columns.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from quantide.errors import InvalidArgumentError
from quantide.summary.order_statistics import order_statistics
from quantide.summary.value_column import has_nan
from quantide.typing import Array, Floats
from quantide.windows.rolling_quantiles import INTERPOLATIONS, read_fractions

POSITIONS: dict[str, Callable[[Floats], Floats]] = {"lower": np.floor, "higher": np.ceil, "nearest": np.around}
WHOLE = ("int64", "int32", "int16", "int8", "uint32", "uint16", "uint8")


def quantile(data: Any, q: Any = 0.5, interpolation: str = "linear", **arguments: Any) -> Any:
    """Return the quantiles of a Series or a DataFrame as its own quantile() does: values, types, index and names.

    A DataFrame also takes `axis`, `numeric_only` and `method`, as in pandas.

    >>> calls = pd.DataFrame({"ms": [5.0, 1.0, 4.0, None], "day": pd.date_range("2026-01-01", periods=4)})
    >>> quantile(calls["ms"], [0, 0.5, 0.9])
    0.0    1.0
    0.5    4.0
    0.9    4.8
    Name: ms, dtype: float64
    >>> quantile(calls, [0.5], interpolation="lower")
          ms        day
    0.5  4.0 2026-01-02
    """
    fractions = read_quantiles(q, interpolation)
    if isinstance(data, pd.Series) and not arguments:
        return _series_quantile(data, q, fractions, interpolation)
    if isinstance(data, pd.DataFrame):
        return _frame_quantile(data, q, fractions, interpolation, **arguments)
    if isinstance(data, pd.Series):
        raise InvalidArgumentError(f"{', '.join(arguments)} belongs to a DataFrame; leave it out for a Series")
    raise InvalidArgumentError(f"give a pandas Series or DataFrame, not a {type(data).__name__}")


def read_quantiles(q: Any, interpolation: str) -> Floats:
    """Return one or several quantiles as an array; raise unless they are in [0, 1] and pandas has the interpolation."""
    if interpolation not in INTERPOLATIONS:
        raise InvalidArgumentError(
            f"interpolation={interpolation!r} is unknown; use one of {', '.join(INTERPOLATIONS)}"
        )
    return read_fractions(q if np.ndim(q) == 0 else np.asarray(q, dtype=np.float64))


def is_selectable(dtype: Any) -> bool:
    """Return True for columns whose quantiles are selected here: float64, integers, datetimes and timedeltas."""
    if isinstance(dtype, pd.DatetimeTZDtype):
        return True
    return isinstance(dtype, np.dtype) and (dtype == np.float64 or dtype.name in WHOLE or dtype.kind in "mM")


def present_values(series: Any) -> Array:
    """Return the values that are not missing: numbers, or int64 for times."""
    if series.dtype.kind in "mM":
        whole: Array = series.dropna().array.view("i8")
        return whole
    values: Array = series.to_numpy()
    return values[~np.isnan(values)] if has_nan(values) else values


def restore_times(numbers: Array, dtype: Any) -> Any:
    """Return int64 as datetimes or timedeltas of a dtype."""
    if not isinstance(dtype, pd.DatetimeTZDtype):
        return numbers.view(dtype)
    return pd.DatetimeIndex(numbers.view(f"M8[{dtype.unit}]")).tz_localize("UTC").tz_convert(dtype.tz)


def _series_quantile(series: Any, q: Any, fractions: Floats, interpolation: str) -> Any:
    if not is_selectable(series.dtype) or not len(series) or not len(fractions):
        return series.quantile(q, interpolation)
    answers = pd.Series(_column_quantiles(series, fractions, interpolation), pd.Index(fractions), name=series.name)
    return answers.iloc[0] if np.ndim(q) == 0 else answers


def _frame_quantile(
    frame: Any,
    q: Any,
    fractions: Floats,
    interpolation: str,
    axis: Any = 0,
    numeric_only: bool = False,
    method: str = "single",
) -> Any:
    data = frame.loc[:, [is_numeric_dtype(dtype) for dtype in frame.dtypes]] if numeric_only else frame
    chosen = [i for i, dtype in enumerate(data.dtypes) if is_selectable(dtype)]
    if axis not in (0, "index") or method != "single" or not (chosen and len(frame) and len(fractions)):
        return frame.quantile(q, axis, numeric_only, interpolation, method)
    others = [i for i in range(data.shape[1]) if i not in set(chosen)]
    own = data.iloc[:, others].quantile(fractions, interpolation=interpolation)
    columns = {i: own.iloc[:, k].array for k, i in enumerate(others)}
    columns |= {i: _column_quantiles(data.iloc[:, i], fractions, interpolation) for i in chosen}
    answers = pd.DataFrame({i: columns[i] for i in range(data.shape[1])}, index=pd.Index(fractions))
    answers.columns = data.columns
    return answers.iloc[0] if np.ndim(q) == 0 else answers


def _column_quantiles(series: Any, fractions: Floats, interpolation: str) -> Any:
    """Return the quantiles of a column as pandas has them; NaN and NaT without values."""
    values = present_values(series)
    if len(values):
        numbers = _interpolate(values, fractions, interpolation)
    elif series.dtype.kind in "mM":
        numbers = np.full(len(fractions), pd.NaT.value)
    else:
        numbers = np.full(len(fractions), np.nan)
    return restore_times(numbers.astype(np.int64), series.dtype) if series.dtype.kind in "mM" else numbers


def _interpolate(values: Array, fractions: Floats, interpolation: str) -> Array:
    """Return quantiles by the arithmetic of numpy.percentile, which pandas calls."""
    last = len(values) - 1
    virtual = last * (fractions * 100.0 / 100.0)  # pandas passes percentages, which rounds some fractions
    if interpolation in POSITIONS:
        return _select(values, POSITIONS[interpolation](virtual).astype(np.int64))
    if interpolation == "midpoint":
        virtual = 0.5 * (np.floor(virtual) + np.ceil(virtual))
    at_end = virtual >= last
    low = np.where(at_end, last, np.floor(virtual)).astype(np.int64)
    high = np.where(at_end, last, low + 1)
    share = virtual - np.where(at_end, -1, low)
    if interpolation == "midpoint":
        share = np.where(virtual % 1 == 0, 0.0, 0.5)
    a, b = np.split(_select(values, np.concatenate([low, high])), 2)
    with np.errstate(invalid="ignore", over="ignore"):
        difference = b - a
        answers: Array = np.where(share >= 0.5, b - difference * (1 - share), a + difference * share)
    return answers


def _select(values: Array, positions: Array) -> Array:
    carried = values.astype(np.float64 if values.dtype.kind == "f" else np.int64, copy=False)
    selected: Array = order_statistics(carried, positions).astype(values.dtype, copy=False)
    return selected
