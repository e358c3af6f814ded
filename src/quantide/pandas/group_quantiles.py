"""Exact quantiles of every group, equal to those of groupby().quantile(): groups are sorted by a radix sort."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from quantide.errors import InvalidArgumentError
from quantide.pandas.column_quantiles import is_selectable, read_quantiles, restore_times
from quantide.summary.key_encoding import group_by_code
from quantide.typing import Array, Floats, Ints


def group_quantile(grouped: Any, q: Any = 0.5, interpolation: str = "linear", numeric_only: bool = False) -> Any:
    """Return the quantiles of a groupby object as its own quantile() does: values, types, index and names.

    pandas itself computes groups of a Categorical, groups with as_index=False, and columns of other types than those of
    quantile().

    >>> calls = pd.DataFrame({"page": ["/a", "/b", "/a"], "ms": [5, 1, 4]})
    >>> group_quantile(calls.groupby("page")["ms"], [0.5, 1])
    page
    /a    0.5    4.5
          1.0    5.0
    /b    0.5    1.0
          1.0    1.0
    Name: ms, dtype: float64
    """
    if not isinstance(grouped, (pd.api.typing.DataFrameGroupBy, pd.api.typing.SeriesGroupBy)):
        raise InvalidArgumentError(f"give a groupby object of pandas, not a {type(grouped).__name__}")
    fractions = read_quantiles(q, interpolation)
    table = _GroupTable.of(grouped, numeric_only)
    if table is None:
        return grouped.quantile(q, interpolation, numeric_only)
    columns = [table.quantiles(name, q, fractions, interpolation) for name in table.names]
    index = table.index if np.ndim(q) == 0 else _with_level(table.index, fractions)
    if isinstance(grouped, pd.api.typing.SeriesGroupBy):
        return pd.Series(columns[0], index=index, name=grouped.obj.name)
    answers = pd.DataFrame(dict(enumerate(columns)), index=index)
    answers.columns = table.names
    return answers


@dataclass(frozen=True)
class _GroupTable:
    """Groups as codes of rows, the index of the result, and the names of its columns."""

    grouped: Any
    codes: Ints
    index: Any
    names: Any

    @classmethod
    def of(cls, grouped: Any, numeric_only: bool) -> "_GroupTable | None":
        """Return the table; None if the result has another shape than one row for each group, or no selectable column.

        groupby().first() has the groups and columns of the result.
        """
        one = isinstance(grouped, pd.api.typing.SeriesGroupBy)
        if not getattr(grouped, "as_index", True) or getattr(grouped, "axis", 0) != 0:
            return None
        shape = grouped.size().to_frame() if one else grouped.first(numeric_only=numeric_only)
        index, names = shape.index, shape.columns
        levels = [index.get_level_values(i).dtype for i in range(index.nlevels)]
        if any(isinstance(dtype, pd.CategoricalDtype) for dtype in levels):
            return None
        if len(index) != grouped.ngroups or not len(index) or not (one or grouped.obj.columns.is_unique):
            return None
        table = cls(grouped, grouped.ngroup().fillna(-1).to_numpy(dtype=np.int64), index, names)
        return table if any(is_selectable(table.column(name).dtype) for name in names) else None

    def column(self, name: Any) -> Any:
        return self.grouped.obj if isinstance(self.grouped, pd.api.typing.SeriesGroupBy) else self.grouped.obj[name]

    def quantiles(self, name: Any, q: Any, fractions: Floats, interpolation: str) -> Any:
        """Return the quantiles of a column, those of a group after each other."""
        series = self.column(name)
        if not is_selectable(series.dtype):
            rows = self.codes >= 0
            return series[rows].groupby(self.codes[rows]).quantile(q, interpolation).array
        values = series.array.view("i8") if series.dtype.kind in "mM" else series.to_numpy()
        keep = (self.codes >= 0) & ~series.isna().to_numpy()
        carried = values[keep].astype(np.float64 if values.dtype.kind == "f" else np.int64, copy=False)
        sorted_values, bounds = group_by_code(self.codes[keep], carried, len(self.index))
        answers = _interpolate(sorted_values, bounds, fractions, interpolation).reshape(-1)
        if series.dtype.kind in "mM":
            empty = np.repeat(np.diff(bounds) == 0, len(fractions))
            return restore_times(np.where(empty, pd.NaT.value, answers).astype(np.int64), series.dtype)
        whole = series.dtype.kind in "iu" and interpolation not in ("linear", "midpoint")
        return answers.astype(np.int64) if whole else answers


def _interpolate(values: Array, bounds: Ints, fractions: Floats, interpolation: str) -> Floats:
    """Return a row for each group by the arithmetic of groupby().quantile(); NaN for groups without values."""
    answers = np.full((len(bounds) - 1, len(fractions)), np.nan)
    groups = np.flatnonzero(np.diff(bounds))
    start, last = bounds[groups, None], (np.diff(bounds)[groups] - 1)[:, None]
    position = fractions[None, :] * last
    low, share = position.astype(np.int64), position % 1
    pairs = values[start + low], values[start + np.minimum(low + 1, last)]
    a, b = (side.astype(np.float64, copy=False) for side in pairs)
    with np.errstate(invalid="ignore", over="ignore"):
        between = {
            "lower": a,
            "higher": b,
            "midpoint": (a + b) / 2.0,
            "nearest": np.where((share > 0.5) | ((share == 0.5) & (fractions > 0.5)), b, a),
            "linear": a + (b - a) * share,
        }
    answers[groups] = np.where(share == 0, a, between[interpolation])
    return answers


def _with_level(index: Any, fractions: Floats) -> Any:
    """Return an index with the fractions as its last level, for each group; a group of NaN has its entry in a level."""
    is_multi = isinstance(index, pd.MultiIndex)
    codes: list[Any]
    levels, codes = (index.levels, index.codes) if is_multi else ([index], [np.arange(len(index))])
    fraction_codes, uniques = pd.Index(fractions).factorize()
    fraction_level: Any = uniques
    all_codes: list[Any] = [*(np.repeat(code, len(fractions)) for code in codes), np.tile(fraction_codes, len(index))]
    return pd.MultiIndex([*levels, fraction_level], all_codes, names=[*index.names, None])
