"""Timeline: the times of a window's arrivals, on one clock and never decreasing, or no times at all."""

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantide.errors import InvalidArgumentError, LateError
from quantide.sketches.frame import FrameReader, FrameWriter
from quantide.summary.column import Column, read_rows
from quantide.summary.ranks import MAX_N
from quantide.windows.ahead import Horizon
from quantide.windows.clock import LONGEST, Clock, show_span

Array = NDArray[Any]

LIMITED = 2  # in the bytes: `ahead` follows


class Timeline:
    """Knows the clock and the newest time, and what to do with a time before it: `late` is "refuse" or "clamp".

    `ahead` is how many seconds a time may be ahead of the wall clock, None for any number.
    """

    def __init__(self, late: str, needed: bool, ahead: Fraction | None = None) -> None:
        self.late = check_late_policy(late)
        self.needed, self.ahead = needed, ahead
        self.clock: Clock | None = None  # None before the first arrival, and when arrivals have no times
        self.newest: Any = None
        self.clamped = 0

    @property
    def dtypes(self) -> list[np.dtype[Any]]:
        """The one dtype of times, or none."""
        return [self.clock.dtype] if self.clock else []

    def read(self, times: Any, plain: Any, column: Column, late: str | None, arrived: int) -> "Arrived":
        """The times of a column's values; nothing is noted until accept()."""
        if times is None:
            if len(column):
                self._check_untimed()
            return Arrived(self.clock, None, 0)
        self._check_timed(arrived)
        clock, numbers = Clock.read(times, self.clock)
        rows = len(column) + column.nulls + column.nans
        if len(numbers) == 1 and not _has_length(times):
            numbers = np.repeat(numbers, len(column))
        elif len(numbers) != rows:
            raise InvalidArgumentError(f"{len(numbers)} times for {rows} values; give one for each, or one for all")
        elif rows > len(column):
            numbers = numbers[kept_rows(plain, column)]
        self._check_ahead(clock, numbers)
        highest = numbers
        if len(numbers) and not (_rises(numbers) and (self.newest is None or self.newest <= numbers[0])):
            highest = np.maximum.accumulate(numbers if self.newest is None else np.maximum(numbers, self.newest))
        clamped = 0 if highest is numbers else int(np.count_nonzero(highest != numbers))
        if clamped:
            self._check_clamps(late, clamped)
        return Arrived(clock, highest, clamped)

    def read_span(
        self, first: Any, last: Any, settled: Any, opened: Any, late: str | None, arrived: int, n: int
    ) -> "Arrived":
        """The first and the last time of a block of n values.

        It is late when it begins before what is `settled`, or ends before the slice that is `opened` begins.
        """
        if first is None and last is None:
            self._check_untimed()
            return Arrived(self.clock, None, 0)
        if first is None or last is None:
            raise InvalidArgumentError("give both first_time and last_time, or neither")
        self._check_timed(arrived)
        clock, _ = Clock.read(first, self.clock)
        span = np.array([clock.moment(first), clock.moment(last)])
        if span[1] < span[0]:
            raise InvalidArgumentError(f"last_time {last!r} is before first_time {first!r}; exchange them")
        self._check_ahead(clock, span)
        if (settled is None or span[0] >= settled) and (opened is None or span[1] >= opened):
            return Arrived(clock, span, 0)
        self._check_clamps(late, n)
        return Arrived(clock, np.maximum(span, self.newest), n)

    def accept(self, arrived: "Arrived") -> None:
        """Note what read() or read_span() gave."""
        self.clamped += arrived.clamped
        if arrived.times is not None and len(arrived.times):
            self.clock = arrived.clock
            self.newest = arrived.times[-1] if self.newest is None else max(self.newest, arrived.times[-1])

    def now(self, now: Any) -> Any:
        """The time that spans are counted back from."""
        if self.clock is None:
            raise InvalidArgumentError("values came without times, so no span of time is known; ask for last=n")
        return self.newest if now is None else self.clock.moment(now)

    def back(self, now: Any, span: Fraction) -> Any:
        """The number that all times within a span of now are above."""
        assert self.clock is not None
        return self.clock.back(now, span)

    def ago(self, time: Any, now: Any) -> str:
        """How long ago a time was, in words."""
        assert self.clock is not None
        return show_span(self.clock.since(time, now))

    def show(self, time: Any) -> Any:
        """A time as a user knows it; None without times."""
        return None if time is None or self.clock is None else self.clock.show(time)

    def is_plausible(self, seconds: float) -> bool:
        """Return True if a time in seconds may be accepted."""
        return self.ahead is None or seconds <= Horizon.of(self.ahead).latest(Clock("seconds"))

    def write(self, frame: FrameWriter) -> None:
        frame.number((self.late == "clamp") + LIMITED * (self.ahead is not None))
        if self.ahead is not None:
            frame.fraction(self.ahead)
        frame.number(self.clamped)
        frame.text(self.clock.kind if self.clock else "")
        if self.clock:
            frame.array(np.array([self.newest], self.clock.dtype))

    @classmethod
    def from_frame(cls, frame: FrameReader, needed: bool) -> "Timeline":
        rules = frame.number(1 + LIMITED)
        ahead = frame.fraction() if rules & LIMITED else None
        frame.require(rules < LIMITED or (ahead is not None and ahead <= LONGEST))
        timeline = cls("clamp" if rules & 1 else "refuse", needed, ahead)
        timeline.clamped, kind = frame.number(MAX_N), frame.text()
        if kind:
            frame.require(kind in Clock.KINDS)
            timeline.clock = Clock(kind)
            timeline.newest = frame.finite(timeline.clock.dtype, 1)[0]
        return timeline

    def _check_untimed(self) -> None:
        if self.clock is not None:
            raise InvalidArgumentError("earlier values came with times; give the times of these, too")
        if self.needed:
            raise InvalidArgumentError("a window over a span of time needs the times of its values: give them, too")

    def _check_timed(self, arrived: int) -> None:
        if self.clock is None and arrived:
            raise InvalidArgumentError("earlier values came without times; give times for all values or for none")

    def _check_ahead(self, clock: Clock, numbers: Array) -> None:
        if self.ahead is not None:
            Horizon.of(self.ahead).check(clock, numbers)

    def _check_clamps(self, late: str | None, count: int) -> None:
        if (self.late if late is None else check_late_policy(late)) != "clamp":
            newest = "" if self.newest is None else f"before the newest, {self.show(self.newest)}, or "
            raise LateError(
                f"{count} values are late: their times lie {newest}before one another; sort them, or pass "
                'late="clamp" to count late values as arriving now'
            )


class Timed:
    """What a window with a timeline says of it."""

    _times: Timeline

    @property
    def clamped(self) -> int:
        """How many values came with a time before the newest and were counted as arriving at the newest."""
        return self._times.clamped

    @property
    def max_ahead(self) -> float | None:
        """Seconds that a time may be ahead of the wall clock; None for any number."""
        return None if self._times.ahead is None else float(self._times.ahead)

    @property
    def newest(self) -> Any:
        """The newest time; None without times."""
        return self._times.show(self._times.newest)


class Arrived:
    """Times that may be accepted: the clock they are on, themselves, and how many of them were clamped."""

    __slots__ = ("clamped", "clock", "times")

    def __init__(self, clock: Clock | None, times: Array | None, clamped: int) -> None:
        self.clock, self.times, self.clamped = clock, times, clamped


def check_late_policy(late: str) -> str:
    if late not in ("refuse", "clamp"):
        raise InvalidArgumentError(f'late={late!r} is not a policy; use late="refuse" or late="clamp"')
    return late


def _rises(numbers: Array) -> bool:
    return bool((numbers[1:] >= numbers[:-1]).all())


def _has_length(times: Any) -> bool:
    return np.ndim(times) > 0 if isinstance(times, (np.ndarray, np.generic)) else hasattr(times, "__len__")


def kept_rows(plain: Any, column: Column) -> NDArray[np.bool_]:
    """Which rows are neither null nor a NaN that was skipped."""
    rows = read_rows(plain)
    kept = np.ones(rows.length, dtype=bool) if rows.valid is None else rows.valid.copy()
    if column.nans:
        kept[kept] = ~np.isnan(np.concatenate(rows.column.pieces))
    return kept
