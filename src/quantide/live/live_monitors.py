"""Live monitors: continuous queries over everything or a window, evaluated at every commit."""

from contextlib import suppress
from threading import RLock
from typing import Any, Unpack

from quantide.errors import InvalidArgumentError, QuantideError, UnknownKeyError
from quantide.live.live_questions import LiveQuestions
from quantide.live.scope import QueryScope, ScopeArguments
from quantide.queries.monitor import Monitor
from quantide.queries.query_results import Changes
from quantide.queries.query_sources import Pull
from quantide.summary.ranks import check_eps
from quantide.summary.summary import Summary


class LiveMonitors(LiveQuestions):
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
        grows = not scope.recent and scope.last_steps is None and self.settings.retention is None
        finest = self.finest_eps(scope) if eps is None else eps
        return Monitor(finest, pull=pull, value_type=self.settings.value_type, grows=grows)

    def forget(self, key: Any = None, eps: float | None = None, **arguments: Unpack[ScopeArguments]) -> None:
        """Remove the monitor with these arguments. References to it stay usable; monitor() makes another."""
        name = (self._monitor_scope(key, arguments).cache_key, None if eps is None else check_eps(eps))
        with self._monitors_lock:
            self._monitors.pop(name, None)

    def finest_eps(self, scope: QueryScope) -> float:
        """Return the default of the finest precision of a monitor's queries."""
        return (1 if scope.recent else 2) * self.settings.eps

    def pull(self, scope: QueryScope) -> tuple[int, Summary]:
        """Return the version and a summary, as Monitor(pull=) needs them; a summary of no values for an unknown key."""
        version = self.version  # before the question: a later commit may have the first value of the key
        try:
            return self._query(scope, lambda view: (view.version, view.summary), expect=False)
        except UnknownKeyError:
            return version, Summary.of([])

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
            raise InvalidArgumentError(
                f"a monitor is found again by its arguments, and {scope} has one that is not hashable; write it as "
                "text, a number or a tuple"
            )
        return scope
