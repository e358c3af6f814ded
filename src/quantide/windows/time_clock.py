"""Times, spans of time, and the latest plausible time.

Numbers are seconds, timestamps are counted in nanoseconds. A window uses one clock: that of its first time. Spans are
exact fractions of a second, so that "within 0.1" means the same on both.

The newest time of a stream ends its time windows, so one wrong time in the future would empty them until then:
`max_ahead` limits how far a time may be ahead of the wall clock.
"""

import math
import re
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from quantide.errors import FutureTimeError, InvalidArgumentError, TypeMismatchError
from quantide.summary.value_column import read_column
from quantide.summary.value_types import ValueType
from quantide.typing import Array
from quantide.windows.wall_clock import wall_clock, wall_clock_ns

NANOSECONDS = 10**9
MAX_SPAN, MAX_DIGITS = 10**300, 400  # no float64 has a denominator of more digits
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
EPOCH_START = 10**8  # smallest number of seconds since 1970 that is taken for a present-day time
OFF = "off"
ANY_ZONE = 14 * 3600  # seconds that a timestamp without a zone may be ahead of UTC
LENGTHS = ((31_557_600, "years"), (86_400, "days"), (3_600, "hours"), (60, "min"), (1, "s"))
_TERM = re.compile(r"\s*([0-9]{1,400}(?:\.[0-9]{1,400})?)\s*([A-Za-z]+)\s*")


def read_span(span: Any) -> Fraction:
    """Return a length of time in seconds, from a number, a timedelta, or text such as "5 min" or "1 h 30 min".

    >>> read_span("1 h 30 min"), read_span(0.5)
    (Fraction(5400, 1), Fraction(1, 2))
    """
    seconds = _seconds(span)
    if seconds is None:
        text_fix = 'write a number with its unit: "5 s", "5 min" or "1 h 30 min"'
        fix = text_fix if isinstance(span, str) else "give seconds or a timedelta"
        raise InvalidArgumentError(f"{span!r} is not a length of time; {fix}")
    if seconds <= 0:
        raise InvalidArgumentError(f"a length of time must be above zero, not {span!r}")
    if seconds > MAX_SPAN or seconds.denominator >= 10**MAX_DIGITS:
        raise InvalidArgumentError(
            f"a length of time above {MAX_SPAN:.0e} s or of more than {MAX_DIGITS} digits; round it"
        )
    return seconds


def show_span(seconds: Fraction) -> str:
    """Format a length of time in the largest unit of which it is a whole number.

    >>> show_span(Fraction(300)), show_span(Fraction(100)), show_span(Fraction(1, 3))
    ('5 min', '100 s', '0.333333 s')
    """
    unit = max((unit for unit in UNITS if (seconds / unit).denominator == 1), default=Fraction(1))
    return f"{float(seconds / unit):.6g} {UNITS[unit][0]}"


def suspected_unit(seconds: float) -> str | None:
    """Return the unit that makes a number a time between 1973 and about now, unless that is seconds.

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
    if isinstance(span, timedelta):  # pandas stores nanoseconds beside the microseconds of a timedelta
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
    total, offset = Fraction(0), 0
    while offset < len(text):
        term = _TERM.match(text, offset)
        if term is None or term[2].lower() not in SECONDS:
            return None
        total += Fraction(term[1]) * SECONDS[term[2].lower()]
        offset = term.end()
    return total if text.strip() else None


class TimeClock:
    """Reads times of one kind: "seconds", "timestamp", or "timestamp with zone"."""

    KINDS = ("seconds", "timestamp", "timestamp with zone")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.dtype: np.dtype[Any] = np.dtype(np.float64 if kind == "seconds" else np.int64)

    @staticmethod
    def read(times: Any, clock: "TimeClock | None") -> tuple["TimeClock", Array]:
        """Return the clock of some times, and the times as numbers that can be compared."""
        column = read_column(times)
        if column.nulls:
            raise InvalidArgumentError("a time is null; every value needs a time, or none does")
        own = TimeClock(_clock_kind(column.type))
        if clock is not None and len(column) and own.kind != clock.kind:
            raise TypeMismatchError(f"times are {own.kind} here and were {clock.kind} before; give one kind of time")
        clock = clock or own
        numbers = column.carried()
        if not len(numbers):
            return clock, np.empty(0, clock.dtype)
        if clock.kind == "seconds":
            return clock, _as_seconds(numbers, column.type)
        return clock, _as_nanoseconds(numbers, column.type)

    def moment(self, time: Any) -> Any:
        """Return one time as a number of this clock."""
        _, numbers = TimeClock.read(time, self)
        if len(numbers) != 1:
            raise InvalidArgumentError(f"give one time, not {len(numbers)}")
        return numbers[0]

    def back(self, now: Any, span: Fraction) -> Any:
        """Return the number that all times within a span of now exceed.

        Seconds are subtracted as float64; but now itself is within every span, however short.
        """
        if self.kind == "seconds":
            return min(float(now) - float(span), math.nextafter(float(now), -math.inf))
        return max(math.floor(int(now) - span * NANOSECONDS), np.iinfo(np.int64).min)

    def back_all(self, times: Array, span: Fraction) -> Array:
        """Return back() of each of an array of times of this clock."""
        if self.kind == "seconds":
            limits: Array = np.minimum(times - float(span), np.nextafter(times, -np.inf))
            return limits
        lowest, whole = int(np.iinfo(np.int64).min), math.ceil(span * NANOSECONDS)
        if whole >= -lowest:  # more than 292 years
            return np.array([self.back(time, span) for time in times.tolist()], dtype=np.int64)
        return np.where(times < lowest + whole, lowest, times - whole)

    def since(self, earlier: Any, now: Any) -> Fraction:
        """Return the seconds from an earlier time to now."""
        if self.kind == "seconds":
            return Fraction(float(now)) - Fraction(float(earlier))
        return Fraction(int(now) - int(earlier), NANOSECONDS)

    def show(self, number: Any) -> Any:
        """Return a number of this clock as users see it: seconds, or a datetime64 (UTC if times have a zone)."""
        return float(number) if self.kind == "seconds" else np.datetime64(int(number), "ns")


def _clock_kind(kind: ValueType | None) -> str:
    if kind is None or kind.family in ("float64", "float32", "decimal") or kind.name.lstrip("u").startswith("int"):
        return "seconds"
    if kind.family in ("timestamp", "date"):
        return "timestamp with zone" if "tz=" in kind.name else "timestamp"
    raise TypeMismatchError(f"times of type {kind} are not supported; give numbers of seconds, or timestamps")


def _as_seconds(numbers: Array, kind: ValueType | None) -> Array:
    each = 10**kind.scale if kind and kind.is_decimal else 1
    if numbers.dtype.kind == "i" and max(abs(int(numbers.min())), abs(int(numbers.max()))) > EXACT * each:
        unit = suspected_unit(float(int(numbers.max()) / each))
        hint = "" if unit is None else f", which looks like {unit}: divide by {EPOCH_UNITS[unit]:,}"
        raise InvalidArgumentError(f"a time beyond {EXACT} seconds{hint}; give timestamps for times so far away")
    seconds = numbers.astype(np.float64, copy=False) / each if each > 1 else numbers.astype(np.float64, copy=False)
    if not np.isfinite(seconds).all():
        raise InvalidArgumentError("a time is nan or infinite; give times that are numbers")
    return seconds


def _as_nanoseconds(numbers: Array, kind: ValueType | None) -> Array:
    unit = "d" if kind is None or kind.name == "date" else np.datetime_data(kind.dtype)[0]
    each = int(SECONDS[unit] * NANOSECONDS)
    limit = np.iinfo(np.int64).max // each
    if max(abs(int(numbers.min())), abs(int(numbers.max()))) > limit:
        raise InvalidArgumentError(
            "a time outside the years 1678 to 2261, which nanoseconds cannot count; give seconds"
        )
    return numbers if each == 1 else numbers * each


def read_ahead(max_ahead: Any) -> Fraction | None:
    """Return the seconds that times may be ahead of the wall clock; None for "off".

    >>> read_ahead("1 hour"), read_ahead("off")
    (Fraction(3600, 1), None)
    """
    if isinstance(max_ahead, str) and max_ahead.strip().lower() == OFF:
        return None
    try:
        return read_span(max_ahead)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f'{error}; or "off", where times are not of the wall clock') from error


@dataclass(frozen=True)
class TimeHorizon:
    """The latest plausible time: `ahead` seconds after `now`, in nanoseconds since 1970."""

    now: int
    ahead: Fraction

    @classmethod
    def of(cls, ahead: Fraction) -> "TimeHorizon":
        """Return the horizon of this moment."""
        return cls(wall_clock_ns(), ahead)

    def latest(self, clock: TimeClock) -> Any:
        """Return the latest plausible time as a number of this clock."""
        latest = self.now + self.allowed(clock) * NANOSECONDS
        if clock.kind == "seconds":
            return float(latest / NANOSECONDS)
        return min(int(latest), np.iinfo(np.int64).max)

    def allowed(self, clock: TimeClock) -> Fraction:
        """Return the seconds that times of this clock may be ahead."""
        return self.ahead + (ANY_ZONE if clock.kind == "timestamp" else 0)

    def check(self, clock: TimeClock, times: Array) -> None:
        """Raise FutureTimeError if a time is further ahead."""
        if not len(times) or times.max() <= self.latest(clock):
            return
        count, worst = int(np.count_nonzero(times > self.latest(clock))), times.max()
        raise FutureTimeError(
            f"{count:,} of {len(times):,} times are further ahead of the clock than max_ahead, "
            f"{show_span(self.ahead)}: the latest is {clock.show(worst)}, {_show_ahead(clock, worst, self.now)} after "
            f"now, {clock.show(self._now(clock))}. {self._advice(clock, worst)}"
        )

    def _now(self, clock: TimeClock) -> Any:
        return self.now / NANOSECONDS if clock.kind == "seconds" else self.now

    def _advice(self, clock: TimeClock, worst: Any) -> str:
        unit = suspected_unit(float(worst)) if clock.kind == "seconds" else None
        if unit is not None:
            return f"It looks like {unit}; numbers are seconds: divide by {EPOCH_UNITS[unit]:,}, or pass timestamps"
        return 'Correct the times, or this machine\'s clock; where times are not of the wall clock, set max_ahead="off"'


def _show_ahead(clock: TimeClock, time: Any, now: int) -> str:
    """Format how far a time is after now, in one unit."""
    other = now / NANOSECONDS if clock.kind == "seconds" else now
    return show_length(float(clock.since(other, time)))


def show_length(seconds: float) -> str:
    """Format a length of time for people, rounded.

    >>> show_length(5400), show_length(2e9)
    ('1.5 hours', '63.4 years')
    """
    size, unit = next((size, unit) for size, unit in LENGTHS if seconds >= size or size == 1)
    return f"{seconds / size:.3g} {unit}"
