"""Key rows: the rows of one key, or of all, in one recent file that a window cuts.

Few rows are scanned. Many are divided into blocks, each with its times and a summary, once; after that a window that
cuts them reads only the blocks at its edges.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from quantide.store.recent_file import EPS_DIVISOR, RecentFile
from quantide.store.sorted_rows import ALL, SortedRows
from quantide.summary.summary import Summary
from quantide.summary.value_types import ValueType
from quantide.typing import Array, Bools

BLOCK_ROWS = 1 << 16
FEW_ROWS = 2 * BLOCK_ROWS  # up to here rows have no blocks


class TimeInterval(NamedTuple):
    """Times above one and, if later ones may exist, up to another."""

    above: Any
    upto: Any = None

    def excludes(self, oldest: Any, newest: Any) -> bool:
        """Return True if no time from oldest to newest is in the interval."""
        return bool(newest <= self.above or (self.upto is not None and oldest > self.upto))

    def contains(self, oldest: Any, newest: Any) -> bool:
        """Return True if all times from oldest to newest are in the interval."""
        return bool(oldest > self.above and (self.upto is None or newest <= self.upto))

    def mask(self, times: Array) -> Bools:
        """Return which times are in the interval."""
        later: Bools = times > self.above
        return later if self.upto is None else later & (times <= self.upto)


@dataclass(frozen=True)
class WindowContent:
    """Content of a window: exact values, and summaries."""

    values: list[Array]
    summaries: list[Summary]

    def extend(self, other: "WindowContent") -> None:
        self.values.extend(other.values)
        self.summaries.extend(other.summaries)

    def summary(self, kind: ValueType) -> Summary:
        """Merge everything; that adds nothing to the error of the summaries."""
        exact = np.concatenate([np.empty(0, kind.carrier), *self.values])
        exact.sort()
        return Summary.merge(Summary.of_sorted(exact, kind), *self.summaries)


@dataclass(frozen=True)
class KeyRows:
    """Rows in arrival order, without those that a filter rejects; `position` has each row's index before filtering."""

    kind: ValueType
    values: Array
    times: Array
    position: Array | None

    @classmethod
    def read(cls, file: RecentFile, key_index: int | None, filter: str | None) -> "KeyRows":
        rows = file.row_range(key_index)
        values, times = file.values(rows), file.times(rows)
        passes = None if filter is None else file.satisfies(rows, filter)
        if key_index is None and file.keyed:  # rows are grouped by key
            order = file.order()
            values, times = values[order], times[order]
            passes = None if passes is None else passes[order]
        if passes is None:
            return cls(file.kind, values, times, None)
        return cls(file.kind, values[passes], times[passes], np.flatnonzero(passes))

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in (self.values, self.times, self.position) if array is not None)

    def start(self, skip: int) -> int:
        """Index of the first row that is not among the first `skip` before filtering."""
        return skip if self.position is None else int(np.searchsorted(self.position, skip))

    def select(self, skip: int, interval: TimeInterval | None) -> Array:
        """Return the values of the rows after the first `skip` whose time is in the interval."""
        start = self.start(skip)
        return self.values[start:] if interval is None else self.values[start:][interval.mask(self.times[start:])]


class KeyRowBlocks:
    """Many rows of a key, in blocks."""

    def __init__(self, rows: KeyRows, eps: float) -> None:
        self.rows, self._eps = rows, eps

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + sum(summary.nbytes for summary in self._summaries)

    def select(self, skip: int, interval: TimeInterval | None) -> WindowContent:
        """Do what KeyRows.select() does, with summaries for blocks that are in the window as a whole."""
        rows, content = self.rows, WindowContent([], [])
        start = rows.start(skip)
        for block, (oldest, newest) in enumerate(self._time_ranges):
            first, last = max(start, block * BLOCK_ROWS), min((block + 1) * BLOCK_ROWS, len(rows.values))
            if last <= first or (interval is not None and interval.excludes(oldest, newest)):
                continue
            if first == block * BLOCK_ROWS and (interval is None or interval.contains(oldest, newest)):
                content.summaries.append(self._summaries[block])
            else:
                part = slice(first, last)
                selected = slice(None) if interval is None else interval.mask(rows.times[part])
                content.values.append(rows.values[part][selected])
        return content

    @cached_property
    def _time_ranges(self) -> list[tuple[Any, Any]]:
        starts = range(0, len(self.rows.values), BLOCK_ROWS)
        return [(times.min(), times.max()) for i in starts if len(times := self.rows.times[i : i + BLOCK_ROWS])]

    @cached_property
    def _summaries(self) -> list[Summary]:
        kind, out = self.rows.kind, []
        for i in range(0, len(self.rows.values), BLOCK_ROWS):
            values = np.sort(self.rows.values[i : i + BLOCK_ROWS])
            tuples = SortedRows(kind, ALL, np.array([0, len(values)]), values).summarise(self._eps / EPS_DIVISOR).tuples
            out.append(Summary(tuples.values, tuples.rmin, tuples.rmax, len(values), kind))
        return out
