"""Times of pushed rows: text, numbers and timestamps become timestamps in UTC, with microseconds."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from quantide.errors import InvalidArgumentError, TypeMismatchError

TIME_TYPE = pa.timestamp("us", "UTC")
MICROSECONDS = {"s": 10**6, "ms": 10**3, "us": 1}
MAX_MICROSECONDS = (2**63 - 1) // 1_000  # since or before 1970, which are counted in nanoseconds
MAX_SECONDS = 4e10  # numbers beyond, read as seconds since 1970, are in another unit
ZONE = r"[0-9][T ][0-9:.]+(Z|[+-][0-9]{2}:?([0-9]{2})?)$"
NANOSECONDS = r"(\.[0-9]{6})[0-9]{1,3}"  # as some languages write times; microseconds are stored
TIMES = 'Send "2026-01-01T00:00:00Z", or a number of seconds since 1970 (time_unit sets another unit)'


def convert_times(column: Any, name: str, unit: str) -> Any:
    """Return times as timestamps in UTC: from text in ISO 8601, numbers in a unit since 1970, or timestamps.

    Raise TypeMismatchError if a time cannot be converted, or if a store, which counts nanoseconds, cannot have it.
    """
    times = _convert(column, name, unit)
    numbers = times.cast(pa.int64())
    outside = pc.or_(pc.less(numbers, -MAX_MICROSECONDS), pc.greater(numbers, MAX_MICROSECONDS))
    if pc.any(outside).as_py():
        row = pc.index(outside, True).as_py() + 1
        raise TypeMismatchError(
            f"row {row}: the time {name!r} is outside the years 1678 to 2261, which nanoseconds cannot count; correct "
            "it, or leave the row out. Nothing was added"
        )
    return times


def _convert(column: Any, name: str, unit: str) -> Any:
    kind = column.type
    try:
        if pa.types.is_null(kind):
            return pa.nulls(len(column), TIME_TYPE)
        if pa.types.is_timestamp(kind):
            plain = column if kind.tz is not None else pc.assume_timezone(column, "UTC")
            return plain.cast(TIME_TYPE, safe=kind.unit != "ns")  # nanoseconds are cut, and too large times refused
        if pa.types.is_date(kind):
            return pc.assume_timezone(column.cast(pa.timestamp("us")), "UTC")
        if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
            return _parse_texts(column.cast(pa.string()))
        if pa.types.is_integer(kind) or pa.types.is_floating(kind):
            return _read_numbers(column, name, unit)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        detail = (str(error).splitlines() or [""])[0][:200]
        raise TypeMismatchError(f"the column {name!r} is not a time: {detail}. {TIMES}. Nothing was added") from error
    raise TypeMismatchError(f"the column {name!r} is {kind}, which is not a time. {TIMES}. Nothing was added")


def _parse_texts(column: Any) -> Any:
    text, null = pc.utf8_trim_whitespace(column), pa.scalar(None, pa.string())
    text = pc.replace_substring_regex(text, NANOSECONDS, r"\1")
    has_zone = pc.match_substring_regex(text, ZONE)
    zoned = pc.if_else(has_zone, text, null).cast(TIME_TYPE)
    plain = pc.if_else(has_zone, null, text).cast(pa.timestamp("us"))
    return pc.coalesce(zoned, pc.assume_timezone(plain, "UTC"))


def _read_numbers(column: Any, name: str, unit: str) -> Any:
    extremes = pc.min_max(column).as_py()
    furthest = max((number for number in extremes.values() if number is not None), key=abs, default=0)
    each = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    if not abs(furthest) / each < MAX_SECONDS:
        raise TypeMismatchError(
            f"the column {name!r} has {furthest}, which is no time in the unit {unit} since 1970; configure time_unit. "
            "Nothing was added"
        )
    if unit == "ns":
        return pc.divide(column.cast(pa.int64(), safe=False), 1_000).cast(pa.timestamp("us")).cast(TIME_TYPE)
    factor = MICROSECONDS[unit]
    if pa.types.is_integer(column.type):
        microseconds = pc.multiply(column.cast(pa.int64()), factor)
    else:
        microseconds = pc.round(pc.multiply(column.cast(pa.float64()), float(factor))).cast(pa.int64())
    return microseconds.cast(pa.timestamp("us")).cast(TIME_TYPE)


def fill_times(column: Any, rows: int, arrived: float, own_time: bool, name: str) -> Any:
    """Return times with the time of arrival in rows that have none."""
    if column is not None and not column.null_count:
        return column
    if own_time:
        row = pc.index(column.is_null(), True).as_py() + 1
        raise InvalidArgumentError(
            f"row {row}: the time {name!r} is missing; send it with every row. Nothing was added"
        )
    now = pa.scalar(int(arrived * 10**6), pa.timestamp("us")).cast(TIME_TYPE)
    return pa.repeat(now, rows) if column is None else pc.fill_null(column, now)
