"""Recent snapshot: the recent rows of one version of the store, the rows of one key, and any window of them.

A window's rows lie in files that are in it as a whole, in files that it cuts, and in files outside. Files of the first
kind give their stored summaries, within eps/4 and tail/4; files that are cut are cut exactly, row by row, and so are
those of few rows. So the error of a window is at most eps/4 of its rows, and tail/4 of the distance from either end,
wherever it begins, however times are ordered. Proof: docs/guarantees/live.md.

Few rows of a key are scanned. Many are divided into blocks, each with its times and a summary, once; after that a
window that cuts them reads only the blocks at its edges.
"""

import math
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from quantide.caching import ByteLRU
from quantide.errors import CorruptBytesError, SpanError
from quantide.history.run import Key, find_key
from quantide.kernels.block_sort import sort, sorted_copy
from quantide.store.recent_file import RecentFile, sample_profile
from quantide.store.recent_manifest import RecentManifest
from quantide.store.store_settings import ErrorProfile
from quantide.store.stored_rows import ALL, SortedRows
from quantide.summary.summary import Summary
from quantide.summary.value_types import ValueType
from quantide.typing import Array, Bools
from quantide.windows.time_clock import TimeClock

BLOCK_ROWS = 1 << 16
FEW_ROWS = 2 * BLOCK_ROWS  # up to here rows have no blocks
MAX_TUPLES = 4  # times 1/eps: a summary with more is compressed to half as many, which adds eps/4 and tail/4


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
        sort(exact)
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

    def __init__(self, rows: KeyRows, profile: ErrorProfile) -> None:
        self.rows, self._profile = rows, profile

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
            values = sorted_copy(self.rows.values[i : i + BLOCK_ROWS])
            rows = SortedRows(kind, ALL, np.array([0, len(values)]), values)
            tuples = rows.summarise(sample_profile(self._profile)).tuples
            out.append(Summary(tuples.values, tuples.rmin, tuples.rmax, len(values), kind))
        return out


@dataclass(frozen=True)
class RowSelection:
    """Rows of a window: of a key or all; the last ones in arrival order; of an interval of time; that pass a filter."""

    key: Key | None = None
    last: int | None = None
    interval: TimeInterval | None = None
    filter: str | None = None


class FileCut(NamedTuple):
    """Rows of a file that a window has: of a key, after the first `skip`, of times in an interval (None for all)."""

    file: RecentFile
    key_index: int | None
    skip: int
    interval: TimeInterval | None


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
        profile: ErrorProfile,
        cache: ByteLRU,
    ) -> None:
        self.version, self.manifest = version, manifest
        self.clock = None if manifest.clock is None else TimeClock(manifest.clock)
        self.files, self._profile, self._cache = files, profile, cache

    @property
    def has_unreadable(self) -> bool:
        """True if a file cannot be read."""
        return any(isinstance(file, UnreadableFile) for file in self.files)

    def summary(self, selection: RowSelection, kind: ValueType, exact: bool) -> Summary:
        """Return a summary of a window; of no values if it is empty. `exact` reads every row."""
        summary, (eps, tail) = self._collect(selection, exact).summary(kind), self._profile
        if exact or len(summary) <= MAX_TUPLES / eps:
            return summary
        return summary.compress(math.ceil(MAX_TUPLES / 2 / eps), None if tail is None else tail / 4)

    def files_in(self, selection: RowSelection) -> list[tuple[RecentFile, int | None]]:
        """Return the files with times in an interval, and the index of the key in each; files without the key are left
        out.
        """
        assert selection.interval is not None
        found = list[tuple[RecentFile, int | None]]()
        for entry, file in zip(self.manifest.entries, self.files, strict=True):
            if selection.interval.excludes(entry.oldest, entry.newest):
                continue
            if isinstance(file, UnreadableFile):
                raise _unreadable_error(file)
            key_index = self._key_index(file, selection.key)
            if key_index != -1:
                found.append((file, key_index))
        return found

    def cached(self, file: RecentFile, name: Hashable, compute: Callable[[], Array]) -> Array:
        """Return an array that is computed from a file, from the cache if it is there."""
        return self._cache.get(file.name, name, compute, lambda array: array.nbytes)

    def _collect(self, selection: RowSelection, exact: bool) -> WindowContent:
        """Return the content of a window, from the newest file to the oldest that it needs."""
        content = WindowContent([], [])
        for file, key_index, skip, interval in self.file_cuts(selection):
            content.extend(self._select(file, key_index, selection.filter, skip, interval, exact))
        return content

    def file_cuts(self, selection: RowSelection) -> Iterator[FileCut]:
        """Yield the files of a window and where it cuts them, from the newest to the oldest that it needs."""
        remaining, reached, interval = selection.last, self.manifest.arrived, selection.interval
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
            yield FileCut(file, key_index, skip, None if whole else interval)
        if remaining and reached:
            raise self._span_error(selection)

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
                    return KeyRowBlocks(KeyRows.read(file, key_index, filter), self._profile)

                name = (KeyRowBlocks, key_index, filter)
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
