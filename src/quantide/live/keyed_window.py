"""Keyed window: the recent rows of a window, grouped by key, for queries about all keys at once."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from quantide.live.recent_snapshot import RecentSnapshot, RowSelection, TimeInterval
from quantide.store.recent_file import RecentFile
from quantide.summary.keyed_merge import PartSlice
from quantide.summary.summary_bytes import SummaryTuples
from quantide.typing import Array, Ints


@dataclass(frozen=True)
class RecentFilePart:
    """Rows of a recent file after the first `skip` in arrival order, of times in an interval, that pass a filter.

    Keys of many rows give their stored summaries, if the file is in the window as a whole; `exact` reads all rows.
    """

    file: RecentFile
    skip: int
    interval: TimeInterval | None
    filter: str | None
    exact: bool

    @property
    def keys(self) -> pa.Array:
        return self.file.keys

    @property
    def sizes(self) -> Ints:
        return np.diff(self.file.bounds)

    def read(self, start: int, end: int) -> PartSlice:
        """Return the rows of the keys at these indexes."""
        heavy, summaries = self._stored_summaries(start, end)
        parts = [self._read_rows(*light) for light in _between(heavy, start, end)]
        empty = np.empty(0, dtype=np.int64), np.empty(0, dtype=self.file.kind.carrier)
        keys, values = (np.concatenate(columns) for columns in zip(empty, *parts, strict=True))
        return PartSlice(keys, values, heavy, summaries)

    def _stored_summaries(self, start: int, end: int) -> tuple[Ints, SummaryTuples | None]:
        is_whole = not self.skip and self.interval is None
        stored = self.file.heavy_summaries(self.filter) if is_whole and not self.exact else None
        if stored is None:
            return np.empty(0, dtype=np.int64), None
        key_indexes, summaries = stored
        chosen = np.arange(*np.searchsorted(key_indexes, (start, end)))
        return key_indexes[chosen], summaries.take(chosen) if len(chosen) else None

    def _read_rows(self, start: int, end: int) -> tuple[Ints, Array]:
        """Return the index of the key of each row, and its value."""
        bounds = self.file.bounds[start : end + 1]
        rows = slice(int(bounds[0]), int(bounds[-1]))
        keys, values = np.repeat(np.arange(start, end), np.diff(bounds)), self.file.values(rows)
        masks = list(self._masks(rows))
        if not masks:
            return keys, values
        selected = np.logical_and.reduce(masks)
        return keys[selected], values[selected]

    def _masks(self, rows: slice) -> Iterator[Array]:
        if self.interval is not None:
            yield self.interval.mask(self.file.times(rows))
        if self.filter is not None:
            yield self.file.satisfies(rows, self.filter)
        if self.skip:
            yield self.file.numbers(rows) >= self.skip


def _between(heavy: Ints, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of indexes from start to end that none of these is in."""
    for stop in (*heavy.tolist(), end):
        if start < stop:
            yield start, stop
        start = stop + 1


def window_parts(recent: RecentSnapshot, selection: RowSelection, exact: bool) -> list[RecentFilePart]:
    """Return the parts of a window over all keys. `last` counts the rows of all keys, in arrival order."""
    cuts = recent.file_cuts(selection)
    return [RecentFilePart(cut.file, cut.skip, cut.interval, selection.filter, exact) for cut in cuts]
