"""Windows in any order of update, update_summary, answer and bytes, against all their values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from quantide import ConstrainedWindow, RecentWindow, SlidingWindow, errors
from quantide.windows import constrained_window
from tests.machines.blocks import TYPES, Block, blocks, run
from tests.oracle import tail_faults
from tests.windows.feed import Feed
from tests.windows.small_windows import BucketWindow, SmallRecentWindow, small_layout
from tests.windows.test_constrained_window import TREES, Arrived, constraint_of, truth_of, verify_or_empty
from tests.windows.window_oracle import answer_faults, verify

pytestmark = pytest.mark.slow

EPS = st.sampled_from([0.4, 0.1, 0.03])


class WindowMachine(RuleBasedStateMachine):
    """One window of values and of summarised blocks."""

    name: str
    feed: Feed

    def values(self, block: Block) -> Any:
        """Of the window's type, exactly representable as float64, which the feed keeps."""
        return np.nan_to_num(block.values(self.name).astype(np.float64), posinf=9e9, neginf=-9e9).clip(-1e9, 1e9)

    def carried(self, block: Block) -> Any:
        return self.values(block).astype(self.name)

    @property
    def rng(self) -> np.random.Generator:
        return np.random.default_rng(len(self.feed.values))

    @rule()
    def restore(self) -> None:
        window = self.feed.window
        data = window.to_bytes()
        self.feed.window = type(window).from_bytes(data)
        assert self.feed.window.to_bytes() == data


class SlidingMachine(WindowMachine):
    """The last so many."""

    def __init__(self, make: Any) -> None:
        super().__init__()
        self.make = make

    @initialize(
        name=st.sampled_from(TYPES),
        size=st.sampled_from([1, 130, 2500]),
        eps=EPS,
        tail=st.sampled_from([None, 0.5, 0.1]),
    )
    def begin(self, name: str, size: int, eps: float, tail: float | None) -> None:
        self.name, self.size = name, size
        self.feed = Feed(self.make(size, eps, value_type=name, tail=tail), timed=False)

    @rule(block=blocks())
    def update(self, block: Block) -> None:
        self.feed.window.update(self.carried(block))
        self.feed._note(self.carried(block).astype(np.float64), np.zeros(block.size))

    @rule(block=blocks(300))
    def update_one_by_one(self, block: Block) -> None:
        for value in self.carried(block):
            self.feed.window.update(value)
        self.feed._note(self.carried(block).astype(np.float64), np.zeros(block.size))

    @rule(block=blocks(300), heavy=st.booleans())
    def update_weighted(self, block: Block, heavy: bool) -> None:
        values, weights = self.carried(block), block.weights(heavy)
        self.feed.window.update(values, weights=weights)
        repeated = np.repeat(values, weights).astype(np.float64)
        self.feed._note(repeated, np.zeros(len(repeated)))

    @precondition(lambda self: len(self.feed.values) > 0)
    @rule(block=blocks(65))
    def update_summary(self, block: Block) -> None:
        if block.size:
            self.feed.summarised(self.carried(block), np.zeros(block.size))

    @precondition(lambda self: len(self.feed.values) > 0 and not self.feed.blocks)
    @rule(block=blocks(65), phi=st.sampled_from([0.0, 0.01, 0.5, 0.99, 1.0]))
    def ask_after_every_value(self, block: Block, phi: float) -> None:
        for value in self.carried(block).astype(np.float64):
            self.feed.window.update(value.astype(self.name))
            self.feed._note(np.array([value]), np.zeros(1))
            inside = self.feed.values[-self.size :]
            assert answer_faults(self.feed.window.answer(phi), inside, self.feed.window.eps) == []

    @precondition(lambda self: len(self.feed.values) > 0)
    @rule()
    def ask(self) -> None:
        count = len(self.feed.values)
        held = np.arange(count) >= count - self.size
        window, inside = self.feed.window, np.sort(self.feed.values[held])
        try:
            verify(window, inside, self.rng)
        except errors.SpanError:
            assert self.feed.blocks, "only a block can lie across the start"
            return
        certified = window.summary().tail
        if window.tail is not None and window.covered == len(inside):
            assert certified is not None
            assert certified <= window.tail * (1 + 1e-9)
        if certified is not None:
            assert not tail_faults(inside, window.quantiles, window.eps, certified)


class RecentMachine(WindowMachine):
    """Any number of the newest, any span of time."""

    def __init__(self, make: Any) -> None:
        super().__init__()
        self.make = make

    @initialize(name=st.sampled_from(TYPES), most=st.sampled_from([None, 130, 2500]), eps=EPS)
    def begin(self, name: str, most: int | None, eps: float) -> None:
        self.name, self.most = name, most
        self.feed = Feed(self.make(eps, max_items=most, value_type=name))

    def times(self, block: Block) -> Any:
        rng = np.random.default_rng(block.seed)
        return self.feed.now + np.cumsum(rng.choice([0.0, 0.01, 0.5], block.size))

    @rule(block=blocks())
    def update(self, block: Block) -> None:
        self.feed.take(self.carried(block), self.times(block))

    @rule(block=blocks(65))
    def update_one_by_one(self, block: Block) -> None:
        for value, time in zip(self.carried(block), self.times(block), strict=True):
            self.feed.take(np.array([value]), np.array([time]))

    @rule(block=blocks(300))
    def update_weighted(self, block: Block) -> None:
        values, times, weights = self.carried(block), self.times(block), block.weights(False)
        self.feed.window.update(values, times, weights=weights)
        self.feed._note(np.repeat(values, weights).astype(np.float64), np.repeat(times, weights))

    @rule(block=blocks(300), way=st.sampled_from([0.0, 1.0]))
    def update_summary(self, block: Block, way: float) -> None:
        if block.size:
            times = self.times(block) + 0.01  # later than the block before: neither is joined to the other
            self.feed.summarised(self.carried(block), times, way)

    @precondition(lambda self: len(self.feed.values) > 0)
    @rule(part=st.floats(0, 1))
    def ask(self, part: float) -> None:
        most = min(self.most or len(self.feed.values), len(self.feed.values))
        self.feed.verify_last(max(1, int(part * most)), self.rng)
        if self.most is None:
            self.feed.verify_within(0.001 + part * self.feed.now, self.rng)


class ConstrainedMachine(RuleBasedStateMachine):
    """Rows that satisfy an expression."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(constrained_window, "layout_for", small_layout)

    def teardown(self) -> None:
        self.patch.undo()

    @initialize(tree=TREES, name=st.sampled_from(TYPES), eps=EPS)
    def begin(self, tree: Any, name: str, eps: float) -> None:
        self.tree, self.name, self.arrived = tree, name, Arrived()
        self.window = ConstrainedWindow(constraint_of(tree), eps, value_type=name)

    @rule(seed=st.integers(0, 2**16), size=st.sampled_from([0, 1, 2, 65, 700]))
    def update(self, seed: int, size: int) -> None:
        table = self.arrived.more(np.random.default_rng(seed), size)
        values = (table["value"].to_numpy() * 8).astype(self.name)
        self.arrived.value[len(self.arrived.value) - size :] = values
        self.window.update(table.set_column(0, "value", pa.array(values)))

    @rule(seed=st.integers(0, 2**16), size=st.sampled_from([1, 2, 65]))
    def update_weighted(self, seed: int, size: int) -> None:
        rng = np.random.default_rng(seed)
        table, weights = self.arrived.more(rng, size), rng.choice([0, 1, 2, 9], size)
        values = (table["value"].to_numpy() * 8).astype(self.name)
        self.arrived.value[len(self.arrived.value) - size :] = values
        self.arrived.repeat_last(weights)
        self.window.update(table.set_column(0, "value", pa.array(values)), weights=weights)

    @rule()
    def restore(self) -> None:
        data = self.window.to_bytes()
        self.window = ConstrainedWindow.from_bytes(data)
        assert self.window.to_bytes() == data

    @precondition(lambda self: len(self.arrived.value) > 0)
    @rule()
    def ask(self) -> None:
        held = self.arrived.value[truth_of(self.tree, self.arrived)]
        verify_or_empty(self.window, held, np.random.default_rng(len(held)))


@pytest.mark.parametrize("make", [SlidingWindow, BucketWindow])
def test_sliding_window(make: Any) -> None:
    run(lambda: SlidingMachine(make))


@pytest.mark.parametrize("make", [RecentWindow, SmallRecentWindow])
def test_recent_window(make: Any) -> None:
    run(lambda: RecentMachine(make))


def test_constrained_window() -> None:
    run(ConstrainedMachine)
