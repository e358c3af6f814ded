"""LiveStream: follows a store as it grows and answers about all of it, history and windows, without Spark."""

import os
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from threading import Event, Thread
from typing import Any, Self, TypeVar, Unpack

from numpy.typing import ArrayLike

from quantide.errors import EmptyError
from quantide.history.reader import HistoryReader
from quantide.history.run import Run
from quantide.history.snapshot import Span
from quantide.live.asked import Asked, Words
from quantide.live.course import LiveCourse, course_of, window_ends
from quantide.live.follower import Follower
from quantide.live.kept import Kept
from quantide.live.keys import KnownKeys
from quantide.live.lag import ahead_problem, event_lag
from quantide.live.standing import StandingQuestions
from quantide.live.view import View
from quantide.live.views import Views
from quantide.live.window import window_of
from quantide.store.ingest_status import INGEST_STATUS, IngestStatus
from quantide.store.settings import Settings, read_bytes
from quantide.summary.copying import NotCopied
from quantide.summary.ranks import check_phis, check_size
from quantide.summary.types import type_named
from quantide.windows.clock import read_span, show_span

T = TypeVar("T")

EVERY, SLOWLY = 0.02, 0.25  # seconds between two looks for a new commit: in a folder, in an object store
REST = 4  # a part of the memory is for what history keeps: blocks that were read, summaries of the open step


class LiveStream(NotCopied, StandingQuestions):
    """A stream as of its newest commit, and any question about it.

    One method for every window: `answer(phi)` is about everything, `last_steps=k` about the last steps of history,
    `last=n` about the newest n values, `within="5 min"` about a span of time up to the newest time (or to `now`),
    `filter=` about values that satisfy a declared filter; `key=` goes with each. Without `last` and `within` a filter
    is about all recent values. `last=n, filter=f` are those of the last n values that satisfy f.

    Parameters: `path`, where the store lies: a folder or, with `storage_options` as deltalake takes them,
    "s3://bucket/stream"; `memory`, for what is kept to answer again (files are mapped beside it); `window`, how far
    back questions about recent values may reach, at most as far as the store keeps them; `follow`, whether a thread
    looks for new commits; without it poll() does.

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

    It is not copied or pickled (CopyError): give its path to the other process, and open it there.

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
        most, reach = read_bytes(memory), None if window is None else read_span(window)
        self._reader = HistoryReader(path, most // REST, storage_options)
        self._kept = Kept(most - most // REST)
        kept = self._reader.settings.span
        self._reach = kept if reach is None or kept is None else min(reach, kept)
        self._keys = KnownKeys()
        self._views = Views(self._reader, self._kept, self._reach)
        self._follower = Follower(self._reader, self._kept, self._views)
        self._end = Event()
        if follow:
            name = f"quantide-live-{os.path.basename(self._reader.path)}"
            often = SLOWLY if self._reader.table.place.far else EVERY
            Thread(target=_follow, args=(weakref.ref(self), self._end, often), name=name, daemon=True).start()
        weakref.finalize(self, self._end.set).atexit = False

    def poll(self) -> bool:
        """Look for new commits; whether there were any. With a thread that follows there is no need to."""
        changed = self._follower.poll()
        if changed:
            self._refresh_monitors()
        return changed

    def close(self) -> None:
        """Stop following and let go of files."""
        self._end.set()
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Asking; most of it is in Questions

    def course(
        self, phis: ArrayLike, within: Any, over: Any, points: int = 120, key: Any = None, filter: str | None = None
    ) -> LiveCourse:
        """Quantiles of a window of time as it was at moments of the past, with their bands: lines to draw.

        Moments reach back over a length of time, an even grid of which the newest time is the last. Where that is
        further than rows are kept for windows, they begin with the first window that is known whole.
        """
        wanted, asked = check_phis(phis).ravel().tolist(), Asked(key, None, within, filter)
        length, count = read_span(over), check_size("points", points, 2)

        def ask() -> LiveCourse:
            recent = self._follower.recent
            rows = window_of(asked, recent, self._reader, self._reach).wanted
            if recent.clock is None:
                raise EmptyError("nothing came yet, so there is nothing to look back at")
            assert self._reach is not None  # or the window was refused
            ends = window_ends(recent.clock, recent.manifest.newest, read_span(within), length, count, self._reach)
            return course_of(recent, rows, wanted, ends, type_named(self.settings.value_type))

        self._follower.let_it_go_first()
        return self._reader.asking(ask)

    def at_hand(self, phis: Sequence[float], mode: str | None = None, key: Any = None, **words: Unpack[Words]) -> bool:
        """Whether answers() would find its answers at once: nothing has to be read or merged for them."""
        asked = Asked.of({"key": key, **words})
        view, how = self._views.kept(asked, self._follower.recent), self._mode(asked, mode)
        return view is not None and all(view.at_hand(phi, how) for phi in phis)

    def _ask(self, asked: Asked, ask: Callable[[View], T], again: bool = True) -> T:
        self._follower.let_it_go_first()
        if again:
            self._views.expect(asked)
        return self._reader.asking(lambda: ask(self._view(asked)))

    def _view(self, asked: Asked) -> View:
        return self._views.of(asked, self._follower.recent)

    # What there is

    @property
    def version(self) -> int:
        """The commit as of which questions are answered."""
        return self._follower.recent.version

    @property
    def trouble(self) -> Exception | None:
        """Why commits cannot be followed just now; questions raise it."""
        return self._follower.trouble

    def keys(self) -> list[Any]:
        """All keys there are, in order; tuples where keys have several columns."""
        return self._keys.of(self._reader.snapshot)

    def find_keys(self, contains: str = "", most: int = 100) -> tuple[int, list[Any]]:
        """How many keys there are that contain a text, whatever its case, and the first of them in order."""
        return self._keys.find(self._reader.snapshot, contains, most)

    def spans(self) -> list[Span]:
        """The spans of last steps that can be asked about."""
        return self._reader.spans()

    def runs(self) -> list[Run]:
        """The runs of ended steps, the oldest first."""
        return self._reader.runs()

    @property
    def settings(self) -> Settings:
        """What the store was made with: eps, keys, filters, the type of its values, how far back windows reach."""
        return self._reader.settings

    @property
    def eps(self) -> float:
        """The error promised for the open step and for windows."""
        return self.settings.eps

    @property
    def n(self) -> int:
        """How many values there are."""
        return self._reader.n

    @property
    def newest(self) -> Any:
        """The newest time of all values; None where nothing came yet, or no times are kept."""
        clock = self._follower.recent.clock
        return None if clock is None else clock.show(self._follower.recent.manifest.newest)

    @property
    def lag(self) -> float | None:
        """Seconds from the newest time to now, below zero when that time is ahead of this machine's clock; None where
        times are not of the wall clock, or nothing came yet."""
        recent = self._follower.recent
        return event_lag(recent.clock, recent.manifest.newest, self.settings.ahead)

    @property
    def clock_problem(self) -> str | None:
        """Why windows of time cannot be trusted: the newest time is implausibly far ahead of this machine's clock."""
        recent = self._follower.recent
        return ahead_problem(recent.clock, recent.manifest.newest, self.settings.ahead)

    @property
    def zoned(self) -> bool:
        """Whether times are timestamps with a zone; they are told as UTC."""
        clock = self._follower.recent.clock
        return clock is not None and clock.kind == "timestamp with zone"

    def stats(self) -> dict[str, Any]:
        """What there is and what is held: counts, files, bytes of memory, how long ago it was looked for commits."""
        manifest, stored = self._follower.recent.manifest, self._reader.stats()
        mapped = sum(entry.size for entry in manifest.entries)
        held = stored["memory"] + self._kept.nbytes + self._follower.nbytes
        return stored | {
            "version": self.version,
            "recent_values": sum(entry.rows for entry in manifest.entries),
            "recent_files": len(manifest.entries),
            "recent_bytes": mapped,
            "window": None if self._reach is None else show_span(self._reach),
            "newest": self.newest,
            "filters": list(self.settings.filters),
            "monitors": len(self._monitors),
            "memory": held,
            "memory_limit": self._kept.most,
            "polled": time.monotonic() - self._follower.polled,
            "newest_time": self.newest,
            "lag": self.lag,
            "clock_problem": self.clock_problem or stored["clock_problem"],
        }

    def ingest_status(self) -> IngestStatus | None:
        """Return the status that ingestion last published; None where a program appends by itself."""
        try:
            return IngestStatus.from_bytes(bytes(self._reader.table.place.mapped(INGEST_STATUS)))
        except FileNotFoundError:
            return None

    def __repr__(self) -> str:
        return f"LiveStream({self._reader.path!r}, values={self.n}, version={self.version})"


def _follow(stream: "weakref.ref[LiveStream]", end: Event, often: float) -> None:
    """Poll until the stream is closed or forgotten. What goes wrong is told by the next question."""
    while not end.wait(often):
        live = stream()
        if live is None:
            return
        try:
            live.poll()
        except Exception as error:
            live._follower.failed(error)
        del live
