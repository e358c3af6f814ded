"""Standing queries over a window: everything is looked at again after a set number of arrivals.

In a window of N elements, an arrival and the element that leaves for it change a rank by at most one. So values that
were accepted with a reserve of B ranks on either side,

    low * N + 1 + B <= rmin        and        rmax + B <= high * N,

stay right for B arrivals, wherever they fall. The paper's pass after every floor(eps*N/2) arrivals leaves no reserve
and may be off by half of eps more. With a window of eps/2 there is always such a value, a rank aside: the answer to the
middle of a cluster's interval, (a + b)/2, has ranks within eps/2 * N of it, and B = floor(eps*N/2) is left on either
side.

A window by time may also shrink, by any number at once, so it is looked at again whenever anything has arrived.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantide.errors import InvalidArgumentError, TypeMismatchError
from quantide.kernels.life import FINE
from quantide.kernels.together import together
from quantide.queries.board import Board
from quantide.queries.source import Tuples
from quantide.summary.ranks import check_size
from quantide.summary.summary import Summary
from quantide.summary.types import ValueType, type_named
from quantide.windows.clock import read_span
from quantide.windows.recent import RecentWindow
from quantide.windows.sliding import SlidingWindow

Window = SlidingWindow | RecentWindow


class WindowSource:
    """The last so many, or the last span of time, of a window, as a monitor of precision eps reads it."""

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
        self.last = None if last is None else check_size("last", last, 1)
        self.within = None if within is None else read_span(within)
        self.marked = 0  # how often it was summarised
        self._known = -1
        self._summary: Summary | None = None

    @property
    def by_time(self) -> bool:
        """Whether the window can shrink."""
        everything = self.last is None and self.within is None
        return self.within is not None or (everything and getattr(self.window, "max_age", None) is not None)

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

    def tuples(self, reserve: int = 0) -> Tuples:
        """The tuples of the summary, with so many ranks in reserve on either side."""
        s = self.summary()
        return Tuples(s.carried, s.rmin - reserve, s.rmax + reserve, True)


class WindowBoard(Board):
    """All queries over a window. `looked_at`: how many had arrived when clusters were looked at; `reserve`: after so
    many more they are looked at again."""

    stream: WindowSource  # type: ignore[assignment]

    def __init__(self, stream: WindowSource, clustering: str, updates: str, recluster_after: int | None) -> None:
        super().__init__(stream, clustering, updates, recluster_after)  # type: ignore[arg-type]
        self.looked_at = -1
        self.reserve = 0

    def refresh(self) -> None:
        if not len(self.queries) or not self.stream.n:
            return
        if self.stale if self.clusters is not None else self._is_fine():
            self._cluster()
        if self.clusters is not None and self._is_due() and not self._pass():
            self._dissolve()

    def current(self, places: Any) -> Any:
        if self.clusters is None:
            return super().current(places)
        cluster = self.clusters.roots()[self.queries.slot[places]]
        ranks = self.clusters.ranks[cluster]
        return self.clusters.value[cluster], np.maximum(ranks[:, 0], 1), np.minimum(ranks[:, 1], self.stream.n)

    def condition_tuples(self, first_due: int) -> Tuples | None:
        """What conditions are decided by: anew whenever something has arrived, for a window forgets."""
        return self.stream.tuples()

    def _is_fine(self) -> bool:
        """Whether the window's summary leaves a reserve in real ranks."""
        summary, n = self.stream.summary(), self.stream.n
        ends = max(int(summary.rmax[0]) - 1, n - int(summary.rmin[-1]))
        return summary.gap <= self.eps * n - 2 and ends <= self.eps * n / 2 - 1

    def _is_due(self) -> bool:
        c = self.clusters
        assert c is not None
        since = self.stream.arrived - self.looked_at
        new = len(c) > 0 and int(c.due[c.heap[1]]) < 0
        return new or self.looked_at < 0 or since > (0 if self.stream.by_time else self.reserve)

    def _let_go(self, kept: NDArray[Any]) -> None:
        """Clusters whose value may have left the window do not hold on to it."""
        c = self.clusters
        assert c is not None
        mine = c.value[c.ordered]
        at = np.minimum(np.searchsorted(kept, mine), len(kept) - 1)
        c.ranks[c.ordered[kept[at] != mine], 2] = 0

    def _pass(self) -> bool:
        """Look at all clusters; whether each has a value with a reserve."""
        c, n = self.clusters, self.stream.n
        assert c is not None
        reserve = 0 if self.stream.by_time else int(self.eps * n / 2)
        t = self.stream.tuples(reserve)
        state = (c.span, c.value, c.ranks, t.values, t.rmin, t.rmax, n, self.eps, False)
        self._let_go(t.values)
        status, done, _ = together(c.ordered, c.due, *state, True)
        self.counts["evaluations"] += done
        self.counts["triggers"] += self.looked_at >= 0
        c.due[c.ordered] = self.stream.arrived + reserve
        self.looked_at, self.reserve = self.stream.arrived, reserve
        return bool(status == FINE)
