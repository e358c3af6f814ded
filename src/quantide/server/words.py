"""The words of a request: windows, keys, and places such as latency:/pay@within:5m."""

import json
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from quantide.errors import InvalidArgumentError, QuantideError
from quantide.live.asked import Asked
from quantide.summary.types import ValueType
from quantide.windows.clock import read_span

ALL = "all"
WINDOW = re.compile(r"all|steps:([0-9]{1,15})|last:([0-9]{1,15})(?:,within:(.{1,60}))?|within:(.{1,60})", re.ASCII)
PLACE = re.compile(
    r"([A-Za-z0-9][A-Za-z0-9_.-]{0,99})(?::(.*?))?"
    r"(?:@(all|steps:[0-9]+|last:[0-9]+(?:,within:[^@]+)?|within:[^@]+))?",
    re.S,
)
MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?Z?)?")
LONGEST_KEY = 1_000
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
LARGEST = 400  # digits of a number to compare with; no float64 has more before or after its point


def read_window(text: str) -> dict[str, Any]:
    """A window as the words of LiveStream.answer().

    >>> read_window("last:1000"), read_window("within:5m"), read_window("steps:7"), read_window("all")
    ({'last': 1000}, {'within': '5m'}, {'last_steps': 7}, {})
    >>> read_window("last:1000,within:5m")
    {'last': 1000, 'within': '5m'}
    """
    found = WINDOW.fullmatch(text)
    if found is None:
        raise InvalidArgumentError(
            f"{text[:80]!r} is not a window; write last:10000, within:5m, last:10000,within:5m, steps:7 or all, "
            "for instance"
        )
    steps, last, also, alone = found.groups()
    span = also or alone
    if span is not None:
        read_span(span)
    said = {"last_steps": steps and int(steps), "last": last and int(last), "within": span}
    return {name: value for name, value in said.items() if value is not None}


def read_key(parts: list[str] | None) -> Any:
    """A key out of one text, or of several where keys have several columns."""
    if not parts:
        return None
    if sum(map(len, parts)) > LONGEST_KEY:
        raise InvalidArgumentError(f"a key of more than {LONGEST_KEY} characters; no key is that long")
    return parts[0] if len(parts) == 1 else tuple(parts)


def read_value(text: str, kind: ValueType) -> Any:
    """A value to compare with, as text has it: "12.5", "inf", "2026-01-01T00:00:00", "1500 ms".

    >>> from quantide.summary.types import type_named
    >>> read_value("2026-01-01", type_named("timestamp[s]")), read_value("1.5 s", type_named("duration[ms]"))
    (np.datetime64('2026-01-01T00:00:00'), np.timedelta64(1500,'ms'))
    """
    try:
        if kind.is_temporal:
            return _duration(text, kind) if kind.dtype.kind == "m" else _moment(text, kind)
        return float(text) if kind.is_float else _decimal(text)
    except (ValueError, ArithmeticError, QuantideError) as error:
        raise InvalidArgumentError(
            f"{text[:80]!r} cannot be compared with values of type {kind}; write {_example(kind)}, for instance"
        ) from error


def read_time(text: str | None, zoned: bool) -> Any:
    """A moment: seconds, or a timestamp as text, of UTC where the times it is compared with have a zone."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        pass
    try:
        if not MOMENT.fullmatch(text) or (text.endswith("Z") and not zoned):  # numpy would take "now", too
            raise ValueError
        said = np.datetime64(text.removesuffix("Z"))
        found = said.astype("M8[ns]")
        if found.astype(said.dtype) != said:  # numpy goes round in a circle at the ends
            raise ValueError
    except ValueError as error:
        raise InvalidArgumentError(
            f"{text!r} is no time; write seconds, or 2026-01-31T12:00:00 where times are timestamps"
            + (", with Z or without" if zoned else ", without a zone: these have none")
        ) from error
    return pa.scalar(int(found.astype(np.int64)), pa.timestamp("ns", "UTC")) if zoned else found


def asked(key: Any, window: str, filter: str | None) -> Asked:
    """What a question is about."""
    return Asked(key=key, filter=filter, **read_window(window))


@dataclass(frozen=True)
class Place:
    """A stream, or a key of it, or a window of either: stream[:key][@window]."""

    stream: str
    key: Any
    window: str

    @classmethod
    def read(cls, text: str) -> "Place":
        """A key of several columns is a list in JSON. A key that ends like a window needs @all behind it.

        >>> Place.read("latency:/pay@within:5m")
        Place(stream='latency', key='/pay', window='within:5m')
        >>> Place.read('trades:["eu","AAPL"]').key
        ('eu', 'AAPL')
        """
        found = PLACE.fullmatch(text) if len(text) <= 2 * LONGEST_KEY else None
        if found is None:
            raise InvalidArgumentError(f"{text[:80]!r} does not name a stream; write stream[:key][@window]")
        stream, key, window = found.groups()
        return cls(stream, _key_of(key), window or ALL)


def _key_of(text: str | None) -> Any:
    if text is None or not text.startswith("["):
        return text
    try:
        parts = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return tuple(parts) if all(isinstance(part, (str, int, float, bool)) for part in parts) else text


def _example(kind: ValueType) -> str:
    if kind.is_temporal:
        return "1500 ms" if kind.dtype.kind == "m" else "2026-01-31" if kind.name == "date" else "2026-01-31T12:00:00"
    return "12.5" if kind.is_float or kind.is_decimal else "12"


def _decimal(text: str) -> Decimal:
    found = Decimal(text)
    if found.is_nan():
        raise InvalidArgumentError(f"{text!r} has no rank")
    if found.is_finite() and found and abs(found.adjusted()) > LARGEST:
        raise InvalidArgumentError(f"{text!r} has more digits than any value")  # and would take memory for each
    return found


def _duration(text: str, kind: ValueType) -> Any:
    found = read_span(text) * PER_SECOND[np.datetime_data(kind.dtype)[0]]
    if found.denominator > 1 or found > kind.limits[1]:
        raise InvalidArgumentError(f"{text!r} is finer than the values are, or larger than they can be")
    return np.int64(int(found)).view(kind.dtype)


def _moment(text: str, kind: ValueType) -> Any:
    """A moment in the unit of the values; of UTC where they have a zone."""
    if MOMENT.fullmatch(text) is None or (text.endswith("Z") and "tz=" not in kind.name):
        raise InvalidArgumentError(f"{text!r} is no moment; write 2026-01-31T12:00:00")
    said = np.datetime64(text.removesuffix("Z"))
    found = said.astype(kind.dtype)
    if found != said or found.astype("M8[D]") != said.astype("M8[D]"):  # numpy goes round in a circle at the ends
        raise InvalidArgumentError(f"{text!r} is finer than the values are, or later than they can be")
    return found
