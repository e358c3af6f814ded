"""Clocks that a changed wall clock does not mislead: running time, and the file clock for ages of files."""

import time

from quantide.windows.wall_clock import wall_clock

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # continues while the machine sleeps


def running_time() -> float:
    """Return the seconds since a moment before this process started, unaffected by changes of the wall clock."""
    return time.clock_gettime(_CLOCK)


class FileClock:
    """Clock that starts at the time of the newest commit and advances by running time, never ahead of the wall clock.

    A wall clock that jumps ahead, or differs from the clock of a file server, makes no file appear older. After a
    pause files appear younger than they are, and are removed that much later.
    """

    def __init__(self, newest_commit: float | None) -> None:
        self._start = wall_clock() if newest_commit is None else newest_commit
        self._started = running_time()

    def now(self) -> float:
        return min(wall_clock(), self._start + running_time() - self._started)
