"""Merging sketches, and mixing values with summaries made elsewhere."""

from __future__ import annotations

import numpy as np

from quantide import Summary, errors
from tests import oracle
from tests.checks.kind import Kind, Rng, Sketch, needs
from tests.checks.memory import verify_memory
from tests.checks.verify import PHIS, TINY, fed, refused, verify, verify_ranks
from tests.orders import Floats, Order, uniform


@needs("merge")
def check_merge_trees(kind: Kind, order: Order, rng: Rng) -> None:
    """Sketches of parts of all sizes, merged in a random tree, cover the whole, and accept more values."""
    for eps, n, parts in ((0.1, 3_000, 12), (0.2, 30_000, 9), (0.05, 40_000, 5)):
        values = order(rng, n)
        cuts = np.sort(rng.integers(0, n, parts))
        grove = [(fed(kind, eps, part), part) for part in np.split(values, cuts)]
        while len(grove) > 1:
            (left, ours), (right, theirs) = (grove.pop(int(rng.integers(len(grove)))) for _ in range(2))
            before = right.to_bytes()
            left.merge(right)
            assert right.to_bytes() == before
            right.update(values[:3000])
            grove.append((left, np.concatenate([ours, theirs])))
            if len(grove[-1][1]):
                verify(kind, left, grove[-1][1], rng)
        sketch, data = grove[0]
        verify(kind, sketch, data, rng, deep=True)
        more = order(rng, n // 3)
        sketch.update(more)
        verify(kind, sketch, np.concatenate([data, more]), rng, deep=True)
        verify_memory(kind, sketch, eps, merged=True)


@needs("merge")
def check_merge_chain(kind: Kind, rng: Rng) -> None:
    """Merges into one sketch: many small ones into a large one, and a large one into a small one."""
    eps, whole = 0.1, uniform(rng, 20_000)
    sketch = fed(kind, eps, whole[:5000])
    for start in range(5000, 15_000, 500):
        sketch.merge(fed(kind, eps, whole[start : start + 500]))
        verify(kind, sketch, whole[: start + 500], rng)
    small = fed(kind, eps, whole[15_000:])
    small.merge(sketch)
    verify(kind, small, whole, rng, deep=True)
    small.merge(small)
    verify(kind, small, np.concatenate([whole, whole]), rng, deep=True)
    empty: Sketch = kind.make(eps)
    empty.merge(small)
    small.merge(kind.make(eps))
    assert empty.n == small.n == 40_000
    verify(kind, empty, np.concatenate([whole, whole]), rng, deep=True)


@needs("any number of merges")
def check_merged_to_the_largest_count(kind: Kind, rng: Rng) -> None:
    """A sketch merged with copies of itself until 2^53 is near: every possible level is reached."""
    for eps in (0.3, 0.05):
        data = np.sort(uniform(rng, 9_700))
        sketch, times = fed(kind, eps, data), 1
        while (2 * times + 1) * len(data) <= 2**53:
            sketch.merge(sketch)
            sketch.merge(fed(kind, eps, data))
            times = 2 * times + 1
            n = times * len(data)
            assert sketch.n == n
            assert sketch.error <= eps + TINY
            verify_memory(kind, sketch, eps, merged=True)
            for phi, value in zip(PHIS, sketch.quantiles(PHIS), strict=True):
                first, last = oracle.occupied(data, value)
                assert first <= last
                assert last * times >= (phi - eps - TINY) * n
                assert (first - 1) * times + 1 <= oracle.target_rank(phi, n) + (eps + TINY) * n


@needs("update_summary")
def check_summaries_mixed_in(kind: Kind, order: Order, rng: Rng) -> None:
    """Values, tiny summaries, coarse and large ones, other sketches' summaries, in any sequence."""
    for eps, n in ((0.2, 30_000), (0.05, 30_000)):
        values = order(rng, n)
        sketch: Sketch = kind.make(eps)
        done = 0
        while done < n:
            size = int(rng.choice([1, 3, 40, 900, 5000]))
            block = values[done : done + size]
            _mix_in(kind, sketch, eps, block, rng)
            done += len(block)
            if rng.random() < 0.15:
                verify(kind, sketch, values[:done], rng)
        verify(kind, sketch, values, rng, deep=True)
        verify_memory(kind, sketch, eps, merged=True)


def _mix_in(kind: Kind, sketch: Sketch, eps: float, block: Floats, rng: Rng) -> None:
    exact, coarse = Summary.of(block), Summary.of(block).compress(int(np.ceil(1.01 / eps)))
    way = int(rng.integers(5))
    if way == 0:
        sketch.update(block)
    elif way == 1:
        sketch.update_summary(exact)
    elif way == 2 and coarse.error <= eps / 2:
        sketch.update_summary(coarse)
    elif way == 3:
        sketch.update_summary(fed(kind, eps / 2, block).summary())
    else:
        for part in np.array_split(block, min(len(block), 40)):
            sketch.update_summary(Summary.of(part))


@needs("update_summary")
def check_lifted_summaries(kind: Kind, rng: Rng) -> None:
    """The error of a lifted summary, which counts unseen elements, is like any other."""
    eps, values = 0.1, uniform(rng, 24_000) * np.repeat(np.arange(1, 21), 1200)
    sketch: Sketch = kind.make(eps)
    for start in range(0, len(values), 1200):
        late = int(rng.integers(0, 40))
        sketch.update_summary(Summary.of(values[start + late : start + 1100]).lift(late))
        sketch.update(values[start + 1100 : start + 1200])
        data = np.sort(values[: start + 1200])
        assert sketch.n == len(data)
        assert type(sketch).from_bytes(sketch.to_bytes()).to_bytes() == sketch.to_bytes()
        assert sketch.error <= eps + TINY
        assert oracle.wrong_answers(data, sketch.quantiles(PHIS), PHIS, eps) == []
        assert oracle.bound_faults(data, sketch.answer(0.5)) == []
        assert oracle.summary_faults(sketch.summary(), data, lifted=True) == []
        verify_ranks(sketch, data, rng)


@needs("update_summary")
def check_too_coarse(kind: Kind, rng: Rng) -> None:
    """A summary certified to exactly eps/2 is accepted; one above it is refused, and nothing changes."""
    sketch = fed(kind, 0.1, uniform(rng, 100))
    before = sketch.to_bytes()
    coarse = Summary.of(np.arange(10_000.0)).compress(9)
    assert coarse.error > 0.05
    refused(sketch, errors.TooCoarseError, sketch.update_summary, coarse)
    assert sketch.to_bytes() == before
    just = Summary.of(np.arange(38.0)).lift(2)
    assert just.error == 0.05
    sketch.update_summary(just)
    assert sketch.n == 140
