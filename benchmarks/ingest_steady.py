"""Steady ingestion: whether memory, batches and a reader's lag stay as they are."""

import math
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.ingest_data import configuration, holds, numbered, parted
from benchmarks.ingest_lag import newest, put
from benchmarks.ingest_process import KINDS, Driver, driver, wait_for
from benchmarks.ingest_settings import Settings
from benchmarks.report import Row, say
from quantide import History
from quantide.live import LiveStream

LOOK = 0.005  # seconds between two looks at the reader
WARM = 10  # files before the clock is started
TELL = 60.0  # seconds between two lines about the progress

Seen = list[tuple[int, float]]


def steady(settings: Settings) -> dict[str, list[Row]]:
    """A row about everything, and one a moment."""
    say(f"ingest: {settings.steady_seconds:.0f} s of files of {settings.steady_rows:,} rows")
    files = math.ceil(settings.steady_seconds / settings.steady_every)
    with tempfile.TemporaryDirectory(prefix="quantide-bench-") as folder:
        place = Path(folder) / "steady"
        more = f'step = "{settings.steady_step}"\nwindow = "{settings.steady_window}"'
        config = configuration(place, settings.eps, more=more)
        with driver("benchmarks.ingest_driver", config, place / "log.jsonl", []) as running:
            begun, times, seen, memory = _feed(place, running, files, settings)
            events = running.stop()
        with History(place / "data" / "s") as history:
            stats = history.stats()
        values = np.concatenate([numbered(number, settings.steady_rows) for number in range(files + WARM)])
        right = holds(place / "data" / "s", values, settings.eps, None)
    lags = [(at - begun, max(0.0, _first(seen, number) - at)) for number, at in times]
    batches = [(e["begun"] - begun, e["ended"] - e["begun"]) for e in events if "batch" in e and e["begun"] >= begun]
    whole: Row = {"files": files, "rows": files * settings.steady_rows, "batches": len(batches), "holds": right}
    whole |= {f"lag_{name}": value for name, value in parted([lag for _, lag in lags]).items()}
    whole |= {f"batch_{name}": value for name, value in parted([seconds for _, seconds in batches]).items()}
    whole |= {"steps": stats["steps"], "runs": stats["runs"], "chunks": stats["chunks"]}
    whole |= {"seconds": settings.steady_seconds} | _thirds(memory, batches, lags, settings.steady_seconds)
    return {"steady": [whole], "over_time": _moments(memory, batches, lags, settings)}


def _feed(
    place: Path, running: Driver, files: int, settings: Settings
) -> tuple[float, list[tuple[int, float]], Seen, list[Row]]:
    """Files at every tick; when they were put and seen, and the memory now and then."""
    for number in range(WARM):
        put(place, number, settings.steady_rows)
    wait_for(lambda: sum(batch["rows"] for batch in running.batches()) == WARM * settings.steady_rows, running)
    times: list[tuple[int, float]] = []
    seen: Seen = []
    memory: list[Row] = []
    every = settings.steady_seconds / settings.points
    with LiveStream(place / "data" / "s") as live:
        begun, version, told = time.monotonic(), -1, 0.0
        while not seen or seen[-1][0] < files + WARM - 1:
            now = time.monotonic() - begun
            if len(times) < files and now >= len(times) * settings.steady_every:
                number = WARM + len(times)
                times.append((number, put(place, number, settings.steady_rows)))
            elif live.version != version:
                version = live.version
                seen.append((newest(live), time.monotonic()))
            elif now >= len(memory) * every and len(memory) < settings.points:
                memory.append({"at": now} | running.memory())
            else:
                time.sleep(LOOK)
            if now - told >= TELL:
                told = now
                running.check()
                say(f"ingest: {now:.0f} s, {len(times):,} files, {_own(running.memory()) / 1e6:,.0f} MB")
            if now > settings.steady_seconds + 600:
                raise TimeoutError("the reader did not see the last file within ten minutes")
    return begun, times, seen, memory


def _own(memory: Row) -> int:
    return sum(int(memory[kind]) for kind in KINDS)


def _first(seen: Seen, number: int) -> float:
    """When a file, or a later one, was seen for the first time."""
    return next(when for found, when in seen if found >= number)


def _thirds(memory: list[Row], batches: Sequence[Any], lags: Sequence[Any], seconds: float) -> Row:
    """Medians of the first and of the last third."""
    of_memory = [(row["at"], _own(row)) for row in memory]
    out: Row = {}
    for name, points in (("memory", of_memory), ("batch", batches), ("lag", lags)):
        for third, (low, high) in (("first", (0.0, seconds / 3)), ("last", (seconds * 2 / 3, math.inf))):
            chosen = [value for at, value in points if low <= at < high]
            out[f"{name}_{third}"] = float(np.median(chosen)) if chosen else None
    return out


def _moments(memory: list[Row], batches: Sequence[Any], lags: Sequence[Any], settings: Settings) -> list[Row]:
    out = []
    every = settings.steady_seconds / settings.points
    for row in memory:
        spans = {
            name: [value for at, value in points if row["at"] - every <= at < row["at"]]
            for name, points in (("batch", batches), ("lag", lags))
        }
        found: Row = {
            f"{name}_{what}": (float(function(points)) if points else None)
            for name, points in spans.items()
            for what, function in (("median", np.median), ("worst", max))
        }
        out.append({name: value for name, value in row.items() if value is not None} | found)
    return out
