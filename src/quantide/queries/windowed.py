"""What a monitor watches: a window, or the recent part of one."""

from typing import Any

from quantide.errors import InvalidArgumentError, TypeMismatchError
from quantide.summary.summary import Summary
from quantide.summary.types import ValueType, type_named
from quantide.windows.recent import RecentWindow
from quantide.windows.sliding import SlidingWindow

Window = SlidingWindow | RecentWindow


class WindowSource:
    """The last so many, or the last span of time, of a window, as a monitor of precision eps reads it."""

    grows = False  # elements leave

    def __init__(self, window: Window, eps: float, last: int | None, within: Any) -> None:
        if not isinstance(window, (SlidingWindow, RecentWindow)):
            raise TypeMismatchError(f"a monitor watches a SlidingWindow or a RecentWindow, not {window!r}")
        if window.eps > eps / 2:
            raise InvalidArgumentError(
                f"a monitor of eps={eps} needs a window of at most half of it, {eps / 2}; this one has {window.eps}"
            )
        if isinstance(window, SlidingWindow) and not (last is None and within is None):
            raise InvalidArgumentError("a SlidingWindow has one size; last= and within= are for a RecentWindow")
        self.window, self.eps = window, eps
        self.last, self.within = (None, None) if isinstance(window, SlidingWindow) else window.reach.read(last, within)
        self.marked = 0  # how often it was summarised
        self._known = -1
        self._summary: Summary | None = None

    @property
    def by_time(self) -> bool:
        """Whether the window can shrink."""
        if isinstance(self.window, SlidingWindow) or self.last is not None:
            return self.within is not None
        return self.within is not None or self.window.reach.age is not None

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
        """How many elements the window has now."""
        if self.arrived and self.by_time:
            return self.summary().n
        most = self.window.size if isinstance(self.window, SlidingWindow) else self.last or self.window.max_items
        return self.arrived if most is None else min(self.arrived, most)

    @property
    def reserve(self) -> int:
        """For how many arrivals values must stay right: no rank changes by more in as many."""
        return 0 if self.by_time else int(self.eps * self.n / 2)

    def update(self, values: Any, nan: str | None = None, times: Any = None) -> None:
        if isinstance(self.window, RecentWindow):
            self.window.update(values, times, nan)
        elif times is not None:
            raise InvalidArgumentError("a SlidingWindow has no times; give values alone")
        else:
            self.window.update(values, nan)

    def update_summary(self, summary: Summary, first_time: Any = None, last_time: Any = None) -> None:
        self.window.update_summary(summary, first_time, last_time)

    def summary(self) -> Summary:
        """Of all that the window may hold."""
        if self._summary is None or self._known != self.arrived:
            if isinstance(self.window, RecentWindow):
                self._summary = self.window.summary(self.last, self.within)
            else:
                self._summary = self.window.summary()
            self._known = self.arrived
            self.marked += 1
        return self._summary
