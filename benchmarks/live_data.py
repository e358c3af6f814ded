"""What live readers are asked about: rows that can be made again, and a check of answers against all of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.report import Row

Array = NDArray[Any]

FAILED = 0.02  # the part of rows that satisfy the filter


@dataclass(frozen=True)
class Rows:
    """Rows in the order they come."""

    keys: NDArray[np.int64]
    values: NDArray[np.float64]
    times: NDArray[np.float64]
    failed: NDArray[np.bool_]

    @staticmethod
    def make(seed: Sequence[int], rows: int, keys: int, begin: float, second_rows: int) -> "Rows":
        """So many rows a second from a time on, the same whenever they are asked for: latencies of endpoints."""
        rng = np.random.default_rng(list(seed))
        of = rng.integers(0, keys, rows)
        values = rng.lognormal(3 + of % 7 / 10, 1, rows)
        times = begin + np.arange(rows) // second_rows
        return Rows(of, values, times.astype(np.float64), rng.random(rows) < FAILED)

    @staticmethod
    def joined(many: Sequence["Rows"]) -> "Rows":
        names = ("keys", "values", "times", "failed")
        return Rows(*(np.concatenate([getattr(rows, name) for rows in many]) for name in names))

    def window(self, key: Any = None, last: Any = None, within: Any = None, filter: Any = None) -> Array:
        """The values of a window, sorted: what the words of LiveStream.answer() mean, said once more."""
        chosen = np.ones(len(self.values), dtype=bool)
        if key is not None:
            chosen &= self.keys == key
        if last is not None:
            at = np.flatnonzero(chosen)
            chosen[at[: max(0, len(at) - last)]] = False
        if within is not None:
            chosen &= self.times > self.times.max() - within
        if filter is not None:
            chosen &= self.failed
        return np.sort(self.values[chosen])


def day(keys: int, seconds: int, a_second: int, chunk: int) -> Iterator[Rows]:
    """A day of many keys in chunks of so many seconds."""
    for number, begin in enumerate(range(0, seconds, chunk)):
        held = min(chunk, seconds - begin)
        yield Rows.make([11, number], held * a_second, keys, float(begin), a_second)


def checked(question: str, answer: Any, exact: Array, allowed: float) -> Row:
    """An answer beside all values it is about, sorted. `allowed` is in ranks."""
    low = int(np.searchsorted(exact, answer.value, side="left")) + 1
    high = int(np.searchsorted(exact, answer.value, side="right"))
    off = max(0, low - answer.target, answer.target - high)
    certified = answer.error * answer.n
    return {
        "question": question,
        "n": answer.n,
        "rank_error": off,
        "certified": round(certified),
        "allowed": int(allowed),
        "holds": bool(
            answer.n == len(exact) and high >= low and off <= certified + 1e-6 and certified <= allowed + 1e-6
        ),
    }
