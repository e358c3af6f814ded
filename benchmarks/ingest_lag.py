"""From a file that appears to a reader that answers with it."""

import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.ingest_data import APART, configuration, holds, numbered, parted, write_file
from benchmarks.ingest_process import Driver, driver, wait_for
from benchmarks.ingest_settings import Settings
from benchmarks.report import Row, say
from quantide.live import LiveStream

LOOK = 0.001  # seconds between two looks at the reader
WARM = 5  # files that do not count
SECOND = 1_000_000 // APART  # rows


def newest(live: LiveStream) -> int:
    """The number of the newest file that a reader answers with."""
    return int(live.quantile(1.0, last=1))


def latency(settings: Settings) -> dict[str, list[Row]]:
    """Small files, one after the other, each when the one before it was answered and after a pause."""
    say(f"ingest: {settings.lag_files} files of {settings.lag_rows:,} rows, one after the other")
    with tempfile.TemporaryDirectory(prefix="quantide-bench-") as folder:
        place = Path(folder) / "lag"
        config = configuration(place, settings.eps)
        with driver("benchmarks.ingest_driver", config, place / "log.jsonl", []) as running:
            put(place, 0, settings.lag_rows)
            wait_for(lambda: running.batches(), running)
            with LiveStream(place / "data" / "s") as live:
                times = _one_by_one(place, live, running, settings)
            events = running.stop()
        values = np.concatenate([numbered(number, settings.lag_rows) for number in range(len(times) + WARM + 1)])
        right = holds(place / "data" / "s", values, settings.eps, ("1 s", values[-min(SECOND, len(values)) :]))
    batches = [(event["begun"], event["ended"]) for event in events if "batch" in event]
    parts = np.array([_parts(put_at, seen, batches) for put_at, seen in times])
    spark = [one for event in events for one in event.get("progress", [])]
    named = {name: float(np.median([one.get(name, 0) for one in spark])) / 1e3 for name in (spark[-1] if spark else ())}
    row = {"files": len(times), "rows": settings.lag_rows} | parted([seen - put_at for put_at, seen in times])
    row |= dict(zip(("until_batch", "batch", "after"), np.median(parts, axis=0).tolist(), strict=True))
    return {"latency": [row | {"spark": named, "holds": right}]}


def put(place: Path, number: int, rows: int) -> float:
    """A file that appears; when it did."""
    return write_file(place / "in" / f"{number:06}.parquet", numbered(number, rows), number * rows)


def _one_by_one(place: Path, live: LiveStream, running: Driver, settings: Settings) -> list[tuple[float, float]]:
    rng, out = np.random.default_rng(7), []
    for number in range(1, settings.lag_files + WARM + 1):
        at = put(place, number, settings.lag_rows)
        version, found = -1, -1
        while found < number:
            if live.version != version:
                version = live.version
                found = newest(live)
            else:
                time.sleep(LOOK)
                running.check()
        out.append((at, time.monotonic()))
        time.sleep(rng.uniform(*settings.pause))
    return out[WARM:]


def _parts(put_at: float, seen: float, batches: list[tuple[float, float]]) -> tuple[float, float, float]:
    """Until the batch began; the batch, up to when it was seen; what it did after that."""
    begun, ended = next((batch for batch in batches if batch[1] > put_at and batch[0] > put_at), (seen, seen))
    return begun - put_at, seen - begun, max(0.0, ended - seen)
