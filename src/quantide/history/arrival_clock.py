"""Arrival clock: the times of rows that come without times of their own.

It follows the wall clock, never goes back, and never stands still. After the wall clock was set back it ticks on with
the machine's monotonic clock, `ahead` of the wall clock. A large step forward is followed once it has lasted: one that
is undone leaves no trace. docs/guarantees/live.md says what that means for windows.
"""

import time
from threading import Lock

from quantide.store.manifest import Manifest
from quantide.windows.wall_clock import wall_clock_ns

HOUR = 3600 * 10**9
LARGE = HOUR  # nanoseconds of a step forward that may be a mistake
LASTED = HOUR  # nanoseconds after which it is followed


def ticks_ns() -> int:
    """Nanoseconds that no setting of a clock moves; where the system can tell, with those during which it slept."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class ArrivalClock:
    """The clock of one writer; the manifest says where the one before it stopped."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._time: int | None = None  # when rows came last, and the ticks of that moment
        self._ticks = 0
        self._leap: int | None = None  # ticks at which the wall clock was first seen far ahead

    def now(self, known: Manifest) -> tuple[int, int]:
        """The time of rows that come now, and how far that is ahead of the wall clock, both in nanoseconds."""
        with self._lock:
            wall, ticks = wall_clock_ns(), ticks_ns()
            newest = None if known.newest is None else int(known.newest)
            if self._time is None:
                self._time = _resumed(wall, newest, known.ahead)
            else:
                self._time = self._ticked(wall, self._time + ticks - self._ticks, ticks)
            self._time, self._ticks = max(self._time, newest or self._time), ticks
            return self._time, max(0, self._time - wall)

    def _ticked(self, wall: int, ticked: int, ticks: int) -> int:
        """The wall clock, unless that was set back, or is far ahead and has not been so for long."""
        if wall - ticked <= LARGE:
            self._leap = None
            return max(wall, ticked)
        self._leap = ticks if self._leap is None else self._leap
        if ticks - self._leap < LASTED:
            return ticked
        self._leap = None
        return wall


def _resumed(wall: int, newest: int | None, ahead: int) -> int:
    """Where a clock goes on that another writer left: the wall clock, or as far ahead of it as before."""
    return wall if newest is None or wall >= newest else max(newest, wall + ahead)
