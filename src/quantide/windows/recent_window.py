"""RecentWindow: any number of the newest values or any span of time, chosen per query."""

import math
from array import array
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from quantide.errors import InvalidArgumentError, SpanError
from quantide.sketches.byte_frame import FrameReader
from quantide.sketches.sketch_base import SketchBase
from quantide.summary.ranks import MAX_N, check_not_empty, check_phi
from quantide.summary.summaries import Summaries
from quantide.summary.summary import Summary
from quantide.summary.value_column import ValueColumn, plain_values
from quantide.summary.weighted_values import WeightedValues, check_repeats
from quantide.typing import Array, Floats
from quantide.windows.block_layout import layout_for
from quantide.windows.cached_answer import CAPACITY, CachedAnswer, stays_within
from quantide.windows.recent_values import RecentValues
from quantide.windows.summary_slices import SummarySlices
from quantide.windows.time_clock import read_ahead
from quantide.windows.timeline import TimedWindow, Timeline
from quantide.windows.window_view import (
    Start,
    WindowAnswer,
    WindowCut,
    WindowLimits,
    WindowView,
    WindowViewCache,
    cut_at,
    earlier_start,
    later_start,
)

MAGIC = b"QTR"
NUMBER, TIME = 0, 1  # marks of slices; values have only their time

NO_ANSWERS: dict[float, CachedAnswer] = {}

Starts = tuple[Start, Start]  # start of a window among values, and among slices


class RecentWindow(TimedWindow, SketchBase):
    """Quantiles of the last n values, for any n, or of the last span of time, for any span, each within eps.

    One structure serves all: `quantile(phi, last=n)` for any n up to `max_items`, `quantile(phi, within="5 min")` for
    any span up to `max_age`; with both, the shorter window; with neither, the longest. `within=T` means
    time > now - T, where now is the newest time by default; every window reaches to the newest value.

    Parameters: `eps`, the largest error as a fraction of the window's values; `max_items` and `max_age`, the longest
    windows (unlimited if neither is given); `nan`, "refuse" or "skip"; `late`, "refuse" or "clamp", for a time before
    the newest; `value_type`, by default that of the first values; `max_ahead`, how far a time may be ahead of the wall
    clock ("1 hour") before update() raises FutureTimeError; None for no limit. The newest timestamp defines "now": one
    value dated a year ahead empties every time window until then.

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
        self._limits = WindowLimits.of(max_items, max_age)
        self._times = Timeline(late, max_age is not None, None if max_ahead is None else read_ahead(max_ahead))
        self._scalar_times = array("d")
        self._values: RecentValues | None = None
        self._slices = SummarySlices(layout_for(self._eps))
        self._views = WindowViewCache()
        self._answers: dict[int | None, dict[float, CachedAnswer]] = {}  # by `last`, all of one moment
        self._reset_buffer()

    @property
    def limits(self) -> WindowLimits:
        """Longest windows that can be queried."""
        return self._limits

    @property
    def max_items(self) -> int | None:
        return self._limits.items

    @property
    def max_age(self) -> float | None:
        """Longest span of time, in seconds."""
        return None if self._limits.age is None else float(self._limits.age)

    @property
    def arrived(self) -> int:
        return (self._values.n if self._values else 0) + self._slices.n + len(self._scalars)

    @property
    def n(self) -> int:
        """Largest number of values that the longest window may contain."""
        return self._cut(None, None, None)[0].n_hi if self.arrived else 0

    @property
    def tuples(self) -> int:
        """Number of values in memory."""
        values = self._values.stored_values if self._values else 0
        return values + self._slices.stored_values + len(self._scalars)

    @property
    def nbytes(self) -> int:
        scalars = self._scalars.itemsize * len(self._scalars)
        return (self._values.nbytes if self._values else 0) + self._slices.nbytes + scalars + self._views.nbytes

    def update(
        self, values: Any, times: Any = None, nan: str | None = None, late: str | None = None, weights: Any = None
    ) -> None:
        """Insert values with their times: one for each, or one for all; numbers (seconds) or timestamps, ascending.

        Inserts all of them or, if it raises, none. `nan` and `late` override the window's policies for this call.
        `weights` are whole numbers, one for each value or one for all: a value of weight w is w arrivals at one time.
        Their sum may be at most 2**27 in a call.
        """
        if weights is None and nan is None and late is None and self._buffer_at(values, times):
            self._views.clear()
            return
        self._flush()
        if weights is not None:
            self._update_weighted_at(values, times, self._read_weighted(values, weights, nan), late)
            return
        plain = values if isinstance(values, (Summary, Summaries)) else plain_values(values)
        column = self._read(plain, nan)
        column.check_nan()
        checked = self._times.read(times, plain, column, late, self.arrived)
        if len(column):
            self._times.accept(checked)
            self._insert(column, checked.times)
        self._record(column)
        self._invalidate()

    def update_summary(
        self, summary: Summary, first_time: Any = None, last_time: Any = None, late: str | None = None
    ) -> None:
        """Insert a block that was summarised elsewhere, with its first and last time; it must be the newest.

        Its certified error may be at most eps/2. Blocks that overlap in time are merged. A window cannot be cut inside
        a block.
        """
        self._flush()
        summary = self._check_summary(summary)
        opened, closed = self._open_slice_times()
        checked = self._times.read_span(first_time, last_time, closed, opened, late, self.arrived, summary.n)
        if summary.n:
            self._times.accept(checked)
            self._insert_slice(summary.with_skipped(0, 0), checked.times)
        self._record_summary(summary)
        self._answers.clear()
        self._invalidate()

    def answer(self, phi: float, last: int | None = None, within: Any = None, now: Any = None) -> WindowAnswer:
        """Return the phi-quantile of a window with its proved rank bounds and what it covers.

        A window of values without times may reuse an earlier answer about as many values, with wider bounds.
        """
        if within is None and now is None and self._reuses_answers(last):
            size = self._limits.items if last is None else last
            return self._cached_answer(check_phi(phi), last).after(self.arrived, MAX_N if size is None else size)
        return self._view(last, within, now).answer(phi)

    def quantile(self, phi: float, last: int | None = None, within: Any = None, now: Any = None) -> Any:
        """Return the value of answer()."""
        if within is None and now is None and type(phi) is float and (last is None or type(last) is int):
            cached = self._answers.get(last, NO_ANSWERS).get(phi)
            if cached is not None and self.arrived <= cached.until:
                return cached.answer.value
        return self.answer(phi, last, within, now).value

    def quantiles(self, phis: ArrayLike, last: int | None = None, within: Any = None, now: Any = None) -> Array:
        """Return the values of many quantiles of a window in one call."""
        return self._view(last, within, now).summary.quantiles(phis)

    def rank(
        self, value: Any, last: int | None = None, within: Any = None, now: Any = None, *, inclusive: bool = True
    ) -> tuple[Any, Any]:
        """Return proved bounds (lo, hi) on the number of values of a window that are <= value, or < value."""
        return self.summary(last, within, now).rank(value, inclusive=inclusive)

    def cdf(
        self, values: Any, last: int | None = None, within: Any = None, now: Any = None, *, inclusive: bool = True
    ) -> Any:
        """Return the fraction of a window's values that are <= each value; < with inclusive=False."""
        return self._view(last, within, now).summary.cdf(values, inclusive=inclusive)

    def pmf(
        self, splits: Any, last: int | None = None, within: Any = None, now: Any = None, *, inclusive: bool = True
    ) -> Floats:
        """Return the fraction of a window's values in each interval between splits; see Summary.pmf."""
        return self._view(last, within, now).summary.pmf(splits, inclusive=inclusive)

    def summary(self, last: int | None = None, within: Any = None, now: Any = None) -> Summary:
        """Summarise all values that a window may contain; those not covered are added with lift()."""
        if not self.arrived:
            return self._empty_summary()
        return self._view(last, within, now).summary.with_skipped(self._nulls, self._nans)

    @property
    def error(self) -> float:
        """Certified error of the longest window now; never above eps."""
        return self._view(None, None, None).error if self.arrived else 0.0

    def to_bytes(self) -> bytes:
        """Serialize the whole state: from_bytes() continues exactly from here."""
        self._flush()
        frame = self._start_frame(MAGIC)
        frame.number(self._limits.items or 0)
        frame.fraction(self._limits.age)
        self._times.write(frame)
        frame.number(self._values is not None)
        if self._values:
            self._values.write(frame)
        self._slices.write(frame)
        return frame.finish()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Restore a window from the bytes of to_bytes()."""
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
        frame.require(not window.arrived or window._has_longest_window())
        frame.finish()
        window._reset_buffer()
        return window

    def _buffer_at(self, value: Any, time: Any) -> bool:
        """Append one value, with its time in seconds if the window has times, to the buffer; False if it cannot be."""
        if self._times.clock is None:
            return time is None and not self._times.needed and self._buffer(value)
        timed = type(time) is float and self._times.clock.kind == "seconds"
        if not timed or not self._times.newest <= time < math.inf or not self._times.is_plausible(time):
            return False
        self._scalar_times.append(time)
        if not self._buffer(value):
            self._scalar_times.pop()
            return False
        self._times.newest = time
        return True

    def insert_column(self, column: ValueColumn) -> None:
        times, self._scalar_times = self._scalar_times, array("d")
        self._insert(column, None if self._times.clock is None else np.frombuffer(times))

    def _insert(self, column: ValueColumn, times: Array | None) -> None:
        self._type = self._type or column.type
        self._slices.close()
        if self._values is None:
            self._values = self._new_values()
        offset = 0
        for part in ValueColumn(self._type, column.pieces).carried_parts():
            marks = [] if times is None else [times[offset : offset + len(part)]]
            self._values.append(part, *marks)
            offset += len(part)

    def _update_weighted_at(self, values: Any, times: Any, weighted: WeightedValues, late: str | None) -> None:
        check_repeats(weighted.total)
        checked = self._times.read(times, values, weighted.skipped(), late, self.arrived, weighted)
        if len(weighted):
            self._times.accept(checked)
            self._type = self._type or weighted.type
            self._slices.close()
            if self._values is None:
                self._values = self._new_values()
            for index in weighted.index_parts():
                self._values.append(weighted.values[index], *([] if checked.times is None else [checked.times[index]]))
        self._record(weighted.skipped())
        self._invalidate()

    def _new_values(self) -> RecentValues:
        max_items = None if self._limits.age is not None else self._limits.items
        return RecentValues(
            layout_for(self._eps, max_items), self._kind(), self._times.dtypes, self._first_needed_value
        )

    def _open_slice_times(self) -> tuple[Any, Any]:
        """Return the first time of the open slice, and the newest time before it."""
        if self._times.clock is None or self._slices.open is None:
            return None, self._times.newest
        before = [root.marks[TIME][1] for root in self._slices.roots[-1:]]
        if self._values:
            before.append(self._values.newest(0))
        return self._slices.open.marks[TIME][0], max(before, default=None)

    def _insert_slice(self, summary: Summary, span: Array | None) -> None:
        number, opened = self.arrived, self._slices.open
        marks = ((number, number + summary.n - 1), *(() if span is None else ((span[0], span[1]),)))
        if span is not None and opened is not None and span[0] < opened.marks[TIME][1]:
            self._slices.extend(summary, marks)
        else:
            self._slices.add(summary, marks)
            self._slices.forget(self._first_needed_slice() - 1)

    def _first_needed_value(self) -> int:
        """Return the first position that is within the limit of items or that of age."""
        assert self._values is not None
        starts = [] if self._limits.items is None else [self._values.n - self._limits.items]
        if self._limits.age is not None:
            starts.append(self._values.start_after(0, self._times.back(self._values.newest(0), self._limits.age))[0])
        return min(starts, default=0)

    def _first_needed_slice(self) -> int:
        starts = [] if self._limits.items is None else [self._slices.n - self._limits.items]
        if self._limits.age is not None:
            starts.append(self._slices.start_after(TIME, self._times.back(self._times.newest, self._limits.age))[0])
        return min(starts, default=0)

    def _invalidate(self) -> None:
        self._views.clear()
        self._reset_buffer()

    def _reuses_answers(self, last: Any) -> bool:
        """Return True for a window by number that has values only, without times."""
        by_number = type(last) is int or (last is None and self._limits.age is None)
        return by_number and self._times.clock is None and not self._slices.n and bool(self.arrived)

    def _cached_answer(self, phi: float, last: int | None) -> CachedAnswer:
        """Return a cached answer that is still valid; compute it on a miss, and discard those of an earlier moment."""
        answers = self._answers.get(last, NO_ANSWERS)
        cached = answers.get(phi)
        if cached is None or self.arrived > cached.until:
            answer, arrived = self._view(last, None, None).answer(phi), self.arrived
            assert self._values is not None
            size = self._limits.items if last is None else last
            until = arrived + stays_within(answer, self._eps, None)
            if size is not None and until > size:  # values leave before that
                position = self._values.position_of(self._carried(answer.value), arrived - answer.covered)
                until = min(until, position + size)
            is_old = any(other.arrived != arrived for other in answers.values())
            if last not in self._answers or is_old or len(answers) >= CAPACITY:
                if len(self._answers) >= CAPACITY:
                    self._answers.clear()
                self._answers[last] = {}
            cached = self._answers[last][phi] = CachedAnswer(answer, arrived, until)
        return cached

    def _view(self, last: Any, within: Any, now: Any) -> WindowView:
        return self._views.get((last, within, now), self._compute_view)

    def _compute_view(self, last: Any, within: Any, now: Any) -> WindowView:
        """Find the start of the window, cut there, and summarise the rest; its earlier answers are less exact now."""
        check_not_empty(self.arrived)
        cut = self._cut(last, within, now)
        if within is None and now is None:
            self._answers.pop(last, None)
        return self._checked_view(*cut)

    def _cut(self, last: Any, within: Any, now: Any) -> tuple[WindowCut, Start, Any]:
        """Return the cut of a window, its start among slices, and the time at which its span ends."""
        self._flush()
        last, span = self._limits.check(last, within)
        longest = last is None and span is None
        if longest:
            last, span = self._limits.items, self._limits.age
        if now is not None and span is None:
            raise InvalidArgumentError("now= has a meaning only with within=")
        moment = None if span is None else self._times.now(now)
        starts: Starts = ((0, 0), (0, 0))
        if last is not None:
            starts = self._start_of_last(last)
        if span is not None:
            timed = self._start_of_span(span, moment)
            rule = earlier_start if longest else later_start
            starts = timed if last is None else (rule(starts[0], timed[0]), rule(starts[1], timed[1]))
        if min(starts[0][0], starts[1][0]) < 0:
            raise SpanError(
                f"the window reaches back beyond {self._limits}, which is all that is kept; ask for a shorter one"
            )
        sequences: list[tuple[Any, Start]] = [(self._values, starts[0])] if self._values else []
        cut = cut_at([*sequences, (self._slices, starts[1])] if self._slices.n else sequences)
        if span is None:
            n = min(self.arrived, self.arrived if last is None else last)
            cut = WindowCut(cut.cuts, n, n)
        return cut, starts[1], moment

    def _has_longest_window(self) -> bool:
        """Return True unless values that the limits allow to query are forgotten; only forged bytes say so."""
        if self._limits.items is None and self._limits.age is None:
            return self._slices.start == 0 and (self._values is None or self._values.levels.start == 0)
        try:
            self._cut(None, None, None)
        except (SpanError, InvalidArgumentError):  # the second if values without times have a limit of age
            return False
        return True

    def _checked_view(self, cut: WindowCut, start: Start, moment: Any) -> WindowView:
        """Return the view if it is within eps; otherwise raise SpanError with the smallest window that would be."""
        summary = cut.summary(self._kind()) if cut.covered or not cut.n_hi else None
        if summary is not None:
            view = WindowView(summary, cut.n_lo, cut.n_hi, cut.missing, self._since(cut), self.newest)
            if view.error <= self._eps:
                return view
        block = self._slices.group_at(start[0])
        if block is None:
            raise AssertionError("a window without summarised blocks is always within eps")
        smallest = f"last={self.arrived - block.marks[NUMBER][0]}"
        if moment is not None:
            smallest = f"more than {self._times.ago(block.marks[TIME][0], moment)}"
        raise SpanError(
            f"the window begins inside a block of {block.end - block.start} values that was summarised elsewhere; the "
            f"smallest longer window that can be answered within eps={self._eps} is {smallest}"
        )

    def _start_of_last(self, last: int) -> Starts:
        """Return the start of the last arrivals among values and slices, which together are counted exactly."""
        first = max(0, self.arrived - last)
        slices = self._slices.start_after(NUMBER, first - 1) if self._slices.n else (0, 0)
        if slices[0] < 0 or self._values is None:
            return (0, 0), slices
        earliest = max(0, self._values.n - last)  # as if all of the last arrivals were values
        values = max(earliest, first - slices[1]), min(max(earliest, first - slices[0]), self._values.n)
        forgotten = values[0] < self._values.levels.start
        return ((-1, values[1]) if forgotten else values), slices

    def _start_of_span(self, span: Fraction, moment: Any) -> Starts:
        threshold = self._times.back(moment, span)
        values = self._values.start_after(0, threshold) if self._values else (0, 0)
        return values, self._slices.start_after(TIME, threshold) if self._slices.n else (0, 0)

    def _since(self, cut: WindowCut) -> Any:
        """Return the time of the first value that is covered."""
        if self._times.clock is None:
            return None
        firsts = []
        for sequence, position in cut.cuts:
            if position < sequence.n:
                firsts.append(sequence.first_mark(TIME if sequence is self._slices else 0, position))
        return self._times.show(min(firsts, default=None))
