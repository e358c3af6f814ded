"""Steps: when the open step of a stream ends, by the clock or by its rows.

By the clock, steps end when hours (say) begin, also those in which nothing came, so that 24 steps are a day. `origin`
is a step and the hour it was open in; batches record it, so that it outlasts the process.
"""

import math
from fractions import Fraction

from quantide.config import Step

Origin = tuple[int, int, str]
AT_ONCE = 50  # steps that are ended one after the other; after a long pause, batches come between


class StepClock:
    """How many steps are to end now."""

    def __init__(self, step: Step, origin: Origin | None, open_step: int, now: float) -> None:
        self._step = step
        self.origin: Origin | None = None
        if step.seconds is not None:
            span = str(step.seconds)
            kept = origin is not None and origin[2] == span
            self.origin = origin if kept else (open_step, _place(now, step.seconds), span)

    def due(self, open_step: int, rows: int, now: float) -> int:
        """How many steps end, given the open one and its rows."""
        if self._step.seconds is None or self.origin is None:
            return int(self._step.rows is not None and rows >= self._step.rows)
        step, place, _ = self.origin
        return min(AT_ONCE, max(0, step + _place(now, self._step.seconds) - place - open_step))


def _place(now: float, seconds: Fraction) -> int:
    return math.floor(Fraction(now) / seconds)
