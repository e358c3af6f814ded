"""File clock: the present time as the times of files have it, for deciding how old a file is."""

from quantide.store.running_time import running_time
from quantide.windows.wall_clock import wall_clock


class FileClock:
    """Starts at the time of the newest commit and goes on by running time; it is never ahead of the wall clock.

    A wall clock that jumps ahead, or that differs from the clock of a file server, makes no file look older. After a
    pause files look younger than they are, and wait that much longer.
    """

    def __init__(self, newest_commit: float | None) -> None:
        self._start = wall_clock() if newest_commit is None else newest_commit
        self._began = running_time()

    def now(self) -> float:
        return min(wall_clock(), self._start + running_time() - self._began)
