"""Time series of a window: its quantiles at moments of the past, for a chart.

Each moment's window is that of `within=T, now=moment`, with the bands of docs/guarantees/live.md. Rows are read once
for all moments. In the order of their times a window is a slice of them; while all slices together are short enough
each is sorted, and then every point is exact. Otherwise each window is summarised like any other.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from quantide.errors import InvalidArgumentError
from quantide.kernels.block_sort import sorted_copy
from quantide.live.recent_snapshot import RecentSnapshot, RowSelection, TimeInterval
from quantide.summary.summary import Summary
from quantide.summary.value_types import ValueType
from quantide.windows.time_clock import NANOSECONDS, TimeClock

EARLIEST = -(2**63)  # no time of any clock is before this many nanoseconds, or seconds
MAX_READ = 1 << 21  # rows read for one time series
MAX_SORTED = 1 << 24  # rows sorted for one time series: about a quarter of a second

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
) -> LiveTimeSeries:
    """Return the quantiles of windows, each above a time and up to a moment, the earliest first."""
    clock, newest, n = recent.clock, recent.manifest.newest, []
    assert clock is not None
    lines: list[list[Point | None]] = [[] for _ in phis]
    intervals = [TimeInterval(above, moment if moment < newest else None) for above, moment in windows]
    for summary in summarise_windows(recent, selection, intervals, kind):
        n.append(summary.n)
        for line, phi in zip(lines, phis, strict=True):
            line.append((summary.answer(phi).value, *summary.bounds(phi)) if summary.n else None)
    times = [clock.show(moment) for _, moment in windows]
    return LiveTimeSeries(recent.version, clock.show(windows[0][0]), times, n, lines)


def list_windows(
    clock: TimeClock, newest: Any, within: Fraction, over: Fraction, points: int, max_span: Fraction
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


def summarise_windows(
    recent: RecentSnapshot, selection: RowSelection, intervals: Sequence[TimeInterval], kind: ValueType
) -> Iterator[Summary]:
    """Yield a summary of each window, the earliest first; all end at different moments."""
    whole = RowSelection(selection.key, None, TimeInterval(intervals[0].above, intervals[-1].upto), selection.filter)
    rows = recent.rows(whole, MAX_READ)
    if rows is not None:
        values, times = rows
        order = np.argsort(times, kind="stable")  # they are nearly sorted
        values, times = values[order], times[order]
        starts = np.searchsorted(times, [interval.above for interval in intervals], side="right")
        ends = [
            len(times) if interval.upto is None else np.searchsorted(times, interval.upto, side="right")
            for interval in intervals
        ]
        if np.sum(ends - starts) <= MAX_SORTED:
            for start, end in zip(starts, ends, strict=True):
                yield Summary.of_sorted(sorted_copy(values[start:end]), kind)
            return
    for interval in intervals:
        yield recent.summary(RowSelection(selection.key, None, interval, selection.filter), kind, False)
