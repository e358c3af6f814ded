"""The same quantile by pandas and polars, which take a whole column at once and are exact."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers import load
from benchmarks.report import Row
from benchmarks.timing import clock
from benchmarks.windows_settings import Settings

Array = NDArray[np.float64]
EVERY, BLOCK = "every value", "every block"


def columns(stream: Array, size: int, phi: float, settings: Settings) -> Iterator[tuple[str, str, Row]]:
    """Name, when it is asked, and how fast."""
    n = max(settings.column, 2 * size)
    values = np.resize(stream, n)
    pd = load("pandas")
    if pd and size <= settings.slow_size:
        column = pd.Series(values)
        rolled = column.rolling(size)
        stepped = column.rolling(size, step=settings.block)
        yield "pandas", EVERY, _row(n, lambda: rolled.quantile(phi, interpolation="higher"))
        yield "pandas", BLOCK, _row(n, lambda: stepped.quantile(phi, interpolation="higher"))
    if pl := load("polars"):
        series = pl.Series(values)
        yield "polars", EVERY, _row(n, lambda: series.rolling_quantile(phi, "higher", window_size=size))
        yield "polars", BLOCK, _row(n, lambda: _slices(series, size, phi, settings.block))


def _slices(series: Any, size: int, phi: float, block: int) -> list[float]:
    """Polars has no step: the last values are a slice of the column, asked at the end of each block."""
    ends = range(block, len(series) + 1, block)
    return [series.slice(max(0, end - size), min(end, size)).quantile(phi, "higher") for end in ends]


def _row(n: int, job: Any) -> Row:
    seconds, _ = clock(job)
    return {"values_per_s": round(n / seconds), "values": n}
