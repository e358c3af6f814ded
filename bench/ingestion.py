"""Files into history through Spark: rows a second, many keys, latency of a file, and steady ingestion."""

import math
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bench.collection import Subject
from bench.inputs import Floats, answer_holds
from bench.live_reader import NumberedTimes, first_at, newest
from bench.processes import KINDS, PATIENCE, Child, read_events
from bench.report import Row, show, sized
from bench.timing import scratch, spread
from quantide import History
from quantide.live import LiveStream
from quantide.windows.time_clock import read_span

ONE_FILE = ", max_files = 1"  # a batch
OURS, PEER = "quantide ingest", "Spark, percentile_approx and Parquet"
METHODS = {  # the child's method, the options of its source, its flags, and the window that is checked
    OURS: ("quantide", ONE_FILE, "", "1 hour"),
    f"{OURS}, batches of 1 GiB": ("quantide", "", "", "1 hour"),
    f"{OURS}, no recent rows": ("quantide", ONE_FILE, "--no-window", ""),
    PEER: ("spark", ONE_FILE, "", ""),
}
BEGIN, APART = 1_750_000_000_000_000, 1_000  # microseconds: the first time, and between two rows
WARM = 5  # files that do not count
CONFIG = """store = "data"
[streams.s]
source = {{ format = "parquet", path = "in"{source} }}
value = "v"
time = "t"
eps = {eps:g}
{more}
"""


@dataclass(frozen=True)
class Settings:
    """`files` of `file_rows` rows, one a batch; `lag_files`, one after the other, with pauses; steady files."""

    cores: int = 2
    eps: float = 0.001
    files: int = sized(8, 4, 2)
    file_rows: int = sized(10_000_000, quick=20_000)
    lag_files: int = sized(40, 20, 3)
    lag_rows: int = sized(1_000, quick=100)
    pause: tuple[float, float] = sized((0.3, 0.8), quick=(0.1, 0.2))
    steady_seconds: float = sized(600.0, 60.0, 6.0)
    steady_rows: int = sized(20_000, quick=200)
    steady_every: float = 0.5
    steady_step: str = sized("1 min", quick="2 s")
    steady_window: str = "5 min"


def configure(folder: Path, eps: float, source: str = "", more: str = "") -> Path:
    """Write the configuration of a stream from the folder "in" into a store, and return the store's path."""
    (folder / "in").mkdir(parents=True, exist_ok=True)
    (folder / "quantide.toml").write_text(CONFIG.format(eps=eps, source=source, more=more), encoding="utf-8")
    return folder / "data" / "s"


def file_values(number: int, rows: int) -> Floats:
    """Return the latencies of a file."""
    return np.random.default_rng([23, number]).lognormal(3, 1, rows)


def numbered(number: int, rows: int) -> Floats:
    """Return values whose whole part is the number of their file."""
    return number + np.random.default_rng([29, number]).random(rows)


def key_codes(number: int, rows: int, keys: int) -> NDArray[np.int64]:
    return np.random.default_rng([31, number]).integers(0, keys, rows)


def key_names(keys: int) -> list[str]:
    return [f"endpoint-{key:06}" for key in range(keys)]


def write_file(path: Path, values: Floats, first: int, **columns: Any) -> float:
    """Write rows, the first of which has a number, into a file that appears at once; return the time."""
    times, beside = BEGIN + APART * (first + np.arange(len(values), dtype=np.int64)), path.parent.parent / path.name
    pq.write_table(pa.table({"v": values, "t": pa.array(times, pa.timestamp("us", "UTC")), **columns}), beside)
    os.rename(beside, path)
    return time.monotonic()


def put(folder: Path, number: int, rows: int) -> float:
    return write_file(folder / "in" / f"{number:06}.parquet", numbered(number, rows), number * rows)


def store_holds(store: Path, values: Floats, eps: float, within: str = "") -> bool:
    """Return True if a store has every value once, and its answers are right: of all, and of a window."""
    exact = np.sort(values)
    with History(store) as history:
        right = [history.n == len(exact)]
        for phi in (0.001, 0.5, 0.99):
            right.append(answer_holds(history.answer(phi, "accurate"), exact, eps * len(exact)))
            right.append(answer_holds(history.answer(phi, "exact"), exact, 0))
    if within:
        recent = np.sort(values[-int(read_span(within) * 1_000_000 // APART) :])
        with LiveStream(store, follow=False) as live:
            right.append(answer_holds(live.answer(0.99, within=within), recent, eps * len(recent)))
    return all(right)


def ingest_child(folder: Path, cores: int, *flags: str, method: str = "quantide") -> Child:
    return Child(folder / "log.out", "bench.ingest_child", method, str(folder), str(cores), *flags)


def events(folder: Path, name: str = "batch") -> list[Row]:
    """Return the events of a child that have a field."""
    return [event for event in read_events(folder / "log.jsonl") if name in event]


def rate(s: Settings) -> list[Row]:
    """Measure each method in turn, each in a new process with a new store."""
    with scratch() as folder:
        show(f"ingest: write {s.files} files of {s.file_rows:,} rows")
        (folder / "in").mkdir()
        parts = [file_values(number, s.file_rows) for number in range(s.files)]
        for number, some in enumerate(parts):
            write_file(folder / "in" / f"{number:03}.parquet", some, number * s.file_rows)
        values = np.concatenate(parts)
        return [_rate(folder / str(i), folder / "in", name, values, s) for i, name in enumerate(METHODS)]


def _rate(folder: Path, files: Path, name: str, values: Floats, s: Settings) -> Row:
    show(f"ingest: {len(values):,} rows, {name}")
    method, source, flags, within = METHODS[name]
    store = configure(folder, s.eps, source)
    (folder / "in").rmdir()
    (folder / "in").symlink_to(files)
    with ingest_child(folder, s.cores, "--once", *flags.split(), method=method) as child:
        child.finish()
    batches, [ready] = events(folder), events(folder, "ready")
    begun, ended, taken = batches[0]["begun"], batches[-1]["ended"], [one["ended"] - one["begun"] for one in batches]
    holds = None if name == PEER else store_holds(store, values, s.eps, within)
    row = {"holds": holds, "method": name, "rows": len(values), "seconds": ended - begun}
    row |= {"rate": len(values) / (ended - begun), "start_seconds": ready["seconds"]}
    row |= {"with_start": len(values) / (ended - ready["ready"] + ready["seconds"]), "first_batch": taken[0]}
    return row | {"batch": float(np.median(taken[1:] or taken)), "batches": len(batches)}


def latency(s: Settings) -> list[Row]:
    """Measure small files, each written after the one before was answered and a pause."""
    row, series = _arrivals(s, s.lag_files, s.lag_rows)
    return [row | spread(series["lag"])]


def steady(s: Settings) -> list[Row]:
    """Measure memory, batches and lag of a reader while files arrive at a fixed rate."""
    files, step = math.ceil(s.steady_seconds / s.steady_every), f'step = "{s.steady_step}"'
    more = f'{step}\nwindow = "{s.steady_window}"'
    row, series = _arrivals(s, files, s.steady_rows, s.steady_every, more)
    for name, found in series.items():
        third = math.ceil(len(found) / 3)
        row |= spread(found, f"{name}_") | {f"{name}_first": float(np.median(found[:third]))}
        row[f"{name}_last"] = float(np.median(found[-third:]))
    return [row | {"seconds": s.steady_seconds}]


def _arrivals(s: Settings, files: int, rows: int, every: float = 0.0, more: str = "") -> tuple[Row, dict[str, Any]]:
    """Write a file every so many seconds, or if 0 a pause after the one before was answered.

    Return a row about the store, and memory, seconds of batches and lags of a reader in the order of time.
    """
    show(f"ingest: {files} files of {rows:,} rows, {f'one every {every:g} s' if every else 'one after the other'}")
    written, received, memory, version, last = NumberedTimes(), NumberedTimes(), list[int](), -1, files + WARM
    pauses = np.random.default_rng(7).uniform(*s.pause, last + 1)
    with scratch() as folder:
        store = configure(folder, s.eps, more=more)
        with ingest_child(folder, s.cores) as child:
            put(folder, 0, rows)
            child.wait_for(lambda: events(folder))
            with LiveStream(store) as live:
                first = due = time.monotonic()
                while not received or received[-1][0] < last:
                    now, number = time.monotonic(), len(written) + 1
                    if number <= last and now >= due:
                        written.append((number, put(folder, number, rows)))
                        due = first + number * every if every else math.inf
                    elif live.version != version:
                        version = live.version
                        received.append((newest(live), time.monotonic()))
                        due = (
                            received[-1][1] + pauses[number - 1] if not every and received[-1][0] == number - 1 else due
                        )
                    elif every and now >= first + len(memory) * every:
                        memory.append(sum(child.memory()[kind] for kind in KINDS))
                    else:
                        child.check()
                        time.sleep(0.001)
                    if now > written[-1][1] + PATIENCE:
                        raise TimeoutError(f"the reader did not see file {len(written)}")
            child.finish(stop=True)
        with History(store) as history:
            stats = {name: history.stats()[name] for name in ("steps", "runs", "chunks")}
        values = np.concatenate([numbered(number, rows) for number in range(last + 1)])
        right, begun = store_holds(store, values, s.eps, "1 s"), written[WARM][1]
        batches = [one["ended"] - one["begun"] for one in events(folder) if one["begun"] >= begun]
    lags = [max(0.0, first_at(received, number) - at) for number, at in written[WARM:]]
    about = {"files": files, "rows": files * rows if every else rows, "batches": len(batches), "holds": right, **stats}
    return about, {"memory": memory, "batch": batches, "lag": lags}


PARTS = {"rate": rate, "latency": latency, "steady": steady}
SUBJECT = Subject("files into history, through Spark: speed, lag, memory", Settings, PARTS)
