"""Background tasks of the demo, each in a thread: the subscriber of events and the feeder of files."""

import os
import signal
import threading
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow.parquet as pq

from quantide.client import Client
from quantide.demo.demo_setup import LABEL
from quantide.demo.market import Market
from quantide.errors import ServerError

FILE_SECONDS = 0.5  # of ticks in a file
MAX_CATCH_UP = 120.0  # seconds of ticks that are written late, after the machine slept
SWEEP_INTERVAL = 10.0  # seconds
RETAINED_SECONDS = 20.0  # of ticks whose files stay in the folder, for users to look at


class BackgroundTask(threading.Thread, ABC):
    """A thread whose failure ends the demo as SIGTERM does; its `error` is then raised there."""

    def __init__(self, name: str) -> None:
        super().__init__(name=f"quantide-demo-{name}", daemon=True)
        self.error: Exception | None = None
        self.stopping = threading.Event()

    @abstractmethod
    def work(self) -> None:
        """Work until `stopping` is set."""

    def wake(self) -> None:
        """Interrupt a wait, after `stopping` was set."""

    def run(self) -> None:
        try:
            self.work()
        except Exception as error:
            self.error = error
            os.kill(os.getpid(), signal.SIGTERM)  # a background job of a script ignores SIGINT

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self.wake()
        self.join()


class EventTask(BackgroundTask):
    """Subscribes to all queries, a stream and all alarms: the server does not evaluate queries without a subscriber."""

    def __init__(self, client: Client, stream: str) -> None:
        super().__init__("events")
        self.wakeup = threading.Event()
        """Set when the stream or an alarm changes."""
        self.changes = 0  # of continuous queries
        self._events = client.events(label=LABEL, streams=stream, alarms=True)

    def work(self) -> None:
        for event in self._events:
            if event.kind == "queries":
                self.changes += len(event.data)
            else:
                self.wakeup.set()

    def wake(self) -> None:
        self._events.close()


class Feeder(BackgroundTask):
    """Writes the market's ticks, as they happen, as Parquet files of `FILE_SECONDS` seconds.

    Removes files that all streams have ingested, so that the folder stays small.
    """

    def __init__(self, market: Market, folder: Path, client: Client) -> None:
        super().__init__("feed")
        self._market, self._folder, self._client = market, folder, client
        self._written_until, self._last_sweep = 0.0, time.monotonic()

    def work(self) -> None:
        while not self.stopping.wait(FILE_SECONDS - self._elapsed() % FILE_SECONDS):
            self.feed(self._elapsed())
            if time.monotonic() - self._last_sweep > SWEEP_INTERVAL:
                self._last_sweep = time.monotonic()
                self.sweep()

    def feed(self, now: float) -> None:
        """Write all ticks since the last call, up to a multiple of `FILE_SECONDS`."""
        until = now - now % FILE_SECONDS
        since = max(self._written_until, until - MAX_CATCH_UP)
        if since < until:
            path = self._folder / f"{self._market.start + round(1e6 * until)}.parquet"
            temporary = path.with_suffix(".tmp")
            pq.write_table(self._market.ticks(since, until), temporary)
            temporary.rename(path)
            self._written_until = until

    def sweep(self) -> None:
        """Remove files that every stream has ingested; a file's name is the time of its last tick."""
        with suppress(ServerError):  # the server may be restarting: the next sweep removes them
            newest = [stream["newest"] for stream in self._client.streams() if stream["ready"]]
            oldest = min(newest).astype("M8[us]").astype(np.int64) - 1e6 * RETAINED_SECONDS if newest else 0
            for path in self._folder.glob("*.parquet"):
                if int(path.stem) < oldest:
                    path.unlink()

    def _elapsed(self) -> float:
        """Return the seconds since the start of the demo."""
        return time.time() - self._market.start / 1e6
