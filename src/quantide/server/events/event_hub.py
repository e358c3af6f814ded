"""Event hub: all open event streams, notified a few at a time when an event is pending."""

import asyncio
import ctypes
import time
from collections.abc import Iterable
from contextlib import suppress
from threading import Lock

from quantide.errors import LimitError, NotReadyError

AT_ONCE = 16  # connections that are notified together
PAUSE = 0.001  # seconds between them: other tasks get the loop, and the interpreter
ROUND = 0.05  # seconds between two rounds: a connection is notified at most 20 times a second
TRIM_AFTER = 100  # connections that end before their memory is returned to the system,
TRIM_DELAY = 3.0  # seconds later: others may end with them
BURST = 8  # events that are encoded before other tasks get as much time as these took


class EventPacer:
    """Lets clients encode one event at a time, and leaves half of the loop's time to requests."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()  # first come, first served
        self._events, self._busy = 0, 0.0
        self.closing = False  # then no client waits any more

    async def wait_turn(self) -> None:
        """Wait for the turn to encode one event, or to subscribe."""
        async with self._lock:
            if self.closing:
                return
            start = time.monotonic()
            await asyncio.sleep(0)  # one turn in each iteration of the loop
            self._events, self._busy = self._events + 1, self._busy + time.monotonic() - start
            if self._events % BURST == 0:
                busy, self._busy = self._busy, 0.0
                await asyncio.sleep(min(busy, ROUND))


class EventHub:
    """Wakes connections; each determines its own pending events, so that no events are queued.

    notify() and close() may be called by any thread; everything else belongs to the server's event loop.
    """

    def __init__(self, max_connections: int) -> None:
        self._max_connections = max_connections
        self._wakeups: set[asyncio.Event] = set()
        self._due: set[asyncio.Event] = set()  # wakeups to be set
        self._due_lock = Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._pending = asyncio.Event()
        self.pacer = EventPacer()
        self.closing = False
        self._ended = 0  # connections that ended since memory was last returned to the system

    def __len__(self) -> int:
        """Return the number of connections."""
        return len(self._wakeups)

    def connect(self) -> asyncio.Event:
        """Return the wakeup of a new connection, which is set whenever an event may be pending."""
        if self.closing:
            raise NotReadyError("the server is shutting down; connect again in a second")
        if len(self._wakeups) >= self._max_connections:
            raise LimitError(
                f"{self._max_connections:,} event streams are open already; close one, or connect again later"
            )
        if self._task is None:
            self._loop = asyncio.get_running_loop()
            self._task = self._loop.create_task(self._run())
        wakeup = asyncio.Event()
        self._wakeups.add(wakeup)
        return wakeup

    def disconnect(self, wakeup: asyncio.Event) -> None:
        self._wakeups.discard(wakeup)
        self._ended += 1
        if self._ended >= TRIM_AFTER and self._loop is not None and not self.closing:
            self._ended = 0
            self._loop.call_later(TRIM_DELAY, self._loop.run_in_executor, None, trim_heap)

    def notify(self, wakeups: Iterable[asyncio.Event] | None = None) -> None:
        """Wake these connections, or all, in the next round."""
        loop = self._loop
        with self._due_lock:
            self._due.update(self._wakeups if wakeups is None else wakeups)
        if loop is not None:
            with suppress(RuntimeError):  # a closed loop has no connections
                loop.call_soon_threadsafe(self._pending.set)

    def close(self) -> None:
        """End all event streams and accept no new ones. Call it before the server waits for connections to end."""
        self.closing = self.pacer.closing = True
        self.notify()

    async def _run(self) -> None:
        closing = False
        while not closing:
            await self._pending.wait()
            self._pending.clear()
            start, closing = time.monotonic(), self.closing
            with self._due_lock:
                wakeups, self._due = list(self._due), set()
            for first in range(0, len(wakeups), AT_ONCE):
                for wakeup in wakeups[first : first + AT_ONCE]:
                    wakeup.set()
                if not closing:
                    await asyncio.sleep(PAUSE)
            await asyncio.sleep(0 if closing else start + ROUND - time.monotonic())


def trim_heap() -> None:
    """Return free memory of the C library's heap to the system; do nothing where the library cannot."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
