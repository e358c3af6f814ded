"""A day of 100,000 keys: questions about keys that nobody asked about before, and what a reader holds."""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.live_data import Rows, checked, day
from benchmarks.live_process import apart, resident
from benchmarks.live_settings import Settings
from benchmarks.report import Row, say
from quantide import History
from quantide.live import LiveStream

BAR = 0.2  # seconds for a question about a cold key
MEMORY = "1 GB"
STEPS = 4  # that the day has ended
WORDS: dict[str, dict[str, Any]] = {
    "everything": {},
    "within 5 min": {"within": 300},
    "within 1 hour": {"within": 3_600},
    "within the day": {"within": 86_400},
    "last 100": {"last": 100},
}


def day_of_keys(settings: Settings) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="quantide-bench-") as folder:
        path = Path(folder) / "store"
        seconds = _load(path, settings)
        say("live: cold keys, in a process of its own")
        with apart() as process:
            rows, about, answers = process.submit(ask_cold, str(path), _some_keys(settings)).result()
    checks = _check(answers, settings)
    for row in rows:
        row["holds"] = all(check["holds"] for check in checks if check["question"] == row["question"])
        row["checked"] = sum(check["question"] == row["question"] for check in checks)
    return [{**row, **about, "build_seconds": seconds} for row in rows]


def _load(path: Path, settings: Settings) -> float:
    count = settings.day_seconds * settings.day_rows
    say(f"live: a day of {settings.keys:,} keys, {count:,} rows")
    begun = time.perf_counter()
    with History(path, eps=settings.eps, keys="endpoint") as history:
        chunks = -(-settings.day_seconds // settings.day_chunk)
        for number, rows in enumerate(_day(settings)):
            history.append(rows.values, key=rows.keys, times=rows.times)
            if (number + 1) % max(1, chunks // (STEPS + 1)) == 0 and number + 1 < chunks:
                history.end_step()
    return time.perf_counter() - begun


def _day(settings: Settings) -> Any:
    return day(settings.keys, settings.day_seconds, settings.day_rows, settings.day_chunk)


def ask_cold(path: str, keys: dict[str, list[int]]) -> tuple[list[Row], Row, list[tuple[str, int, Any]]]:
    """Every question about keys of its own, one by one; what was held before and after; some answers, to be checked.

    The first question of a kind, about a key more, finds nothing open and checked: it is told apart."""
    before = resident()
    begun = time.perf_counter()
    with LiveStream(path, memory=MEMORY) as live:
        live.answer(0.99, mode="quick")
        opened = time.perf_counter() - begun
        stats, after = live.stats(), resident()
        about = {"open_seconds": opened, "recent_files": stats["recent_files"], "recent_bytes": stats["recent_bytes"]}
        about |= {f"opened_{name}": value for name, value in after.items()}
        rows, answers = [], []
        for question, words in WORDS.items():
            first, *chosen = keys[question]
            row: Row = {"question": question, "first": _clock(live, first, words)}
            cold = [_clock(live, key, words) for key in chosen]
            again = [_clock(live, key, words) for key in chosen]
            row |= {"median": float(np.median(cold)), "p99": float(np.quantile(cold, 0.99)), "worst": max(cold)}
            rows.append(row | {"again_median": float(np.median(again))})
            answers += [(question, key, live.answer(0.99, key=key, **words)) for key in chosen[:3]]
        about |= {"stats_memory": live.stats()["memory"], **resident()}
        about |= {f"before_{name}": value for name, value in before.items()}
        begun = time.perf_counter()
        found = live.keys()
        about |= {"keys": len(found), "keys_seconds": time.perf_counter() - begun}
        about |= {f"keys_{name}": value for name, value in resident().items()}
    return rows, about, answers


def _some_keys(settings: Settings) -> dict[str, list[int]]:
    """Keys for each question that no other is about, among those that had values in the last five minutes."""
    *_, rows = _day(settings)
    recent = np.unique(rows.keys[rows.times > rows.times.max() - 300])
    order = np.random.default_rng(4).permutation(recent).tolist()
    each = settings.cold + 1
    return {question: order[i * each : (i + 1) * each] for i, question in enumerate(WORDS)}


def _check(answers: Sequence[tuple[str, int, Any]], settings: Settings) -> list[Row]:
    """All rows of the keys that were asked, made again."""
    wanted = np.array(sorted({key for _, key, _ in answers}))
    kept = []
    for rows in _day(settings):
        chosen = np.isin(rows.keys, wanted)
        chosen[-1] = True  # the newest time counts, whose row it is
        kept.append(Rows(rows.keys[chosen], rows.values[chosen], rows.times[chosen], rows.failed[chosen]))
    everything, out = Rows.joined(kept), []
    for question, key, answer in answers:
        exact = everything.window(key=key, **WORDS[question])
        out.append(checked(question, answer, exact, settings.eps * len(exact)))
    return out


def _clock(live: LiveStream, key: int, words: dict[str, Any]) -> float:
    begun = time.perf_counter()
    live.answer(0.99, key=key, **words)
    return time.perf_counter() - begun
