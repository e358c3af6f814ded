"""Continuous queries over every kind of window of a stream, checked at every commit."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

from quantide.errors import QuantideError, SpanError
from quantide.live import LiveStream
from tests import oracle
from tests.live.live_model import Grown, Rng, data_of, scope_arguments, small

WINDOWS: list[dict[str, Any]] = [
    {},
    {"key": ("a",)},
    {"last_steps": 99},
    {"last": 1},
    {"last": 50},
    {"last": 50, "key": ("b",)},
    {"filter": "f"},
    {"filter": "g", "key": ("a",)},
    {"last": 40, "filter": "f"},
    {"key": ("later",)},
    {"key": ("later",), "last": 5},
]
PHIS = np.array([0.001, 0.25, 0.5, 0.9, 1.0])


def store(path: Path, eps: float = 0.05) -> Grown:
    return Grown(path / "store", keys=["host"], filters=["f", "g"], eps=eps)


def grow(grown: Grown, rng: Rng, number: int, rows: int, later: bool = False) -> None:
    hosts = [("a",), ("b",), ("later",)][: 3 if later else 2]
    keys = [hosts[i] for i in rng.integers(0, len(hosts), rows)]
    when = number * 40 + rng.integers(-80, 40, rows)
    grown.append(rng.integers(-900, 900, rows), when, keys, f=rng.random(rows) < 0.5, g=rng.random(rows) < 0.1)


def test_every_window(tmp_path: Path, rng: Rng) -> None:
    """Each answer is within its own precision, each change is published once, conditions are certain only if true."""
    with small():
        grown = store(tmp_path)
        grow(grown, rng, 0, 30)
        live = LiveStream(grown.path, follow=False, memory="10 KB")
        within = {"within": 5}
        monitors = []
        for scope in [*WINDOWS, within]:
            monitor = live.monitor(**scope_arguments(grown.model, scope) if scope is not within else within)
            finest = 0.1 if monitor.eps > 0.05 else 0.05
            assert monitor.eps == finest
            ids = monitor.register_many(PHIS, finest + 0.02)
            limit = monitor.watch(0.5, 0.3, above=0.0)
            monitors.append((scope, monitor, ids, limit))
        known: dict[int, dict[int, Any]] = {}
        for number in range(1, 8):
            grow(grown, rng, number, int(rng.choice([1, 20, 80])), later=number > 3)
            if number % 3 == 0:
                grown.end_step()
                grown.history.vacuum(0)
            live.poll()
            for place, (scope, monitor, ids, limit) in enumerate(monitors):
                data = window(grown, live, scope)
                assert monitor.n == len(data)
                values = known.setdefault(place, {})
                changes = monitor.changes()
                values |= {change.id: change.value for change in changes}
                if not len(data):
                    continue
                for one, answer in zip(ids.tolist(), monitor.answers(ids), strict=True):
                    assert oracle.bound_faults(data, answer) == []
                    assert answer.error <= monitor.query(one).eps + 1e-12
                    assert values[one] == answer.value
                right = oracle.exact_quantile(data, 0.5) > 0
                assert (monitor.condition(limit), right) not in [("certain", False), ("no", True)]
            assert live.changes() == []
        grown.history.close()


def window(grown: Grown, live: LiveStream, scope: dict[str, Any]) -> Any:
    """Exact data of a monitor's scope."""
    model = grown.model
    if "within" in scope:
        above = model.newest - scope["within"]
        return np.concatenate([batch.values[batch.times > above] for batch in model.batches if batch.times is not None])
    return data_of(model, scope)


def test_changes_of_all_monitors(tmp_path: Path, rng: Rng) -> None:
    grown = store(tmp_path)
    grow(grown, rng, 0, 30)
    live = LiveStream(grown.path, follow=False)
    first, second = live.monitor(last=10), live.monitor(key="a", within="1 hour")
    assert live.monitor(last=10) is first
    assert live.monitor("a", within="1 hour") is second
    assert live.monitor(last=10, eps=0.3) is not first
    assert live.monitor(last=10, eps=0.3).eps == 0.3
    assert live.monitor(key=["a"]) is live.monitor(key=("a",)) is live.monitor(key={"host": "a"})
    assert live.stats()["monitors"] == 4
    first.register(0.5, 0.1)
    second.register(0.9, 0.1)
    found = live.changes()
    assert [(scope.last, scope.key, len(changes)) for scope, changes in found] == [(10, None, 1), (None, "a", 1)]
    assert live.changes() == []
    grown.append([5000] * 30, np.full(30, 99), [("b",)] * 30, f=np.ones(30, bool), g=np.ones(30, bool))
    live.poll()
    ((scope, changes),) = live.changes()
    assert scope.last == 10
    assert [change.value for change in changes] == [np.inf]
    grown.history.close()


@pytest.mark.parametrize("follow", [True, False])
def test_functions_are_called(follow: bool, tmp_path: Path, rng: Rng) -> None:
    """poll() calls them with changes; one that raises affects no other, one that queries the stream gets an answer."""
    grown = store(tmp_path)
    grow(grown, rng, 0, 30)
    live = LiveStream(grown.path, follow=follow)
    calls: list[tuple[int, Any]] = []
    called = Event()

    def record(id: int, value: Any) -> None:
        calls.append((id, value))
        assert live.answer(0.5, last=3).n == 3
        if value == 25.0:
            called.set()

    def fail(id: int, value: Any) -> None:
        raise RuntimeError("not today")

    monitor = live.monitor(last=10)
    failing = monitor.register(0.5, 0.1, on_change=fail)
    one = monitor.register(0.5, 0.1, on_change=record)
    grown.append([100] * 30, np.full(30, 99), [("b",)] * 30, f=np.ones(30, bool), g=np.ones(30, bool))
    if not follow:
        assert live.poll()
    assert called.wait(10)
    assert calls[-1] == (one, 25.0)
    assert {failure.id for failure in monitor.failures()} == {failing}
    assert live.answer(0.5, last=10).value == 25.0
    live.close()
    grown.history.close()


def test_functions_may_do_everything(tmp_path: Path, rng: Rng) -> None:
    """A function called on a change may make monitors, register, drop, poll, and close the stream."""
    grown = store(tmp_path)
    grow(grown, rng, 0, 30)
    live = LiveStream(grown.path, follow=False)
    monitor = live.monitor(last=10)
    made: list[tuple[Any, int]] = []

    def react(id: int, value: Any) -> None:
        other = live.monitor(last=11 + len(made))
        made.append((other, other.register(0.5, 0.1, on_change=lambda id, value: None)))
        monitor.drop(id)
        monitor.register(0.5, 0.1, on_change=react)
        live.poll()
        live.changes()
        if len(made) == 3:
            live.close()

    monitor.register(0.5, 0.1, on_change=react)
    for number in range(1, 4):
        grown.append([number * 8] * 30, np.full(30, 99), [("b",)] * 30, f=np.ones(30, bool), g=np.ones(30, bool))
        live.poll()
        assert len(made) >= number
        assert monitor.failures() == []
    for other, one in made:
        assert other.answer(one).value == 6
    grown.history.close()


@pytest.mark.parametrize("follow", [True, False])
def test_a_monitor_that_cannot_be_answered_any_more(follow: bool, tmp_path: Path, rng: Rng) -> None:
    """Reading a monitor raises after rows without recent files; no other monitor is affected."""
    grown = store(tmp_path)
    grow(grown, rng, 0, 30)
    live = LiveStream(grown.path, follow=follow)
    values: list[Any] = []
    monitors = [live.monitor(last=10), live.monitor(key="a"), live.monitor(last=3)]
    ids = [monitor.register(0.5, 0.1, on_change=lambda id, value: values.append(value)) for monitor in monitors]
    live.poll()
    values.clear()
    assert len(live.changes()) == 3
    grown.append_files([777] * 60, [("a",)] * 60)
    before = live.version
    if not follow:
        assert live.poll()
    for _ in range(500):
        assert live.answer(0.5, filter="f").n
        if values and live.version > before:
            break
        Event().wait(0.005)
    assert values == [777 / 4]
    assert [scope.key for scope, _ in live.changes()] == ["a"]
    assert monitors[1].answer(ids[1]).value == 777 / 4
    for monitor, one in ((monitors[0], ids[0]), (monitors[2], ids[2])):
        with pytest.raises(SpanError, match="beyond what is kept"):
            monitor.answer(one)
    for _ in range(3):
        grow(grown, rng, 9, 10)
    if not follow:
        live.poll()
    for _ in range(500):
        if live.version == grown.history.version:
            break
        Event().wait(0.005)
    assert oracle.bound_faults(data_of(grown.model, {"last": 3}), monitors[2].answer(ids[2])) == []
    live.close()
    grown.history.close()


@pytest.mark.parametrize("batches", [6, pytest.param(300, marks=pytest.mark.slow)])
def test_monitors_are_read_while_the_stream_is_followed(batches: int, tmp_path: Path, rng: Rng) -> None:
    """Threads register, read and drop queries while another polls and notifies."""
    with small():
        grown = store(tmp_path)
        grow(grown, rng, 0, 30)
        live = LiveStream(grown.path)
        ended = Event()
        monitors = [live.monitor(last=30), live.monitor(key="a")]

        def use(seed: int) -> int:
            chance, rounds = np.random.default_rng(seed), 0
            while not ended.is_set():
                monitor = monitors[int(chance.integers(2))]
                ids = monitor.register_many(chance.uniform(0.01, 1, 20), 0.15)
                one = monitor.register(0.5, 0.2, on_change=lambda id, value: None)
                limit = monitor.watch(0.5, 0.3, below=float(chance.normal()))
                for answer in monitor.answers(ids):
                    assert answer.rank_lo <= answer.rank_hi
                    assert answer.error <= 0.15 + 1e-12
                monitor.condition(limit)
                monitor.answer(one)
                monitor.changes()
                live.changes()
                monitor.drop_many(ids)
                monitor.drop(one)
                monitor.drop(limit)
                rounds += 1
            return rounds

        with ThreadPoolExecutor(2) as pool:
            using = [pool.submit(use, seed) for seed in range(2)]
            try:
                for number in range(1, batches):
                    grow(grown, rng, number, 20)
            finally:
                ended.set()
            assert all(one.result() for one in using)
        assert live.last_error is None
        assert [len(monitor) for monitor in monitors] == [0, 0]
        live.close()
        grown.history.close()


def test_a_function_may_wait_for_a_thread_that_uses_monitors(tmp_path: Path, rng: Rng) -> None:
    """A thread that takes its own lock around questions, and in its on_change function, does not deadlock."""
    grown = store(tmp_path)
    grow(grown, rng, 0, 30)
    live = LiveStream(grown.path, follow=False)
    found: list[Any] = []

    def wait(id: int, value: Any) -> None:
        found.append(pool.submit(lambda: (live.changes(), live.monitor(last=7).n)[1]).result(10))

    with ThreadPoolExecutor(1) as pool:
        monitor = live.monitor(last=10)
        monitor.register(0.5, 0.1, on_change=wait)
        grow(grown, rng, 1, 30)
        live.poll()
    assert monitor.failures() == []
    assert found == [7]
    live.close()
    grown.history.close()


@pytest.mark.parametrize("eps", [0.001, 0.01, 0.3])
def test_summaries_are_fine_enough(eps: float, tmp_path: Path, rng: Rng) -> None:
    """A monitor of the store's own eps over a window never finds its summary too coarse."""
    with small(heavy=0.02, few=50, block=20, most=400):
        grown = store(tmp_path, eps)
        live = LiveStream(grown.path, follow=False)
        for number in range(8):
            grow(grown, rng, number, int(rng.choice([3, 200, 399])))
            live.poll()
            windows: list[dict[str, Any]] = [{"last": int(rng.integers(1, 2000))}, {"filter": "f"}]
            for scope in [*windows, {"key": ("a",), "last": 300}]:
                monitor = live.monitor(**scope_arguments(grown.model, scope))
                one = monitor.register(0.5, eps)
                assert oracle.bound_faults(data_of(grown.model, scope), monitor.answer(one)) == []
                assert monitor.answer(one).error <= eps
                monitor.drop(one)
        grown.history.close()


def test_compare(tmp_path: Path, rng: Rng) -> None:
    with small():
        grown = store(tmp_path)
        for number in range(4):
            grow(grown, rng, number, 60)
            grown.end_step()
        live = LiveStream(grown.path, follow=False)
        pairs: list[tuple[dict[str, Any], dict[str, Any]]] = [
            ({"last": 50}, {}),
            ({"key": ("a",), "last": 20}, {"key": ("b",)}),
            ({"filter": "f"}, {"filter": "g"}),
            ({}, {"last_steps": live.spans()[0].last_steps}),
        ]
        for mine, other in pairs:
            for mode in ("quick", "accurate", "exact"):
                arguments, against = scope_arguments(grown.model, mine), scope_arguments(grown.model, other)
                for found in live.compare([0.1, 0.9], against=against, mode=mode, **arguments):
                    data, then = data_of(grown.model, mine), np.sort(data_of(grown.model, other))
                    assert oracle.bound_faults(data, found.value) == []
                    assert oracle.bound_faults(then, found.against) == []
                    true = np.searchsorted(then, found.value.value, "right") / len(then)
                    assert found.place[0] <= true <= found.place[1]
                    assert mode != "exact" or found.place == (true, true)
        with pytest.raises(QuantideError):
            live.compare(0.5, against={"key": "nobody"})
        grown.history.close()
