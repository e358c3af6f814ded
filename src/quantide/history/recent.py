"""The writer's side of recent files: written with each append, compacted as they become many, dropped as they age.

Compaction has a thread of its own: merges of history, which may take minutes, do not hold it up.
"""

import math
import os
import time
from collections.abc import Callable, Container, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from threading import Lock

import numpy as np

from quantide.errors import CorruptBytesError
from quantide.history.arrival_clock import ArrivalClock
from quantide.history.arrivals import MOST, Arrivals
from quantide.history.sort import in_threads
from quantide.store import faults
from quantide.store.commits import Change, WritableTable
from quantide.store.disk import remove
from quantide.store.manifest import Entry, Manifest
from quantide.store.names import recent_name
from quantide.store.recent import RecentFile, RecentRows, write_recent
from quantide.store.rows import key_type
from quantide.store.settings import Settings
from quantide.windows.clock import Clock

FAN = 8  # files of about the same size that become one
SMALL = 1 << 10  # rows of the smallest size that is told apart
GRACE = 60  # seconds for which a file that was replaced stays, for readers that are about to open it


class RecentLog:
    """Writes recent files. Which of them count is in the manifest, which only commits of the table change."""

    def __init__(self, table: WritableTable) -> None:
        self._table, self._settings = table, table.settings
        self._serial, self._lock = 0, Lock()
        self._retired: list[tuple[float, str]] = []
        self._pool: ThreadPoolExecutor | None = None
        self._compacting: Future[None] | None = None
        self._damaged: set[str] = set()
        self._trouble: BaseException | None = None  # what compactions failed by, as long as nobody was told
        self.pending: set[str] = set()  # files that are about to be committed
        self._arrival_clock = ArrivalClock()

    def write(self, arrivals: Arrivals) -> tuple[list[Entry], Change]:
        """Files of rows that came now, and the change of the manifest that shows them."""
        manifest, given = self._manifest, arrivals.times is not None
        now, ahead = (0, 0) if given else self._now(manifest)
        clock, pieces = arrivals.pieces(self._settings, manifest, now)
        entries = self._write(pieces)
        return entries, self.shown(entries, clock.kind, given, ahead)

    def slot(self, files: int) -> tuple[int, Manifest, int]:
        """Where tasks may write so many recent files: the first number, what is known of those there are, and when
        rows come that have no times."""
        with self._lock:
            first, self._serial = self._serial + 1, self._serial + files
        manifest = self._manifest
        now, ahead = self._now(manifest)
        return first, replace(manifest, entries=(), ahead=ahead), now

    def shown(self, entries: Sequence[Entry], clock: str, given: bool, ahead: int) -> Change:
        """The change of the manifest that shows files."""
        span = self._settings.span
        assert span is not None

        def change(manifest: Manifest) -> Manifest:
            after = manifest.after(entries, clock, given, ahead)
            return after.without_old(lambda time: Clock(clock).back(time, span))

        return change

    def _now(self, manifest: Manifest) -> tuple[int, int]:
        """When rows without times come, and how far ahead of the wall clock that is; (0, 0) where all have times."""
        return (0, 0) if manifest.given else self._arrival_clock.now(manifest)

    @property
    def _manifest(self) -> Manifest:
        return self._table.own_manifest()

    def done(self, entries: Sequence[Entry], gone: Sequence[str]) -> None:
        """A commit is made, or given up: these files are not pending any more, and those do not count any more."""
        self.pending.difference_update(entry.name for entry in entries)
        self._retire(gone)

    def compact_soon(self) -> None:
        """Compact in the background when there are many files. After an error it is tried again; join() tells."""
        before = self._compacting
        if before is not None and not before.done():
            return
        self._trouble = self._trouble or (None if before is None else before.exception())
        if self._next():
            with self._lock:
                self._pool = self._pool or ThreadPoolExecutor(1, thread_name_prefix="quantide-recent")
                self._compacting = self._pool.submit(self._compact)

    def join(self) -> None:
        """Wait for a compaction; its error, if it or one before it had one, is raised here."""
        compacting, self._compacting = self._compacting, None
        error = None if compacting is None else compacting.exception()
        error, self._trouble = self._trouble or error, None
        if error is not None:
            raise error

    def rewrite(
        self, chosen: Sequence[Entry], edit: Callable[[Entry, RecentRows], RecentRows | None], dry_run: bool = False
    ) -> dict[str, Entry | None]:
        """Write edited rows as new files, by the names of the old ones; None where no row is left, or can be read.

        With `dry_run` nothing is written, and files have the names that they had.
        """
        out: dict[str, Entry | None] = {}
        for entry in chosen:
            rows = self._read(entry)
            edited = None if rows is None else edit(entry, rows)
            if edited is None:
                out[entry.name] = None
            elif dry_run:
                ends = edited.times.min().item(), edited.times.max().item()
                out[entry.name] = replace(entry, rows=len(edited), oldest=ends[0], newest=ends[1])
            else:
                out[entry.name] = self._write([edited])[0]
        return out

    def check(self) -> None:
        """Raise the error of a compaction that is over."""
        if self._compacting is not None and self._compacting.done():
            self.join()

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def _compact(self) -> None:
        while chosen := self._next():
            names = [entry.name for entry in chosen]
            rows = [found for entry in chosen if (found := self._read(entry)) is not None]
            if len(rows) < len(names):
                continue
            (entry,) = self._write([RecentRows.joined(rows)])
            gone: list[str] = []
            try:
                faults.point("recent.compacted")
                gone = self._table.commit(recent=lambda manifest: manifest.compacted(names, entry))  # noqa: B023
            finally:
                self.done([entry], gone)

    def _next(self) -> Sequence[Entry]:
        """What is to be compacted; a file that cannot be read is left alone, as are those on either side of it."""
        return next_compaction(self._manifest.entries, self._damaged)

    def _read(self, entry: Entry) -> RecentRows | None:
        """The rows of a file; None when it is damaged or gone."""
        name, table = entry.name, self._table
        keys = key_type(self._settings.keys, table.key_types())
        try:
            data = table.place.mapped(name)
            return RecentFile.open(data, entry, self._manifest.clock, self._settings, keys).rows()
        except (CorruptBytesError, FileNotFoundError) as error:
            sizes = [entry.size for entry in self._manifest.entries if entry.name == name]
            if sizes:  # else it aged, and was vacuumed
                self._damaged.add(name)
            if any(sizes):  # else it stands for a file that a repair named as lost
                self._trouble = self._trouble or CorruptBytesError(f"{name} cannot be read: {error}")
            return None

    def _retire(self, names: Sequence[str]) -> None:
        """Files that do not count any more are removed when readers had time to notice."""
        now = time.monotonic()
        with self._lock:
            self._retired += [(now, name) for name in names]
            old = [name for when, name in self._retired if now - when > GRACE]
            self._retired = [(when, name) for when, name in self._retired if now - when <= GRACE]
        for name in old:
            with suppress(OSError):  # the commit is made; vacuum removes them
                remove(os.path.join(self._table.path, name))

    def _write(self, pieces: Sequence[RecentRows]) -> list[Entry]:
        with self._lock:
            first, self._serial = self._serial + 1, self._serial + len(pieces)
        names = [recent_name(self._table.epoch, first + i) for i in range(len(pieces))]
        self.pending.update(names)

        def write(piece: tuple[str, RecentRows]) -> Entry:
            return write_entry(self._table.path, *piece, self._settings, self._table.durable)

        try:
            return in_threads(write, zip(names, pieces, strict=True))
        except BaseException:  # those that were written are garbage, too
            self.pending.difference_update(names)
            raise


def write_entry(folder: str, name: str, rows: RecentRows, settings: Settings, durable: bool) -> Entry:
    """A recent file of these rows; its place among all is known when it is committed."""
    size, about = write_recent(os.path.join(folder, name), rows, settings.filters, settings.eps, durable)
    faults.point("recent.written")
    middle = (len(rows) - 1) // 2
    median = about.oldest if about.oldest == about.newest else np.partition(rows.times, middle)[middle].item()
    return Entry(name, 0, about.rows, about.oldest, about.newest, size, median)


def next_compaction(entries: Sequence[Entry], damaged: Container[str] = ()) -> Sequence[Entry]:
    """Neighbours that become one: FAN of one size, and what is smaller between them. Large ones are left as they are.

    >>> few = [Entry(str(i), 10**6 + 100 * i, 100, 0, 0, 0) for i in range(8)]
    >>> [entry.name for entry in next_compaction([Entry("big", 0, 10**6, 0, 0, 0), *few])]
    ['0', '1', '2', '3', '4', '5', '6', '7']
    """
    sizes = [None if entry.name in damaged else _size(entry) for entry in entries]
    for size in sorted({size for size in sizes if size is not None}):
        start = same = 0
        for i, held in enumerate(sizes):
            apart = i > start and entries[i - 1].first + entries[i - 1].rows != entries[i].first
            if held is None or held > size or apart:
                start, same = (i if held is not None and held <= size else i + 1), 0
            same += held == size
            if same == FAN:
                while sizes[start] != size:
                    start += 1
                return entries[start : i + 1]
    return []


def _size(entry: Entry) -> int | None:
    """About how large a file is; None for one that stays as it is."""
    if entry.rows > MOST // FAN:
        return None
    return max(0, math.ceil(math.log(entry.rows / SMALL, FAN)))
