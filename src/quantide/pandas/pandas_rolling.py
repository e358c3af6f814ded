"""Rolling quantiles of pandas Series."""

from datetime import timedelta
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from quantide.errors import InvalidArgumentError
from quantide.summary.ranks import check_phis
from quantide.windows.rolling_quantiles import RollingColumn, read_fractions, read_phis, roll_column


def rolling_quantile(
    series: Any,
    window: Any,
    phis: ArrayLike,
    *,
    times: Any = None,
    min_periods: int | None = None,
    interpolation: str | None = None,
) -> Any:
    """Return exact quantiles of the window that ends with each row, as a Series, or a DataFrame with a column per phi.

    `window` is a number of rows, or a length of time such as "5 min" or a timedelta; times are those of the index
    unless `times` has them. Windows, nulls, NaN and min_periods are as in `series.rolling(window)`, except that
    infinities are values, and not missing.

    By default an answer is a value of the window and has its type (integers become nullable), as in
    quantide.rolling_quantile(). With `interpolation`, one of "linear", "lower", "higher", "nearest" and "midpoint", it
    is the float64 that `series.rolling(window).quantile(phi, interpolation)` returns.

    >>> minutes = pd.date_range("2026-01-01", periods=4, freq="min")
    >>> calls = pd.Series([5.0, 1.0, 4.0, 2.0], index=minutes)
    >>> rolling_quantile(calls, "2 min", [0.5, 1.0])
                         0.5  1.0
    2026-01-01 00:00:00  5.0  5.0
    2026-01-01 00:01:00  1.0  5.0
    2026-01-01 00:02:00  1.0  4.0
    2026-01-01 00:03:00  2.0  4.0
    >>> rolling_quantile(calls, 2, 0.5, interpolation="linear").tolist()
    [nan, 3.0, 2.5, 3.0]
    """
    if not isinstance(series, pd.Series):
        raise InvalidArgumentError(f"give a pandas Series, not a {type(series).__name__}")
    fractions = read_phis(check_phis(phis)) if interpolation is None else read_fractions(phis)
    rolled = roll_column(
        series if interpolation is None else _as_floats(series),
        window,
        fractions,
        times=_index_times(series, window) if times is None else times,
        min_count=min_periods,
        interpolation=interpolation,
    )
    columns = _columns(rolled, series.index)
    if np.ndim(phis) == 0:
        return columns[0].rename(series.name)
    return pd.DataFrame(dict(enumerate(columns)), index=series.index).set_axis(fractions.tolist(), axis=1)


def _index_times(series: Any, window: Any) -> Any:
    """Return the index if the window is a length of time."""
    if not isinstance(window, (str, timedelta, np.timedelta64)):
        return None
    if not isinstance(series.index, pd.DatetimeIndex):
        raise InvalidArgumentError(
            f"a window of {window!r} needs a DatetimeIndex, not a {type(series.index).__name__}, or times=, one per row"
        )
    return series.index


def _as_floats(series: Any) -> Any:
    try:
        return series.to_numpy(dtype="float64", na_value=float("nan"))
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"interpolation needs numbers, not {series.dtype}: {error}") from error


def _columns(rolled: RollingColumn, index: Any) -> list[Any]:
    kind = rolled.type
    if kind.name == "date":
        return [pd.Series(array.to_pandas(date_as_object=True).to_numpy(), index=index) for array in rolled.to_arrow()]
    if kind.is_temporal:
        return [pd.Series(array.to_pandas().array, index=index) for array in rolled.to_arrow()]
    arrays = rolled.to_numpy()
    if kind.is_float or kind.is_decimal:
        return [pd.Series(row, index=index) for row in arrays]
    return [pd.Series(pd.arrays.IntegerArray(row.data, row.mask), index=index) for row in arrays]
