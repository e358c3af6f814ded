"""Query table: all continuous queries as columns in the order of their ids, with label index and expiry."""

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from functools import cached_property
from threading import Lock
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from quantide.server.server_registry import ServerRegistry
from quantide.typing import Bools, Floats, Ints

NOT_REGISTERED = -1  # monitor id of a query that its monitor does not have yet
NEVER, VALUE, EMPTY, WAITING, FAILED = range(5)  # last published state: none yet, a value, or the kind of no value


@dataclass(frozen=True, eq=False)
class QueryTable:
    """One row a query. Added or dropped queries make a new table; new values are written into the columns.

    `window`: number of its window; `monitor_id`: its id in the monitor of that window; `eps`: the precision in force.
    `change`: number of its last change; `state`, `bits` and `text`: what was published then, `text` as JSON.
    """

    id: Ints
    window: Ints
    phi: Floats
    eps: Floats
    monitor_id: Ints
    change: Ints
    state: NDArray[np.int8]
    bits: Ints
    text: NDArray[np.object_]

    @classmethod
    def of(cls, id: Any = (), window: Any = (), phi: Any = (), eps: Any = ()) -> Self:
        """Return a table of queries of which nothing was published yet."""
        count = len(id)
        return cls(
            np.asarray(id, dtype=np.int64),
            np.asarray(window, dtype=np.int64),
            np.asarray(phi, dtype=np.float64),
            np.asarray(eps, dtype=np.float64),
            np.full(count, NOT_REGISTERED, dtype=np.int64),
            np.zeros(count, dtype=np.int64),
            np.full(count, NEVER, dtype=np.int8),
            np.zeros(count, dtype=np.int64),
            np.full(count, b"", dtype=object),
        )

    def __len__(self) -> int:
        return len(self.id)

    def append(self, more: Self) -> Self:
        """Return these rows and others, whose ids are higher."""
        return self._map(lambda name: np.concatenate((getattr(self, name), getattr(more, name))))

    def delete(self, rows: Ints) -> Self:
        return self._map(lambda name: np.delete(getattr(self, name), rows))

    def find(self, ids: Ints) -> tuple[Ints, Bools]:
        """Return the rows of the ids that exist, and which of the ids exist."""
        at = np.searchsorted(self.id, ids)
        present = at < len(self.id)
        present[present] = self.id[at[present]] == ids[present]
        return at[present], present

    def rows_of_window(self, window: int) -> Ints:
        order, windows = self._by_window
        start, stop = np.searchsorted(windows, [window, window + 1])
        return order[start:stop]

    @cached_property
    def _by_window(self) -> tuple[Ints, Ints]:
        order = np.argsort(self.window, kind="stable")
        return order, self.window[order]

    def _map(self, make: Callable[[str], Any]) -> Self:
        return type(self)(*(make(field.name) for field in fields(self)))


class QuerySet:
    """Queries by id, with their rows in the newest table; clients with the same subscription share one."""

    def __init__(self, ids: Ints) -> None:
        self.ids = ids
        self._cached: tuple[QueryTable, Ints, Bools, list[int]] | None = None

    def rows(self, table: QueryTable) -> tuple[Ints, Bools]:
        """Return the rows of the queries that exist, and which of the ids exist."""
        _, rows, present, _ = self._find(table)
        return rows, present

    def windows(self, table: QueryTable) -> list[int]:
        """Return the numbers of the windows of the queries."""
        return self._find(table)[3]

    def _find(self, table: QueryTable) -> tuple[QueryTable, Ints, Bools, list[int]]:
        cached = self._cached
        if cached is None or cached[0] is not table:
            rows, present = table.find(self.ids)
            cached = self._cached = (table, rows, present, np.unique(table.window[rows]).tolist())
        return cached


class LabelIndex:
    """Cache of the queries of each label, valid for one query table.

    Lookups run one at a time in a thread of their own: many clients that connect at once never delay a query, and
    clients of one label share one QuerySet.
    """

    def __init__(self, registry: ServerRegistry, table: Callable[[], QueryTable]) -> None:
        self._registry, self._table = registry, table
        self._cached: tuple[QueryTable | None, dict[str, QuerySet]] = (None, {})
        self._lock = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, "quantide-labels")

    async def queries(self, label: str) -> QuerySet:
        """Return the queries of a label in the order of their ids; empty when none has it."""
        async with self._lock:  # a concurrent lookup of the same label is awaited, not repeated
            table = self._table()
            if self._cached[0] is not table:
                self._cached = (table, {})
            cached = self._cached[1]
            if label not in cached:
                queries = await asyncio.get_running_loop().run_in_executor(self._thread, self._find, label)
                if not len(queries.ids):
                    return queries
                cached[label] = queries
            return cached[label]

    def close(self) -> None:
        self._thread.shutdown()

    def _find(self, label: str) -> QuerySet:
        rows = self._registry.rows("SELECT id FROM queries WHERE label = ? ORDER BY id", (label,))
        ids = np.array([row[0] for row in rows], dtype=np.int64)
        ids.flags.writeable = False
        return QuerySet(ids)


class QueryExpiry:
    """Expiry of queries that have an idle time: they are dropped after that time without a subscriber.

    Times are of a clock that starts with the server: a restart begins every idle time anew.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._lock = clock, Lock()
        self._idle: dict[int, float] = {}  # idle time of a query, in seconds
        self._since: dict[int, float] = {}  # end of its last subscription, or its registration
        self._subscribers: dict[int, int] = {}  # number of its subscribers, where it has some

    def add(self, ids: Iterable[int], idles: Iterable[float | None]) -> None:
        """Add registered queries; those without an idle time never expire."""
        now = self._clock()
        with self._lock:
            for id, idle in zip(ids, idles, strict=True):
                if idle is not None:
                    self._idle[id], self._since[id] = idle, now

    def remove(self, ids: Iterable[int]) -> None:
        with self._lock:
            for id in ids:
                self._idle.pop(id, None)
                self._since.pop(id, None)
                self._subscribers.pop(id, None)

    def subscribe(self, ids: Ints) -> None:
        with self._lock:
            if not self._idle:  # a client may subscribe to very many queries that never expire
                return
            for id in self._idle.keys() & ids.tolist():
                self._subscribers[id] = self._subscribers.get(id, 0) + 1

    def unsubscribe(self, ids: Ints) -> None:
        now = self._clock()
        with self._lock:
            if not self._subscribers:
                return
            for id in self._subscribers.keys() & ids.tolist():
                self._since[id] = now
                self._subscribers[id] -= 1
                if not self._subscribers[id]:
                    del self._subscribers[id]

    def expired(self) -> Ints:
        """Return the ids of the expired queries."""
        now = self._clock()
        with self._lock:
            ids = [
                id for id, idle in self._idle.items() if id not in self._subscribers and now - self._since[id] >= idle
            ]
        return np.array(sorted(ids), dtype=np.int64)
