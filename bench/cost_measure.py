"""Costs of the product at three sizes, for the cost model; the merges of an open step are simulated."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import count, product
from pathlib import Path
from typing import Any

import numpy as np

from bench.report import Part, Row, settings_at, sized
from bench.request_measure import RequestSettings, request_stream, requests
from bench.timing import scratch
from quantide import History
from quantide.history.compaction_plan import next_chunk_compaction, next_level_compaction
from quantide.history.history_reader import HistoryReader
from quantide.history.run import Run
from quantide.live import LiveStream
from quantide.store.file_names import AddedFile, FileName, RunId

RUNS, POLLS, TINY = 3, 20, 10  # runs of a merge; polls without a commit; rows where only the commit matters
PARTS_PER_RUN, LINKS = 100, 50_000  # files of a run; links that a file system allows for one file


@dataclass(frozen=True)
class Settings(RequestSettings):
    """Three sizes of each cost, and an open step of so many appends."""

    eps: float = 0.01
    values: tuple[int, ...] = sized((65_536, 524_288, 2_097_152), quick=(1_000, 4_000, 16_000))
    keys: tuple[int, ...] = sized((100, 10_000, 100_000), quick=(4, 16, 64))
    files: tuple[int, ...] = sized((1_000, 5_000, 20_000), quick=(20, 40, 80))
    readers: tuple[int, ...] = sized((1, 4, 16), quick=(1, 2, 3))
    rounds: int = sized(5, quick=1)
    write_rounds: int = sized(2, quick=1)
    commit_rounds: int = sized(30, quick=3)
    appends: int = 360  # one in ten seconds
    append_rows: tuple[int, ...] = (10_000, 100_000, 1_000_000, 10_000_000)


@contextmanager
def stage(_settings: Settings) -> Iterator[dict[str, Part]]:
    for measure in (writing, files, readers):  # load and compile before anything is timed
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
    """Measure appends of values of many keys, and the merge of three such runs: the least seconds of all rounds."""
    rows: dict[str, list[Row]] = {"ingest": [], "merge": [], "stored": []}
    for keys, values in product(s.keys, s.values):
        rounds = [_append_and_merge(s.eps, keys, values) for _ in range(s.write_rounds)]
        for name, measured in rows.items():
            measured.append(min((one[name] for one in rounds), key=lambda row: row.get("seconds", 0)))
    return rows


def _append_and_merge(eps: float, keys: int, values: int) -> dict[str, Row]:
    spread, used = np.random.default_rng(5), []
    with _store(eps=eps, keys="key", kappa=RUNS, window="1 hour") as history:
        for _ in range(RUNS):
            owners = spread.integers(0, keys, values)
            used.append(_used(history.append, _values(values), key=owners, times=0.0))
            history.end_step()
        about, files = {"values": values, "keys": keys, "touched": len(np.unique(owners))}, history.snapshot.files
        folder, recent = Path(history.path), history.table.current_manifest().entries
        stored = {"eps": history.table.settings.chunk_eps, "recent": sum(entry.size for entry in recent) // RUNS}
        stored["data"] = sum(one.index.info.data_size for one in files) // RUNS
        stored["side"] = sum((folder / one.name.index).stat().st_size for one in files) // RUNS
        stored["memory"] = sum(one.index.nbytes for one in files) // RUNS
        history.append(_values(TINY), key=owners[:TINY], times=0.0)  # one run more than a level may have
        merge = {"seconds": _used(history.end_step), "runs": RUNS + 2 - len(history.snapshot.runs)}
    return {"ingest": about | {"seconds": min(used)}, "merge": about | merge, "stored": about | stored}


def files(s: Settings) -> dict[str, list[Row]]:
    """Measure a commit, a reader that follows it or opens the table, and a checkpoint, by the files of the table."""
    rows: dict[str, list[Row]] = {"commit": [], "follow": [], "open": [], "checkpoint": []}
    for file_count in s.files:
        with _store(eps=0.01, kappa=10**6, window=0) as history:
            history.append(_values(TINY))
            history.end_step()
            add_files(history, file_count)
            opening = _used(lambda path=history.path: HistoryReader(path).n)
            with LiveStream(history.path, follow=False) as live:
                pairs = [(_used_by_commit(history), _used(live.poll)) for _ in range(s.commit_rounds)]
            checkpoints = [_used_by_checkpoint(history) for _ in range(3)]  # one of them may exist already
            least, count = [[min(column)] for column in zip(*pairs, strict=True)], len(history.snapshot.files)
            columns = [*least, [opening], checkpoints]
        for name, column in zip(rows, columns, strict=True):
            rows[name].append({"files": count, "seconds": float(np.median(column))})
    return rows


def _used_by_checkpoint(history: History) -> float:
    history.append(_values(TINY))
    maintenance = history.table.maintenance
    maintenance.wait()
    return _used(maintenance.write_checkpoint, history.table.version)


def _used_by_commit(history: History) -> float:
    """Return the processor seconds of the thread that commits: another one may be making a checkpoint."""
    before = time.thread_time()
    history.append(_values(TINY))
    return round(time.thread_time() - before, 7)


def add_files(history: History, count: int) -> None:
    """Add files to a table: links to copies of its first one, in runs of a hundred."""
    table, folder = history.table, Path(history.path)
    name = table.files()[0]
    (size, rows), sources, added = table.sizes()[name.data], [name.data, name.index], list[AddedFile]()
    for number in range(count):
        if number % LINKS == LINKS - 1:
            copies = [f"_quantide/{number}-{i}" for i in range(2)]
            for source, copy in zip(sources, copies, strict=True):
                shutil.copy(folder / source, folder / copy)
            sources = copies
        new = FileName(RunId(1, 1, 3, table.epoch, 10**6 + number // PARTS_PER_RUN), number % PARTS_PER_RUN)
        for source, target in zip(sources, (new.data, new.index), strict=True):
            os.link(folder / source, folder / target)
        added.append((new, size, rows))
    table.commit(add=added)


def readers(s: Settings) -> list[Row]:
    """Measure readers of one log that poll without a commit."""
    rows = []
    with _store(eps=0.01, window=0) as history:
        history.append(_values(TINY))
        for reader_count in s.readers:
            with ExitStack() as stack:
                live = [stack.enter_context(LiveStream(history.path, follow=False)) for _ in range(reader_count)]
                polls = [one.poll for one in live] * POLLS
                used = [_used(lambda polls=polls: [poll() for poll in polls]) / POLLS for _ in range(s.rounds)]
            rows.append({"readers": reader_count, "idle": min(used)})
    return rows


@dataclass(frozen=True)
class CountedRun(Run):
    """A run of which only the number of rows is known."""

    count: int = 0

    @cached_property
    def rows(self) -> int:
        return self.count


def open_step(appends: int, rows: int) -> Row:
    """Drive the merge policy of the writer: how often a row is written again before and at the end of a step."""
    chunks, serial, written, merges = list[Run](), count(), 0, 0
    for _ in range(appends):
        chunks.append(CountedRun(RunId(1, 1, 0, 1, next(serial)), (), rows))
        while (merge := next_chunk_compaction(chunks)) is not None:
            written, merges = written + merge.rows, merges + 1
            merged = CountedRun(RunId(1, 1, 0, 1, next(serial)), (), merge.rows)
            chunks = sorted([*(run for run in chunks if run not in merge.runs), merged], key=lambda run: run.id)
    last = next_level_compaction(chunks, 10, None)
    again = (written + (last.rows if last else 0)) / (appends * rows)
    merges += last is not None
    return {"appends": appends, "rows": rows, "chunks": len(chunks), "rewritten": again, "merges": merges}


PARTS: dict[str, Part] = {"writing": writing, "files": files, "readers": readers}
PARTS |= {"requests": requests, "stream": request_stream}
PARTS["open_step"] = lambda s: [open_step(s.appends, rows) for rows in s.append_rows]
