"""Figures 2 and 3 and Table 1 of the FAST paper: time beside GK01, and memory, for 4-byte floats as in the paper."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench import inputs, plots
from bench.collection import Subject
from bench.inputs import Values
from bench.report import Report, Row, say, sized
from bench.timing import blocks
from quantide import GKSketch, StreamSketch

EPS = 0.001
TABLE_1 = {  # stream size: bound of tuples, bound of summary bytes (12 a tuple), at eps 0.001
    10**6: (161_000, 1_900_000),
    10**9: (717_000, 8_600_000),
    10**12: (1_670_000, 20_000_000),
    10**15: (3_030_000, 36_400_000),
}
IN_TEXT = {10**7: 2_000_000, 10**8: 5_000_000}  # bytes in sections 4.1.1 and 4.2, at the same eps
PIECE = 65_536 * 16


@dataclass(frozen=True)
class Settings:
    """`patience`: seconds after which a run of GK01 is cut and the rest of its time projected."""

    sizes: tuple[int, ...] = sized((1_000_000, 2_000_000, 5_000_000, 10_000_000), quick=(5_000, 20_000))
    epsilons: tuple[float, ...] = sized((0.01, 0.005, 0.002, 0.001), quick=(0.01, 0.001))
    orders: tuple[str, ...] = ("random", "sorted", "reversed")
    rounds: int = sized(3, quick=1)
    patience: float = sized(40.0, quick=2.0)
    fed: tuple[int, ...] = sized((10**6, 10**8, 10**9), (10**6, 10**8), (10_000, 100_000))


def times(settings: Settings) -> list[Row]:
    """Measure the time by stream size at eps 0.001, and by eps at the largest size."""
    for sketch in (StreamSketch(EPS), GKSketch(EPS)):  # compile before the clock runs
        sketch.update(np.arange(5_000, dtype=np.float32))
    rows = []
    for order in settings.orders:
        values = inputs.make(order, "float32", settings.sizes[-1])
        for eps in sorted({*settings.epsilons, EPS}, reverse=True):
            say(f"fast: {len(values):,} {order} values at eps {eps}, StreamSketch and GKSketch")
            sizes = settings.sizes if eps == EPS else settings.sizes[-1:]
            runs = [_checkpoints(StreamSketch(eps), values, sizes, None) for _ in range(settings.rounds)]
            classic = _checkpoints(GKSketch(eps), values, sizes, settings.patience)
            for n in sizes:
                ours, (seconds, projected) = min(run[n][0] for run in runs), classic[n]
                row = {"order": order, "eps": eps, "n": n, "ratio": round(seconds / ours, 2)}
                rows.append(row | {"stream_s": round(ours, 6), "gk_s": round(seconds, 6), "gk_projected": projected})
    return rows


def _checkpoints(
    sketch: Any, values: Values, sizes: tuple[int, ...], patience: float | None
) -> dict[int, tuple[float, bool]]:
    """Return the seconds until each size, and whether they were projected from the speed of the last piece.

    Neither sketch depends on the length of the stream, so one run serves all sizes.
    """
    seconds: dict[int, tuple[float, bool]] = {}
    done, spent, pace = 0, 0.0, 0.0
    for size in sizes:
        for part in blocks(size - done, max(1, min(PIECE, len(values) // 4)), done):
            if patience is not None and spent > patience:
                break
            start = time.perf_counter()
            sketch.update(values[part])
            took = time.perf_counter() - start
            spent, pace, done = spent + took, took / (part.stop - part.start), part.stop
        seconds[size] = (spent + (size - done) * pace, done < size)
    return seconds


def memory(settings: Settings) -> list[Row]:
    """Compute the bound beside the paper's, and measure the memory after random values and an answer."""
    rng, sketch, done, held = np.random.default_rng(1), StreamSketch(EPS), 0, {}
    for size in settings.fed:
        say(f"fast: memory after {size:,} values")
        for part in blocks(size - done, PIECE):
            sketch.update(rng.random(part.stop - part.start, dtype=np.float32))
        done = size
        sketch.quantile(0.5)
        held[size] = int(sketch.nbytes)
    rows = []
    for n in sorted({*TABLE_1, *IN_TEXT, *held}):
        tuples, paper = TABLE_1.get(n, (None, IN_TEXT.get(n)))
        bound = int(StreamSketch.max_nbytes(EPS, n, itemsize=4))
        row = {"n": n, "ratio": paper and round(bound / paper, 3), "bound_bytes": bound, "paper_bytes": paper}
        rows.append(row | {"paper_tuples": tuples, "held_bytes": held.get(n)})
    return rows


def figures(report: Report) -> Row:
    rows, sizes, epsilons = report.rows["times"], report.settings["sizes"], report.settings["epsilons"]
    by_size = [row for row in rows if row["eps"] == EPS]
    by_eps = [row for row in rows if row["n"] == sizes[-1] and row["eps"] in epsilons]
    panels = [
        plots.Panel("eps = 0.001", "values", "seconds", _lines(by_size, "n")),
        plots.Panel(f"{sizes[-1]:,} values", "eps", "seconds", _lines(by_eps, "eps")),
    ]
    return {"fast.svg": plots.svg(panels, "Seconds to sketch a stream, StreamSketch and GKSketch, logarithmic axes")}


def _lines(rows: list[Row], x: str) -> list[plots.Line]:
    orders = dict.fromkeys(row["order"] for row in rows)
    return [
        plots.Line(
            f"{name}, {order}", sorted(plots.points([r for r in rows if r["order"] == order], x, y)), colour, dashes
        )
        for colour, name, y in ((1, "GKSketch", "gk_s"), (0, "StreamSketch", "stream_s"))
        for order, dashes in zip(orders, ("", "6 3", "2 3"), strict=False)
    ]


SUBJECT = Subject("the figures of the FAST paper", Settings, {"times": times, "memory": memory}, plots=figures)
