"""Live queries and live monitors: the queries and the continuous queries that a live stream answers.

All take the same scope arguments. Continuous queries are evaluated at every commit.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from threading import RLock
from typing import Any, TypeVar, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quantide.errors import InvalidArgumentError, QuantideError, UnknownKeyError
from quantide.live.live_view import LiveAnswer, LiveBand, LiveComparison, LiveRank, View
from quantide.live.scope import QueryScope, ScopeArguments
from quantide.queries.monitor import Monitor
from quantide.queries.query_results import Changes
from quantide.queries.query_sources import Grows, Pull
from quantide.store.store_settings import StoreSettings
from quantide.summary.comparison import BINS, FLOOR, PHIS, Comparison, has_summary, summary_of
from quantide.summary.interval_masses import masses_between
from quantide.summary.ranks import check_eps, check_phis
from quantide.summary.summary import Summary
from quantide.summary.value_types import type_named
from quantide.typing import Floats

T = TypeVar("T")


class LiveQueries(ABC):
    """`arguments` are last, within, filter, last_steps and now; LiveStream describes them."""

    @property
    @abstractmethod
    def settings(self) -> StoreSettings:
        """Settings of the store: eps, keys, filters, the type of its values, the longest window."""

    @property
    @abstractmethod
    def version(self) -> int:
        """Version that queries are answered from."""

    @property
    @abstractmethod
    def deletes(self) -> int:
        """Number of deletions up to that version."""

    @abstractmethod
    def _view(self, scope: QueryScope) -> View:
        """Return the view of a scope at the newest version."""

    @abstractmethod
    def _query(self, scope: QueryScope, read: Callable[[View], T], expect: bool = True) -> T:
        """Return what `read` computes from that view; `expect` the same query after the next commit."""

    def answer(
        self, phi: float, key: Any = None, *, mode: str | None = None, **arguments: Unpack[ScopeArguments]
    ) -> LiveAnswer:
        """Return the phi-quantile of everything or of a window, with proved bounds of its rank.

        mode="quick" reads no data; "accurate" is off by at most eps of the open step's values, or of the window's;
        "exact" is exact, and reads as much as that needs. The default is accurate, or quick where that would read much:
        for all keys of a store with keys. The answer has the mode.
        """
        scope = QueryScope.of({"key": key, **arguments})
        return self._query(scope, lambda view: view.answer(phi, self._resolve_mode(scope, mode)))

    def answers(
        self, phis: ArrayLike, key: Any = None, *, mode: str | None = None, **arguments: Unpack[ScopeArguments]
    ) -> list[LiveAnswer]:
        """Return the answers for many phis, all at one version."""
        checked_phis, scope = check_phis(phis).ravel().tolist(), QueryScope.of({"key": key, **arguments})
        resolved_mode = self._resolve_mode(scope, mode)
        return self._query(scope, lambda view: view.answers(checked_phis, resolved_mode))

    def is_scanned(self, mode: str, key: Any = None, **arguments: Unpack[ScopeArguments]) -> bool:
        """Return True if an answer scans the files of history: over all keys of a store with many keys."""
        return self._query(QueryScope.of({"key": key, **arguments}), lambda view: view.is_scanned(mode))

    def quantile(
        self, phi: float, key: Any = None, *, mode: str | None = None, **arguments: Unpack[ScopeArguments]
    ) -> Any:
        """Return the value of answer()."""
        return self.answer(phi, key, mode=mode, **arguments).value

    def quantiles(
        self, phis: ArrayLike, key: Any = None, *, mode: str | None = None, **arguments: Unpack[ScopeArguments]
    ) -> NDArray[Any]:
        """Return the values of answers()."""
        values = [answer.value for answer in self.answers(phis, key, mode=mode, **arguments)]
        return np.array(values, dtype=type_named(self.settings.value_type).dtype).reshape(np.shape(phis))

    def bands(
        self, phis: ArrayLike, mode: str | None = None, key: Any = None, **arguments: Unpack[ScopeArguments]
    ) -> list[LiveBand]:
        """Return answers, each with the two values between which the true quantile is proved to lie."""
        checked_phis, scope = check_phis(phis).ravel().tolist(), QueryScope.of({"key": key, **arguments})
        resolved_mode = self._resolve_mode(scope, mode)
        return self._query(scope, lambda view: [view.band(phi, resolved_mode) for phi in checked_phis])

    def rank(
        self,
        value: Any,
        key: Any = None,
        *,
        mode: str | None = None,
        inclusive: bool = True,
        **arguments: Unpack[ScopeArguments],
    ) -> tuple[Any, Any]:
        """Return proved bounds (lo, hi) on how many values are <= value; arrays for an array of values.

        With inclusive=False, on how many are < value.
        """
        scope = QueryScope.of({"key": key, **arguments})
        return self._query(scope, lambda view: view.rank(value, self._resolve_mode(scope, mode), inclusive))

    def ranks(
        self,
        values: Any,
        mode: str | None = None,
        key: Any = None,
        inclusive: bool = True,
        **arguments: Unpack[ScopeArguments],
    ) -> list[LiveRank]:
        """Return the ranks of many values, with version and window; all at one version."""
        scope = QueryScope.of({"key": key, **arguments})
        resolved_mode = self._resolve_mode(scope, mode)

        def read(view: View) -> list[LiveRank]:
            low, high = view.rank(values, resolved_mode, inclusive)
            context = view.n, view.version, resolved_mode, view.last_steps, view.since, view.until
            bounds = zip(values, low.tolist(), high.tolist(), strict=True)
            return [LiveRank(value, low_rank, high_rank, *context) for value, low_rank, high_rank in bounds]

        return self._query(scope, read)

    def cdf(
        self,
        values: Any,
        key: Any = None,
        *,
        mode: str | None = None,
        inclusive: bool = True,
        **arguments: Unpack[ScopeArguments],
    ) -> Any:
        """Return the fraction of the values that are <= each value; < with inclusive=False."""
        scope = QueryScope.of({"key": key, **arguments})

        def read(view: View) -> Any:
            low, high = view.rank(values, self._resolve_mode(scope, mode), inclusive)
            return (low + high) / 2 / view.n

        return self._query(scope, read)

    def pmf(
        self,
        splits: Any,
        key: Any = None,
        *,
        mode: str | None = None,
        inclusive: bool = True,
        **arguments: Unpack[ScopeArguments],
    ) -> Floats:
        """Return the fraction of the values in each interval between splits; see Summary.pmf."""
        return masses_between(splits, lambda values: self.cdf(values, key, mode=mode, inclusive=inclusive, **arguments))

    @property
    def min(self) -> Any:
        """Smallest value of everything; quantile(0, ...) has that of a key or a window."""
        return self.quantile(0, mode="quick")

    @property
    def max(self) -> Any:
        """Largest value of everything; quantile(1, ...) has that of a key or a window."""
        return self.quantile(1, mode="quick")

    def summary(self, key: Any = None, **arguments: Unpack[ScopeArguments]) -> Summary:
        """Return a summary of everything or of a window."""
        return self._query(QueryScope.of({"key": key, **arguments}), lambda view: view.summary)

    def compare(
        self,
        other: Any = None,
        against: dict[str, Any] | None = None,
        mode: str | None = None,
        key: Any = None,
        *,
        phis: ArrayLike = PHIS,
        bins: Any = BINS,
        floor: float = FLOOR,
        **arguments: Unpack[ScopeArguments],
    ) -> Any:
        """Compare a window with anything that has a summary: KS, PSI and Wasserstein distance, and the shifts of phis.

        `live.compare(live.summary(last_steps=30), within="1 hour")` compares the last hour with a month. With phis in
        place of `other`, compare each phi of one window with the same phi of another: `compare([0.99], within="5 min")`
        compares now with all of history, `against={"last_steps": 30}` with a part of it.
        """
        if has_summary(other):
            return Comparison(self.summary(key, **arguments), summary_of(other), phis, bins, floor)
        if isinstance(other, dict):
            raise InvalidArgumentError(
                "a window as a dict is for against=; compare with its summary, such as live.summary(last_steps=7)"
            )
        return self._compare_quantiles(phis if other is None else other, against, mode, key, arguments)

    def _compare_quantiles(
        self, phis: ArrayLike, against: dict[str, Any] | None, mode: str | None, key: Any, arguments: ScopeArguments
    ) -> list[LiveComparison]:
        scope, other = QueryScope.of({"key": key, **arguments}), QueryScope.of({} if against is None else against)
        own_mode, other_mode = self._resolve_mode(scope, mode), self._resolve_mode(other, mode)
        checked_phis = np.atleast_1d(check_phis(phis)).tolist()

        def read(view: View) -> list[LiveComparison]:
            baseline, out = self._view(other), []
            for phi in checked_phis:
                own, theirs = view.answer(phi, own_mode), baseline.answer(phi, other_mode)
                low, high = baseline.rank(own.value, other_mode)
                out.append(LiveComparison(phi, own, theirs, (low / baseline.n, high / baseline.n)))
            return out

        return self._query(scope, read)

    def _resolve_mode(self, scope: QueryScope, mode: str | None) -> str:
        if mode is not None:
            return mode
        all_keys = self.settings.keys and scope.key is None and not scope.recent
        return "quick" if all_keys else "accurate"


class LiveMonitors(LiveQueries):
    """Monitors by the scope and the eps that they were made with."""

    def __init__(self) -> None:
        self._monitors_lock = RLock()
        self._monitors: dict[Any, tuple[QueryScope, Monitor]] = {}

    def monitor(self, key: Any = None, eps: float | None = None, **arguments: Unpack[ScopeArguments]) -> Monitor:
        """Return a monitor for continuous queries and conditions over everything or a window (arguments of answer()).

        `eps` is the finest precision of its queries. Default: the store's for windows, and twice that for everything
        and for steps. The same arguments and eps give the same monitor. poll() calls its on_change functions.
        """
        scope = self._monitor_scope(key, arguments)
        name = (scope.cache_key, None if eps is None else check_eps(eps))
        with self._monitors_lock:
            if name not in self._monitors:
                self._monitors[name] = (scope, self.new_monitor(scope, lambda: self.pull(scope), eps))
            return self._monitors[name][1]

    def new_monitor(self, scope: QueryScope, pull: Pull, eps: float | None = None) -> Monitor:
        """Return a monitor over a scope that evaluates the summaries of `pull`, and that monitor() does not share."""
        grows: Grows = False
        if not scope.recent and scope.last_steps is None and self.settings.retention is None:
            deletes = self.deletes
            grows = lambda: self.deletes == deletes  # noqa: E731
        finest = self.finest_eps(scope) if eps is None else eps
        kind, tail = self.settings.value_type, self.finest_tail(scope)
        return Monitor(finest, pull=pull, value_type=kind, grows=grows, tail=tail)

    def forget(self, key: Any = None, eps: float | None = None, **arguments: Unpack[ScopeArguments]) -> None:
        """Remove the monitor with these arguments. References to it stay usable; monitor() makes another."""
        name = (self._monitor_scope(key, arguments).cache_key, None if eps is None else check_eps(eps))
        with self._monitors_lock:
            self._monitors.pop(name, None)

    def finest_eps(self, scope: QueryScope) -> float:
        """Return the default of the finest precision of a monitor's queries."""
        return (1 if scope.recent else 2) * self.settings.eps

    def finest_tail(self, scope: QueryScope) -> float | None:
        """Return the tail that a monitor over this scope can have; None if there is none."""
        tail = self.settings.tail
        finest = None if tail is None else (1 if scope.recent else 2) * tail
        return None if finest is None or finest >= 1 else finest

    def pull(self, scope: QueryScope) -> tuple[int, Summary]:
        """Return the version and a summary, as Monitor(pull=) needs them; a summary of no values for an unknown key."""
        version = self.version  # before the query: a later commit may have the first value of the key
        try:
            return self._query(scope, lambda view: (view.version, view.summary), expect=False)
        except UnknownKeyError:
            return version, Summary.of([])

    def pull_values(self, scope: QueryScope) -> tuple[int, Summary]:
        """Return the version and a summary; if it has no values, raise an error that names what is missing."""
        version, summary = self.pull(scope)
        if not summary.n:
            self.answer(1.0, **vars(scope))
        return version, summary

    def changes(self) -> list[tuple[QueryScope, Changes]]:
        """Return the changes of each monitor since the last call, with its scope."""
        published = []
        with self._monitors_lock:
            for scope, monitor in list(self._monitors.values()):  # on_change functions may add some
                with suppress(QuantideError):  # reading the monitor raises it
                    published.append((scope, monitor.changes()))
        return [(scope, changes) for scope, changes in published if len(changes) or changes.conditions]

    def _refresh_monitors(self) -> None:
        with self._monitors_lock:
            monitors = [monitor for _, monitor in self._monitors.values()]
        for monitor in monitors:  # without the lock: on_change functions may wait for threads that need it
            with suppress(QuantideError):  # such as a window that is no longer there: reading the monitor raises it
                monitor.refresh()

    def _monitor_scope(self, key: Any, arguments: ScopeArguments) -> QueryScope:
        """Return a hashable scope."""
        if isinstance(key, dict) and set(key) == set(self.settings.keys):
            key = tuple(key[name] for name in self.settings.keys)
        scope = QueryScope.of({"key": tuple(key) if isinstance(key, list) else key, **arguments})
        if scope.cache_key is None:
            given = ", ".join(
                f"{name}={value!r}" for name, value in {"key": key, **arguments}.items() if value is not None
            )
            raise InvalidArgumentError(
                f"arguments of a monitor must be hashable, such as texts and tuples, unlike {given}"
            )
        return scope
