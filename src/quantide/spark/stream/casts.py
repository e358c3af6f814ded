"""Casts, row by row: a value that has no place in a type becomes null, and is told."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

CLOCKS = {"seconds": pa.float64(), "timestamp": pa.timestamp("ns", "UTC")}
EACH = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}  # of a unit, in a second
LONG = {"ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
YEARS = (946_684_800, 4_102_444_800)  # 2000 and 2100, in seconds since 1970
LOOKS_LIKE = "the time looks like"
ZONE = r"T?[0-9:.]+(Z|[+-][0-9]{2}:?([0-9]{2})?)$"  # at the end of a time of day


def clock_of(kind: pa.DataType) -> str:
    """What clock times of a type are on."""
    numbers = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return "seconds" if numbers else "timestamp"


def in_seconds(column: Any, unit: str) -> Any:
    """Times in a unit as seconds, null where a time is no number.

    Whole seconds of integers are split off first: nanoseconds since 1970 do not fit float64.
    """
    each = EACH[unit]
    if each == 1:
        return column
    if not pa.types.is_integer(column.type):
        column, _ = cast_rows(column, pa.float64())
        return pc.divide(column, float(each))
    column, _ = cast_rows(column, pa.int64())
    whole = pc.divide(column, each)
    rest = pc.subtract(column, pc.multiply(whole, each))
    return pc.add(whole.cast(pa.float64(), safe=False), pc.divide(rest.cast(pa.float64()), float(each)))


def suspect_unit(column: Any) -> list[tuple[NDArray[np.bool_], str]]:
    """Times of the years 2000 to 2100 in another unit than seconds, which would lie far ahead; and what to do."""
    stamps = pa.types.is_timestamp(column.type)
    if not stamps and clock_of(column.type) != "seconds":
        return []
    numbers = column.cast(pa.int64()) if stamps else column
    seconds = numbers.cast(pa.float64(), safe=False).fill_null(0).to_numpy(zero_copy_only=False)
    seconds = seconds / (EACH[column.type.unit] if stamps else 1)
    if not (seconds > YEARS[1]).any():
        return []
    fix = "declare the column as BIGINT and set" if stamps else "set"
    return [
        (where, f'{LOOKS_LIKE} {LONG[unit]} since 1970, read as seconds; {fix} time_unit = "{unit}"')
        for unit, each in EACH.items()
        if each > 1 and (where := (seconds >= YEARS[0] * each) & (seconds < YEARS[1] * each)).any()
    ]


def cast_rows(column: Any, kind: pa.DataType) -> tuple[Any, NDArray[np.bool_] | None]:
    """A column in another type, null where a value has no place in it; and where that is so, if anywhere."""
    if column.type == kind:
        return column, None
    given = pc.utf8_trim_whitespace(column) if is_text(column.type) else column
    try:
        if pa.types.is_timestamp(kind) and pa.types.is_integer(given.type):  # a number is no time of day
            raise pa.ArrowNotImplementedError
        return given.cast(kind), None
    except pa.ArrowNotImplementedError:  # no value of this type ever has
        failed: NDArray[np.bool_] = given.is_valid().to_numpy(zero_copy_only=False)
        return pa.nulls(len(given), kind), failed
    except pa.ArrowInvalid:
        failed = _failures(given, kind)
        return pc.if_else(pa.array(failed), pa.scalar(None, given.type), given).cast(kind), failed


def times_of_text(column: Any) -> tuple[Any, NDArray[np.bool_]]:
    """Timestamps, with a zone or without: those are in UTC. And which cannot be read."""
    text, none = pc.utf8_trim_whitespace(column), pa.scalar(None, column.type)
    has_zone = pc.match_substring_regex(text, ZONE)
    plain, failed = cast_rows(pc.if_else(has_zone, none, text), pa.timestamp("us"))
    zoned, failed_too = cast_rows(pc.if_else(has_zone, text, none), pa.timestamp("us", "UTC"))
    bad = np.zeros(len(column), dtype=bool)
    for one in (failed, failed_too):
        bad |= False if one is None else one
    return pc.coalesce(zoned, pc.assume_timezone(plain, "UTC")), bad


def _failures(column: Any, kind: pa.DataType) -> NDArray[np.bool_]:
    """Which values cannot be cast, found by halving."""
    failed = np.zeros(len(column), dtype=bool)
    waiting = [(0, len(column))]
    while waiting:
        start, end = waiting.pop()
        try:
            column.slice(start, end - start).cast(kind)
        except pa.ArrowInvalid:
            if end - start == 1:
                failed[start] = True
            else:
                middle = (start + end) // 2
                waiting += [(start, middle), (middle, end)]
    return failed


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
