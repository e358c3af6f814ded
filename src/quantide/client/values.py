"""Values as JSON has them, read back as what they are; and values as a request has them."""

import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np

from quantide.errors import InvalidArgumentError
from quantide.summary.column import read_column
from quantide.summary.types import ValueType

COARSE = {"Y": "D", "M": "D", "W": "D", "h": "m"}  # units of numpy whose text is no whole moment, and finer ones


def read_value(shown: Any, kind: ValueType) -> Any:
    """A value of a stream, of the type that a reader in the same process would give.

    >>> from quantide.summary.types import type_named
    >>> read_value("-inf", type_named("float64")), read_value("1.50", type_named("decimal[2]"))
    (np.float64(-inf), Decimal('1.50'))
    >>> read_value("1500 ms", type_named("duration[ms]")), read_value("2026-01-31", type_named("date"))
    (np.timedelta64(1500,'ms'), np.datetime64('2026-01-31'))
    """
    if kind.is_decimal:
        return Decimal(shown)
    if kind.dtype.kind == "m":
        number, unit = shown.split(" ")
        return np.timedelta64(int(number), unit).astype(kind.dtype)
    if kind.dtype.kind == "M":
        return np.datetime64(str(shown)).astype(kind.dtype)
    if isinstance(shown, bool) or not isinstance(shown, (int, float, str)):
        raise TypeError(f"{shown!r} is not a value of type {kind}")
    return kind.dtype.type(float(shown) if kind.is_float else shown)


def read_time(shown: Any) -> Any:
    """A time of a stream: seconds, or a timestamp; None where there is none.

    >>> read_time(12.5), read_time("2026-01-31T12:00:00")
    (12.5, np.datetime64('2026-01-31T12:00:00'))
    """
    if isinstance(shown, str):
        return np.datetime64(shown)
    return None if shown is None else float(shown)


def text_of(value: Any) -> str:
    """A value as text that a server reads, and loses nothing.

    >>> text_of(0.1), text_of(np.float32(0.5)), text_of(Decimal("1.50")), text_of(np.timedelta64(90, "s"))
    ('0.1', '0.5', '1.50', '90 s')
    >>> text_of(np.datetime64("2026-01-31T12")), text_of(np.datetime64("2026"))
    ('2026-01-31T12:00', '2026-01-01')
    """
    if isinstance(value, (date, np.datetime64, np.timedelta64)) or hasattr(value, "total_seconds"):
        return _temporal(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise InvalidArgumentError(f"{value!r} is not a value that a server can be asked about")
    if value != value:
        raise InvalidArgumentError("nan has no rank; ask about values only")
    return repr(value) if isinstance(value, float) else str(value)


def number_text(number: float) -> str:
    """A number without an exponent.

    >>> number_text(1e-07), number_text(300)
    ('0.0000001', '300')
    """
    if not math.isfinite(number):
        raise InvalidArgumentError(f"{number!r} is not a length of time")
    return format(Decimal(repr(number)), "f")


def time_text(time: Any) -> str:
    """A moment as a request has it: seconds, or a timestamp (in UTC if it has a zone)."""
    if isinstance(time, (bool, np.bool_)) or not isinstance(time, (int, float, str, np.generic, date)):
        raise InvalidArgumentError(f"{time!r} is no time; give seconds, a datetime, or text")
    return text_of(time)


def _temporal(value: Any) -> str:
    """Through a column, which knows zones, and the nanoseconds of pandas."""
    if isinstance(value, np.datetime64) and not np.isnat(value):
        unit = np.datetime_data(value.dtype)[0]
        return str(value.astype(f"M8[{COARSE[unit]}]") if unit in COARSE else value)
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    column = read_column([value] if not isinstance(value, np.generic) else np.array([value]))
    if column.type is None or len(column) != 1 or not column.type.is_temporal:
        raise InvalidArgumentError(f"{value!r} is no time that a server can be asked about")
    found = column.type.restore(column.carried())[0]
    if found.dtype.kind == "M":
        return f"{found}Z" if "tz=" in column.type.name else str(found)
    return f"{int(found.astype(np.int64))} {np.datetime_data(found.dtype)[0]}"
