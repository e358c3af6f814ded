"""FAST's own figures: time against GK01 (Figures 2 and 3), memory (Table 1).

The paper uses 4-byte floats; so does this.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import data
from benchmarks.data import Values
from benchmarks.report import Report, Row, say
from benchmarks.timing import blocks
from quantide import GKSketch, StreamSketch

EPS = 0.001
TABLE_1 = {  # stream size: bound of tuples, bound of summary bytes (12 a tuple), at eps 0.001
    10**6: (161_000, 1_900_000),
    10**9: (717_000, 8_600_000),
    10**12: (1_670_000, 20_000_000),
    10**15: (3_030_000, 36_400_000),
}
IN_TEXT = {10**7: 2_000_000, 10**8: 5_000_000}  # bytes that sections 4.1.1 and 4.2 tell, at the same eps
PIECE = 65_536 * 16


@dataclass(frozen=True)
class Settings:
    """`patience`: seconds after which a run of GK01 is cut and the rest of its time projected."""

    sizes: tuple[int, ...] = (1_000_000, 2_000_000, 5_000_000, 10_000_000)
    epsilons: tuple[float, ...] = (0.01, 0.005, 0.002, 0.001)
    orders: tuple[str, ...] = ("random", "sorted", "reversed")
    rounds: int = 3
    patience: float = 40.0
    fed: tuple[int, ...] = (10**6, 10**8, 10**9)


HOUR = Settings(fed=(10**6, 10**8))
QUICK = Settings(sizes=(5_000, 20_000), epsilons=(0.01, 0.001), rounds=1, patience=2.0, fed=(10_000, 100_000))


def run(settings: Settings, command: str, folder: Path | None) -> Report:
    """All rows of both figures and of the table."""
    for sketch in (StreamSketch(EPS), GKSketch(EPS)):  # compile before the clock runs
        sketch.update(np.arange(5_000, dtype=np.float32))
    parts = {"times": _times, "memory": lambda s: memory(s.fed)}
    return Report.in_parts("fast", settings, parts, command, folder)


def _times(settings: Settings) -> list[Row]:
    return [row for order in settings.orders for row in _figure(order, settings)]


def _figure(order: str, settings: Settings) -> list[Row]:
    """Time by stream size at eps 0.001, and by eps at the largest size."""
    values = data.make(order, "float32", settings.sizes[-1])
    rows: list[Row] = []
    for eps in sorted({*settings.epsilons, EPS}, reverse=True):
        say(f"fast: {len(values):,} {order} values at eps {eps}, StreamSketch and GKSketch")
        sizes = settings.sizes if eps == EPS else settings.sizes[-1:]
        runs = [_checkpoints(StreamSketch(eps), values, sizes, None) for _ in range(settings.rounds)]
        ours = {size: min(run[size][0] for run in runs) for size in sizes}
        classic = _checkpoints(GKSketch(eps), values, sizes, settings.patience)
        for size in sizes:
            seconds, projected = classic[size]
            rows.append(
                {
                    "order": order,
                    "eps": eps,
                    "n": size,
                    "ratio": round(seconds / ours[size], 2),
                    "stream_s": round(ours[size], 6),
                    "gk_s": round(seconds, 6),
                    "gk_projected": projected,
                }
            )
    return rows


def _checkpoints(
    sketch: Any, values: Values, sizes: tuple[int, ...], patience: float | None
) -> dict[int, tuple[float, bool]]:
    """Seconds until each size was reached (neither sketch knows how long the stream will be, so one
    run serves all sizes), and whether they were projected from the speed of the last piece."""
    seconds: dict[int, tuple[float, bool]] = {}
    done, spent, pace = 0, 0.0, 0.0
    for size in sizes:
        for part in _pieces(done, size, len(values)):
            if patience is not None and spent > patience:
                break
            start = time.perf_counter()
            sketch.update(values[part])
            took = time.perf_counter() - start
            spent += took
            pace = took / (part.stop - part.start)
            done = part.stop
        seconds[size] = (spent + (size - done) * pace, done < size)
    return seconds


def _pieces(start: int, stop: int, total: int) -> Iterable[slice]:
    length = max(1, min(PIECE, total // 4))
    for part in blocks(stop - start, length):
        yield slice(start + part.start, start + part.stop)


def memory(fed: tuple[int, ...]) -> list[Row]:
    """The bound beside the paper's, and what is really held where the stream can be fed."""
    held = _held(fed)
    rows = []
    for n in sorted({*TABLE_1, *IN_TEXT, *held}):
        tuples, size = TABLE_1.get(n, (None, IN_TEXT.get(n)))
        bound = int(StreamSketch.max_nbytes(EPS, n, itemsize=4))
        rows.append(
            {
                "n": n,
                "ratio": size and round(bound / size, 3),
                "bound_bytes": bound,
                "paper_bytes": size,
                "paper_tuples": tuples,
                "held_bytes": held.get(n),
            }
        )
    return rows


def _held(fed: tuple[int, ...]) -> dict[int, int]:
    """`nbytes` after so many random float32, right after a question was answered."""
    rng = np.random.default_rng(1)
    sketch, done, held = StreamSketch(EPS), 0, {}
    for size in fed:
        say(f"fast: feeding {size:,} values to see the memory")
        for part in blocks(size - done, PIECE):
            sketch.update(rng.random(part.stop - part.start, dtype=np.float32))
        done = size
        sketch.quantile(0.5)
        held[size] = int(sketch.nbytes)
    return held
