"""Event hub: connections are notified in rounds, and all of them when the server stops."""

import asyncio
import time
from collections.abc import Coroutine
from itertools import pairwise
from threading import Thread
from typing import Any

import pytest

from quantide.errors import LimitError, NotReadyError
from quantide.server.events import event_hub as hubs
from quantide.server.events.event_hub import EventHub


def run(work: Coroutine[Any, Any, None]) -> None:
    async def within() -> None:
        async with asyncio.timeout(20):
            await work

    asyncio.run(within())


def from_a_thread(function: Any) -> None:
    thread = Thread(target=function)
    thread.start()
    thread.join()


def test_notify_from_another_thread_wakes_all() -> None:
    async def work() -> None:
        hub = EventHub(100)
        wakeups = [hub.connect() for _ in range(50)]
        from_a_thread(hub.notify)
        await asyncio.gather(*(wakeup.wait() for wakeup in wakeups))
        hub.close()

    run(work())


def test_other_tasks_run_between_wakeups() -> None:
    async def work() -> None:
        hub = EventHub(1000)
        wakeups = [hub.connect() for _ in range(200)]
        hub.notify()
        woken_counts = set()
        while not wakeups[-1].is_set() or not all(wakeup.is_set() for wakeup in wakeups):
            woken_counts.add(sum(wakeup.is_set() for wakeup in wakeups))
            await asyncio.sleep(0)
        assert len(woken_counts) > 10
        assert max(b - a for a, b in pairwise(sorted(woken_counts))) <= 2 * hubs.AT_ONCE
        hub.close()

    run(work())


def test_frequent_notifications_are_coalesced_into_rounds() -> None:
    async def work() -> None:
        hub = EventHub(10)
        wakeup, woken = hub.connect(), 0
        begun = time.monotonic()
        for _ in range(300):
            hub.notify()
            await asyncio.sleep(0.001)
            woken += wakeup.is_set()
            wakeup.clear()
        assert 1 <= woken <= (time.monotonic() - begun) / hubs.ROUND + 2
        hub.close()

    run(work())


@pytest.mark.parametrize("pause", [0.0, 0.001, 0.02])
def test_closing_wakes_all_at_any_time(pause: float) -> None:
    async def work() -> None:
        hub = EventHub(1000)
        wakeups = [hub.connect() for _ in range(100)]
        hub.notify()
        await asyncio.sleep(pause)  # in the middle of a round, or between two
        for wakeup in wakeups:
            wakeup.clear()
        from_a_thread(hub.close)
        await asyncio.gather(*(wakeup.wait() for wakeup in wakeups))
        with pytest.raises(NotReadyError):
            hub.connect()

    run(work())


def test_the_number_of_connections_is_limited() -> None:
    async def work() -> None:
        hub = EventHub(2)
        first, _ = hub.connect(), hub.connect()
        with pytest.raises(LimitError):
            hub.connect()
        hub.disconnect(first)
        hub.disconnect(first)
        hub.connect()
        assert len(hub) == 2
        hub.close()

    run(work())


def test_notify_and_close_without_a_loop_do_nothing() -> None:
    hub = EventHub(2)
    hub.notify()
    hub.close()
    after = EventHub(2)

    async def work() -> None:
        after.connect()

    run(work())
    after.notify()
    after.close()


def test_memory_is_returned_after_many_disconnects(monkeypatch: pytest.MonkeyPatch) -> None:
    returned: list[int] = []
    hub = EventHub(1000)
    monkeypatch.setattr(hubs, "TRIM_DELAY", 0.0)
    monkeypatch.setattr(hubs, "trim_heap", lambda: returned.append(len(hub)))

    async def work() -> None:
        for wakeup in [hub.connect() for _ in range(2 * hubs.TRIM_AFTER + 1)]:
            hub.disconnect(wakeup)
        while len(returned) < 2:
            await asyncio.sleep(0.01)
        hub.close()

    run(work())
    assert returned == [0, 0]
