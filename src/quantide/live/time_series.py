"""Time series of a window: its quantiles at moments of the past, for a chart.

Each moment's window is that of `within=T, now=moment`, with the bands of docs/guarantees/live.md. Rows are read once
for all moments. In the order of their times a window is a slice of them. Quantiles roll over slices that overlap much,
other slices are sorted one by one; either way every point is exact. If that would take too long, and for a few moments,
each window is summarised on its own.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from quantide.errors import InvalidArgumentError
from quantide.kernels.block_sort import sorted_copy
from quantide.live.recent_snapshot import RecentSnapshot, RowSelection, TimeInterval
from quantide.summary.ranks import target_ranks
from quantide.summary.summary import Summary
from quantide.summary.value_types import ValueType
from quantide.typing import Array, Ints
from quantide.windows.rolling_quantiles import roll_slices
from quantide.windows.time_clock import NANOSECONDS, TimeClock

EARLIEST = -(2**63)  # no time of any clock is before this many nanoseconds, or seconds
FEW_WINDOWS = 4  # so many are faster to summarise than their rows are to read and sort
MAX_READ = 1 << 21  # rows read for one time series
MAX_SORTED = 1 << 25  # rows sorted for one time series: about a third of a second
ROLLED_COST = 3  # sorting so many rows takes as long as rolling a quantile over one

Point = tuple[Any, Any, Any]  # a value, and the band around it


@dataclass(frozen=True, slots=True)
class LiveTimeSeries:
    """Quantiles of a window as it was at `times`, as of the commit `version`.

    `n` has the number of values in each window, and lines[i][j] is (value, low, high) of the i-th phi at the j-th
    moment, None if the window was empty. The first window begins after `since`.
    """

    version: int
    since: Any
    times: list[Any]
    n: list[int]
    lines: list[list[Point | None]]


def compute_time_series(
    recent: RecentSnapshot,
    selection: RowSelection,
    phis: Sequence[float],
    windows: Sequence[tuple[Any, Any]],
    kind: ValueType,
    check_time: Callable[[], None] | None = None,
) -> LiveTimeSeries:
    """Return the quantiles of windows, each above a time and up to a moment, the earliest first.

    `check_time` is called before each window that is summarised on its own, and may raise.
    """
    clock, newest = recent.clock, recent.manifest.newest
    assert clock is not None
    intervals = [TimeInterval(above, moment if moment < newest else None) for above, moment in windows]
    slices = read_slices(recent, selection, intervals) if len(intervals) > FEW_WINDOWS else None
    if slices is not None and slices.cost(len(phis)) > MAX_SORTED:
        slices = None
    if slices is not None:
        n, lines = slices.counts, slices.lines(phis, kind)
    else:
        summaries = list(summarise_windows(recent, selection, intervals, kind, check_time))
        n, lines = [summary.n for summary in summaries], [_summary_line(summaries, phi) for phi in phis]
    since = clock.show(windows[0][0]) if windows else None
    return LiveTimeSeries(recent.version, since, [clock.show(moment) for _, moment in windows], n, lines)


ListWindows = Callable[[TimeClock, Any, Fraction], list[tuple[Any, Any]]]
"""From the clock, the newest time and the longest span to start and end of each window."""


def windows_at(
    clock: TimeClock, newest: Any, max_span: Fraction, within: Fraction, times_ms: Sequence[int]
) -> list[tuple[Any, Any]]:
    """Return start and end of the windows that end at given times, without those that begin before the recent rows."""
    first, limit = clock.back(newest, max_span), np.iinfo(np.int64).max // NANOSECONDS * 1000
    if any(later <= earlier for earlier, later in pairwise(times_ms)):
        raise InvalidArgumentError("the moments of a time series must ascend; sort them, and leave out repeated ones")
    if times_ms and max(-times_ms[0], times_ms[-1]) > limit:
        raise InvalidArgumentError(f"{times_ms[-1]} ms is outside the years 1678 to 2261; use milliseconds since 1970")
    moments = [time / 1000 if clock.kind == "seconds" else time * 10**6 for time in times_ms]
    windows = [(clock.back(moment, within), moment) for moment in moments]
    return [(above, moment) for above, moment in windows if above >= first]


def list_windows(
    clock: TimeClock, newest: Any, max_span: Fraction, within: Fraction, over: Fraction, points: int
) -> list[tuple[Any, Any]]:
    """Return start and end of each window of a time series, without those that begin before the recent rows."""
    first = clock.back(newest, max_span)
    windows = [(clock.back(moment, within), moment) for moment in list_moments(clock, newest, over, points)]
    return [(above, moment) for above, moment in windows if above >= first]


def list_moments(clock: TimeClock, newest: Any, over: Fraction, points: int) -> list[Any]:
    """Return at most `points` moments up to the newest time, the oldest first, over/points apart.

    All but the last are multiples of that, so that a repeated question is about the same moments.
    """
    each = over / points
    if each * NANOSECONDS < 1:
        raise InvalidArgumentError(
            f"{points} moments in so short a time are less than a nanosecond apart; ask for fewer"
        )
    if clock.kind == "seconds":
        last = float(newest) // float(each)
        moments = {(last - i) * float(each) for i in range(points)}  # far from zero, rounding may pass the newest
    else:
        step = int(each * NANOSECONDS)
        last = int(newest) // step
        moments = {(last - i) * step for i in range(points)}
    earlier = sorted(moment for moment in moments if EARLIEST < moment < newest)
    return [*earlier[-(points - 1) :], newest]


@dataclass(frozen=True)
class TimeSlices:
    """Values in the order of their times; window i has those from starts[i] to ends[i]."""

    values: Array
    starts: Ints
    ends: Ints

    @property
    def counts(self) -> list[int]:
        counts: list[int] = (self.ends - self.starts).tolist()
        return counts

    def cost(self, phis: int) -> int:
        """Return the time that lines() takes for so many phis, as a number of sorted rows."""
        rolled, single = self._divide(phis)
        rows = ROLLED_COST * phis * int(self.ends[rolled[-1]]) if len(rolled) else 0
        return rows + int((self.ends - self.starts)[single].sum())

    def lines(self, phis: Sequence[float], kind: ValueType) -> list[list[Point | None]]:
        """Return the exact quantiles of each window."""
        if not phis:
            return []
        counts = self.ends - self.starts
        indexes = target_ranks(np.array(phis)[:, None], counts) - 1
        chosen = np.zeros(indexes.shape, kind.carrier)
        rolled, single = self._divide(len(phis))
        if len(rolled):
            chosen[:, rolled] = roll_slices(self.values, self.starts[rolled], self.ends[rolled], np.array(phis), kind)
        for i in single:
            chosen[:, i] = sorted_copy(self.values[self.starts[i] : self.ends[i]])[indexes[:, i]]
        return [
            [(value, value, value) if count else None for value, count in zip(kind.restore(row), counts, strict=True)]
            for row in chosen
        ]

    def _divide(self, phis: int) -> tuple[Ints, Ints]:
        """Return the windows to roll over, whose ends differ, and those to sort; empty ones are in neither."""
        some = np.flatnonzero(self.ends > self.starts)
        rolled = some[np.flatnonzero(np.diff(self.ends[some], prepend=-1))]
        rows = int((self.ends - self.starts)[rolled].sum())
        if not len(rolled) or rows <= ROLLED_COST * phis * int(self.ends[rolled[-1]]):
            return some[:0], some
        return rolled, np.setdiff1d(some, rolled, assume_unique=True)


def read_slices(
    recent: RecentSnapshot, selection: RowSelection, intervals: Sequence[TimeInterval]
) -> TimeSlices | None:
    """Return the rows of all windows; None if they are too many to read."""
    whole = RowSelection(selection.key, None, TimeInterval(intervals[0].above, intervals[-1].upto), selection.filter)
    rows = recent.rows(whole, MAX_READ)
    if rows is None:
        return None
    values, times = rows
    order = np.argsort(times, kind="stable")  # they are nearly sorted
    values, times = values[order], times[order]
    starts = np.searchsorted(times, [interval.above for interval in intervals], side="right")
    ends = [
        len(times) if interval.upto is None else np.searchsorted(times, interval.upto, side="right")
        for interval in intervals
    ]
    return TimeSlices(values, starts, np.array(ends, dtype=np.int64))


def summarise_windows(
    recent: RecentSnapshot,
    selection: RowSelection,
    intervals: Sequence[TimeInterval],
    kind: ValueType,
    check_time: Callable[[], None] | None = None,
) -> Iterator[Summary]:
    """Yield a summary of each window."""
    for interval in intervals:
        if check_time is not None:
            check_time()
        yield recent.summary(RowSelection(selection.key, None, interval, selection.filter), kind, False)


def _summary_line(summaries: Sequence[Summary], phi: float) -> list[Point | None]:
    return [(summary.answer(phi).value, *summary.bounds(phi)) if summary.n else None for summary in summaries]
