"""Blocks of values for state machines, and how many steps these take."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from quantide import Summary

Array = npt.NDArray[Any]

TYPES = os.environ.get("QUANTIDE_TYPES", "float64 float32 int64").split()
SHAPES = ("normal", "few", "rising", "falling", "constant", "extreme")
SIZES = (0, 1, 2, 7, 63, 64, 65, 300, 1025, 3000)
EXTREMES = {
    "float64": [-np.inf, np.inf, -0.0, 0.0, 5e-324, -1.7e308, 1.7e308],
    "float32": [-np.inf, np.inf, -0.0, 0.0, 1e-45, -3.4e38, 3.4e38],
    "int64": [-(2**63), 2**63 - 1, 0, -1, 1, 2**53 + 1],
}
SLOW = os.environ.get("QUANTIDE_HYPOTHESIS") == "slow"
STEPS = 60 if SLOW else 25


class Block(NamedTuple):
    """Values that a seed stands for: hypothesis chooses what matters, and is spared the numbers."""

    seed: int
    size: int
    shape: str

    def values(self, name: str) -> Array:
        rng, n = np.random.default_rng(self.seed), self.size
        if self.shape == "extreme":
            return rng.choice(np.array(EXTREMES[name], dtype=name), n)
        scale = 1000 if name == "int64" else 1
        drawn: dict[str, Any] = {
            "normal": rng.normal(float(rng.integers(-3, 4)), 1, n) * scale,
            "few": rng.integers(-2, 3, n),
            "rising": np.sort(rng.random(n)) * scale,
            "falling": -np.sort(rng.random(n)) * scale,
            "constant": np.full(n, float(rng.integers(0, 3))),
        }
        made: Array = drawn[self.shape].astype(name)
        return made

    def weights(self, heavy: bool) -> Array:
        """Weights of the values, most of them small; one is large if `heavy`."""
        rng = np.random.default_rng(self.seed + 1)
        made = rng.choice([0, 1, 1, 2, 5], self.size)
        if heavy and self.size:
            made[rng.integers(0, self.size)] = 70_000  # more than are repeated
        return made


def blocks(most: int = max(SIZES)) -> st.SearchStrategy[Block]:
    sizes = [size for size in SIZES if size <= most]
    return st.builds(Block, st.integers(0, 2**16), st.sampled_from(sizes), st.sampled_from(SHAPES))


def thinned(values: Array, error: float) -> Summary:
    """A summary of these values that is within this error, with few tuples where so few are possible."""
    exact = Summary.of(values)
    coarse = exact.compress(int(np.ceil(1 / (2 * error))) + 1)
    return coarse if coarse.error <= error else exact


def run(machine: Any, examples: int = 8) -> None:
    """Let a machine take its steps, from the start, so many times.

    With QUANTIDE_HYPOTHESIS=slow far more of them, and the steps to a failure are shortened, which can take minutes.
    """
    count, phases = (20 * examples, tuple(Phase)) if SLOW else (examples, (Phase.generate,))
    run_state_machine_as_test(machine, settings=settings(max_examples=count, stateful_step_count=STEPS, phases=phases))
