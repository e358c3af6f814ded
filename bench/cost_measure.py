"""Costs of the product at three sizes, for the cost model; the merges of an open step are simulated."""

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
from bench.timing import scratch
from quantide import History
from quantide.history.compaction_plan import next_chunk_compaction, next_level_compaction
from quantide.history.run import Run
from quantide.live import LiveStream
from quantide.store.file_names import RunId

RUNS, POLLS, TINY = 3, 20, 10  # runs of a merge; polls without a commit; rows where only the commit matters


@dataclass(frozen=True)
class Settings:
    """Three sizes of each cost, and an open step of so many appends."""

    eps: float = 0.01
    values: tuple[int, ...] = sized((65_536, 524_288, 2_097_152), quick=(1_000, 4_000, 16_000))
    keys: tuple[int, ...] = sized((100, 10_000, 100_000), quick=(4, 16, 64))
    files: tuple[int, ...] = sized((50, 200, 600), quick=(2, 4, 8))
    readers: tuple[int, ...] = sized((1, 4, 16), quick=(1, 2, 3))
    rounds: int = sized(5, quick=1)
    commit_rounds: int = sized(10, quick=2)  # as many as from one checkpoint to the next
    appends: int = 360  # one in ten seconds
    append_rows: tuple[int, ...] = (10_000, 100_000, 1_000_000, 10_000_000)


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
    for keys, values in product(s.keys, s.values):
        spread, used = np.random.default_rng(5), []
        with _store(eps=s.eps, keys="key", kappa=RUNS - 1, window="1 hour") as history:
            for run in range(RUNS):
                owners = spread.integers(0, keys, values)
                used.append(_used(history.append, _values(values), key=owners, times=0.0))
                if run < RUNS - 1:
                    history.end_step()
            about, files = {"values": values, "keys": keys, "touched": len(np.unique(owners))}, history.snapshot.files
            folder, recent = Path(files[0].path).parent.parent, history.table.current_manifest().entries
            stored = {"eps": history.table.settings.chunk_eps, "recent": sum(entry.size for entry in recent) // RUNS}
            stored["data"] = sum(one.index.info.data_size for one in files) // len(files)
            stored["side"] = sum((folder / one.name.index).stat().st_size for one in files) // len(files)
            stored["memory"] = sum(one.index.nbytes for one in files) // len(files)
            rows["merge"].append(about | {"runs": RUNS, "seconds": _used(history.end_step)})
        rows["ingest"].append(about | {"seconds": min(used)})
        rows["stored"].append(about | stored)
    return rows


def files(s: Settings) -> dict[str, list[Row]]:
    """Measure a commit, and a reader that follows it, by the files of the store."""
    rows: dict[str, list[Row]] = {"commit": [], "follow": []}
    with _store(eps=0.01, kappa=max(s.files) + 1, window=0) as history:
        for wanted in s.files:
            for _ in range(wanted - len(history.snapshot.files)):
                history.append(_values(TINY))
                history.end_step()
            with LiveStream(history.path, follow=False) as live:  # averaged between two checkpoints
                pairs = [(_used(history.append, _values(TINY)), _used(live.poll)) for _ in range(s.commit_rounds)]
            for name, seconds in zip(rows, zip(*pairs, strict=True), strict=True):
                rows[name].append({"files": len(history.snapshot.files), "seconds": sum(seconds) / len(seconds)})
    return rows


def readers(s: Settings) -> list[Row]:
    """Measure readers of one log that poll without a commit."""
    rows = []
    with _store(eps=0.01, window=0) as history:
        history.append(_values(TINY))
        for wanted in s.readers:
            with ExitStack() as stack:
                live = [stack.enter_context(LiveStream(history.path, follow=False)) for _ in range(wanted)]
                polls = [one.poll for one in live] * POLLS
                used = [_used(lambda polls=polls: [poll() for poll in polls]) / POLLS for _ in range(s.rounds)]
            rows.append({"readers": wanted, "idle": min(used)})
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
    chunks, serial, written = list[Run](), count(), 0
    for _ in range(appends):
        chunks.append(CountedRun(RunId(1, 1, 0, 1, next(serial)), (), rows))
        while (merge := next_chunk_compaction(chunks)) is not None:
            written += merge.rows
            merged = CountedRun(RunId(1, 1, 0, 1, next(serial)), (), merge.rows)
            chunks = sorted([*(run for run in chunks if run not in merge.runs), merged], key=lambda run: run.id)
    last = next_level_compaction(chunks, 10, None)
    again = (written + (last.rows if last else 0)) / (appends * rows)
    return {"appends": appends, "rows": rows, "chunks": len(chunks), "rewritten": again}


PARTS: dict[str, Part] = {"writing": writing, "files": files, "readers": readers}
PARTS["open_step"] = lambda s: [open_step(s.appends, rows) for rows in s.append_rows]
