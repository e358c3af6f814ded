"""A monitor that threads share: the one that polls tells listeners what is new while others register and ask."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

from quantide.queries.monitor import Monitor
from quantide.queries.results import Changes

P = ParamSpec("P")
R = TypeVar("R")


def _alone(method: Callable[P, R]) -> Callable[P, R]:
    """A method of a monitor that nobody else uses meanwhile."""

    @wraps(method)
    def call(*given: P.args, **named: P.kwargs) -> R:
        with cast(LiveMonitor, given[0])._lock:
            return method(*given, **named)

    return call


class LiveMonitor(Monitor):
    """All that it does is done holding the lock of the monitors of its stream."""

    def __init__(self, lock: AbstractContextManager[Any], eps: float, **choices: Any) -> None:
        self._lock = lock
        super().__init__(eps, **choices)

    @property
    def n(self) -> int:
        with self._lock:
            return super().n

    def changes(self) -> Changes:
        """As of a Monitor; which queries those are is looked up at once."""
        with self._lock:
            found = super().changes()
            found.ids  # noqa: B018 (looked up, and kept)
            return found

    register = _alone(Monitor.register)
    register_many = _alone(Monitor.register_many)
    watch = _alone(Monitor.watch)
    condition = _alone(Monitor.condition)
    query = _alone(Monitor.query)
    listen = _alone(Monitor.listen)
    drop = _alone(Monitor.drop)
    drop_many = _alone(Monitor.drop_many)
    refresh = _alone(Monitor.refresh)
    answer = _alone(Monitor.answer)
    answers = _alone(Monitor.answers)
    summary = _alone(Monitor.summary)
    failures = _alone(Monitor.failures)
    stats = _alone(Monitor.stats)
    to_bytes = _alone(Monitor.to_bytes)
