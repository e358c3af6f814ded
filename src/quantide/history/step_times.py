"""Times of steps: which steps ended before a time, by the record of ingestion.

Steps that end by the clock have equal lengths. The ingest log has the origin: a step, the number of the interval (hour,
say) since 1970 in which it was open, and the length of an interval in seconds.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import numpy as np

from quantide.errors import InvalidArgumentError, QuantideError
from quantide.windows.time_clock import NANOSECONDS, TimeClock

Origin = tuple[int, int, str]
MAX_DIGITS = 100  # of a step in a text; int() refuses a few thousand


def read_before(before: Any, step: int, read_origin: Callable[[], Origin | None]) -> tuple[int, int | None]:
    """Return the first step that stays, and the time at which it began, in nanoseconds since 1970.

    `before` is a step or a time, or the text of one; `step` is the open step. The time is None if a step was given.
    """
    text = before.strip() if isinstance(before, str) else ""
    number = int(text) if text.isdecimal() and len(text) <= MAX_DIGITS else before
    if isinstance(number, (int, np.integer)) and not isinstance(number, bool):
        if not 1 <= number <= step:
            raise InvalidArgumentError(
                f"before={before} is not a step: they count from 1, and {step} is the open one, which cannot be deleted"
            )
        return int(number), None
    time = Fraction(_read_time(text or before), NANOSECONDS)
    origin = read_origin()
    if origin is None:
        raise InvalidArgumentError(
            "the times of steps are not known: no ingestion that ends steps by the clock wrote this store. Give the "
            f"number of a step as before=; the open one is {step}"
        )
    first = min(step, find_step(time, origin))
    return first, int(start_of(first, origin) * NANOSECONDS)


def find_step(time: Fraction, origin: Origin) -> int:
    """Return the first step that had not ended at a time, in seconds since 1970.

    >>> find_step(Fraction(7200), (1, 0, "3600")), find_step(Fraction(7199), (1, 0, "3600"))
    (3, 2)
    """
    first, interval, length = origin
    step = first + int(time // Fraction(length)) - interval
    if step < first:
        began = datetime.fromtimestamp(float(start_of(first, origin)), UTC)
        raise InvalidArgumentError(
            f"the times of steps are known from step {first} on, which began at {began:%Y-%m-%d %H:%M:%S} UTC. Give "
            "the number of a step as before="
        )
    return step


def start_of(step: int, origin: Origin) -> Fraction:
    """Return the time at which a step began, in seconds since 1970."""
    first, interval, length = origin
    return (interval + step - first) * Fraction(length)


def _read_time(before: Any) -> int:
    """Return a time in nanoseconds since 1970; times without a zone are UTC."""
    try:
        value = datetime.fromisoformat(before) if isinstance(before, str) else before
        clock, numbers = TimeClock.read(value, None)
    except (ValueError, QuantideError) as error:
        raise _no_time(before) from error
    if clock.kind == "seconds" or len(numbers) != 1:
        raise _no_time(before)
    return int(numbers[0])


def _no_time(before: Any) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"before={repr(before)[:100]} is neither the number of a step nor a time, such as 2026-03-01T12:00:00 (UTC)"
    )
