"""Answers fit together."""

from __future__ import annotations

import numpy as np

from tests.checks.kind import Kind, Rng
from tests.checks.verify import fed
from tests.orders import Order


def check_monotone(kind: Kind, order: Order, rng: Rng) -> None:
    """A larger phi never has a smaller value, nor a larger value a smaller rank."""
    for n in (7, 900, 30_000):
        sketch = fed(kind, 0.1, order(rng, n))
        quantiles = sketch.quantiles(np.linspace(1e-9, 1, 2001))
        assert np.all(quantiles[:-1] <= quantiles[1:])
        probes = np.sort(np.concatenate([quantiles[::50], quantiles[::50] + 1e-7]))
        low, high = sketch.rank(probes)
        assert np.all(low[:-1] <= low[1:])
        assert np.all(high[:-1] <= high[1:])
        fractions = sketch.cdf(probes)
        assert np.all(fractions[:-1] <= fractions[1:])
        assert np.all((fractions >= 0) & (fractions <= 1))


def check_quantiles_are_quantile(kind: Kind, order: Order, rng: Rng) -> None:
    """quantiles() equals quantile() of each phi, for the sketch and for its summary."""
    for n in (1, 2, 1300, 20_000):
        sketch = fed(kind, 0.07, order(rng, n))
        phis = np.concatenate([[1.0, 1e-12], rng.random(40)])
        many = sketch.quantiles(phis)
        assert len(many) == len(phis)
        assert list(many) == [sketch.quantile(phi) for phi in phis]
        assert list(many) == [sketch.answer(phi).value for phi in phis]
        assert list(many) == list(sketch.summary().quantiles(phis))
        assert list(sketch.quantiles([])) == []


def check_exact_while_small(kind: Kind, order: Order, rng: Rng) -> None:
    """Below 1/(2 eps) values nothing may be lost: E is a whole number of ranks below one."""
    for eps in (0.1, 0.01, 0.001):
        n = int(0.49 / eps)
        data = np.sort(order(rng, n))
        sketch = fed(kind, eps, data)
        data = kind.covers(data)
        phis = np.arange(1, len(data) + 1) / len(data)
        assert sketch.error == 0
        assert np.array_equal(sketch.quantiles(phis), data)
