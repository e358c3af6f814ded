"""Monitors with a pulled source: every query is right at every version."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantide import Monitor, RecentWindow, SlidingWindow, Summary, errors
from tests import oracle
from tests.queries import query_model
from tests.sampling import one_in

EPS = 0.05
Rng = np.random.Generator
Pair = tuple[float, float]

DRAWS: dict[str, Callable[[Rng, int], Any]] = {
    "floats": lambda rng, n: rng.normal(float(rng.integers(-2, 3)), 1, n),
    "float32": lambda rng, n: rng.random(n).astype(np.float32),
    "integers": lambda rng, n: rng.integers(-1000, 1000, n),
    "few values": lambda rng, n: rng.integers(0, 4, n).astype(float),
    "huge integers": lambda rng, n: rng.integers(2**62, 2**63 - 1, n),
}


class Followed:
    """Something that changes by itself. Its summaries are as bad as they may be, but true."""

    def __init__(self, rng: Rng, draw: str = "floats", eps: float = EPS) -> None:
        self.rng, self.draw, self.eps = rng, DRAWS[draw], eps
        self.version = self.changes = self.pulls = 0
        self.data = self.draw(rng, 0)
        self.summary = Summary.of(self.data)

    def become(self, data: Any) -> None:
        self.data, self.summary = data, loosened(data, self.eps / 2, self.rng)
        self.changes += 1
        self.version = self.changes * (-1) ** self.changes  # any number that was not there before

    def change(self, how: str, count: int) -> None:
        """Grow, at random or at one end; shrink, at random or at one end; be replaced; be emptied; be touched only."""
        data = self.data
        if how == "grow":
            self.become(np.concatenate((data, self.draw(self.rng, count))))
        elif how == "crowd" and len(data):
            self.become(np.concatenate((data, np.repeat(np.sort(data)[[0, -1]][count % 2], count))))
        elif how == "shrink":
            self.become(self.rng.permutation(data)[count:])
        elif how == "cut":
            self.become(np.sort(data)[count:] if count % 2 else np.sort(data)[: max(0, len(data) - count)])
        elif how == "replace":
            self.become(self.draw(self.rng, count))
        elif how == "empty":
            self.become(data[:0])
        elif how == "touch":
            self.become(data)

    def pull(self) -> tuple[int, Summary]:
        self.pulls += 1
        return self.version, self.summary


def loosened(data: Any, error: float, rng: Rng) -> Summary:
    """A true summary of a certified error up to this, used up by tuples that are far apart, loose ranks, or both."""
    exact = Summary.of(data)
    n, most = exact.n, int(error * exact.n)
    if not n:
        return exact
    loose = int(rng.integers(0, most + 1))
    inner = np.cumsum(rng.integers(1, 2 * (most - loose) + 2, n))
    ranks = np.unique(np.concatenate(([1], inner[inner < n], [n])))
    rmin, rmax = (ranks + side * rng.integers(0, loose + 1, len(ranks)) for side in (-1, 1))
    rmin[[0, -1]], rmax[[0, -1]] = ranks[[0, -1]], ranks[[0, -1]]
    for i in range(len(ranks) - 2, -1, -1):
        rmin[i] = max(i + 1, min(rmin[i], rmin[i + 1] - 1))
    return Summary(exact.carried[ranks - 1], rmin, np.minimum(np.maximum.accumulate(rmax), n), n, exact.type)


def condition_faults(monitor: Monitor, watched: dict[int, tuple[float, float, Any, Any]], data: Any) -> list[str]:
    messages = []
    for one, (phi, eps, above, below) in watched.items():
        may_be = (
            query_model.states(data.tolist(), phi, max(eps, 2 * monitor.eps), above, below)
            if len(data)
            else {"possible"}
        )
        if monitor.condition(one) not in may_be:
            messages.append(f"({phi}, {eps}, {above}, {below}) is {monitor.condition(one)}, not {may_be}")
    return messages


def test_loosened_summaries_are_true(rng: Rng) -> None:
    """The loosened summaries of the attack are valid, and use the rules to the limit."""
    worst = 0.0
    for draw in DRAWS.values():
        for n in (1, 2, 39, 80, 300, 2000):
            data = draw(rng, n)
            summary = loosened(data, EPS / 2, rng)
            assert oracle.summary_faults(summary, data) == []
            worst = max(worst, summary.error)
    assert EPS / 2 * 0.9 < worst <= EPS / 2


HOW = ("grow", "grow", "crowd", "shrink", "cut", "replace", "empty", "touch")
SIZES = (1, 2, 15, 60, 150, 400)
steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(HOW), st.sampled_from(SIZES)),
        st.tuples(st.sampled_from(["register", "register", "drop", "watch", "bytes"]), st.integers(1, 8)),
    ),
    min_size=4,
    max_size=30,
)


@given(
    st.sampled_from(sorted(DRAWS)),
    st.sampled_from(["online", "worst-case", "fewest"]),
    steps,
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=200)
def test_every_query_is_right_at_every_version(draw: str, clustering: str, script: list[Any], seed: int) -> None:
    """Any mixture of changes of the source and of the queries; changes() reports every change."""
    rng = np.random.default_rng(seed)
    source = Followed(rng, draw)
    monitor = Monitor(EPS, clustering, recluster_after=3, pull=source.pull)
    registered: dict[int, Pair] = {}
    watched: dict[int, tuple[float, float, Any, Any]] = {}
    seen: dict[int, Any] = {}
    for verb, number in script:
        if verb == "register":
            pairs = list(zip((1 - rng.random(number)).tolist(), rng.uniform(0.01, 0.4, number).tolist(), strict=True))
            registered |= dict(zip(monitor.register_many(*zip(*pairs, strict=True)).tolist(), pairs, strict=True))
        elif verb == "drop" and registered:
            one = list(registered)[number % len(registered)]
            monitor.drop(one)
            del registered[one]
            seen.pop(one, None)
        elif verb == "watch":
            phi, eps = 1 - float(rng.random()), float(rng.uniform(0.05, 0.4))
            limit = (source.data if len(source.data) else source.draw(rng, 1))[0].item()
            above, below = (limit, None) if number % 2 else (None, limit)
            watched[monitor.watch(phi, eps, above, below)] = phi, eps, above, below
        elif verb == "bytes":
            monitor = Monitor.from_bytes(monitor.to_bytes(), pull=source.pull)
        else:
            source.change(verb, number)
        assert condition_faults(monitor, watched, source.data) == []
        assert monitor.n == len(source.data)
        if len(source.data):
            assert query_model.faults(monitor, registered, source.data.tolist()) == []
            seen |= dict(monitor.changes())
            assert seen == {one: monitor.answer(one).value for one in registered}
        else:
            assert not monitor.changes()
        assert not monitor.changes()
        assert query_model.clusters_faults(monitor) == []


@pytest.mark.parametrize(("eps", "draw"), one_in(4, product([0.01, 0.1, 0.6], sorted(DRAWS))))
def test_many_queries_over_large_content(eps: float, draw: str, rng: Rng) -> None:
    """Sizes that leap up and down across what clusters need; the ends; precisions from below eps to nearly 1."""
    source = Followed(rng, draw, eps)
    monitor = Monitor(eps, pull=source.pull)
    pairs = [(phi, float(e)) for phi in (1e-9, 0.5, 1.0) for e in (eps / 9, eps, 0.99)]
    pairs += list(
        zip((1 - rng.random(60)).tolist(), rng.uniform(eps / 2, min(0.99, 9 * eps), 60).tolist(), strict=True)
    )
    registered = dict(zip(monitor.register_many(*zip(*pairs, strict=True)).tolist(), pairs, strict=True))
    for _ in range(60):
        source.change(
            str(rng.choice(["grow", "crowd", "shrink", "cut", "replace"])), int(rng.choice([1, 9, 150, 3000]))
        )
        if len(source.data):
            assert query_model.faults(monitor, registered, source.data.tolist()) == []
    assert monitor.stats()["evaluations"] > 0


@given(st.integers(1, 400), st.integers(0, 2**32 - 1))
@settings(max_examples=100)
def test_elements_that_may_be_missing(n: int, seed: int) -> None:
    """Answers about a lifted summary are right for any number of its unseen elements."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(0, int(EPS / 2 * n / (1 - EPS / 2)) + 1))
    data, unseen = rng.integers(0, 50, n), rng.integers(0, 50, k)
    summary = Summary.of(data).lift(k)
    monitor = Monitor(EPS, pull=lambda: (1, summary))
    pairs = list(zip((1 - rng.random(30)).tolist(), rng.uniform(EPS, 0.3, 30).tolist(), strict=True))
    ids = monitor.register_many(*zip(*pairs, strict=True))
    alarms = [(monitor.watch(phi, eps, above=25), phi) for phi, eps in pairs]
    for there in {0, k // 2, k}:
        ordered = np.sort(np.concatenate((data, unseen[:there]))).tolist()
        for answer, (phi, eps) in zip(monitor.answers(ids), pairs, strict=True):
            first, last = oracle.occupied(ordered, answer.value)
            target = oracle.target_rank(phi, len(ordered))
            assert first <= last
            assert max(first - target, target - last) <= eps * len(ordered) + 1e-9
            assert first <= answer.rank_hi
            assert last >= answer.rank_lo
        for one, phi in alarms:
            true = ordered[oracle.target_rank(phi, len(ordered)) - 1] > 25
            assert monitor.condition(one) in ("possible", "certain" if true else "no")


@given(st.sampled_from(sorted(DRAWS)), st.lists(st.sampled_from([0, *SIZES]), max_size=25), st.integers(0, 2**32 - 1))
@settings(max_examples=100)
def test_what_only_grows(draw: str, sizes: list[int], seed: int) -> None:
    """Values that no tuple has any more stay while they are right: they are still elements."""
    rng = np.random.default_rng(seed)
    source = Followed(rng, draw)
    monitor = Monitor(EPS, recluster_after=3, pull=source.pull, grows=True)
    registered: dict[int, Pair] = {}
    for size in sizes:
        source.change("crowd" if rng.random() < 0.2 else "grow", size)
        if rng.random() < 0.5:
            pair = 1 - float(rng.random()), float(rng.uniform(0.01, 0.4))
            registered[monitor.register(*pair)] = pair
        if rng.random() < 0.2:
            monitor = Monitor.from_bytes(monitor.to_bytes(), pull=source.pull, grows=True)
        if len(source.data):
            assert query_model.faults(monitor, registered, source.data.tolist()) == []
        monitor.changes()


def test_what_only_grows_changes_little(rng: Rng) -> None:
    source = Followed(rng)
    monitors = [Monitor(EPS, pull=source.pull, grows=grows) for grows in (True, False)]
    phis, epss = 1 - rng.random(300), rng.uniform(0.1, 0.3, 300)
    changes = [0, 0]
    for monitor in monitors:
        monitor.register_many(phis, epss)
    source.become(rng.normal(size=3000))
    for _ in range(20):
        for i, monitor in enumerate(monitors):
            changes[i] += len(monitor.changes())
        source.become(np.concatenate((source.data, rng.normal(size=30))))
    assert 2 * changes[0] < changes[1]


def test_nothing_is_done_while_the_version_is_the_same(rng: Rng) -> None:
    source = Followed(rng)
    monitor = Monitor(EPS, pull=source.pull)
    ids = monitor.register_many(np.linspace(0.01, 1, 50), 0.1)
    monitor.watch(0.5, 0.1, above=0)
    source.change("replace", 1000)
    assert len(monitor.changes()) == 50
    clusters, done = monitor.stats()["clusters"], monitor.stats()["evaluations"]
    assert clusters == done
    for _ in range(3):
        monitor.answers(ids)
        assert not monitor.changes()
    assert monitor.stats()["evaluations"] == done
    for _ in range(3):
        source.change("grow", 1)
        monitor.changes()
        monitor.answers(ids)
    assert monitor.stats()["evaluations"] == done + 3 * clusters
    assert monitor.stats()["clusterings"] == 1


def test_a_question_reads_one_state(rng: Rng) -> None:
    """The source may change at any moment: each question pulls once."""
    source = Followed(rng)
    monitor = Monitor(EPS, pull=source.pull)
    one, alarm = monitor.register(0.5, 0.1, on_change=lambda *_: None), monitor.watch(0.5, 0.1, above=0)
    source.change("grow", 500)
    questions: list[Callable[[], Any]] = [
        lambda: monitor.answer(one),
        lambda: monitor.answers([one, one]),
        monitor.changes,
        lambda: monitor.condition(alarm),
        monitor.refresh,
        monitor.summary,
        lambda: monitor.n,
    ]
    for question in questions:
        before = source.pulls
        question()
        assert source.pulls == before + 1
    before = source.pulls
    monitor.stats(), repr(monitor), monitor.query(one), monitor.register(0.3, 0.1), monitor.to_bytes()
    assert source.pulls == before


def test_refresh_notifies_listeners(rng: Rng) -> None:
    source = Followed(rng)
    monitor = Monitor(EPS, pull=source.pull)
    heard: list[Any] = []
    one = monitor.register(0.5, 0.1, on_change=lambda *news: heard.append(news))
    alarm = monitor.watch(0.5, 0.1, above=10, on_change=lambda *news: heard.append(news))
    monitor.refresh()
    assert heard == []
    for data, expected in (
        ([1.0, 2.0, 3.0], [(one, 2.0), (alarm, "no")]),
        ([1.0, 2.0, 3.0, 4.0], []),
        ([], []),
        ([20.0], [(one, 20.0), (alarm, "certain")]),
        ([], []),
        ([20.0], []),
    ):
        source.become(np.array(data))
        assert heard == []
        monitor.refresh()
        monitor.refresh()
        assert heard == expected
        heard.clear()


def test_content_arrives_and_leaves(rng: Rng) -> None:
    """Queries of a source without values have no answer, before the first value and after the last one left."""
    source = Followed(rng, "integers")
    monitor = Monitor(EPS, pull=source.pull)
    one, alarm = monitor.register(0.5, 0.1), monitor.watch(0.5, 0.1, below=0.5)
    for data in (np.arange(-9, 2), np.arange(500)):
        source.become(np.empty(0))
        with pytest.raises(errors.EmptyError):
            monitor.answer(one)
        assert not monitor.changes()
        assert (monitor.n, monitor.condition(alarm)) == (0, "possible")
        source.become(data)
        assert monitor.condition(alarm) == ("certain" if data[0] < 0 else "no")
        assert monitor.changes().ids.tolist() == [one]
        assert monitor.answer(one).value.dtype == np.int64


def test_queries_go_on_over_another_source(rng: Rng) -> None:
    """Bytes contain queries, conditions and their published values, but not the source."""
    source, other = Followed(rng), Followed(rng)
    source.change("replace", 2000)
    first = Monitor(EPS, pull=source.pull)
    ids = first.register_many(1 - rng.random(200), rng.uniform(0.05, 0.3, 200))
    alarm = first.watch(0.5, 0.1, above=10)
    assert first.changes().conditions == [(alarm, "no")]
    kept = first.to_bytes()
    second = Monitor.from_bytes(kept, pull=source.pull)
    assert second.to_bytes() == kept
    assert not second.changes()
    for _ in range(5):
        source.change("grow", 500)
        published = [monitor.changes() for monitor in (first, second)]
        assert published[0].ids.tolist() == published[1].ids.tolist()
        assert published[0].values.tolist() == published[1].values.tolist()
    other.become(rng.normal(20, 1, 1000))
    third = Monitor.from_bytes(kept, pull=other.pull)
    changes = third.changes()
    assert (len(changes), changes.conditions) == (200, [(alarm, "certain")])
    registered = {int(one): (third.query(int(one)).phi, third.query(int(one)).eps) for one in ids}
    assert query_model.faults(third, registered, other.data.tolist()) == []
    other.become(np.arange(5))
    with pytest.raises(errors.TypeMismatchError, match="int64"):
        third.changes()
    with pytest.raises(errors.InvalidArgumentError, match="pull="):
        Monitor.from_bytes(kept)
    with pytest.raises(errors.InvalidArgumentError, match="pull="):
        Monitor.from_bytes(Monitor(0.1).to_bytes(), pull=source.pull)


def test_hostile_bytes_are_refused_or_harmless(rng: Rng) -> None:
    source = Followed(rng)
    source.change("replace", 1000)
    monitor = Monitor(EPS, pull=source.pull)
    monitor.register_many(1 - rng.random(30), rng.uniform(0.05, 0.3, 30))
    monitor.watch(0.5, 0.1, above=3)
    monitor.changes()
    blob = monitor.to_bytes()
    for _ in range(600):
        altered = bytearray(blob)
        place, size = int(rng.integers(3, len(blob) - 4)), int(rng.choice([1, 1, 8]))
        altered[place : place + size] = rng.bytes(size) if rng.random() < 0.7 else b"\xff" * size
        body = bytes(altered[:-4])
        try:
            read = Monitor.from_bytes(body + struct.pack("<I", zlib.crc32(body)), pull=source.pull)
        except errors.QuantideError:
            continue
        assert len(read.changes()) <= len(read)


def test_what_does_not_fit_is_refused(rng: Rng) -> None:
    fine, coarse = Summary.of(rng.random(1000)), Summary.of(rng.random(1000)).compress(10)
    given_: list[Any] = [(1, fine)]
    monitor = Monitor(EPS, pull=lambda: given_[0])
    one = monitor.register(0.5, EPS / 10)
    assert monitor.query(one).eps == EPS
    before = monitor.answer(one)
    for values in ([1.0], 1.0):
        with pytest.raises(errors.InvalidArgumentError, match="follows its source"):
            monitor.update(values)
    with pytest.raises(errors.InvalidArgumentError, match="follows its source"):
        monitor.update_summary(fine)
    for wrong, error, says in (
        ((2, coarse), errors.TooCoarseError, "eps/2"),
        ((3, [1.0, 2.0]), errors.TypeMismatchError, "no Summary"),
        ((4, Summary.of([1, 2])), errors.TypeMismatchError, "float64"),
    ):
        given_[0] = wrong
        for question in (monitor.changes, monitor.summary, lambda: monitor.answer(one)):
            with pytest.raises(error, match=says):
                question()
    given_[0] = (1, fine)
    assert monitor.answer(one) == before
    with pytest.raises(errors.TooCoarseError, match="eps/2"):
        Monitor(EPS, pull=lambda: (1, coarse))
    with pytest.raises(errors.TypeMismatchError, match="int64"):
        Monitor(EPS, value_type="int64", pull=lambda: (1, fine))
    with pytest.raises(errors.InvalidArgumentError, match="function"):
        Monitor(EPS, pull=fine)  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidArgumentError, match="pull="):
        Monitor(EPS, grows=True)
    with pytest.raises(errors.InvalidArgumentError, match="both"):
        Monitor(EPS, window=SlidingWindow(10, 0.01), pull=lambda: (1, fine))


def test_a_window_that_is_fed_elsewhere(rng: Rng) -> None:
    """The source may be any part of a window, or several merged summaries."""
    window = RecentWindow(EPS / 2, max_age=60)
    monitor = Monitor(EPS, pull=lambda: (window.arrived, window.summary(within="20 s")))
    registered = {monitor.register(phi, eps): (phi, eps) for phi in (0.01, 0.5, 0.9, 1.0) for eps in (0.05, 0.2)}
    values, times = rng.normal(size=5000), np.sort(rng.random(5000)) * 100
    for at in range(0, 5000, 250):
        window.update(values[at : at + 250], times[at : at + 250])
        inside = values[: at + 250][times[: at + 250] > times[at + 249] - 20]
        ordered = np.sort(inside)
        for one, (phi, eps) in registered.items():
            value, target = monitor.answer(one).value, oracle.target_rank(phi, len(inside))
            first, last = np.searchsorted(ordered, value, "left") + 1, np.searchsorted(ordered, value, "right")
            assert max(first - target, target - last) <= eps * len(inside) + 1e-9


def test_saved_is_what_each_query_by_itself_would_have_taken(rng: Rng) -> None:
    """Expected count: all queries at every evaluation after a change, less evaluated clusters."""
    source = Followed(rng)
    monitor = Monitor(EPS, pull=source.pull)
    queries = plain = 0
    for number in range(12):
        monitor.register_many(rng.uniform(0.01, 1, 5), 0.1)
        queries += 5
        if number % 3 < 2:  # else there are more queries, and nothing else is new
            source.change("replace", 1000)
            plain += queries
        for _ in range(2):
            monitor.changes()
        stats = monitor.stats()
        assert stats["saved"] == plain - stats["evaluations"]
        assert stats["deadline"] is None, "elements may leave by any number"
    assert stats["saved"] > plain / 2


@pytest.mark.parametrize("end", [-np.inf, np.inf])
def test_values_stay_right_until_the_deadline(end: float) -> None:
    rng = np.random.default_rng(8)
    data = rng.normal(size=5000)
    monitor = Monitor(0.01, pull=lambda: (1, Summary.of(data).compress(200)), grows=True)
    phis = rng.uniform(0.01, 1, 40)
    ids = monitor.register_many(phis, 0.03)
    values = monitor.answers(ids).values
    last = monitor.stats()["deadline"]
    assert last is not None
    assert last > 0
    later = np.concatenate((data, np.full(last, end)))
    assert oracle.wrong_answers(later, values, phis, 0.03) == []
