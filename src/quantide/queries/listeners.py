"""Listeners: functions that are called when the value of a query, or the state of a condition, has changed."""

import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from quantide.errors import InvalidArgumentError

LOG = logging.getLogger("quantide")
REMEMBERED = 1000  # failures that are kept until they are asked for

Listener = Callable[[int, Any], Any]


class Failure(NamedTuple):
    """A listener that raised: whose it is, and what it raised."""

    id: int
    error: Exception


class Listeners:
    """One function for each id that has one. What a function raises harms neither the others nor the caller."""

    def __init__(self) -> None:
        self.functions: dict[int, Listener] = {}
        self.heard: dict[int, Any] = {}
        self.failures: deque[Failure] = deque(maxlen=REMEMBERED)
        self.failed = 0

    def add(self, ids: Iterable[int], function: Listener) -> None:
        self.functions.update(dict.fromkeys(ids, function))

    def remove(self, ids: Iterable[int]) -> None:
        for one in ids if self.functions else ():
            self.functions.pop(one, None)
            self.heard.pop(one, None)

    def tell(self, news: Iterable[tuple[int, Any]]) -> None:
        """Call the function of each id that has not heard this before. Functions may register, drop and ask."""
        for one, value in news:
            function = self.functions.get(one)
            if function is None or (one in self.heard and self.heard[one] == value):
                continue
            self.heard[one] = value
            try:
                function(one, value)
            except Exception as error:
                self.failed += 1
                self.failures.append(Failure(one, error))
                LOG.exception("on_change of query %d raised; the others were called", one)


def check_listener(function: Any) -> None:
    if function is not None and not callable(function):
        raise InvalidArgumentError(f"on_change is called with (id, value), so it must be a function, not {function!r}")
