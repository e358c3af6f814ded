"""Quantiles for pandas: importing this module adds the accessor `.quantide` to Series, DataFrames and their groups.

>>> import pandas as pd
>>> import quantide.pandas
>>> pd.Series([5, 1, 4, 2, 3]).quantide.rolling_quantile(3, 0.5).tolist()
[<NA>, <NA>, 4, 2, 3]
>>> calls = pd.DataFrame({"page": ["/a", "/b", "/a"], "ms": [5, 1, 4]})
>>> calls["ms"].quantide.quantile(0.9)
np.float64(4.8)
>>> calls.groupby("page").quantide.quantile(0.5)
       ms
page
/a    4.5
/b    1.0
"""

from typing import Any

from numpy.typing import ArrayLike

from quantide.errors import MissingPackageError

try:
    import pandas as pd
except ImportError as error:
    raise MissingPackageError(
        "quantide.pandas needs pandas, which is not installed; run: pip install pandas"
    ) from error

from quantide.pandas.column_quantiles import quantile
from quantide.pandas.group_quantiles import group_quantile
from quantide.pandas.pandas_rolling import rolling_quantile

__all__ = ["group_quantile", "quantile", "rolling_quantile"]


@pd.api.extensions.register_series_accessor("quantide")
class SeriesAccessor:
    """Accessor `.quantide` of a Series."""

    def __init__(self, series: Any) -> None:
        self._series = series

    def quantile(self, q: Any = 0.5, interpolation: str = "linear") -> Any:
        """Return the same as Series.quantile(), faster."""
        return quantile(self._series, q, interpolation)

    def rolling_quantile(self, window: Any, phis: ArrayLike, **arguments: Any) -> Any:
        """Return rolling_quantile() of this Series, with the same arguments."""
        return rolling_quantile(self._series, window, phis, **arguments)


@pd.api.extensions.register_dataframe_accessor("quantide")
class FrameAccessor:
    """Accessor `.quantide` of a DataFrame."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def quantile(
        self,
        q: Any = 0.5,
        axis: Any = 0,
        numeric_only: bool = False,
        interpolation: str = "linear",
        method: str = "single",
    ) -> Any:
        """Return the same as DataFrame.quantile(), faster."""
        return quantile(self._frame, q, interpolation, axis=axis, numeric_only=numeric_only, method=method)


class GroupAccessor:
    """Accessor `.quantide` of the groups of a Series or a DataFrame."""

    def __init__(self, grouped: Any) -> None:
        self._grouped = grouped

    def quantile(self, q: Any = 0.5, interpolation: str = "linear", numeric_only: bool = False) -> Any:
        """Return the same as groupby().quantile(), faster."""
        return group_quantile(self._grouped, q, interpolation, numeric_only)


for _groups in (pd.api.typing.SeriesGroupBy, pd.api.typing.DataFrameGroupBy):  # pandas has no function for these
    setattr(_groups, "quantide", property(GroupAccessor))  # noqa: B010
