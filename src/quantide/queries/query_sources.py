"""Query sources: a window, or a function that returns summaries. A whole stream is a MarkedSketch."""

from collections.abc import Callable
from typing import Any

from quantide.errors import InvalidArgumentError, TooCoarseError, TypeMismatchError
from quantide.kernels.error_profile import ROUNDING
from quantide.summary.summary import Summary
from quantide.summary.unproved_summary import refuse_unproved
from quantide.summary.value_types import ValueType, type_named
from quantide.windows.recent_window import RecentWindow
from quantide.windows.sliding_window import SlidingWindow

Pull = Callable[[], tuple[int, Summary]]
Grows = bool | Callable[[], bool]  # or a function that returns False once elements have left
Window = SlidingWindow | RecentWindow


class PulledSource:
    """The summary that `pull` returned at the last refresh(), for a monitor of precision eps.

    `pull()` returns (version, summary); the version differs whenever the elements may differ. Nothing changes between
    two refreshes, so one question reads one state. `grows`: no element ever leaves, so a value remains an element when
    no tuple has it.
    """

    reserve = 0  # any number of elements may arrive and leave at once

    def __init__(self, pull: Pull, eps: float, kind: ValueType | None, grows: Grows, tail: float | None = None) -> None:
        if not callable(pull):
            raise InvalidArgumentError(f"pull is called for (version, summary), so it must be a function, not {pull!r}")
        self.eps, self.type, self._grows, self.tail = eps, kind, grows, tail
        self.summary_count = 0  # versions pulled
        self._pull = pull
        self.version: int | None = None
        self._summary = Summary.of([])
        self.refresh()

    def refresh(self) -> None:
        """Pull the current version."""
        version, summary = self._pull()
        if version != self.version:
            self._check(summary)
            self.version, self._summary = version, summary
            self.type = summary.type if summary.n else self.type
            self.summary_count += 1

    @property
    def grows(self) -> bool:
        return self._grows() if callable(self._grows) else self._grows

    @property
    def kind(self) -> ValueType:
        return self.type or type_named("float64")

    @property
    def nulls(self) -> int:
        return self._summary.nulls

    @property
    def nans(self) -> int:
        return self._summary.nans

    @property
    def n(self) -> int:
        return self._summary.n

    @property
    def arrived(self) -> int:
        """A number that grows with every change."""
        return self.summary_count

    def summary(self) -> Summary:
        return self._summary

    def _check(self, summary: Summary) -> None:
        refuse_unproved(summary)
        if not isinstance(summary, Summary):
            raise TypeMismatchError(f"pull must return (version, summary), and this is no Summary: {summary!r}")
        if summary.error > self.eps / 2:
            raise TooCoarseError(
                f"a monitor of eps={self.eps:.3g} follows summaries within eps/2 = {self.eps / 2:.3g}; this one has a "
                f"certified error of {summary.error:.3g}: make it finer, or the monitor coarser"
            )
        if self.tail is not None and not (summary.tail is not None and summary.tail * ROUNDING <= self.tail / 2):
            found = "has none" if summary.tail is None else f"has one of {summary.tail:.3g}"
            raise TooCoarseError(
                f"a monitor of tail={self.tail:.3g} follows summaries with a certified tail within tail/2 = "
                f"{self.tail / 2:.3g}; this one {found}: make it with a smaller tail=, or the monitor with a larger one"
            )
        if summary.n and self.type not in (None, summary.type):
            raise TypeMismatchError(
                f"a summary of {summary.type} where summaries were of {self.type} before; cast its values, or make "
                "another monitor"
            )


class WindowSource:
    """A window, or the last elements or span of time of one, for a monitor of precision eps.

    `member`: values are elements of the window whenever they are read, so they are evaluated after every arrival.
    """

    grows = False  # elements leave
    tail = None  # of values that left nothing is known

    def __init__(self, window: Window, eps: float, last: int | None, within: Any, member: bool = False) -> None:
        if not isinstance(window, (SlidingWindow, RecentWindow)):
            raise TypeMismatchError(f"a monitor watches a SlidingWindow or a RecentWindow, not {window!r}")
        if window.eps > eps / 2:
            raise InvalidArgumentError(
                f"a monitor of eps={eps} needs a window of at most half of it, {eps / 2}; this one has {window.eps}"
            )
        if isinstance(window, SlidingWindow) and not (last is None and within is None):
            raise InvalidArgumentError("a SlidingWindow has one size; last= and within= are for a RecentWindow")
        self.window, self.eps, self.member = window, eps, member
        self.last, self.within = (
            (None, None) if isinstance(window, SlidingWindow) else window.limits.check(last, within)
        )
        self.summary_count = 0  # summaries made
        self._summary_arrived = -1
        self._summary: Summary | None = None

    @property
    def by_time(self) -> bool:
        """True if the window can shrink."""
        if isinstance(self.window, SlidingWindow) or self.last is not None:
            return self.within is not None
        return self.within is not None or self.window.limits.age is not None

    @property
    def type(self) -> ValueType | None:
        return self.window.type

    @property
    def kind(self) -> ValueType:
        return self.window.type or type_named("float64")

    @property
    def nulls(self) -> int:
        return self.window.nulls

    @property
    def nans(self) -> int:
        return self.window.nans

    @property
    def arrived(self) -> int:
        return self.window.arrived

    @property
    def n(self) -> int:
        """Number of elements in the window."""
        if self.arrived and self.by_time:
            return self.summary().n
        size = self.window.size if isinstance(self.window, SlidingWindow) else self.last or self.window.max_items
        return self.arrived if size is None else min(self.arrived, size)

    @property
    def reserve(self) -> int:
        """Arrivals for which values must stay right: no rank changes by more in as many."""
        return 0 if self.member or self.by_time else int(self.eps * self.n / 2)

    def update(self, values: Any, nan: str | None = None, times: Any = None, weights: Any = None) -> None:
        if isinstance(self.window, RecentWindow):
            self.window.update(values, times, nan, weights=weights)
        elif times is not None:
            raise InvalidArgumentError("a SlidingWindow has no times; give values alone")
        else:
            self.window.update(values, nan, weights)

    def update_summary(self, summary: Summary, first_time: Any = None, last_time: Any = None) -> None:
        self.window.update_summary(summary, first_time, last_time)

    def summary(self) -> Summary:
        """Summary of the window, cached until something arrives."""
        if self._summary is None or self._summary_arrived != self.arrived:
            if isinstance(self.window, RecentWindow):
                self._summary = self.window.summary(self.last, self.within)
            else:
                self._summary = self.window.summary()
            self._summary_arrived = self.arrived
            self.summary_count += 1
        return self._summary
