"""Files that arrive: their rows can be made again, and they appear at once."""

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.live_data import checked
from benchmarks.report import Row
from quantide import History
from quantide.live import LiveStream

PHIS = (0.001, 0.5, 0.99)
BEGIN = 1_750_000_000_000_000  # microseconds
APART = 1_000  # microseconds between two rows
CONFIG = """store = "data"

[streams.s]
source = {{ format = "parquet", path = "in"{source} }}
value = "v"
time = "t"
eps = {eps:g}
{more}
"""


def configuration(folder: Path, eps: float, source: str = "", more: str = "") -> Path:
    """A stream s, from the folder "in" into the store "data"; both lie in `folder`."""
    (folder / "in").mkdir(parents=True)
    path = folder / "quantide.toml"
    path.write_text(CONFIG.format(eps=eps, source=source, more=more), encoding="utf-8")
    return path


def values_of(number: int, rows: int) -> NDArray[np.float64]:
    """Values of a file: latencies."""
    return np.random.default_rng([23, number]).lognormal(3, 1, rows)


def numbered(number: int, rows: int) -> NDArray[np.float64]:
    """Values whose whole part is the number of their file."""
    return number + np.random.default_rng([29, number]).random(rows)


def key_codes(number: int, rows: int, keys: int) -> NDArray[np.int64]:
    """The key of each row of a file."""
    return np.random.default_rng([31, number]).integers(0, keys, rows)


def key_names(keys: int) -> list[str]:
    return [f"endpoint-{key:06}" for key in range(keys)]


def write_file(path: Path, values: NDArray[np.float64], first: int, **columns: Any) -> float:
    """Rows in a file that appears at once; when it did. `first` is the number of the first row."""
    times = BEGIN + APART * (first + np.arange(len(values), dtype=np.int64))
    beside = path.parent.parent / path.name
    table = pa.table({"v": values, "t": pa.array(times, pa.timestamp("us", "UTC")), **columns})
    pq.write_table(table, beside)
    os.rename(beside, path)
    return time.monotonic()


def holds(store: Path, values: NDArray[np.float64], eps: float, window: tuple[str, NDArray[np.float64]] | None) -> bool:
    """Whether every value is in a store once, and answers about everything and about a window are right."""
    with History(store) as history:
        exact = np.sort(values)
        right = history.n == len(exact)
        keyed = bool(history.settings.keys)  # then exact answers are for keys, see key_holds()
        for phi in PHIS:
            answer = history.answer(phi, "quick" if keyed else "accurate")
            right &= bool(checked("", answer, exact, eps * len(exact))["holds"])
            place = max(1, int(np.ceil(phi * len(exact) - 1e-9))) - 1
            right &= keyed or bool(history.quantile(phi, "exact") == exact[place])
    if window is not None:
        within, recent = window
        with LiveStream(store, follow=False) as live:
            right &= bool(checked("", live.answer(0.99, within=within), np.sort(recent), eps * len(recent))["holds"])
    return right


def key_holds(store: Path, key: str, values: NDArray[np.float64]) -> bool:
    """Whether a key has these values, by their number and median."""
    with History(store) as history:
        answer = history.answer(0.5, "exact", key=key)
        return bool(answer.n == len(values) and answer.value == np.sort(values)[max(1, -(-len(values) // 2)) - 1])


def parted(found: list[float]) -> Row:
    """A median, a p99 and the worst."""
    return {"median": float(np.median(found)), "p99": float(np.quantile(found, 0.99)), "worst": max(found)}
