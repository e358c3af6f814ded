"""A reader beside a writer in another process: how long after append() its rows can be asked about."""

import math
import tempfile
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.live_data import checked
from benchmarks.live_process import apart
from benchmarks.live_settings import Settings
from benchmarks.report import Row, say
from quantide import History
from quantide.live import LiveStream

BAR = 0.3  # seconds
STEP = 100  # batches a step
LOOK = 0.001  # seconds between two looks at the reader
WARM = 5  # batches at the start that do not count: imports, kernels, threads

Told = list[tuple[int, float]]


def follow(settings: Settings) -> list[Row]:
    """Small batches without keys, large ones with keys, and small ones while the reader answers as fast as it can."""
    small, large = settings.follow_rows
    out = []
    for rows, keys, seconds, asking in (
        (small, 0, settings.follow_seconds, False),
        (large, settings.follow_keys, settings.follow_seconds, False),
        (large, settings.follow_keys, settings.asking_seconds, True),
    ):
        with tempfile.TemporaryDirectory(prefix="quantide-bench-") as folder:
            out.append(_beside(Path(folder) / "store", rows, keys, seconds, asking, settings))
    return out


def values_of(batch: int, rows: int, keys: int) -> tuple[Any, Any]:
    """The values of a batch, whose whole part is the batch's number, and their keys."""
    rng = np.random.default_rng([3, batch])
    return batch + rng.random(rows), rng.integers(0, keys, rows) if keys else None


def write_batches(path: str, rows: int, keys: int, batches: int, every: float) -> Told:
    """Append a batch at each tick, as a feeder would; the number of each and when append() returned."""
    out = []
    with History(path) as history:
        begun = time.monotonic()
        for batch in range(1, batches + WARM + 1):
            if batch <= WARM:
                begun = time.monotonic()
            time.sleep(max(0.0, begun + (batch - WARM) * every - time.monotonic()))
            values, key = values_of(batch, rows, keys)
            history.append(values, key=key, times=batch * every)
            out.append((batch, time.monotonic()))
            if batch % STEP == 0:
                history.end_step(wait=False)
    return out


def _beside(path: Path, rows: int, keys: int, seconds: float, asking: bool, settings: Settings) -> Row:
    batches = math.ceil(seconds / settings.follow_every)
    say(f"live: following {batches} batches of {rows:,} rows{', asked all the time' if asking else ''}")
    with History(path, eps=settings.eps, keys="key" if keys else None) as history:
        values, key = values_of(0, rows, keys)
        history.append(values, key=key, times=0.0)
    asked: dict[str, Any] = {"key": 0, "within": 60} if keys else {"within": 60}
    with apart() as process, LiveStream(path) as live:
        writer = process.submit(write_batches, str(path), rows, keys, batches, settings.follow_every)
        seen, answered, count, spent = _watch(live, writer, batches + WARM, asked, asking)
        written = writer.result()
        holds = _holds(live, rows, keys, batches + WARM, asked, settings)
    lags = [max(0.0, _first(seen, batch) - when) for batch, when in written[WARM:]]
    answers = [max(0.0, _first(answered, batch) - when) for batch, when in written[WARM:]]
    took = written[-1][1] - written[WARM][1]
    return {
        "rows": rows,
        "keys": keys,
        "batches": batches,
        "asked": asking,
        "batches_per_s": (len(lags) - 1) / took if took else 0.0,
        "questions_per_s": count / spent if asking else None,
        "median": float(np.median(lags)),
        "p99": float(np.quantile(lags, 0.99)),
        "worst": max(lags),
        "answered_median": float(np.median(answers)),
        "answered_worst": max(answers),
        "holds": holds,
    }


def _watch(
    live: LiveStream, writer: "Future[Told]", last: int, asked: dict[str, Any], asking: bool
) -> tuple[Told, Told, int, float]:
    """When each batch could be asked about, and when a window with it was answered; how many questions in what time."""
    seen: Told = []
    answered: Told = []
    version, count, begun = -1, 0, time.monotonic()
    while not seen or seen[-1][0] < last:
        if writer.done() and writer.exception() is not None:
            break
        if asking:
            live.answer(0.99, **asked)
            count += 1
        elif live.version == version:
            time.sleep(LOOK)
        if live.version != version:
            version = live.version
            batch = int(live.quantile(1.0, last=1))
            seen.append((batch, time.monotonic()))
            live.answer(0.99, **asked)
            answered.append((batch, time.monotonic()))
    return seen, answered, count, time.monotonic() - begun


def _first(seen: Told, batch: int) -> float:
    """When a batch, or a later one, was seen for the first time."""
    return next(when for found, when in seen if found >= batch)


def _holds(live: LiveStream, rows: int, keys: int, last: int, asked: dict[str, Any], settings: Settings) -> bool:
    """Whether the window is right when everything has come."""
    live.poll()
    first = max(0, math.floor(last - 60 / settings.follow_every) - 1)
    parts = []
    for batch in range(first, last + 1):
        if batch * settings.follow_every > last * settings.follow_every - 60:
            values, key = values_of(batch, rows, keys)
            parts.append(values[key == 0] if keys else values)
    exact = np.sort(np.concatenate(parts))
    return bool(checked("", live.answer(0.99, **asked), exact, settings.eps * len(exact))["holds"])
