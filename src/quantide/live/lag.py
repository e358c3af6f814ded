"""Lag: how far the newest time of a stream is behind this machine's clock, or ahead of it."""

from fractions import Fraction
from typing import Any

from quantide.windows.ahead import Horizon, show_length
from quantide.windows.clock import EPOCH_START, NANOSECONDS, Clock
from quantide.windows.wall_clock import wall_clock_ns


def event_lag(clock: Clock | None, newest: Any, ahead: Fraction | None) -> float | None:
    """Seconds from the newest time to now; None where times are not of the wall clock."""
    if clock is None or ahead is None or (clock.kind == "seconds" and newest < EPOCH_START):  # relative times
        return None
    if clock.kind == "seconds":
        return wall_clock_ns() / NANOSECONDS - float(newest)
    return (wall_clock_ns() - int(newest)) / NANOSECONDS


def ahead_problem(clock: Clock | None, newest: Any, ahead: Fraction | None) -> str | None:
    """The problem of a newest time that is further ahead of the clock than is plausible; None where there is none."""
    lag = event_lag(clock, newest, ahead)
    if clock is None or ahead is None or lag is None or newest <= Horizon.of(ahead).latest(clock):
        return None
    return (
        f"the newest time, {clock.show(newest)}, is {show_length(-lag)} ahead of this machine's clock, so windows of "
        "time are not those of now; correct the clock, or such rows: quantide history repair PATH --future redate"
    )
