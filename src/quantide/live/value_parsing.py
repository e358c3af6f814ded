"""Values written as text, parsed to be compared with the values of a stream."""

import re
from decimal import Decimal
from typing import Any

import numpy as np

from quantide.errors import InvalidArgumentError, QuantideError
from quantide.summary.value_types import ValueType
from quantide.windows.time_clock import read_span

TIMESTAMP = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?Z?)?")
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
MAX_EXPONENT = 400  # decimal exponent of a number to compare with; float64 has a smaller one


def read_value(text: str, kind: ValueType) -> Any:
    """Parse a value to compare with: "12.5", "inf", "2026-01-01T00:00:00", "1500 ms".

    >>> from quantide.summary.value_types import type_named
    >>> read_value("2026-01-01", type_named("timestamp[s]")), read_value("1.5 s", type_named("duration[ms]"))
    (np.datetime64('2026-01-01T00:00:00'), np.timedelta64(1500,'ms'))
    """
    try:
        if kind.is_temporal:
            return _read_duration(text, kind) if kind.dtype.kind == "m" else _read_timestamp(text, kind)
        return float(text) if kind.is_float else _read_decimal(text)
    except (ValueError, ArithmeticError, QuantideError) as error:
        raise InvalidArgumentError(
            f"{text[:80]!r} cannot be compared with values of type {kind}; write {_example(kind)}, for instance"
        ) from error


def _example(kind: ValueType) -> str:
    if kind.is_temporal:
        return "1500 ms" if kind.dtype.kind == "m" else "2026-01-31" if kind.name == "date" else "2026-01-31T12:00:00"
    return "12.5" if kind.is_float or kind.is_decimal else "12"


def _read_decimal(text: str) -> Decimal:
    number = Decimal(text)
    if number.is_nan():
        raise InvalidArgumentError(f"{text!r} has no rank")
    if number.is_finite() and number and abs(number.adjusted()) > MAX_EXPONENT:
        raise InvalidArgumentError(f"{text!r} has more digits than any value")  # each digit would take memory
    return number


def _read_duration(text: str, kind: ValueType) -> Any:
    units = read_span(text) * PER_SECOND[np.datetime_data(kind.dtype)[0]]
    if units.denominator > 1 or units > kind.limits[1]:
        raise InvalidArgumentError(f"{text!r} is finer than the values are, or larger than they can be")
    return np.int64(int(units)).view(kind.dtype)


def _read_timestamp(text: str, kind: ValueType) -> Any:
    """Parse a timestamp in the unit of the values; UTC if they have a zone."""
    if TIMESTAMP.fullmatch(text) is None or (text.endswith("Z") and "tz=" not in kind.name):
        raise InvalidArgumentError(f"{text!r} is no timestamp; write 2026-01-31T12:00:00")
    given = np.datetime64(text.removesuffix("Z"))
    time = given.astype(kind.dtype)
    if time != given or time.astype("M8[D]") != given.astype("M8[D]"):  # numpy wraps around outside the range
        raise InvalidArgumentError(f"{text!r} is finer than the values are, or later than they can be")
    return time
