"""Row casts: a value that a type cannot represent becomes null, and its row is reported."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

CLOCKS = {"seconds": pa.float64(), "timestamp": pa.timestamp("ns", "UTC")}
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
UNIT_NAMES = {"ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
YEARS = (946_684_800, 4_102_444_800)  # 2000 and 2100, in seconds since 1970
WRONG_UNIT = "the time looks like"  # begins a reason
THEN_RETRY = ", then run `quantide quarantine retry`"  # for rows that are in quarantine already
ZONE = r"T?[0-9:.]+(Z|[+-][0-9]{2}:?([0-9]{2})?)$"  # at the end of a time of day


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
    seconds = numbers.cast(pa.float64(), safe=False).fill_null(0).to_numpy(zero_copy_only=False)
    seconds = seconds / (PER_SECOND[column.type.unit] if is_timestamp else 1)
    if not (seconds > YEARS[1]).any():
        return []
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
