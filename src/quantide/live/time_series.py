"""Time series of a window: its quantiles at moments of the past, for a chart.

Each moment's window is that of `within=T, now=moment`, with the bands of docs/guarantees/live.md. Windows are answered
together and exactly (time_panes.py). If that would take too long, and for a few moments, each window is summarised on
its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from quantide.errors import InvalidArgumentError
from quantide.live.pane_rows import read_pane_rows
from quantide.live.recent_snapshot import RecentSnapshot, RowSelection, TimeInterval
from quantide.live.time_panes import PaneQuantiles, TimePanes
from quantide.summary.ranks import target_ranks
from quantide.summary.summary import Summary
from quantide.summary.value_types import ValueType
from quantide.windows.time_clock import NANOSECONDS, TimeClock

EARLIEST = -(2**63)  # no time of any clock is before this many nanoseconds, or seconds
MAX_POINTS = 1_000_000  # of one time series
MAX_TIME_MS = np.iinfo(np.int64).max // NANOSECONDS * 1000  # nanoseconds since 1970 are int64
FEW_WINDOWS = 4  # so many are faster to summarise than their rows are to read and sort
MAX_SCANNED = 1 << 28  # rows scanned for one time series: about a second

Point = tuple[Any, Any, Any]  # a value, and the band around it
WindowLines = tuple[list[int], list[list["Point | None"]]]  # the number of values of each window; a line for each phi


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

    `check_time` is called from time to time, and may raise.
    """
    clock, newest = recent.clock, recent.manifest.newest
    assert clock is not None
    intervals = [TimeInterval(above, moment if moment < newest else None) for above, moment in windows]
    n, lines = list[int](), [list[Point | None]() for _ in phis]
    if intervals:
        arguments = recent, selection, phis, intervals, kind, check_time
        exact = compute_exactly(*arguments) if not phis or len(intervals) > FEW_WINDOWS else None
        n, lines = summarise_windows(*arguments) if exact is None else exact
    since = clock.show(windows[0][0]) if windows else None
    return LiveTimeSeries(recent.version, since, [clock.show(moment) for _, moment in windows], n, lines)


ListWindows = Callable[[TimeClock, Any, Fraction], list[tuple[Any, Any]]]
"""From the clock, the newest time and the longest span to start and end of each window."""


def check_points(points: int) -> None:
    if points > MAX_POINTS:
        raise InvalidArgumentError(f"a time series has at most {MAX_POINTS:,} points; ask for fewer than {points:,}")


def read_times_ms(times_ms: Any) -> list[int]:
    """Return moments in milliseconds since 1970; raise unless they are whole numbers that ascend."""
    try:
        moments = list(times_ms)
    except TypeError as error:
        raise InvalidArgumentError(f"give a list of moments in milliseconds since 1970, not {times_ms!r}") from error
    for moment in moments:
        if isinstance(moment, bool) or not isinstance(moment, (int, np.integer)):
            raise InvalidArgumentError(
                f"a moment of a time series is a whole number of milliseconds since 1970, not {moment!r}"
            )
    check_points(len(moments))
    whole = [int(moment) for moment in moments]
    if any(later <= earlier for earlier, later in pairwise(whole)):
        raise InvalidArgumentError("the moments of a time series must ascend; sort them, and leave out repeated ones")
    for moment in (*whole[:1], *whole[-1:]):
        if abs(moment) > MAX_TIME_MS:
            raise InvalidArgumentError(f"{moment} ms is outside the years 1678 to 2261; use milliseconds since 1970")
    return whole


def windows_at(
    clock: TimeClock, newest: Any, max_span: Fraction, within: Fraction, times_ms: Sequence[int]
) -> list[tuple[Any, Any]]:
    """Return start and end of the windows that end at given times, without those that begin before the recent rows."""
    first = clock.back(newest, max_span)
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

    All but the last are multiples of that, so that a repeated query is about the same moments.
    """
    check_points(points)
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


def compute_exactly(
    recent: RecentSnapshot,
    selection: RowSelection,
    phis: Sequence[float],
    intervals: Sequence[TimeInterval],
    kind: ValueType,
    check_time: Callable[[], None] | None = None,
) -> WindowLines | None:
    """Return the counts of windows and their exact quantiles; None if those would take too long."""
    assert recent.clock is not None
    panes = TimePanes.of(intervals, np.dtype(np.float64 if recent.clock.kind == "seconds" else np.int64))
    whole = TimeInterval(intervals[0].above, intervals[-1].upto)
    parts = read_pane_rows(recent, RowSelection(selection.key, None, whole, selection.filter), panes.edges)
    if not phis:
        return panes.window_sums(panes.count(parts, check_time)).tolist(), []
    quantiles = PaneQuantiles(panes, parts, kind.carrier, check_time)
    if quantiles.scanned_rows(len(phis)) > MAX_SCANNED:
        return None
    fractions, counts = np.array(phis), quantiles.sizes
    chosen = quantiles.select(fractions, target_ranks(fractions[:, None], counts) - 1, check_time)
    if chosen is None:
        return None
    lines: list[list[Point | None]] = [
        [(value, value, value) if count else None for value, count in zip(kind.restore(row), counts, strict=True)]
        for row in chosen
    ]
    return counts.tolist(), lines


def summarise_windows(
    recent: RecentSnapshot,
    selection: RowSelection,
    phis: Sequence[float],
    intervals: Sequence[TimeInterval],
    kind: ValueType,
    check_time: Callable[[], None] | None = None,
) -> WindowLines:
    """Return the counts of windows and their quantiles with bands, from a summary of each window."""
    summaries = list[Summary]()
    for interval in intervals:
        if check_time is not None:
            check_time()
        summaries.append(recent.summary(RowSelection(selection.key, None, interval, selection.filter), kind, False))
    return [summary.n for summary in summaries], [_summary_line(summaries, phi) for phi in phis]


def _summary_line(summaries: Sequence[Summary], phi: float) -> list[Point | None]:
    return [(summary.answer(phi).value, *summary.bounds(phi)) if summary.n else None for summary in summaries]
