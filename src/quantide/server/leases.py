"""Leases: standing queries that are dropped when nobody has listened to them for a while."""

from collections.abc import Callable, Iterable
from threading import Lock

import numpy as np

from quantide.server.columns import Ints


class Leases:
    """How long each such query may be without a listener, and since when it is.

    Times are those of a clock that starts with the server: after a restart every lease begins anew.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._lock = clock, Lock()
        self._idle: dict[int, float] = {}  # seconds that a query is kept
        self._since: dict[int, float] = {}  # when somebody listened to it last, or it was registered
        self._heard: dict[int, int] = {}  # how many listen now, where somebody does

    def begin(self, ids: Iterable[int], idles: Iterable[float | None]) -> None:
        """Queries that were registered; those without an idle time are kept until they are dropped."""
        now = self._clock()
        with self._lock:
            for id, idle in zip(ids, idles, strict=True):
                if idle is not None:
                    self._idle[id], self._since[id] = idle, now

    def end(self, ids: Iterable[int]) -> None:
        """Queries that were dropped."""
        with self._lock:
            for id in ids:
                for held in (self._idle, self._since, self._heard):
                    held.pop(id, None)

    def listen(self, ids: Ints) -> None:
        with self._lock:
            if not self._idle:  # a client may listen to very many queries that are never dropped
                return
            for id in self._idle.keys() & ids.tolist():
                self._heard[id] = self._heard.get(id, 0) + 1

    def leave(self, ids: Ints) -> None:
        now = self._clock()
        with self._lock:
            if not self._heard:
                return
            for id in self._heard.keys() & ids.tolist():
                self._since[id] = now
                self._heard[id] -= 1
                if not self._heard[id]:
                    del self._heard[id]

    def over(self) -> Ints:
        """The queries whose time is over."""
        now = self._clock()
        with self._lock:
            ids = [id for id, idle in self._idle.items() if id not in self._heard and now - self._since[id] >= idle]
        return np.array(sorted(ids), dtype=np.int64)
