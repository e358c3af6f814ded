"""Row reader: parses tables of source columns into rows of the store, and bad rows with the reason."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from quantide.history.appended_rows import MAX_ROW_WEIGHT, ParquetPiece, read_appended_rows
from quantide.history.bulk_load import NameReservation, WrittenFile, write_chunks
from quantide.history.key_columns import read_keys
from quantide.spark.stream.column_selection import ColumnSelection
from quantide.spark.stream.row_origin import BLOCK, COLUMN, LINE, REASON, ROW, row_numbers
from quantide.summary.value_column import read_column
from quantide.summary.value_types import type_named
from quantide.summary.weighted_values import repeat_indexes
from quantide.windows.time_clock import NANOSECONDS, TimeClock, TimeHorizon, show_span

CLOCKS = {"seconds": pa.float64(), "timestamp": pa.timestamp("ns", "UTC")}
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
UNIT_NAMES = {"ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
YEARS = (946_684_800, 4_102_444_800)  # 2000 and 2100, in seconds since 1970
WRONG_UNIT = "the time looks like"  # begins a reason
THEN_RETRY = ", then run `quantide quarantine retry`"  # for rows that are in quarantine already
ZONE = r"T?[0-9:.]+(Z|[+-][0-9]{2}:?([0-9]{2})?)$"  # at the end of a time of day
TIME_AHEAD = "the time is ahead"  # begins a reason


def clock_of(kind: pa.DataType) -> str:
    """Return the clock of times of a type."""
    numbers = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return "seconds" if numbers else "timestamp"


def to_seconds(column: Any, unit: str) -> Any:
    """Convert times from a unit to seconds, null where a time is no number.

    Whole seconds of integers are split off first: nanoseconds since 1970 do not fit float64.
    """
    each = PER_SECOND[unit]
    if each == 1:
        return column
    if not pa.types.is_integer(column.type):
        column, _ = cast_rows(column, pa.float64())
        return pc.divide(column, float(each))
    column, _ = cast_rows(column, pa.int64())
    whole = pc.divide(column, each)
    rest = pc.subtract(column, pc.multiply(whole, each))
    return pc.add(whole.cast(pa.float64(), safe=False), pc.divide(rest.cast(pa.float64()), float(each)))


def detect_wrong_unit(column: Any) -> list[tuple[NDArray[np.bool_], str]]:
    """Find times of the years 2000 to 2100 in another unit than seconds, which would lie far ahead; with a reason."""
    is_timestamp = pa.types.is_timestamp(column.type)
    if not is_timestamp and clock_of(column.type) != "seconds":
        return []
    numbers = column.cast(pa.int64()) if is_timestamp else column
    each_second = PER_SECOND[column.type.unit] if is_timestamp else 1
    newest = pc.max(numbers).as_py()
    if newest is None or not float(newest) / each_second > YEARS[1]:  # most often, and no copy is made
        return []
    seconds = numbers.cast(pa.float64(), safe=False).fill_null(0).to_numpy(zero_copy_only=False)
    seconds = seconds / each_second
    fix = "declare the column as BIGINT and set" if is_timestamp else "set"
    return [
        (mask, f'{WRONG_UNIT} {UNIT_NAMES[unit]} since 1970, read as seconds; {fix} time_unit = "{unit}"{THEN_RETRY}')
        for unit, each in PER_SECOND.items()
        if each > 1 and (mask := (seconds >= YEARS[0] * each) & (seconds < YEARS[1] * each)).any()
    ]


def cast_rows(column: Any, kind: pa.DataType) -> tuple[Any, NDArray[np.bool_] | None]:
    """Cast a column, with null where the type cannot represent a value; and return a mask of those rows, if any."""
    if column.type == kind:
        return column, None
    trimmed = pc.utf8_trim_whitespace(column) if is_text(column.type) else column
    try:
        if pa.types.is_timestamp(kind) and pa.types.is_integer(trimmed.type):  # a number is no time of day
            raise pa.ArrowNotImplementedError
        return trimmed.cast(kind), None
    except pa.ArrowNotImplementedError:  # no value of this type can be cast
        failed: NDArray[np.bool_] = trimmed.is_valid().to_numpy(zero_copy_only=False)
        return pa.nulls(len(trimmed), kind), failed
    except pa.ArrowInvalid:
        failed = _find_failures(trimmed, kind)
        return pc.if_else(pa.array(failed), pa.scalar(None, trimmed.type), trimmed).cast(kind), failed


def parse_times(column: Any) -> tuple[Any, NDArray[np.bool_]]:
    """Parse text as timestamps, in UTC if they have no zone; and return a mask of those that cannot be parsed."""
    text, null = pc.utf8_trim_whitespace(column), pa.scalar(None, column.type)
    has_zone = pc.match_substring_regex(text, ZONE)
    plain, plain_failed = cast_rows(pc.if_else(has_zone, null, text), pa.timestamp("us"))
    zoned, zoned_failed = cast_rows(pc.if_else(has_zone, text, null), pa.timestamp("us", "UTC"))
    bad = np.zeros(len(column), dtype=bool)
    for failed in (plain_failed, zoned_failed):
        bad |= False if failed is None else failed
    return pc.coalesce(zoned, pc.assume_timezone(plain, "UTC")), bad


def _find_failures(column: Any, kind: pa.DataType) -> NDArray[np.bool_]:
    """Return a mask of the values that cannot be cast, found by bisection."""
    failed = np.zeros(len(column), dtype=bool)
    pending = [(0, len(column))]
    while pending:
        start, end = pending.pop()
        try:
            column.slice(start, end - start).cast(kind)
        except pa.ArrowInvalid:
            if end - start == 1:
                failed[start] = True
            else:
                middle = (start + end) // 2
                pending += [(start, middle), (middle, end)]
    return failed


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


@dataclass(frozen=True)
class RowRules:
    """Rules by which the rows of a stream are read. They are sent to the tasks."""

    selection: ColumnSelection
    keys: tuple[str, ...]
    key_types: tuple[pa.DataType, ...]
    value_type: str
    nan: str
    clock: str = ""  # of the times: "seconds" or "timestamp"
    track_newest: bool = False  # find the newest time
    late_before: float | None = None  # times before this one, in seconds, are late
    time_unit: str | None = None  # of numeric times; None: seconds, and refuse times that look like another unit
    horizon: TimeHorizon | None = None  # the maximum that times may be ahead of the clock


@dataclass(frozen=True)
class IngestedRows:
    """Good rows in the order of arrival; values may be null. A row is stored as often as its weight says."""

    value: Any
    time: Any | None
    keys: tuple[Any, ...]
    filters: tuple[Any, ...]
    newest: float | None = None
    weights: Any | None = None

    def __len__(self) -> int:
        return len(self.value)

    @property
    def stored(self) -> int:
        """Number of rows that these are stored as."""
        return len(self) if self.weights is None else int(pc.sum(self.weights).as_py() or 0)

    def filter(self, mask: Any) -> "IngestedRows":
        return self._map(lambda column: column.filter(mask))

    def repeated(self, size: int) -> Iterator["IngestedRows"]:
        """Yield the rows as they are stored: each as often as its weight says, `size` at a time."""
        if self.weights is None:
            yield self
            return
        plain = replace(self, weights=None)
        for index in repeat_indexes(self.weights.to_numpy(), size):
            yield plain._map(partial(pc.take, indices=pa.array(index)))

    def _map(self, function: Callable[[Any], Any]) -> "IngestedRows":
        """Return rows whose columns are a function of these."""
        time, weights = (None if column is None else function(column) for column in (self.time, self.weights))
        keys, filters = (tuple(map(function, columns)) for columns in (self.keys, self.filters))
        return replace(self, value=function(self.value), time=time, keys=keys, filters=filters, weights=weights)

    @classmethod
    def concat(cls, parts: Sequence["IngestedRows"]) -> "IngestedRows":
        if len(parts) == 1:
            return parts[0]
        times = [part.time for part in parts]
        newest = [part.newest for part in parts if part.newest is not None]
        return cls(
            _concat_columns([part.value for part in parts]),
            None if times[0] is None else _concat_columns(times),
            tuple(_concat_columns(list(columns)) for columns in zip(*(part.keys for part in parts), strict=True)),
            tuple(_concat_columns(list(columns)) for columns in zip(*(part.filters for part in parts), strict=True)),
            max(newest, default=None),
            None if parts[0].weights is None else _concat_columns([part.weights for part in parts]),
        )


def write_rows(
    names: NameReservation, task: int, number: int, rows: IngestedRows, rules: RowRules
) -> list[WrittenFile]:
    """Write rows as chunk `number` of a task, sorted, with an index file; and as recent rows with times and filters."""
    valid = rows.filter(rows.value.is_valid()) if rows.value.null_count else rows
    column = read_column(rows.value, type_named(rules.value_type))
    keys = None
    if rules.keys:
        key_values: Any = dict(zip(rules.keys, valid.keys, strict=True)) if len(rules.keys) > 1 else valid.keys[0]
        keys = read_keys(key_values, rules.keys, len(valid), list(rules.key_types))
    recent = None
    if names.settings.window is not None:
        filter_names = names.settings.filters
        filters = dict(zip(filter_names, valid.filters, strict=True))
        recent = read_appended_rows(keys, column, None, valid.time, filters, filter_names)
    return write_chunks(names.after_chunks(number), task, [ParquetPiece(keys, column, recent)], rules.nan)


def read_rows(table: pa.Table, rules: RowRules) -> tuple[IngestedRows, pa.Table | None]:
    """Return the good rows of a table, and the bad ones in their original columns with the reason; None without any."""
    selected = rules.selection.select(table)
    bad = _RejectedRows(len(table))
    if selected.read_error is not None:
        bad.add_reasons(selected.read_error, selected.error_column)
    kind = type_named(rules.value_type)
    bad.column = rules.selection.value
    value = bad.cast(selected.value, kind.arrow, f"the value is not {kind}")
    if kind.is_float and rules.nan == "refuse":
        bad.reject(pc.is_nan(value), "the value is nan")
    keys = tuple(
        bad.cast_key(column, key_type, name)
        for column, key_type, name in zip(selected.keys, rules.key_types, rules.keys, strict=True)
    )
    bad.column = rules.selection.time or ""
    time = None if selected.time is None else bad.cast_time(selected.time, rules.clock, rules.time_unit)
    if time is not None and rules.horizon is not None:
        bad.reject_ahead(time, rules.horizon)
    newest = bad.reject_late(time, rules.late_before) if time is not None and rules.track_newest else None
    bad.column = rules.selection.weight or ""
    weights = None if selected.weight is None else bad.cast_weights(selected.weight)
    rows = IngestedRows(value, time, keys, selected.filters, newest, weights)
    if not bad.has_rows:
        return rows, None
    mask = bad.mask
    rejected = table.filter(pa.array(mask))
    dropped = {REASON, COLUMN} | {name for name in table.column_names if name.startswith("=")} - {ROW, BLOCK}
    rejected = rejected.select([name for name in rejected.column_names if name not in dropped])
    if LINE not in rejected.column_names:
        rejected = rejected.append_column(LINE, row_numbers(mask))
    for name, texts in ((REASON, bad.reasons), (COLUMN, bad.columns)):
        rejected = rejected.append_column(name, pa.array(texts, pa.string()))
    return rows.filter(pa.array(~mask)), rejected


class _RejectedRows:
    """Bad rows of a table, with the first reason of each; it takes no memory while all rows are good."""

    def __init__(self, rows: int) -> None:
        self._rows, self._reasons = rows, [("", "")]  # reason and column
        self.column = ""  # the column that is being checked, as the configuration names it
        self._codes: NDArray[np.int16] | None = None  # indexes of reasons; 0 for a good row

    @property
    def has_rows(self) -> bool:
        return self._codes is not None

    @property
    def mask(self) -> NDArray[np.bool_]:
        return np.zeros(self._rows, dtype=bool) if self._codes is None else self._codes != 0

    @property
    def reasons(self) -> list[str]:
        """Reasons of the bad rows."""
        return [reason for reason, _ in self._rejected]

    @property
    def columns(self) -> list[str | None]:
        """Columns at fault of the bad rows, where one is."""
        return [column or None for _, column in self._rejected]

    @property
    def _rejected(self) -> list[tuple[str, str]]:
        return [] if self._codes is None else [self._reasons[code] for code in self._codes[self._codes != 0].tolist()]

    def reject(self, mask: Any, reason: str) -> None:
        """Reject the rows of a mask, which may have nulls."""
        if pc.any(mask).as_py():
            self._mark(mask.fill_null(False).to_numpy(zero_copy_only=False), reason)

    def add_reasons(self, reasons: Any, columns: Any | None) -> None:
        """Reject the rows that have a reason in an array of reasons; `columns` are the columns at fault."""
        faulty = pa.repeat(pa.scalar(""), len(reasons)) if columns is None else columns.fill_null("")
        for reason in reasons.unique().drop_null().to_pylist():
            same = pc.equal(reasons, reason).fill_null(False)
            for self.column in faulty.filter(same).unique().to_pylist():
                self.reject(pc.and_(same, pc.equal(faulty, self.column)), reason)

    def cast(self, column: Any, kind: pa.DataType, reason: str) -> Any:
        """Cast a column; reject the rows where that fails, and return null there."""
        out, failed = cast_rows(column, kind)
        if failed is not None:
            self._mark(failed, f"{reason}, but {column.type}" if not is_text(column.type) else reason)
        return out

    def cast_key(self, column: Any, kind: pa.DataType, name: str) -> Any:
        """Cast a key column to its type."""
        self.column = name
        return self.cast(column, kind, f"the key {name} is not {kind}")

    def cast_weights(self, column: Any) -> Any:
        """Cast weights to whole numbers; reject those that are missing, fractional, negative or too large."""
        self.reject(column.is_null(), "the row has no weight")
        reason = f"the weight is no whole number from 0 to {MAX_ROW_WEIGHT:,}"
        if pa.types.is_boolean(column.type) or pa.types.is_temporal(column.type):  # Arrow would cast them
            self.reject(column.is_valid(), reason)
            return pa.nulls(len(column), pa.int64())
        weights, failed = cast_rows(column, pa.int64())
        if failed is not None:
            self._mark(failed, reason)
        self.reject(pc.or_(pc.less(weights, 0), pc.greater(weights, MAX_ROW_WEIGHT)), reason)
        return weights

    def cast_time(self, column: Any, clock: str, unit: str | None = None) -> Any:
        """Cast times to seconds, or to timestamps in UTC; text is parsed as timestamps."""
        nulls = column.is_null()
        if unit is None:
            for mask, reason in detect_wrong_unit(column):
                self._mark(mask, reason)
        elif clock == "seconds":
            column = to_seconds(column, unit)
            self.reject(pc.and_not(column.is_null(), nulls), "the time is no number")
        if clock == "timestamp" and is_text(column.type):
            column, failed = parse_times(column)
            self._mark(failed, "the time cannot be read")
        if clock == "timestamp" and (pa.types.is_timestamp(column.type) or pa.types.is_date(column.type)):
            column, too_far = cast_rows(column, CLOCKS[clock])
            if too_far is not None:
                self._mark(too_far, "the time is outside the years 1678 to 2261, which nanoseconds cannot count")
        column = self.cast(column, CLOCKS[clock], f"the time is no {clock}")
        self.reject(nulls, "the row has no time")
        if clock == "seconds":
            self.reject(pc.invert(pc.is_finite(column)), "the time is not finite")
        return column

    def reject_late(self, column: Any, late_before: float | None) -> float | None:
        """Reject times before `late_before`; return the newest time, in seconds."""
        clock, numbers = self._good_times(column)
        if not len(numbers):
            return None
        each = 1 if clock.kind == "seconds" else NANOSECONDS
        if late_before is not None:
            self._mark(self._expand_mask(numbers < late_before * each), "the row is late")
        return float(numbers.max()) / each

    def reject_ahead(self, column: Any, horizon: TimeHorizon) -> None:
        """Reject times further ahead of the clock than is plausible."""
        if not self.has_rows and _all_within(column, horizon):
            return
        clock, numbers = self._good_times(column)
        if len(numbers) and numbers.max() > horizon.latest(clock):
            reason = f"{TIME_AHEAD} of this machine's clock by more than max_ahead, {show_span(horizon.ahead)}"
            self._mark(self._expand_mask(numbers > horizon.latest(clock)), reason)

    def _good_times(self, column: Any) -> tuple[TimeClock, NDArray[Any]]:
        """Return the times of the good rows."""
        return TimeClock.read(column.filter(pa.array(~self.mask)) if self.has_rows else column, None)

    def _expand_mask(self, good: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return a mask over the good rows as a mask over all rows."""
        mask = np.zeros(self._rows, dtype=bool)
        mask[~self.mask] = good
        return mask

    def _mark(self, mask: NDArray[np.bool_], reason: str) -> None:
        """Reject the rows of a mask, except those that have a reason already."""
        if not mask.any():
            return
        if self._codes is None:
            self._codes = np.zeros(self._rows, dtype=np.int16)
        self._codes[mask & (self._codes == 0)] = len(self._reasons)
        self._reasons.append((reason, self.column))


def _all_within(column: Any, horizon: TimeHorizon) -> bool:
    """Return True if all times are valid and not further ahead of the clock than is plausible, by their extremes."""
    if column.null_count or not len(column) or not pa.types.is_timestamp(column.type):
        return False
    extremes = pc.min_max(column)
    clock = TimeClock("timestamp" if column.type.tz is None else "timestamp with zone")
    is_valid = bool(extremes["min"].value > np.iinfo(np.int64).min)  # the smallest number is NaT
    return is_valid and bool(
        extremes["max"].value * NANOSECONDS // PER_SECOND[column.type.unit] <= horizon.latest(clock)
    )


def _concat_columns(columns: list[Any]) -> Any:
    chunks = [chunk for column in columns for chunk in (column.chunks if hasattr(column, "chunks") else [column])]
    kinds = {chunk.type for chunk in chunks}
    return pa.chunked_array([chunk.cast(chunks[0].type) for chunk in chunks] if len(kinds) > 1 else chunks)
