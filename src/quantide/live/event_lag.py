"""Event lag: the seconds from the newest time of a stream to now, and a newest time that is implausible."""

from fractions import Fraction
from typing import Any

from quantide.windows.time_clock import EPOCH_START, NANOSECONDS, TimeClock, TimeHorizon, show_length
from quantide.windows.wall_clock import wall_clock_ns


def event_lag(clock: TimeClock | None, newest: Any, horizon: Fraction | None) -> float | None:
    """Return the seconds from the newest time to now; None if times are not of the wall clock."""
    if clock is None or horizon is None or (clock.kind == "seconds" and newest < EPOCH_START):  # relative times
        return None
    if clock.kind == "seconds":
        return wall_clock_ns() / NANOSECONDS - float(newest)
    return (wall_clock_ns() - int(newest)) / NANOSECONDS


def find_clock_problem(clock: TimeClock | None, newest: Any, horizon: Fraction | None) -> str | None:
    """Return a description if the newest time is further ahead of the clock than the horizon; otherwise None."""
    lag = event_lag(clock, newest, horizon)
    if clock is None or horizon is None or lag is None or newest <= TimeHorizon.of(horizon).latest(clock):
        return None
    return (
        f"the newest time, {clock.show(newest)}, is {show_length(-lag)} ahead of this machine's clock, so windows of "
        "time are not those of now; correct the clock, or such rows: quantide history repair PATH --future redate"
    )
