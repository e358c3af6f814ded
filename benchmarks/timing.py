"""Interleaved rounds: every method once, then every method again, so that a slow minute of the
machine falls on all of them."""

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Timed:
    """The seconds of each round and what the last round returned."""

    seconds: list[float] = field(default_factory=list)
    result: Any = None

    @property
    def best(self) -> float:
        return min(self.seconds)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


def interleave(jobs: Sequence[tuple[Callable[[], Any], int]]) -> list[Timed]:
    """Run each (job, rounds); job i of a round runs before job i+1 of the same round."""
    timed = [Timed() for _ in jobs]
    gc.collect()
    for done in range(max((rounds for _, rounds in jobs), default=0)):
        for (job, rounds), record in zip(jobs, timed, strict=True):
            if done < rounds:
                record.result = None
                seconds, record.result = clock(job)
                record.seconds.append(seconds)
    return timed


def clock(job: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds and result of one run, with the garbage collector out of the way."""
    gc.disable()
    try:
        start = time.perf_counter()
        result = job()
        return time.perf_counter() - start, result
    finally:
        gc.enable()


def blocks(n: int, size: int) -> Iterator[slice]:
    """Slices that cover 0..n."""
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))
