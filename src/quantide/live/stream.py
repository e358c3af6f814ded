"""LiveStream: follows a store as it grows and answers about all of it, history and windows, without Spark."""

import os
import time
import weakref
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from threading import Event, RLock, Thread
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quantide.errors import (
    CorruptBytesError,
    EmptyError,
    InvalidArgumentError,
    QuantideError,
    SpanError,
    StorageError,
    UnknownKeyError,
)
from quantide.history.keys import read_key
from quantide.history.reader import HistoryReader
from quantide.history.run import Run
from quantide.history.snapshot import Snapshot, Span
from quantide.live.answer import LiveAnswer, LiveBand, LiveComparison, LiveRank
from quantide.live.asked import Asked
from quantide.live.course import LiveCourse, Point, moments, point, summaries
from quantide.live.kept import Kept
from quantide.live.keys import KnownKeys
from quantide.live.lane import Between
from quantide.live.recent import Recent, Unreadable, Wanted
from quantide.live.view import HistoryView, View, WindowView
from quantide.queries.monitor import Monitor
from quantide.queries.results import Changes
from quantide.store.recent import RecentFile
from quantide.store.settings import Settings, read_bytes
from quantide.summary.ranks import check_eps, check_phis, check_size
from quantide.summary.summary import Summary
from quantide.summary.types import type_named
from quantide.windows.clock import read_span, show_span

T = TypeVar("T")
Files = dict[str, RecentFile | Unreadable]

EVERY, SLOWLY = 0.02, 0.25  # seconds between two looks for a new commit: in a folder, in an object store
PAUSE = 0.0001  # seconds that a question waits while a commit is looked at
VIEWS = "views"  # with a version, the group of what is kept for that
HOT, AHEAD = 256, 0.25  # questions that are looked at before a new version is answered from, and seconds for that
REST = 4  # a part of the memory is for what history keeps: blocks that were read, summaries of the open step


class LiveStream:
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

    Guarantee: docs/guarantees/live.md. How to use it: docs/live.md.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        memory: int | str = "1 GB",
        window: Any = None,
        follow: bool = True,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        most, span = read_bytes(memory), None if window is None else read_span(window)
        self._reader = HistoryReader(path, most // REST, storage_options)
        self._kept = Kept(most - most // REST)
        settings = self._reader.settings
        self._kind, self._eps = type_named(settings.value_type), settings.eps
        self._span = settings.span if span is None or settings.span is None else min(span, settings.span)
        self._polling, self._monitoring = RLock(), RLock()
        self._files: Files = {}
        self._keys = KnownKeys()
        self._monitors: dict[Any, tuple[Asked, Monitor]] = {}
        self._trouble: Exception | None = None
        self._moving = False  # whether poll() is at work
        self._hot: dict[Hashable, Asked] = {}  # what was asked about since the last commit
        self._seen: set[int] = set()  # versions that views are kept for
        self._polled = time.time()
        self._next: tuple[Recent, Files] | None = None  # what questions are answered from next
        self._recent, self._files = self._restore()
        self._end = Event()
        if follow:
            name = f"quantide-live-{os.path.basename(self._reader.path)}"
            often = SLOWLY if self._reader.table.place.far else EVERY
            Thread(target=_follow, args=(weakref.ref(self), self._end, often), name=name, daemon=True).start()
        weakref.finalize(self, self._end.set).atexit = False

    # Following

    def poll(self) -> bool:
        """Look for new commits; whether there were any. With a thread that follows there is no need to."""
        with self._polling:
            before, self._next = self.version, None
            with self._at_work():
                self._reader.refresh(self._foresee)
                if self._reader.version != before:
                    found = self._next
                    if found is None or found[0].version != self._reader.version:
                        found = self._restore()
                    self._go_on(*found)
            self._trouble, self._polled = None, time.time()
            changed = self.version != before
        if changed:
            with self._monitoring:
                monitors = list(self._monitors.values())
            for _, monitor in monitors:  # its on_change functions may wait for others that want monitors
                with suppress(QuantideError):  # a window that is not known any more: it says so when it is asked
                    monitor.refresh()
        return changed

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """While commits are looked at, questions let that go first."""
        self._moving = True
        try:
            yield
        finally:
            self._moving = False

    def _foresee(self, snapshot: Snapshot) -> None:
        """Look at what was asked about since the last commit, as of a version that nobody is answered from yet: else
        the first who ask after a commit would all wait for it."""
        with suppress(QuantideError, OSError):  # it is looked for again, with more patience
            recent, files = self._read(snapshot)
            if any(isinstance(file, Unreadable) for file in files.values()):
                return
            self._moving, ended = False, time.monotonic() + AHEAD
            for asked in list(self._hot.values()):
                old = self._kept.peek((VIEWS, self._recent.version), asked.words)
                if old is not None and time.monotonic() < ended:
                    with suppress(QuantideError, OSError):  # whoever asks is told
                        self._keep_view(asked, snapshot, recent).prepare(old)
            self._next = recent, files

    def _go_on(self, recent: Recent, files: Files) -> None:
        """Answer from here on as of this version."""
        gone, self._files, self._recent, self._hot = self._files.keys() - files.keys(), files, recent, {}
        self._kept.forget(gone)
        self._forget_views()

    def _forget_views(self) -> None:
        """Let go of what was kept for older versions."""
        now = {self._recent.version, self._reader.version}
        self._kept.forget([(VIEWS, version) for version in self._seen - now])
        self._seen &= now

    def close(self) -> None:
        """Stop following and let go of files."""
        self._end.set()
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def version(self) -> int:
        """The commit as of which questions are answered."""
        return self._recent.version

    @property
    def trouble(self) -> Exception | None:
        """Why commits cannot be followed just now; questions raise it."""
        return self._trouble

    # Asking

    def answer(
        self,
        phi: float,
        key: Any = None,
        last: int | None = None,
        within: Any = None,
        filter: str | None = None,
        last_steps: int | None = None,
        mode: str | None = None,
        now: Any = None,
    ) -> LiveAnswer:
        """The phi-quantile of everything or of a window, with the ranks it is proved to have.

        mode="quick" reads no data; "accurate" is off by at most eps of the open step's values, or of the window's;
        "exact" reads what it must to be exact. Without a mode it is accurate, or quick where that would read much:
        about all keys of a store that has keys. The answer tells which.
        """
        asked = Asked(key, last, within, filter, last_steps, now)
        return self._ask(asked, lambda view: view.answer(phi, self._mode(asked, mode)))

    def at_hand(self, phis: Sequence[float], mode: str | None = None, **asked: Any) -> bool:
        """Whether answers() would find its answers at once: nothing has to be read or merged for them."""
        words = Asked.of(asked)
        version = self._recent.version if words.recent else self._reader.version
        view, how = self._kept.peek((VIEWS, version), words.words), self._mode(words, mode)
        return view is not None and all(view.at_hand(phi, how) for phi in phis)

    def quantile(
        self,
        phi: float,
        key: Any = None,
        last: int | None = None,
        within: Any = None,
        filter: str | None = None,
        last_steps: int | None = None,
        mode: str | None = None,
        now: Any = None,
    ) -> Any:
        """The value of answer()."""
        return self.answer(phi, key, last, within, filter, last_steps, mode, now).value

    def quantiles(
        self,
        phis: ArrayLike,
        key: Any = None,
        last: int | None = None,
        within: Any = None,
        filter: str | None = None,
        last_steps: int | None = None,
        mode: str | None = None,
        now: Any = None,
    ) -> NDArray[Any]:
        """The values for many phis."""
        found = self.answers(phis, key, last, within, filter, last_steps, mode, now)
        return np.array([a.value for a in found], dtype=self._kind.dtype).reshape(np.shape(phis))

    def answers(
        self,
        phis: ArrayLike,
        key: Any = None,
        last: int | None = None,
        within: Any = None,
        filter: str | None = None,
        last_steps: int | None = None,
        mode: str | None = None,
        now: Any = None,
    ) -> list[LiveAnswer]:
        """The answers for many phis, all as of one version."""
        wanted, asked = check_phis(phis).ravel().tolist(), Asked(key, last, within, filter, last_steps, now)
        how = self._mode(asked, mode)
        return self._ask(asked, lambda view: [view.answer(phi, how) for phi in wanted])

    def bands(self, phis: ArrayLike, mode: str | None = None, **asked: Any) -> list[LiveBand]:
        """As answers(), each with the values between which the true quantile is proved to lie."""
        wanted, words = check_phis(phis).ravel().tolist(), Asked.of(asked)
        how = self._mode(words, mode)
        return self._ask(words, lambda view: [view.band(phi, how) for phi in wanted])

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
            recent = self._recent
            window, _, _ = self._wanted(asked, recent)
            if recent.clock is None:
                raise EmptyError("nothing came yet, so there is nothing to look back at")
            assert self._span is not None
            clock, newest, span = recent.clock, recent.manifest.newest, read_span(within)
            first = clock.back(newest, self._span)
            found = [(clock.back(one, span), one) for one in moments(clock, newest, length, count)]
            known = [(above, one) for above, one in found if above >= first]
            spans = [Between(above, one if one < newest else None) for above, one in known]
            n: list[int] = []
            lines: list[list[Point | None]] = [[] for _ in wanted]
            for summary in summaries(recent, window, spans, self._kind):
                n.append(summary.n)
                for line, phi in zip(lines, wanted, strict=True):
                    line.append(point(summary, phi))
            times = [clock.show(one) for _, one in known]
            return LiveCourse(recent.version, clock.show(known[0][0]), times, n, lines)

        self._let_go_first()
        return self._reader.asking(ask)

    def rank(
        self,
        value: Any,
        key: Any = None,
        last: int | None = None,
        within: Any = None,
        filter: str | None = None,
        last_steps: int | None = None,
        mode: str | None = None,
        now: Any = None,
    ) -> tuple[Any, Any]:
        """Proved bounds (lo, hi) on how many values are <= value; arrays for an array of values."""
        asked = Asked(key, last, within, filter, last_steps, now)
        return self._ask(asked, lambda view: view.rank(value, self._mode(asked, mode)))

    def ranks(self, values: Any, mode: str | None = None, **asked: Any) -> list[LiveRank]:
        """As rank(), of many values, with what it is about; all as of one version."""
        words = Asked.of(asked)
        how = self._mode(words, mode)

        def ask(view: View) -> list[LiveRank]:
            low, high = view.rank(values, how)
            about = view.n, view.version, how, view.last_steps, view.since, view.until
            bounds = zip(values, low.tolist(), high.tolist(), strict=True)
            return [LiveRank(value, least, most, *about) for value, least, most in bounds]

        return self._ask(words, ask)

    def cdf(
        self,
        values: Any,
        key: Any = None,
        last: int | None = None,
        within: Any = None,
        filter: str | None = None,
        last_steps: int | None = None,
        mode: str | None = None,
        now: Any = None,
    ) -> Any:
        """The fraction of the values that are <= each value."""

        asked = Asked(key, last, within, filter, last_steps, now)

        def ask(view: View) -> Any:
            low, high = view.rank(values, self._mode(asked, mode))
            return (low + high) / 2 / view.n

        return self._ask(asked, ask)

    def summary(self, **asked: Any) -> Summary:
        """A summary of everything or of a window; `asked` are the words of answer(): key, last, within, and so on."""
        return self._ask(Asked.of(asked), lambda view: view.summary)

    def compare(
        self, phis: ArrayLike, against: dict[str, Any] | None = None, mode: str | None = None, **asked: Any
    ) -> list[LiveComparison]:
        """Each phi of one window beside the same phi of another: `compare([0.99], within="5 min")` is now against all
        of history, `against={"last_steps": 30}` against a part of it."""
        words, other = Asked.of(asked), Asked.of({} if against is None else against)
        here, there = self._mode(words, mode), self._mode(other, mode)
        wanted = np.atleast_1d(check_phis(phis)).tolist()

        def ask(view: View) -> list[LiveComparison]:
            then, out = self._view(other), []
            for phi in wanted:
                mine, theirs = view.answer(phi, here), then.answer(phi, there)
                low, high = then.rank(mine.value, there)
                out.append(LiveComparison(phi, mine, theirs, (low / then.n, high / then.n)))
            return out

        return self._ask(words, ask)

    def monitor(self, key: Any = None, eps: float | None = None, **asked: Any) -> Monitor:
        """Standing queries and conditions over everything or a window (the words of answer()), right at every commit.

        `eps` is the finest precision of its queries: when it is not given, the store's for windows, and twice that for
        everything and for steps. The same words and eps give the same monitor. Its on_change functions are called by
        poll().
        """
        words = self._watched(key, asked)
        with self._monitoring:
            name = (words.words, None if eps is None else check_eps(eps))
            if name not in self._monitors:
                settings = self._reader.settings
                grows = not words.recent and words.last_steps is None and settings.retention is None
                finest = self.finest(words) if eps is None else eps
                made = Monitor(finest, pull=lambda: self.pull(words), value_type=settings.value_type, grows=grows)
                self._monitors[name] = (words, made)
            return self._monitors[name][1]

    def forget(self, key: Any = None, eps: float | None = None, **asked: Any) -> None:
        """Let go of the monitor with these words. Whoever holds it can go on with it; monitor() makes another."""
        with self._monitoring:
            self._monitors.pop((self._watched(key, asked).words, None if eps is None else check_eps(eps)), None)

    def _watched(self, key: Any, asked: dict[str, Any]) -> Asked:
        """The words of a monitor."""
        if isinstance(key, dict) and set(key) == set(self._reader.settings.keys):
            key = tuple(key[name] for name in self._reader.settings.keys)
        words = Asked.of({**asked, "key": tuple(key) if isinstance(key, list) else key})
        if words.words is None:
            raise InvalidArgumentError(
                f"a monitor is found again by its words, and {words} has one that cannot be kept"
            )
        return words

    def finest(self, asked: Asked) -> float:
        """The finest precision of a monitor's queries, when no other is asked for."""
        return (1 if asked.recent else 2) * self._eps

    def pull(self, asked: Asked) -> tuple[int, Summary]:
        """A summary and the commit as of which it holds, as a Monitor takes it; of no values where a key has none."""
        version = self.version  # before asking: a commit that comes meanwhile may have the first value of a key
        try:
            return self._ask(asked, lambda view: (view.version, view.summary), again=False)
        except UnknownKeyError:
            return version, Summary.of([])

    def changes(self) -> list[tuple[Asked, Changes]]:
        """What is new in each monitor since this was called before: the words it was made with, and its changes."""
        found = []
        with self._monitoring:
            for words, monitor in list(self._monitors.values()):
                with suppress(QuantideError):  # it says so when it is asked
                    found.append((words, monitor.changes()))
        return [(words, changes) for words, changes in found if len(changes) or changes.conditions]

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
        return self._eps

    @property
    def n(self) -> int:
        """How many values there are."""
        return self._reader.n

    @property
    def newest(self) -> Any:
        """The newest time of all values; None where nothing came yet, or no times are kept."""
        clock = self._recent.clock
        return None if clock is None else clock.show(self._recent.manifest.newest)

    @property
    def zoned(self) -> bool:
        """Whether times are timestamps with a zone; they are told as UTC."""
        clock = self._recent.clock
        return clock is not None and clock.kind == "timestamp with zone"

    def stats(self) -> dict[str, Any]:
        """What there is and what is held: counts, files, bytes of memory, how long ago it was looked for commits."""
        manifest, stored = self._recent.manifest, self._reader.stats()
        mapped = sum(entry.size for entry in manifest.entries)
        held = stored["memory"] + self._kept.nbytes + sum(file.nbytes for file in self._files.values())
        return stored | {
            "version": self.version,
            "recent_values": sum(entry.rows for entry in manifest.entries),
            "recent_files": len(manifest.entries),
            "recent_bytes": mapped,
            "window": None if self._span is None else show_span(self._span),
            "newest": self.newest,
            "filters": list(self._reader.settings.filters),
            "monitors": len(self._monitors),
            "memory": held,
            "memory_limit": self._kept.most,
            "polled": time.time() - self._polled,
        }

    def __repr__(self) -> str:
        return f"LiveStream({self._reader.path!r}, values={self.n}, version={self.version})"

    # Inside

    def _ask(self, asked: Asked, ask: Callable[[View], T], again: bool = True) -> T:
        """`again`: it may well be asked again after the next commit, by someone who waits for the answer."""
        self._let_go_first()
        if again and len(self._hot) < HOT and asked.words is not None:
            self._hot[asked.words] = asked
        return self._reader.asking(lambda: ask(self._view(asked)))

    def _let_go_first(self) -> None:
        """Commits that are looked at go before questions; when they cannot be, nothing is answered."""
        if self._trouble is not None:
            raise self._trouble
        if self._moving:  # threads that only compute would keep it waiting at each of its reads
            time.sleep(PAUSE)

    def _mode(self, asked: Asked, mode: str | None) -> str:
        if mode is not None:
            return mode
        spread = self._reader.settings.keys and asked.key is None and not asked.recent
        return "quick" if spread else "accurate"

    def _view(self, asked: Asked) -> View:
        """The view for these words, as of this version."""
        if asked.words is None:
            return self._look(asked, None, self._recent)
        return self._keep_view(asked, None, self._recent)

    def _keep_view(self, asked: Asked, snapshot: Snapshot | None, recent: Recent) -> View:
        """The view for words that have a name, kept for its version: that of a snapshot, or the one answered from."""
        stored = self._reader.version if snapshot is None else snapshot.version
        version = recent.version if asked.recent else stored  # history may be ahead
        self._seen.add(version)
        return self._kept.get(
            (VIEWS, version), asked.words, lambda: self._look(asked, snapshot, recent), lambda view: view.nbytes
        )

    def _look(self, asked: Asked, snapshot: Snapshot | None, recent: Recent) -> View:
        if not asked.recent and snapshot is not None:
            return HistoryView(snapshot.version, self._reader.view(asked.last_steps, asked.key, snapshot=snapshot))
        while not asked.recent:
            version, stored = self._reader.version, self._reader.view(asked.last_steps, asked.key)
            if self._reader.version == version:  # else a commit came in between
                return HistoryView(version, stored)
        wanted, since, until = self._wanted(asked, recent)

        def all_rows() -> Summary:
            if asked.words is None:
                return recent.summary(wanted, self._kind, True)
            name = (asked.words, "exact")
            return self._kept.get(
                (VIEWS, recent.version),
                name,
                lambda: recent.summary(wanted, self._kind, True),
                lambda found: found.nbytes,
            )

        return WindowView(recent.version, recent.summary(wanted, self._kind, False), all_rows, asked.key, since, until)

    def _wanted(self, asked: Asked, recent: Recent) -> tuple[Wanted, Any, Any]:
        """A window of recent rows, if it can be asked about, and from which time to which that is."""
        settings = self._reader.settings
        if self._span is None:
            raise SpanError("this store keeps no recent values; make it with History(path, window='24 hours')")
        if asked.filter is not None and asked.filter not in settings.filters:
            known = f"declared are {', '.join(settings.filters)}" if settings.filters else "none is declared"
            raise InvalidArgumentError(f"the filter {asked.filter!r} is not known; {known}")
        key = None if asked.key is None else read_key(asked.key, settings.keys, self._reader.snapshot.key_types)
        last = None if asked.last is None else check_size("last", asked.last, 1)
        span, since, until = self._times(asked, recent)
        return Wanted(key, last, span, asked.filter), since, until

    def _times(self, asked: Asked, recent: Recent) -> tuple[Between | None, Any, Any]:
        """The times of a window as numbers, and from which time to which that is."""
        if not asked.timed or recent.clock is None:
            return None, None, None
        assert self._span is not None
        span = self._span if asked.within is None else read_span(asked.within)
        clock, newest = recent.clock, recent.manifest.newest
        moment = newest if asked.now is None else clock.moment(asked.now)
        above = clock.back(moment, span)
        if span > self._span or above < clock.back(newest, self._span):
            raise SpanError(
                f"a window of {show_span(span)} reaches back beyond the {show_span(self._span)} that are kept"
            )
        return Between(above, moment if moment < newest else None), clock.show(above), clock.show(moment)

    def _restore(self) -> tuple[Recent, Files]:
        """The recent files of the reader's version; when some are gone, of the newest."""
        while True:
            try:
                recent, files = self._read(self._reader.snapshot)
            except FileNotFoundError as error:
                if not self._reader.refresh():
                    raise CorruptBytesError(f"the list of recent files is missing: {error}") from error
                continue
            if not any(isinstance(file, Unreadable) for file in files.values()) or not self._reader.refresh():
                return recent, files

    def _read(self, snapshot: Snapshot) -> tuple[Recent, Files]:
        """The recent files of a version."""
        manifest = self._reader.table.manifest(snapshot.recent)
        names = [entry.name for entry in manifest.entries]
        files = dict(zip(names, self._reader.table.place.each(self._known, names), strict=True))
        return Recent(snapshot.version, manifest, list(files.values()), self._eps, self._kept), files

    def _known(self, name: str) -> RecentFile | Unreadable:
        """A recent file; one that is damaged or missing is a matter of the windows that need it, not of others."""
        held = self._files.get(name)
        if isinstance(held, RecentFile):
            return held
        try:
            return RecentFile(self._reader.table.place.mapped(name), name)
        except (FileNotFoundError, CorruptBytesError) as error:
            return Unreadable(name, str(error))


def _follow(stream: "weakref.ref[LiveStream]", end: Event, often: float) -> None:
    """Poll until the stream is closed or forgotten. What goes wrong is told by the next question."""
    while not end.wait(often):
        live = stream()
        if live is None:
            return
        try:
            live.poll()
        except Exception as error:
            disk = isinstance(error, OSError) and not isinstance(error, QuantideError)
            live._trouble = StorageError(f"commits cannot be followed: {error}") if disk else error
        del live
