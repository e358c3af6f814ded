"""How long a reader takes to start, to its first answers: against the age of the stream, and after a year."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.live_data import Rows, checked
from benchmarks.live_process import apart, resident
from benchmarks.live_settings import Settings
from benchmarks.report import Row, say
from quantide import History
from quantide.live import LiveStream

BAR = 10.0  # seconds, a year and 100,000 keys
DAY = 86_400
BATCH = 100  # rows of a commit


def restart(settings: Settings) -> list[Row]:
    """One stream that grows older, opened at each age: steps end and files are vacuumed on the way."""
    say(f"live: a stream of {settings.ages[-1]:,} commits")
    out, kept = [], []
    with tempfile.TemporaryDirectory(prefix="quantide-bench-") as folder:
        path = Path(folder) / "store"
        with History(path, eps=settings.eps) as history:
            begun = time.perf_counter()
            for commit in range(1, settings.ages[-1] + 1):
                rows = Rows.make([13, commit], BATCH, 1, float(commit), BATCH)
                history.append(rows.values, times=rows.times)
                kept.append(rows)
                late = time.perf_counter() - begun > settings.patience
                if late or commit in settings.ages:
                    say(f"live: {commit:,} commits, {time.perf_counter() - begun:.0f} s")
                    out.append({"commits": commit, **_opened(path, settings), **_right(path, kept, settings)})
                if late:
                    break
                if commit % settings.age_step == 0:
                    history.end_step()
                    if commit // settings.age_step % settings.vacuum_every == 0:
                        history.vacuum(older_than_hours=0)
    return out


def year(settings: Settings) -> list[Row]:
    """A year of steps, each a day with a value of every key, then an open one; opened and asked in a new process."""
    say(f"live: {settings.year_steps} steps of {settings.keys:,} keys")
    with tempfile.TemporaryDirectory(prefix="quantide-bench-") as folder:
        path = Path(folder) / "store"
        begun, steps = time.perf_counter(), settings.year_steps
        with History(path, eps=settings.eps, keys="endpoint") as history:
            for step in range(settings.year_steps):
                if time.perf_counter() - begun > settings.patience:
                    steps = step
                    break
                history.append(_year_values(step, settings), key=np.arange(settings.keys), times=float(step * DAY))
                history.end_step()
                if step % 30 == 29:
                    say(f"live: {step + 1} steps, {time.perf_counter() - begun:.0f} s")
                    history.vacuum(older_than_hours=0)
            history.append(_year_values(steps, settings), key=np.arange(settings.keys), times=float(steps * DAY))
        built = time.perf_counter() - begun
        with apart() as process:
            row, answer = process.submit(open_year, str(path), settings.keys // 2).result()
    values = np.sort([_year_values(step, settings)[settings.keys // 2] for step in range(steps + 1)])
    holds = checked("", answer, values, settings.eps * len(values))["holds"]
    rows = (steps + 1) * settings.keys
    return [{"steps": steps, "rows": rows, "build_seconds": built, **row, "holds": holds}]


def open_year(path: str, key: int) -> tuple[Row, object]:
    """A reader in a process that has done nothing else: imports and kernels are part of the first time."""
    before = resident()
    begun = time.perf_counter()
    with LiveStream(path) as live:
        live.answer(0.99, mode="quick")
        first = time.perf_counter() - begun
        before_all = _clock(lambda: live.answer(0.99, key=key - 1))
        own = _clock(lambda: live.answer(0.99, key=key))
        five = _clock(lambda: live.answer(0.99, key=key + 1, within="5 min"))
        answer, held = live.answer(0.99, key=key), live.stats()["memory"]
        after = resident()
    again = _clock(lambda: _start(path))
    row = {"open_seconds": first, "again_seconds": again, "first_key_seconds": before_all, "key_seconds": own}
    row["window_seconds"] = five
    memory = {f"before_{name}": value for name, value in before.items()}
    return row | {"stats_memory": held} | memory | after, answer


def _opened(path: Path, settings: Settings) -> Row:
    """A start and first answers of all kinds, in this process, file cache warm."""
    starts, answers = [], []
    for _ in range(settings.openings):
        begun = time.perf_counter()
        with LiveStream(path, follow=False) as live:
            starts.append(time.perf_counter() - begun)
            live.answer(0.99, mode="quick")
            live.answer(0.99)
            live.answer(0.99, within="5 min")
            answers.append(time.perf_counter() - begun)
            stats = live.stats()
    log = sum(1 for _ in (path / "_delta_log").iterdir())
    return {
        "start": float(np.median(starts)),
        "answered": float(np.median(answers)),
        "worst": max(answers),
        "chunks": stats["chunks"],
        "runs": stats["runs"],
        "recent_files": stats["recent_files"],
        "log_files": log,
    }


def _right(path: Path, kept: list[Rows], settings: Settings) -> Row:
    everything = Rows.joined(kept)
    exact, window = everything.window(), everything.window(within=300)
    with LiveStream(path, follow=False) as live:
        holds = [
            checked("", live.answer(0.99, mode="quick"), exact, settings.eps * len(exact)),
            checked("", live.answer(0.99), exact, settings.eps * len(exact)),
            checked("", live.answer(0.99, within="5 min"), window, settings.eps * len(window)),
        ]
    return {"holds": all(check["holds"] for check in holds)}


def _year_values(step: int, settings: Settings) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    return np.random.default_rng([17, step]).lognormal(3, 1, settings.keys)


def _start(path: str) -> None:
    with LiveStream(path, follow=False) as live:
        live.answer(0.99, mode="quick")


def _clock(job: Callable[[], object]) -> float:
    begun = time.perf_counter()
    job()
    return time.perf_counter() - begun
