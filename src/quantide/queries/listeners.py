"""Listeners: functions that are called when the value of a query, or the state of a condition, has changed."""

import logging
from collections import deque
from collections.abc import Callable, Iterable
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quantide.errors import InvalidArgumentError

LOG = logging.getLogger("quantide")
REMEMBERED = 1000  # failures that are kept until they are asked for

Ints = NDArray[np.int64]
Listener = Callable[[int, Any], Any]


class Failure(NamedTuple):
    """A listener that raised: whose it is, and what it raised."""

    id: int
    error: Exception


class Audience:
    """Who listens to things of one kind, and what each has heard last; compared all at once.

    Those that come and go do so in `functions`; `settle` lets the arrays follow.
    """

    def __init__(self) -> None:
        self.functions: dict[int, Listener] = {}
        self.ids: Ints = np.empty(0, dtype=np.int64)
        self._heard: NDArray[Any] = np.empty(0)
        self._known: NDArray[np.bool_] = np.empty(0, dtype=bool)
        self._new: list[int] = []
        self._gone = False

    def add(self, ids: list[int], function: Listener) -> None:
        self._new += [one for one in ids if one not in self.functions]
        self.functions.update(dict.fromkeys(ids, function))

    def remove(self, ids: Iterable[int]) -> None:
        for one in ids:
            self._gone |= self.functions.pop(one, None) is not None

    def settle(self) -> None:
        if self._new:
            count, self._new, new = len(self._new), [], self._new
            self.ids = np.concatenate((self.ids, np.array(new, dtype=np.int64)))
            self._heard = np.concatenate((self._heard, np.zeros(count, dtype=self._heard.dtype)))
            self._known = np.concatenate((self._known, np.zeros(count, dtype=bool)))
        if self._gone:
            left = np.array([one in self.functions for one in self.ids.tolist()], dtype=bool)
            self.ids, self._heard, self._known, self._gone = self.ids[left], self._heard[left], self._known[left], False

    def news(self, values: NDArray[Any]) -> Ints:
        """The places among `ids` whose values were not heard yet; now they are."""
        if self._heard.dtype != values.dtype:  # before the type of the values was known: nothing was heard
            self._heard = np.zeros(len(values), dtype=values.dtype)
        fresh = np.flatnonzero(~self._known | (self._heard != values))
        self._heard[fresh], self._known[fresh] = values[fresh], True
        return fresh


class Listeners:
    """Those of queries and those of conditions. What one raises harms neither the others nor the caller."""

    def __init__(self) -> None:
        self.queries, self.conditions = Audience(), Audience()
        self.failed = 0
        self._failures: deque[Failure] = deque(maxlen=REMEMBERED)
        self._news: deque[tuple[Audience, int, Any]] = deque()  # to be told
        self._telling = Lock()

    def __len__(self) -> int:
        return len(self.queries.functions) + len(self.conditions.functions)

    def note(self, audience: Audience, ids: list[int], values: Iterable[Any]) -> None:
        """Keep what is to be told: to the function of each id, its value."""
        self._news.extend((audience, one, value) for one, value in zip(ids, values, strict=True))

    def tell(self) -> None:
        """Call functions with all that was noted, one after the other; if someone is at it already, they do.

        No lock is held that anyone waits for. Who noted something and finds the place taken can leave: whoever gives
        it up looks again afterwards.
        """
        while self._news and self._telling.acquire(blocking=False):
            try:
                while self._news:
                    self._call(*self._news.popleft())
            finally:
                self._telling.release()

    def _call(self, audience: Audience, one: int, value: Any) -> None:
        function = audience.functions.get(one)
        if function is None:
            return
        try:
            function(one, value)
        except Exception as error:
            self.failed += 1
            self._failures.append(Failure(one, error))
            LOG.exception("on_change of query %d raised; the others were called", one)

    def failures(self) -> list[Failure]:
        """What was raised since this was asked; more may come meanwhile."""
        return [self._failures.popleft() for _ in range(len(self._failures))]


def check_listener(function: Any) -> None:
    if function is not None and not callable(function):
        raise InvalidArgumentError(f"on_change is called with (id, value), so it must be a function, not {function!r}")
