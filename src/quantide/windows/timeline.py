"""Timeline: the times of a window's arrivals, of one clock and never decreasing, or none at all."""

from fractions import Fraction
from typing import Any

import numpy as np

from quantide.errors import InvalidArgumentError, LateError
from quantide.sketches.byte_frame import FrameReader, FrameWriter
from quantide.summary.ranks import MAX_N
from quantide.summary.value_column import ValueColumn, read_rows
from quantide.summary.weighted_values import WeightedValues
from quantide.typing import Array, Bools
from quantide.windows.time_clock import MAX_SPAN, TimeClock, TimeHorizon, show_span

HAS_AHEAD = 2  # flag in the bytes: `ahead` follows


class Timeline:
    """Clock and newest time of a window, and its policy for earlier times: `late` is "refuse" or "clamp".

    `ahead` limits how many seconds a time may be ahead of the wall clock; None for no limit.
    """

    def __init__(self, late: str, needed: bool, ahead: Fraction | None = None) -> None:
        self.late = check_late_policy(late)
        self.needed, self.ahead = needed, ahead
        self.clock: TimeClock | None = None  # None before the first arrival, and without times
        self.newest: Any = None
        self.clamped = 0

    @property
    def dtypes(self) -> list[np.dtype[Any]]:
        """The dtype of times; empty without times."""
        return [self.clock.dtype] if self.clock else []

    def read(
        self,
        times: Any,
        plain: Any,
        column: ValueColumn,
        late: str | None,
        arrived: int,
        weighted: WeightedValues | None = None,
    ) -> "CheckedTimes":
        """Read and check the times of a column's values, or of weighted values; accept() records them."""
        count = len(column if weighted is None else weighted)
        if times is None:
            if count:
                self._check_untimed()
            return CheckedTimes(self.clock, None, 0)
        self._check_timed(arrived)
        clock, numbers = TimeClock.read(times, self.clock)
        rows = count + column.nulls + column.nans if weighted is None else len(weighted.valid)
        if len(numbers) == 1 and not _has_length(times):
            numbers = np.repeat(numbers, count)
        elif len(numbers) != rows:
            raise InvalidArgumentError(f"{len(numbers)} times for {rows} values; give one for each, or one for all")
        elif rows > count:
            numbers = numbers[valid_rows(plain, column) if weighted is None else weighted.valid]
        self._check_ahead(clock, numbers)
        highest = numbers
        if len(numbers) and not (_is_ascending(numbers) and (self.newest is None or self.newest <= numbers[0])):
            highest = np.maximum.accumulate(numbers if self.newest is None else np.maximum(numbers, self.newest))
        clamped = 0
        if highest is not numbers:
            is_late = highest != numbers
            clamped = int(np.count_nonzero(is_late) if weighted is None else weighted.weights[is_late].sum())
        if clamped:
            self._check_clamps(late, clamped)
        return CheckedTimes(clock, highest, clamped)

    def read_span(
        self, first: Any, last: Any, closed: Any, opened: Any, late: str | None, arrived: int, n: int
    ) -> "CheckedTimes":
        """Read and check the first and last time of a summarised block of n values.

        The block is late if it begins before the newest `closed` time, or ends before the open slice begins.
        """
        if first is None and last is None:
            self._check_untimed()
            return CheckedTimes(self.clock, None, 0)
        if first is None or last is None:
            raise InvalidArgumentError("give both first_time and last_time, or neither")
        self._check_timed(arrived)
        clock, _ = TimeClock.read(first, self.clock)
        span = np.array([clock.moment(first), clock.moment(last)])
        if span[1] < span[0]:
            raise InvalidArgumentError(f"last_time {last!r} is before first_time {first!r}; swap them")
        self._check_ahead(clock, span)
        if (closed is None or span[0] >= closed) and (opened is None or span[1] >= opened):
            return CheckedTimes(clock, span, 0)
        self._check_clamps(late, n)
        return CheckedTimes(clock, np.maximum(span, self.newest), n)

    def accept(self, checked: "CheckedTimes") -> None:
        """Record the times that read() or read_span() returned."""
        self.clamped += checked.clamped
        if checked.times is not None and len(checked.times):
            self.clock = checked.clock
            self.newest = checked.times[-1] if self.newest is None else max(self.newest, checked.times[-1])

    def now(self, now: Any) -> Any:
        """Return the end of time windows: a given time, or the newest."""
        if self.clock is None:
            raise InvalidArgumentError("the values came without times, so within= cannot be answered; use last=n")
        return self.newest if now is None else self.clock.moment(now)

    def back(self, now: Any, span: Fraction) -> Any:
        """Return the number that all times within a span of now exceed."""
        assert self.clock is not None
        return self.clock.back(now, span)

    def ago(self, time: Any, now: Any) -> str:
        """Format how long before now a time is."""
        assert self.clock is not None
        return show_span(self.clock.since(time, now))

    def show(self, time: Any) -> Any:
        """Return a time as users see it; None without times."""
        return None if time is None or self.clock is None else self.clock.show(time)

    def is_plausible(self, seconds: float) -> bool:
        """Return True if a time in seconds may be accepted."""
        return self.ahead is None or seconds <= TimeHorizon.of(self.ahead).latest(TimeClock("seconds"))

    def write(self, frame: FrameWriter) -> None:
        frame.number((self.late == "clamp") + HAS_AHEAD * (self.ahead is not None))
        if self.ahead is not None:
            frame.fraction(self.ahead)
        frame.number(self.clamped)
        frame.text(self.clock.kind if self.clock else "")
        if self.clock:
            frame.array(np.array([self.newest], self.clock.dtype))

    @classmethod
    def from_frame(cls, frame: FrameReader, needed: bool) -> "Timeline":
        flags = frame.number(1 + HAS_AHEAD)
        ahead = frame.fraction() if flags & HAS_AHEAD else None
        frame.require(flags < HAS_AHEAD or (ahead is not None and ahead <= MAX_SPAN))
        timeline = cls("clamp" if flags & 1 else "refuse", needed, ahead)
        timeline.clamped, kind = frame.number(MAX_N), frame.text()
        if kind:
            frame.require(kind in TimeClock.KINDS)
            timeline.clock = TimeClock(kind)
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

    def _check_ahead(self, clock: TimeClock, numbers: Array) -> None:
        if self.ahead is not None:
            TimeHorizon.of(self.ahead).check(clock, numbers)

    def _check_clamps(self, late: str | None, count: int) -> None:
        if (self.late if late is None else check_late_policy(late)) != "clamp":
            newest = "" if self.newest is None else f"before the newest, {self.show(self.newest)}, or "
            raise LateError(
                f"{count} values are late: their times lie {newest}before one another; sort them, or pass "
                'late="clamp" to count late values as arriving now'
            )


class TimedWindow:
    """Public properties of a window with a timeline."""

    _times: Timeline

    @property
    def clamped(self) -> int:
        """Number of late values, counted as arriving at the newest time (late="clamp")."""
        return self._times.clamped

    @property
    def max_ahead(self) -> float | None:
        """Seconds that a time may be ahead of the wall clock; None for no limit."""
        return None if self._times.ahead is None else float(self._times.ahead)

    @property
    def newest(self) -> Any:
        """Newest time; None without times."""
        return self._times.show(self._times.newest)


class CheckedTimes:
    """Times that passed all checks, their clock, and how many of them were clamped."""

    __slots__ = ("clamped", "clock", "times")

    def __init__(self, clock: TimeClock | None, times: Array | None, clamped: int) -> None:
        self.clock, self.times, self.clamped = clock, times, clamped


def check_late_policy(late: str) -> str:
    if late not in ("refuse", "clamp"):
        raise InvalidArgumentError(f'late={late!r} is not a policy; use late="refuse" or late="clamp"')
    return late


def _is_ascending(numbers: Array) -> bool:
    return bool((numbers[1:] >= numbers[:-1]).all())


def _has_length(times: Any) -> bool:
    return np.ndim(times) > 0 if isinstance(times, (np.ndarray, np.generic)) else hasattr(times, "__len__")


def valid_rows(plain: Any, column: ValueColumn) -> Bools:
    """Return a mask of the rows that are neither null nor a skipped NaN."""
    rows = read_rows(plain)
    valid = np.ones(rows.length, dtype=bool) if rows.valid is None else rows.valid.copy()
    if column.nans:
        valid[valid] = ~np.isnan(np.concatenate(rows.column.pieces))
    return valid
