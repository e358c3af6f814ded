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

from bench import plots
from bench.collection import Subject
from bench.inputs import Floats, answer_holds
from bench.live_reader import Seen, first_at
from bench.processes import KINDS, Child, read_events
from bench.report import Report, Row, say, sized
from bench.timing import scratch, spread
from quantide import History
from quantide.live import LiveStream
from quantide.windows.time_clock import read_span

OURS, LARGE = "quantide ingest", "quantide ingest, batches of 1 GiB"
BARE, PEER = "quantide ingest, no recent rows", "Spark, percentile_approx and Parquet"
METHODS, PHIS = (OURS, LARGE, BARE, PEER), (0.001, 0.5, 0.99)
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
    points: int = sized(120, quick=6)  # of a plot over time


def with_soak(settings: Settings) -> Settings:
    span = os.environ.get("SOAK")
    return settings if not span else replace(settings, steady_seconds=float(read_span(span)))


def configuration(folder: Path, eps: float, source: str = "", more: str = "") -> Path:
    """Write the configuration of a stream from the folder "in" into the store "data"."""
    (folder / "in").mkdir(parents=True, exist_ok=True)
    path = folder / "quantide.toml"
    path.write_text(CONFIG.format(eps=eps, source=source, more=more), encoding="utf-8")
    return path


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


def store_holds(
    store: Path, values: Floats, eps: float, within: str = "", keys: dict[str, Floats] | None = None
) -> bool:
    """Return True if a store has every value once, and its answers are right: of all, a window, and some keys."""
    exact = np.sort(values)
    with History(store) as history:
        right = history.n == len(exact)
        for phi in PHIS:
            right &= answer_holds(history.answer(phi, "accurate" if keys is None else "quick"), exact, eps * len(exact))
            rank = max(1, math.ceil(phi * len(exact) - 1e-9)) - 1
            right &= keys is not None or bool(history.quantile(phi, "exact") == exact[rank])
        for key, some in (keys or {}).items():
            answer, middle = history.answer(0.5, "exact", key=key), np.sort(some)[max(1, -(-len(some) // 2)) - 1]
            right &= bool(answer.n == len(some) and answer.value == middle)
    if within:
        recent = np.sort(values[-int(read_span(within) * 1_000_000 // APART) :])
        with LiveStream(store, follow=False) as live:
            right &= answer_holds(live.answer(0.99, within=within), recent, eps * len(recent))
    return right


def ingest_child(folder: Path, *arguments: str, method: str = "quantide", given: Path | None = None) -> Child:
    log = folder / "log.jsonl"
    paths = (str(given or folder / "quantide.toml"), str(log))
    return Child(log.with_suffix(".out"), "bench.ingest_child", method, *paths, *arguments)


def batches_of(folder: Path) -> list[dict[str, Any]]:
    return [event for event in read_events(folder / "log.jsonl") if "batch" in event]


def rate(s: Settings) -> dict[str, list[Row]]:
    """Measure each method in turn, each in a new process with a new store; the best round counts."""
    with scratch() as place:
        say(f"ingest: write {s.files} files of {s.file_rows:,} rows")
        (place / "in").mkdir()
        parts = [file_values(number, s.file_rows) for number in range(s.files)]
        for number, some in enumerate(parts):
            write_file(place / "in" / f"{number:03}.parquet", some, number * s.file_rows)
        values, best = np.concatenate(parts), dict[str, Row]()
        for number in range(s.rounds):
            for i, method in enumerate(METHODS):
                say(f"ingest: {len(values):,} rows, {method}, round {number + 1}")
                found = _round(place / f"{i}-{number}", place / "in", method, s)
                best[method] = max(best.get(method, found), found, key=lambda row: float(row["rate"]))
        stores = {method: place / f"{i}-{s.rounds - 1}" / "data" / "s" for i, method in enumerate(METHODS)}
        for method in (OURS, LARGE, BARE):
            best[method]["holds"] = store_holds(stores[method], values, s.eps, "" if method == BARE else "1 hour")
    return {"rate": [{"holds": None} | row for row in best.values()]}


def _round(folder: Path, files: Path, method: str, s: Settings) -> Row:
    configuration(folder, s.eps, "" if method == LARGE else ", max_files = 1")
    (folder / "in").rmdir()
    (folder / "in").symlink_to(files)
    flags, rows = [f"--cores={s.cores}", "--once", *(["--no-window"] if method == BARE else [])], s.files * s.file_rows
    where: dict[str, Any] = {"method": "spark", "given": folder} if method == PEER else {}
    with ingest_child(folder, *flags, **where) as child:
        child.finish()
    batches, ready = batches_of(folder), next(event for event in read_events(folder / "log.jsonl") if "ready" in event)
    begun, ended = batches[0]["begun"], batches[-1]["ended"]
    taken = [event["ended"] - event["begun"] for event in batches]
    row = {"method": method, "rows": rows, "seconds": ended - begun, "rate": rows / (ended - begun)}
    row |= {"start_seconds": ready["seconds"], "with_start": rows / (ended - ready["ready"] + ready["seconds"])}
    return row | {"first_batch": taken[0], "batch": float(np.median(taken[1:] or taken)), "batches": len(batches)}


def keys(s: Settings) -> dict[str, list[Row]]:
    """Measure batches of many keys after one that warms up."""
    say(f"ingest: batches of {s.key_rows:,} rows of {s.keys:,} keys")
    names, numbers = key_names(s.keys), range(s.key_batches + 1)
    with scratch() as folder:
        configuration(folder, s.eps, ", max_files = 1", 'keys = ["k"]')
        values = [file_values(i, s.key_rows) for i in numbers]
        codes = [key_codes(i, s.key_rows, s.keys) for i in numbers]
        for i in numbers:
            named = np.array(names, dtype=object)[codes[i]]
            write_file(folder / "in" / f"{i:03}.parquet", values[i], i * s.key_rows, k=named)
        with ingest_child(folder, "--once") as child:
            child.finish()
        first, *batches = [event["ended"] - event["begun"] for event in batches_of(folder)]
        every, code = np.concatenate(values), np.concatenate(codes)
        some = {names[key]: every[code == key] for key in (0, s.keys // 2)}
        right = store_holds(folder / "data" / "s", every, s.eps, keys=some)
    about = {"rows": s.key_rows, "keys": s.keys, "batches": len(batches), "first": first}
    return {"keys": [about | spread(batches) | {"holds": right}]}


def latency(s: Settings) -> dict[str, list[Row]]:
    """Measure small files, each written after the one before was answered and a pause."""
    say(f"ingest: {s.lag_files} files of {s.lag_rows:,} rows, one after the other")
    rng, times = np.random.default_rng(7), list[tuple[float, float]]()
    with scratch() as folder:
        configuration(folder, s.eps)
        with ingest_child(folder) as child:
            put(folder, 0, s.lag_rows)
            child.wait_for(lambda: batches_of(folder))
            with LiveStream(folder / "data" / "s") as live:
                for number in range(1, s.lag_files + WARM + 1):
                    at, version = put(folder, number, s.lag_rows), -1
                    while (found := live.version) == version or newest(live) < number:
                        version = found
                        time.sleep(0.001)
                        child.check()
                    times.append((at, time.monotonic()))
                    time.sleep(rng.uniform(*s.pause))
            child.finish(stop=True)
        events = read_events(folder / "log.jsonl")
        values = np.concatenate([numbered(number, s.lag_rows) for number in range(s.lag_files + WARM + 1)])
        right = store_holds(folder / "data" / "s", values, s.eps, "1 s")
    batches, times = [(event["begun"], event["ended"]) for event in events if "batch" in event], times[WARM:]
    begun = [next((batch[0] for batch in batches if batch[0] > at), seen) for at, seen in times]
    waits = [one - at for one, (at, _) in zip(begun, times, strict=True)]
    works = [seen - one for one, (_, seen) in zip(begun, times, strict=True)]
    spark = [one for event in events for one in event.get("progress", [])]
    named = {name: float(np.median([one.get(name, 0) for one in spark])) / 1e3 for name in (spark[-1] if spark else ())}
    row: Row = {"files": len(times), "rows": s.lag_rows, **spread([seen - at for at, seen in times])}
    row |= {"until_batch": float(np.median(waits)), "batch": float(np.median(works)), "spark": named, "holds": right}
    return {"latency": [row]}


def newest(live: LiveStream) -> int:
    """Return the number of the newest file in the answers of a reader."""
    return int(live.quantile(1.0, last=1))


def steady(s: Settings) -> dict[str, list[Row]]:
    """Measure memory, batches and lag of a reader while files arrive at a fixed rate."""
    say(f"ingest: {s.steady_seconds:.0f} s of files of {s.steady_rows:,} rows")
    files = math.ceil(s.steady_seconds / s.steady_every)
    with scratch() as folder:
        configuration(folder, s.eps, more=f'step = "{s.steady_step}"\nwindow = "{s.steady_window}"')
        with ingest_child(folder) as child:
            for number in range(WARM_STEADY):
                put(folder, number, s.steady_rows)
            child.wait_for(lambda: sum(one["rows"] for one in batches_of(folder)) == WARM_STEADY * s.steady_rows)
            begun, times, seen, memory = _feed(folder, child, files, s)
            child.finish(stop=True)
        with History(folder / "data" / "s") as history:
            stats = {name: history.stats()[name] for name in ("steps", "runs", "chunks")}
        values = np.concatenate([numbered(number, s.steady_rows) for number in range(files + WARM_STEADY)])
        right, found = store_holds(folder / "data" / "s", values, s.eps), batches_of(folder)
    lags = [(at - begun, max(0.0, first_at(seen, number) - at)) for number, at in times]
    batches = [(one["begun"] - begun, one["ended"] - one["begun"]) for one in found if one["begun"] >= begun]
    whole: Row = {"files": files, "rows": files * s.steady_rows, "batches": len(batches), "holds": right, **stats}
    whole |= spread([lag for _, lag in lags], "lag_") | spread([seconds for _, seconds in batches], "batch_")
    held = [(row["at"], sum(row[kind] for kind in KINDS)) for row in memory]
    whole["seconds"], series = s.steady_seconds, {"memory": held, "batch": batches, "lag": lags}
    for name, (low, high) in {
        "first": (0.0, s.steady_seconds / 3),
        "last": (s.steady_seconds * 2 / 3, math.inf),
    }.items():
        whole |= {f"{one}_{name}": _median(found, low, high) for one, found in series.items()}
    every = s.steady_seconds / s.points
    for row in memory:
        at = row["at"]
        row |= {f"{one}_median": _median(series[one], at - every, at) for one in ("batch", "lag")}
    return {"steady": [whole], "over_time": memory}


def _median(found: Sequence[tuple[float, float]], low: float, high: float) -> float | None:
    chosen = [value for at, value in found if low <= at < high]
    return float(np.median(chosen)) if chosen else None


def _feed(folder: Path, child: Child, files: int, s: Settings) -> tuple[float, Seen, Seen, list[Row]]:
    """Write files at every tick; return when they were written and seen, and samples of memory."""
    times, seen, memory, version, begun, reported = Seen(), Seen(), list[Row](), -1, time.monotonic(), 0.0
    with LiveStream(folder / "data" / "s") as live:
        while not seen or seen[-1][0] < files + WARM_STEADY - 1:
            now = time.monotonic() - begun
            if len(times) < files and now >= len(times) * s.steady_every:
                times.append((number := WARM_STEADY + len(times), put(folder, number, s.steady_rows)))
            elif live.version != version:
                version = live.version
                seen.append((newest(live), time.monotonic()))
            elif now >= len(memory) * s.steady_seconds / s.points and len(memory) < s.points:
                memory.append({"at": now} | child.memory())
            else:
                time.sleep(0.005)
            if now - reported >= 60:
                reported = now
                child.check()
                say(f"ingest: {now:.0f} s, {len(times):,} files")
            if now > s.steady_seconds + 600:
                raise TimeoutError("the reader did not see the last file within ten minutes")
    return begun, times, seen, memory


def figures(report: Report) -> Row:
    if (rows := report.rows.get("over_time")) is None:
        return {}
    unit, each = ("minutes", 60.0) if rows[-1]["at"] > 300 else ("seconds", 1.0)
    rows = [row | {"time": row["at"] / each} for row in rows]
    kinds = (("driver", "python"), ("JVM", "jvm"), ("workers", "workers"))
    memory = [
        plots.Line(name, plots.points(rows, "time", y, 1e-6), i, joined=False) for i, (name, y) in enumerate(kinds)
    ]
    lines = []
    for i, name in enumerate(("batch", "lag"), 3):
        found = plots.points(
            [row for row in rows if row.get(f"{name}_median") is not None], "time", f"{name}_median", 1e3
        )
        lines.append(plots.Line(f"{name}, median", found or [(0.0, 0.0)], i, joined=False))
    panels = [
        plots.Panel("Memory", unit, "MB", memory, "xy"),
        plots.Panel("Batches and lag", unit, "milliseconds", lines, "xy"),
    ]
    return {"ingest.svg": plots.svg(panels, "Memory of the processes, time of a batch and lag of a reader, over time")}


PARTS = {"rate": rate, "keys": keys, "latency": latency, "steady": steady}
SUBJECT = Subject(
    "files into history, through Spark: speed, lag, memory", Settings, PARTS, plots=figures, adjust=with_soak
)
