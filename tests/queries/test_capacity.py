"""Queries registered one by one, at every size at which the arrays of a monitor are full to the last row."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantide import Monitor, MonitorGroup, SlidingWindow, Summary, errors
from quantide.queries.query_clusters import CLUSTERINGS, RESERVED_FIELDS
from quantide.queries.query_registry import MAX_USES, reserve
from tests import oracle

EPS, PRECISION = 0.001, 0.0015
BOUNDARIES = (63, 64, 65, 127, 128, 129, 255, 256, 257)
ROOT = Path(__file__).parents[2]
SOURCES = ("stream", "window", "pull")


class Fed:
    """A monitor over one of the sources, and all the values it is about."""

    def __init__(self, source: str, clustering: str) -> None:
        self.source, self.data, self.version = source, np.empty(0), 0
        self.window = SlidingWindow(100_000, EPS / 2) if source == "window" else None
        pull = self.pull if source == "pull" else None
        self.monitor = Monitor(EPS, clustering, window=self.window, pull=pull)

    def pull(self) -> tuple[int, Summary]:
        return self.version, Summary.of(self.data)

    def update(self, values: np.ndarray) -> None:
        self.data, self.version = np.concatenate((self.data, values)), self.version + 1
        if self.source != "pull":
            self.monitor.update(values)

    def restore(self) -> None:
        pull = self.pull if self.source == "pull" else None
        self.monitor = Monitor.from_bytes(self.monitor.to_bytes(), pull=pull)

    def faults(self, ids: list[int], phis: np.ndarray, eps: float = PRECISION) -> list[Any]:
        """Answers that are wrong, or whose own bound exceeds the precision of the query."""
        answers = self.monitor.answers(ids)
        wrong: list[Any] = oracle.wrong_answers(self.data, answers.values, phis, eps)
        return wrong + [answer for answer in answers if answer.error > eps + 1e-9]


def lengths(structure: Any, fields: dict[str, int]) -> set[int]:
    return {len(getattr(structure, name)) - beside for name, beside in fields.items()}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("clustering", CLUSTERINGS)
def test_one_by_one_past_every_boundary(clustering: str, source: str, rng: np.random.Generator) -> None:
    """Register queries that are clusters of their own: all are right at every boundary, and after everything moved."""
    fed = Fed(source, clustering)
    fed.update(rng.normal(size=6_000))
    phis = np.arange(1, max(BOUNDARIES) + 1) / (max(BOUNDARIES) + 1)
    ids: list[int] = []
    for count, phi in enumerate(phis, start=1):
        ids.append(fed.monitor.register(phi, PRECISION))
        fed.monitor.answer(ids[-1])
        clusters = fed.monitor._evaluator.clusters
        assert clusters is not None
        assert len(clusters) == count
        assert lengths(clusters, RESERVED_FIELDS) == {len(clusters.due)}
        if count in BOUNDARIES:
            assert fed.faults(ids, phis[:count]) == []
            fed.restore()
            assert fed.faults(ids, phis[:count]) == []
    fed.update(rng.normal(3, 1, 6_000))
    assert fed.faults(ids, phis) == []
    fed.restore()
    assert fed.faults(ids, phis) == []


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("source", SOURCES)
def test_a_boundary_that_was_read_from_bytes(source: str, boundary: int, rng: np.random.Generator) -> None:
    """Arrays that are read back have no room to spare: the next query is the first that makes them grow."""
    fed = Fed(source, "online")
    fed.update(rng.normal(size=6_000))
    phis = np.arange(1, boundary + 3) / (boundary + 3)
    ids = fed.monitor.register_many(phis[:boundary], PRECISION).tolist()
    fed.monitor.changes()
    fed.restore()
    for phi in phis[boundary:]:
        ids.append(fed.monitor.register(phi, PRECISION))
        assert fed.faults(ids, phis[: len(ids)]) == []
    fed.monitor.drop_many(ids[::2])
    fed.restore()
    ids, phis = ids[1::2], phis[1::2]
    fed.update(rng.normal(-2, 1, 3_000))
    assert fed.faults(ids, phis) == []


@pytest.mark.parametrize("source", ["stream", "pull"])
def test_percentiles_one_by_one_while_the_stream_moves(source: str, rng: np.random.Generator) -> None:
    fed = Fed(source, "online")
    fed.update(rng.normal(size=100_000))
    phis = np.arange(1, 100) / 100
    ids = []
    for phi in phis:
        ids.append(fed.monitor.register(phi, 0.002))
        fed.monitor.answer(ids[-1])
    fed.update(rng.normal(3, 1, 100_000))
    assert fed.faults(ids, phis, 0.002) == []
    fed.restore()
    assert fed.faults(ids, phis, 0.002) == []


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_a_group_one_by_one(boundary: int, rng: np.random.Generator) -> None:
    group, values = MonitorGroup(0.01), rng.normal(size=2_000)
    keys = rng.integers(0, 3, len(values))
    group.update(keys, values)
    ids = [group.register(i % 3, i / (boundary + 1), 0.02) for i in range(1, boundary + 2)]
    for i, one in enumerate(ids, start=1):
        own = values[keys == i % 3]
        assert oracle.wrong_answers(own, [group.answer(one).value], [i / (boundary + 1)], 0.02) == []


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_conditions_one_by_one(boundary: int, rng: np.random.Generator) -> None:
    monitor, values = Monitor(0.01), rng.normal(size=2_000)
    monitor.update(values)
    limits = rng.normal(size=boundary + 1)
    ids = [monitor.watch(0.5, 0.02, above=limit) for limit in limits]
    monitor = Monitor.from_bytes(monitor.to_bytes())
    ids.append(monitor.watch(0.5, 0.02, above=-9.0))
    assert monitor.condition(ids[-1]) == "certain"
    for one, limit in zip(ids, limits, strict=False):
        count = int((values <= limit).sum())
        expected = "certain" if count < 1000 else "no"
        assert monitor.condition(one) in (expected, *(["possible"] if abs(count - 1000) <= 40 else []))


def built(how: str, clustering: str) -> bytes:
    """Bytes of a monitor whose queries were registered one by one, a few at a time, all at once, or mixed."""
    rng = np.random.default_rng(5)
    monitor, phis = Monitor(EPS, clustering), np.arange(1, 131) / 131
    monitor.update(rng.normal(size=4_000))
    monitor.register(0.5, 0.4)
    monitor.changes()
    steps = {"one": [1] * 130, "few": [7] * 18 + [4], "many": [130], "mixed": [1, 62, 1, 1, 63, 1, 1]}[how]
    at = 0
    for step in steps:
        monitor.register_many(phis[at : at + step], PRECISION)
        at += step
    assert at == len(phis)
    monitor.changes()
    monitor.update(rng.normal(1, 1, 4_000))
    monitor.changes()
    return monitor.to_bytes()


@pytest.mark.parametrize("clustering", CLUSTERINGS)
def test_the_same_queries_in_any_portions_are_the_same_state(clustering: str) -> None:
    """The division of queries into calls does not matter, without evaluations in between."""
    assert len({built(how, clustering) for how in ("one", "few", "many", "mixed")}) == 1


def test_another_process_has_the_same_bytes() -> None:
    """Bytes contain no uninitialised memory."""
    ours = [hashlib.sha256(built(how, "online")).hexdigest() for how in ("one", "many")]
    code = "import hashlib, tests.queries.test_capacity as t\n" + "\n".join(
        f"print(hashlib.sha256(t.built({how!r}, 'online')).hexdigest())" for how in ("one", "many")
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    assert run.stdout.split() == ours


def test_arrays_grow_together() -> None:
    """For any sizes, an index that fits one array fits all, and existing rows stay."""

    class Pair:
        def __init__(self) -> None:
            self.rows, self.counted = np.zeros((0, 2)), np.array([7])

    pair, fields = Pair(), {"rows": 0, "counted": 1}
    for size in (0, 1, 64, 65, 66, 128, 129, 1000, 3):
        reserve(pair, fields, size)
        assert lengths(pair, fields) == {len(pair.rows)}
        assert len(pair.rows) >= size
        assert pair.counted[0] == 7


def test_a_place_that_was_used_too_often_is_retired() -> None:
    """Ids stay below the bit that marks conditions; the next query gets a place that was never used."""
    monitor = Monitor(EPS)
    first, second = monitor.register(0.5, PRECISION), monitor.register(0.6, PRECISION)
    monitor._evaluator.queries.uses[first] = MAX_USES
    last = (MAX_USES << 32) | first
    monitor.drop(last)
    monitor = Monitor.from_bytes(monitor.to_bytes())
    assert len(monitor) == 1
    third = monitor.register(0.7, PRECISION)
    assert (first, second, third) == (0, 1, 2)
    assert [monitor.query(one).phi for one in (second, third)] == [0.6, 0.7]
    with pytest.raises(errors.UnknownQueryError):
        monitor.query(last)
