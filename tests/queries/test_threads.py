"""A monitor that threads share: methods wait for each other, and for no listener."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, BrokenBarrierError, Event, Thread
from typing import Any

import numpy as np
import pytest

from quantide import Monitor, Summary

LIMIT = 20.0  # seconds to wait for an expected event


def in_thread(work: Callable[[], Any]) -> Thread:
    thread = Thread(target=work, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize(
    "other",
    [
        lambda monitor, one: monitor.changes(),
        lambda monitor, one: monitor.answer(one),
        lambda monitor, one: monitor.answers([one]),
        lambda monitor, one: monitor.refresh(),
        lambda monitor, one: monitor.summary(),
        lambda monitor, one: monitor.n,
    ],
    ids=["changes", "answer", "answers", "refresh", "summary", "n"],
)
def test_two_threads_are_never_inside_at_once(other: Callable[[Monitor, int], Any]) -> None:
    meeting, watched, met = Barrier(2), Event(), Event()

    def pull() -> tuple[int, Summary]:
        if watched.is_set():
            try:
                meeting.wait(0.3)
                met.set()
            except BrokenBarrierError:  # no other thread entered
                pass
        return 1, Summary.of([1.0, 2.0, 3.0])

    monitor = Monitor(0.1, pull=pull)
    one = monitor.register(0.5, 0.2, on_change=lambda *_: None)
    watched.set()
    thread = in_thread(lambda: monitor.answer(one))
    other(monitor, one)
    thread.join(LIMIT)
    assert not met.is_set()


def test_changes_are_not_resolved_while_queries_change() -> None:
    begun, go_on, looked = Event(), Event(), Event()
    state = [0]

    def pull() -> tuple[int, Summary]:
        if state[0] == 2:
            begun.set()
            go_on.wait(LIMIT)
        return state[0], Summary.of(np.arange(1000.0) + 10_000 * state[0])

    def look() -> None:
        assert sorted(changes.ids.tolist()) == ids.tolist()
        looked.set()

    monitor = Monitor(0.1, pull=pull)
    ids = monitor.register_many(np.linspace(0.1, 1, 50), 0.2)
    assert len(monitor.changes().ids) == 50
    state[0] = 1
    changes = monitor.changes()
    state[0] = 2
    inside = in_thread(lambda: monitor.answers(ids))
    assert begun.wait(LIMIT)
    looking = in_thread(look)
    assert not looked.wait(0.2)
    go_on.set()
    inside.join(LIMIT)
    looking.join(LIMIT)
    assert looked.is_set()


def test_a_listener_may_wait_for_a_thread_that_reads() -> None:
    monitor = Monitor(0.01)
    found: list[Any] = []

    def ask(one: int, value: Any) -> None:
        thread = in_thread(lambda: found.append(monitor.answer(one).value))
        thread.join(LIMIT)
        found.append(value)

    monitor.register(0.5, 0.02, on_change=ask)
    monitor.update(np.arange(1000.0))
    assert len(found) == 2
    assert found[0] == found[1]


def test_listeners_are_notified_in_order_across_threads() -> None:
    monitor = Monitor(0.01)
    heard: list[Any] = []
    first, done = Event(), Event()

    def listen(one: int, value: Any) -> None:
        if not heard:
            first.set()
            assert done.wait(LIMIT)  # the other thread's update ended without waiting
        heard.append(value)

    monitor.register(0.5, 0.02, on_change=listen)
    thread = in_thread(lambda: monitor.update(np.zeros(1000)))
    assert first.wait(LIMIT)
    monitor.update(np.ones(10_000))
    assert heard == []
    done.set()
    thread.join(LIMIT)
    assert heard == [0.0, 1.0]
    assert monitor.failures() == []


def test_changes_by_a_listener_are_notified_after_earlier_ones() -> None:
    monitor = Monitor(0.01)
    heard: list[Any] = []

    def more(one: int, value: Any) -> None:
        heard.append((one, value))
        if value == 0.0:
            monitor.update(np.ones(100_000))

    a = monitor.register(0.4, 0.02, on_change=more)
    b = monitor.register(0.6, 0.02, on_change=lambda *news: heard.append(news))
    monitor.update(np.zeros(1000))
    assert heard == [(a, 0.0), (b, 0.0), (a, 1.0), (b, 1.0)]


def test_a_listener_that_ends_the_call_leaves_the_rest_for_the_next() -> None:
    monitor = Monitor(0.01)
    heard: list[Any] = []

    def stop(one: int, value: Any) -> None:
        raise KeyboardInterrupt

    monitor.register(0.4, 0.02, on_change=stop)
    b = monitor.register(0.6, 0.02, on_change=lambda *news: heard.append(news))
    with pytest.raises(KeyboardInterrupt):
        monitor.update(np.zeros(1000))
    monitor.refresh()
    assert heard == [(b, 0.0)]


def test_many_threads_at_once() -> None:
    monitor = Monitor(0.01)
    lasting = monitor.register_many(np.linspace(0.05, 1, 40), 0.03)
    heard: list[Any] = []
    monitor.listen(int(lasting[20]), lambda *news: heard.append(news))
    blocks = 40

    def feed(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(blocks):
            monitor.update(rng.normal(size=500))
            for x in rng.normal(size=20).tolist():
                monitor.update(x)

    def come_and_go(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(blocks):
            ids = monitor.register_many(rng.uniform(0.01, 1, 30), 0.02 + 0.1 * rng.random(30))
            monitor.drop_many(ids[:20])
            monitor.drop_many(ids[20:])

    def read(seed: int) -> None:
        for _ in range(blocks):
            changes = monitor.changes()
            assert len(changes.ids) == len(changes)
            if monitor.n:
                assert (monitor.answers(lasting).error <= 0.03).all()

    with ThreadPoolExecutor(6) as pool:
        for found in [pool.submit(work, seed) for seed in (1, 2) for work in (feed, come_and_go, read)]:
            found.result(60)
    assert monitor.n == 2 * blocks * 520
    assert len(monitor) == len(lasting)
    assert monitor.failures() == []
    assert heard[-1][1] == monitor.answer(int(lasting[20])).value
    assert (monitor.answers(lasting).error <= 0.03).all()
