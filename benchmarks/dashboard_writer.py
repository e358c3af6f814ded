"""A store that is written to at a pace, by a thread."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from benchmarks.dashboard_settings import Settings
from quantide import History

STEP = 30.0  # seconds


@dataclass
class Written:
    commits: int = 0
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        return self.commits / self.seconds


class Writer:
    """Latencies of some endpoints, with times up to now."""

    def __init__(self, path: Path, settings: Settings) -> None:
        self._settings, self._random = settings, np.random.default_rng(1)
        self._keys = [f"/endpoint/{number}" for number in range(settings.keys)]
        self._history = History(path, eps=0.001, keys="endpoint", window="24 hours")
        steps = 10
        for step in range(steps):
            self._append(settings.history_rows // steps, 3600.0 / steps, (steps - step) * 3600.0 / steps)
            self._history.end_step()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._history.close()

    @contextmanager
    def writing(self, rate: float) -> Iterator[Written]:
        """Commits at a rate, or as fast as it can; what came of it is told at the end."""
        written, ends = Written(), threading.Event()
        thread = threading.Thread(target=self._write, args=(rate, written, ends))
        thread.start()
        try:
            yield written
        finally:
            ends.set()
            thread.join()

    def _write(self, rate: float, written: Written, ends: threading.Event) -> None:
        begun = step = time.monotonic()
        while not ends.wait(max(0.0, begun + (written.commits + 1) / rate - time.monotonic())):
            self._append(self._settings.commit_rows, 1 / rate, 0.0)
            written.commits += 1
            written.seconds = time.monotonic() - begun
            if time.monotonic() - step > STEP:
                self._history.end_step()
                self._history.vacuum()
                step = time.monotonic()

    def _append(self, rows: int, span: float, ago: float) -> None:
        """Rows of `span` seconds that ended `ago` seconds before now."""
        now = np.datetime64(time.time_ns() // 1000, "us")
        before: Any = (1e6 * (ago + np.sort(self._random.uniform(0, span, rows))[::-1])).astype("timedelta64[us]")
        self._history.append(
            self._random.lognormal(3, 1, rows), key=self._random.choice(self._keys, rows), times=now - before
        )
