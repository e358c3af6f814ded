"""LiveStream: follows a store as it grows and answers queries about history and windows, without Spark."""

import logging
import os
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from threading import Event, Lock, Thread
from typing import Any, Self, TypeVar, Unpack

import pyarrow as pa
from numpy.typing import ArrayLike

from quantide.caching import ByteLRU, ExpiringValue
from quantide.errors import EmptyError
from quantide.history.history_reader import HistoryReader
from quantide.history.run import Run
from quantide.history.snapshot import Snapshot, StepSpan
from quantide.live.event_lag import event_lag, find_clock_problem
from quantide.live.follower import Follower
from quantide.live.key_directory import KeyDirectory
from quantide.live.live_queries import LiveMonitors
from quantide.live.live_view import LiveViewCache, View
from quantide.live.scope import QueryScope, ScopeArguments, resolve_window
from quantide.live.time_series import (
    ListWindows,
    LiveTimeSeries,
    compute_time_series,
    list_windows,
    read_times_ms,
    windows_at,
)
from quantide.live.worst_keys import WorstKeysQuery
from quantide.store.ingest_status import IngestStatus, read_status, read_unit
from quantide.store.store_settings import StoreSettings, parse_size
from quantide.summary.copying import NotCopied
from quantide.summary.key_ranking import MOST, KeyRankingAsOf, RankingRequest
from quantide.summary.ranks import check_phis, check_size
from quantide.summary.value_types import type_named
from quantide.windows.time_clock import TimeClock, read_span, show_span

LOG = logging.getLogger("quantide.live")
T = TypeVar("T")

HISTORY_SHARE = 4  # 1/4 of the memory is for caches of the history reader: blocks, summaries of the open step


class LiveStream(NotCopied, LiveMonitors):
    """A stream at its newest commit, for any query about it.

    One method for every window: `answer(phi)` is about everything, `last_steps=k` about the last steps of history,
    `last=n` about the newest n values, `within="5 min"` about a span of time up to the newest time (or to `now`),
    `filter=` about values that pass a declared filter; `key=` can be combined with each. A filter without `last` and
    `within` is about all recent values. `last=n, filter=f` are the values among the last n that pass f.

    Parameters: `path` of the store: a folder or, with `storage_options` (docs/streams.md), "s3://bucket/stream";
    `memory` of its caches (files are mapped beside it); `window`, the longest span of queries about recent values, at
    most the store's; `follow`: a thread polls for new commits. Without it, call poll().

    >>> import tempfile
    >>> from quantide import History
    >>> h = History(tempfile.mkdtemp(), eps=0.01, keys="endpoint")
    >>> h.append([3.0, 1.0, 2.0], key=["/pay", "/pay", "/cart"], times=[0.0, 60.0, 120.0])
    >>> live = LiveStream(h.path, follow=False)
    >>> h.append([7.0, 9.0], key="/pay", times=[180.0, 240.0])
    >>> live.poll(), live.keys()
    (True, ['/cart', '/pay'])
    >>> float(live.quantile(0.5)), float(live.quantile(0.5, key="/pay")), float(live.quantile(0.5, last=2))
    (3.0, 3.0, 7.0)
    >>> answer = live.answer(0.5, within="2 min", key="/pay")
    >>> float(answer.value), answer.n, answer.error, answer.since, answer.until
    (7.0, 2, 0.0, 120.0, 240.0)
    >>> live.close(); h.close()

    It cannot be copied or pickled (CopyError): give its path to the other process, and open it there.

    Guarantee: docs/guarantees/live.md. How to use it: docs/live.md.
    """

    REOPEN = "it follows its store in this process; pass its path, and open LiveStream(path) where it is needed"

    def __init__(
        self,
        path: str | os.PathLike[str],
        memory: int | str = "1 GB",
        window: Any = None,
        follow: bool = True,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        max_bytes, span = parse_size(memory), None if window is None else read_span(window)
        self._reader = HistoryReader(path, max_bytes // HISTORY_SHARE, storage_options)
        self._cache = ByteLRU(max_bytes - max_bytes // HISTORY_SHARE)
        storage = self._reader.table.storage
        self._ingest_status = ExpiringValue(partial(read_status, storage), storage.stale_seconds)
        stored = self._reader.settings.span
        self._max_span = stored if span is None or stored is None else min(span, stored)
        self._keys = KeyDirectory()
        self._views = LiveViewCache(self._reader, self._cache, self._max_span)
        self._worst_keys = WorstKeysQuery(self._reader, self._views, self._max_span)
        self._follower = Follower(self._reader, self._cache, self._views)
        self._subscribers: list[Callable[[], None]] = []
        self._notify_lock, self._notified = Lock(), (self.version, repr(None))
        self._closed = Event()
        if follow:
            name = f"quantide-live-{os.path.basename(self._reader.path)}"
            seconds = storage.poll_seconds
            Thread(target=_follow, args=(weakref.ref(self), self._closed, seconds), name=name, daemon=True).start()
        weakref.finalize(self, self._closed.set).atexit = False

    def poll(self) -> bool:
        """Move to the newest commit; return True if it is newer. With follow=True a thread does so."""
        changed = self._follower.poll()
        self._notify_subscribers()
        if changed:
            self._refresh_monitors()
        return changed

    def subscribe(self, on_commit: Callable[[], None]) -> None:
        """Call a function after each poll that loads a new version, fails, or succeeds again.

        The polling thread calls it; keep it short. Errors that it raises are logged.
        """
        self._subscribers.append(on_commit)

    def _notify_subscribers(self) -> None:
        with self._notify_lock:
            state = self.version, repr(self.last_error)
            changed, self._notified = state != self._notified, state
        if changed:
            for on_commit in self._subscribers:
                try:
                    on_commit()
                except Exception:  # it must not stop the thread that follows, nor hide the commit from others
                    LOG.exception("%s: a subscriber raised", self._reader.path)

    def close(self) -> None:
        """Stop following and release files."""
        self._closed.set()
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Queries; most are in LiveQueries

    def time_series(
        self, phis: ArrayLike, within: Any, over: Any, points: int = 120, key: Any = None, filter: str | None = None
    ) -> LiveTimeSeries:
        """Return quantiles of a window of time at moments of the past, with their bands, for a chart.

        The moments are an even grid over a span of time, `over`, that ends at the newest time. If that is longer than
        the recent rows, it begins with the first complete window.
        """
        length, span, count = read_span(over), read_span(within), check_size("points", points, 2)

        def windows(clock: TimeClock, newest: Any, max_span: Fraction) -> list[tuple[Any, Any]]:
            return list_windows(clock, newest, max_span, span, length, count)

        return self._time_series(phis, QueryScope(key, None, within, filter), windows)

    def time_series_at(
        self,
        phis: ArrayLike,
        within: Any,
        times_ms: Sequence[int],
        key: Any = None,
        filter: str | None = None,
        check_time: Callable[[], None] | None = None,
    ) -> LiveTimeSeries:
        """Return quantiles of a window of time at given moments, with their bands.

        The moments are milliseconds since 1970 and ascend. Those whose window begins before the recent rows are left
        out, so `times` has the last of them. After the newest time, windows have the rows up to it. `check_time` is
        called from time to time; it may raise, which ends the computation.
        """
        span, moments = read_span(within), read_times_ms(times_ms)

        def windows(clock: TimeClock, newest: Any, max_span: Fraction) -> list[tuple[Any, Any]]:
            return windows_at(clock, newest, max_span, span, moments)

        return self._time_series(phis, QueryScope(key, None, within, filter), windows, check_time)

    def _time_series(
        self,
        phis: ArrayLike,
        scope: QueryScope,
        list_spans: ListWindows,
        check_time: Callable[[], None] | None = None,
    ) -> LiveTimeSeries:
        checked_phis = check_phis(phis).ravel().tolist()

        def compute() -> LiveTimeSeries:
            recent = self._follower.recent
            selection = resolve_window(scope, recent, self._reader, self._max_span).selection
            if recent.clock is None:
                raise EmptyError("no values have arrived yet, so there is no time series; append some first")
            assert self._max_span is not None  # or the window was refused
            windows = list_spans(recent.clock, recent.manifest.newest, self._max_span)
            kind = type_named(self.settings.value_type)
            return compute_time_series(recent, selection, checked_phis, windows, kind, check_time)

        self._follower.yield_to_poll()
        return self._reader.run_query(compute)

    def worst_keys(
        self,
        phi: float,
        most: int = MOST,
        *,
        smallest: bool = False,
        min_n: int = 1,
        mode: str | None = None,
        **arguments: Unpack[ScopeArguments],
    ) -> KeyRankingAsOf:
        """Return the keys with the largest phi-quantile (with `smallest`, the smallest), and what is proved about them.

        `min_n` leaves out keys with fewer values. `last=n` are the newest n values of all keys together. Over history,
        keys are compared by their summaries; in a window mode="exact" reads all rows.
        """
        request, scope = RankingRequest(phi, most, smallest, min_n), QueryScope.of(dict(arguments))
        self._follower.yield_to_poll()
        return self._reader.run_query(lambda: self._worst_keys.rank(scope, request, mode, self._follower.recent))

    def is_cached(
        self, phis: Sequence[float], mode: str | None = None, key: Any = None, **arguments: Unpack[ScopeArguments]
    ) -> bool:
        """Return True if answers() needs no reading or merging."""
        scope = QueryScope.of({"key": key, **arguments})
        view, resolved_mode = self._views.peek(scope, self._follower.recent), self._resolve_mode(scope, mode)
        return view is not None and all(view.is_cached(phi, resolved_mode) for phi in phis)

    course, at_hand = time_series, is_cached  # former names, for one release

    def _query(self, scope: QueryScope, read: Callable[[View], T], expect: bool = True) -> T:
        self._follower.yield_to_poll()
        if expect:
            self._views.expect(scope)
        return self._reader.run_query(lambda: read(self._view(scope)))

    def _snapshot(self) -> Snapshot:
        """Return the newest snapshot; if files were vacuumed while it was read, the one after that."""
        return self._reader.run_query(lambda: self._reader.snapshot)

    def _view(self, scope: QueryScope) -> View:
        return self._views.get(scope, self._follower.recent)

    # State

    @property
    def version(self) -> int:
        """Version that queries are answered from."""
        return self._follower.recent.version

    @property
    def deletes(self) -> int:
        """Number of deletions up to that version."""
        return self._snapshot().deletes

    @property
    def last_error(self) -> Exception | None:
        """Error of the last poll, which queries raise; None if it succeeded."""
        return self._follower.last_error

    trouble = last_error  # former name, for one release

    def keys(self) -> list[Any]:
        """Return all keys, in order; tuples where keys have several columns."""
        return self._keys.list_keys(self._snapshot())

    def key_columns(self) -> list[pa.Array]:
        """Return one Arrow array for each key column, with a row for each key, in order; none without keys."""
        return self._keys.list_columns(self._snapshot())

    def find_keys(self, contains: str = "", most: int = 100) -> tuple[int, list[Any]]:
        """Return the number of keys that contain a text, ignoring case, and the first `most` of them in order."""
        return self._keys.find(self._snapshot(), contains, most)

    def spans(self) -> list[StepSpan]:
        """Return the spans of last steps that queries can be about."""
        return self._reader.spans()

    def runs(self) -> list[Run]:
        """Return the runs of ended steps, the oldest first."""
        return self._reader.runs()

    @property
    def settings(self) -> StoreSettings:
        """Settings of the store: eps, keys, filters, the type of its values, the longest window."""
        return self._reader.settings

    @property
    def key_types(self) -> list[pa.DataType] | None:
        """Types of the key columns; None until the first rows with keys are stored."""
        return self._snapshot().key_types if self.settings.keys else None

    @property
    def eps(self) -> float:
        """Promised error for the open step and for windows."""
        return self.settings.eps

    @property
    def tail(self) -> float | None:
        """Promised error as a fraction of the distance from either end; None if eps alone limits the error."""
        return self.settings.tail

    @property
    def n(self) -> int:
        """Number of values."""
        return self._reader.n

    @property
    def newest(self) -> Any:
        """Newest time of all values; None without values or times."""
        clock = self._follower.recent.clock
        return None if clock is None else clock.show(self._follower.recent.manifest.newest)

    @property
    def lag(self) -> float | None:
        """Seconds from the newest time to now, negative if that time is ahead of this machine's clock; None without
        values, or if times are not of the wall clock."""
        recent = self._follower.recent
        return event_lag(recent.clock, recent.manifest.newest, self.settings.ahead)

    @property
    def clock_problem(self) -> str | None:
        """Description of a newest time implausibly far ahead of this machine's clock, which makes windows wrong."""
        recent = self._follower.recent
        return find_clock_problem(recent.clock, recent.manifest.newest, self.settings.ahead)

    @property
    def time_kind(self) -> str | None:
        """Kind of the times of all rows: "seconds", "timestamp", "timestamp with zone", or "arrival" if rows have
        no times of their own; None without rows. Later rows must have the same kind."""
        manifest = self._follower.recent.manifest
        return manifest.clock if manifest.given or manifest.clock is None else "arrival"

    @property
    def zoned(self) -> bool:
        """True if times are timestamps with a zone; they are shown as UTC."""
        clock = self._follower.recent.clock
        return clock is not None and clock.kind == "timestamp with zone"

    def stats(self) -> dict[str, Any]:
        """Return counts, files, bytes of memory, and the seconds since the last poll."""
        manifest, stored = self._follower.recent.manifest, self._reader.stats()
        mapped = sum(entry.size for entry in manifest.entries)
        memory = stored["memory"] + self._cache.nbytes + self._follower.nbytes
        return stored | {
            "version": self.version,
            "recent_values": sum(entry.rows for entry in manifest.entries),
            "recent_files": len(manifest.entries),
            "recent_bytes": mapped,
            "window": None if self._max_span is None else show_span(self._max_span),
            "newest": self.newest,
            "filters": list(self.settings.filters),
            "monitors": len(self._monitors),
            "memory": memory,
            "memory_limit": self._cache.max_bytes,
            "polled": time.monotonic() - self._follower.polled_at,
            "newest_time": self.newest,
            "lag": self.lag,
            "clock_problem": self.clock_problem or stored["clock_problem"],
        }

    def read_unit(self) -> str | None:
        """Read the unit of the values, as ingestion was configured; None if there is none."""
        return read_unit(self._reader.table.storage, type_named(self.settings.value_type))

    def ingest_status(self) -> IngestStatus | None:
        """Return the status that ingestion last published; None if a program appends directly."""
        return self._ingest_status.get()

    def __repr__(self) -> str:
        return f"LiveStream({self._reader.path!r}, values={self.n}, version={self.version})"


def _follow(stream: "weakref.ref[LiveStream]", closed: Event, seconds: float) -> None:
    """Poll until the stream is closed or garbage collected. Queries raise the errors of polls."""
    while not closed.wait(seconds):
        live = stream()
        if live is None:
            return
        try:
            live.poll()
        except Exception as error:
            live._follower.record_failure(error)
            live._notify_subscribers()
        del live
