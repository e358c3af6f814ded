"""Rolling quantiles of polars: importing this module adds the namespace `.quantide` to expressions and Series.

>>> import polars as pl
>>> import quantide.polars
>>> pl.Series([5, 1, 4, 2, 3]).quantide.rolling_quantile(3, 0.5).to_list()
[None, None, 4, 2, 3]
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from quantide.errors import InvalidArgumentError, MissingPackageError
from quantide.summary.ranks import check_phis
from quantide.typing import Floats
from quantide.windows.rolling_quantiles import read_phis, roll_column

try:
    import polars as pl
except ImportError as error:
    raise MissingPackageError(
        "quantide.polars needs polars, which is not installed; run: pip install polars"
    ) from error


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


@pl.api.register_expr_namespace("quantide")
@pl.api.register_series_namespace("quantide")
class PolarsRolling:
    """Namespace `.quantide` of an expression or a Series."""

    def __init__(self, column: Any) -> None:
        self._column = column

    def rolling_quantile(self, window: Any, phis: ArrayLike, **arguments: Any) -> Any:
        """Return rolling_quantile() of this column, with the same arguments."""
        return rolling_quantile(self._column, window, phis, **arguments)


def _roll(series: Any, window: Any, phis: Floats, several: bool, times: Any, min_count: int | None) -> Any:
    arrays = roll_column(series, window, phis, times=times, min_count=min_count).to_arrow()
    columns = [pl.Series(series.name, array).cast(series.dtype) for array in arrays]
    if not several:
        return columns[0]
    names = [f"{phi:g}" for phi in phis]
    return pl.DataFrame(dict(zip(names, columns, strict=True))).to_struct(series.name)
