"""Timing: interleaved rounds, so that a slow minute of the machine affects every method, and spreads of latencies."""

import gc
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

K = TypeVar("K")


class Timed:
    """Seconds of each round, and the result of the last."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.result: Any = None

    @property
    def best(self) -> float:
        return min(self.seconds)


def interleave(
    jobs: Mapping[K, Callable[[], Any]], rounds: int | Mapping[K, int], warm_up: bool = False
) -> dict[K, Timed]:
    """Run every job once, then every job again in the opposite order, up to its number of rounds.

    `warm_up`: run every job once before, without timing it. The first run of a job compiles, loads and allocates, but
    some jobs take minutes, so the caller decides.
    """
    limits = dict.fromkeys(jobs, rounds) if isinstance(rounds, int) else rounds
    timed = {name: Timed() for name in jobs}
    for job in jobs.values() if warm_up else ():
        job()
    gc.collect()
    for done in range(max((limits[name] for name in jobs), default=0)):
        for name, one in reversed(timed.items()) if done % 2 else timed.items():
            if done < limits[name]:
                one.result = None
                seconds, one.result = clock(jobs[name])
                one.seconds.append(seconds)
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


def processor_clock(job: Callable[..., Any], *arguments: Any, **named: Any) -> tuple[float, Any]:
    """Return the processor seconds of one call, of all threads, and its result: other programs do not change them."""
    start = time.process_time()
    _, result = clock(job, *arguments, **named)
    return time.process_time() - start, result


def spread(seconds: Sequence[float], prefix: str = "") -> dict[str, float]:
    """Return the median, the 99th percentile and the maximum."""
    median, p99, worst = np.quantile(seconds, (0.5, 0.99, 1)).tolist()
    return {f"{prefix}median": median, f"{prefix}p99": p99, f"{prefix}worst": worst}


def blocks(n: int, size: int, start: int = 0) -> Iterator[slice]:
    """Yield slices that cover start..start+n."""
    return (slice(at, min(at + size, start + n)) for at in range(start, start + n, size))


@contextmanager
def scratch() -> Iterator[Path]:
    """Yield a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="quantide-bench-") as folder:
        yield Path(folder)
