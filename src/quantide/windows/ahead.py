"""Plausible times: none lies further ahead of the wall clock than `max_ahead` allows.

The newest time of a stream ends its windows of time, so one wrong time in the future would empty them until then.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from quantide.errors import FutureTimeError, InvalidArgumentError
from quantide.windows.clock import EPOCH_UNITS, NANOSECONDS, Clock, Times, read_span, show_span, suspected_unit
from quantide.windows.wall_clock import wall_clock_ns

OFF = "off"
ANY_ZONE = 14 * 3600  # seconds that a timestamp without a zone may be ahead of UTC
LENGTHS = ((31_557_600, "years"), (86_400, "days"), (3_600, "hours"), (60, "min"), (1, "s"))


def read_ahead(max_ahead: Any) -> Fraction | None:
    """Seconds that times may be ahead of the clock; None for "off".

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
class Horizon:
    """The latest plausible time: `ahead` seconds after `now`, which is in nanoseconds since 1970."""

    now: int
    ahead: Fraction

    @classmethod
    def of(cls, ahead: Fraction) -> "Horizon":
        """As of now."""
        return cls(wall_clock_ns(), ahead)

    def latest(self, clock: Clock) -> Any:
        """The latest plausible time, as a number of this clock."""
        most = self.now + self.allowed(clock) * NANOSECONDS
        if clock.kind == "seconds":
            return float(most / NANOSECONDS)
        return min(int(most), np.iinfo(np.int64).max)

    def allowed(self, clock: Clock) -> Fraction:
        """Seconds that times of this clock may be ahead."""
        return self.ahead + (ANY_ZONE if clock.kind == "timestamp" else 0)

    def check(self, clock: Clock, times: Times) -> None:
        """Refuse times that are further ahead."""
        if not len(times) or times.max() <= self.latest(clock):
            return
        count, worst = int(np.count_nonzero(times > self.latest(clock))), times.max()
        raise FutureTimeError(
            f"{count:,} of {len(times):,} times are further ahead of the clock than max_ahead, "
            f"{show_span(self.ahead)}: the latest is {clock.show(worst)}, {_show_ahead(clock, worst, self.now)} after "
            f"now, {clock.show(self._now(clock))}. {self._advice(clock, worst)}"
        )

    def _now(self, clock: Clock) -> Any:
        return self.now / NANOSECONDS if clock.kind == "seconds" else self.now

    def _advice(self, clock: Clock, worst: Any) -> str:
        unit = suspected_unit(float(worst)) if clock.kind == "seconds" else None
        if unit is not None:
            return f"It looks like {unit}; numbers are seconds: divide by {EPOCH_UNITS[unit]:,}, or pass timestamps"
        return 'Correct the times, or this machine\'s clock; where times are not of the wall clock, set max_ahead="off"'


def _show_ahead(clock: Clock, time: Any, now: int) -> str:
    """How far a time is after now, in one unit."""
    other = now / NANOSECONDS if clock.kind == "seconds" else now
    return show_length(float(clock.since(other, time)))


def show_length(seconds: float) -> str:
    """A length of time to be read by people, rounded.

    >>> show_length(5400), show_length(2e9)
    ('1.5 hours', '63.4 years')
    """
    size, unit = next((size, unit) for size, unit in LENGTHS if seconds >= size or size == 1)
    return f"{seconds / size:.3g} {unit}"
