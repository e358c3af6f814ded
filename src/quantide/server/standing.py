"""Standing queries: kept in the registry, kept right by monitors, looked at while somebody listens."""

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
from quantide.live.stream import LiveStream
from quantide.queries.monitor import Monitor
from quantide.server import told
from quantide.server.about import Name, Window
from quantide.server.columns import EMPTY, FAILED, NEW, VALUE, WAITING, Columns, Ints, QuerySet
from quantide.server.leases import Leases
from quantide.server.registry import Registry
from quantide.server.streams import Streams
from quantide.server.told import Found, Missing, Values

Wake = Callable[[Iterable[asyncio.Event] | None], None]

LOG = logging.getLogger("quantide.server")
PATIENCE = 0.75  # seconds that who listens to many windows waits until all are looked at, to be told of them at once
INSERT = (
    "INSERT INTO queries (id, stream, key, window, filter, phi, eps, label, owner, created, idle)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
LOAD = "SELECT id, stream, key, window, filter, phi, eps, idle FROM queries ORDER BY id"
CARE = 1.0  # seconds between two looks for queries that nobody listens to any more


class Standing:
    """All standing queries, whoever asked for them.

    A window's monitor is made when somebody first asks about it or listens to it, and answers all its queries at once.
    Every look that finds other values than were told is a change with a number of its own; who remembers a number
    can be told everything that changed since, however long ago that was.

    Locks, in the order they are taken: `_registering` for queries that come and go, a window's own for its monitor,
    `_writing` for columns. Columns are read without one: a query's text is written before its number, and the number
    of the newest change, `change`, after both.
    """

    def __init__(
        self,
        registry: Registry,
        streams: Streams,
        most: int,
        wake: Wake,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._leases = Leases(clock)
        self._registry, self._streams, self._most, self._wake = registry, streams, most, wake
        self._registering, self._writing = RLock(), RLock()
        self._windows: dict[int, Window] = {}
        self._names: dict[Name, Window] = {}
        self._numbers = count()
        self.columns = Columns.of()
        self.change = 0
        self.moves: dict[str, tuple[int, bytes]] = {}
        self._heard: dict[Window, set[asyncio.Event]] = {}  # who listens to a window
        self._unseen: SimpleQueue[list[Window] | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._followed: dict[str, set[asyncio.Event]] = {}  # who listens to a stream

    def __len__(self) -> int:
        return len(self.columns)

    def start(self) -> None:
        """Take the queries that were registered when the server ran before, and begin to look."""
        self.load()
        self._thread = Thread(target=self._look_first, name="quantide-standing", daemon=True)
        self._thread.start()

    def close(self) -> None:
        if self._thread is not None:
            self._unseen.put(None)
            self._thread.join()

    @property
    def heard(self) -> int:
        """How many windows somebody listens to."""
        return len(self._heard)

    def monitors(self, stream: str | None) -> list[dict[str, Any]]:
        """What there is to tell of each window of a stream, or of all."""
        numbers, counts = np.unique(self.columns.window, return_counts=True)
        queries = dict(zip(numbers.tolist(), counts.tolist(), strict=True))
        windows = [one for one in list(self._windows.values()) if stream in (None, one.name.stream)]
        return [
            window.told(queries[window.number], window in self._heard) for window in windows if window.number in queries
        ]

    def load(self) -> None:
        """Take the queries that were registered when the server ran before."""
        rows = self._registry.rows(LOAD)
        numbers = [self._window(Name(*row[1:5])).number for row in rows]
        self.columns = Columns.of([row[0] for row in rows], numbers, [row[5] for row in rows], [row[6] for row in rows])
        self._leases.begin([row[0] for row in rows], [row[7] for row in rows])

    # Coming and going

    def add(
        self,
        names: Sequence[Name],
        phis: Sequence[float],
        epss: Sequence[float],
        labels: Iterable[str | None],
        owner: str,
        idles: Sequence[float | None] | None = None,
    ) -> Ints:
        """Register queries; their ids. Words and precisions were checked. `idles`: seconds that each is kept while
        nobody listens to it."""
        idles = [None] * len(names) if idles is None else idles
        with self._registering:
            if len(self) + len(names) > self._most:
                raise LimitError(
                    f"{len(names):,} queries and the {len(self):,} there are exceed {self._most:,}; drop some"
                )
            now = time.time()
            with self._registry.change() as write:
                found = write.execute("SELECT seq FROM sqlite_sequence WHERE name = 'queries'").fetchone()
                first = 1 + (found[0] if found else 0)
                ids = np.arange(first, first + len(names), dtype=np.int64)
                rows = zip(ids.tolist(), names, phis, epss, labels, idles, strict=True)
                write.executemany(
                    INSERT, ((id, *name, phi, eps, label, owner, now, idle) for id, name, phi, eps, label, idle in rows)
                )
            self._leases.begin(ids.tolist(), idles)
            more = Columns.of(ids, [self._window(name).number for name in names], phis, epss)
            with self._writing:
                self.columns = self.columns.with_more(more)
            for name in set(names):
                window = self._window(name)
                window.added, window.looked = window.added + 1, None
            return ids

    def drop(self, ids: Ints) -> None:
        """Forget queries, that were all found just now."""
        with self._registering:
            before = self.columns
            places, known = before.find(ids)
            if not known.all():
                raise unknown(ids[~known])
            with self._registry.change() as write:
                write.executemany("DELETE FROM queries WHERE id = ?", ((id,) for id in ids.tolist()))
            self._leases.end(ids.tolist())
            with self._writing:
                self.columns = before.without(places)
            self._leave_monitors(before, places)
        self._wake(None)

    def drop_idle(self) -> None:
        """Forget queries that nobody has listened to for as long as they were to be kept."""
        with self._registering:
            ids = self._leases.over()
            if len(ids):
                self.drop(ids)

    def _leave_monitors(self, before: Columns, places: Ints) -> None:
        """Columns went first: whoever looks at a window, holding its lock, does not ask for members that left."""
        order = places[np.argsort(before.window[places], kind="stable")]
        numbers, starts = np.unique(before.window[order], return_index=True)
        for number, gone in zip(numbers.tolist(), np.split(order, starts[1:]), strict=True):
            window = self._windows[number]
            with window.lock:
                members = before.member[gone]
                if window.monitor is not None:
                    window.monitor.drop_many(members[members != NEW])
                if window not in self._heard and not len(self.columns.about(number)):
                    del self._windows[number], self._names[window.name]
                    if window.monitor is not None:
                        self._streams.live(window.name.stream).forget(**vars(window.name.asked()))

    def _window(self, name: Name) -> Window:
        found = self._names.get(name)
        if found is None:
            found = self._names[name] = Window(next(self._numbers), name)
            self._windows[found.number] = found
        return found

    # Looking

    def answer(self, id: int) -> bytes:
        """What is to be said of a query now."""
        ids, columns = np.array([id], dtype=np.int64), self.columns
        places, known = columns.find(ids)
        window = self._windows.get(int(columns.window[places[0]])) if known.all() else None
        if window is not None:
            with window.lock:
                found = self._ask(window, ids)
                if len(found.ids):
                    return bytes(found.texts(np.ones(1, dtype=bool))[0])
        raise unknown(ids)

    def look(self, window: Window) -> bool:
        """Note the queries of a window that have another value than was told of them; whether there are any."""
        version = self._streams.versions.get(window.name.stream)
        with window.lock:
            added, found = window.added, self._ask(window)
            changed = self._note(found)
            if found.state in (VALUE, EMPTY) and window.added == added:  # what is wrong may pass without a commit
                window.looked = version
            return changed

    def _ask(self, window: Window, ids: Ints | None = None) -> Found:
        """What can be said of all queries about a window, or of some. Whoever calls this holds the window's lock."""
        columns = self.columns
        try:
            monitor, columns = self._joined(window)
            places = _chosen(columns, window, ids)
            if len(places):
                return Values(columns.id[places], monitor.answers(columns.member[places]))
            state, why = EMPTY, None
        except EmptyError:
            state, why = EMPTY, None
        except NotReadyError as error:
            state, why = WAITING, str(error)
        except QuantideError as error:
            state, why = FAILED, str(error)
        except Exception:
            LOG.exception("standing queries about %s failed", window.name)
            state, why = FAILED, "the server failed at this; its log says why"
        return Missing(columns.id[_chosen(columns, window, ids)], state, why)

    def _joined(self, window: Window) -> tuple[Monitor, Columns]:
        """The monitor of a window, and columns whose queries about it are all members of it.

        They stay members for as long as the window is locked, also those that are dropped meanwhile.
        """
        live = self._streams.live(window.name.stream)
        if window.monitor is None:
            window.monitor = live.monitor(**vars(window.name.asked()))
        with self._writing:  # else they might be dropped by one who does not know yet that they are members
            columns = self.columns
            places = columns.about(window.number)
            new = places[columns.member[places] == NEW]
            if len(new):
                columns.member[new] = window.monitor.register_many(columns.phi[new], columns.eps[new])
        return window.monitor, columns

    def _note(self, found: Found) -> bool:
        with self._writing:
            columns = self.columns
            places, known = columns.find(found.ids)
            other = columns.state[places] != found.state
            other |= columns.bits[places] != found.bits[known]
            if not other.any():
                return False
            which = known.copy()
            which[known] = other
            places = places[other]
            columns.text[places] = found.texts(which)
            columns.state[places], columns.bits[places] = found.state, found.bits[which]
            columns.change[places] = self.change + 1
            self.change += 1
        return True

    # Listening

    def listen(self, queries: QuerySet, streams: Iterable[str], bell: asyncio.Event) -> list[Window]:
        """Ring a bell whenever a query or a stream has something new; the windows that the queries are about, which
        are looked at meanwhile. One thread calls this, and leave()."""
        numbers = queries.windows(self.columns)
        windows = [self._windows[number] for number in numbers if number in self._windows]
        for window in windows:
            self._heard.setdefault(window, set()).add(bell)
        for name in streams:
            self._followed.setdefault(name, set()).add(bell)
        self._leases.listen(queries.ids)
        stale = [window for window in windows if self.is_stale(window)]
        if stale:
            self._unseen.put(stale)
        return windows

    def leave(self, ids: Ints, windows: Iterable[Window], streams: Iterable[str], bell: asyncio.Event) -> None:
        self._leases.leave(ids)
        for window in windows:
            self._heard[window].discard(bell)
            if not self._heard[window]:
                del self._heard[window]
        for name in streams:
            self._followed[name].discard(bell)

    def is_stale(self, window: Window) -> bool:
        """Whether a window must be looked at before all can be told that there is to tell of it."""
        return window.looked is None or window.looked != self._streams.versions.get(window.name.stream)

    def _look_first(self) -> None:
        """Look at what somebody has begun to listen to; what many have begun to listen to, once. Meanwhile drop what
        nobody listens to any more."""
        while (windows := self._begun()) is not None:
            with suppress(Empty):
                while (more := self._unseen.get_nowait()) is not None:
                    windows += more
                return
            if not windows:
                continue
            self.look_at(window for window in dict.fromkeys(windows) if self.is_stale(window))
            self._wake(set().union(*(self._heard.get(window, ()) for window in windows)))  # they wait for it

    def _begun(self) -> list[Window] | None:
        """Windows that somebody has begun to listen to; none after a second without; None at the end."""
        try:
            self.drop_idle()
        except QuantideError:  # it is tried again
            LOG.exception("queries that nobody listens to cannot be dropped")
        with suppress(Empty):
            return self._unseen.get(timeout=CARE)
        return []

    def look_at(self, windows: Iterable[Window]) -> None:
        """Look at windows, one after the other; tell who listens when that is done, and now and then before."""
        due: set[asyncio.Event] = set()
        rung = time.monotonic()
        for window in windows:
            if self.look(window):
                due |= self._heard.get(window, set())
            if time.monotonic() > rung + PATIENCE:
                self._wake(due)
                due, rung = set(), time.monotonic()
        self._wake(due)

    def moved(self, name: str, live: LiveStream) -> None:
        """A stream has moved on: look at what somebody listens to."""
        wrong = self._streams.wrong(name)
        about = {"version": live.version, "n": live.n, "newest": live.newest} if not wrong else {"why": wrong}
        text = told.stream(name, ready=not wrong, **about)
        with self._writing:
            self.change += 1
            self.moves[name] = (self.change, text)
        self._wake(self._followed.get(name, ()))
        self.look_at(window for window in list(self._heard) if window.name.stream == name)


def _chosen(columns: Columns, window: Window, ids: Ints | None) -> Ints:
    return columns.about(window.number) if ids is None else columns.find(ids)[0]


def unknown(ids: Ints) -> UnknownQueryError:
    return UnknownQueryError(f"there is no query {ids[0]}; it was dropped, or never registered")
