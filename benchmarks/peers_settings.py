"""How much is measured beside today's peers."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """`n`: values of a column; `phis`: how many answers of each method are checked; `parts` sketches of `part` values
    are merged; `window` values are looked back on; `rows` of `keys` keys are grouped; `spark_rows` are read from files
    (0: Spark is left out)."""

    n: int = 10_000_000
    eps: float = 0.001
    phis: int = 1_000
    rounds: int = 3
    parts: int = 1_000
    part: int = 10_000
    window: int = 1_000_000
    window_eps: float = 0.01
    window_seconds: float = 1.0
    rows: int = 10_000_000
    keys: int = 1_000
    spark_rows: int = 100_000_000
    spark_cores: int = 2


HOUR = Settings(n=2_000_000, rounds=2, parts=200, window=100_000, rows=2_000_000, spark_rows=5_000_000)
QUICK = Settings(
    n=20_000,
    rounds=2,
    parts=5,
    part=2_000,
    phis=50,
    window=50_000,
    window_seconds=0.02,
    rows=20_000,
    keys=20,
    spark_rows=0,
)
