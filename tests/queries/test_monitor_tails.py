"""Queries near the ends: within a share of their distance from the end, at every read, whatever arrives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantide import Monitor, MonitorGroup, Summary
from quantide.errors import InvalidArgumentError, TooCoarseError
from quantide.queries.query_clusters import CLUSTERINGS
from tests.orders import ORDERS
from tests.queries import query_model
from tests.sampling import one_in

EPS, TAIL = 0.01, 0.1
PHIS = np.concatenate((1 - np.geomspace(1e-5, 0.5, 30), np.geomspace(1e-5, 0.5, 30), [1.0, 1e-9]))
Rng = np.random.Generator


def finest(phi: Any, eps: float = EPS, tail: float = TAIL) -> Any:
    return np.minimum(eps, tail * np.minimum(phi, 1 - np.asarray(phi)))


def faults(answers: Any, data: Any, phis: Any, precisions: Any) -> list[str]:
    """Return violations of the promise: values farther than eps_q * n and half a rank, false or wide certificates."""
    ordered, n = np.sort(data), len(data)
    first = np.searchsorted(ordered, answers.values, side="left") + 1
    last = np.searchsorted(ordered, answers.values, side="right")
    target = np.maximum(1, np.ceil(phis * n - 1e-9)).astype(np.int64)
    away = np.maximum(0, np.maximum(first - target, target - last))
    certified = np.maximum(target - answers.rank_lo, answers.rank_hi - target)
    allowed = precisions * n + np.where(precisions < EPS, 0.5, 0) + 1e-6
    claims = {
        "values are of the data": first <= last,
        "targets": answers.target == target,
        "bounds are true": (answers.rank_lo <= last) & (first <= answers.rank_hi) & (away <= certified),
        "values are near": away <= allowed,
        "bounds are tight": certified <= allowed,
        "errors are those of the bounds": np.abs(answers.error * n - certified) < 1e-6,
    }
    return [f"{claim}, n = {n}: {phis[~holds][:3]}" for claim, holds in claims.items() if not np.all(holds)]


def extremes_at(where: str, size: int, rng: Rng) -> Any:
    values, extremes = rng.random(size), size // 100
    places = {
        "early": np.arange(extremes),
        "late": np.arange(size - extremes, size),
        "alternating": np.arange(extremes) * (size // extremes),
        "rising": np.sort(rng.permutation(size)[:extremes]),
        "ties": rng.permutation(size)[:extremes],
    }[where]
    up, down = places[::2], places[1::2]
    values[up], values[down] = 10 + rng.random(len(up)), -10 - rng.random(len(down))
    if where == "rising":  # each one is beyond all before
        values[up], values[down] = 10 + np.arange(len(up)), -10.0 - np.arange(len(down))
    if where == "ties":
        values[up], values[down] = 10, -10
    return values


@pytest.mark.parametrize("clustering", CLUSTERINGS)
@pytest.mark.parametrize("updates", ["triggers", "together"])
@pytest.mark.parametrize("where", one_in(3, ["early", "late", "alternating", "rising", "ties"]))
def test_every_read_is_within_the_tail(where: str, clustering: str, updates: str, rng: Rng) -> None:
    values = extremes_at(where, 60_000, rng)
    monitor = Monitor(EPS, clustering, updates)
    assert monitor.tail == TAIL
    ids = monitor.register_many(PHIS)
    precisions = finest(PHIS)
    published: dict[int, float] = {}
    cuts = np.unique(np.concatenate((np.geomspace(1, 59_999, 40).astype(int), rng.integers(1, 60_000, 60))))
    for k, piece in enumerate(np.split(values, cuts)):
        monitor.update(piece)
        if k % 3:  # several blocks between two reads
            continue
        data = values[: monitor.n]
        published |= {change.id: float(change.value) for change in monitor.changes()}
        answers = monitor.answers(ids)
        assert faults(answers, data, PHIS, precisions) == []
        assert [published[int(one)] for one in ids] == answers.values.tolist()
        assert query_model.clusters_faults(monitor) == []
        if k % 9 == 0:
            data_now = monitor.to_bytes()
            monitor = Monitor.from_bytes(data_now)
            assert monitor.to_bytes() == data_now
    assert monitor.stats()["clusters"] > 10


@pytest.mark.parametrize("order", ORDERS)
def test_every_order(order: str, rng: Rng) -> None:
    values = ORDERS[order](rng, 40_000)
    monitor = Monitor(EPS)
    ids = monitor.register_many(PHIS)
    for piece in np.array_split(values, 57):
        monitor.update(piece)
        assert faults(monitor.answers(ids), values[: monitor.n], PHIS, finest(PHIS)) == []


@given(st.data())
def test_any_sequence_of_calls(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    eps, tail = data.draw(st.sampled_from([(0.01, 0.1), (0.01, 0.02), (0.01, 0.5), (0.01, 0.005)]))
    monitor = Monitor(eps, data.draw(st.sampled_from(CLUSTERINGS)), tail=tail, recluster_after=50)
    seen, ids, phis, precisions = np.empty(0), np.empty(0, np.int64), np.empty(0), np.empty(0)
    for _ in range(data.draw(st.integers(1, 12))):
        size = data.draw(st.sampled_from([1, 3, 40, 700, 5000, 30_000]))
        shift = data.draw(st.sampled_from([0.0, 0.0, 1e6, -1e6]))
        values = rng.integers(0, data.draw(st.sampled_from([3, 50, 10**6])), size) + shift
        match data.draw(st.sampled_from(["update", "update", "summary", "register", "coarse", "drop", "bytes"])):
            case "update":
                monitor.update(values)
                seen = np.concatenate((seen, values))
            case "summary":
                monitor.update_summary(Summary.of(values).compress(int(1 / eps) + 1, tail / 2))
                seen = np.concatenate((seen, values))
            case "register" | "coarse" as kind:
                new = data.draw(st.sampled_from([PHIS, PHIS[:3], 1 - rng.random(40), 1 - rng.random(9) ** 6]))
                own = finest(new, eps, tail) if kind == "register" else np.maximum(rng.random(len(new)) * 0.02, 1e-9)
                ids = np.concatenate((ids, monitor.register_many(new, None if kind == "register" else own)))
                phis = np.concatenate((phis, new))
                precisions = np.concatenate((precisions, np.maximum(own, finest(new, eps, tail))))
            case "drop" if len(ids) > 2:
                monitor.drop_many(ids[::3])
                rest = np.arange(len(ids)) % 3 > 0
                ids, phis, precisions = ids[rest], phis[rest], precisions[rest]
            case "bytes":
                monitor = Monitor.from_bytes(monitor.to_bytes())
        assert monitor.tail == tail
        if len(seen) and len(ids) and data.draw(st.booleans()):
            assert faults(monitor.answers(ids), seen, phis, precisions) == []
            assert np.allclose([monitor.query(int(one)).eps for one in ids], precisions)
            assert query_model.clusters_faults(monitor) == []


@pytest.mark.parametrize("where", ["early", "late", "alternating", "rising", "ties"])
def test_alarms_near_the_ends(where: str, rng: Rng) -> None:
    """The state is right whenever the count is further than 2 * tail of the distance from the end."""
    values = extremes_at(where, 30_000, rng)
    monitor = Monitor(EPS)
    monitor.register_many(PHIS[:40])
    phis = [0.5, 0.9, 0.99, 0.995, 0.999, 0.9999, 0.001, 0.0001, 1.0]
    watched: dict[int, tuple[float, float | None, float | None]] = {}
    for phi in phis:
        for limit in (0.5, 0.99, 9.0, 10.0, 10.5, -10.0, -10.5):
            watched[monitor.watch(phi, above=limit)] = phi, limit, None
            watched[monitor.watch(phi, below=limit)] = phi, None, limit
    undecided = 0
    for piece in np.split(values, np.geomspace(3, 29_999, 30).astype(int)):
        monitor.update(piece)
        data = values[: monitor.n].tolist()
        for one, (phi, above, below) in watched.items():
            state = monitor.condition(one)
            undecided += state == "possible"
            assert monitor.query(one).eps == pytest.approx(2 * finest(phi))
            assert not data or state in query_model.states(data, phi, 2 * finest(phi), above, below)
    assert undecided < 0.1 * 30 * len(watched)


def test_the_precision_of_a_query() -> None:
    monitor = Monitor(0.001)
    explicit = [(0.9999, 1e-5, 1e-5), (0.9999, 1e-9, 1e-6), (0.5, 1e-9, 0.001), (0.9999, 0.02, 0.02)]
    for phi, eps, in_force in explicit:
        assert monitor.query(monitor.register(phi, eps)).eps == pytest.approx(in_force)
    assert monitor.query(monitor.register(1.0)).eps == 0
    assert monitor.query(monitor.watch(0.9999, above=1.0)).eps == pytest.approx(2e-6)
    assert Monitor(0.001, tail=None).tail is None
    assert Monitor(0.02).tail is None
    plain = Monitor(0.001, tail=None)
    assert plain.query(plain.register(0.9999)).eps == 0.001


def test_p9999_of_a_million(rng: Rng) -> None:
    """The tail is what makes p99.99 useful: within 1.5 of the 100 values above it, at every block."""
    monitor, seen = Monitor(0.001), []
    ids = monitor.register_many([0.99, 0.999, 0.9999, 0.99999])
    for _ in range(20):
        seen.append(rng.lognormal(0, 2.5, 50_000))
        monitor.update(seen[-1])
        phis = np.array([0.99, 0.999, 0.9999, 0.99999])
        assert faults(monitor.answers(ids), np.concatenate(seen), phis, finest(phis, 0.001, 0.01)) == []
    assert monitor.stats()["clusters"] > 0
    assert monitor.stats()["summaries"] < 20


def test_a_summary_without_a_tail_raises_precisions(rng: Rng) -> None:
    monitor, values = Monitor(EPS), rng.random(30_000)
    p999, alarm = monitor.register(0.999), monitor.watch(0.999, above=0.5)
    monitor.update(values)
    assert monitor.query(p999).eps == pytest.approx(1e-4)
    monitor.update_summary(Summary.of(values).compress(400, 0.08))
    raised = monitor.tail or 0.0
    assert raised == pytest.approx(0.16, rel=0.05)
    assert monitor.query(p999).eps == pytest.approx(0.001 * raised)
    everything = np.concatenate((values, values))
    assert faults(monitor.answers([p999]), everything, np.array([0.999]), np.array([0.001 * raised])) == []
    monitor.update_summary(Summary.of(values).compress(400))
    assert monitor.tail is None
    assert (monitor.query(p999).eps, monitor.query(alarm).eps) == (EPS, 2 * EPS)
    assert monitor.answer(p999).error <= EPS
    assert Monitor.from_bytes(monitor.to_bytes()).to_bytes() == monitor.to_bytes()


def test_a_pulled_source_with_a_tail(rng: Rng) -> None:
    data: list[Any] = [rng.random(20_000)]
    monitor = Monitor(
        EPS, pull=lambda: (len(data), Summary.of(np.concatenate(data)).compress(200, TAIL / 2)), tail=TAIL
    )
    ids = monitor.register_many(PHIS)
    for k in range(12):
        assert faults(monitor.answers(ids), np.concatenate(data), PHIS, finest(PHIS)) == []
        monitor = Monitor.from_bytes(
            monitor.to_bytes(), pull=lambda: (len(data), Summary.of(np.concatenate(data)).compress(200, TAIL / 2))
        )
        assert monitor.tail == TAIL
        data.append(rng.random(1 + 40_000 * (k % 2)) * 10 ** (k % 3))
    with pytest.raises(TooCoarseError, match="tail"):
        Monitor(EPS, pull=lambda: (1, Summary.of(data[0]).compress(200)), tail=TAIL)
    assert Monitor(EPS, pull=lambda: (1, Summary.of(data[0]).compress(200))).tail is None


def test_a_window_has_no_tail() -> None:
    from quantide import SlidingWindow

    assert Monitor(0.01, window=SlidingWindow(1000, 0.005)).tail is None
    with pytest.raises(InvalidArgumentError, match="window"):
        Monitor(0.01, window=SlidingWindow(1000, 0.005), tail=0.1)


@pytest.mark.parametrize("where", ["early", "late", "alternating", "rising", "ties"])
def test_keys_of_a_group(where: str, rng: Rng) -> None:
    values, keys = extremes_at(where, 150_000, rng), rng.integers(0, 40, 150_000) ** 2 // 60
    group = MonitorGroup(EPS)
    assert group.tail == TAIL
    names = np.repeat(np.unique(keys), len(PHIS))
    phis = np.tile(PHIS, len(np.unique(keys)))
    ids = group.register_many(names, phis)
    assert np.allclose([group.query(int(one)).eps for one in ids[:60]], finest(PHIS[:60]))
    end = 0
    for size in [200, 800, 4000, 30_000, 5000, 70_000, 40_000]:
        group.update(keys[end : end + size], values[end : end + size])
        end += size
        for name in np.unique(keys[:end]):
            own = names == name
            data = values[:end][keys[:end] == name]
            assert faults(group.answers(ids[own]), data, phis[own], finest(phis[own])) == []


def test_a_group_without_a_tail(rng: Rng) -> None:
    group = MonitorGroup(EPS, tail=None)
    one = group.register("a", 0.9999)
    assert (group.tail, group.query(one).eps) == (None, EPS)


def test_old_bytes_have_no_tail() -> None:
    from tests.test_old_bytes import STORED, restored

    names = [name for name in STORED if name.startswith("monitor")]
    assert len(names) >= 5
    for name in names:
        monitor = restored(name)
        one = monitor.register(0.999)
        monitor.update([1.0, 2.0])
        assert (monitor.tail, monitor.query(one).eps) == (None, monitor.eps)
        assert monitor.answer(one).error <= monitor.eps
        assert Monitor.from_bytes(monitor.to_bytes()).to_bytes() == monitor.to_bytes()
