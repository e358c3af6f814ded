"""Recent files: written with each append, compacted when there are many, dropped when they are old.

Compaction has a thread of its own: compactions of history, which may take minutes, do not delay it.

The arrival clock dates rows without times. It follows the wall clock, never goes back, and never stands still. After
the wall clock was set back it goes on with the machine's monotonic clock, `ahead` of the wall clock. It follows a large
step forward only once that has lasted: one that is undone has no effect. docs/guarantees/live.md has the consequences
for windows.
"""

import math
import time
from collections.abc import Callable, Container, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from threading import Lock
from typing import Any

import numpy as np

from quantide.errors import CorruptBytesError
from quantide.history.appended_rows import MAX_FILE_ROWS, AppendedRows
from quantide.history.chunk_sort import in_threads
from quantide.store import fault_points
from quantide.store.file_names import recent_name
from quantide.store.recent_file import RecentFile, RecentFileInfo, write_recent
from quantide.store.recent_manifest import ManifestEntry, RecentManifest
from quantide.store.storage import Storage
from quantide.store.store_settings import StoreSettings
from quantide.store.stored_rows import RecentRows, key_type
from quantide.store.writable_table import ManifestChange, WritableTable
from quantide.typing import Array
from quantide.windows.time_clock import TimeClock
from quantide.windows.wall_clock import wall_clock_ns

HOUR = 3600 * 10**9
LARGE_STEP = HOUR  # nanoseconds; a larger step forward of the wall clock may be a mistake
STEP_DELAY = HOUR  # nanoseconds after which a large step is followed
FANOUT = 8  # files of one size class that become one
SMALLEST_CLASS = 1 << 10  # rows of a file of the smallest size class
GRACE_SECONDS = 60  # a replaced file stays that long, for readers that are about to open it


def ticks_ns() -> int:
    """Return a monotonic time in nanoseconds, with time spent asleep where the system measures it."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class ArrivalClock:
    """Arrival clock of one writer; the manifest has the time at which the previous one stopped."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._time: int | None = None  # of the last rows, and the ticks of that moment
        self._ticks = 0
        self._leap: int | None = None  # ticks when the wall clock was first far ahead

    def now(self, manifest: RecentManifest) -> tuple[int, int]:
        """Return the time of rows that arrive now and how far it is ahead of the wall clock, both in nanoseconds."""
        with self._lock:
            wall, ticks = wall_clock_ns(), ticks_ns()
            newest = None if manifest.newest is None else int(manifest.newest)
            if self._time is None:
                self._time = _resume(wall, newest, manifest.ahead)
            else:
                self._time = self._follow(wall, self._time + ticks - self._ticks, ticks)
            self._time, self._ticks = max(self._time, newest or self._time), ticks
            return self._time, max(0, self._time - wall)

    def _follow(self, wall: int, expected: int, ticks: int) -> int:
        """Return the wall clock, unless it was set back, or is far ahead and has not been so for long."""
        if wall - expected <= LARGE_STEP:
            self._leap = None
            return max(wall, expected)
        self._leap = ticks if self._leap is None else self._leap
        if ticks - self._leap < STEP_DELAY:
            return expected
        self._leap = None
        return wall


def _resume(wall: int, newest: int | None, ahead: int) -> int:
    """Return the time at which a clock resumes: the wall clock, or as far ahead of it as the previous one."""
    return wall if newest is None or wall >= newest else max(newest, wall + ahead)


class RecentWriter:
    """Writes recent files. The manifest lists those that count; only commits of the table change it."""

    def __init__(self, table: WritableTable) -> None:
        self._table, self._settings = table, table.settings
        self._serial, self._lock = 0, Lock()
        self._retired: list[tuple[float, str]] = []
        self._pool: ThreadPoolExecutor | None = None
        self._compacting: Future[None] | None = None
        self.compaction_lock = Lock()  # held while recent files are read and replaced
        self._damaged: set[str] = set()
        self._last_error: BaseException | None = None  # of a compaction, until join() raises it
        self.pending: set[str] = set()  # files that are being committed
        self._arrival_clock = ArrivalClock()

    def write(self, recent_rows: AppendedRows) -> tuple[list[ManifestEntry], ManifestChange]:
        """Write rows that arrive now; return their manifest entries and the change of the manifest that adds them."""
        manifest, given = self._manifest, recent_rows.times is not None
        now, ahead = (0, 0) if given else self._now(manifest)
        clock, pieces = recent_rows.split(self._settings, manifest, now)
        entries = self._write(pieces)
        return entries, self.manifest_change(entries, clock.kind, given, ahead)

    def reserve(self, files: int) -> tuple[int, RecentManifest, int]:
        """Reserve names for `files` recent files; return the first serial number, the manifest without entries, and the
        time of rows without times.
        """
        with self._lock:
            first, self._serial = self._serial + 1, self._serial + files
        manifest = self._manifest
        now, ahead = self._now(manifest)
        return first, replace(manifest, entries=(), ahead=ahead), now

    def manifest_change(self, entries: Sequence[ManifestEntry], clock: str, given: bool, ahead: int) -> ManifestChange:
        """Return the change of the manifest that adds entries and drops old ones."""
        span = self._settings.span
        assert span is not None

        def change(manifest: RecentManifest) -> RecentManifest:
            after = manifest.with_entries(entries, clock, given, ahead)
            return after.without_old(lambda time: TimeClock(clock).back(time, span))

        return change

    def _now(self, manifest: RecentManifest) -> tuple[int, int]:
        """Return the time of rows without times and how far it is ahead of the wall clock; (0, 0) in a store of rows
        with times.
        """
        return (0, 0) if manifest.given else self._arrival_clock.now(manifest)

    @property
    def _manifest(self) -> RecentManifest:
        return self._table.current_manifest()

    def finish(self, entries: Sequence[ManifestEntry], removed: Sequence[str]) -> None:
        """Finish a commit, or give it up: `entries` are not pending any more, `removed` files are retired."""
        self.pending.difference_update(entry.name for entry in entries)
        self._retire(removed)

    def schedule_compaction(self) -> None:
        """Compact in the background if there are many files. An error does not stop later compactions; join() raises
        it.
        """
        previous = self._compacting
        if previous is not None and not previous.done():
            return
        self._last_error = self._last_error or (None if previous is None else previous.exception())
        if self._next():
            with self._lock:
                self._pool = self._pool or ThreadPoolExecutor(1, thread_name_prefix="quantide-recent")
                self._compacting = self._pool.submit(self._compact)

    def join(self) -> None:
        """Wait for a compaction; raise its error, or that of an earlier one."""
        compacting, self._compacting = self._compacting, None
        error = None if compacting is None else compacting.exception()
        error, self._last_error = self._last_error or error, None
        if error is not None:
            raise error

    def rewrite(
        self,
        entries: Sequence[ManifestEntry],
        edit: Callable[[ManifestEntry, RecentRows], RecentRows | None],
        dry_run: bool = False,
    ) -> dict[str, ManifestEntry | None]:
        """Write edited rows as new files; return their entries by the old names, None where no row is left or readable.

        With `dry_run` nothing is written, and entries have the old names.
        """
        rewritten: dict[str, ManifestEntry | None] = {}
        for entry in entries:
            rows = self._read(entry)
            edited = None if rows is None else edit(entry, rows)
            if edited is None:
                rewritten[entry.name] = None
            elif dry_run:
                time_range = edited.times.min().item(), edited.times.max().item()
                rewritten[entry.name] = replace(entry, rows=len(edited), oldest=time_range[0], newest=time_range[1])
            else:
                rewritten[entry.name] = self._write([edited])[0]
        return rewritten

    def check(self) -> None:
        """Raise the error of a compaction that has finished."""
        if self._compacting is not None and self._compacting.done():
            self.join()

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def _compact(self) -> None:
        while self._compact_next():
            pass

    def _compact_next(self) -> bool:
        """Compact the next entries; return False if there are none."""
        with self.compaction_lock:
            entries = self._next()
            if not entries:
                return False
            names = [entry.name for entry in entries]
            contents = [rows for entry in entries if (rows := self._read(entry)) is not None]
            if len(contents) < len(names):
                return True
            (entry,) = self._write([RecentRows.concatenate(contents)])
            removed: list[str] = []
            try:
                fault_points.point("recent.compacted")
                removed = self._table.commit(change_manifest=lambda manifest: manifest.with_compacted(names, entry))
            finally:
                self.finish([entry], removed)
            return True

    def _next(self) -> Sequence[ManifestEntry]:
        """Return the entries to compact next; an unreadable file stays as it is, as do those on either side of it."""
        return next_recent_compaction(self._manifest.entries, self._damaged)

    def _read(self, entry: ManifestEntry) -> RecentRows | None:
        """Return the rows of a file; None if it is damaged or missing."""
        name, table = entry.name, self._table
        keys = key_type(self._settings.keys, table.key_types())
        try:
            data = table.storage.map(name)
            return RecentFile.open(data, entry, self._manifest.clock, self._settings, keys).rows()
        except (CorruptBytesError, FileNotFoundError) as error:
            sizes = [entry.size for entry in self._manifest.entries if entry.name == name]
            if sizes:  # else it is too old, and was vacuumed
                self._damaged.add(name)
            if any(sizes):  # a size of 0 stands for a file that a repair reported as lost
                self._last_error = self._last_error or CorruptBytesError(f"{name} cannot be read: {error}")
            return None

    def _retire(self, names: Sequence[str]) -> None:
        """Remove files that are out of the manifest, once readers had GRACE_SECONDS to notice."""
        now = time.monotonic()
        with self._lock:
            self._retired += [(now, name) for name in names]
            due = [name for since, name in self._retired if now - since > GRACE_SECONDS]
            self._retired = [(since, name) for since, name in self._retired if now - since <= GRACE_SECONDS]
        for name in due:
            with suppress(OSError):  # the commit is done; vacuum removes them
                self._table.storage.remove(name)

    def _write(self, pieces: Sequence[RecentRows]) -> list[ManifestEntry]:
        with self._lock:
            first, self._serial = self._serial + 1, self._serial + len(pieces)
        names = [recent_name(self._table.epoch, first + i) for i in range(len(pieces))]
        self.pending.update(names)

        def write(piece: tuple[str, RecentRows]) -> ManifestEntry:
            return write_entry(self._table.storage, *piece, self._settings)

        try:
            return in_threads(write, zip(names, pieces, strict=True))
        except BaseException:  # files already written are garbage, too
            self.pending.difference_update(names)
            raise


def write_entry(
    storage: Storage, name: str, rows: RecentRows, settings: StoreSettings, sorted_values: Array | None = None
) -> ManifestEntry:
    """Write a recent file; return its manifest entry. The commit sets its first row number."""
    size, about = write_recent(storage, name, rows, settings.filters, settings.profile, sorted_values)
    fault_points.point("recent.written")
    return ManifestEntry(name, 0, about.rows, about.oldest, about.newest, size, _median(rows.times, about))


def _median(times: Array, about: RecentFileInfo) -> Any:
    """Return the lower median; most rows arrive in the order of their times."""
    if about.oldest == about.newest:
        return about.oldest
    middle, in_order = (len(times) - 1) // 2, bool((times[1:] >= times[:-1]).all())
    return (times if in_order else np.partition(times, middle))[middle].item()


def next_recent_compaction(entries: Sequence[ManifestEntry], damaged: Container[str] = ()) -> Sequence[ManifestEntry]:
    """Return neighbouring entries to compact: FANOUT of one size class and smaller ones between; large ones stay.

    >>> few = [ManifestEntry(str(i), 10**6 + 100 * i, 100, 0, 0, 0) for i in range(8)]
    >>> [entry.name for entry in next_recent_compaction([ManifestEntry("big", 0, 10**6, 0, 0, 0), *few])]
    ['0', '1', '2', '3', '4', '5', '6', '7']
    """
    sizes = [None if entry.name in damaged else _size(entry) for entry in entries]
    for size in sorted({size for size in sizes if size is not None}):
        start = members = 0
        for i, current in enumerate(sizes):
            is_gap = i > start and entries[i - 1].first + entries[i - 1].rows != entries[i].first
            if current is None or current > size or is_gap:
                start, members = (i if current is not None and current <= size else i + 1), 0
            members += current == size
            if members == FANOUT:
                while sizes[start] != size:
                    start += 1
                return entries[start : i + 1]
    return []


def _size(entry: ManifestEntry) -> int | None:
    """Return the size class of a file; None if it is too large to compact."""
    if entry.rows > MAX_FILE_ROWS // FANOUT:
        return None
    return max(0, math.ceil(math.log(entry.rows / SMALLEST_CLASS, FANOUT)))
