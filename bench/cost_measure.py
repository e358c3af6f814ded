"""Costs of the product at three sizes, for the cost model; a year of merges and many clients are simulated."""

import asyncio
import mmap
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bench.processes import resident
from bench.report import Part, Row, settings_at, sized
from bench.timing import scratch
from quantide import History, Summaries
from quantide.config import read_config
from quantide.history.compaction_plan import Compaction, is_expired, next_chunk_compaction, next_level_compaction
from quantide.history.run import Run
from quantide.live import LiveStream
from quantide.server.events.event_stream import EventStream
from quantide.server.events.subscriber import Subscription
from quantide.server.service import Service
from quantide.server.subscriptions.query_table import QuerySet
from quantide.server.subscriptions.window_key import WindowKey
from quantide.store.file_names import RunId

RUNS, POLLS, TINY = 3, 20, 10  # runs of a merge; polls without a commit; rows where only the commit matters
STREAM, WINDOW, LATER = "simulated", "within:5m", 600.0  # a commit is so many seconds later that its window is new
CONFIG = """
store = "data"
[server]
port = 0
[server.limits]
events = {clients}
queries = {queries}
[streams.simulated]
source = {{ format = "parquet", path = "in" }}
value = "value"
keys = ["key"]
"""


@dataclass(frozen=True)
class Settings:
    """Three sizes of each cost. Simulated: `steps` for each of `kappas`; an open step; `crowds` of clients."""

    eps: float = 0.01
    values: tuple[int, ...] = sized((65_536, 524_288, 2_097_152), quick=(1_000, 4_000, 16_000))
    keys: tuple[int, ...] = sized((100, 10_000, 100_000), quick=(4, 16, 64))
    epsilons: tuple[float, ...] = (0.01, 0.001)
    each_key: tuple[int, ...] = sized((10, 100, 1_000), quick=(2, 20, 200))
    summarized: int = sized(5_000, quick=20)
    files: tuple[int, ...] = sized((50, 200, 600), quick=(2, 4, 8))
    runs: tuple[int, ...] = sized((4, 12, 36), quick=(2, 3, 4))
    run_values: int = sized(131_072, quick=1_000)
    readers: tuple[int, ...] = sized((1, 4, 16), quick=(1, 2, 3))
    rounds: int = sized(5, quick=1)
    commit_rounds: int = sized(10, quick=2)  # as many as from one checkpoint to the next
    kappas: tuple[int, ...] = sized((3, 10, 30), quick=(2, 10))
    steps: tuple[int, ...] = sized((100, 1_000, 8_760), quick=(10, 100, 8_760))
    points: int = 60
    appends: int = 360  # one in ten seconds
    append_rows: tuple[int, ...] = (10_000, 100_000, 1_000_000, 10_000_000)
    crowds: tuple[tuple[int, int], ...] = sized(
        ((1_000, 100), (10_000, 300), (100_000, 1_000)), quick=((10, 2), (20, 3), (40, 5))
    )
    each: int = 2
    commits: int = sized(2, quick=1)


@contextmanager
def stage(_settings: Settings) -> Iterator[dict[str, Part]]:
    for measure in PARTS.values():  # load and compile before anything is timed
        measure(settings_at(Settings, "quick"))
    yield PARTS


def _used(work: Callable[..., Any], *arguments: Any, **named: Any) -> float:
    """Return the processor seconds of all threads."""
    before = time.process_time()
    work(*arguments, **named)
    return round(time.process_time() - before, 7)


def _values(n: int) -> Any:
    return np.random.default_rng(n).lognormal(3, 1, n)


@contextmanager
def _store(**settings: Any) -> Iterator[History]:
    with scratch() as folder, History(folder, **settings) as history:
        yield history


def writing(s: Settings) -> dict[str, list[Row]]:
    """Measure appends of values of many keys, and the merge of three such runs."""
    rows: dict[str, list[Row]] = {"ingest": [], "merge": [], "stored": []}
    for keys, values in ((keys, values) for keys in s.keys for values in s.values):
        spread, found, owners = np.random.default_rng(5), [], np.empty(0, np.int64)
        with _store(eps=s.eps, keys="key", kappa=RUNS - 1, window="1 hour") as history:
            for run in range(RUNS):
                owners = spread.integers(0, keys, values)
                found.append(_used(history.append, _values(values), key=owners, times=0.0))
                if run < RUNS - 1:
                    history.end_step()
            about, files = {"values": values, "keys": keys, "touched": len(np.unique(owners))}, history.snapshot.files
            folder, recent = Path(files[0].path).parent.parent, history.table.current_manifest().entries
            stored = {"eps": history.table.settings.chunk_eps, "recent": sum(entry.size for entry in recent) // RUNS}
            stored["data"] = sum(one.index.info.data_size for one in files) // len(files)
            stored["side"] = sum((folder / one.name.index).stat().st_size for one in files) // len(files)
            stored["memory"] = sum(one.index.nbytes for one in files) // len(files)
            rows["merge"].append(about | {"runs": RUNS, "seconds": _used(history.end_step)})
        rows["ingest"].append(about | {"seconds": min(found)})
        rows["stored"].append(about | stored)
    return rows


def summaries(s: Settings) -> list[Row]:
    """Measure bytes of summaries of many keys, by eps and by the values of a key."""
    rows = []
    for eps, each in ((eps, each) for eps in s.epsilons for each in s.each_key):
        keys = np.tile(np.arange(s.summarized), each)
        found = Summaries.of(keys, _values(len(keys)), eps)
        rows.append({"eps": eps, "each": each, "keys": len(found), "bytes": found.nbytes})
    return rows


def files(s: Settings) -> dict[str, list[Row]]:
    """Measure a commit, a reader that follows it, and one that opens the store, by the files of the store."""
    rows: dict[str, list[Row]] = {"commit": [], "follow": [], "open": []}
    with _store(eps=0.01, kappa=max(s.files) + 1, window=0) as history:
        for count in s.files:
            for _ in range(count - len(history.snapshot.files)):
                history.append(_values(TINY))
                history.end_step()
            with LiveStream(history.path, follow=False) as live:  # averaged between two checkpoints
                pairs = [(_used(history.append, _values(TINY)), _used(live.poll)) for _ in range(s.commit_rounds)]
            opened = min(_used(lambda: LiveStream(history.path, follow=False).close()) for _ in range(s.rounds))
            commit, follow = (sum(one) / len(pairs) for one in zip(*pairs, strict=True))
            for name, seconds in {"commit": commit, "follow": follow, "open": opened}.items():
                rows[name].append({"files": len(history.snapshot.files), "seconds": seconds})
    return rows


def questions(s: Settings) -> list[Row]:
    """Measure accurate answers by the number of runs, each the first after a commit."""
    rows = []
    with _store(eps=0.01, kappa=max(s.runs) + 1, window=0) as history:
        for runs in s.runs:
            while history.stats()["runs"] < runs:
                history.append(_values(s.run_values))
                history.end_step()
            used = []
            for phi in (0.1, 0.5, 0.9, 0.99):
                history.append(_values(TINY))
                used.append(_used(history.answer, phi))
            rows.append({"runs": runs, "blocks": history.answer(0.5).blocks_read, "seconds": sum(used) / len(used)})
    return rows


def readers(s: Settings) -> list[Row]:
    """Measure readers of one log: a commit, and a poll without a commit."""
    rows = []
    with _store(eps=0.01, window=0) as history:
        history.append(_values(TINY))
        for count in s.readers:
            with ExitStack() as stack:
                held = [stack.enter_context(LiveStream(history.path, follow=False)) for _ in range(count)]
                idle, found = [], []
                for _ in range(s.rounds):
                    idle.append(_used(lambda held=held: [live.poll() for _ in range(POLLS) for live in held]) / POLLS)
                    history.append(_values(TINY))
                    found.append(_used(lambda held=held: [live.poll() for live in held]))
                rows.append({"readers": count, "idle": min(idle), "seconds": min(found)})
    return rows


@dataclass(frozen=True)
class CountedRun(Run):
    """A run of which only the number of rows is known."""

    count: int = 0

    @cached_property
    def rows(self) -> int:
        return self.count


class Levels:
    """Merge policy of the writer, driven with counts of rows: rows `rewritten` by merges, `compacted` in open steps."""

    def __init__(self, kappa: int, retention: int | None = None) -> None:
        self._kappa, self._retention, self.step, self.serial = kappa, retention, 1, 0
        self.runs, self.chunks = list[Run](), list[Run]()
        self.rewritten = self.compacted = self.merges = self.largest = 0

    def append(self, rows: int) -> None:
        self.chunks.append(self._new(self.step, self.step, 0, rows))

    def compact(self) -> None:
        while (merge := next_chunk_compaction(self.chunks)) is not None:
            self.compacted += merge.rows
            self.chunks = self._merged(self.chunks, merge)

    def end_step(self) -> None:
        self.runs, self.chunks, self.step = [*self.runs, *self.chunks], [], self.step + 1
        self.runs = [run for run in self.runs if not is_expired(run, self.step, self._retention)]
        while (merge := next_level_compaction(self.runs, self._kappa, self._retention)) is not None:
            self.rewritten, self.merges = self.rewritten + merge.rows, self.merges + 1
            self.largest = max(self.largest, merge.rows)
            self.runs = self._merged(self.runs, merge)

    def by_level(self) -> dict[int, int]:
        return dict(sorted(Counter(run.id.level for run in self.runs).items()))

    def _merged(self, runs: list[Run], merge: Compaction) -> list[Run]:
        gone, new = {run.id for run in merge.runs}, self._new(merge.first, merge.last, merge.level, merge.rows)
        return sorted([run for run in runs if run.id not in gone] + [new], key=lambda run: run.id)

    def _new(self, first: int, last: int, level: int, rows: int) -> Run:
        self.serial += 1
        return CountedRun(RunId(first, last, level, 1, self.serial), (), rows)


def levels(s: Settings) -> dict[str, list[Row]]:
    years = [row for kappa in s.kappas for row in year(kappa, s.steps, s.points)]
    return {"levels": years, "open_step": [open_step(s.appends, rows) for rows in s.append_rows]}


def year(kappa: int, steps: Iterable[int], points: int) -> list[Row]:
    """Simulate steps of one row each; report evenly spaced ones and the named ones."""
    named, simulated, rows, most = set(steps), Levels(kappa), list[Row](), 0
    last = max(named)
    reported = named | {last * i // points for i in range(1, points + 1)}
    for step in range(1, last + 1):
        simulated.append(1)
        simulated.end_step()
        most = max(most, len(simulated.runs))
        if step in reported:
            by_level = simulated.by_level()
            row: Row = {"kappa": kappa, "steps": step, "named": step in named}
            row |= {"runs": len(simulated.runs), "by_level": list(by_level.items()), "most_runs": most}
            row |= {"levels": max(by_level) + 1, "rewritten": simulated.rewritten / step}
            rows.append(row | {"merges": simulated.merges, "largest": simulated.largest})
    return rows


def open_step(appends: int, rows: int) -> Row:
    """Simulate one step: how often a row is written again before and at its end."""
    simulated = Levels(kappa=10)
    for _ in range(appends):
        simulated.append(rows)
        simulated.compact()
    chunks = len(simulated.chunks)
    simulated.end_step()
    again = (simulated.compacted + simulated.rewritten) / (appends * rows)
    return {"appends": appends, "rows": rows, "chunks": chunks, "rewritten": again}


class Tally:
    """Counts the events that event streams send; no client leaves."""

    def __init__(self) -> None:
        self.events = self.bytes = 0

    async def receive(self) -> dict[str, Any]:
        await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if (body := message.get("body", b"")).startswith(b"event"):
            self.events, self.bytes = self.events + 1, self.bytes + len(body)

    async def reach(self, events: int) -> None:
        while self.events < events:
            await asyncio.sleep(0.01)


class Crowd:
    """Clients without sockets, each with the same number of queries about one of some windows."""

    def __init__(self, folder: Path, clients: int, windows: int, each: int) -> None:
        (folder / "quantide.toml").write_text(CONFIG.format(clients=clients, queries=clients * each))
        self.history = History(folder / "data" / STREAM, eps=0.01, keys="key", window="1 hour")
        self._rng, self._windows, self.now, self.tally = np.random.default_rng(3), windows, 0.0, Tally()
        self.commit()
        self.service = Service(read_config(folder / "quantide.toml"))
        self.service.queries.start()
        names = [WindowKey.of(STREAM, i % windows, WINDOW, None) for i in range(clients) for _ in range(each)]
        phis = [(0.5, 0.9, 0.99)[i % 3] for _ in range(clients) for i in range(each)]
        ids = self.service.queries.add(names, phis, [0.005] * len(names), [None] * len(names), STREAM)
        self.ids = ids.reshape(clients, each)

    def commit(self) -> None:
        """Append rows of every key, so late that windows have no others."""
        keys = np.repeat(np.arange(self._windows), 20)
        self.now += LATER
        self.history.append(self._rng.lognormal(3, 1, len(keys)), key=keys, times=self.now)

    def evaluate(self) -> int:
        """Follow a commit as the server's thread does; return the number of clients with changes."""
        live, queries = self.service.streams.live(STREAM), self.service.queries
        before = queries.last_change
        live.poll()
        queries.on_commit(STREAM, live)
        return int((queries.table.change[self.ids - self.ids[0, 0]] > before).any(axis=1).sum())

    async def join(self) -> None:
        """Connect all clients, and wait until each has received its values."""
        self._tasks = [asyncio.create_task(self._connect(ids)) for ids in self.ids]
        await self.tally.reach(len(self.ids))

    async def _connect(self, ids: Any) -> None:
        stream = EventStream(self.service, Subscription(QuerySet(ids), [], set()), None)
        await stream({"type": "http"}, self.tally.receive, self.tally.send)

    async def leave(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@contextmanager
def simulated_crowd(clients: int, windows: int, each: int) -> Iterator[Crowd]:
    with scratch() as folder:
        crowd = Crowd(folder, clients, windows, each)
        try:
            yield crowd
        finally:
            crowd.service.close()
            crowd.history.close()


def fanout(s: Settings) -> dict[str, list[Row]]:
    return {"fanout": [fan_out(*crowd, s.each, s.commits) for crowd in s.crowds]}


def fan_out(clients: int, windows: int, each: int, commits: int) -> Row:
    """Measure the cost of a commit for a server: the least of some, processor time except for `reached`."""
    with simulated_crowd(clients, windows, each) as crowd:
        return asyncio.run(_follow(crowd, commits)) | {
            "clients": clients,
            "windows": windows,
            "queries": clients * each,
        }


async def _follow(crowd: Crowd, commits: int) -> Row:
    before, rows, tally, changed, sent = resident(), list[Row](), crowd.tally, 0, 0
    await crowd.join()
    memory = max(mmap.PAGESIZE, resident() - before)  # few clients may fit into freed pages
    for _ in range(commits):
        crowd.commit()
        events, sent, begun, used = tally.events, tally.bytes, time.perf_counter(), time.process_time()
        changed = crowd.evaluate()
        evaluated = time.process_time()
        await tally.reach(events + changed)
        told = {"look": evaluated - used, "tell": time.process_time() - evaluated}
        rows.append(told | {"reached": time.perf_counter() - begun})
    await crowd.leave()
    least = {name: round(min(row[name] for row in rows), 6) for name in rows[0]}
    return least | {"told": changed, "bytes": tally.bytes - sent, "memory": memory}


PARTS: dict[str, Part] = {"writing": writing, "summaries": summaries, "files": files, "question": questions}
PARTS |= {"readers": readers, "levels": levels, "fanout": fanout}
