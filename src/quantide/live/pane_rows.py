"""Rows of a recent file in blocks with their oldest and newest time, which are cached: most blocks are skipped unread.

The rows of a key arrive nearly in the order of their times, so that a block has a narrow range of times.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from quantide.kernels.jit import freeze
from quantide.live.recent_snapshot import RecentSnapshot, RowSelection
from quantide.store.recent_file import RecentFile
from quantide.typing import Array, Bools, Ints

PANE_BLOCK = 512  # rows of a block


@dataclass(frozen=True)
class PaneRows:
    """Rows of a file or of one of its keys, and the panes of each block's oldest and newest time."""

    file: RecentFile
    rows: slice
    filter: str | None
    oldest: Ints
    newest: Ints

    @cached_property
    def values(self) -> Array:
        values: Array = freeze(self.file.values(self.rows))
        return values

    @cached_property
    def times(self) -> Array:
        """Times, or none if no block has rows in several panes."""
        times = self.file.times(self.rows) if (self.oldest != self.newest).any() else np.empty(0, self.file.time_type)
        frozen: Array = freeze(times)
        return frozen

    @cached_property
    def passes(self) -> Bools:
        """Rows that pass the filter; none without a filter."""
        passes = np.empty(0, dtype=bool) if self.filter is None else self.file.satisfies(self.rows, self.filter)
        frozen: Bools = freeze(passes)
        return frozen

    @property
    def size(self) -> int:
        return int(self.rows.stop - self.rows.start)

    @property
    def blocks(self) -> tuple[int, Ints, Ints]:
        """Rows of a block, and the panes of each block's oldest and newest time."""
        return PANE_BLOCK, self.oldest, self.newest

    def rows_between(self, first: int, last: int) -> int:
        """Return about how many rows the blocks have that may be in panes from `first` up to `last`."""
        return PANE_BLOCK * int(((self.oldest <= last) & (self.newest >= first)).sum())


def read_pane_rows(recent: RecentSnapshot, selection: RowSelection, edges: Array) -> list[PaneRows]:
    """Return the rows of the files that have times in the interval of a selection, divided by the edges of panes."""
    found = []
    for file, key_index in recent.files_in(selection):
        rows = file.row_range(key_index)
        ranges = recent.cached(file, (find_time_ranges, key_index), partial(find_time_ranges, file, rows))
        oldest, newest = (np.searchsorted(edges, times, side="left") for times in ranges)
        found.append(PaneRows(file, rows, selection.filter, oldest, newest))
    return found


def find_time_ranges(file: RecentFile, rows: slice) -> Array:
    """Return the oldest and the newest time of each block, in two rows."""
    if file.info.oldest == file.info.newest:
        blocks = -(-(rows.stop - rows.start) // PANE_BLOCK)
        return np.full((2, blocks), file.info.oldest, dtype=file.time_type)
    times = file.times(rows)
    whole = len(times) // PANE_BLOCK * PANE_BLOCK
    parts: Sequence[Array] = [times[:whole].reshape(-1, PANE_BLOCK)]
    if whole < len(times):
        parts = [*parts, times[whole:].reshape(1, -1)]
    return np.array([np.concatenate([f(part, axis=1) for part in parts]) for f in (np.min, np.max)])
