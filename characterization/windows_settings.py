"""How much is measured about windows: all of it, or a little for a smoke run."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Settings:
    """`large`: a window that is summarised as it is built; `small`: one of the papers' size, with a smaller layout.

    `sizes` and `small_sizes` are tried with `eps`, each with streams of `turns` windows, and asked at `moments`.
    The rest is about spans of time, and has the names and the values of the paper's table: `rate` arrivals a second,
    `ages` the longest spans, `age` and `time_eps` when something else changes.
    """

    epsilons: tuple[float, ...] = (0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)
    eps: float = 0.01
    large: int = 1_000_000
    small: int = 100_000
    sizes: tuple[int, ...] = (10_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000, 4_000_000)
    small_sizes: tuple[int, ...] = (10_000, 20_000, 50_000, 100_000, 200_000)
    parts: tuple[int, ...] = (1, 2, 5, 10, 20, 50, 100)  # n of N: percent
    turns: float = 2.5
    moments: int = 50
    phis: int = 256
    piece: int = 8_192
    rate: int = 400
    ages: tuple[int, ...] = (200, 400, 600, 800)
    age: int = 600
    shorter: int = 300
    time_eps: float = 0.05
    time_epsilons: tuple[float, ...] = (0.1, 0.05, 0.02, 0.01, 0.005)
    time_phis: int = 128
    filtered: tuple[int, ...] = (100_000, 200_000)
    passing: float = 0.6
    batch: int = 16
    block: int = 65_536

    def asked(self) -> NDArray[np.float64]:
        """The phis of questions about the last values: q - 1 evenly spaced ones."""
        return np.arange(1, self.phis) / self.phis

    def asked_in_time(self) -> NDArray[np.float64]:
        return np.arange(1, self.time_phis) / self.time_phis


HOUR = Settings(sizes=(10_000, 100_000, 1_000_000), turns=2.0, moments=10)
QUICK = Settings(
    epsilons=(0.1, 0.01),
    large=150_000,
    small=20_000,
    sizes=(10_000, 150_000),
    small_sizes=(10_000, 20_000),
    parts=(10, 100),
    turns=1.5,
    moments=2,
    phis=16,
    rate=40,
    ages=(200, 400),
    time_epsilons=(0.1, 0.05),
    time_phis=8,
    filtered=(10_000, 20_000),
)
