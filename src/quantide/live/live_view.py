"""Live views: the data of a query scope at one version, its answers, and the cache of these views."""

import math
import time
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

from quantide.caching import ByteLRU
from quantide.errors import EmptyError, InvalidArgumentError, QuantideError, UnknownKeyError
from quantide.history.history_reader import HistoryReader
from quantide.history.snapshot import Snapshot
from quantide.history.span_view import MODES, SpanView
from quantide.live.recent_snapshot import RecentSnapshot
from quantide.live.scope import QueryScope, resolve_window
from quantide.summary.answer import Answer, AnswerAsOf
from quantide.summary.summary import Summary
from quantide.summary.value_types import type_named

T = TypeVar("T")

MAX_PREPARED = 16  # answers of one view that are computed for a new version; more are unlikely to be repeated
TUPLE_BYTES = 24  # of a value and its ranks
VIEWS = "views"  # with a version, the cache group of that version's views
MAX_EXPECTED, PREPARE_SECONDS = 256, 0.25  # queries that are prepared for a new version, and the time for it


@dataclass(frozen=True, slots=True)
class LiveAnswer(AnswerAsOf):
    """Answer of a live stream."""


@dataclass(frozen=True, slots=True)
class LiveBand:
    """An answer and a band around it: the true quantile, the value at rank `answer.target`, is proved to be at least
    `low` and at most `high`. Both are values that arrived."""

    answer: LiveAnswer
    low: Any
    high: Any


@dataclass(frozen=True, slots=True)
class LiveRank:
    """Proved bounds, `rank_lo` to `rank_hi`, on how many of `n` values are at most `value`. The rest as LiveAnswer."""

    value: Any
    rank_lo: int
    rank_hi: int
    n: int
    version: int
    mode: str
    last_steps: int | None
    since: Any
    until: Any


@dataclass(frozen=True, slots=True)
class LiveComparison:
    """The same phi of two windows. `place` bounds the fraction of the other window at or below `value`'s value: for p99
    of now, (0.997, 0.998) means that it was p99.7 to p99.8 of the window it is compared with."""

    phi: float
    value: LiveAnswer
    against: LiveAnswer
    place: tuple[float, float]


@dataclass(frozen=True)
class LiveHistoryView:
    """Everything, or the last steps: the runs and the open step."""

    version: int
    stored: SpanView
    since = until = None

    @property
    def n(self) -> int:
        return self.stored.n

    @property
    def last_steps(self) -> int:
        return self.stored.last_steps

    @property
    def nbytes(self) -> int:
        """Approximate memory, including its summary."""
        eps, tail = self.stored.profile
        ends = 0 if tail is None else 2 * math.log(2 + 2 * tail * self.stored.n) / tail
        tuples = min(self.stored.n, len(self.stored.runs) * (1 / eps + ends))
        return self.stored.open_step.nbytes + int(tuples) * TUPLE_BYTES

    def is_cached(self, phi: float, mode: str) -> bool:
        """Return True if an answer needs no reading or merging."""
        return self.stored.is_cached(phi, mode)

    def is_scanned(self, mode: str) -> bool:
        """Return True if an answer scans files."""
        return self.stored.is_scanned(mode)

    def prepare(self, before: "View") -> None:
        """Compute the answers that an older version gave, unless they are many."""
        given = before.stored.cached_queries if isinstance(before, LiveHistoryView) else []
        for phi, mode in given if len(given) <= MAX_PREPARED else given[-1:]:
            if not self.is_scanned(mode):  # it would read much, after every commit
                self.answer(phi, mode)

    @property
    def summary(self) -> Summary:
        """Summary within eps of all elements; it reads no data."""
        return self.stored.quick

    def answer(self, phi: float, mode: str) -> LiveAnswer:
        return self.answers([phi], mode)[0]

    def answers(self, phis: Sequence[float], mode: str) -> list[LiveAnswer]:
        return [
            _live_answer(a, self.version, mode, a.blocks_read, a.last_steps, None, None, a.requests)
            for a in self.stored.answers(phis, mode)
        ]

    def band(self, phi: float, mode: str) -> LiveBand:
        return LiveBand(self.answer(phi, mode), *self.stored.bounds(phi, mode))

    def rank(self, value: Any, mode: str, inclusive: bool = True) -> tuple[Any, Any]:
        return self.stored.rank(value, mode, inclusive)


@dataclass(frozen=True)
class LiveWindowView:
    """A window of recent values: its summary, and one of all rows for exact answers."""

    version: int
    summary: Summary
    all_rows: Callable[[], Summary]
    key: Any
    since: Any
    until: Any
    last_steps = None

    @property
    def n(self) -> int:
        return self.summary.n

    @property
    def nbytes(self) -> int:
        return self.summary.nbytes

    def is_cached(self, phi: float, mode: str) -> bool:
        return mode != "exact"

    def is_scanned(self, mode: str) -> bool:
        return False

    def prepare(self, before: "View") -> None:
        """Do nothing: the summary is ready."""

    def answer(self, phi: float, mode: str) -> LiveAnswer:
        a = self._summary(mode).answer(phi)
        return _live_answer(a, self.version, mode, 0, None, self.since, self.until)

    def answers(self, phis: Sequence[float], mode: str) -> list[LiveAnswer]:
        return [self.answer(phi, mode) for phi in phis]

    def band(self, phi: float, mode: str) -> LiveBand:
        return LiveBand(self.answer(phi, mode), *self._summary(mode).bounds(phi))

    def rank(self, value: Any, mode: str, inclusive: bool = True) -> tuple[Any, Any]:
        return self._summary(mode).rank(value, inclusive=inclusive)

    def _summary(self, mode: str) -> Summary:
        if mode not in MODES:
            raise InvalidArgumentError(f"mode={mode!r} is not one of {', '.join(MODES)}")
        if not self.summary.n and self.key is not None:
            raise UnknownKeyError(f"there is no value with the key {self.key!r} in this window")
        if not self.summary.n:
            raise EmptyError("the window is empty: nothing that arrived lies within it; ask for a longer one")
        return self.all_rows() if mode == "exact" else self.summary


View = LiveHistoryView | LiveWindowView


def _live_answer(
    a: Answer, version: int, mode: str, blocks: int, steps: int | None, since: Any, until: Any, requests: int = 0
) -> LiveAnswer:
    same = (a.value, a.phi, a.target, a.rank_lo, a.rank_hi, a.n, a.error, a.n_lo, a.n_hi)
    return LiveAnswer(*same, version, mode, blocks, steps, since, until, requests)


class LiveViewCache:
    """Thread-safe cache of views by scope, for the versions that queries are answered from.

    Scopes of recent values are about the version of `recent`; others about the reader's, which may be newer, or a
    given snapshot's.
    """

    def __init__(self, reader: HistoryReader, cache: ByteLRU, max_span: Fraction | None) -> None:
        self._reader, self._cache, self._max_span = reader, cache, max_span
        self._kind = type_named(reader.settings.value_type)
        self._expected: dict[Hashable, QueryScope] = {}  # scopes of queries since the last commit
        self._versions: set[int] = set()  # of cached views

    def get(self, scope: QueryScope, recent: RecentSnapshot, snapshot: Snapshot | None = None) -> View:
        """Return the view of a scope; cache it if the scope is hashable."""
        key = scope.cache_key
        if key is None:
            return self._build(scope, recent, snapshot)
        version = self._version(scope, recent, snapshot)
        return self.get_result(version, key, lambda: self._build(scope, recent, snapshot), lambda view: view.nbytes)

    def get_result(self, version: int, name: Hashable, compute: Callable[[], T], size: Callable[[T], int]) -> T:
        """Return a result about a version; compute and cache it on a miss, until the version is no longer current."""
        self._versions.add(version)
        return self._cache.get((VIEWS, version), name, compute, size)

    def peek(self, scope: QueryScope, recent: RecentSnapshot) -> View | None:
        """Return the view of a scope if it is cached."""
        view: View | None = self._cache.peek((VIEWS, self._version(scope, recent, None)), scope.cache_key)
        return view

    def expect(self, scope: QueryScope) -> None:
        """Expect a query about this scope after the next commit."""
        key = scope.cache_key
        if len(self._expected) < MAX_EXPECTED and key is not None:
            self._expected[key] = scope

    def prepare(self, snapshot: Snapshot, recent: RecentSnapshot, before: RecentSnapshot) -> None:
        """Build the views of expected queries for a version before queries are answered from it.

        Otherwise the first queries after a commit would all wait for them.
        """
        end = time.monotonic() + PREPARE_SECONDS
        for scope in list(self._expected.values()):
            old = self._cache.peek((VIEWS, before.version), scope.cache_key)
            if old is not None and time.monotonic() < end:
                with suppress(QuantideError, OSError):  # the query itself raises it
                    self.get(scope, recent, snapshot).prepare(old)

    def advance(self, recent: RecentSnapshot) -> None:
        """Invalidate views of older versions, and expect no queries."""
        self._expected, current = {}, {recent.version, self._reader.version}
        self._cache.invalidate([(VIEWS, version) for version in self._versions - current])
        self._versions &= current

    def _version(self, scope: QueryScope, recent: RecentSnapshot, snapshot: Snapshot | None) -> int:
        if scope.recent:
            return recent.version
        return self._reader.version if snapshot is None else snapshot.version

    def _build(self, scope: QueryScope, recent: RecentSnapshot, snapshot: Snapshot | None) -> View:
        if scope.recent:
            return self._build_window(scope, recent)
        cached = scope.cache_key is None  # otherwise this cache has the view, with its version
        if snapshot is not None:
            stored = self._reader.span_view(scope.last_steps, scope.key, snapshot=snapshot, cached=cached)
            return LiveHistoryView(snapshot.version, stored)
        while True:
            version, stored = self._reader.version, self._reader.span_view(scope.last_steps, scope.key, cached=cached)
            if self._reader.version == version:  # else there was a commit in between
                return LiveHistoryView(version, stored)

    def _build_window(self, scope: QueryScope, recent: RecentSnapshot) -> LiveWindowView:
        selection, since, until = resolve_window(scope, recent, self._reader, self._max_span)

        def summarise_all() -> Summary:
            return recent.summary(selection, self._kind, True)

        def all_rows() -> Summary:
            if scope.cache_key is None:
                return summarise_all()
            name: Any = (scope.cache_key, "exact")
            return self._cache.get((VIEWS, recent.version), name, summarise_all, lambda summary: summary.nbytes)

        return LiveWindowView(
            recent.version, recent.summary(selection, self._kind, False), all_rows, scope.key, since, until
        )
