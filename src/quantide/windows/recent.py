"""RecentWindow: any number of the newest values, any span of time, chosen when asked."""

import math
from array import array
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quantide.errors import InvalidArgumentError, SpanError
from quantide.sketches.frame import FrameReader
from quantide.sketches.singles import Singles
from quantide.summary.column import Column, plain_values
from quantide.summary.ranks import MAX_N, check_not_empty
from quantide.summary.summaries import Summaries
from quantide.summary.summary import Summary
from quantide.windows.ahead import read_ahead
from quantide.windows.arrivals import Arrivals
from quantide.windows.layout import layout_for
from quantide.windows.reach import Reach
from quantide.windows.slices import Slices
from quantide.windows.timeline import Timed, Timeline
from quantide.windows.view import Cut, Start, View, Views, WindowAnswer, both, cut_at, either

MAGIC = b"QTR"
NUMBER, TIME = 0, 1  # the marks of slices; values have their time alone

Starts = tuple[Start, Start]  # where a window starts among values, and among slices


class RecentWindow(Timed, Singles):
    """Quantiles of the last n values, for any n, or of the last span of time, for any span, each within eps.

    One structure serves all: `quantile(phi, last=n)` for any n up to `max_items`, `quantile(phi, within="5 min")` for
    any span up to `max_age`. Both together ask for the shorter. Without either, everything that may be asked about is
    meant. Within T means time > now - T, now being the newest time unless it is given.

    Parameters: `eps`, the largest error as a fraction of the window's values; `max_items` and `max_age`, how far back
    questions reach (everything, when neither is given); `nan`, "refuse" or "skip"; `late`, "refuse" or "clamp", what
    happens to a time before the newest; `value_type`, when it shall not be that of the first values; `max_ahead`, how
    far a time may be ahead of the wall clock ("1 hour"), beyond which update() raises FutureTimeError; None, for any
    time. The newest timestamp defines "now": one value dated a year ahead empties every time window until then.

    >>> window = RecentWindow(eps=0.01, max_items=1_000_000)
    >>> for second in range(100):
    ...     window.update(np.arange(10_000.0) + second * 10_000, times=float(second))
    >>> float(window.quantile(0.5, last=1001))
    999499.0
    >>> answer = window.answer(0.5, within="50 s")
    >>> answer.n_lo <= 500_000 <= answer.n_hi, answer.error <= 0.01, answer.until
    (True, True, 99.0)

    Guarantee, proof and sizes: docs/guarantees/windows.md.
    """

    def __init__(
        self,
        eps: float,
        max_items: int | None = None,
        max_age: Any = None,
        nan: str = "refuse",
        late: str = "refuse",
        value_type: str | None = None,
        max_ahead: Any = None,
    ) -> None:
        super().__init__(eps, nan, value_type)
        self._reach = Reach.of(max_items, max_age)
        self._times = Timeline(late, max_age is not None, None if max_ahead is None else read_ahead(max_ahead))
        self._single_times = array("d")
        self._values: Arrivals | None = None
        self._slices = Slices(layout_for(self._eps))
        self._views = Views()
        self._expect_singles()

    @property
    def reach(self) -> Reach:
        """How far back questions reach."""
        return self._reach

    @property
    def max_items(self) -> int | None:
        return self._reach.items

    @property
    def max_age(self) -> float | None:
        """In seconds."""
        return None if self._reach.age is None else float(self._reach.age)

    @property
    def arrived(self) -> int:
        return (self._values.n if self._values else 0) + self._slices.n + len(self._singles)

    @property
    def n(self) -> int:
        """How many values a question about everything speaks of, at most."""
        return self._cut(None, None, None)[0].n_hi if self.arrived else 0

    @property
    def tuples(self) -> int:
        """How many values are held."""
        return (self._values.values if self._values else 0) + self._slices.values + len(self._singles)

    @property
    def nbytes(self) -> int:
        singles = self._singles.itemsize * len(self._singles)
        return (self._values.nbytes if self._values else 0) + self._slices.nbytes + singles + self._views.nbytes

    def update(self, values: Any, times: Any = None, nan: str | None = None, late: str | None = None) -> None:
        """Take values, and their times: one for each, or one for all; numbers (seconds) or timestamps, none decreasing.

        All of them or, when it raises, none. `nan` and `late` override the window's own rules for this call.
        """
        if nan is None and late is None and self._wait_at(values, times):
            self._views.clear()
            return
        self._join_singles()
        plain = values if isinstance(values, (Summary, Summaries)) else plain_values(values)
        column = self._read(plain, nan)
        column.check_nan()
        arrived = self._times.read(times, plain, column, late, self.arrived)
        if len(column):
            self._times.accept(arrived)
            self._take(column, arrived.times)
        self._note(column)
        self._changed()

    def update_summary(
        self, summary: Summary, first_time: Any = None, last_time: Any = None, late: str | None = None
    ) -> None:
        """Take a block that was summarised elsewhere, all of it between two times, the newest so far.

        Its certified error may be at most eps/2. Blocks that overlap in time are joined, until one comes that starts
        later. A window cannot be cut inside a block.
        """
        self._join_singles()
        self._check_summary(summary)
        opened, settled = self._open_slice()
        arrived = self._times.read_span(first_time, last_time, settled, opened, late, self.arrived, summary.n)
        if summary.n:
            self._times.accept(arrived)
            self._take_slice(summary.with_skipped(0, 0), arrived.times)
        self._note_summary(summary)
        self._changed()

    def answer(self, phi: float, last: int | None = None, within: Any = None, now: Any = None) -> WindowAnswer:
        """The phi-quantile of a window, with the ranks it is proved to have and what it covers."""
        return self._view(last, within, now).answer(phi)

    def quantile(self, phi: float, last: int | None = None, within: Any = None, now: Any = None) -> Any:
        """The value of the phi-quantile of a window."""
        return self._view(last, within, now).summary.quantile(phi)

    def quantiles(self, phis: ArrayLike, last: int | None = None, within: Any = None, now: Any = None) -> NDArray[Any]:
        """The values for many phis in one call."""
        return self._view(last, within, now).summary.quantiles(phis)

    def rank(self, value: Any, last: int | None = None, within: Any = None, now: Any = None) -> tuple[Any, Any]:
        """Proved bounds (lo, hi) on how many values of a window are <= value."""
        return self.summary(last, within, now).rank(value)

    def cdf(self, values: Any, last: int | None = None, within: Any = None, now: Any = None) -> Any:
        """The fraction of a window's values that are <= each value."""
        return self._view(last, within, now).summary.cdf(values)

    def summary(self, last: int | None = None, within: Any = None, now: Any = None) -> Summary:
        """A summary of all that a window may hold; those only known by number are lifted in."""
        if not self.arrived:
            return self._nothing()
        return self._view(last, within, now).summary.with_skipped(self._nulls, self._nans)

    @property
    def error(self) -> float:
        """The error certified now for a question about everything; never above eps."""
        return self._view(None, None, None).error if self.arrived else 0.0

    def to_bytes(self) -> bytes:
        """The whole state: from_bytes() continues exactly as if never stopped."""
        self._join_singles()
        frame = self._frame(MAGIC)
        frame.number(self._reach.items or 0)
        frame.fraction(self._reach.age)
        self._times.write(frame)
        frame.number(self._values is not None)
        if self._values:
            self._values.write(frame)
        self._slices.write(frame)
        return frame.finish()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """A window in exactly the state that to_bytes() wrote."""
        frame = FrameReader(MAGIC, data)
        items, age = frame.number(MAX_N), frame.fraction()
        window = cls(frame.eps, items or None, age, frame.nan, value_type=frame.type_name)
        window._nulls, window._nans = frame.nulls, frame.nans
        window._times = Timeline.from_frame(frame, age is not None)
        if frame.number(1):
            window._values = window._new_values()
            window._values.read(frame)
        window._slices.read(frame, [np.dtype(np.int64), *window._times.dtypes])
        frame.require(window.arrived <= MAX_N and (window.arrived > 0 or not window._times.clock))
        frame.finish()
        window._expect_singles()
        return window

    def _wait_at(self, value: Any, time: Any) -> bool:
        """Let one value, with its time in seconds if there are times, wait for others to be taken with."""
        if self._times.clock is None:
            return time is None and not self._times.needed and self._wait(value)
        timed = type(time) is float and self._times.clock.kind == "seconds"
        if not timed or not self._times.newest <= time < math.inf or not self._times.is_plausible(time):
            return False
        self._single_times.append(time)
        if not self._wait(value):
            self._single_times.pop()
            return False
        self._times.newest = time
        return True

    def take_column(self, column: Column) -> None:
        times, self._single_times = self._single_times, array("d")
        self._take(column, None if self._times.clock is None else np.frombuffer(times))

    def _take(self, column: Column, times: NDArray[Any] | None) -> None:
        self._type = self._type or column.type
        self._slices.close()
        if self._values is None:
            self._values = self._new_values()
        at = 0
        for part in Column(self._type, column.pieces).carried_parts():
            marks = [] if times is None else [times[at : at + len(part)]]
            self._values.append(part, *marks)
            at += len(part)

    def _new_values(self) -> Arrivals:
        most = None if self._reach.age is not None else self._reach.items
        return Arrivals(layout_for(self._eps, most), self._kind(), self._times.dtypes, self._needed_values)

    def _open_slice(self) -> tuple[Any, Any]:
        """When the open slice begins, and the newest time of all that came before it."""
        if self._times.clock is None or self._slices.open is None:
            return None, self._times.newest
        before = [root.marks[TIME][1] for root in self._slices.roots[-1:]]
        if self._values:
            before.append(self._values.newest(0))
        return self._slices.open.marks[TIME][0], max(before, default=None)

    def _take_slice(self, summary: Summary, span: NDArray[Any] | None) -> None:
        at, opened = self.arrived, self._slices.open
        marks = ((at, at + summary.n - 1), *(() if span is None else ((span[0], span[1]),)))
        if span is not None and opened is not None and span[0] < opened.marks[TIME][1]:
            self._slices.join(summary, marks)
        else:
            self._slices.add(summary, marks)
            self._slices.forget(self._needed_slices() - 1)

    def _needed_values(self) -> int:
        """The position from which on values can still be asked for: within one limit or the other."""
        assert self._values is not None
        starts = [] if self._reach.items is None else [self._values.n - self._reach.items]
        if self._reach.age is not None:
            starts.append(self._values.after(0, self._times.back(self._values.newest(0), self._reach.age))[0])
        return min(starts, default=0)

    def _needed_slices(self) -> int:
        starts = [] if self._reach.items is None else [self._slices.n - self._reach.items]
        if self._reach.age is not None:
            starts.append(self._slices.after(TIME, self._times.back(self._times.newest, self._reach.age))[0])
        return min(starts, default=0)

    def _changed(self) -> None:
        self._views.clear()
        self._expect_singles()

    def _view(self, last: Any, within: Any, now: Any) -> View:
        return self._views.get((last, within, now), self._look)

    def _look(self, last: Any, within: Any, now: Any) -> View:
        """Find where the window starts, cut there, and summarise what is left."""
        check_not_empty(self.arrived)
        return self._checked(*self._cut(last, within, now))

    def _cut(self, last: Any, within: Any, now: Any) -> tuple[Cut, Start, Any]:
        """The cut of a window, where it starts among slices, and the time that its span ends at."""
        self._join_singles()
        last, span = self._reach.read(last, within)
        everything = last is None and span is None
        if everything:
            last, span = self._reach.items, self._reach.age
        if now is not None and span is None:
            raise InvalidArgumentError("now= is of use only together with within=")
        moment = None if span is None else self._times.now(now)
        found: Starts = ((0, 0), (0, 0))
        if last is not None:
            found = self._start_of_last(last)
        if span is not None:
            timed = self._start_of_span(span, moment)
            rule = either if everything else both
            found = timed if last is None else (rule(found[0], timed[0]), rule(found[1], timed[1]))
        if min(found[0][0], found[1][0]) < 0:
            raise SpanError(
                f"the window reaches back beyond {self._reach}, which is all that is kept; ask for a shorter one"
            )
        lanes: list[tuple[Any, Start]] = [(self._values, found[0])] if self._values else []
        cut = cut_at([*lanes, (self._slices, found[1])] if self._slices.n else lanes)
        if span is None:
            n = min(self.arrived, self.arrived if last is None else last)
            cut = Cut(cut.lanes, n, n)
        return cut, found[1], moment

    def _checked(self, cut: Cut, start: Start, moment: Any) -> View:
        """A view that keeps the promise; else the error names the smallest window that would."""
        summary = cut.summary(self._kind()) if cut.covered or not cut.n_hi else None
        if summary is not None:
            view = View(summary, cut.n_lo, cut.n_hi, cut.missing, self._since(cut), self.newest)
            if view.error <= self._eps:
                return view
        block = self._slices.holding(start[0])
        if block is None:
            raise AssertionError("a window without blocks from elsewhere is never too fine")
        smallest = f"last={self.arrived - block.marks[NUMBER][0]}"
        if moment is not None:
            smallest = f"more than {self._times.ago(block.marks[TIME][0], moment)}"
        raise SpanError(
            f"the window ends inside a block of {block.end - block.start} values that was summarised elsewhere; the "
            f"smallest window from there on that can be answered within eps={self._eps} is {smallest}"
        )

    def _start_of_last(self, last: int) -> Starts:
        """Where the last arrivals start among values and among slices, which together are counted exactly."""
        first = max(0, self.arrived - last)
        fed = self._slices.after(NUMBER, first - 1) if self._slices.n else (0, 0)
        if fed[0] < 0 or self._values is None:
            return (0, 0), fed
        most = max(0, self._values.n - last)  # not all of the last need be values
        values = max(most, first - fed[1]), min(max(most, first - fed[0]), self._values.n)
        forgotten = values[0] < self._values.levels.start
        return ((-1, values[1]) if forgotten else values), fed

    def _start_of_span(self, span: Fraction, moment: Any) -> Starts:
        threshold = self._times.back(moment, span)
        values = self._values.after(0, threshold) if self._values else (0, 0)
        return values, self._slices.after(TIME, threshold) if self._slices.n else (0, 0)

    def _since(self, cut: Cut) -> Any:
        """The time of the first element that is covered."""
        if self._times.clock is None:
            return None
        firsts = []
        for lane, position in cut.lanes:
            if position < lane.n:
                firsts.append(lane.first_mark(TIME if lane is self._slices else 0, position))
        return self._times.show(min(firsts, default=None))
