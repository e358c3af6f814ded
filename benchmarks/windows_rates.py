"""How fast windows take values, in blocks, one by one and as tables."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from benchmarks.report import Row, say
from benchmarks.timing import blocks, interleave
from benchmarks.windows_settings import Settings
from quantide import ConstrainedWindow, RecentWindow, SlidingWindow, last, where

Array = NDArray[np.float64]
PASSING = 0.6  # of the rows that come pass the filter


@dataclass(frozen=True)
class Job:
    """A window and how it is fed; `bar`: how many values a second it is asked to take."""

    name: str
    eps: float
    fed: str
    make: Callable[[], Any]
    feed: Callable[[Any, "Stream"], None]
    bar: float

    def run(self, stream: "Stream") -> Any:
        window = self.make()
        self.feed(window, stream)
        return window


def rates(settings: Settings) -> list[Row]:
    """Every job once, then every job again; the best round counts."""
    say(f"windows: {settings.values:,} values in blocks, {settings.singles:,} one by one")
    stream = Stream(settings, settings.values)
    warm = Stream(settings, min(settings.values, 300_000))
    chosen = jobs(settings)
    for job in chosen:
        job.run(warm)
    found = interleave([(partial(job.run, stream), settings.rounds) for job in chosen])
    return [
        {
            "window": job.name,
            "eps": job.eps,
            "fed": job.fed,
            "values": stream.count(job),
            "values_per_s": round(stream.count(job) / one.best),
            "values_per_s_median": round(stream.count(job) / one.median),
            "bar": job.bar,
            "tuples": one.result.tuples,
            "bytes": one.result.nbytes,
        }
        for job, one in zip(chosen, found, strict=True)
    ]


class Stream:
    """The same values in every shape, made beforehand."""

    def __init__(self, settings: Settings, n: int) -> None:
        rng = np.random.default_rng(5)
        self.values = rng.random(n)
        self.times = np.arange(n) / 1e6
        self.blocks = list(blocks(n, settings.block))
        self.tables = [_table(self.values[part], self.times[part]) for part in self.blocks]
        single = slice(0, min(n, settings.singles))
        self.singles, self.single_times = self.values[single].tolist(), self.times[single].tolist()

    def count(self, job: Job) -> int:
        return len(self.singles) if job.feed in (singly, singly_timed) else len(self.values)


def _table(values: Array, times: Array) -> pa.Table:
    key = np.random.default_rng(len(values)).random(len(values))
    return pa.table({"time": times, "key": key, "value": values})


def jobs(settings: Settings) -> list[Job]:
    out, size = [], settings.size
    kept = last(size) & where(pc.field("key") < PASSING)
    for eps in settings.epsilons:
        sliding, recent = partial(SlidingWindow, size, eps), partial(RecentWindow, eps, max_items=size)
        bar, single = 10e6 if eps >= 0.01 else 2e6, 5e5
        out += [
            Job("SlidingWindow", eps, "blocks", sliding, in_blocks, bar),
            Job("RecentWindow", eps, "blocks", recent, in_blocks, bar),
            Job("RecentWindow", eps, "blocks, times", recent, timed, bar),
            Job("ConstrainedWindow", eps, "tables", partial(ConstrainedWindow, kept, eps), tables, bar),
            Job("SlidingWindow", eps, "one by one", sliding, singly, single),
            Job("RecentWindow", eps, "one by one", recent, singly, single),
            Job("RecentWindow", eps, "one by one, times", recent, singly_timed, single),
        ]
    return out


def in_blocks(window: Any, stream: Stream) -> None:
    for part in stream.blocks:
        window.update(stream.values[part])


def timed(window: Any, stream: Stream) -> None:
    for part in stream.blocks:
        window.update(stream.values[part], stream.times[part])


def tables(window: Any, stream: Stream) -> None:
    for table in stream.tables:
        window.update(table)


def singly(window: Any, stream: Stream) -> None:
    update = window.update
    for value in stream.singles:
        update(value)


def singly_timed(window: Any, stream: Stream) -> None:
    update = window.update
    for value, time in zip(stream.singles, stream.single_times, strict=True):
        update(value, time)
