"""Exact quantiles of every window of a whole column, by count or by time."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from quantide.errors import InvalidArgumentError
from quantide.kernels import rolling_ranks
from quantide.kernels.block_sort import as_bits, layout_of
from quantide.kernels.jit import freeze
from quantide.summary.ranks import check_phis, check_size, read_numbers, suggest_phi
from quantide.summary.value_column import ValueColumn, has_nan, read_rows
from quantide.summary.value_types import ValueType, type_named
from quantide.typing import Array, Bools, Floats, Ints
from quantide.windows.time_clock import TimeClock, read_span

INTERPOLATIONS = {
    "linear": rolling_ranks.LINEAR,
    "lower": rolling_ranks.LOWER,
    "higher": rolling_ranks.HIGHER,
    "nearest": rolling_ranks.NEAREST,
    "midpoint": rolling_ranks.MIDPOINT,
}
NOT_A_TIME = np.iinfo(np.int64).min


def rolling_quantile(
    values: Any, window: Any, phis: ArrayLike, *, times: Any = None, min_count: int | None = None
) -> Array:
    """Return exact quantiles of the window that ends with each row: (n,) for one phi, (n, len(phis)) for several.

    An answer is a value of the window: the one with rank max(1, ceil(phi * count - 1e-9)), where `count` is the number
    of values in the window. Rows that are null or NaN are part of a window, but not values.

    `window` is a number of rows. With `times`, one for each row and ascending, it is a length of time ("5 min",
    seconds, a timedelta), and the window of a row at t has the rows up to this one whose times are above t - window.

    A window with fewer than `min_count` values has no answer: NaN among floats, NaT among times, None among decimals,
    masked among integers, which are returned as a masked array. By default, min_count is the whole window, and 1 with
    `times`, as in pandas.

    >>> rolling_quantile([5.0, 1.0, 4.0, 2.0, 3.0], 3, 0.5)
    array([nan, nan, 4., 2., 3.])
    >>> rolling_quantile([5, 1, 4, 2, 3], 3, [0.5, 1], min_count=1).tolist()
    [[5, 5], [1, 5], [4, 5], [2, 4], [3, 4]]
    >>> rolling_quantile([5.0, 1.0, 4.0], "2 s", 0.5, times=[0, 1, 2])
    array([5., 1., 1.])
    """
    fractions = read_phis(check_phis(phis))
    rolled = roll_column(values, window, fractions, times=times, min_count=min_count)
    array = rolled.to_numpy()
    return array[0] if np.ndim(phis) == 0 else array.T


@dataclass(frozen=True)
class RollingColumn:
    """Answers of the windows of a column, a row for each phi, as carried numbers; `answered` is a mask of windows.

    Windows without an answer have NaN, NaT or 0.
    """

    type: ValueType
    carried: Array
    answered: Bools

    def to_numpy(self) -> Array:
        """Return an array of the value type with a row for each phi."""
        missing = ~self.answered
        if self.type.is_decimal:
            decimals = self.type.restore(self.carried.reshape(-1)).reshape(self.carried.shape)
            decimals[:, missing] = None
            return decimals
        array = self.type.restore(self.carried)
        if self.type.is_float or self.type.is_temporal:
            return array
        return np.ma.MaskedArray(array, np.broadcast_to(missing, array.shape).copy())

    def to_arrow(self) -> list[pa.Array]:
        """Return an Arrow array for each phi, with nulls for windows that have no answer."""
        return [self._nulls_in(self.type.restore_arrow(row)) for row in self.carried]

    def _nulls_in(self, array: pa.Array) -> pa.Array:
        if self.answered.all():
            return array
        bitmap = pa.array(self.answered).buffers()[1]
        return pa.Array.from_buffers(array.type, len(array), [bitmap, *array.buffers()[1:]])


def roll_column(
    values: Any,
    window: Any,
    phis: Floats,
    *,
    times: Any = None,
    min_count: int | None = None,
    interpolation: str | None = None,
) -> RollingColumn:
    """Compute the answers of every window for phis that are checked; `interpolation` as in pandas, for float64."""
    kind, column, valid = _read_values(values)
    n = len(column)
    if times is None:
        rows, starts = _read_window(window), np.empty(0, dtype=np.int64)
        least = _read_min_count(min_count, rows, f"the window of {rows} rows")
    else:
        rows, starts = 1, window_starts(times, window, n)
        least = _read_min_count(min_count, 1, "")
    rule = rolling_ranks.TARGET if interpolation is None else _read_interpolation(interpolation, kind)
    out, answered = np.empty((len(phis), n), dtype=kind.carrier), np.zeros(n, dtype=bool)
    if n and len(phis):
        read = freeze(column), freeze(as_bits(column)), freeze(valid), freeze(starts)
        layout, limits = layout_of(kind.carrier.name), _limits(kind)
        rolling_ranks.roll(*read, rows, phis, rule, least, layout, limits, out, answered)
    return RollingColumn(kind, out, answered)


def read_phis(fractions: Floats) -> Floats:
    """Return phis as a one-dimensional array; raise if they have more dimensions."""
    if fractions.ndim > 1:
        raise InvalidArgumentError(f"phis must be a number or a list of numbers, not of shape {fractions.shape}")
    return np.ascontiguousarray(np.atleast_1d(fractions))


def read_fractions(quantiles: ArrayLike) -> Floats:
    """Return the quantiles of pandas, which may be 0, as a one-dimensional array."""
    fractions = read_numbers("a quantile must be a number in [0, 1]", quantiles)
    invalid = ~((fractions >= 0) & (fractions <= 1))
    if invalid.any():
        quantile = float(fractions[invalid].flat[0])
        fix = suggest_phi(quantile)
        raise InvalidArgumentError(f"a quantile must be in [0, 1], not {quantile}" + (f"; {fix}" if fix else ""))
    return read_phis(fractions)


def window_starts(times: Any, window: Any, n: int) -> Ints:
    """Return the first row of each window by time."""
    span = read_span(window)
    clock, moments = TimeClock.read(times, None)
    if len(moments) != n:
        raise InvalidArgumentError(f"there are {len(moments)} times for {n} values; give one for each value")
    falls = np.flatnonzero(moments[1:] < moments[:-1])
    if len(falls):
        row = int(falls[0]) + 1
        raise InvalidArgumentError(
            f"times must ascend, and {clock.show(moments[row])} in row {row} is before "
            f"{clock.show(moments[row - 1])}; sort the rows by time"
        )
    starts: Ints = np.searchsorted(moments, clock.back_all(moments, span), side="right")
    return starts


def _read_values(values: Any) -> tuple[ValueType, Array, Bools]:
    """Return the type, the carried numbers of all rows, and a mask of rows with a value: empty if all have one."""
    rows = read_rows(values)
    kind = rows.column.type or type_named("float64")
    if rows.valid is None:
        carried, valid = _carried(rows.column, kind), np.empty(0, dtype=bool)
    else:
        carried, valid = np.zeros(rows.length, dtype=kind.carrier), np.array(rows.valid, dtype=bool)
        carried[valid] = rows.column.carried()
    if kind.is_float and has_nan(carried):
        numbers = ~np.isnan(carried)
        valid = numbers & valid if len(valid) else numbers
    if rows.length >= rolling_ranks.MAX_ROWS:
        raise InvalidArgumentError(
            f"{rows.length} rows are more than {rolling_ranks.MAX_ROWS - 1}; roll over parts of the column"
        )
    return kind, carried, valid


def _carried(column: ValueColumn, kind: ValueType) -> Array:
    """Return the carried numbers; the piece itself if it is the only one and needs no conversion."""
    if len(column.pieces) == 1 and column.pieces[0].dtype == kind.carrier:
        return np.ascontiguousarray(column.pieces[0])
    return column.carried()


def _limits(kind: ValueType) -> Array:
    """Return the least and the highest number of a carrier type, and the one of windows without an answer."""
    if kind.is_float:
        return np.array([-np.inf, np.inf, np.nan], dtype=kind.carrier)
    info = np.iinfo(np.int64)
    return np.array([info.min, info.max, NOT_A_TIME if kind.is_temporal else 0])


def _read_window(window: Any) -> int:
    if isinstance(window, bool) or not isinstance(window, (int, np.integer)):
        raise InvalidArgumentError(
            f"window must be a whole number of rows, not {window!r}; a window by time needs times=, one for each value"
        )
    return min(check_size("window", window, 1), rolling_ranks.MAX_ROWS)


def _read_min_count(min_count: int | None, default: int, limit: str) -> int:
    if min_count is None:
        return default
    least = check_size("min_count", min_count, 0)
    if limit and least > default:
        raise InvalidArgumentError(f"min_count must be at most {limit}, not {min_count}")
    return max(1, least)  # no window without a value has an answer


def _read_interpolation(interpolation: str, kind: ValueType) -> int:
    if interpolation not in INTERPOLATIONS:
        raise InvalidArgumentError(
            f"interpolation={interpolation!r} is unknown; use None or one of {', '.join(INTERPOLATIONS)}"
        )
    if not kind.is_float:
        raise InvalidArgumentError(f"interpolation needs floats, not {kind}; cast the values to float64")
    return INTERPOLATIONS[interpolation]
