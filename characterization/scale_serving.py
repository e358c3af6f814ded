"""Fan-out: the server's own listeners, hub and standing queries, with as many clients as wanted and no sockets."""

import asyncio
import mmap
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import Row
from characterization.memory import resident
from characterization.scale_settings import Settings
from quantide import History
from quantide.config import read_config
from quantide.server.about import Name
from quantide.server.columns import QuerySet
from quantide.server.eventstream import EventStream
from quantide.server.listener import Chosen
from quantide.server.service import Service

STREAM = "simulated"
CONFIG = """
store = "data"
[server]
port = 0
[server.limits]
events = {clients}
queries = {queries}
[streams.{stream}]
source = {{ format = "parquet", path = "in" }}
value = "value"
keys = ["key"]
"""
WINDOW, LATER = "within:5m", 600.0  # every commit is so many seconds later that all of a window is new
ROWS = 20  # of each key in a commit
PHIS = (0.5, 0.9, 0.99)


class Tally:
    """Where event streams send what they have to tell: one event to a client that has few queries. Nobody leaves."""

    def __init__(self) -> None:
        self.events = self.bytes = 0

    async def receive(self) -> dict[str, Any]:
        await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        body = message.get("body", b"")
        if body.startswith(b"event"):
            self.events += 1
            self.bytes += len(body)

    async def reach(self, events: int) -> None:
        while self.events < events:
            await asyncio.sleep(0.01)


class Crowd:
    """Clients, each with the same number of queries about one of some windows."""

    def __init__(self, folder: Path, clients: int, windows: int, each: int) -> None:
        limits = CONFIG.format(clients=clients, queries=clients * each, stream=STREAM)
        (folder / "quantide.toml").write_text(limits)
        self.history = History(folder / "data" / STREAM, eps=0.01, keys="key", window="1 hour")
        self._rng, self._windows, self.now = np.random.default_rng(3), windows, 0.0
        self.commit()
        self.service = Service(read_config(folder / "quantide.toml"))
        self.service.standing.start()
        names = [Name.of(STREAM, i % windows, WINDOW, None) for i in range(clients) for _ in range(each)]
        phis = [PHIS[i % len(PHIS)] for _ in range(clients) for i in range(each)]
        ids = self.service.standing.add(names, phis, [0.005] * len(names), [None] * len(names), "simulated")
        self.ids = ids.reshape(clients, each)
        self.tally = Tally()

    def commit(self) -> None:
        """New rows of every key, so late that windows hold nothing else."""
        keys = np.repeat(np.arange(self._windows), ROWS)
        self.now += LATER
        self.history.append(self._rng.lognormal(3, 1, len(keys)), key=keys, times=self.now)

    def look(self) -> int:
        """What the thread that follows a store does after a commit; how many clients have something new."""
        live, standing = self.service.streams.live(STREAM), self.service.standing
        before = standing.change
        live.poll()
        standing.moved(STREAM, live)
        return int((standing.columns.change[self.ids - self.ids[0, 0]] > before).any(axis=1).sum())

    async def join(self) -> None:
        """All clients connect, and are told how things stand."""
        self._tasks = [asyncio.create_task(self._connect(ids)) for ids in self.ids]
        await self.tally.reach(len(self.ids))

    async def _connect(self, ids: Any) -> None:
        stream = EventStream(self.service, Chosen(QuerySet(ids), [], set()), None)
        await stream({"type": "http"}, self.tally.receive, self.tally.send)

    async def leave(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def measure(settings: Settings) -> dict[str, list[Row]]:
    return {"fanout": [fan_out(*size, settings.each, settings.commits) for size in settings.crowds]}


def fan_out(clients: int, windows: int, each: int, commits: int) -> Row:
    """What a commit costs a server with so many clients: the least of some, processor time but for `reached`."""
    with crowded(clients, windows, each) as crowd:
        return asyncio.run(_follow(crowd, commits)) | {
            "clients": clients,
            "windows": windows,
            "queries": clients * each,
        }


async def _follow(crowd: Crowd, commits: int) -> Row:
    before = resident()
    await crowd.join()
    memory = max(mmap.PAGESIZE, resident() - before)  # few clients may fit where others have been
    rows, tally = [], crowd.tally
    for _ in range(commits):
        crowd.commit()
        events, sent = tally.events, tally.bytes
        begun, used = time.perf_counter(), time.process_time()
        changed = crowd.look()
        looked = time.process_time()
        await tally.reach(events + changed)
        ended = time.process_time(), time.perf_counter()
        rows.append({"look": looked - used, "tell": ended[0] - looked, "reached": ended[1] - begun})
    await crowd.leave()
    least = {name: round(min(row[name] for row in rows), 6) for name in rows[0]}
    return least | {"told": changed, "bytes": tally.bytes - sent, "memory": memory}


@contextmanager
def crowded(clients: int, windows: int, each: int) -> Iterator[Crowd]:
    with tempfile.TemporaryDirectory(prefix="quantide-scale-") as folder:
        crowd = Crowd(Path(folder), clients, windows, each)
        try:
            yield crowd
        finally:
            crowd.service.close()
            crowd.history.close()
