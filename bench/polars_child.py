"""Child process that times polars with its default number of threads: `python -m bench.polars_child`.

A line of its input has the window, the number of values, the seed and phis. It answers with the seconds and the
processor seconds.
"""

import sys
import time

import numpy as np
import polars as pl

from bench.timing import clock


def rolling(series: pl.Series, window: int, phis: list[float]) -> list[pl.Series]:
    """Return the rolling quantiles of polars; "lower" is the target rank of the phis and windows here."""
    return [series.rolling_quantile(phi, "lower", window_size=window) for phi in phis]


def main() -> None:
    print(pl.thread_pool_size(), flush=True)
    for line in sys.stdin:
        window, n, seed, *phis = line.split()
        series = pl.Series(np.random.default_rng(int(seed)).normal(size=int(n)))
        begun = time.process_time()
        seconds, _ = clock(rolling, series, int(window), [float(phi) for phi in phis])
        print(seconds, time.process_time() - begun, flush=True)


if __name__ == "__main__":
    main()
