"""Wall clock: the one place that reads it for the times of data, arrivals, retention and lag.

Tests and the soak move it: `QUANTIDE_CLOCK_OFFSET` names seconds to add, or a file that holds them and is read at each
call. Without the variable this is the clock of the machine. Sessions, tokens and signatures do not use it.
"""

import os
import time

VARIABLE = "QUANTIDE_CLOCK_OFFSET"


def wall_clock() -> float:
    """Seconds since the epoch."""
    return wall_clock_ns() / 1e9


def wall_clock_ns() -> int:
    """Nanoseconds since the epoch."""
    given = os.environ.get(VARIABLE)
    return time.time_ns() + (round(_offset(given) * 1e9) if given else 0)


def _offset(given: str) -> float:
    try:
        return float(given)
    except ValueError:
        with open(given, encoding="ascii") as file:
            return float(file.read().strip() or 0)
