"""What appends cost with recent rows kept for windows, and without."""

import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.live_data import Rows, checked
from benchmarks.live_settings import Settings
from benchmarks.report import Row, say
from quantide import History
from quantide.live import LiveStream

WARM = 3


def appends(settings: Settings) -> list[Row]:
    """The same batches into a store that keeps a day for windows, and into one that keeps nothing, in turn."""
    say("live: appends with recent rows and without")
    large = settings.step_rows * 5 // 2  # a million
    shapes = (
        ("100 rows", 100, 0, settings.appends * 10),
        (f"{large:,} rows", large, 0, settings.appends),
        ("10,000 rows of 1,000 keys", 10_000, 1_000, settings.appends * 2),
        (f"{large:,} rows of {settings.keys:,} keys", large, settings.keys, max(2, settings.appends // 4)),
    )
    return [_both(name, rows, keys, count, settings) for name, rows, keys, count in shapes]


def _both(name: str, rows: int, keys: int, count: int, settings: Settings) -> Row:
    batches = [Rows.make([19, i], rows, max(1, keys), float(i), rows) for i in range(4)]
    seconds: dict[str, list[float]] = {"kept": [], "without": []}
    with tempfile.TemporaryDirectory(prefix="quantide-bench-") as folder:
        path, named = Path(folder), "key" if keys else None
        with (
            History(path / "kept", eps=settings.eps, keys=named) as kept,
            History(path / "without", eps=settings.eps, keys=named, window=0) as without,
        ):
            for i in range(WARM + count):
                batch = batches[i % len(batches)]
                key = batch.keys if keys else None
                begun = time.perf_counter()
                kept.append(batch.values, key=key, times=batch.times)
                middle = time.perf_counter()
                without.append(batch.values, key=key)
                if i >= WARM:
                    seconds["kept"].append(middle - begun)
                    seconds["without"].append(time.perf_counter() - middle)
        with LiveStream(path / "kept", follow=False) as live:
            recent = live.stats()["recent_bytes"] / (rows * (WARM + count))
            exact = np.sort(np.concatenate([batches[i % len(batches)].values for i in range(WARM + count)]))
            check = checked(name, live.answer(0.99, last=len(exact)), exact, settings.eps * len(exact))
    row: Row = {"append": name, "count": count, "recent_bytes_a_row": recent, "holds": check["holds"]}
    for way, found in seconds.items():
        row |= {f"{way}_median": float(np.median(found)), f"{way}_worst": max(found)}
    return row | {"ratio": row["kept_median"] / row["without_median"]}
