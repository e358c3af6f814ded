"""Merging Greenwald-Khanna summaries: without and with what one does not know about the other.

`merged_wrongly` is our own writing of the fault that SPARK-29336 tells of: tuples (value, g, delta) of both are sorted
together and kept as they are. But a tuple of one lies somewhere between two tuples of the other, and how many of the
hidden values there are smaller is not known: delta has to grow by that. Left as it is, later compression trusts it,
and the error of every merge stays. `Summary.merge` adds it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks import data
from benchmarks.breaks_rows import PHIS
from benchmarks.breaks_settings import Settings
from benchmarks.data import Values
from benchmarks.report import Row, say
from quantide import Summary

Counts = NDArray[np.int64]
ORDERS = ("random", "interleaved", "sorted")


@dataclass(frozen=True)
class Tuples:
    """The least rank of a value is the sum of g up to it; its largest is delta more."""

    values: Values
    g: Counts
    delta: Counts

    @classmethod
    def of(cls, summary: Summary) -> "Tuples":
        return cls(summary.values, np.diff(summary.rmin, prepend=0), summary.rmax - summary.rmin)

    def quantiles(self, phis: NDArray[np.float64]) -> Values:
        """The values whose ranks, as far as these tuples know, are nearest."""
        rmin = np.cumsum(self.g)
        target = data.targets(phis, int(rmin[-1]))[:, None]
        nearest = np.maximum(target - rmin, rmin + self.delta - target).argmin(axis=1)
        return np.asarray(self.values[nearest])

    @property
    def claimed(self) -> float:
        """The error that it believes to have: half the widest g + delta."""
        return float((self.g + self.delta)[1:].max() / 2 / self.g.sum())


def merged_wrongly(one: Tuples, other: Tuples) -> Tuples:
    values = np.concatenate([one.values, other.values])
    order = np.argsort(values, kind="stable")
    return Tuples(
        values[order], np.concatenate([one.g, other.g])[order], np.concatenate([one.delta, other.delta])[order]
    )


def compressed(tuples: Tuples, widest: float) -> Tuples:
    """From the end: a tuple joins the next one while g + delta stays below `widest`. The first is kept."""
    g, delta = tuples.g.tolist(), tuples.delta.tolist()
    kept = [len(g) - 1]
    for at in range(len(g) - 2, 0, -1):
        if g[at] + g[kept[-1]] + delta[kept[-1]] < widest:
            g[kept[-1]] += g[at]
        else:
            kept.append(at)
    chosen = np.unique([0, *kept])
    return Tuples(tuples.values[chosen], np.array(g)[chosen], tuples.delta[chosen])


def partitions(order: str, count: int, rows: int) -> list[Values]:
    """The numbers 0, 1, 2, ... over so many partitions."""
    values = np.arange(count * rows, dtype=np.float64)
    if order == "random":
        values = np.random.default_rng(29336).permutation(values)
    return [values[i::count] for i in range(count)] if order == "interleaved" else np.array_split(values, count)


def run(settings: Settings) -> list[Row]:
    say("breaks: merges")
    return [
        row
        for eps in (0.01, 0.001)
        for count in settings.partitions
        for order in ORDERS
        for row in _both(order, eps, partitions(order, count, settings.part_rows))
    ]


def _both(order: str, eps: float, parts: list[Values]) -> Iterator[Row]:
    """Both merge the same summaries, each of them within eps."""
    summaries = [Summary.of(part).compress(round(0.5 / eps)) for part in parts]
    ordered = np.sort(np.concatenate(parts))
    wrong, n = Tuples.of(summaries[0]), summaries[0].n
    for summary in summaries[1:]:
        n += summary.n
        wrong = compressed(merged_wrongly(wrong, Tuples.of(summary)), 2 * eps * n)
    right = Summary.merge(*summaries)
    about = {"order": order, "eps": eps, "partitions": len(parts), "n": n}
    error = data.rank_error(ordered, PHIS, wrong.quantiles(PHIS))
    yield {**about, "method": "faulty merge", "rank_error": error, "bound": eps, "claimed": wrong.claimed}
    error, certified = data.rank_error(ordered, PHIS, right.quantiles(PHIS)), float(right.error)
    yield {**about, "method": "Summary.merge", "rank_error": error, "bound": eps, "certified": certified}
