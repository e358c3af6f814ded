"""Figures 2 and 3 and Table 1 of the FAST paper: time beside GK01, and memory, for 4-byte floats as in the paper.

All times are processor time.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import Any
from unittest.mock import patch

import numpy as np

from bench import inputs, plots
from bench.collection import Subject
from bench.inputs import Values
from bench.report import Report, Row, show, sized
from bench.timing import blocks, processor_clock
from quantide import GKSketch, StreamSketch
from quantide.kernels import block_sort

EPS = 0.001
# Stream size: bound of tuples in Table 1, bytes there (12 a tuple) or in sections 4.1.1 and 4.2, at eps 0.001
PAPER = {10**6: (161_000, 1_900_000), 10**7: (None, 2_000_000), 10**8: (None, 5_000_000)}
PAPER |= {10**9: (717_000, 8_600_000), 10**12: (1_670_000, 20_000_000), 10**15: (3_030_000, 36_400_000)}


@dataclass(frozen=True)
class Settings:
    sizes: tuple[int, ...] = sized((1_000_000, 2_000_000, 5_000_000, 10_000_000), quick=(5_000, 20_000))
    epsilons: tuple[float, ...] = sized((0.01, 0.005, 0.002, 0.001), quick=(0.01, 0.001))
    orders: tuple[str, ...] = ("random", "sorted", "reversed")
    rounds: int = sized(3, quick=1)
    sort_rounds: int = sized(7, quick=1)
    fed: tuple[int, ...] = sized((10**6, 10**8, 10**9), (10**6, 10**8), (10_000, 100_000))


def times(settings: Settings) -> list[Row]:
    """Measure the time by stream size at eps 0.001, and by eps at the largest size."""
    for sketch in (StreamSketch(EPS), GKSketch(EPS)):  # compile before the clock runs
        sketch.update(np.arange(5_000, dtype=np.float32))
    rows = []
    for order in settings.orders:
        values = inputs.make(order, "float32", settings.sizes[-1])
        for eps in settings.epsilons:
            show(f"fast: {len(values):,} {order} values at eps {eps}, StreamSketch and GKSketch")
            sizes = settings.sizes if eps == EPS else settings.sizes[-1:]
            runs = [_seconds(StreamSketch(eps), values, sizes) for _ in range(settings.rounds)]
            pairs = zip(sizes, map(min, zip(*runs, strict=True)), _seconds(GKSketch(eps), values, sizes), strict=True)
            for n, ours, classic in pairs:
                row = {"order": order, "eps": eps, "n": n, "ratio": round(classic / ours, 2)}
                rows.append(row | {"stream_s": round(ours, 6), "gk_s": round(classic, 6)})
    return rows


def _seconds(sketch: Any, values: Values, sizes: tuple[int, ...]) -> list[float]:
    """Return the seconds until each size; neither sketch depends on the length, so one run serves all sizes."""
    return list(accumulate(processor_clock(sketch.update, piece)[0] for piece in np.split(values, sizes)[:-1]))


def sorts(settings: Settings) -> list[Row]:
    """Measure the coarsest and the finest eps on random values, with and without a tail, for each way to sort."""
    values, rows = inputs.make("random", "float32", settings.sizes[-1]), list[Row]()
    chosen = [(tail, eps) for tail in (True, False) for eps in (settings.epsilons[0], settings.epsilons[-1])]
    for name in ("auto", "radix", "numpy"):
        show(f"fast: {len(values):,} random values, sorted by {name}")
        with _sorted_by(name):
            taken: dict[tuple[bool, float], list[float]] = {one: [] for one in chosen}
            for _ in range(settings.sort_rounds + 1):  # the first loads machine code
                for tail, eps in chosen:
                    sketch = StreamSketch(eps) if tail else StreamSketch(eps, tail=None)
                    taken[tail, eps].append(processor_clock(sketch.update, values)[0])
        for tail, eps in chosen:
            seconds, coarse = min(taken[tail, eps]), min(taken[tail, chosen[0][1]])
            row = {"sort": name, "tail": tail, "eps": eps, "n": len(values), "stream_s": round(seconds, 6)}
            rows.append(row | {"times_coarse": round(seconds / coarse, 4)})
    return rows


@contextmanager
def _sorted_by(name: str) -> Iterator[None]:
    """Force a way to sort blocks; the choice that was made before is forgotten."""
    choices = (block_sort.radix_from, block_sort.selects_by_radix)
    with patch.dict(os.environ, {block_sort.VARIABLE: name}):
        for choice in choices:
            choice.cache_clear()
        yield
    for choice in choices:
        choice.cache_clear()


def memory(settings: Settings) -> list[Row]:
    """Compute the bound beside the paper's, and measure the memory after random values and an answer."""
    rng, sketch, measured = np.random.default_rng(1), StreamSketch(EPS), {}
    for size in settings.fed:
        show(f"fast: memory after {size:,} values")
        for part in blocks(size - sketch.n, 1 << 20):
            sketch.update(rng.random(part.stop - part.start, dtype=np.float32))
        sketch.quantile(0.5)
        measured[size] = int(sketch.nbytes)
    rows = []
    for n in sorted({*PAPER, *measured}):
        tuples, paper = PAPER.get(n, (None, None))
        bound = int(StreamSketch.max_nbytes(EPS, n, itemsize=4))
        row = {"n": n, "ratio": paper and round(bound / paper, 3), "bound_bytes": bound, "paper_bytes": paper}
        rows.append(row | {"paper_tuples": tuples, "held_bytes": measured.get(n)})
    return rows


def figures(report: Report) -> Row:
    rows, largest, curves = report.rows["times"], report.settings["sizes"][-1], []
    for title, by, x in (("eps = 0.001", "values", "n"), (f"{largest:,} values", "eps", "eps")):
        chosen = [row for row in rows if (row["eps"] == EPS if x == "n" else row["n"] == largest)]
        for colour, name, y in ((1, "GKSketch", "gk_s"), (0, "StreamSketch", "stream_s")):
            for order, dashes in {"random": "", "sorted": "6 3", "reversed": "2 3"}.items():
                points = sorted(plots.points((row for row in chosen if row["order"] == order), x, y))
                curves.append(plots.Curve(title, by, "seconds", f"{name}, {order}", colour, points, dashes))
    return {"fast.svg": plots.figure(curves, "Seconds to sketch a stream, StreamSketch and GKSketch, logarithmic axes")}


PARTS = {"times": times, "sorts": sorts, "memory": memory}
SUBJECT = Subject("the figures of the FAST paper", Settings, PARTS, plots=figures)
