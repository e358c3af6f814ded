"""Running time: seconds that no change of the wall clock touches, for what must not end too early."""

import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # it goes on while the machine sleeps


def running_time() -> float:
    """Seconds since some moment before this process began."""
    return time.clock_gettime(_CLOCK)
