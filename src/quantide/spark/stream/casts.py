"""Casts, row by row: a value that has no place in a type becomes null, and is told."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

CLOCKS = {"seconds": pa.float64(), "timestamp": pa.timestamp("ns", "UTC")}
ZONE = r"T?[0-9:.]+(Z|[+-][0-9]{2}:?([0-9]{2})?)$"  # at the end of a time of day


def clock_of(kind: pa.DataType) -> str:
    """What clock times of a type are on."""
    numbers = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return "seconds" if numbers else "timestamp"


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
