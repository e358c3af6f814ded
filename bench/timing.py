"""Timing: interleaved rounds, so that a slow minute of the machine affects every method, and spreads of latencies."""

import gc
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

K = TypeVar("K")


@dataclass
class Timed:
    """Seconds of each round, and the result of the last."""

    seconds: list[float] = field(default_factory=list)
    result: Any = None

    @property
    def best(self) -> float:
        return min(self.seconds)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


def interleave(jobs: Mapping[K, Callable[[], Any]], rounds: int | Mapping[K, int]) -> dict[K, Timed]:
    """Run every job once, then every job again, up to its number of rounds."""
    limits = {name: rounds if isinstance(rounds, int) else rounds[name] for name in jobs}
    timed = {name: Timed() for name in jobs}
    gc.collect()
    for done in range(max(limits.values(), default=0)):
        for name, job in jobs.items():
            if done < limits[name]:
                timed[name].result = None
                seconds, timed[name].result = clock(job)
                timed[name].seconds.append(seconds)
    return timed


def clock(job: Callable[..., Any], *arguments: Any, **named: Any) -> tuple[float, Any]:
    """Return the seconds and the result of one call, without garbage collection."""
    gc.disable()
    try:
        start = time.perf_counter()
        result = job(*arguments, **named)
        return time.perf_counter() - start, result
    finally:
        gc.enable()


def spread(seconds: Sequence[float], prefix: str = "") -> dict[str, float]:
    """Return the median, the 99th percentile and the maximum."""
    median, p99 = np.quantile(seconds, [0.5, 0.99])
    return {f"{prefix}median": float(median), f"{prefix}p99": float(p99), f"{prefix}worst": float(max(seconds))}


def blocks(n: int, size: int, start: int = 0) -> Iterator[slice]:
    """Yield slices that cover start..start+n."""
    for at in range(start, start + n, size):
        yield slice(at, min(at + size, start + n))


@contextmanager
def scratch() -> Iterator[Path]:
    """Yield a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="quantide-bench-") as folder:
        yield Path(folder)
