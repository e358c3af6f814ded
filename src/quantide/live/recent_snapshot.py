"""Recent snapshot: the recent rows of one version of the store, and any window of them.

A window's rows lie in files that are in it as a whole, in files that it cuts, and in files outside. Files of the first
kind give their stored summaries, within eps/4; files that are cut are cut exactly, row by row, and so are those of few
rows. So the error of a window is at most eps/4 of its rows, wherever it begins, however times are ordered. Proof:
docs/guarantees/live.md.
"""

import math
from dataclasses import dataclass

import numpy as np

from quantide.caching import ByteLRU
from quantide.errors import CorruptBytesError, SpanError
from quantide.history.run import Key, find_key
from quantide.live.key_rows import FEW_ROWS, KeyRowBlocks, KeyRows, TimeInterval, WindowContent
from quantide.store.recent_file import RecentFile
from quantide.store.recent_manifest import RecentManifest
from quantide.summary.summary import Summary
from quantide.summary.value_types import ValueType
from quantide.typing import Array
from quantide.windows.time_clock import TimeClock

MAX_TUPLES = 4  # times 1/eps: a summary with more is compressed to half as many, which adds eps/4


@dataclass(frozen=True)
class RowSelection:
    """Rows of a window: of a key or all; the last ones in arrival order; of an interval of time; that pass a filter."""

    key: Key | None = None
    last: int | None = None
    interval: TimeInterval | None = None
    filter: str | None = None


@dataclass(frozen=True)
class UnreadableFile:
    """A recent file that is damaged or missing; only windows that need it fail."""

    name: str
    reason: str
    nbytes: int = 0


class RecentSnapshot:
    """All recent files of one version, in arrival order."""

    def __init__(
        self,
        version: int,
        manifest: RecentManifest,
        files: list[RecentFile | UnreadableFile],
        eps: float,
        cache: ByteLRU,
    ) -> None:
        self.version, self.manifest = version, manifest
        self.clock = None if manifest.clock is None else TimeClock(manifest.clock)
        self.files, self._eps, self._cache = files, eps, cache

    @property
    def has_unreadable(self) -> bool:
        """True if a file cannot be read."""
        return any(isinstance(file, UnreadableFile) for file in self.files)

    def summary(self, selection: RowSelection, kind: ValueType, exact: bool) -> Summary:
        """Return a summary of a window; of no values if it is empty. `exact` reads every row."""
        summary = self._collect(selection, exact).summary(kind)
        if exact or len(summary) <= MAX_TUPLES / self._eps:
            return summary
        return summary.compress(math.ceil(MAX_TUPLES / 2 / self._eps))

    def rows(self, selection: RowSelection, max_rows: int) -> tuple[Array, Array] | None:
        """Return values and times of the rows in an interval of time; None if more than `max_rows` must be read."""
        assert selection.interval is not None
        parts = []
        for entry, file in zip(self.manifest.entries, self.files, strict=True):
            if selection.interval.excludes(entry.oldest, entry.newest):
                continue
            if isinstance(file, UnreadableFile):
                raise _unreadable_error(file)
            key_index = self._key_index(file, selection.key)
            if key_index != -1:
                parts.append((file, file.row_range(key_index)))
        if sum(rows.stop - rows.start for _, rows in parts) > max_rows:
            return None
        values, times = [], []
        for file, rows in parts:
            selected = selection.interval.mask(file.times(rows))
            if selection.filter is not None:
                selected &= file.satisfies(rows, selection.filter)
            values.append(file.values(rows)[selected])
            times.append(file.times(rows)[selected])
        return np.concatenate(values or [np.empty(0)]), np.concatenate(times or [np.empty(0)])

    def _collect(self, selection: RowSelection, exact: bool) -> WindowContent:
        """Return the content of a window, from the newest file to the oldest that it needs."""
        content, remaining, reached = WindowContent([], []), selection.last, self.manifest.arrived
        interval = selection.interval
        for entry, file in zip(reversed(self.manifest.entries), reversed(self.files), strict=True):
            if remaining == 0:
                break
            if remaining is not None and entry.first + entry.rows != reached:
                raise self._span_error(selection)
            reached = entry.first
            outside = interval is not None and interval.excludes(entry.oldest, entry.newest)
            if remaining is None and outside:
                continue
            if isinstance(file, UnreadableFile):
                raise _unreadable_error(file)
            key_index = self._key_index(file, selection.key)
            if key_index == -1:
                continue
            rows = file.row_range(key_index)
            count, skip = rows.stop - rows.start, 0
            if remaining is not None:
                skip, remaining = max(0, count - remaining), max(0, remaining - count)
            if outside:
                continue
            whole = interval is None or interval.contains(entry.oldest, entry.newest)
            content.extend(self._select(file, key_index, selection.filter, skip, None if whole else interval, exact))
        if remaining and reached:
            raise self._span_error(selection)
        return content

    def _select(
        self,
        file: RecentFile,
        key_index: int | None,
        filter: str | None,
        skip: int,
        interval: TimeInterval | None,
        exact: bool,
    ) -> WindowContent:
        """Return the rows of a key after the first `skip`, of times in an interval."""
        if not skip and interval is None and filter is None and (exact or file.summary(key_index, None) is None):
            return WindowContent([file.values(file.row_range(key_index))], [])
        if not exact:
            if not skip and interval is None:
                summary = file.summary(key_index, filter)
                if summary is not None:
                    return WindowContent([], [summary])
            rows = file.row_range(key_index)
            if rows.stop - rows.start > FEW_ROWS:

                def build() -> KeyRowBlocks:
                    return KeyRowBlocks(KeyRows.read(file, key_index, filter), self._eps)

                name = ("blocks", key_index, filter)
                return self._cache.get(file.name, name, build, lambda blocks: blocks.nbytes).select(skip, interval)
        return WindowContent([KeyRows.read(file, key_index, filter).select(skip, interval)], [])

    def _key_index(self, file: RecentFile, key: Key | None) -> int | None:
        """Return the index of a key in a file; -1 if it is not there, None for all keys."""
        if key is None:
            return None
        return self._cache.get(file.name, key, lambda: find_key(file.keys, key), lambda _: 0)

    def _span_error(self, selection: RowSelection) -> SpanError:
        count, reached = 0, self.manifest.arrived
        for entry in reversed(self.manifest.entries):
            if entry.first + entry.rows != reached:
                break
            count, reached = count + entry.rows, entry.first
        whose = "" if selection.key is None else " of all keys"
        return SpanError(
            f"last={selection.last} reaches back beyond what is kept for windows, the last {count:,} values{whose}; "
            "ask for fewer, or make the store with a longer window"
        )


def _unreadable_error(file: UnreadableFile) -> CorruptBytesError:
    return CorruptBytesError(f"this window needs {file.name}, which cannot be read: {file.reason}")
