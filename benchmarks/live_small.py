"""An open step of real commits, a second each: what questions and a start cost while no step ends."""

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.live_data import Rows, checked
from benchmarks.live_settings import Settings
from benchmarks.report import Row, say
from quantide import History
from quantide.live import LiveStream


def small(settings: Settings) -> list[Row]:
    """Commits of a second of many keys, looked at when the open step has so many."""
    say(f"live: {settings.small_marks[-1]:,} commits of {settings.day_rows} rows, no step ended")
    out, kept, spent = [], [], 0.0
    with tempfile.TemporaryDirectory(prefix="quantide-bench-") as folder:
        path = Path(folder) / "store"
        with History(path, eps=settings.eps, keys="endpoint") as history:
            for second in range(settings.small_marks[-1]):
                rows = Rows.make([8, second], settings.day_rows, settings.keys, float(second), settings.day_rows)
                begun = time.perf_counter()
                history.append(rows.values, key=rows.keys, times=rows.times)
                spent += time.perf_counter() - begun
                kept.append(rows)
                late = spent > settings.patience
                if late or second + 1 in settings.small_marks:
                    out.append({"commits": second + 1, "append": spent / (second + 1)} | _look(path, kept, settings))
                if late:
                    break
    return out


def _files(live: LiveStream) -> Row:
    stats = live.stats()
    return {"chunks": stats["chunks"], "recent_files": stats["recent_files"]}


def _look(path: Path, kept: list[Rows], settings: Settings) -> Row:
    everything = Rows.joined(kept)
    begun = time.perf_counter()
    with LiveStream(path, follow=False) as live:
        live.answer(0.99, mode="quick")
        row: Row = {"open_seconds": time.perf_counter() - begun, **_files(live)}
        keys = np.random.default_rng(1).permutation(np.unique(everything.keys[-300 * settings.day_rows :])).tolist()
        holds = []
        asked: tuple[tuple[str, dict[str, Any]], ...] = (("everything", {}), ("window", {"within": 300}))
        for name, words in asked:
            chosen, keys = keys[: settings.cold], keys[settings.cold :]
            seconds = []
            for key in chosen:
                begun = time.perf_counter()
                answer = live.answer(0.99, key=key, **words)
                seconds.append(time.perf_counter() - begun)
                if key in chosen[:3]:
                    exact = everything.window(key=key, **words)
                    holds.append(checked(name, answer, exact, settings.eps * len(exact))["holds"])
            row |= {f"{name}_median": float(np.median(seconds)), f"{name}_p99": float(np.quantile(seconds, 0.99))}
        return row | {"memory": live.stats()["memory"], "holds": all(holds)}
