"""Listeners: on_change functions, called when the value of a query or the state of a condition changes."""

import logging
from collections import deque
from collections.abc import Callable, Iterable
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from quantide.errors import InvalidArgumentError
from quantide.typing import Array, Bools, Ints

LOG = logging.getLogger("quantide")
MAX_FAILURES = 1000  # the newest ones are kept until failures() is called

Listener = Callable[[int, Any], Any]


class ListenerFailure(NamedTuple):
    """An exception raised by a listener, and the id of its query or condition."""

    id: int
    error: Exception


class ListenerTable:
    """Listeners of queries, or of conditions, with the last value each was notified of; compared all at once.

    add() and remove() change `functions`; apply_changes() updates the arrays.
    """

    def __init__(self) -> None:
        self.functions: dict[int, Listener] = {}
        self.ids: Ints = np.empty(0, dtype=np.int64)
        self._notified: Array = np.empty(0)
        self._is_notified: Bools = np.empty(0, dtype=bool)
        self._new: list[int] = []
        self._any_removed = False

    def add(self, ids: list[int], function: Listener) -> None:
        self._new += [id for id in ids if id not in self.functions]
        self.functions.update(dict.fromkeys(ids, function))

    def remove(self, ids: Iterable[int]) -> None:
        for id in ids:
            self._any_removed |= self.functions.pop(id, None) is not None

    def apply_changes(self) -> None:
        if self._new:
            count, self._new, new = len(self._new), [], self._new
            self.ids = np.concatenate((self.ids, np.array(new, dtype=np.int64)))
            self._notified = np.concatenate((self._notified, np.zeros(count, dtype=self._notified.dtype)))
            self._is_notified = np.concatenate((self._is_notified, np.zeros(count, dtype=bool)))
        if self._any_removed:
            present = np.array([id in self.functions for id in self.ids.tolist()], dtype=bool)
            self.ids, self._any_removed = self.ids[present], False
            self._notified, self._is_notified = self._notified[present], self._is_notified[present]

    def take_changes(self, values: Array) -> Ints:
        """Return the indices in `ids` whose value differs from the last notified one; record the values as notified."""
        if self._notified.dtype != values.dtype:  # the type of the values was not known: nothing was notified
            self._notified = np.zeros(len(values), dtype=values.dtype)
        changed = np.flatnonzero(~self._is_notified | (self._notified != values))
        self._notified[changed], self._is_notified[changed] = values[changed], True
        return changed


class Listeners:
    """Listeners of queries and of conditions. An exception of one affects neither the others nor the caller."""

    def __init__(self) -> None:
        self.queries, self.conditions = ListenerTable(), ListenerTable()
        self.failed = 0
        self._failures: deque[ListenerFailure] = deque(maxlen=MAX_FAILURES)
        self._pending: deque[tuple[ListenerTable, int, Any]] = deque()
        self._notifying = Lock()

    def __len__(self) -> int:
        return len(self.queries.functions) + len(self.conditions.functions)

    def queue(self, table: ListenerTable, ids: list[int], values: Iterable[Any]) -> None:
        """Queue a notification for each id, with its value."""
        self._pending.extend((table, id, value) for id, value in zip(ids, values, strict=True))

    def notify(self) -> None:
        """Call functions with all queued notifications, one by one; return at once if another thread does so already.

        No other thread waits for this lock. A thread that fails to take it can return: the one that holds it checks
        the queue again after releasing it.
        """
        while self._pending and self._notifying.acquire(blocking=False):
            try:
                while self._pending:
                    self._call(*self._pending.popleft())
            finally:
                self._notifying.release()

    def _call(self, table: ListenerTable, id: int, value: Any) -> None:
        function = table.functions.get(id)
        if function is None:
            return
        try:
            function(id, value)
        except Exception as error:
            self.failed += 1
            self._failures.append(ListenerFailure(id, error))
            LOG.exception("on_change of query %d raised; the others were called", id)

    def failures(self) -> list[ListenerFailure]:
        """Return and remove the recorded failures; other threads may add more."""
        return [self._failures.popleft() for _ in range(len(self._failures))]


def check_listener(function: Any) -> None:
    if function is not None and not callable(function):
        raise InvalidArgumentError(f"on_change is called with (id, value), so it must be a function, not {function!r}")
