"""Step clocks: when the open step of a stream ends, by the clock or by its rows; and when a row is late.

By the clock, steps end at the full hour (say), also those without rows, so that 24 steps are a day. `origin` is a step
and the hour in which it was open; batches record it, so that it survives the process.

The wall clock alone ends few steps. The hour of the open step and the running time of this process give the expected
hour. The clock may be ahead of it by a quarter of the retention, and by a week at most: a pause, in which nothing ran.
Further ahead it is implausible, and also well before the open step. Then steps end by running time, one for each
length of a step, until the clock is plausible again or an operator accepts it.
"""

import logging
import math
from datetime import UTC, datetime
from fractions import Fraction
from statistics import median_low

from quantide.config import Step, StreamConfig
from quantide.history.history import History
from quantide.store.file_clock import running_time
from quantide.store.ingest_log import IngestLog
from quantide.store.ingest_status import AcceptedClock, read_accepted_clock, read_clock_gap, write_clock_problem
from quantide.windows.wall_clock import wall_clock

Origin = tuple[int, int, str]
MAX_STEPS = 50  # steps that end at once; after a long pause, batches are ingested in between
MAX_PAUSE = 7 * 24 * 3600  # seconds that the clock may be ahead without an operator's consent
MIN_PAUSE = 300  # seconds that it may always be off: a start takes time
RETENTION_SHARE = 4  # a pause ends at most a fourth of the retained steps
REFERENCE_BATCHES = 9  # batches whose newest times give the median
DAY = 24 * 3600
LOG = logging.getLogger("quantide.ingest")


class StepClock:
    """Computes how many steps end now; `deviation` is the seconds by which the clock is implausibly off, or None."""

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
        self.deviation: float | None = None
        if step.seconds is not None:
            span = str(step.seconds)
            same_length = origin is not None and origin[2] == span
            self.origin = origin if same_length else (open_step, _interval(now, step.seconds), span)
            self._max_pause = _max_pause(step.seconds, retention)
            self._anchor = (self._interval_of(open_step), running)  # a trusted interval, and its running time
            self._began = (open_step, running)  # the open step, and the running time at its start

    def due(self, open_step: int, rows: int, now: float, running: float) -> int:
        """Return how many steps end, given the open one and its rows, the wall clock and the running time."""
        seconds = self._step.seconds
        if seconds is None or self.origin is None:
            return int(self._step.rows is not None and rows >= self._step.rows)
        if open_step != self._began[0]:
            self._began = (open_step, running)
        ahead = self.steps_ahead(open_step, now)
        self.deviation = self._find_deviation(_interval(now, seconds), ahead, seconds, running)
        if self.deviation is not None or ahead < 0:
            return int(running - self._began[1] >= seconds)
        return min(MAX_STEPS, ahead)

    def steps_ahead(self, open_step: int, now: float) -> int:
        """Return how many steps the clock is ahead of the open one."""
        return 0 if self._step.seconds is None else _interval(now, self._step.seconds) - self._interval_of(open_step)

    def accept(self, time: float, step: int, open_step: int, running: float) -> None:
        """Trust the clock as of a time at which a step was the open one.

        If it lies before the hour of that step, the step continues from there; otherwise all steps up to it may end.
        """
        if self._step.seconds is None or self.origin is None:
            return
        interval = _interval(time, self._step.seconds)
        if interval < self._interval_of(step):
            self.origin = (step, interval, self.origin[2])
        self._anchor = (max(interval, self._interval_of(open_step)), running)

    def _find_deviation(self, interval: int, ahead: int, seconds: Fraction, running: float) -> float | None:
        """Return how many seconds the clock is off, if running time and a pause do not explain it."""
        trusted = self._anchor[0] + 1 + math.floor((running - self._anchor[1]) / seconds)
        if interval - trusted > self._max_pause:
            return float((interval - trusted) * seconds)
        if -ahead > max(1, math.ceil(MIN_PAUSE / seconds)):
            return float(ahead * seconds)
        return None

    def _interval_of(self, step: int) -> int:
        """Return the number of the interval (hour, say) in which a step is open."""
        assert self.origin is not None
        return self.origin[1] + step - self.origin[0]


def grace_hours(step: Step, retention: int | None) -> float | None:
    """Return how long expired runs can be restored: half the retention, a week at most; None if rows end steps."""
    if step.seconds is None or retention is None:
        return None
    return float(min(Fraction(MAX_PAUSE), step.seconds * retention / 2) / 3600)


def _max_pause(seconds: Fraction, retention: int | None) -> int:
    """Return how many steps the clock may be ahead."""
    steps = math.floor(MAX_PAUSE / seconds)
    share = steps if retention is None else min(steps, retention // RETENTION_SHARE)
    return max(share, math.ceil(MIN_PAUSE / seconds))


def _interval(now: float, seconds: Fraction) -> int:
    """Return the number of the interval (hour, say) of a time."""
    return math.floor(Fraction(now) / seconds)


class StreamClock:
    """Computes how many steps of a stream end, and publishes `problem`, the reason why the clock is implausible.

    While the clock is ahead, the age of new rows is not known. They begin a step of their own; when an operator
    accepts the clock, the history retains their steps for longer, because the steps that then end are older.
    """

    def __init__(self, stream: StreamConfig, ingest_log: IngestLog, history: History) -> None:
        self._stream, self._ingest_log, self._history = stream, ingest_log, history
        now, retention = wall_clock(), history.settings.retention
        self._steps = StepClock(stream.step, ingest_log.origin, history.step, now, running_time(), retention)
        self._gap = read_clock_gap(history.table.storage)  # the first step after the clock went ahead
        self._accepted: AcceptedClock | None = None
        self.problem, self._published = "", True  # perhaps by an earlier process
        self._apply_acceptance()

    @property
    def origin(self) -> Origin | None:
        """Step and hour from which all others are counted, for the records of batches."""
        return self._steps.origin

    def due(self, rows: int) -> int:
        """Return how many steps end now, given the rows of the open one."""
        if self.problem:
            self._apply_acceptance()
        step = self._history.step
        count = self._steps.due(step, rows, wall_clock(), running_time())
        deviation = self._steps.deviation
        if deviation is not None and deviation > 0 and self._gap is None:
            count = max(count, int(rows > 0))
            self._gap = step + count
        self._publish(deviation)
        return count

    def _apply_acceptance(self) -> None:
        """Trust the clock if an operator accepted it since the last call."""
        accepted = read_accepted_clock(self._history.table.storage)
        if accepted is None or accepted == self._accepted:
            return
        self._accepted, step = accepted, self._history.step
        self._steps.accept(accepted.time, accepted.step, step, running_time())
        ahead = self._steps.steps_ahead(step, accepted.time)
        if self._gap is not None and ahead > 0:
            self._history.hold_steps(self._gap, step + ahead)

    def _publish(self, deviation: float | None) -> None:
        """Publish and log the beginning and the end of a problem."""
        before, self.problem = self.problem, self.problem if deviation is not None else ""
        if deviation is None and self._published:
            self._gap, self._published = None, False
            write_clock_problem(self._history.table.storage, None)
        elif deviation is not None and not before:
            self.problem, self._published = self._describe(deviation), True
            write_clock_problem(self._history.table.storage, self.problem, self._gap)
        if before != self.problem:
            LOG.warning("%s: %s", self._stream.key, self.problem or "the clock is plausible again")

    def _describe(self, deviation: float) -> str:
        newest = f", newest batch {_format_time(self._ingest_log.at)}" if self._ingest_log.at else ""
        ahead = (
            f"{deviation / DAY:,.1f} days ahead of the open step and of the time that ingestion has run"
            if deviation > 0
            else f"{-deviation / DAY:,.1f} days behind the open step"
        )
        return (
            f"the clock of this machine is {ahead} (clock {_format_time(wall_clock())}{newest}); steps end by "
            "running time until it is plausible, and nothing expires because of it. Put the clock right; if it is "
            f"right, run: quantide history clock {self._stream.folder} --accept"
        )


def _format_time(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError, OSError):
        return f"{seconds:.0f} s"


def reference_time(ingest_log: IngestLog, max_ahead: Fraction | None, now: float) -> float | None:
    """Return the time that decides which rows are late: in seconds since 1970, or of another clock without `max_ahead`.

    One wrong time must not make all later rows late. With times of the wall clock, implausible ones do not count, and
    no row is late unless it is late by the clock, too. Otherwise the median of several batches decides. None before
    the first time.
    """
    times = list(ingest_log.newest_times)
    if max_ahead is None:
        return median_low([newest for _, newest in times[-REFERENCE_BATCHES:]]) if times else None
    plausible = [newest for at, newest in times if newest <= at + max_ahead]
    return min(max(plausible), now) if plausible else None
