"""Arrivals: the rows of an append in the order they came, with their times and what filters say of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from quantide.errors import InvalidArgumentError
from quantide.store.manifest import Manifest
from quantide.store.recent import FLAG, RecentRows
from quantide.store.settings import Settings
from quantide.summary.column import Column, has_nan
from quantide.summary.types import type_named
from quantide.windows.ahead import Horizon
from quantide.windows.clock import Clock

MOST = 1 << 22  # rows of a recent file

Array = NDArray[Any]


@dataclass(frozen=True)
class Arrivals:
    """Rows without nulls and NaN. `times` is one number for all, or one for each; None tells that rows have no time of
    their own, and came now."""

    keys: pa.Array | None
    values: Array
    clock: Clock | None
    times: Array | None
    flags: Array | None

    def pieces(self, settings: Settings, known: Manifest, now: int) -> tuple[Clock, list[RecentRows]]:
        """Rows for recent files, each of bounded size, on the clock of the store; rows without times came `now`."""
        clock = self._on_clock(known)
        times = self.times if self.times is not None else np.array([now])
        kind, out = type_named(settings.value_type), []
        for start in range(0, len(self.values), MOST):
            rows = slice(start, start + MOST)
            values = self.values[rows]
            when = times[rows] if len(times) == len(self.values) else np.broadcast_to(times, (len(values),))
            keys = None if self.keys is None else self.keys.slice(start, MOST)
            flags = None if self.flags is None else self.flags[rows]
            out.append(RecentRows.of(kind, clock.kind, keys, values, when, flags))
        return clock, out

    def check_ahead(self, ahead: Fraction | None) -> None:
        """Refuse times that are further ahead of the wall clock than so many seconds."""
        if ahead is not None and self.clock is not None and self.times is not None:
            Horizon.of(ahead).check(self.clock, self.times)

    def _on_clock(self, known: Manifest) -> Clock:
        given = self.times is not None
        if known.clock is None:
            return self.clock or Clock("timestamp with zone")
        if given != known.given:
            before = "with times; give the times of these, too" if known.given else "without times; give none"
            raise InvalidArgumentError(f"earlier values came {before}")
        clock = Clock(known.clock)
        if self.clock is not None and self.clock.kind != clock.kind:
            raise InvalidArgumentError(f"times are {self.clock.kind} here and were {clock.kind} before; give one kind")
        return clock


def read_arrivals(
    keys: pa.Array | None,
    column: Column,
    valid: NDArray[np.bool_] | None,
    times: Any,
    filters: Mapping[str, Any] | None,
    names: Sequence[str],
) -> Arrivals:
    """`keys` and `column` are without nulls already; `valid` tells which rows those are. Nothing is noted yet."""
    rows = len(column) if valid is None else len(valid)
    values = column.carried()
    good = ~np.isnan(values) if has_nan(values) else None
    clock, numbers = _read_times(times, rows)
    flags = _read_flags(filters, names, rows)

    def kept(array: Array | None) -> Array | None:
        if array is None or len(array) != rows:
            return array
        array = array if valid is None else array[valid]
        return array if good is None else array[good]

    if good is not None:
        values, keys = values[good], None if keys is None else keys.filter(pa.array(good))
    return Arrivals(keys, values, clock, kept(numbers) if _has_length(times) else numbers, kept(flags))


def _read_times(times: Any, rows: int) -> tuple[Clock | None, Array | None]:
    if times is None:
        return None, None
    clock, numbers = Clock.read(times, None)
    if _has_length(times) and len(numbers) != rows:
        raise InvalidArgumentError(f"{len(numbers)} times for {rows} values; give one for each, or one for all")
    return clock, numbers


def _read_flags(filters: Mapping[str, Any] | None, names: Sequence[str], rows: int) -> Array | None:
    """A bit for each filter: whether a row satisfies it. Null is no."""
    given = {} if filters is None else filters
    if not isinstance(given, Mapping):
        raise InvalidArgumentError(
            f"filters={given!r} is not a dict that tells for each filter which values satisfy it"
        )
    if set(given) != set(names):
        wrong = sorted(set(given) ^ set(names))
        known = f"declared are {', '.join(names)}" if names else "none are declared: History(path, filters=[...])"
        raise InvalidArgumentError(f"filters={wrong} are missing, or not known; {known}")
    if not names:
        return None
    flags = np.zeros(rows, dtype=FLAG)
    for place, name in enumerate(names):
        flags |= _mask(given[name], name, rows).astype(FLAG) << FLAG.type(place)
    return flags


def _mask(given: Any, name: str, rows: int) -> NDArray[np.bool_]:
    if isinstance(given, (bool, np.bool_)):
        return np.full(rows, bool(given))
    try:
        array = given if isinstance(given, (pa.Array, pa.ChunkedArray)) else pa.array(given)
        mask = array.cast(pa.bool_()) if pa.types.is_null(array.type) else array
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidArgumentError(f"the filter {name!r} is one true or false for each value: {error}") from error
    if not pa.types.is_boolean(mask.type) or len(mask) != rows:
        raise InvalidArgumentError(
            f"the filter {name!r} is one true or false for each of {rows} values, not {len(mask)} of {mask.type}"
        )
    found: NDArray[np.bool_] = mask.fill_null(False).to_numpy(zero_copy_only=False)
    return found


def _has_length(times: Any) -> bool:
    return np.ndim(times) > 0 if isinstance(times, (np.ndarray, np.generic)) else hasattr(times, "__len__")
