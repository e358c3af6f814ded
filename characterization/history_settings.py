"""How much is measured: all of it, or a little for a smoke run."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Settings:
    """Large steps where time and blocks are measured, small ones beside the peers, which take values one by one.

    `small_memory` and `memory` are budgets of histories with small and with large steps while something else changes;
    `data_kappas` are tried on every data set, `kappas` on the first. Of `access_kappas` the blocks of every step are
    kept, of `window_kappas` the windows, which are asked about.
    `history_steps` and `stream_steps`: how many steps have ended while the history, the stream grows; `streams`: how
    many values the open step has, appended `chunk` by `chunk`.
    """

    steps: int = 100
    step_values: int = 262_144  # four blocks
    small_values: int = 20_000
    memories: tuple[int, ...] = (25_000, 50_000, 100_000, 200_000)
    small_memory: int = 100_000
    memory: int = 1_000_000
    data_kappas: tuple[int, ...] = (2, 3, 5, 10, 30)
    kappas: tuple[int, ...] = (2, 3, 5, 7, 9, 10, 15, 30)
    access_kappas: tuple[int, ...] = (7, 9, 10)
    window_kappas: tuple[int, ...] = (3, 10)
    kappa: int = 10
    history_steps: tuple[int, ...] = (5, 10, 20, 50, 100, 200)
    stream_steps: int = 50
    streams: tuple[int, ...] = (65_536, 131_072, 262_144, 524_288, 1_048_576, 2_097_152, 4_194_304)
    chunk: int = 65_536
    questions: int = 33

    def phis(self) -> NDArray[np.float64]:
        """The questions: evenly spaced."""
        return (np.arange(self.questions) + 0.5) / self.questions


HOUR = Settings()
QUICK = Settings(
    steps=5,
    step_values=2_000,
    small_values=500,
    memories=(25_000, 50_000),
    data_kappas=(2, 3),
    kappas=(2, 3),
    access_kappas=(2, 3),
    window_kappas=(2, 3),
    kappa=2,
    history_steps=(2, 4),
    stream_steps=2,
    streams=(1_000, 2_000),
    chunk=500,
    questions=5,
)
