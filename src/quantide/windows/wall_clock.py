"""Wall clock for data times, arrivals, retention and lag.

Tests and the soak test shift it: `QUANTIDE_CLOCK_OFFSET` is a number of seconds to add, or a file with that number,
which is read at each call. Without the variable this is the machine's clock. Sessions, tokens and signatures do not
use it.
"""

import os
import time

VARIABLE = "QUANTIDE_CLOCK_OFFSET"


def wall_clock() -> float:
    """Return the seconds since the epoch."""
    return wall_clock_ns() / 1e9


def wall_clock_ns() -> int:
    """Return the nanoseconds since the epoch."""
    setting = os.environ.get(VARIABLE)
    return time.time_ns() + (round(_offset(setting) * 1e9) if setting else 0)


def _offset(setting: str) -> float:
    try:
        return float(setting)
    except ValueError:
        with open(setting, encoding="ascii") as file:
            return float(file.read().strip() or 0)
