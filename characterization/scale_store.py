"""What the writer and its readers cost, each at three sizes: processor seconds of all threads, and bytes."""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import Row
from characterization.scale_settings import Settings
from quantide import History, Summaries
from quantide.history.snapshot import Snapshot
from quantide.live import LiveStream

RUNS = 3  # that are merged
LOOKS = 20  # that find nothing, one after the other
TINY = 10  # rows of an append where only the commit matters
PHIS = (0.1, 0.5, 0.9, 0.99)


def measure_writing(settings: Settings) -> dict[str, list[Row]]:
    """Appends of so many values of so many keys, and the merge of three such runs."""
    rows: dict[str, list[Row]] = {"ingest": [], "merge": [], "stored": []}
    for keys in settings.keys:
        for values in settings.values:
            for name, found in _written(values, keys, settings).items():
                rows[name].append({"values": values, "keys": keys, **found})
    return rows


def measure_summaries(settings: Settings) -> list[Row]:
    """Bytes of summaries of many keys, by eps and by the values of a key."""
    rows = []
    for eps in settings.epsilons:
        for each in settings.each_key:
            keys = np.tile(np.arange(settings.summarized), each)
            found = Summaries.of(keys, _values(len(keys)), eps)
            rows.append({"eps": eps, "each": each, "keys": len(found), "bytes": found.nbytes})
    return rows


def measure_files(settings: Settings) -> dict[str, list[Row]]:
    """A commit, one who follows it, and one who opens the store, which has so many files."""
    rows: dict[str, list[Row]] = {"commit": [], "follow": [], "open": []}
    with _store(eps=0.01, kappa=max(settings.files) + 1, window=0) as history:
        for files in settings.files:
            for _ in range(files - len(history.snapshot.files)):
                history.append(_values(TINY))
                history.end_step()
            for name, found in _followed(history, settings).items():
                rows[name].append({"files": len(history.snapshot.files), **found})
    return rows


def measure_questions(settings: Settings) -> list[Row]:
    """Accurate answers about so many runs, each the first after a commit."""
    rows = []
    with _store(eps=0.01, kappa=max(settings.runs) + 1, window=0) as history:
        for runs in settings.runs:
            while history.stats()["runs"] < runs:
                history.append(_values(settings.run_values))
                history.end_step()
            used, reads = [], []
            for phi in PHIS:
                history.append(_values(TINY))
                used.append(_used(lambda: reads.append(history.answer(phi).blocks_read)))  # noqa: B023
            rows.append({"runs": runs, "blocks": max(reads), "seconds": sum(used) / len(used)})
    return rows


def measure_readers(settings: Settings) -> list[Row]:
    """So many readers of one log: what a commit costs all of them, and what a look that finds nothing does."""
    rows = []
    with _store(eps=0.01, window=0) as history:
        history.append(_values(TINY))
        for readers in settings.readers:
            with _readers(history, readers) as held:
                idle, found = [], []
                for _ in range(settings.rounds):
                    idle.append(_used(lambda: [live.poll() for _ in range(LOOKS) for live in held]) / LOOKS)
                    history.append(_values(TINY))
                    found.append(_used(lambda: [live.poll() for live in held]))
                rows.append({"readers": readers, "idle": min(idle), "seconds": min(found)})
    return rows


def _written(values: int, keys: int, settings: Settings) -> dict[str, Row]:
    spread, found = np.random.default_rng(5), []
    with _store(eps=settings.eps, keys="key", kappa=RUNS - 1, window="1 hour") as history:
        for _ in range(RUNS):
            data, owners = _values(values), spread.integers(0, keys, values)
            found.append(_used(lambda: history.append(data, key=owners, times=0.0)))  # noqa: B023
            if len(found) < RUNS:
                history.end_step()
        touched = len(np.unique(owners))
        recent = sum(entry.size for entry in history.table.own_manifest().entries)
        about = {"touched": touched, "eps": history.table.settings.chunk_eps, "recent": recent // RUNS}
        stored = about | _sizes(history.snapshot, len(history.snapshot.files))
        merge = _used(history.end_step)
    return {
        "ingest": {"touched": touched, "seconds": min(found)},
        "merge": {"touched": touched, "runs": RUNS, "seconds": merge},
        "stored": stored,
    }


def _sizes(snapshot: Snapshot, runs: int) -> Row:
    """Bytes of a run, on average: data, side files, and what a reader always holds of them."""
    parts = snapshot.files
    folder = Path(parts[0].path).parent.parent
    return {
        "data": sum(part.side.about.data_size for part in parts) // runs,
        "side": sum((folder / part.name.side).stat().st_size for part in parts) // runs,
        "memory": sum(part.side.nbytes for part in parts) // runs,
    }


def _followed(history: History, settings: Settings) -> dict[str, Row]:
    """On average over as many commits as there are between two checkpoints."""
    with LiveStream(history.path, follow=False) as live:
        commits, polls = [], []
        for _ in range(settings.commit_rounds):
            commits.append(_used(lambda: history.append(_values(TINY))))
            polls.append(_used(live.poll))
    opened = min(_used(lambda: LiveStream(history.path, follow=False).close()) for _ in range(settings.rounds))
    return {
        "commit": {"seconds": sum(commits) / len(commits)},
        "follow": {"seconds": sum(polls) / len(polls)},
        "open": {"seconds": opened},
    }


def _used(work: Callable[[], Any]) -> float:
    """Processor seconds of all threads."""
    before = time.process_time()
    work()
    return round(time.process_time() - before, 7)


def _values(n: int) -> Any:
    return np.random.default_rng(n).lognormal(3, 1, n)


@contextmanager
def _store(**settings: Any) -> Iterator[History]:
    with tempfile.TemporaryDirectory(prefix="quantide-scale-") as folder, History(folder, **settings) as history:
        yield history


@contextmanager
def _readers(history: History, count: int) -> Iterator[list[LiveStream]]:
    held = [LiveStream(history.path, follow=False) for _ in range(count)]
    try:
        yield held
    finally:
        for live in held:
            live.close()
