"""Summary and Summaries in any order of making, merging, compressing, lifting and bytes, against all their values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from quantide import Summaries, Summary
from tests import oracle
from tests.machines.blocks import TYPES, Array, Block, blocks, run

pytestmark = pytest.mark.slow

PHIS = np.array([1e-9, 0.1, 0.5, 0.99, 1.0])
PLACES = st.integers(0, 2**16)


class SummaryMachine(RuleBasedStateMachine):
    """Many summaries, each with the values it stands for, and whether some of them were never seen."""

    @initialize(name=st.sampled_from(TYPES))
    def begin(self, name: str) -> None:
        self.name = name
        self.held: list[tuple[Summary, Array, bool]] = []
        self.make(Block(1, 300, "normal"))

    def chosen(self, place: int) -> tuple[Summary, Array, bool]:
        return self.held[place % len(self.held)]

    def keep(self, summary: Summary, data: Array, lifted: bool) -> None:
        self.held = [*self.held[-7:], (summary, data, lifted)]

    @rule(block=blocks())
    def make(self, block: Block) -> None:
        values = block.values(self.name)
        self.keep(Summary.of(values), values, False)

    @rule(places=st.lists(PLACES, min_size=1, max_size=9))
    def merge(self, places: list[int]) -> None:
        parts = [self.chosen(place) for place in places]
        if sum(len(data) for _, data, _ in parts) < 100_000:
            lifted = any(part[2] for part in parts)
            self.keep(Summary.merge(*(part[0] for part in parts)), np.concatenate([p[1] for p in parts]), lifted)

    @rule(place=PLACES, b=st.sampled_from([1, 2, 3, 10, 63, 64, 65, 2**60]))
    def compress(self, place: int, b: int) -> None:
        summary, data, lifted = self.chosen(place)
        small = summary.compress(b)
        assert len(small) <= b + 1
        assert small.gap <= summary.gap + summary.n / b
        self.keep(small, data, lifted)

    @rule(place=PLACES, block=blocks(65))
    def lift(self, place: int, block: Block) -> None:
        summary, data, lifted = self.chosen(place)
        missing = block.values(self.name)
        if len(data):
            self.keep(summary.lift(len(missing)), np.concatenate((data, missing)), lifted or len(missing) > 0)

    @rule(place=PLACES)
    def restore(self, place: int) -> None:
        summary, data, lifted = self.chosen(place)
        again = Summary.from_bytes(summary.to_bytes())
        assert again == summary
        self.keep(again, data, lifted)

    @rule(place=PLACES)
    def ask(self, place: int) -> None:
        summary, data, lifted = self.chosen(place)
        assert oracle.summary_faults(summary, data, lifted) == []
        if len(data):
            ordered = np.sort(data)
            assert oracle.wrong_answers(ordered, summary.quantiles(PHIS), PHIS, summary.error) == []
            for phi in PHIS:
                assert oracle.bound_faults(ordered, summary.answer(phi)) == []
            low, high = summary.rank(ordered[::97])
            true = np.searchsorted(ordered, ordered[::97], side="right")
            assert bool(((low <= true) & (true <= high)).all())


class SummariesMachine(RuleBasedStateMachine):
    """Keyed summaries."""

    @initialize(name=st.sampled_from(TYPES))
    def begin(self, name: str) -> None:
        self.name = name
        self.held: list[tuple[Summaries, dict[int, Array]]] = []
        self.make(Block(1, 300, "normal"), 3, 0.1)

    def chosen(self, place: int) -> tuple[Summaries, dict[int, Array]]:
        return self.held[place % len(self.held)]

    def keep(self, summaries: Summaries, data: dict[int, Array]) -> None:
        self.held = [*self.held[-5:], (summaries, data)]

    @rule(block=blocks(), keys=st.sampled_from([1, 3, 70, 900]), eps=st.sampled_from([0.3, 0.1, 0.001]))
    def make(self, block: Block, keys: int, eps: float) -> None:
        values = block.values(self.name)
        own = np.random.default_rng(block.seed).integers(0, keys, len(values)) ** 2 // keys
        made = Summaries.of(own, values, eps)
        assert bool((made.error <= eps).all())
        self.keep(made, {int(key): values[own == key] for key in np.unique(own)})

    @rule(places=st.lists(PLACES, min_size=1, max_size=6))
    def merge(self, places: list[int]) -> None:
        parts = [self.chosen(place) for place in places]
        if sum(len(values) for _, data in parts for values in data.values()) < 30_000:
            every = sorted({key for _, data in parts for key in data})
            data = {key: np.concatenate([d[key] for _, d in parts if key in d]) for key in every}
            self.keep(Summaries.merge(*(part[0] for part in parts)), data)

    @rule(place=PLACES, b=st.sampled_from([1, 2, 9, 64, 2**60]))
    def compress(self, place: int, b: int) -> None:
        summaries, data = self.chosen(place)
        small = summaries.compress(b)
        assert not len(small) or int(np.diff(small.offsets).max()) <= b + 1
        self.keep(small, data)

    @rule(place=PLACES, seed=PLACES)
    def take(self, place: int, seed: int) -> None:
        summaries, data = self.chosen(place)
        rows = np.flatnonzero(np.random.default_rng(seed).random(len(summaries)) < 0.5)
        keys = sorted(data)
        self.keep(summaries.take(rows), {keys[row]: data[keys[row]] for row in rows})

    @rule(place=PLACES, way=st.sampled_from(["binary", "arrow"]))
    def restore(self, place: int, way: str) -> None:
        summaries, data = self.chosen(place)
        if way == "arrow":
            again = Summaries.from_arrow(summaries.to_arrow())
        else:
            again = Summaries.from_binary(summaries.keys, summaries.to_binary())
        assert again.to_binary().equals(summaries.to_binary())
        if len(again):
            self.keep(again, data)

    @precondition(lambda self: bool(self.held))
    @rule(place=PLACES)
    def ask(self, place: int) -> None:
        summaries, data = self.chosen(place)
        assert list(summaries) == sorted(data)
        assert summaries.n.tolist() == [len(data[key]) for key in sorted(data)]
        for key, row, error in zip(sorted(data), summaries.quantiles(PHIS), summaries.error.tolist(), strict=True):
            assert oracle.wrong_answers(data[key], row, PHIS, error) == []
        total = summaries.total()
        assert total.n == sum(map(len, data.values()))
        if total.n:
            every = np.concatenate(list(data.values()))
            assert oracle.bound_faults(every, total.answer(0.5)) == []
            key = sorted(data)[place % len(data)]
            assert oracle.summary_faults(summaries[key], data[key]) == []
        assert summaries.answer(PHIS).num_rows == len(PHIS) * len(summaries)


@pytest.mark.parametrize("machine", [SummaryMachine, SummariesMachine])
def test_summaries(machine: Any) -> None:
    run(machine)
