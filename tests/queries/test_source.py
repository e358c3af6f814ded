"""Marks: a summary kept valid by counting arrivals is valid at every moment."""

from __future__ import annotations

import numpy as np
import pytest

from quantide import Summary
from quantide.kernels.arrival_counts import count_arrivals, count_few_arrivals
from quantide.queries.marked_sketch import MarkedSketch
from tests import oracle
from tests.checks.verify import chop
from tests.orders import ORDERS


@pytest.mark.parametrize("order", ORDERS)
def test_marks_are_a_summary_of_everything(order: str, rng: np.random.Generator) -> None:
    sketch, data, fed = MarkedSketch(0.1), ORDERS[order](rng, 6000), 0
    for block in chop(data, rng, 2000):
        if len(block) == 1:
            sketch.update(float(block[0]))
        else:
            sketch.update(block)
        fed += len(block)
        if fed > 10 and rng.random() < 0.7:
            assert sketch.tuples().values[0] == min(data[:fed])
            marks = sketch.marks()
            assert marks is not None
            assert oracle.summary_faults(marks, data[:fed]) == []
    assert sketch.summary_count == 1
    assert sketch.tuples(rebuild=True).fresh
    assert sketch.summary().rank_error <= 0.1 * len(data)


@pytest.mark.parametrize("carrier", [np.float64, np.float32, np.int64])
@pytest.mark.parametrize("arrivals", [0, 1, 2, 5, 40])
def test_few_arrivals_count_like_many(carrier: type[np.generic], arrivals: int, rng: np.random.Generator) -> None:
    """Few arrivals count like many, in any order, with ties, at and beyond both ends, and with infinities."""
    for tuples in (2, 3, 4, 30):
        values = np.sort(rng.integers(-6, 7, tuples)).astype(carrier)
        arrived = rng.integers(-9, 10, arrivals).astype(carrier)
        if carrier is not np.int64:
            values[-1] = np.inf if tuples == 30 else values[-1]
            arrived[arrived == 0] = -0.0
            arrived[arrived == 9] = np.inf
        rmin = np.arange(1, tuples + 1)
        few, many = ([values.copy(), rmin.copy(), rmin + 3] for _ in range(2))
        count_few_arrivals(arrived, *few)
        count_arrivals(np.sort(arrived + carrier(0)), np.array([0, arrivals]), *many)
        assert all(a.tobytes() == b.tobytes() for a, b in zip(few, many, strict=True))


def test_marks_of_a_stream_that_stays_the_same_last(rng: np.random.Generator) -> None:
    sketch = MarkedSketch(0.01)
    sketch.update(rng.random(20_000))
    first = sketch.tuples()
    gap = int((first.rmax[1:] - first.rmin[:-1]).max()) / sketch.n
    for _ in range(20):
        sketch.update(rng.random(20_000))
        now = sketch.tuples()
        assert int((now.rmax[1:] - now.rmin[:-1]).max()) / sketch.n <= 2 * gap
    assert sketch.summary_count == 1


def test_a_summary_removes_the_marks(rng: np.random.Generator) -> None:
    sketch = MarkedSketch(0.1)
    sketch.update(rng.random(500))
    sketch.tuples()
    more = rng.random(300)
    sketch.update_summary(Summary.of(more).lift(5))
    assert sketch.marks() is None
    assert sketch.tuples().rmax[-1] == 805
    sketch.update([0.5, 2.0, -1.0])
    values, rmin, rmax, _ = sketch.tuples()
    assert (values[0], values[-1], rmax[-1]) == (-1.0, 2.0, 808)
    assert rmin[-1] <= 808 - 5
    assert rmax[0] >= 6
