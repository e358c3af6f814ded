"""Bounds that are violated in random cases, compared with exact results of all data; the time of comparisons."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench import comparison_claims, histogram_claims, ranking_claims
from bench.collection import Subject
from bench.random_data import draw_pair
from bench.report import Report, Row, show, sized
from bench.timing import blocks, clock, spread
from bench.violation_search import Checks, T, search
from quantide import StreamSketch, Summary

EPS, SHIFT = 0.001, 0.01  # of the summaries that are compared, and between their data
BLOCK = 5_000_000
MEASURES: dict[str, Callable[[Summary, Summary], Any]] = {
    "ks": lambda a, b: a.compare(b).ks,
    "wasserstein": lambda a, b: a.compare(b).wasserstein,
    "psi": lambda a, b: a.compare(b).psi,
    "shifts": lambda a, b: a.compare(b).shifts,
    "mean": lambda a, b: a.mean(),
    "trimmed_mean": lambda a, b: a.trimmed_mean(0.1),
    "expected_shortfall": lambda a, b: a.expected_shortfall(0.99),
}


@dataclass(frozen=True)
class Settings:
    """`cases` of every bound from a seed; comparisons of two summaries of `n` values each, in so many rounds."""

    cases: int = sized(100_000, quick=1_500)
    seed: int = 31
    n: int = sized(100_000_000, quick=100_000)
    rounds: int = sized(101, quick=3)


def find(draw: Callable[[np.random.Generator], T], checks: Checks[T], s: Settings, group: str) -> list[Row]:
    """Return a row for each bound; `group` is what the bounds are about, and has cases of its own."""
    show(f"violations: {group}, {s.cases:,} cases of each of {len(checks)} bounds")
    return [{"group": group} | row for row in search(draw, checks, s.cases, [s.seed, *group.encode()])]


def summaries(s: Settings) -> list[Row]:
    """Search for violations of comparisons, sums over ranks, quantiles and ranks."""
    return find(draw_pair, comparison_claims.CHECKS, s, "summaries")


def histograms(s: Settings) -> list[Row]:
    """Search for violations of imported histograms, of each format, and of exported counts."""
    rows = []
    for name in histogram_claims.PRODUCERS:
        rows += find(histogram_claims.draw_histograms(name), histogram_claims.IMPORT_CHECKS, s, name)
    rows += find(histogram_claims.draw_source, histogram_claims.EXPORT_CHECKS, s, "exports")
    return [*rows, *find(histogram_claims.draw_round_trips, histogram_claims.IMPORT_CHECKS, s, "exported, imported")]


def rankings(s: Settings) -> list[Row]:
    """Search for violations of rankings of keys."""
    return find(ranking_claims.draw_rankings, ranking_claims.CHECKS, s, "worst keys")


def speed(s: Settings) -> list[Row]:
    """Measure comparisons of two summaries; every call computes its bounds again."""
    show(f"violations: speed, two summaries of {s.n:,} values")
    a, b = (_summary(s, np.random.default_rng([s.seed, side]), SHIFT * side) for side in range(2))
    rows = []
    for name, call in MEASURES.items():
        call(a, b)
        seconds = [clock(call, a, b)[0] for _ in range(s.rounds)]
        rows.append({"measure": name, "n": int(a.n), "tuples": len(a), "best": min(seconds)} | spread(seconds))
    return rows


def _summary(s: Settings, rng: np.random.Generator, shift: float) -> Summary:
    sketch = StreamSketch(EPS)
    for part in blocks(s.n, BLOCK):
        sketch.update(rng.normal(shift, 1.0, part.stop - part.start))
    return sketch.summary()


def context(report: Report) -> Row:
    """Return all rows of bounds, and sums over them."""
    found = [row for part in ("summaries", "histograms", "rankings") for row in report.rows.get(part, [])]
    totals = {name: sum(row[name] for row in found) for name in ("cases", "violations")}
    return {"bounds": found, **totals}


PARTS = {"summaries": summaries, "histograms": histograms, "rankings": rankings, "speed": speed}
SUBJECT = Subject(
    "violations of every proved bound, searched in random cases; the time of comparisons",
    Settings,
    PARTS,
    context,
    by_name=True,
)
