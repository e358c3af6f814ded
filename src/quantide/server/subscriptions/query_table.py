"""Query table: all continuous queries as columns in the order of their ids; windows, storage, labels and expiry."""

import asyncio
import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from functools import cached_property
from threading import Lock, RLock
from typing import Any, NamedTuple, Self

import numpy as np
import orjson
from numpy.typing import NDArray

from quantide.errors import InvalidArgumentError
from quantide.live.live_stream import LiveStream
from quantide.live.scope import QueryScope
from quantide.queries.monitor import Monitor
from quantide.server.http.query_parameters import query_scope
from quantide.server.server_registry import ServerRegistry
from quantide.typing import Bools, Floats, Ints

NOT_REGISTERED = -1  # monitor id of a query that its monitor does not have yet
NEVER, VALUE, EMPTY, WAITING, FAILED = range(5)  # last published state: none yet, a value, or the kind of no value
INSERT = (
    "INSERT INTO queries (id, stream, key, window, filter, phi, eps, label, owner, created, idle)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
LOAD = "SELECT id, stream, key, window, filter, phi, eps, idle FROM queries ORDER BY id"


class WindowKey(NamedTuple):
    """Stream, key, window and filter of a query; the key is JSON, because 1, "1" and true are different keys."""

    stream: str
    key: str
    window: str
    filter: str | None

    @classmethod
    def of(cls, stream: str, key: Any, window: str, filter: str | None) -> "WindowKey":
        return cls(stream, orjson.dumps(key).decode(), window, filter)

    def read_key(self) -> Any:
        return json.loads(self.key)

    def scope(self) -> QueryScope:
        key = self.read_key()
        return query_scope(tuple(key) if isinstance(key, list) else key, self.window, self.filter)

    def check(self, live: LiveStream) -> QueryScope:
        """Return the scope; raise if the stream cannot have such a key. The key need not exist yet."""
        scope, settings = self.scope(), live.settings
        count = len(scope.key) if isinstance(scope.key, tuple) else 1
        if scope.key is not None and count != len(settings.keys):
            names = ", ".join(settings.keys) or "none"
            raise InvalidArgumentError(
                f"key: it has {count} columns; the keys of {self.stream} have {len(settings.keys)}: {names}"
            )
        return scope


@dataclass(eq=False)
class MonitoredWindow:
    """Window whose queries share one monitor. Hold `lock` to use `monitor`.

    `evaluated` is the version of the last evaluation; `additions` counts how often queries were added.
    """

    number: int
    key: WindowKey
    monitor: Monitor | None = None
    evaluated: int | None = None
    additions: int = 0
    lock: RLock = field(default_factory=RLock)

    def to_json(self, queries: int, subscribed: bool) -> dict[str, Any]:
        """Return the window and the counters of its monitor."""
        key, monitor = self.key, self.monitor
        fields = {"stream": key.stream, "key": key.read_key(), "window": key.window, "filter": key.filter}
        fields |= {"queries": queries, "listened": subscribed}
        if monitor is None:
            return fields
        stats = monitor.stats()
        counters = {name: stats[name] for name in ("n", "clusters", "evaluations", "saved", "deadline")}
        return fields | counters | {"looks": stats["summaries"]}


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


class StoredQueries:
    """Continuous queries in the registry."""

    def __init__(self, registry: ServerRegistry) -> None:
        self._registry = registry

    def load(self) -> list[sqlite3.Row]:
        return self._registry.rows(LOAD)

    def insert(
        self,
        windows: Sequence[WindowKey],
        phis: Sequence[float],
        epss: Sequence[float],
        labels: Iterable[str | None],
        owner: str,
        idles: Sequence[float | None],
    ) -> Ints:
        """Store queries, all or none; return their ids, which no dropped query had."""
        now = time.time()
        with self._registry.transaction() as write:
            sequence = write.execute("SELECT seq FROM sqlite_sequence WHERE name = 'queries'").fetchone()
            first = 1 + (sequence[0] if sequence else 0)
            ids = np.arange(first, first + len(windows), dtype=np.int64)
            rows = zip(ids.tolist(), windows, phis, epss, labels, idles, strict=True)
            write.executemany(
                INSERT, ((id, *key, phi, eps, label, owner, now, idle) for id, key, phi, eps, label, idle in rows)
            )
        return ids

    def delete(self, ids: Ints) -> None:
        with self._registry.transaction() as write:
            write.executemany("DELETE FROM queries WHERE id = ?", ((id,) for id in ids.tolist()))


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
