"""Monitors over windows: every query is right whenever it can be read, against all that arrived."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantide import Monitor, RecentWindow, SlidingWindow, StreamSketch, Summary, errors
from quantide.windows import recent_window, sliding_window
from quantide.windows.block_layout import layout_for
from tests import oracle
from tests.orders import ORDERS

EPS = 0.1
Rng = np.random.Generator


@pytest.fixture(autouse=True)
def small_layouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let short streams fill many blocks and buckets."""
    monkeypatch.setattr(recent_window, "layout_for", lambda eps, most=None: layout_for(eps, None, 64, 50))
    monkeypatch.setattr(sliding_window, "EXACT", 0)


def faults(monitor: Monitor, registered: dict[int, tuple[float, float]], data: Any) -> list[str]:
    """Faults in a monitor's answers about these values; a value that has just left the window is allowed."""
    ordered, n = np.sort(data), len(data)
    messages = []
    for one, (phi, eps) in registered.items():
        answer = monitor.answer(one)
        target, in_force = oracle.target_rank(phi, n), max(eps, monitor.eps)
        lowest = min(n, int(np.searchsorted(ordered, answer.value, "left")) + 1)
        highest = max(lowest, int(np.searchsorted(ordered, answer.value, "right")))
        off = max(0, lowest - target, target - highest)
        if off > in_force * n + 1e-9:
            messages.append(f"({phi}, {eps}) is off by {off} of {n}")
        if lowest > answer.rank_hi or highest < answer.rank_lo:
            messages.append(f"({phi}, {eps}) has ranks {lowest}..{highest}, said {answer.rank_lo}..{answer.rank_hi}")
    return messages


def window_of(kind: str, size: int) -> tuple[Any, dict[str, Any]]:
    if kind == "sliding":
        return SlidingWindow(size, EPS / 2), {}
    if kind == "last":
        return RecentWindow(EPS / 2, max_items=4 * size), {"last": size}
    return RecentWindow(EPS / 2, max_items=size), {}


KINDS = [("sliding", "online"), ("last", "worst-case"), ("all", "fewest")]


@pytest.mark.parametrize(("kind", "clustering"), KINDS)
@pytest.mark.parametrize("order", sorted(ORDERS))
def test_a_window_by_number(kind: str, clustering: str, order: str, rng: Rng) -> None:
    """Blocks of all sizes, some below the reserve: no query is ever off by more than its precision."""
    size = 700
    window, span = window_of(kind, size)
    monitor = Monitor(EPS, clustering, window=window, **span)
    pairs = list(zip((1 - rng.random(40)).tolist(), rng.uniform(0.02, 0.4, 40).tolist(), strict=True))
    registered = dict(zip(monitor.register_many(*zip(*pairs, strict=True)).tolist(), pairs, strict=True))
    data, at = ORDERS[order](rng, 3000), 0
    while at < len(data):
        block = data[at : at + int(rng.choice([1, 3, 20, 36, 200]))]
        monitor.update(block)
        at += len(block)
        if rng.random() < 0.3:
            assert faults(monitor, registered, data[max(0, at - size) : at]) == []
    assert monitor.stats()["evaluations"] < len(registered) * 3000


@pytest.mark.parametrize("kind", ["sliding", "last", "all", "time"])
@pytest.mark.parametrize("order", ["uniform", "ascending", "descending", "zigzag"])
def test_members_are_elements_of_the_window(kind: str, order: str, rng: Rng) -> None:
    """With member=True, every value that is read is in the window at that moment, and within its precision."""
    size = 400
    window, span = window_of(kind, size)
    if kind == "time":
        window, span = RecentWindow(EPS / 2, max_age=4 * size), {"within": size}
    monitor = Monitor(EPS, window=window, member=True, **span)
    pairs = [(phi, eps) for phi in (0.01, 0.3, 0.5, 0.77, 1.0) for eps in (0.1, 0.15, 0.3)]
    registered = dict(zip(monitor.register_many(*zip(*pairs, strict=True)).tolist(), pairs, strict=True))
    data, at = ORDERS[order](rng, 1500), 0
    while at < len(data):
        block = data[at : at + int(rng.choice([1, 2, 7, 36]))]
        monitor.update(block, times=np.arange(at, at + len(block), dtype=float) if kind == "time" else None)
        at += len(block)
        if rng.random() < 0.1:
            monitor = Monitor.from_bytes(monitor.to_bytes())
        inside = data[max(0, at - size) : at]
        assert np.isin(monitor.answers(list(registered)).values, inside).all()
        if rng.random() < 0.2:
            assert faults(monitor, registered, inside) == []


def test_without_member_a_value_may_have_left(rng: Rng) -> None:
    """The same reads of rising values, one by one: the reserve allows what member=True does not."""
    left = {}
    for member in (False, True):
        monitor, data = Monitor(EPS, window=SlidingWindow(400, EPS / 2), member=member), np.arange(1200.0)
        one = monitor.register(EPS, EPS)
        monitor.update(data[:400])
        left[member] = 0
        for at in range(400, 1200):
            monitor.update(float(data[at]))
            left[member] += monitor.answer(one).value < data[at - 399]
    assert left[False] > 0
    assert left[True] == 0


def test_member_needs_a_window() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="only together with window="):
        Monitor(EPS, member=True)


@pytest.mark.parametrize("summaries", [False, True])
def test_a_window_by_time(summaries: bool, rng: Rng) -> None:
    """Bursts and gaps: the content of a span of time changes by any number at once."""
    monitor = Monitor(EPS, window=RecentWindow(EPS / 2, max_age=60), within="20 s")
    registered = {monitor.register(phi, eps): (phi, eps) for phi in (0.01, 0.5, 0.9, 1.0) for eps in (0.1, 0.2)}
    values, times, now = np.empty(0), np.empty(0), 0.0
    for _ in range(60):
        count = int(rng.choice([1, 10, 300]))
        moments = now + np.sort(rng.random(count)) * float(rng.choice([0.01, 1, 30]))
        block = rng.normal(float(rng.integers(0, 5)), 1, count)
        if summaries and count < 300:
            monitor.update_summary(Summary.of(block), moments[0], moments[-1])
        else:
            monitor.update(block, times=moments)
        values, times, now = np.append(values, block), np.append(times, moments), float(moments[-1])
        inside = values[times > now - 20]
        try:
            assert faults(monitor, registered, inside) == []
        except errors.SpanError:
            assert summaries


@pytest.mark.parametrize("kind", [SlidingWindow, RecentWindow])
def test_an_update_that_took_its_values_does_not_raise(kind: type[SlidingWindow | RecentWindow]) -> None:
    """A window inside a block of a summary cannot be evaluated: reads raise, listeners are called once it can."""
    values: list[float] = []
    window = SlidingWindow(100, EPS / 2) if kind is SlidingWindow else RecentWindow(EPS / 2, max_items=100)
    monitor = Monitor(EPS, window=window)
    query = monitor.register(0.5, EPS, on_change=lambda id, value: values.append(value))
    condition = monitor.watch(0.5, 2 * EPS, above=5.0, on_change=lambda id, state: states.append(state))
    states: list[str] = []
    monitor.update_summary(Summary.of(np.arange(1000.0)))
    monitor.update(np.zeros(10))
    assert (monitor.n, window.arrived, values, states) == (100, 1010, [], [])
    for read in (monitor.changes, monitor.refresh, lambda: monitor.answer(query), lambda: monitor.condition(condition)):
        with pytest.raises(errors.SpanError):
            read()
    assert window.arrived == 1010
    monitor.update(np.ones(100))
    assert (window.arrived, values, states) == (1110, [1.0], ["no"])
    assert monitor.answer(query).value == 1


def test_all_listeners_are_called_after_an_update_by_a_summary() -> None:
    """An update is complete when on_change functions are called: what they raise is collected."""
    seen: list[tuple[int, float]] = []
    window = SlidingWindow(100, EPS / 2)
    monitor = Monitor(EPS, window=window)

    def fail(id: int, value: float) -> None:
        seen.append((id, value))
        raise RuntimeError(f"{id} at {monitor.n}")

    ids = [monitor.register(0.5, EPS, on_change=fail) for _ in range(3)]
    monitor.update_summary(Summary.of(np.full(50, 7.0)))
    assert seen == [(id, 7.0) for id in ids]
    assert [(one.id, str(one.error)) for one in monitor.failures()] == [(id, f"{id} at 50") for id in ids]
    assert (window.arrived, monitor.answer(ids[0]).value) == (50, 7.0)
    monitor.update_summary(Summary.of(np.full(50, 7.0)))
    assert (window.arrived, monitor.failures()) == (100, [])


@given(st.lists(st.tuples(st.sampled_from(["values", "register", "drop", "bytes"]), st.integers(0, 60)), max_size=25))
@settings(max_examples=60)
def test_any_mixture(script: list[tuple[str, int]]) -> None:
    """Registrations, drops, blocks and restarts; changes() reports every change."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sliding_window, "EXACT", 0)
        rng = np.random.default_rng(len(script))
        monitor = Monitor(EPS, window=SlidingWindow(300, EPS / 2), recluster_after=3)
        registered: dict[int, tuple[float, float]] = {}
        seen: dict[int, Any] = {}
        data = np.empty(0)
        for verb, number in script:
            if verb == "values":
                block = rng.integers(0, 20, number).astype(float)
                monitor.update(block)
                data = np.append(data, block)
            elif verb == "register":
                pair = (1 - float(rng.random()), float(rng.uniform(0.05, 0.4)))
                registered[monitor.register(*pair)] = pair
            elif verb == "drop" and registered:
                one = list(registered)[number % len(registered)]
                monitor.drop(one)
                del registered[one]
                seen.pop(one, None)
            elif verb == "bytes":
                before = monitor.to_bytes()
                monitor = Monitor.from_bytes(before)
                assert monitor.to_bytes() == before
            if len(data):
                assert faults(monitor, registered, data[-300:]) == []
                seen |= dict(monitor.changes())
                assert seen == {one: monitor.answer(one).value for one in registered}


@pytest.mark.parametrize("phi", [1e-9, 0.01, 0.5, 1.0])
def test_a_query_at_an_end_survives_bytes(phi: float, rng: Rng) -> None:
    """The ranks of a value, less the reserve, may be below the first, and above the last."""
    monitor = Monitor(0.02, window=SlidingWindow(1000, 0.01))
    one = monitor.register(phi, 0.05)
    data = rng.random(3000)
    for at in range(0, len(data), 100):
        monitor.update(data[at : at + 100])
        assert faults(monitor, {one: (phi, 0.05)}, data[max(0, at - 900) : at + 100]) == []
        monitor = Monitor.from_bytes(monitor.to_bytes())
    assert monitor.stats()["clusters"] == 1


def test_conditions_forget_with_the_window(rng: Rng) -> None:
    """An alarm ends when what raised it has left the window."""
    monitor = Monitor(0.02, window=SlidingWindow(1000, 0.01))
    alarm = monitor.watch(0.9, 0.02, above=100)
    states = []
    for high in (0, 0, 500, 500, 0, 0, 0):
        monitor.update(rng.random(500) + high)
        states.append(monitor.condition(alarm))
    assert states == ["no", "no", "certain", "certain", "certain", "no", "no"]


def test_a_window_is_evaluated_after_the_reserve_is_used(rng: Rng) -> None:
    monitor = Monitor(0.02, window=SlidingWindow(10_000, 0.01))
    monitor.register(0.5, 0.05)
    monitor.update(rng.random(10_000))
    monitor.changes()
    before = monitor.stats()["evaluations"]
    for _ in range(100):
        monitor.update(float(rng.random()))
        monitor.changes()
    assert monitor.stats()["evaluations"] == before
    monitor.update(float(rng.random()))
    monitor.changes()
    assert monitor.stats()["evaluations"] == before + 1


@pytest.mark.parametrize("phi", [1e-9, 0.01, 0.5, 0.99, 1.0])
def test_a_query_at_an_end_is_served_by_a_cluster(phi: float, rng: Rng) -> None:
    """A line that always holds keeps no reserve, so a cluster serves a query at an end."""
    monitor = Monitor(0.02, window=SlidingWindow(10_000, 0.01))
    one = monitor.register(phi, 0.05)
    data = rng.random(20_000)
    for at in range(0, len(data), 90):
        monitor.update(data[at : at + 90])
        assert faults(monitor, {one: (phi, 0.05)}, data[max(0, at - 9910) : at + 90]) == []
    assert monitor.stats()["clusters"] == monitor.stats()["clusterings"] == 1


def test_what_does_not_fit_is_refused() -> None:
    window = SlidingWindow(100, 0.05)
    with pytest.raises(errors.InvalidArgumentError, match="half"):
        Monitor(0.05, window=window)
    with pytest.raises(errors.InvalidArgumentError, match="one size"):
        Monitor(0.1, window=window, last=10)
    with pytest.raises(errors.InvalidArgumentError, match="window="):
        Monitor(0.1, last=10)
    with pytest.raises(errors.TypeMismatchError, match="SlidingWindow"):
        Monitor(0.1, window=StreamSketch(0.01))  # type: ignore[arg-type]
    for beyond in ((11, None), (None, "1 h")):
        with pytest.raises(errors.InvalidArgumentError, match="beyond"):
            Monitor(0.1, window=RecentWindow(0.05, max_items=10, max_age=60), last=beyond[0], within=beyond[1])
    monitor = Monitor(0.1, window=window)
    with pytest.raises(errors.InvalidArgumentError, match="no times"):
        monitor.update([1.0], times=[1.0])
    with pytest.raises(errors.InvalidArgumentError, match="times"):
        Monitor(0.1).update([1.0], times=[1.0])
    with pytest.raises(errors.EmptyError):
        monitor.answer(monitor.register(0.5, 0.2))
