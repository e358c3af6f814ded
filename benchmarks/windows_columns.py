"""The same quantile by pandas and polars, which take a whole column at once and are exact."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers import load
from benchmarks.report import Row
from benchmarks.timing import clock
from benchmarks.windows_settings import Settings

Array = NDArray[np.float64]
Answer = tuple[int, float]  # how many values came before it, and what it was
EVERY, BLOCK = "every value", "every block"


def columns(stream: Array, size: int, phi: float, settings: Settings) -> Iterator[tuple[str, str, Row, list[Answer]]]:
    """Name, when it is asked, how fast, and the answers with the number of values before each."""
    n, block = max(settings.column, 2 * size), settings.block
    values = np.resize(stream, n)
    pd = load("pandas")
    if pd and size <= settings.slow_size:
        column = pd.Series(values)
        rolled, stepped = column.rolling(size), column.rolling(size, step=block)
        row, found = _timed(n, lambda: rolled.quantile(phi, interpolation="lower"))
        yield "pandas", EVERY, row, _some(found.to_numpy(), range(1, n + 1), size, settings.checked)
        row, found = _timed(n, lambda: stepped.quantile(phi, interpolation="lower"))
        yield "pandas", BLOCK, row, _some(found.to_numpy(), range(1, n + 1, block), size, settings.checked)
    if pl := load("polars"):
        series = pl.Series(values)
        row, found = _timed(n, lambda: series.rolling_quantile(phi, "lower", window_size=size))
        yield "polars", EVERY, row, _some(found.to_numpy(), range(1, n + 1), size, settings.checked)
        ends = range(block, n + 1, block)
        row, found = _timed(n, lambda: _slices(series, size, phi, ends))
        yield "polars", BLOCK, row, _some(np.array(found), ends, size, settings.checked)


def _slices(series: Any, size: int, phi: float, ends: range) -> list[float]:
    """Polars has no step: the last values are a slice of the column, asked at the end of each block."""
    return [series.slice(max(0, end - size), min(end, size)).quantile(phi, "lower") for end in ends]


def _timed(n: int, job: Callable[[], Any]) -> tuple[Row, Any]:
    seconds, found = clock(job)
    return {"values_per_s": round(n / seconds), "values": n}, found


def _some(found: Array, ends: range, size: int, count: int) -> list[Answer]:
    """A few of the answers about full windows."""
    first = max(0, -((ends.start - size) // ends.step))
    step = max(1, (len(ends) - first) // count)
    return [(ends[i], float(found[i])) for i in range(first, len(ends), step)]
