"""The course of a window: its quantiles at moments of the past, for a chart.

Each moment's window is what `within=T, now=moment` means, with the bands of docs/guarantees/live.md. Rows are read once
for all moments. In the order of their times a window is a slice of them; while all slices together are not too long
each is sorted, and then every line is exact. Where they are, each window is put together like any other.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from quantide.errors import InvalidArgumentError
from quantide.live.lane import Between
from quantide.live.recent import Recent, Wanted
from quantide.summary.summary import Summary
from quantide.summary.types import ValueType
from quantide.windows.clock import NANOSECONDS, Clock

FIRST = -(2**63)  # no time of any clock is before this many nanoseconds, or seconds
READ = 1 << 21  # rows that are read for one course
SORTED = 1 << 24  # rows that are sorted for one course: as many as that are sorted in a quarter of a second

Point = tuple[Any, Any, Any]  # a value, and the band around it


@dataclass(frozen=True, slots=True)
class LiveCourse:
    """Quantiles of a window as it was at `times`, as of the commit `version`.

    `n` has the number of values in each window, and lines[i][j] is (value, low, high) of the i-th phi at the j-th
    moment, None where the window was empty. The first window begins after `since`.
    """

    version: int
    since: Any
    times: list[Any]
    n: list[int]
    lines: list[list[Point | None]]


def course_of(
    recent: Recent, wanted: Wanted, phis: Sequence[float], ends: Sequence[tuple[Any, Any]], kind: ValueType
) -> LiveCourse:
    """The quantiles of windows, each above a time and up to a moment, the earliest first."""
    clock, newest, n = recent.clock, recent.manifest.newest, []
    assert clock is not None
    lines: list[list[Point | None]] = [[] for _ in phis]
    spans = [Between(above, moment if moment < newest else None) for above, moment in ends]
    for summary in summaries(recent, wanted, spans, kind):
        n.append(summary.n)
        for line, phi in zip(lines, phis, strict=True):
            line.append((summary.answer(phi).value, *summary.bounds(phi)) if summary.n else None)
    return LiveCourse(recent.version, clock.show(ends[0][0]), [clock.show(moment) for _, moment in ends], n, lines)


def window_ends(
    clock: Clock, newest: Any, within: Fraction, over: Fraction, points: int, reach: Fraction
) -> list[tuple[Any, Any]]:
    """Where the windows of a course begin and end; those that begin before what is kept are left out."""
    first = clock.back(newest, reach)
    found = [(clock.back(moment, within), moment) for moment in moments(clock, newest, over, points)]
    return [(above, moment) for above, moment in found if above >= first]


def moments(clock: Clock, newest: Any, over: Fraction, points: int) -> list[Any]:
    """At most so many moments up to the newest time, the oldest first, a `points`-th of a length of time apart.

    All but the last are multiples of that, so that whoever asks again asks about the same ones.
    """
    each = over / points
    if each * NANOSECONDS < 1:
        raise InvalidArgumentError(
            f"{points} moments in so short a time are less than a nanosecond apart; ask for fewer"
        )
    if clock.kind == "seconds":
        last = float(newest) // float(each)
        found = {(last - i) * float(each) for i in range(points)}  # far from zero they may be rounded beyond the newest
    else:
        step = int(each * NANOSECONDS)
        last = int(newest) // step
        found = {(last - i) * step for i in range(points)}
    earlier = sorted(one for one in found if FIRST < one < newest)
    return [*earlier[-(points - 1) :], newest]


def summaries(recent: Recent, wanted: Wanted, spans: Sequence[Between], kind: ValueType) -> Iterator[Summary]:
    """A summary of each of these windows, the earliest first, which all end at other moments."""
    whole = Wanted(wanted.key, None, Between(spans[0].above, spans[-1].upto), wanted.filter)
    rows = recent.rows(whole, READ)
    if rows is not None:
        values, times = rows
        order = np.argsort(times, kind="stable")  # they nearly are in order
        values, times = values[order], times[order]
        first = np.searchsorted(times, [span.above for span in spans], side="right")
        ends = [len(times) if span.upto is None else np.searchsorted(times, span.upto, side="right") for span in spans]
        if np.sum(ends - first) <= SORTED:
            for start, end in zip(first, ends, strict=True):
                yield Summary.of_sorted(np.sort(values[start:end]), kind)
            return
    for span in spans:
        yield recent.summary(Wanted(wanted.key, None, span, wanted.filter), kind, False)
