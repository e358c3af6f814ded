"""Times and spans of time: numbers are seconds, timestamps are counted in nanoseconds.

A window is on one clock: that of its first time. Spans are exact fractions of a second, so that "within 0.1" means the
same on both.
"""

import math
import re
from datetime import timedelta
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from quantide.errors import InvalidArgumentError, TypeMismatchError
from quantide.summary.column import read_column
from quantide.summary.types import ValueType
from quantide.windows.wall_clock import wall_clock

Times = NDArray[Any]

NANOSECONDS = 10**9
LONGEST, DIGITS = 10**300, 400  # of spans; no float64 has a denominator of more digits
EXACT = 2**53  # whole seconds up to here are float64 exactly
UNITS = {
    Fraction(1, NANOSECONDS): ("ns", "nanosecond", "nanoseconds"),
    Fraction(1, 10**6): ("us", "microsecond", "microseconds"),
    Fraction(1, 1000): ("ms", "millisecond", "milliseconds"),
    Fraction(1): ("s", "sec", "secs", "second", "seconds"),
    Fraction(60): ("min", "m", "mins", "minute", "minutes"),
    Fraction(3600): ("h", "hour", "hours"),
    Fraction(86400): ("d", "day", "days"),
    Fraction(604800): ("w", "week", "weeks"),
}
SECONDS = {name: seconds for seconds, names in UNITS.items() for name in names}
EPOCH_UNITS = {"milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}
EPOCH_START = 10**8  # seconds since 1970 from which on a number can be taken for a time of now
_TERM = re.compile(r"\s*([0-9]{1,400}(?:\.[0-9]{1,400})?)\s*([A-Za-z]+)\s*")


def read_span(span: Any) -> Fraction:
    """A length of time in seconds: a number of seconds, a timedelta, or text such as "5 min" or "1 h 30 min".

    >>> read_span("1 h 30 min"), read_span(0.5)
    (Fraction(5400, 1), Fraction(1, 2))
    """
    seconds = _seconds(span)
    if seconds is None:
        raise InvalidArgumentError(
            f'{span!r} is not a length of time; give seconds, a timedelta, or text such as "5 min" or "1 h 30 min"'
        )
    if seconds <= 0:
        raise InvalidArgumentError(f"a length of time must be above zero, not {span!r}")
    if seconds > LONGEST or seconds.denominator >= 10**DIGITS:
        raise InvalidArgumentError(f"a length of time above {LONGEST:.0e} s or of more than {DIGITS} digits; round it")
    return seconds


def show_span(seconds: Fraction) -> str:
    """A length of time as text, in the largest unit that it is a whole number of.

    >>> show_span(Fraction(300)), show_span(Fraction(100)), show_span(Fraction(1, 3))
    ('5 min', '100 s', '0.333333 s')
    """
    unit = max((unit for unit in UNITS if (seconds / unit).denominator == 1), default=Fraction(1))
    return f"{float(seconds / unit):.6g} {UNITS[unit][0]}"


def suspected_unit(seconds: float) -> str | None:
    """The unit that makes a number a time between 1973 and about now, if it is not seconds.

    >>> suspected_unit(1.7e12), suspected_unit(1.7e15), suspected_unit(1.7e18), suspected_unit(3.8e9)
    ('milliseconds', 'microseconds', 'nanoseconds', None)
    """
    latest = 2 * wall_clock()
    return next((unit for unit, each in EPOCH_UNITS.items() if EPOCH_START <= seconds / each <= latest), None)


def _seconds(span: Any) -> Fraction | None:
    if isinstance(span, str):
        return _from_text(span)
    if isinstance(span, pa.Scalar):
        span = span.as_py()
    if isinstance(span, timedelta):  # pandas keeps nanoseconds beside what a timedelta can say
        return Fraction(span // timedelta(microseconds=1), 10**6) + Fraction(
            getattr(span, "nanoseconds", 0), NANOSECONDS
        )
    if isinstance(span, np.timedelta64):
        unit, each = np.datetime_data(span.dtype)
        unit = unit if unit not in ("D", "W") else unit.lower()  # months and years have no fixed length
        return None if np.isnat(span) or unit not in SECONDS else int(span.astype(np.int64)) * each * SECONDS[unit]
    if isinstance(span, (bool, np.bool_)) or not isinstance(span, (int, float, np.integer, np.floating, Fraction)):
        return None
    if isinstance(span, np.generic):
        span = span.item()
    return None if isinstance(span, float) and not math.isfinite(span) else Fraction(span)


def _from_text(text: str) -> Fraction | None:
    total, at = Fraction(0), 0
    while at < len(text):
        term = _TERM.match(text, at)
        if term is None or term[2].lower() not in SECONDS:
            return None
        total += Fraction(term[1]) * SECONDS[term[2].lower()]
        at = term.end()
    return total if text.strip() else None


class Clock:
    """Reads times of one kind: "seconds", "timestamp", or "timestamp with zone"."""

    KINDS = ("seconds", "timestamp", "timestamp with zone")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.dtype: np.dtype[Any] = np.dtype(np.float64 if kind == "seconds" else np.int64)

    @staticmethod
    def read(times: Any, clock: "Clock | None") -> tuple["Clock", Times]:
        """Times as numbers that can be compared, and the clock they are on."""
        column = read_column(times)
        if column.nulls:
            raise InvalidArgumentError("a time is null; every value needs a time, or none does")
        found = Clock(_kind(column.type))
        if clock is not None and len(column) and found.kind != clock.kind:
            raise TypeMismatchError(f"times are {found.kind} here and were {clock.kind} before; give one kind of time")
        clock = clock or found
        numbers = column.carried()
        if not len(numbers):
            return clock, np.empty(0, clock.dtype)
        if clock.kind == "seconds":
            return clock, _as_seconds(numbers, column.type)
        return clock, _as_nanoseconds(numbers, column.type)

    def moment(self, time: Any) -> Any:
        """One time as the number that times of this clock are compared by."""
        _, numbers = Clock.read(time, self)
        if len(numbers) != 1:
            raise InvalidArgumentError(f"one time is asked for here, not {len(numbers)}")
        return numbers[0]

    def back(self, now: Any, span: Fraction) -> Any:
        """The number that all times within a span of now are above.

        Seconds are subtracted as everyone subtracts float64; but now itself is within every span, however short.
        """
        if self.kind == "seconds":
            return min(float(now) - float(span), math.nextafter(float(now), -math.inf))
        return max(math.floor(int(now) - span * NANOSECONDS), np.iinfo(np.int64).min)

    def since(self, earlier: Any, now: Any) -> Fraction:
        """How long ago that was."""
        if self.kind == "seconds":
            return Fraction(float(now)) - Fraction(float(earlier))
        return Fraction(int(now) - int(earlier), NANOSECONDS)

    def show(self, number: Any) -> Any:
        """A number of this clock as a user knows it: seconds, or a datetime64 (UTC if times have a zone)."""
        return float(number) if self.kind == "seconds" else np.datetime64(int(number), "ns")


def _kind(kind: ValueType | None) -> str:
    if kind is None or kind.family in ("float64", "float32", "decimal") or kind.name.lstrip("u").startswith("int"):
        return "seconds"
    if kind.family in ("timestamp", "date"):
        return "timestamp with zone" if "tz=" in kind.name else "timestamp"
    raise TypeMismatchError(f"times of type {kind} are not supported; give numbers of seconds, or timestamps")


def _as_seconds(numbers: Times, kind: ValueType | None) -> Times:
    each = 10**kind.scale if kind and kind.is_decimal else 1
    if numbers.dtype.kind == "i" and max(abs(int(numbers.min())), abs(int(numbers.max()))) > EXACT * each:
        unit = suspected_unit(float(int(numbers.max()) / each))
        looks = "" if unit is None else f", which looks like {unit}: divide by {EPOCH_UNITS[unit]:,}"
        raise InvalidArgumentError(f"a time beyond {EXACT} seconds{looks}; give timestamps for times so far away")
    seconds = numbers.astype(np.float64) / each
    if not np.isfinite(seconds).all():
        raise InvalidArgumentError("a time is nan or infinite; give times that are numbers")
    return seconds


def _as_nanoseconds(numbers: Times, kind: ValueType | None) -> Times:
    unit = "d" if kind is None or kind.name == "date" else np.datetime_data(kind.dtype)[0]
    each = int(SECONDS[unit] * NANOSECONDS)
    most = np.iinfo(np.int64).max // each
    if max(abs(int(numbers.min())), abs(int(numbers.max()))) > most:
        raise InvalidArgumentError(
            "a time outside the years 1678 to 2261, which nanoseconds cannot count; give seconds"
        )
    return numbers * each
