"""The error stays within its bound, at every moment and on every order."""

from __future__ import annotations

import numpy as np

from quantide import Summary
from tests import oracle
from tests.checks.kind import Kind, Rng, Sketch
from tests.checks.verify import TINY, chop, fed, feed, verify
from tests.orders import Floats, Order, uniform


def check_every_prefix(kind: Kind, order: Order, rng: Rng) -> None:
    """One value at a time, with every rank queried after each."""
    values = order(rng, 160)
    for eps in (0.3, 0.06):
        sketch: Sketch = kind.make(eps)
        for n, value in enumerate(values, start=1):
            sketch.update(value)
            data = np.sort(kind.covers(values[:n]))
            phis = np.arange(1, len(data) + 1) / len(data)
            assert sketch.n == len(data)
            assert sketch.error <= eps + TINY
            assert oracle.wrong_answers(data, sketch.quantiles(phis), phis, eps) == []
            if n % 16 == 1:
                verify(kind, sketch, values[:n], rng, deep=True)


def check_leaf_edges(kind: Kind, order: Order, rng: Rng) -> None:
    """The error stays within its bound just before, at and just after the end and the middle of blocks of 1024."""
    eps, values = 0.15, order(rng, 8 * 1024 + 2)
    sketch: Sketch = kind.make(eps)
    done = 0
    for edge in range(512, len(values), 512):
        for moment in (edge - 1, edge, edge + 1):
            sketch.update(values[done:moment])
            done = moment
            verify(kind, sketch, values[:done], rng, deep=edge % 1024 == 0)


def check_random_moments(kind: Kind, order: Order, rng: Rng) -> None:
    """Long streams in blocks of all sizes, so that many levels fill; queried between block boundaries."""
    for eps, n in ((0.2, 90_000), (0.05, 60_000), (0.02, 40_000)):
        values = order(rng, n)
        sketch: Sketch = kind.make(eps)
        moments = np.unique(rng.integers(1, n, 6))
        done = 0
        for moment in [*moments, n]:
            for block in chop(values[done:moment], rng, 12_000):
                feed(sketch, block)
            done = int(moment)
            verify(kind, sketch, values[:done], rng, deep=done == n)


def check_tiny_eps(kind: Kind, rng: Rng) -> None:
    """Any eps in (0, 1) is served, exactly if need be."""
    for eps in (1e-5, 1e-6, 1e-9, 1e-15, 2.0**-53):
        values = uniform(rng, 500)
        sketch = fed(kind, eps, values)
        assert sketch.error == 0
        assert sketch.quantile(0.5) == oracle.exact_quantile(kind.covers(values), 0.5)


def check_adversary(kind: Kind, rng: Rng) -> None:
    """An adversary reads the summary and puts the next values into its widest gap."""
    for eps, size in ((0.2, 1024), (0.1, 300), (0.05, 700)):
        sketch: Sketch = kind.make(eps)
        values = rng.integers(-(2**50), 2**50, 50).astype(np.float64)
        sketch.update(values)
        while len(values) < 40 * size:
            block = rng.permutation(_in_widest_gap(sketch.summary(), size))
            sketch.update(block)
            values = np.concatenate([values, block])
            if rng.random() < 0.2:
                verify(kind, sketch, values, rng)
        verify(kind, sketch, values, rng, deep=True)


def _in_widest_gap(s: Summary, size: int) -> Floats:
    """Return values strictly inside the widest gap of the summary that still contains numbers."""
    wide = np.diff(s.values) / (size + 1) >= np.spacing(np.abs(s.values[1:]))
    for i in np.flatnonzero(wide)[np.argsort((s.rmin[:-1] - s.rmax[1:])[wide], kind="stable")]:
        block = np.linspace(s.values[i], s.values[i + 1], size + 2)[1:-1]
        if len(np.unique(block)) == size and s.values[i] < block[0] and block[-1] < s.values[i + 1]:
            return block
    return np.linspace(s.values[-1] + 1, s.values[-1] * 2 + 2 * size, size)
