"""The hub: all open event streams, woken a few at a time when there is something to tell."""

import asyncio
import time
from collections.abc import Iterable
from contextlib import suppress
from threading import Lock

from quantide.errors import LimitError, NotReadyError
from quantide.server.heap import trim

AT_ONCE = 16  # connections that are woken together
PAUSE = 0.001  # seconds between them: others get the loop, and the interpreter
ROUND = 0.05  # seconds from one round to the next: so a connection is told things at most 20 times a second
MANY = 100  # connections that end before the memory they had is returned to the system,
SOON = 3.0  # seconds later: others may end with them
BURST = 8  # events that are made before others get as much time as those took


class Pacer:
    """Lets clients make one event at a time, and leaves half of the loop's time to questions."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()  # first come, first served
        self._made, self._busy = 0, 0.0
        self.closing = False  # then nobody waits any more

    async def turn(self) -> None:
        """Wait for the turn to make one event, or to begin to listen."""
        async with self._lock:
            if self.closing:
                return
            began = time.monotonic()
            await asyncio.sleep(0)  # one turn in each round of the loop
            self._made, self._busy = self._made + 1, self._busy + time.monotonic() - began
            if self._made % BURST == 0:
                busy, self._busy = self._busy, 0.0
                await asyncio.sleep(min(busy, ROUND))


class Hub:
    """Wakes connections; each finds out by itself what it was not told yet, so that nothing waits in queues.

    wake() and close() may be called by any thread; everything else belongs to the loop that serves.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._bells: set[asyncio.Event] = set()
        self._due: set[asyncio.Event] = set()  # those that are to be woken
        self._adding = Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self.pacer = Pacer()
        self.closing = False
        self._left = 0  # connections that ended since memory was last returned to the system

    def __len__(self) -> int:
        """How many connections there are."""
        return len(self._bells)

    def join(self) -> asyncio.Event:
        """What is set whenever there may be something to tell."""
        if self.closing:
            raise NotReadyError("the server is being stopped; connect again in a second")
        if len(self._bells) >= self._most:
            raise LimitError(f"{self._most:,} event streams are open already; close one, or connect again later")
        if self._task is None:
            self._loop = asyncio.get_running_loop()
            self._task = self._loop.create_task(self._ring())
        bell = asyncio.Event()
        self._bells.add(bell)
        return bell

    def leave(self, bell: asyncio.Event) -> None:
        self._bells.discard(bell)
        self._left += 1
        if self._left >= MANY and self._loop is not None and not self.closing:
            self._left = 0
            self._loop.call_later(SOON, self._loop.run_in_executor, None, trim)

    def wake(self, bells: Iterable[asyncio.Event] | None = None) -> None:
        """There is something to tell: to some, or to all."""
        loop = self._loop
        with self._adding:
            self._due.update(self._bells if bells is None else bells)
        if loop is not None:
            with suppress(RuntimeError):  # a loop that has ended has no connections
                loop.call_soon_threadsafe(self._news.set)

    def close(self) -> None:
        """Let all event streams end, and no new ones begin. Before the server waits for connections to end."""
        self.closing = self.pacer.closing = True
        self.wake()

    async def _ring(self) -> None:
        ending = False
        while not ending:
            await self._news.wait()
            self._news.clear()
            begun, ending = time.monotonic(), self.closing
            with self._adding:
                bells, self._due = list(self._due), set()
            for start in range(0, len(bells), AT_ONCE):
                for bell in bells[start : start + AT_ONCE]:
                    bell.set()
                if not ending:
                    await asyncio.sleep(PAUSE)
            await asyncio.sleep(0 if ending else begun + ROUND - time.monotonic())
