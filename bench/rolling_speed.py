"""Rolling quantiles of whole columns beside polars, pandas and a partition of each window."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from bench.collection import Subject
from bench.environment import load
from bench.inputs import Floats
from bench.polars_child import rolling
from bench.processes import ROOT
from bench.rendering import group
from bench.report import Part, Report, Row, show, sized
from bench.timing import clock
from quantide import rolling_quantile

OURS, POLARS, THREADS, PANDAS, RING = "rolling_quantile", "polars", "polars, all threads", "pandas", "numpy ring"
SEED = 21
MEDIAN, THREE = [0.5], [0.5, 0.9, 0.99]
PACKAGES = ("polars", "pandas")
Jobs = dict[str, Callable[[], Any]]
Run = tuple[float, float, Any]  # seconds, processor seconds, result
Timed = dict[str, Callable[[], Run]]


@dataclass(frozen=True)
class Settings:
    """Columns of `n` values or four windows, whichever is more; pandas gets two windows or `slow` values, and
    no window above `slow_window`.

    Windows by time have `timed_windows` values on average, of `slow` or four windows.
    """

    windows: tuple[int, ...] = sized((100, 1_000, 10_000, 100_000, 1_000_000), quick=(100, 2_000))
    n: int = sized(4_000_000, 2_000_000, 10_000)
    slow: int = sized(400_000, 200_000, 5_000)
    rounds: int = sized(9, 4, 2)
    slow_window: int = sized(1_000_000, 100_000, 2_000)
    ring: int = sized(200, 20, 5)
    order_window: int = sized(100_000, quick=1_000)
    timed_windows: tuple[int, ...] = sized((100, 10_000, 1_000_000), (1_000, 100_000), (100, 2_000))


class ThreadedPolars:
    """Polars in a process of its own, because the number of threads is fixed when it is imported."""

    def __init__(self) -> None:
        variables = {name: value for name, value in os.environ.items() if name != "POLARS_MAX_THREADS"}
        command = [sys.executable, "-m", "bench.polars_child"]
        pipes: Row = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._process = subprocess.Popen(command, cwd=ROOT, env=variables, **pipes)
        self.threads = int(self._read())

    def run(self, window: int, n: int, phis: list[float]) -> tuple[float, float, None]:
        """Return the seconds and the processor seconds of all threads."""
        assert self._process.stdin is not None
        print(window, n, SEED, *phis, file=self._process.stdin, flush=True)
        seconds, processor = self._read().split()
        return float(seconds), float(processor), None

    def close(self) -> None:
        with self._process:  # closes both pipes, which ends the child, and waits for it
            pass

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


@contextmanager
def measuring(s: Settings) -> Iterator[dict[str, Part]]:
    """Yield the parts, with a process of polars if it is installed."""
    child = ThreadedPolars() if load("polars") else None
    try:
        yield {"rows": partial(windows, child), "orders": orders, "timed": timed}
    finally:
        if child:
            child.close()


def windows(child: ThreadedPolars | None, s: Settings) -> list[Row]:
    """Measure every window size, with one phi and with three."""
    rows: list[Row] = []
    for window in s.windows:
        n = max(s.n, 4 * window)
        values = np.random.default_rng(SEED).normal(size=n)
        for phis in (MEDIAN, THREE):
            show(f"rolling: windows of {window:,}, {len(phis)} phis")
            about = {"window": window, "phis": len(phis), "n": n}
            jobs: Jobs = {OURS: partial(rolling_quantile, values, window, phis), **_polars(values, window, phis)}
            timed: Timed = {THREADS: partial(child.run, window, n, phis)} if child else {}
            best = _best(jobs, s.rounds, timed)
            equal = POLARS not in best or _equal(best[OURS][2], best[POLARS][2], window)
            for name, (seconds, processor, _) in best.items():
                rows.append(about | {"method": name} | _rates(n, seconds, processor) | {"equal": equal})
        rows += _slow(values, window, s)
    return rows


def _polars(values: Floats, window: int, phis: list[float]) -> Jobs:
    pl = load("polars")
    return {POLARS: partial(rolling, pl.Series(values), window, phis)} if pl else {}


def _best(jobs: Jobs, rounds: int, timed: Timed | None = None) -> dict[str, Run]:
    """Return the least seconds and processor seconds of each job, in turns, and its result; `timed` jobs return all."""
    best: dict[str, Run] = {}
    runs = {name: partial(_run, job) for name, job in jobs.items()} | (timed or {})
    for _ in range(rounds):
        for name, run in runs.items():
            seconds, processor, result = run()
            before = best.get(name, (seconds, processor, None))
            best[name] = min(seconds, before[0]), min(processor, before[1]), result
    return best


def _run(job: Callable[[], Any]) -> Run:
    begun = time.process_time()
    seconds, result = clock(job)
    return seconds, time.process_time() - begun, result


def _rates(n: int, seconds: float, processor: float | None = None) -> Row:
    return {"values_per_s": round(n / seconds), "values_per_cpu_s": processor and round(n / processor)}


def _equal(ours: Floats, theirs: Any, window: int) -> bool:
    columns = np.column_stack([one.to_numpy() for one in theirs])
    return bool(np.array_equal(ours[window - 1 :], columns[window - 1 :]))


def _slow(values: Floats, window: int, s: Settings) -> Iterator[Row]:
    """Measure pandas on a shorter column, and a partition of some windows, once."""
    about = {"window": window, "phis": 1}
    if (pd := load("pandas")) and window <= s.slow_window:
        part = values[: max(s.slow, 2 * window)]
        rolled = pd.Series(part).rolling(window)
        seconds, _ = clock(rolled.quantile, 0.5, interpolation="lower")
        yield about | {"method": PANDAS, "n": len(part)} | _rates(len(part), seconds)
    rank, ends = (window - 1) // 2, np.linspace(window, len(values), s.ring).astype(int)
    seconds, _ = clock(lambda: [np.partition(values[end - window : end], rank)[rank] for end in ends])
    yield about | {"method": RING, "n": len(ends)} | _rates(len(ends), seconds)


def _inputs(n: int) -> dict[str, Floats]:
    values = np.random.default_rng(SEED).normal(size=n)
    missing = np.where(np.random.default_rng(SEED + 1).random(n) < 0.1, np.nan, values)
    ordered = np.sort(values)
    return {
        "random": values,
        "sorted": ordered,
        "reversed": ordered[::-1].copy(),
        "random walk": np.cumsum(values),
        "few values": np.round(values),
        "constant": np.zeros(n),
        "10% NaN": missing,
    }


def orders(s: Settings) -> list[Row]:
    """Measure other orders of values."""
    rows: list[Row] = []
    n, window = max(s.n, 4 * s.order_window), s.order_window
    for order, values in _inputs(n).items():
        show(f"rolling: {order}")
        jobs: Jobs = {OURS: partial(rolling_quantile, values, window, 0.5)}
        if order != "10% NaN":  # to polars NaN is a value
            jobs |= _polars(values, window, MEDIAN)
        for name, (seconds, processor, _) in _best(jobs, 2).items():
            rows.append({"order": order, "method": name, "n": n} | _rates(n, seconds, processor))
    return rows


def timed(s: Settings) -> list[Row]:
    """Measure windows by time, of as many values on average."""
    rows: list[Row] = []
    for window in s.timed_windows:
        n = max(s.slow, 4 * window)
        show(f"rolling: windows of about {window:,} values by time")
        values = np.random.default_rng(SEED).normal(size=n)
        stamps = (np.cumsum(np.random.default_rng(3).exponential(1, n)) * 1e6).astype("datetime64[us]")
        span = np.timedelta64(window * 10**6, "us")
        jobs: Jobs = {OURS: partial(rolling_quantile, values, span, 0.5, times=stamps)}
        if pl := load("polars"):
            frame = pl.DataFrame({"value": values, "time": stamps})
            column = pl.col("value").rolling_quantile_by("time", f"{window}s", quantile=0.5, interpolation="lower")
            jobs[POLARS] = partial(frame.select, column)
        for name, (seconds, processor, _) in _best(jobs, 2).items():
            rows.append({"window": window, "method": name, "n": n} | _rates(n, seconds, processor))
    return rows


def context(report: Report) -> Row:
    """Return a row for each window and number of phis, order or span: the rate of each method, and ratios to polars."""
    sides = dict[str, list[Row]]()
    for part, keys in {"rows": ("window", "phis"), "orders": ("order",), "timed": ("window",)}.items():
        rows = [row | {"key": tuple(row[key] for key in keys)} for row in report.rows.get(part, [])]
        sides[part] = [{key: found[0][key] for key in keys} | _beside(found) for found in group(rows, "key").values()]
    return {"sides": sides}


def _beside(rows: list[Row]) -> Row:
    """Return rates per second of processor time, where it was measured, and the ratio to all threads by the clock."""
    clocked = {row["method"]: row["values_per_s"] for row in rows}
    rates = {row["method"]: row["values_per_cpu_s"] or row["values_per_s"] for row in rows}
    one, all_threads = rates.get(POLARS), clocked.get(THREADS)
    return {
        "rates": {name: rates.get(name) for name in (OURS, POLARS, PANDAS, RING)},
        "ratio": one and rates[OURS] / one,
        "threads_ratio": all_threads and clocked[OURS] / all_threads,
        "equal": all(row.get("equal", True) for row in rows),
    }


SUBJECT = Subject(
    "rolling quantiles of whole columns, beside polars and pandas", Settings, measuring, context, packages=PACKAGES
)
