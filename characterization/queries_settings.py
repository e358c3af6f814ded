"""How much is measured about standing queries: all of it, or a little for a smoke run."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

STREAMS = ("uniform", "normal", "semi-sorted")


@dataclass(frozen=True)
class Settings:
    """Elements arrive one by one, after `head` of them at once; `eager_moments` are where eager evaluation is timed.

    `growth_queries` is the number of queries whose re-evaluations are watched at `growth` numbers of elements. With
    more than `apart` queries SU, which looks at each of them by itself, is left out: it would take many minutes.
    """

    queries: tuple[int, ...] = (1_000, 5_000, 10_000, 50_000, 100_000, 1_000_000)
    apart: int = 100_000
    streams: tuple[str, ...] = STREAMS
    elements: int = 1_000_000
    head: int = 2_000
    eps: float = 0.001
    precision: tuple[float, float] = (0.002, 0.05)
    eager_moments: int = 10
    growth_queries: int = 10_000
    growth: tuple[int, ...] = (3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)

    def asked(self, count: int) -> tuple[Floats, Floats]:
        """phi uniform in (0, 1], precision uniform in its range."""
        rng = np.random.default_rng(2006)
        return 1 - rng.random(count), rng.uniform(*self.precision, count)

    def stream(self, name: str) -> Floats:
        """Semi-sorted: groups of 1,000 elements, each group above all before it, in no order within."""
        rng = np.random.default_rng(18)
        if name == "normal":
            return rng.standard_normal(self.elements)
        values = rng.random(self.elements)
        return values + np.arange(self.elements) // 1000 if name == "semi-sorted" else values


HOUR = Settings(queries=(1_000, 10_000, 50_000, 100_000, 1_000_000), streams=("uniform",))
QUICK = Settings(
    queries=(50, 200),
    elements=6_000,
    head=500,
    eps=0.005,
    precision=(0.01, 0.05),
    eager_moments=2,
    growth_queries=200,
    growth=(1_000, 3_000, 6_000),
)
