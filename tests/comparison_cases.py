"""Random cases of comparisons and sums over ranks, checked against exact results of all the data."""

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from quantide import GKSketch, RecentWindow, SlidingWindow, StreamSketch, Summary
from tests import comparison_oracle as oracle
from tests.oracle import target_rank

PHIS = (0.0, 0.07, 0.5, 0.9, 1.0)
SHAPES = ("uniform", "ties", "integers", "large integers", "tiny", "huge", "infinite", "constant", "sorted")


class RandomCases:
    """Pairs of data and summaries from a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def data(self, shape: str) -> Any:
        rng, size = self.rng, int(self.rng.integers(1, 40))
        if shape == "ties":
            return rng.integers(-3, 4, size) / 2.0
        if shape == "integers":
            return rng.integers(-20, 20, size)
        if shape == "large integers":
            return rng.integers(-(2**63), 2**63 - 1, size)
        if shape == "tiny":
            return rng.integers(-4, 5, size) * 5e-324
        if shape == "huge":
            return rng.choice([-1.7e308, -1e308, 1e-300, 1e16, 1e308, 1.7e308], size)
        if shape == "infinite":
            return rng.choice([-np.inf, -1.5, 0.1, 2.0, 7.3, np.inf], size)
        values = rng.normal(rng.integers(0, 3), 1.0, size)
        if shape == "constant":
            values[:] = values[0]
        return np.sort(values) if shape == "sorted" else values

    def summary(self, values: Any) -> tuple[list[Any], Summary, int]:
        """Return data, a summary of it, and the largest n that the summary may have: larger if it was lifted."""
        kind = self.rng.choice(["exact", "compressed", "merged", "lifted", "sketch", "window", "time window"])
        whole = Summary.of(values)
        if kind == "compressed":
            whole = whole.compress(int(self.rng.integers(1, 12)))
        elif kind == "merged":
            parts = np.array_split(self.rng.permutation(values), int(self.rng.integers(1, 4)))
            small = [Summary.of(part).compress(int(self.rng.integers(1, 6))) for part in parts if len(part)]
            whole = Summary.merge(*small).compress(int(self.rng.integers(2, 12)))
        elif kind == "lifted":
            missing = int(self.rng.integers(0, len(values)))
            part = Summary.of(values[missing:]).compress(int(self.rng.integers(1, 12)))
            whole = part.lift(missing + int(self.rng.integers(0, 2)))
        elif kind == "sketch":
            sketch = (StreamSketch if self.rng.random() < 0.5 else GKSketch)(0.2)
            sketch.update(values)
            whole = sketch.summary()
        elif kind == "window":
            window = SlidingWindow(max(1, len(values) // 2), 0.3)
            window.update(values)
            return values[-window.size :].tolist(), window.summary(), window.n
        elif kind == "time window":
            recent = RecentWindow(0.3, max_age=100)
            times = np.sort(self.rng.integers(0, 50, len(values))).astype(float)
            recent.update(values, times=times)
            inside = times > times[-1] - 20
            return values[inside].tolist(), recent.summary(within=20), recent.answer(0.5, within=20).n_hi
        return values.tolist(), whole, whole.n


def comparison_faults(seed: int, number: int) -> Iterator[str]:
    """Try random pairs; yield each bound that does not contain the exact result."""
    cases = RandomCases(seed)
    for case in range(number):
        shape, other = cases.rng.choice(SHAPES, 2)
        if {shape, other} & {"integers", "large integers"}:
            other = shape = cases.rng.choice(["integers", "large integers"]) if "integers" in shape else "integers"
        a, left, _ = cases.summary(cases.data(str(shape)))
        b, right, _ = cases.summary(cases.data(str(other)))
        for name, interval, result in _comparison_results(cases, a, b, left, right):
            if not oracle.contains(interval, result):
                yield f"seed {seed}, case {case} ({shape}, {other}), {name}: {result} is not in {interval}"


def _comparison_results(
    cases: RandomCases, a: list[Any], b: list[Any], left: Summary, right: Summary
) -> Iterator[tuple[str, tuple[Any, Any], Any]]:
    floor = float(cases.rng.choice([0.0, 0.0001, 0.05]))
    found = left.compare(right, phis=PHIS, bins=int(cases.rng.integers(2, 12)), floor=floor)
    yield "ks", found.ks, oracle.ks_distance(a, b)
    yield "wasserstein", found.wasserstein, oracle.wasserstein_distance(a, b)
    yield "psi", found.psi, oracle.stability_index(a, b, found.splits.tolist(), floor)
    points = sorted({*a[:3], *b[:3]})
    chosen = left.compare(right, bins=points, floor=floor).psi
    yield "psi of chosen bins", chosen, oracle.stability_index(a, b, points, floor)
    for phi in PHIS:
        x, y = (sorted(data)[target_rank(phi, len(data)) - 1] for data in (a, b))
        yield f"shift of {phi}", found.shifts[phi], oracle.difference(x, y)
        above = found.is_above(phi)
        yield f"is_above({phi}) = {above}", (0, 0), Fraction(above is not None and above != (x > y))


def sum_faults(seed: int, number: int) -> Iterator[str]:
    """Try random data; yield each bound of a sum that does not contain the exact one."""
    cases = RandomCases(seed)
    for case in range(number):
        shape = str(cases.rng.choice(SHAPES))
        data, summary, most = cases.summary(cases.data(shape))
        for name, interval, result in _sum_results(cases, data, summary, most):
            if not oracle.contains(interval, result):
                yield f"seed {seed}, case {case} ({shape}), {name}: {result} is not in {interval}"


def _sum_results(
    cases: RandomCases, data: list[Any], summary: Summary, most: int
) -> Iterator[tuple[str, tuple[Any, Any], Any]]:
    cut = Fraction(float(cases.rng.choice([0.0, 0.05, 0.25, 0.4, cases.rng.random() / 2])))
    phi = Fraction(float(cases.rng.choice([0.01, 0.5, 0.9, 0.99, 0.01 + 0.98 * cases.rng.random()])))
    one, none = Fraction(1), Fraction(0)
    yield "mean", summary.mean(), oracle.mean_between(data, none, one)
    yield "trimmed mean", summary.trimmed_mean(float(cut)), oracle.mean_between(data, cut, 1 - cut)
    yield "winsorised mean", summary.winsorised_mean(float(cut)), oracle.winsorised_mean(data, cut)
    yield "shortfall", summary.expected_shortfall(float(phi)), oracle.mean_between(data, phi, one)
    lower = summary.expected_shortfall(float(phi), upper=False)
    yield "lower shortfall", lower, oracle.mean_between(data, none, phi)
    yield "sum", summary.sum(), oracle.rank_sum(data, none, Fraction(len(data)))
    for threshold in (data[0], data[-1] + 1 if math.isfinite(data[-1]) else 0.5, -1, 0):
        yield f"sum above {threshold}", summary.sum_above(threshold), oracle.sum_above(data, threshold)
