"""How much is measured about streams through Spark."""

import os
from dataclasses import dataclass, replace

from quantide.windows.clock import read_span


@dataclass(frozen=True)
class Settings:
    """`files` of `file_rows` rows for the rate, one a batch, `rounds` times. `keys`, `key_rows`, `key_batches`: batches
    of many keys after one that warms up. `lag_files` of `lag_rows` rows, one after the other, with pauses of `pause`
    seconds. `steady_seconds`: a file of `steady_rows` rows every `steady_every` seconds, steps of `steady_step`, a
    window of `steady_window`; SOAK in the environment, a length of time, is another `steady_seconds`.
    """

    cores: int = 2
    eps: float = 0.001
    files: int = 8
    file_rows: int = 10_000_000
    rounds: int = 2
    keys: int = 100_000
    key_rows: int = 1_000_000
    key_batches: int = 5
    lag_files: int = 40
    lag_rows: int = 1_000
    pause: tuple[float, float] = (0.3, 0.8)
    steady_seconds: float = 600.0
    steady_rows: int = 20_000
    steady_every: float = 0.5
    steady_step: str = "1 min"
    steady_window: str = "5 min"
    points: int = 120  # of a plot over time

    def with_soak(self) -> "Settings":
        """As SOAK says."""
        span = os.environ.get("SOAK")
        return self if not span else replace(self, steady_seconds=float(read_span(span)))


HOUR = Settings(files=4, rounds=1, lag_files=20, steady_seconds=60.0)
QUICK = Settings(
    files=2,
    file_rows=20_000,
    rounds=1,
    keys=100,
    key_rows=2_000,
    key_batches=2,
    lag_files=3,
    lag_rows=100,
    pause=(0.1, 0.2),
    steady_seconds=6.0,
    steady_rows=200,
    steady_step="2 s",
    points=6,
)
