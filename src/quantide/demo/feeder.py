"""The feeder: writes what the market does, as it happens, as Parquet files into a folder."""

import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from quantide.client import Client
from quantide.demo.market import Market
from quantide.demo.part import Part
from quantide.errors import ServerError

EVERY = 0.5  # seconds of ticks in a file
MOST = 120.0  # seconds that are made up for when the machine slept
SWEEP = 10.0  # seconds between looks for files that are not needed any more
KEPT = 20.0  # seconds of ticks whose files are kept, for whoever wants to look at them


class Feeder(Part):
    """Files of `EVERY` seconds; those that all streams have taken are removed, so that the folder stays small."""

    def __init__(self, market: Market, folder: Path, client: Client) -> None:
        super().__init__("feed")
        self._market, self._folder, self._client = market, folder, client
        self._fed, self._swept = 0.0, time.monotonic()

    def work(self) -> None:
        while not self.ends.wait(EVERY - self._now() % EVERY):
            self.feed(self._now())
            if time.monotonic() - self._swept > SWEEP:
                self._swept = time.monotonic()
                self.sweep()

    def feed(self, now: float) -> None:
        """Write all ticks that came since the last time, up to whole pieces of `EVERY` seconds."""
        until = now - now % EVERY
        since = max(self._fed, until - MOST)
        if since < until:
            path = self._folder / f"{self._market.start + round(1e6 * until)}.parquet"
            being_written = path.with_suffix(".tmp")
            pq.write_table(self._market.ticks(since, until), being_written)
            being_written.rename(path)
            self._fed = until

    def sweep(self) -> None:
        """Remove files that every stream has taken; files are named by the time at which their last tick came."""
        with suppress(ServerError):  # a server that is started again can be asked later
            newest = [stream["newest"] for stream in self._client.streams() if stream["ready"]]
            old = min(newest).astype("M8[us]").astype(np.int64) - 1e6 * KEPT if newest else 0
            for path in self._folder.glob("*.parquet"):
                if int(path.stem) < old:
                    path.unlink()

    def _now(self) -> float:
        """Seconds since the start."""
        return time.time() - self._market.start / 1e6
