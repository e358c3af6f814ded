"""The hub: who is woken when, and that nobody is forgotten when the server stops."""

import asyncio
import time
from collections.abc import Coroutine
from itertools import pairwise
from threading import Thread
from typing import Any

import pytest

from quantide.errors import LimitError, NotReadyError
from quantide.server import hub as hubs
from quantide.server.heap import trim
from quantide.server.hub import Hub


def run(work: Coroutine[Any, Any, None]) -> None:
    async def within() -> None:
        async with asyncio.timeout(20):
            await work

    asyncio.run(within())


def from_a_thread(function: Any) -> None:
    thread = Thread(target=function)
    thread.start()
    thread.join()


def test_everyone_is_woken_from_another_thread() -> None:
    async def work() -> None:
        hub = Hub(100)
        bells = [hub.join() for _ in range(50)]
        from_a_thread(hub.wake)
        await asyncio.gather(*(bell.wait() for bell in bells))
        hub.close()

    run(work())


def test_others_have_their_turn_between_those_who_are_woken() -> None:
    async def work() -> None:
        hub = Hub(1000)
        bells = [hub.join() for _ in range(200)]
        hub.wake()
        seen = set()
        while not bells[-1].is_set() or not all(bell.is_set() for bell in bells):
            seen.add(sum(bell.is_set() for bell in bells))
            await asyncio.sleep(0)
        assert len(seen) > 10
        assert max(b - a for a, b in pairwise(sorted(seen))) <= 2 * hubs.AT_ONCE
        hub.close()

    run(work())


def test_much_news_is_told_in_rounds() -> None:
    async def work() -> None:
        hub = Hub(10)
        bell, woken = hub.join(), 0
        begun = time.monotonic()
        for _ in range(300):
            hub.wake()
            await asyncio.sleep(0.001)
            woken += bell.is_set()
            bell.clear()
        assert 1 <= woken <= (time.monotonic() - begun) / hubs.ROUND + 2
        hub.close()

    run(work())


@pytest.mark.parametrize("pause", [0.0, 0.001, 0.02])
def test_closing_wakes_everyone_whatever_goes_on(pause: float) -> None:
    async def work() -> None:
        hub = Hub(1000)
        bells = [hub.join() for _ in range(100)]
        hub.wake()
        await asyncio.sleep(pause)  # in the middle of a round, or between two
        for bell in bells:
            bell.clear()
        from_a_thread(hub.close)
        await asyncio.gather(*(bell.wait() for bell in bells))
        with pytest.raises(NotReadyError):
            hub.join()

    run(work())


def test_there_is_room_for_so_many_and_again_after_one_left() -> None:
    async def work() -> None:
        hub = Hub(2)
        first, _ = hub.join(), hub.join()
        with pytest.raises(LimitError):
            hub.join()
        hub.leave(first)
        hub.leave(first)
        hub.join()
        assert len(hub) == 2
        hub.close()

    run(work())


def test_waking_and_closing_without_a_loop_is_nothing() -> None:
    hub = Hub(2)
    hub.wake()
    hub.close()
    after = Hub(2)

    async def work() -> None:
        after.join()

    run(work())
    after.wake()
    after.close()


def test_memory_is_returned_after_many_have_left(monkeypatch: pytest.MonkeyPatch) -> None:
    returned: list[int] = []
    hub = Hub(1000)
    monkeypatch.setattr(hubs, "SOON", 0.0)
    monkeypatch.setattr(hubs, "trim", lambda: returned.append(len(hub)))

    async def work() -> None:
        for bell in [hub.join() for _ in range(2 * hubs.MANY + 1)]:
            hub.leave(bell)
        while len(returned) < 2:
            await asyncio.sleep(0.01)
        hub.close()

    run(work())
    assert returned == [0, 0]


def test_trimming_the_heap_does_no_harm() -> None:
    trim()
