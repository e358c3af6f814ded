"""Keyed summary levels: summaries of many keys, updated block by block, as flat arrays."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from quantide.kernels.jit import freeze
from quantide.kernels.keyed_evaluation import add_rank_bounds
from quantide.summary.summaries import Summaries
from quantide.summary.weighted_values import WeightedValues
from quantide.typing import Array, Ints

BUFFER_ROWS = 1 << 15  # rows that are buffered before they are summarised
FAN = 4  # parts of a level that are merged into one of the next level
MAX_LEVELS = 19  # BUFFER_ROWS * FAN**19 rows are more than there can be


class KeyedPart(NamedTuple):
    """Summaries by key code; `group_of` has the index of each code's summary, -1 for none."""

    summaries: Summaries
    group_of: NDArray[np.int32]

    @classmethod
    def of(cls, summaries: Summaries) -> "KeyedPart":
        keys = summaries.keys.to_numpy()
        group_of = np.full(int(keys[-1]) + 1, -1, dtype=np.int32)
        group_of[keys] = np.arange(len(keys))
        return cls(summaries, group_of)

    def select(self, codes: Ints) -> Summaries:
        """Return the summaries of these codes that exist."""
        in_range = codes[codes < len(self.group_of)]
        at = self.group_of[in_range]
        return self.summaries.take(at[at >= 0].astype(np.int64))


class KeyedSummaryLevels:
    """Rows (key, value) are buffered and summarised together; FAN parts of a level are merged into one of the next.

    A part of the first level has G - 1 <= eps/2 * n for each key. Each promotion compresses to b = 2*MAX_LEVELS/eps and
    so adds less than n/b to G: MAX_LEVELS promotions add eps/2 * n. Merging adds up. So G - 1 < eps * n, and a key is
    exact while it has fewer than 4/eps values. The tail has the same shares: tail/4 at the first level, tail/4 for all
    promotions.
    """

    tail: float | None = None

    def __init__(self, eps: float, tail: float | None = None) -> None:
        self.eps, self.tail = eps, tail
        self.width = int(np.ceil(2 * MAX_LEVELS / eps))
        self.levels: list[list[KeyedPart]] = []
        self.buffer: list[tuple[Ints, Array]] = []
        self.rows = 0

    def add(self, codes: Ints, values: Array) -> None:
        self.buffer.append((codes, values))
        self.rows += len(codes)
        if self.rows >= BUFFER_ROWS:
            summaries = self._summarise(self.buffer)
            self.buffer, self.rows = [], 0
            self._add_part(KeyedPart.of(summaries))

    def add_weighted(self, codes: Ints, weighted: WeightedValues) -> None:
        """Add weighted values, of these key codes: as rows if they are few, else as a part of the first level.

        Such a part has more than BUFFER_ROWS values, so there are not more promotions than of rows.
        """
        if weighted.is_light:
            index = np.repeat(np.arange(len(weighted)), weighted.weights)
            self.add(codes[index], weighted.values[index])
        else:
            self._add_part(KeyedPart.of(self._summarise([(codes, weighted.values)], weighted.weights)))

    def of(self, codes: Ints) -> Summaries:
        """Return the summaries of these keys, which are sorted and have a value each."""
        selected = [part.select(codes) for part in self._parts(codes)]
        return Summaries.merge(*(summaries for summaries in selected if len(summaries)))

    def rank_bounds(self, codes: Ints, values: Array, keys: Ints) -> tuple[Ints, Ints]:
        """Return, for each code and value, a lower bound on values of the key <= it, and an upper bound on those < it.

        `keys` are the distinct codes, sorted.
        """
        le_bound, lt_bound = np.zeros(len(codes), dtype=np.int64), np.zeros(len(codes), dtype=np.int64)
        for part in self._parts(keys):
            t = part.summaries.tuples
            arrays = freeze(t.values), freeze(t.rmin), freeze(t.rmax), freeze(t.bounds), freeze(t.n)
            add_rank_bounds(codes, values, part.group_of, *arrays, le_bound, lt_bound)
        return le_bound, lt_bound

    def _parts(self, codes: Ints) -> list[KeyedPart]:
        """Return all parts, and the buffered rows of these keys as one."""
        parts = [part for level in self.levels for part in level]
        is_selected = np.zeros(int(codes[-1]) + 2, dtype=bool)
        is_selected[codes] = True
        rows = []
        for row_codes, values in self.buffer:
            selected = is_selected[np.minimum(row_codes, codes[-1] + 1)]
            rows.append((row_codes[selected], values[selected]))
        if any(len(row_codes) for row_codes, _ in rows):
            parts.append(KeyedPart.of(self._summarise(rows)))
        return parts

    def _summarise(self, rows: list[tuple[Ints, Array]], weights: Ints | None = None) -> Summaries:
        codes = np.concatenate([row_codes for row_codes, _ in rows])
        values = np.concatenate([row_values for _, row_values in rows])
        tail = None if self.tail is None else self.tail / 4
        return Summaries.of(codes, values, self.eps / 4, tail=tail, weights=weights)

    def _add_part(self, part: KeyedPart) -> None:
        for level in self.levels:
            level.append(part)
            if len(level) < FAN:
                return
            merged = Summaries.merge(*(member.summaries for member in level))
            share = None if self.tail is None else self.tail / (4 * MAX_LEVELS)
            part = KeyedPart.of(merged.compress(self.width, share))
            level.clear()
        self.levels.append([part])
