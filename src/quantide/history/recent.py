"""The writer's side of recent files: written with each append, compacted as they become many, dropped as they age."""

import math
import os
import time
from collections.abc import Sequence
from threading import Lock

from quantide.history.arrivals import MOST
from quantide.history.sort import in_threads
from quantide.store import faults
from quantide.store.disk import remove
from quantide.store.manifest import Entry, Manifest
from quantide.store.names import recent_name
from quantide.store.recent import RecentFile, RecentRows, write_recent
from quantide.store.settings import Settings

FAN = 8  # files of about the same size that become one
SMALL = 1 << 10  # rows of the smallest size that is told apart
GRACE = 60  # seconds for which a file that was replaced stays, for readers that are about to open it


class RecentLog:
    """Writes recent files; which of them count is in the manifest, which the table's commits change."""

    def __init__(self, folder: str, settings: Settings, durable: bool) -> None:
        self._folder, self._settings, self._durable = folder, settings, durable
        self._serial, self._lock = 0, Lock()
        self._retired: list[tuple[float, str]] = []
        self.pending: set[str] = set()  # written, or about to be, and not committed

    def write(self, epoch: int, rows: Sequence[RecentRows]) -> list[Entry]:
        """Files that a commit is to show."""
        return in_threads(lambda one: self._write(epoch, one), rows)

    def done(self, entries: Sequence[Entry]) -> None:
        """Committed, or given up."""
        self.pending.difference_update(entry.name for entry in entries)

    def compact(self, epoch: int, manifest: Manifest) -> tuple[list[str], Entry] | None:
        """Several files as one, which a commit is to put in their place; None when there is nothing to do."""
        chosen = next_compaction(manifest.entries)
        if not chosen:
            return None
        names = [entry.name for entry in chosen]
        rows = [RecentFile.open(self._folder, name).rows() for name in names]
        entry = self._write(epoch, RecentRows.joined(rows))
        faults.point("recent.compacted")
        return names, entry

    def retire(self, names: Sequence[str]) -> None:
        """Files that no manifest has any more: they are removed when readers had time to notice."""
        now = time.monotonic()
        with self._lock:
            self._retired += [(now, name) for name in names]
            old = [name for when, name in self._retired if now - when > GRACE]
            self._retired = [(when, name) for when, name in self._retired if now - when <= GRACE]
        for name in old:
            remove(os.path.join(self._folder, name))

    def _write(self, epoch: int, rows: RecentRows) -> Entry:
        with self._lock:
            self._serial += 1
            name = recent_name(epoch, self._serial)
            self.pending.add(name)
        settings = self._settings
        path = os.path.join(self._folder, name)
        size, about = write_recent(path, rows, settings.filters, settings.eps, self._durable)
        faults.point("recent.written")
        return Entry(name, 0, about.rows, about.oldest, about.newest, size)


def next_compaction(entries: Sequence[Entry]) -> Sequence[Entry]:
    """Neighbours that become one: FAN of one size, and what is smaller between them. Large ones are left as they are.

    >>> few = [Entry(str(i), i, 100, 0, 0, 0) for i in range(8)]
    >>> [entry.name for entry in next_compaction([Entry("big", 0, 10**6, 0, 0, 0), *few])]
    ['0', '1', '2', '3', '4', '5', '6', '7']
    """
    sizes = [_size(entry) for entry in entries]
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
