"""Steps: when the open step of a stream ends, by the clock or by its rows.

By the clock, steps end when hours (say) begin, also those in which nothing came, so that 24 steps are a day. `origin`
is a step and the hour it was open in; batches record it, so that it outlasts the process.

The wall clock alone ends few steps. The hour of the open step and the time that this process has run give the expected
hour. The clock may be ahead of it by a quarter of the retention, and by a week at most: a pause, in which nothing ran.
Further ahead it is implausible, and so it is when it lies well before the open step. Then steps end by running time,
one for each length of a step, until the clock is plausible again or an operator accepts it.
"""

import math
from fractions import Fraction

from quantide.config import Step

Origin = tuple[int, int, str]
AT_ONCE = 50  # steps that are ended one after the other; after a long pause, batches come between
LONGEST_PAUSE = 7 * 24 * 3600  # seconds that the clock may be ahead without anybody's word
SHORTEST_PAUSE = 300  # seconds that it may be off in any case: to start takes time
RETENTION_SHARE = 4  # a pause ends at most a fourth of the steps that are kept


class StepClock:
    """How many steps are to end now; `problem` is the seconds that the clock is implausibly off, or None."""

    def __init__(
        self,
        step: Step,
        origin: Origin | None,
        open_step: int,
        now: float,
        running: float = 0.0,
        retention: int | None = None,
    ) -> None:
        self._step = step
        self.origin: Origin | None = None
        self.problem: float | None = None
        if step.seconds is not None:
            span = str(step.seconds)
            same_length = origin is not None and origin[2] == span
            self.origin = origin if same_length else (open_step, _place(now, step.seconds), span)
            self._pause = _longest_pause(step.seconds, retention)
            self._anchor = (self._place_of(open_step), running)  # an hour that is trusted, and when it was
            self._began = (open_step, running)  # the open step, and since when it is

    def due(self, open_step: int, rows: int, now: float, running: float) -> int:
        """How many steps end, given the open one and its rows, the wall clock and the running time."""
        seconds = self._step.seconds
        if seconds is None or self.origin is None:
            return int(self._step.rows is not None and rows >= self._step.rows)
        if open_step != self._began[0]:
            self._began = (open_step, running)
        place, ahead = _place(now, seconds), self.ahead(open_step, now)
        self.problem = self._implausible(place, ahead, seconds, running)
        if self.problem is not None or ahead < 0:
            return int(running - self._began[1] >= seconds)
        return min(AT_ONCE, ahead)

    def ahead(self, open_step: int, now: float) -> int:
        """How many steps the clock is ahead of the open one."""
        return 0 if self._step.seconds is None else _place(now, self._step.seconds) - self._place_of(open_step)

    def accept(self, time: float, step: int, open_step: int, running: float) -> None:
        """Trust the clock as of a time at which a step was the open one.

        If it lies before the hour of that step, the step goes on from there; otherwise all steps up to it may end.
        """
        if self._step.seconds is None or self.origin is None:
            return
        place = _place(time, self._step.seconds)
        if place < self._place_of(step):
            self.origin = (step, place, self.origin[2])
        self._anchor = (max(place, self._place_of(open_step)), running)

    def _implausible(self, place: int, ahead: int, seconds: Fraction, running: float) -> float | None:
        """How far the clock is off, in seconds, if that is more than running time and a pause explain."""
        trusted = self._anchor[0] + 1 + math.floor((running - self._anchor[1]) / seconds)
        if place - trusted > self._pause:
            return float((place - trusted) * seconds)
        if -ahead > max(1, math.ceil(SHORTEST_PAUSE / seconds)):
            return float(ahead * seconds)
        return None

    def _place_of(self, step: int) -> int:
        assert self.origin is not None
        return self.origin[1] + step - self.origin[0]


def grace_hours(step: Step, retention: int | None) -> float | None:
    """How long expired runs can be restored: half the retention, and a week at most; None where rows end steps."""
    if step.seconds is None or retention is None:
        return None
    return float(min(Fraction(LONGEST_PAUSE), step.seconds * retention / 2) / 3600)


def _longest_pause(seconds: Fraction, retention: int | None) -> int:
    """Steps that the clock may be ahead."""
    most = math.floor(LONGEST_PAUSE / seconds)
    share = most if retention is None else min(most, retention // RETENTION_SHARE)
    return max(share, math.ceil(SHORTEST_PAUSE / seconds))


def _place(now: float, seconds: Fraction) -> int:
    return math.floor(Fraction(now) / seconds)
