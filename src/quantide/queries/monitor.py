"""Monitor: any number of standing quantile queries over one stream, one window, or whatever can be summarised."""

import time
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quantide.errors import CopyError, InvalidArgumentError
from quantide.queries import state
from quantide.queries.alone import alone
from quantide.queries.board import TRIGGERS, UPDATES
from quantide.queries.clusters import CLUSTERINGS, ONLINE
from quantide.queries.conditions import POSSIBLE, STATES, Conditions
from quantide.queries.deadlines import DeadlineBoard
from quantide.queries.intervals import read_queries
from quantide.queries.listeners import Failure, Listener, Listeners, check_listener
from quantide.queries.passes import PassBoard
from quantide.queries.pulled import Pull, PulledSource
from quantide.queries.results import Answers, Changes, Lookup, Query
from quantide.queries.source import MarkedSketch
from quantide.queries.windowed import Window, WindowSource
from quantide.summary.answer import Answer
from quantide.summary.column import read_column
from quantide.summary.copying import CopiedByBytes
from quantide.summary.ranks import check_eps, check_not_empty, check_phi, check_size, target_ranks
from quantide.summary.summary import Summary
from quantide.summary.types import type_named

Ints = NDArray[np.int64]

MOST_CHANGES = state.MOST  # after which clusters may be made anew
CONDITION = 1 << 62  # the bit that tells the id of a condition from that of a query
ALMOST_ONE = float(np.nextafter(1, 0))


class Monitor(CopiedByBytes):
    """Keeps any number of quantile queries right over a stream, at the cost of a few.

    A query (phi, eps_q) always has a value whose rank is within eps_q * n of its target: an answer with a certificate,
    whenever it is read. Queries that one value can serve are a cluster; each cluster has a deadline, the number of
    arrivals up to which its value must stay right wherever they fall, and only then is it looked at again. A
    precision finer than the monitor's eps is raised to it.

    Parameters: `eps`, the finest precision; `clustering`: "online" takes queries one by one and clusters all of them
    anew after many changes, "worst-case" (QC-A) and "fewest" (QC-B) cluster all of them whenever some were registered
    or dropped; `updates`: "triggers" looks at a cluster when its own deadline has passed, "together" at all when the
    first has; `nan` and `value_type` as for StreamSketch; `recluster_after`: changes after which "online" clusters
    anew (default: half the number of queries, at least 1,024); `window`: a SlidingWindow or a RecentWindow of at most
    half this eps to watch instead of the whole stream, with `last` or `within` for a part of a RecentWindow. A window
    is looked at again after floor(eps*n/2) arrivals; one by time, after every block (`updates` does not matter);
    `pull`: a function that gives (version, summary) of something to follow, which may grow, shrink and be replaced:
    the version is another whenever it may have, and the summary's error at most eps/2. It is asked at every reading.
    `grows`: what is followed only grows, so that values need not change when a summary leaves them out.

    >>> monitor = Monitor(eps=0.001)
    >>> p99 = monitor.register(0.99, eps=0.005)
    >>> many = monitor.register_many(np.linspace(0.01, 1, 1000), 0.02)
    >>> monitor.update(np.arange(100_000.0))
    >>> len(monitor.changes()), monitor.stats()["clusters"] < 60
    (1001, True)
    >>> answer = monitor.answer(p99)
    >>> answer.target, answer.error <= 0.005
    (99000, True)

    Threads may share a monitor: its methods wait for each other, but never for an on_change function, which may use it
    and may wait for other threads that do. These functions are called one at a time, in the order of the changes; an
    update that comes while another thread, or such a function, is at it leaves its own news to that one. `pull` is
    called while others wait: it must not wait for them.

    A copy, by `copy` or `pickle`, goes on from the same state by itself: over its own copy of the window, with no
    on_change functions (give them to the copy by listen()) and none of the failures. A monitor with `pull` is not
    copied: CopyError.

    Proofs: docs/guarantees/queries.md. After Lin, Xu, Zhang, Lu, Yu, Zhou and Yuan, "Approximate processing of massive
    continuous quantile queries over high-speed data streams", TKDE 18(5), 2006.
    """

    def __init__(
        self,
        eps: float,
        clustering: str = ONLINE,
        updates: str = TRIGGERS,
        nan: str = "refuse",
        value_type: str | None = None,
        recluster_after: int | None = None,
        window: Window | None = None,
        last: int | None = None,
        within: Any = None,
        pull: Pull | None = None,
        grows: bool = False,
    ) -> None:
        _check_choice("clustering", clustering, CLUSTERINGS)
        _check_choice("updates", updates, UPDATES)
        often = None if recluster_after is None else check_size("recluster_after", recluster_after, 1)
        if often is not None and often > MOST_CHANGES:
            raise InvalidArgumentError(f"recluster_after must be at most {MOST_CHANGES}, not {often}")
        if window is None and not (last is None and within is None):
            raise InvalidArgumentError("last= and within= are of use only together with window=")
        if grows and pull is None:
            raise InvalidArgumentError("grows= is of use only together with pull=")
        if window is not None and pull is not None:
            raise InvalidArgumentError("a monitor watches a window or follows a source: not window= and pull= both")
        choices = clustering, updates, often
        if window is not None:
            self._begin(PassBoard(WindowSource(window, check_eps(eps), last, within), *choices), Conditions())
        elif pull is not None:
            kind = None if value_type is None else type_named(value_type)
            self._begin(PassBoard(PulledSource(pull, check_eps(eps), kind, grows), *choices), Conditions())
        else:
            self._begin(DeadlineBoard(MarkedSketch(eps, nan, value_type), *choices), Conditions())

    def _begin(self, board: DeadlineBoard | PassBoard, conditions: Conditions) -> None:
        self._board, self._conditions, self._listeners = board, conditions, Listeners()
        self._stream: MarkedSketch | WindowSource | PulledSource = board.stream
        self._lock = board.lock
        self._seconds = 0.0

    @property
    def eps(self) -> float:
        """The finest precision a query can have."""
        return self._stream.eps

    @property
    @alone
    def n(self) -> int:
        """How many values have arrived; over a window, or what is followed: how many there are now."""
        return self._now().n

    @alone
    def __len__(self) -> int:
        """How many queries are registered."""
        return len(self._board.queries)

    @alone
    def register(self, phi: float, eps: float, on_change: Listener | None = None) -> int:
        """A new query; its id. `on_change(id, value)` is called after an update that changed its value."""
        check_listener(on_change)
        ids = self.register_many([check_phi(phi)], eps)
        if on_change is not None:
            self._listeners.queries.add(ids.tolist(), on_change)
        return int(ids[0])

    @alone
    def register_many(self, phis: ArrayLike, epss: ArrayLike) -> Ints:
        """Many queries at once, with a precision each or one for all; their ids."""
        wanted, given = read_queries(phis, epss, self.eps)
        return self._board.queries.ids(self._board.add(wanted, given))

    @alone
    def watch(
        self, phi: float, eps: float, above: Any = None, below: Any = None, on_change: Listener | None = None
    ) -> int:
        """A condition: whether the phi-quantile is above, or below, a limit; its id. See condition().

        A precision below 2 * eps is raised to that: bounds on a count are that far apart.
        """
        check_listener(on_change)
        if (above is None) == (below is None):
            raise InvalidArgumentError("a condition has one limit: give either above= or below=")
        wanted, given = read_queries([check_phi(phi)], eps, min(2 * self.eps, ALMOST_ONE))
        limit = below if above is None else above
        place = self._conditions.watch(wanted, given, limit, above is not None, self._stream.type)
        one = int(self._conditions.ids(np.array([place]))[0]) | CONDITION
        if on_change is not None:
            self._listeners.conditions.add([one], on_change)
        return one

    @alone
    def condition(self, id: int) -> str:
        """Whether a condition holds: "no", "possible" or "certain", proved by rank bounds; no values: "possible"."""
        place = self._conditions.place(_condition_id(id))
        return STATES[self._conditions.state[place] if self._look() else POSSIBLE]

    @alone
    def query(self, id: int) -> Query:
        """phi and the precision in force of a query or a condition."""
        held = self._conditions if _is_condition(id) else self._board.queries
        place = held.place(_condition_id(id) if _is_condition(id) else id)
        return Query(int(id), float(held.phi[place]), float(held.eps[place]))

    @alone
    def listen(self, id: int, on_change: Listener) -> None:
        """Let a function be called with (id, value) after an update that changed a query, as with register()."""
        check_listener(on_change)
        self.query(id)
        audience = self._listeners.conditions if _is_condition(id) else self._listeners.queries
        audience.add([int(id)], on_change)

    @alone
    def drop(self, id: int) -> None:
        """Forget a query or a condition."""
        if _is_condition(id):
            self._conditions.remove(np.array([self._conditions.place(_condition_id(id))]))
            self._listeners.conditions.remove([int(id)])
        else:
            self.drop_many([id])

    @alone
    def drop_many(self, ids: ArrayLike) -> None:
        """Forget many queries."""
        places = self._board.queries.places(ids)
        if len(np.unique(places)) < len(places):
            raise InvalidArgumentError("an id is among the ids to drop twice; give each once")
        if len(self._listeners):
            self._listeners.queries.remove(self._board.queries.ids(places).tolist())
        self._board.remove(places)

    def update(self, values: Any, nan: str | None = None, times: Any = None) -> None:
        """Take values as the sketch or window does: all of them or, when it raises, none. Times are for a window."""
        stream = self._fed()
        self._lock.acquire()  # half as dear as `with`, which is felt where values come one by one
        try:
            if self._conditions.raw and (kind := read_column(values).type) is not None:
                self._conditions.check_limits(kind)
            if isinstance(stream, WindowSource):
                stream.update(values, nan, times)
            elif times is not None:
                raise InvalidArgumentError("times are of use only to a monitor over a RecentWindow")
            else:
                stream.update(values, nan)
        finally:
            self._lock.release()
        self.refresh()

    def update_summary(self, summary: Summary, first_time: Any = None, last_time: Any = None) -> None:
        """Take all the values behind a summary; its certified error may be at most eps/2, of the window's eps."""
        stream = self._fed()
        with self._lock:
            self._conditions.check_limits(summary.type)
            if isinstance(stream, WindowSource):
                stream.update_summary(summary, first_time, last_time)
            elif not (first_time is None and last_time is None):
                raise InvalidArgumentError("times are of use only to a monitor over a RecentWindow")
            else:
                stream.update_summary(summary)
        self.refresh()

    def refresh(self) -> None:
        """Tell listeners what is new. After an update that is done already; what is followed changes without one."""
        listeners = self._listeners
        if listeners.queries.functions or listeners.conditions.functions:
            self._find_news()
            listeners.tell()

    @alone
    def _find_news(self) -> None:
        """Note what listeners have not heard yet."""
        if not self._look():
            return
        queries, conditions = self._listeners.queries, self._listeners.conditions
        queries.settle()
        conditions.settle()
        values = self._board.current(self._board.queries.places(queries.ids))[0]
        states = self._conditions.state[self._conditions.places(conditions.ids & ~CONDITION)]
        fresh, other = queries.news(values), conditions.news(states)
        changed, turned = queries.ids[fresh].tolist(), conditions.ids[other].tolist()
        self._listeners.note(queries, changed, self._stream.kind.restore(values[fresh]))
        self._listeners.note(conditions, turned, [STATES[state] for state in states[other]])

    @alone
    def answer(self, id: int) -> Answer:
        """The value of a query now, with the ranks it is proved to have."""
        return self._answers(np.array([self._board.queries.place(id)]))[0]

    @alone
    def answers(self, ids: ArrayLike) -> Answers:
        """Those of many queries."""
        return self._answers(self._board.queries.places(ids))

    @alone
    def changes(self) -> Changes:
        """The queries whose value, and the conditions whose state, is another than when this was called before."""
        if not self._look():
            return Changes(self._stream.kind, 0, Lookup(lambda: (np.empty(0, dtype=np.int64), np.empty(0))), [])
        news = self._conditions.tell() if len(self._conditions) else []
        conditions = [(one | CONDITION, said) for one, said in news]
        return Changes(self._stream.kind, *self._board.tell(), conditions)

    @alone
    def summary(self) -> Summary:
        """A Summary of everything that has arrived, or is there."""
        return self._now().summary()

    @alone
    def failures(self) -> list[Failure]:
        """What on_change functions raised since this was asked, the last 1,000 of it."""
        return self._listeners.failures()

    @alone
    def stats(self) -> dict[str, Any]:
        """Numbers of queries, clusters, evaluations of clusters, triggers fired, and so on; seconds spent on them.

        `saved` is how many evaluations of single queries clusters made needless: what evaluating every query takes
        whenever something has arrived and it is looked at, less the evaluations of clusters. `deadline` is for how
        many further arrivals all values stay right, as of the last look; None where that is not known.
        """
        clusters = self._board.clusters
        return {
            "n": self._stream.n,
            "queries": len(self),
            "conditions": len(self._conditions),
            "clusters": 0 if clusters is None else len(clusters),
            **self._board.counts,
            "saved": self._board.saved,
            "deadline": self._board.deadline,
            "summaries": self._stream.marked,
            "failed_callbacks": self._listeners.failed,
            "seconds": self._seconds,
        }

    @alone
    def to_bytes(self) -> bytes:
        """The whole state but for listeners, and what is followed: from_bytes() goes on as if never stopped."""
        return state.write(self._board, self._conditions)

    @classmethod
    def from_bytes(cls, data: bytes, pull: Pull | None = None, grows: bool = False) -> Self:
        """A monitor in exactly the state that to_bytes() wrote; listen() gives listeners back.

        One that followed a source needs `pull`, to follow that one or another with values of the same type; `grows`
        only if it is that one.
        """
        monitor = cls.__new__(cls)
        monitor._begin(*state.read(data, pull, grows))
        return monitor

    def __reduce__(self) -> Any:
        if isinstance(self._stream, PulledSource):
            raise CopyError(
                "a Monitor with pull= cannot be copied or pickled, since its function cannot; make another one that "
                "follows the same source: Monitor.from_bytes(monitor.to_bytes(), pull=...)"
            )
        return super().__reduce__()

    @alone
    def __repr__(self) -> str:
        n = self._stream.n
        return f"Monitor(eps={self.eps}, n={n}, queries={len(self)}, clustering={self._board.clustering!r})"

    def _fed(self) -> MarkedSketch | WindowSource:
        """What takes values."""
        if isinstance(self._stream, PulledSource):
            raise InvalidArgumentError("this monitor follows its source; give values to that, and call refresh()")
        return self._stream

    def _now(self) -> MarkedSketch | WindowSource | PulledSource:
        """What is watched, as it is now."""
        if isinstance(self._stream, PulledSource):
            self._stream.look()
        return self._stream

    def _look(self) -> int:
        """Let everything be right for what there is now, and say how many elements that is."""
        begun = time.perf_counter()
        n = self._now().n
        self._board.refresh()
        if n and len(self._conditions):
            self._board.decide(self._conditions)
        self._seconds += time.perf_counter() - begun
        return n

    def _answers(self, places: Ints) -> Answers:
        n = self._look()
        check_not_empty(n)
        values, low, high = self._board.current(places)
        phi = self._board.queries.phi[places]
        version = self._stream.version if isinstance(self._stream, PulledSource) else None
        return Answers(self._stream.kind, values, phi, target_ranks(phi, n), low, high, n, version)


def _is_condition(id: Any) -> bool:
    return isinstance(id, (int, np.integer)) and not isinstance(id, bool) and bool(id >= CONDITION)


def _condition_id(id: Any) -> int:
    if not _is_condition(id):
        raise InvalidArgumentError(f"the id of a condition is the number that watch() returned, not {id!r}")
    return int(id) & ~CONDITION


def _check_choice(name: str, given: Any, known: tuple[str, ...]) -> None:
    if given not in known:
        raise InvalidArgumentError(f"{name}={given!r} is not known; choose one of {', '.join(known)}")
