"""Monitors in any order of register, drop, answer, update and bytes, against all their values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from quantide import Monitor, MonitorGroup, RecentWindow, SlidingWindow, Summary
from quantide.queries.query_clusters import CLUSTERINGS
from tests.machines.blocks import TYPES, Array, Block, blocks, run, thinned
from tests.queries import query_model

pytestmark = pytest.mark.slow

EPS, WINDOW = 0.02, 1500
ROUNDING = 1e-9
PORTIONS = (1, 2, 9, 40, 62, 63, 64, 65, 130)
PRECISIONS = (0.02, 0.0205, 0.023, 0.03, 0.1, 0.7)
SOURCES = ("stream", "sliding", "recent", "pull")
TAIL = 0.15
EXTREMES = 1 - np.array([0.0, 1e-9, 1e-4, 1e-3, 0.004, 0.01, 0.02, 0.05, 0.1, 0.95, 0.99, 0.999, 0.9999])


def faults(answers: Any, data: Array, phis: Array, precisions: Array, allow_departed: bool) -> list[str]:
    """Faults in answers about this data; `allow_departed` accepts a value that has just left a window."""
    ordered, n, values = np.sort(data), len(data), answers.values
    first = np.searchsorted(ordered, values, side="left") + 1
    last = np.searchsorted(ordered, values, side="right")
    target = np.maximum(1, np.ceil(phis * n - ROUNDING)).astype(np.int64)
    low, high = (np.minimum(first, n), np.maximum(first, last)) if allow_departed else (first, last)
    away = np.maximum(0, np.maximum(low - target, target - high))
    certified = np.maximum(target - answers.rank_lo, answers.rank_hi - target)
    claims = {
        "the value is one of the data": allow_departed | (first <= last),
        "the target is right": answers.target == target,
        "the error is that of the ranks": np.abs(answers.error * n - certified) < 1e-6,
        "a rank of the value is certified": (answers.rank_lo <= high) & (low <= answers.rank_hi),
        "the value is no farther than certified": away <= certified,
        "the bound is within the promise": certified <= precisions * n + np.where(precisions < EPS, 0.5, 0) + 1e-6,
    }
    return [f"not true that {claim}: phi {phis[~holds][:3]}" for claim, holds in claims.items() if not np.all(holds)]


class Queries(RuleBasedStateMachine):
    """Continuous queries of one monitor: the registered ones, and the last published value of each."""

    def __init__(self) -> None:
        super().__init__()
        self.registered: dict[int, tuple[float, float]] = {}
        self.published: dict[int, Any] = {}
        self.name = "float64"

    def note(self, ids: Any, phis: Any, precisions: Any) -> None:
        self.registered |= {int(i): (float(p), float(e)) for i, p, e in zip(ids, phis, precisions, strict=True)}

    def forget(self, ids: list[int]) -> None:
        for one in ids:
            del self.registered[one]
            self.published.pop(one, None)

    def some(self, seed: int) -> list[int]:
        """Some of the queries that there are; at least one."""
        rng, ids = np.random.default_rng(seed), list(self.registered)
        count = int(rng.choice([1, 2, max(1, len(ids) // 2), len(ids)]))
        return [ids[i] for i in rng.permutation(len(ids))[:count]]

    def drawn(self, seed: int, count: int, even: bool) -> tuple[Array, Array]:
        """phis and precisions: far apart, so that each is a cluster of its own, or any."""
        rng = np.random.default_rng(seed)
        if even:
            return np.arange(1, count + 1) / (count + 1), np.full(count, PRECISIONS[seed % 2])
        return 1 - rng.random(count), rng.choice(PRECISIONS, count)


class MonitorMachine(Queries):
    """One monitor over a source, with one clustering."""

    def __init__(self, source: str, clustering: str) -> None:
        super().__init__()
        self.source, self.clustering, self.version = source, clustering, 0
        self.watched: dict[int, tuple[float, Any, Any]] = {}

    @initialize(
        name=st.sampled_from(TYPES),
        updates=st.sampled_from(["triggers", "together"]),
        often=st.sampled_from([None, 3, 100]),
        first=blocks(),
        tail=st.sampled_from([None, TAIL]),
    )
    def begin(self, name: str, updates: str, often: int | None, first: Block, tail: float | None) -> None:
        self.name, self.data = name, np.empty(0, name)
        self.tail = tail if self.source in ("stream", "pull") else None
        window: Any = None
        if self.source == "sliding":
            window = SlidingWindow(WINDOW, EPS / 2, value_type=name)
        elif self.source == "recent":
            window = RecentWindow(EPS / 2, max_items=WINDOW, value_type=name)
        pull, kind = self.pull if self.source == "pull" else None, None if window else name
        self.monitor = Monitor(EPS, self.clustering, updates, "refuse", kind, often, window, pull=pull, tail=self.tail)
        self.feed(first.values(name))

    @property
    def content(self) -> Array:
        return self.data if self.source in ("stream", "pull") else self.data[-WINDOW:]

    def pull(self) -> tuple[int, Summary]:
        if self.tail is None:
            return self.version, thinned(self.data, EPS / 2)
        exact = Summary.of(self.data)
        coarse = exact.compress(int(1 / EPS) + 1, TAIL / 2)
        return self.version, coarse if coarse.error <= EPS / 2 else exact  # half a rank more is too much of small data

    def feed(self, values: Array) -> None:
        self.data, self.version = np.concatenate((self.data, values)), self.version + 1
        if self.source != "pull":
            self.monitor.update(values)

    def read(self, data: bytes) -> Monitor:
        return Monitor.from_bytes(data, pull=self.pull if self.source == "pull" else None)

    @rule(block=blocks())
    def update(self, block: Block) -> None:
        self.feed(block.values(self.name))

    @rule(block=blocks(65))
    def update_one_by_one(self, block: Block) -> None:
        for value in block.values(self.name):
            self.feed(np.array([value]))

    @rule(block=blocks(300), heavy=st.booleans())
    def update_weighted(self, block: Block, heavy: bool) -> None:
        values, weights = block.values(self.name), block.weights(heavy)
        if self.source == "pull":
            return
        self.monitor.update(values, weights=weights)
        self.data = np.concatenate((self.data, np.repeat(values, weights)))

    @rule(block=blocks(300))
    def update_summary(self, block: Block) -> None:
        values = block.values(self.name)[: 300 if self.source == "stream" else 5]
        if self.source == "pull":
            return
        exact = Summary.of(values)
        self.monitor.update_summary(thinned(values, EPS / 4) if self.tail is None else exact.compress(100, TAIL / 2))
        self.data = np.concatenate((self.data, values))

    @precondition(lambda self: self.source == "pull")
    @rule(block=blocks())
    def replace(self, block: Block) -> None:
        self.data = np.empty(0, self.name)
        self.feed(block.values(self.name))

    @rule(seed=st.integers(0, 999), count=st.sampled_from(PORTIONS), even=st.booleans())
    def register_many(self, seed: int, count: int, even: bool) -> None:
        phis, precisions = self.drawn(seed, count, even)
        self.note(self.monitor.register_many(phis, precisions), phis, precisions)

    @rule(seed=st.integers(0, 999), count=st.sampled_from(PORTIONS), even=st.booleans(), asks=st.booleans())
    def register_one_by_one(self, seed: int, count: int, even: bool, asks: bool) -> None:
        for phi, precision in zip(*self.drawn(seed, count, even), strict=True):
            one = self.monitor.register(phi, precision)
            self.note([one], [phi], [precision])
            if asks and len(self.content):
                self.monitor.answer(one)

    @precondition(lambda self: self.tail is not None)
    @rule(by_one=st.booleans())
    def register_extremes(self, by_one: bool) -> None:
        phis = EXTREMES if by_one else np.concatenate((EXTREMES, EXTREMES))
        ids = [self.monitor.register(phi) for phi in phis] if by_one else self.monitor.register_many(phis).tolist()
        self.note(ids, phis, np.minimum(EPS, TAIL * np.minimum(phis, 1 - phis)))

    @precondition(lambda self: bool(self.registered))
    @rule(seed=st.integers(0, 999), by_one=st.booleans())
    def drop(self, seed: int, by_one: bool) -> None:
        ids = self.some(seed)
        if by_one:
            for one in ids:
                self.monitor.drop(one)
        else:
            self.monitor.drop_many(ids)
        self.forget(ids)

    @rule(seed=st.integers(0, 999), count=st.sampled_from([1, 3, 66]))
    def watch(self, seed: int, count: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(count):
            phi, limit = float(1 - rng.random()), int(rng.integers(-3, 4))
            above, below = (limit, None) if rng.random() < 0.5 else (None, limit)
            phi = float(rng.choice(EXTREMES)) if rng.random() < 0.5 else phi
            self.watched[self.monitor.watch(phi, None, above, below)] = phi, above, below

    @precondition(lambda self: bool(self.watched))
    @rule()
    def decide_and_drop_a_condition(self) -> None:
        one, (phi, above, below) = self.watched.popitem()
        data = self.content.tolist()
        precision = 2 * EPS if self.tail is None else 2 * min(EPS, TAIL * phi, TAIL * (1 - phi))
        may_be = query_model.states(data, phi, precision, above, below) if data else {"possible"}
        assert self.monitor.condition(one) in may_be
        self.monitor.drop(one)

    @precondition(lambda self: bool(self.registered) and len(self.content) > 0)
    @rule(seed=st.integers(0, 999))
    def ask(self, seed: int) -> None:
        ids = self.some(seed)
        phis, precisions = (np.array(column) for column in zip(*(self.registered[one] for one in ids), strict=True))
        answers = self.monitor.answers(ids)
        assert faults(answers, self.content, phis, precisions, self.source in ("sliding", "recent")) == []
        one = self.monitor.query(ids[0])
        assert (one.phi, one.eps) == self.registered[ids[0]]

    @precondition(lambda self: len(self.content) > 0)
    @rule()
    def changes(self) -> None:
        changes = self.monitor.changes()
        self.published |= dict(zip(changes.ids.tolist(), changes.values.tolist(), strict=True))
        ids = list(self.registered)
        now = self.monitor.answers(ids).values.tolist()
        assert {one: self.published.get(one) for one in ids} == dict(zip(ids, now, strict=True))

    @rule()
    def stats(self) -> None:
        stats = self.monitor.stats()
        assert (stats["queries"], stats["conditions"]) == (len(self.registered), len(self.watched))
        assert stats["clusters"] <= len(self.registered)
        assert query_model.clusters_faults(self.monitor) == []

    @rule()
    def restore(self) -> None:
        data = self.monitor.to_bytes()
        self.monitor = self.read(data)
        assert self.monitor.to_bytes() == data

    @precondition(lambda self: self.source != "pull")
    @rule(block=blocks(300))
    def go_on_as_a_copy_does(self, block: Block) -> None:
        copy = self.read(self.monitor.to_bytes())
        self.feed(block.values(self.name))
        copy.update(block.values(self.name))
        for monitor in (self.monitor, copy):
            monitor.stats()
        assert copy.to_bytes() == self.monitor.to_bytes()


class GroupMachine(Queries):
    """Queries of many keys."""

    def __init__(self) -> None:
        super().__init__()
        self.data: dict[int, Array] = {}
        self.keys: dict[int, int] = {}

    @initialize(name=st.sampled_from(TYPES))
    def begin(self, name: str) -> None:
        self.name, self.group = name, MonitorGroup(EPS, value_type=name, tail=TAIL)

    @rule(block=blocks(), keys=st.sampled_from([1, 3, 65]))
    def update(self, block: Block, keys: int) -> None:
        values = block.values(self.name)
        own = np.random.default_rng(block.seed).integers(0, keys, len(values))
        self.group.update(own, values)
        for key in np.unique(own).tolist():
            self.data[key] = np.concatenate((self.data.get(key, values[:0]), values[own == key]))

    @rule(block=blocks(300), keys=st.sampled_from([1, 3, 65]), heavy=st.booleans())
    def update_weighted(self, block: Block, keys: int, heavy: bool) -> None:
        values, weights = block.values(self.name), block.weights(heavy)
        own = np.random.default_rng(block.seed).integers(0, keys, len(values))
        self.group.update(own, values, weights=weights)
        own, values = np.repeat(own, weights), np.repeat(values, weights)
        for key in np.unique(own).tolist():
            self.data[key] = np.concatenate((self.data.get(key, values[:0]), values[own == key]))

    @rule(seed=st.integers(0, 999), count=st.sampled_from(PORTIONS), by_one=st.booleans())
    def register(self, seed: int, count: int, by_one: bool) -> None:
        phis, precisions = self.drawn(seed, count, False)
        keys = np.random.default_rng(seed).integers(0, 70, count)
        if by_one:
            rows = zip(keys.tolist(), phis, precisions, strict=True)
            ids = [self.group.register(key, phi, eps) for key, phi, eps in rows]
        else:
            phis[::2] = np.random.default_rng(seed).choice(EXTREMES, len(phis[::2]))
            ids = self.group.register_many(keys, phis).tolist()
            precisions = np.minimum(EPS, TAIL * np.minimum(phis, 1 - phis))
        self.note(ids, phis, precisions)
        self.keys |= dict(zip(ids, keys.tolist(), strict=True))

    @precondition(lambda self: bool(self.registered))
    @rule(seed=st.integers(0, 999))
    def drop(self, seed: int) -> None:
        ids = self.some(seed)
        self.group.drop_many(ids)
        self.forget(ids)

    @rule()
    def ask(self) -> None:
        ids = [one for one in self.registered if self.keys[one] in self.data]
        answers = self.group.answers(ids)
        assert len(answers) == len(ids)
        for i, one in enumerate(ids):
            (phi, eps), data = self.registered[one], self.data[self.keys[one]]
            alone = self.group.answers([one])
            assert alone[0] == answers[i]
            assert faults(alone, data, np.array([phi]), np.array([eps]), False) == []

    @rule()
    def changes(self) -> None:
        changes = self.group.changes()
        self.published |= dict(zip(changes.ids.tolist(), changes.values.tolist(), strict=True))
        ids = [one for one in self.registered if self.keys[one] in self.data]
        now = self.group.answers(ids).values.tolist()
        assert {one: self.published.get(one) for one in ids} == dict(zip(ids, now, strict=True))
        assert self.group.stats()["queries"] == len(self.registered)


@pytest.mark.parametrize("clustering", CLUSTERINGS)
@pytest.mark.parametrize("source", SOURCES)
def test_monitor(source: str, clustering: str) -> None:
    run(lambda: MonitorMachine(source, clustering))


def test_monitor_group() -> None:
    run(GroupMachine)
