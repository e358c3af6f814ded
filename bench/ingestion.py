"""Files into history through Spark: rows a second, many keys, latency of a file, and steady ingestion."""

import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bench.collection import Subject
from bench.inputs import Floats, answer_holds
from bench.live_reader import Seen, first_at, newest
from bench.processes import KINDS, Child, read_events
from bench.report import Row, say, sized
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
WARM, WARM_STEADY = 5, 10  # files that do not count
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
    """`files` of `file_rows` rows, one a batch; batches of `keys` keys; `lag_files`, one after the other, with pauses.

    `steady_seconds`: a file every `steady_every` seconds; SOAK in the environment, a duration, replaces it.
    """

    cores: int = 2
    eps: float = 0.001
    files: int = sized(8, 4, 2)
    file_rows: int = sized(10_000_000, quick=20_000)
    rounds: int = sized(2, 1, 1)
    keys: int = sized(100_000, quick=100)
    key_rows: int = sized(1_000_000, quick=2_000)
    key_batches: int = sized(5, quick=2)
    lag_files: int = sized(40, 20, 3)
    lag_rows: int = sized(1_000, quick=100)
    pause: tuple[float, float] = sized((0.3, 0.8), quick=(0.1, 0.2))
    steady_seconds: float = sized(600.0, 60.0, 6.0)
    steady_rows: int = sized(20_000, quick=200)
    steady_every: float = 0.5
    steady_step: str = sized("1 min", quick="2 s")
    steady_window: str = "5 min"


def with_soak(settings: Settings) -> Settings:
    span = os.environ.get("SOAK")
    return settings if not span else replace(settings, steady_seconds=float(read_span(span)))


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


def store_holds(store: Path, values: Floats, eps: float, within: str = "", keys: Row | None = None) -> bool:
    """Return True if a store has every value once, and its answers are right: of all, a window, and some keys."""
    exact = np.sort(values)
    with History(store) as history:
        right = [history.n == len(exact)]
        for phi in (0.001, 0.5, 0.99):
            answer = history.answer(phi, "accurate" if keys is None else "quick")
            right.append(answer_holds(answer, exact, eps * len(exact)))
            if keys is None:
                right.append(answer_holds(history.answer(phi, "exact"), exact, 0))
        for key, some in (keys or {}).items():
            right.append(answer_holds(history.answer(0.5, "exact", key=key), np.sort(some), 0))
    if within:
        recent = np.sort(values[-int(read_span(within) * 1_000_000 // APART) :])
        with LiveStream(store, follow=False) as live:
            right.append(answer_holds(live.answer(0.99, within=within), recent, eps * len(recent)))
    return all(right)


def ingest_child(folder: Path, *flags: str, method: str = "quantide") -> Child:
    return Child(folder / "log.out", "bench.ingest_child", method, str(folder), *flags)


def events(folder: Path, name: str = "batch") -> list[Row]:
    """Return the events of a child that have a field."""
    return [event for event in read_events(folder / "log.jsonl") if name in event]


def rate(s: Settings) -> list[Row]:
    """Measure each method in turn, each in a new process with a new store; the best round counts."""
    with scratch() as folder:
        say(f"ingest: write {s.files} files of {s.file_rows:,} rows")
        (folder / "in").mkdir()
        parts, best = [file_values(number, s.file_rows) for number in range(s.files)], dict[str, Row]()
        for number, some in enumerate(parts):
            write_file(folder / "in" / f"{number:03}.parquet", some, number * s.file_rows)
        values = np.concatenate(parts)
        for number in range(s.rounds):
            for i, name in enumerate(METHODS):
                say(f"ingest: {len(values):,} rows, {name}, round {number + 1}")
                found = _round(folder / f"{i}-{number}", folder / "in", name, values, s)
                best[name] = max(best.get(name, found), found, key=lambda row: float(row["rate"]))
    return list(best.values())


def _round(folder: Path, files: Path, name: str, values: Floats, s: Settings) -> Row:
    method, source, flags, within = METHODS[name]
    store = configure(folder, s.eps, source)
    (folder / "in").rmdir()
    (folder / "in").symlink_to(files)
    with ingest_child(folder, f"--cores={s.cores}", "--once", *flags.split(), method=method) as child:
        child.finish()
    batches, [ready] = events(folder), events(folder, "ready")
    begun, ended, taken = batches[0]["begun"], batches[-1]["ended"], [one["ended"] - one["begun"] for one in batches]
    holds = None if name == PEER else store_holds(store, values, s.eps, within)
    row = {"holds": holds, "method": name, "rows": len(values), "seconds": ended - begun}
    row |= {"rate": len(values) / (ended - begun), "start_seconds": ready["seconds"]}
    row |= {"with_start": len(values) / (ended - ready["ready"] + ready["seconds"]), "first_batch": taken[0]}
    return row | {"batch": float(np.median(taken[1:] or taken)), "batches": len(batches)}


def keys(s: Settings) -> list[Row]:
    """Measure batches of many keys after one that warms up."""
    say(f"ingest: batches of {s.key_rows:,} rows of {s.keys:,} keys")
    names, numbers = np.array(key_names(s.keys), dtype=object), range(s.key_batches + 1)
    values = [file_values(number, s.key_rows) for number in numbers]
    codes = [key_codes(number, s.key_rows, s.keys) for number in numbers]
    with scratch() as folder:
        store = configure(folder, s.eps, ONE_FILE, 'keys = ["k"]')
        for i in numbers:
            write_file(folder / "in" / f"{i:03}.parquet", values[i], i * s.key_rows, k=names[codes[i]])
        with ingest_child(folder, "--once") as child:
            child.finish()
        first, *batches = [event["ended"] - event["begun"] for event in events(folder)]
        every, code = np.concatenate(values), np.concatenate(codes)
        some = {names[key]: every[code == key] for key in (0, s.keys // 2)}
        right = store_holds(store, every, s.eps, keys=some)
    about = {"rows": s.key_rows, "keys": s.keys, "batches": len(batches), "first": first}
    return [about | spread(batches) | {"holds": right}]


def latency(s: Settings) -> list[Row]:
    """Measure small files, each written after the one before was answered and a pause."""
    say(f"ingest: {s.lag_files} files of {s.lag_rows:,} rows, one after the other")
    rng, lags, files = np.random.default_rng(7), list[float](), s.lag_files + WARM + 1
    with scratch() as folder:
        store = configure(folder, s.eps)
        with ingest_child(folder) as child:
            put(folder, 0, s.lag_rows)
            child.wait_for(lambda: events(folder))
            with LiveStream(store) as live:
                for number in range(1, files):
                    at, version = put(folder, number, s.lag_rows), -1
                    while (found := live.version) == version or newest(live) < number:
                        version = found
                        time.sleep(0.001)
                        child.check()
                    lags.append(time.monotonic() - at)
                    time.sleep(rng.uniform(*s.pause))
            child.finish(stop=True)
        values = np.concatenate([numbered(number, s.lag_rows) for number in range(files)])
        right = store_holds(store, values, s.eps, "1 s")
    return [{"files": s.lag_files, "rows": s.lag_rows, **spread(lags[WARM:]), "holds": right}]


def steady(s: Settings) -> list[Row]:
    """Measure memory, batches and lag of a reader while files arrive at a fixed rate."""
    say(f"ingest: {s.steady_seconds:.0f} s of files of {s.steady_rows:,} rows")
    files = math.ceil(s.steady_seconds / s.steady_every)
    with scratch() as folder:
        store = configure(folder, s.eps, more=f'step = "{s.steady_step}"\nwindow = "{s.steady_window}"')
        with ingest_child(folder) as child:
            for number in range(WARM_STEADY):
                put(folder, number, s.steady_rows)
            child.wait_for(lambda: sum(one["rows"] for one in events(folder)) == WARM_STEADY * s.steady_rows)
            begun, written, seen, memory = _feed(folder, child, files, s)
            child.finish(stop=True)
        with History(store) as history:
            stats = {name: history.stats()[name] for name in ("steps", "runs", "chunks")}
        values = np.concatenate([numbered(number, s.steady_rows) for number in range(files + WARM_STEADY)])
        right, found = store_holds(store, values, s.eps), [one for one in events(folder) if one["begun"] >= begun]
    batches = [(one["begun"] - begun, one["ended"] - one["begun"]) for one in found]
    lags = [(at - begun, max(0.0, first_at(seen, number) - at)) for number, at in written]
    row: Row = {"files": files, "rows": files * s.steady_rows, "batches": len(batches), "holds": right, **stats}
    row |= spread([lag for _, lag in lags], "lag_") | spread([seconds for _, seconds in batches], "batch_")
    row["seconds"], third = s.steady_seconds, s.steady_seconds / 3
    for name, series in {"memory": memory, "batch": batches, "lag": lags}.items():
        row |= {f"{name}_first": _median(series, 0, third), f"{name}_last": _median(series, 2 * third, math.inf)}
    return [row]


def _median(found: Sequence[tuple[float, float]], low: float, high: float) -> float | None:
    chosen = [value for at, value in found if low <= at < high]
    return float(np.median(chosen)) if chosen else None


def _feed(folder: Path, child: Child, files: int, s: Settings) -> tuple[float, Seen, Seen, list[tuple[float, float]]]:
    """Write files at every tick; return when they were written and seen, and samples of memory."""
    written, seen, memory, version, begun = Seen(), Seen(), list[tuple[float, float]](), -1, time.monotonic()
    with LiveStream(folder / "data" / "s") as live:
        while not seen or seen[-1][0] < files + WARM_STEADY - 1:
            now = time.monotonic() - begun
            if len(written) < files and now >= len(written) * s.steady_every:
                written.append((number := WARM_STEADY + len(written), put(folder, number, s.steady_rows)))
            elif live.version != version:
                version = live.version
                seen.append((newest(live), time.monotonic()))
            elif now >= len(memory) * s.steady_every:
                child.check()
                memory.append((now, sum(child.memory()[kind] for kind in KINDS)))
            else:
                time.sleep(0.005)
            if now > s.steady_seconds + 600:
                raise TimeoutError("the reader did not see the last file within ten minutes")
    return begun, written, seen, memory


PARTS = {"rate": rate, "keys": keys, "latency": latency, "steady": steady}
SUBJECT = Subject("files into history, through Spark: speed, lag, memory", Settings, PARTS, adjust=with_soak)
