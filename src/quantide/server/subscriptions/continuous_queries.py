"""Continuous queries: stored in the registry, answered by monitors, evaluated while they have subscribers."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import count
from queue import Empty, SimpleQueue
from threading import RLock, Thread
from typing import Any

import numpy as np

from quantide.errors import EmptyError, LimitError, NotReadyError, QuantideError, UnknownQueryError
from quantide.live.live_stream import LiveStream
from quantide.queries.monitor import Monitor
from quantide.server.served_streams import ServedStreams
from quantide.server.server_registry import ServerRegistry
from quantide.server.subscriptions.change_encoding import Evaluation, NoValue, ValueChanges, encode_stream_event
from quantide.server.subscriptions.query_table import (
    EMPTY,
    FAILED,
    NOT_REGISTERED,
    VALUE,
    WAITING,
    MonitoredWindow,
    QueryExpiry,
    QuerySet,
    QueryTable,
    StoredQueries,
    WindowKey,
)
from quantide.typing import Bools, Ints

Notify = Callable[[Iterable[asyncio.Event] | None], None]

LOG = logging.getLogger("quantide.server")
NOTIFY_INTERVAL = 0.75  # seconds: a subscriber to many windows gets their changes together, if they take less than this
EXPIRY_INTERVAL = 1.0  # seconds between two searches for expired queries


class ContinuousQueries:
    """All continuous queries, of all clients.

    A window gets its monitor when one of its queries is first answered or subscribed to; the monitor answers all of
    them together. Every evaluation with different values than the published ones is a change with a number; a client
    that knows a number can receive everything that changed since.

    Locks, in the order they are acquired: `_registering` to add and drop queries, a window's own for its monitor,
    `_writing` for columns. Columns are read without a lock: the text of a query is written before its change number,
    and the number of the newest change, `last_change`, after both.
    """

    def __init__(
        self,
        registry: ServerRegistry,
        streams: ServedStreams,
        max_queries: int,
        notify: Notify,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._expiry = QueryExpiry(clock)
        self._stored = StoredQueries(registry)
        self._streams, self._max_queries, self._notify = streams, max_queries, notify
        self._registering, self._writing = RLock(), RLock()
        self._windows: dict[int, MonitoredWindow] = {}
        self._windows_by_key: dict[WindowKey, MonitoredWindow] = {}
        self._window_numbers = count()
        self.table = QueryTable.of()
        self.last_change = 0
        self.stream_events: dict[str, tuple[int, bytes]] = {}  # change number and text of the last event of a stream
        self._window_wakeups: dict[MonitoredWindow, set[asyncio.Event]] = {}  # of the subscribers of a window
        self._stream_wakeups: dict[str, set[asyncio.Event]] = {}  # of the subscribers of a stream
        self._new_subscriptions: SimpleQueue[list[MonitoredWindow] | None] = SimpleQueue()
        self._thread: Thread | None = None

    def __len__(self) -> int:
        return len(self.table)

    def start(self) -> None:
        """Load the stored queries, and start to evaluate."""
        self.load()
        self._thread = Thread(target=self._run, name="quantide-queries", daemon=True)
        self._thread.start()

    def close(self) -> None:
        if self._thread is not None:
            self._new_subscriptions.put(None)
            self._thread.join()

    def monitors(self, stream: str | None) -> list[dict[str, Any]]:
        """Return the windows of a stream, or all, with the counters of their monitors."""
        numbers, counts = np.unique(self.table.window, return_counts=True)
        queries = dict(zip(numbers.tolist(), counts.tolist(), strict=True))
        windows = [window for window in list(self._windows.values()) if stream in (None, window.key.stream)]
        return [
            window.to_json(queries[window.number], window in self._window_wakeups)
            for window in windows
            if window.number in queries
        ]

    def load(self) -> None:
        """Load the stored queries."""
        rows = self._stored.load()
        numbers = [self._window(WindowKey(*row[1:5])).number for row in rows]
        self.table = QueryTable.of(
            [row[0] for row in rows], numbers, [row[5] for row in rows], [row[6] for row in rows]
        )
        self._expiry.add([row[0] for row in rows], [row[7] for row in rows])

    # Registration

    def add(
        self,
        windows: Sequence[WindowKey],
        phis: Sequence[float],
        epss: Sequence[float],
        labels: Iterable[str | None],
        owner: str,
        idles: Sequence[float | None] | None = None,
    ) -> Ints:
        """Register checked queries; return their ids. `idles`: seconds without a subscriber until each expires."""
        idles = [None] * len(windows) if idles is None else idles
        with self._registering:
            if len(self) + len(windows) > self._max_queries:
                raise LimitError(
                    f"{len(windows):,} queries and the {len(self):,} there are exceed {self._max_queries:,}; drop some"
                )
            ids = self._stored.insert(windows, phis, epss, labels, owner, idles)
            self._expiry.add(ids.tolist(), idles)
            added = QueryTable.of(ids, [self._window(key).number for key in windows], phis, epss)
            with self._writing:
                self.table = self.table.append(added)
            for key in set(windows):
                window = self._window(key)
                window.additions, window.evaluated = window.additions + 1, None
            return ids

    def drop(self, ids: Ints) -> None:
        """Drop queries; raise if one does not exist."""
        with self._registering:
            before = self.table
            rows, present = before.find(ids)
            if not present.all():
                raise unknown_query(ids[~present])
            self._stored.delete(ids)
            self._expiry.remove(ids.tolist())
            with self._writing:
                self.table = before.delete(rows)
            self._drop_from_monitors(before, rows)
        self._notify(None)

    def drop_expired(self) -> None:
        with self._registering:
            ids = self._expiry.expired()
            if len(ids):
                self.drop(ids)

    def _drop_from_monitors(self, before: QueryTable, rows: Ints) -> None:
        """Remove dropped queries from their monitors. The table was replaced first: an evaluation, which holds the
        window's lock, does not answer queries that left the monitor."""
        order = rows[np.argsort(before.window[rows], kind="stable")]
        numbers, starts = np.unique(before.window[order], return_index=True)
        for number, dropped in zip(numbers.tolist(), np.split(order, starts[1:]), strict=True):
            window = self._windows[number]
            with window.lock:
                monitor_ids = before.monitor_id[dropped]
                if window.monitor is not None:
                    window.monitor.drop_many(monitor_ids[monitor_ids != NOT_REGISTERED])
                if window not in self._window_wakeups and not len(self.table.rows_of_window(number)):
                    del self._windows[number], self._windows_by_key[window.key]
                    if window.monitor is not None:
                        self._streams.live(window.key.stream).forget(**vars(window.key.scope()))

    def _window(self, key: WindowKey) -> MonitoredWindow:
        window = self._windows_by_key.get(key)
        if window is None:
            window = self._windows_by_key[key] = MonitoredWindow(next(self._window_numbers), key)
            self._windows[window.number] = window
        return window

    def of_other_streams(self, ids: Ints, streams: frozenset[str]) -> Bools:
        """Return which of the ids are queries of other streams; an id without a query is none of them."""
        table = self.table
        rows, others = table.find(ids)
        numbers, of = np.unique(table.window[rows], return_inverse=True)
        windows = map(self._windows.get, numbers.tolist())
        is_other = [window is None or window.key.stream not in streams for window in windows]
        others[others] = np.array(is_other, dtype=bool)[of]
        return others

    # Evaluation

    def answer(self, id: int) -> bytes:
        """Return the current answer to a query, as JSON."""
        ids, table = np.array([id], dtype=np.int64), self.table
        rows, present = table.find(ids)
        window = self._windows.get(int(table.window[rows[0]])) if present.all() else None
        if window is not None:
            with window.lock:
                evaluation = self._answers(window, ids)
                if len(evaluation.ids):
                    return bytes(evaluation.texts(np.ones(1, dtype=bool))[0])
        raise unknown_query(ids)

    def evaluate(self, window: MonitoredWindow) -> bool:
        """Record queries whose value differs from the last one published; return True if any do."""
        version = self._streams.versions.get(window.key.stream)
        with window.lock:
            additions, evaluation = window.additions, self._answers(window)
            changed = self._record(evaluation)
            if evaluation.state in (VALUE, EMPTY) and window.additions == additions:  # a failure may end any time
                window.evaluated = version
            return changed

    def evaluate_all(self, windows: Iterable[MonitoredWindow]) -> None:
        """Evaluate windows, one after the other; notify their subscribers at the end, and now and then before."""
        due: set[asyncio.Event] = set()
        notified = time.monotonic()
        for window in windows:
            if self.evaluate(window):
                due |= self._window_wakeups.get(window, set())
            if time.monotonic() > notified + NOTIFY_INTERVAL:
                self._notify(due)
                due, notified = set(), time.monotonic()
        self._notify(due)

    def on_commit(self, name: str, live: LiveStream) -> None:
        """Publish an event of the stream, and evaluate its windows that have subscribers."""
        reason = self._streams.failure_reason(name)
        fields = {"why": reason} if reason else {"version": live.version, "n": live.n, "newest": live.newest}
        text = encode_stream_event(name, ready=not reason, **fields)
        with self._writing:
            self.last_change += 1
            self.stream_events[name] = (self.last_change, text)
        self._notify(self._stream_wakeups.get(name, ()))
        self.evaluate_all(window for window in list(self._window_wakeups) if window.key.stream == name)

    def _answers(self, window: MonitoredWindow, ids: Ints | None = None) -> Evaluation:
        """Evaluate all queries of a window, or some. The caller holds the window's lock."""
        table = self.table
        try:
            monitor, table = self._registered(window)
            rows = _rows(table, window, ids)
            if len(rows):
                return ValueChanges(table.id[rows], monitor.answers(table.monitor_id[rows]))
            state, reason = EMPTY, None
        except EmptyError:
            state, reason = EMPTY, None
        except NotReadyError as error:
            state, reason = WAITING, str(error)
        except QuantideError as error:
            state, reason = FAILED, str(error)
        except Exception:
            LOG.exception("continuous queries over %s failed", window.key)
            state, reason = FAILED, "the evaluation failed in the server; see the server's log"
        return NoValue(table.id[_rows(table, window, ids)], state, reason)

    def _registered(self, window: MonitoredWindow) -> tuple[Monitor, QueryTable]:
        """Return the monitor of a window, and a table whose queries over the window are all registered with it.

        They stay registered as long as the window is locked, also those that are dropped in that time.
        """
        live = self._streams.live(window.key.stream)
        if window.monitor is None:
            window.monitor = live.monitor(**vars(window.key.scope()))
        with self._writing:  # otherwise drop() could overlook that they are registered
            table = self.table
            rows = table.rows_of_window(window.number)
            new = rows[table.monitor_id[rows] == NOT_REGISTERED]
            if len(new):
                table.monitor_id[new] = window.monitor.register_many(table.phi[new], table.eps[new])
        return window.monitor, table

    def _record(self, evaluation: Evaluation) -> bool:
        with self._writing:
            table = self.table
            rows, present = table.find(evaluation.ids)
            changed = table.state[rows] != evaluation.state
            changed |= table.bits[rows] != evaluation.bits[present]
            if not changed.any():
                return False
            selected = present.copy()
            selected[present] = changed
            rows = rows[changed]
            table.text[rows] = evaluation.texts(selected)
            table.state[rows], table.bits[rows] = evaluation.state, evaluation.bits[selected]
            table.change[rows] = self.last_change + 1
            self.last_change += 1
        return True

    # Subscription

    def subscribe(self, queries: QuerySet, streams: Iterable[str], wakeup: asyncio.Event) -> list[MonitoredWindow]:
        """Notify a wakeup when a query or a stream changes; return the windows of the queries, and begin to evaluate
        them. Only one thread calls this and unsubscribe()."""
        numbers = queries.windows(self.table)
        windows = [self._windows[number] for number in numbers if number in self._windows]
        for window in windows:
            self._window_wakeups.setdefault(window, set()).add(wakeup)
        for name in streams:
            self._stream_wakeups.setdefault(name, set()).add(wakeup)
        self._expiry.subscribe(queries.ids)
        stale = [window for window in windows if self.is_stale(window)]
        if stale:
            self._new_subscriptions.put(stale)
        return windows

    def unsubscribe(
        self, ids: Ints, windows: Iterable[MonitoredWindow], streams: Iterable[str], wakeup: asyncio.Event
    ) -> None:
        self._expiry.unsubscribe(ids)
        for window in windows:
            self._window_wakeups[window].discard(wakeup)
            if not self._window_wakeups[window]:
                del self._window_wakeups[window]
        for name in streams:
            self._stream_wakeups[name].discard(wakeup)

    def is_stale(self, window: MonitoredWindow) -> bool:
        """Return True if a window was not evaluated since the last commit."""
        return window.evaluated is None or window.evaluated != self._streams.versions.get(window.key.stream)

    def _run(self) -> None:
        """Evaluate newly subscribed windows, each once for all new subscribers; drop expired queries in between."""
        while (windows := self._next_subscriptions()) is not None:
            if windows:
                self.evaluate_all(window for window in windows if self.is_stale(window))
                wakeups = (self._window_wakeups.get(window, ()) for window in windows)
                self._notify(set().union(*wakeups))  # subscribers wait for it

    def _next_subscriptions(self) -> list[MonitoredWindow] | None:
        """Return all newly subscribed windows, each once; empty after a second without any; None at the end."""
        try:
            self.drop_expired()
        except QuantideError:  # repeated at the next call
            LOG.exception("expired queries cannot be dropped")
        windows: dict[MonitoredWindow, None] = {}
        for subscribed in self._drain_subscriptions():
            if subscribed is None:
                return None
            windows |= dict.fromkeys(subscribed)
        return list(windows)

    def _drain_subscriptions(self) -> list[list[MonitoredWindow] | None]:
        """Return the content of the queue; wait up to a second for the first item."""
        items = list[list[MonitoredWindow] | None]()
        with suppress(Empty):
            items.append(self._new_subscriptions.get(timeout=EXPIRY_INTERVAL))
            while True:
                items.append(self._new_subscriptions.get_nowait())
        return items


def _rows(table: QueryTable, window: MonitoredWindow, ids: Ints | None) -> Ints:
    return table.rows_of_window(window.number) if ids is None else table.find(ids)[0]


def unknown_query(ids: Ints) -> UnknownQueryError:
    return UnknownQueryError(f"there is no query {ids[0]}; it was dropped, or never registered")
