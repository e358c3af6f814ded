"""Sketches in any order of update, update_summary, merge, answer and bytes, against all their values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from quantide import GKSketch, StreamSketch, Summary
from tests import oracle
from tests.machines.blocks import TYPES, Block, blocks, run, thinned

pytestmark = pytest.mark.slow

PHIS = np.array([1e-9, 0.01, 0.25, 0.5, 0.9, 0.999, 1.0])


class SketchMachine(RuleBasedStateMachine):
    """One sketch."""

    def __init__(self, make: Any) -> None:
        super().__init__()
        self.make = make

    @initialize(name=st.sampled_from(TYPES), eps=st.sampled_from([0.3, 0.05, 0.01]), known=st.booleans())
    def begin(self, name: str, eps: float, known: bool) -> None:
        self.name, self.eps = name, eps
        self.data = np.empty(0, name)
        self.sketch = self.make(eps, value_type=name if known else None)

    def note(self, values: Any) -> None:
        self.data = np.concatenate((self.data, values))

    @rule(block=blocks())
    def update(self, block: Block) -> None:
        values = block.values(self.name)
        self.sketch.update(values)
        self.note(values)

    @rule(block=blocks(300), times=st.sampled_from([2, 9]))
    def update_many_times(self, block: Block, times: int) -> None:
        values = np.repeat(block.values(self.name), 10)
        for _ in range(times):
            self.sketch.update(values)
            self.note(values)

    @rule(block=blocks(300), heavy=st.booleans())
    def update_weighted(self, block: Block, heavy: bool) -> None:
        values, weights = block.values(self.name), block.weights(heavy)
        self.sketch.update(values, weights=weights)
        self.note(np.repeat(values, weights))

    @rule(block=blocks(300))
    def update_one_by_one(self, block: Block) -> None:
        for value in block.values(self.name):
            self.sketch.update(value)
        self.note(block.values(self.name))

    @rule(block=blocks(), coarse=st.booleans())
    def update_summary(self, block: Block, coarse: bool) -> None:
        values = block.values(self.name)
        self.sketch.update_summary(thinned(values, self.eps / 2) if coarse else Summary.of(values))
        self.note(values)

    @rule(block=blocks())
    def update_lifted(self, block: Block) -> None:
        values = block.values(self.name)
        missing = int(self.eps / 2 * len(values))
        if missing:
            self.sketch.update_summary(Summary.of(values[missing:]).lift(missing))
            self.note(values)

    @rule(first=blocks(), second=blocks())
    def merge(self, first: Block, second: Block) -> None:
        other = self.make(self.eps)
        for block in (first, second):
            other.update(block.values(self.name))
            self.note(block.values(self.name))
        self.sketch.merge(other)

    @rule()
    def restore(self) -> None:
        data = self.sketch.to_bytes()
        self.sketch = type(self.sketch).from_bytes(data)
        assert self.sketch.to_bytes() == data

    @rule(block=blocks())
    def go_on_as_a_copy_does(self, block: Block) -> None:
        copy = type(self.sketch).from_bytes(self.sketch.to_bytes())
        for sketch in (copy, self.sketch):
            sketch.update(block.values(self.name))
        self.note(block.values(self.name))
        assert copy.to_bytes() == self.sketch.to_bytes()

    @precondition(lambda self: len(self.data) > 0)
    @rule(phi=st.floats(0, 1, exclude_min=True))
    def ask(self, phi: float) -> None:
        phis, ordered = np.append(PHIS, phi), np.sort(self.data)
        assert self.sketch.n == len(ordered)
        assert self.sketch.error <= self.eps
        assert oracle.wrong_answers(ordered, self.sketch.quantiles(phis), phis, self.eps) == []
        assert oracle.bound_faults(ordered, self.sketch.answer(phi)) == []
        probe = ordered[len(ordered) // 3]
        low, high = self.sketch.rank(probe)
        assert low <= np.searchsorted(ordered, probe, side="right") <= high


@pytest.mark.parametrize("make", [StreamSketch, GKSketch])
def test_sketch(make: Any) -> None:
    run(lambda: SketchMachine(make))
