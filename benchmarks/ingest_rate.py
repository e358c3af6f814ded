"""Rows a second, end to end: Parquet files into committed, sorted, summarised history; plain Spark beside it."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.ingest_data import (
    APART,
    configuration,
    holds,
    key_codes,
    key_holds,
    key_names,
    parted,
    values_of,
    write_file,
)
from benchmarks.ingest_process import driver
from benchmarks.ingest_settings import Settings
from benchmarks.report import Row, say

OURS, LARGE = "quantide ingest", "quantide ingest, batches of 1 GiB"
BARE, PEER = "quantide ingest, no recent rows", "Spark, percentile_approx and Parquet"
METHODS = (OURS, LARGE, BARE, PEER)
HOUR = 3_600_000_000 // APART  # rows


def rate(settings: Settings) -> dict[str, list[Row]]:
    """The methods in turn, each in a new process with a new store; the best round of each."""
    with tempfile.TemporaryDirectory(prefix="quantide-bench-") as folder:
        place = Path(folder)
        values = _make(place / "in", settings)
        rounds: dict[str, list[Row]] = {method: [] for method in METHODS}
        for number in range(settings.rounds):
            for method in METHODS:
                say(f"ingest: {len(values):,} rows, {method}, round {number + 1}")
                rounds[method].append(
                    _round(place / f"{METHODS.index(method)}-{number}", place / "in", method, settings)
                )
        hour = ("1 hour", values[-min(len(values), HOUR) :])
        last = settings.rounds - 1
        right = {
            method: None
            if method == PEER
            else holds(place / f"{i}-{last}" / "data" / "s", values, settings.eps, window)
            for i, (method, window) in enumerate(zip(METHODS, (hour, hour, None, None), strict=True))
        }
    best = {method: max(found, key=lambda row: float(row["rate"])) for method, found in rounds.items()}
    return {"rate": [row | {"holds": right[method]} for method, row in best.items()]}


def _make(folder: Path, settings: Settings) -> Any:
    say(f"ingest: writing {settings.files} files of {settings.file_rows:,} rows")
    folder.mkdir()
    parts = [values_of(number, settings.file_rows) for number in range(settings.files)]
    for number, values in enumerate(parts):
        write_file(folder / f"{number:03}.parquet", values, number * settings.file_rows)
    return np.concatenate(parts)


def _round(place: Path, files: Path, method: str, settings: Settings) -> Row:
    place.mkdir()
    more = [f"--cores={settings.cores}"]
    if method == PEER:
        (place / "in").symlink_to(files)
        given, module = place, "benchmarks.ingest_peer"
    else:
        source = "" if method == LARGE else ", max_files = 1"
        given, module = configuration(place, settings.eps, source), "benchmarks.ingest_driver"
        (place / "in").rmdir()
        (place / "in").symlink_to(files)
        more += ["--once", *(["--no-window"] if method == BARE else [])]
    with driver(module, given, place / "log.jsonl", more) as running:
        events = running.finish()
    rows = settings.files * settings.file_rows
    return {"method": method, "rows": rows} | _told(events, rows)


def _told(events: Sequence[dict[str, Any]], rows: int) -> Row:
    batches = [event for event in events if "batch" in event]
    begun, ended = batches[0]["begun"], batches[-1]["ended"]
    ready = next(event for event in events if "ready" in event)
    later = [event["ended"] - event["begun"] for event in batches[1:]] or [batches[0]["ended"] - begun]
    return {
        "seconds": ended - begun,
        "rate": rows / (ended - begun),
        "start_seconds": ready["seconds"],
        "with_start": rows / (ended - ready["ready"] + ready["seconds"]),
        "first_batch": batches[0]["ended"] - begun,
        "batch": float(np.median(later)),
        "batches": len(batches),
    }


def keys(settings: Settings) -> dict[str, list[Row]]:
    """Batches of many keys, the first of which warms up."""
    say(f"ingest: batches of {settings.key_rows:,} rows of {settings.keys:,} keys")
    names, files = key_names(settings.keys), settings.key_batches + 1
    with tempfile.TemporaryDirectory(prefix="quantide-bench-") as folder:
        place = Path(folder) / "keys"
        config = configuration(place, settings.eps, ", max_files = 1", 'keys = ["k"]')
        values = [values_of(number, settings.key_rows) for number in range(files)]
        codes = [key_codes(number, settings.key_rows, settings.keys) for number in range(files)]
        for number in range(files):
            named = np.array(names, dtype=object)[codes[number]]
            path = place / "in" / f"{number:03}.parquet"
            write_file(path, values[number], number * settings.key_rows, k=named)
        with driver("benchmarks.ingest_driver", config, place / "log.jsonl", ["--once"]) as running:
            events = running.finish()
        batches = [event["ended"] - event["begun"] for event in events if "batch" in event]
        store, all_values, all_codes = place / "data" / "s", np.concatenate(values), np.concatenate(codes)
        right = holds(store, all_values, settings.eps, None) and all(
            key_holds(store, names[key], all_values[all_codes == key]) for key in (0, settings.keys // 2)
        )
    about = {"rows": settings.key_rows, "keys": settings.keys, "batches": len(batches) - 1, "first": batches[0]}
    return {"keys": [about | parted(batches[1:]) | {"holds": right}]}
