"""Clock of a stream: ends its steps, publishes what is wrong with the wall clock, and heeds the operator's word."""

import logging
from datetime import UTC, datetime

from quantide.config import StreamConfig
from quantide.history.history import History
from quantide.spark.stream.steps import Origin, StepClock
from quantide.store.clock_state import AcceptedClock, read_accepted, read_gap, write_clock_problem
from quantide.store.ledger import Ledger
from quantide.store.running_time import running_time
from quantide.windows.wall_clock import wall_clock

LOG = logging.getLogger("quantide.ingest")
DAY = 24 * 3600


class StreamClock:
    """Decides how many steps end; `problem` says in words why the wall clock is not believed, or is empty.

    While the clock is ahead nobody knows the age of rows that come. Their steps begin with one of their own; when an
    operator accepts the clock, these steps are held in the history, because the steps that then end are older.
    """

    def __init__(self, stream: StreamConfig, ledger: Ledger, history: History) -> None:
        self._stream, self._ledger, self._history = stream, ledger, history
        now, retention = wall_clock(), history.settings.retention
        self._steps = StepClock(stream.step, ledger.origin, history.step, now, running_time(), retention)
        self._gap = read_gap(stream.folder)  # the first step since the clock is ahead
        self._accepted: AcceptedClock | None = None
        self.problem, self._published = "", True  # perhaps by the process before
        self._heed()

    @property
    def origin(self) -> Origin | None:
        """The step and the hour that all others are counted from, for the records of batches."""
        return self._steps.origin

    def due(self, rows: int) -> int:
        """How many steps end now, given the rows of the open one."""
        if self.problem:
            self._heed()
        step = self._history.step
        count = self._steps.due(step, rows, wall_clock(), running_time())
        off = self._steps.problem
        if off is not None and off > 0 and self._gap is None:
            count = max(count, int(rows > 0))
            self._gap = step + count
        self._publish(off)
        return count

    def _heed(self) -> None:
        """Trust the clock as far as an operator said since the last look."""
        accepted = read_accepted(self._stream.folder)
        if accepted is None or accepted == self._accepted:
            return
        self._accepted, step = accepted, self._history.step
        self._steps.accept(accepted.time, accepted.step, step, running_time())
        ahead = self._steps.ahead(step, accepted.time)
        if self._gap is not None and ahead > 0:
            self._history.hold_steps(self._gap, step + ahead)

    def _publish(self, off: float | None) -> None:
        """Let everyone know when a problem begins, and when it is over."""
        before, self.problem = self.problem, self.problem if off is not None else ""
        if off is None and self._published:
            self._gap, self._published = None, False
            write_clock_problem(self._stream.folder, None)
        elif off is not None and not before:
            self.problem, self._published = self._describe(off), True
            write_clock_problem(self._stream.folder, self.problem, self._gap)
        if before != self.problem:
            LOG.warning("%s: %s", self._stream.key, self.problem or "the clock is plausible again")

    def _describe(self, off: float) -> str:
        newest = f", newest batch {_show(self._ledger.at)}" if self._ledger.at else ""
        ahead = (
            f"{off / DAY:,.1f} days ahead of the open step and of the time that ingestion has run"
            if off > 0
            else f"{-off / DAY:,.1f} days behind the open step"
        )
        return (
            f"the clock of this machine is {ahead} (clock {_show(wall_clock())}{newest}); steps end by running time "
            "until it is plausible, and nothing expires because of it. Put the clock right; if it is right, run: "
            f"quantide history clock {self._stream.folder} --accept"
        )


def _show(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError, OSError):
        return f"{seconds:.0f} s"
