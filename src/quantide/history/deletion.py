"""Deletion of rows for good: of one key, or of the oldest steps.

A deletion is one commit, like everything else. A data file that has rows of a key is written again without them, as a
new file in its place; other files stay. The old files are gone from disk after vacuum(). Copies outside of the table
are edited or removed as well: recent files, retired runs, files set aside, and rows in quarantine.

Batches of deleted rows still count as seen: appending one again adds nothing.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from quantide.errors import CorruptBytesError, SpanError
from quantide.history import compaction_plan
from quantide.history.compaction_tasks import CompactionInput, CompactionTask
from quantide.history.history_writer import HistoryWriter
from quantide.history.row_removal import remove_rows
from quantide.history.run import Key, Run, RunFile, find_key
from quantide.history.snapshot import Snapshot
from quantide.store import fault_points
from quantide.store.file_names import DATA, QUARANTINE, RETIRED, STAGING, AddedFile, FileName, RunId
from quantide.store.index_file import IndexFile
from quantide.store.log_repair import ASIDE
from quantide.store.recent_file import RecentFile
from quantide.store.recent_manifest import ManifestEntry, RecentManifest
from quantide.store.storage import FileStatus
from quantide.store.stored_rows import RecentRows, key_type
from quantide.windows.time_clock import NANOSECONDS


@dataclass(frozen=True)
class DeleteResult:
    """Number of deleted rows; number and bytes of the files that had them, which vacuum() removes.

    `unchecked` are files of the store that may have such rows, and were not changed because they cannot be read.
    """

    rows: int = 0
    files: int = 0
    bytes: int = 0
    unchecked: tuple[str, ...] = ()

    def __add__(self, other: "DeleteResult") -> "DeleteResult":
        counts = self.rows + other.rows, self.files + other.files, self.bytes + other.bytes
        return DeleteResult(*counts, (*self.unchecked, *other.unchecked))


@dataclass(frozen=True)
class KeyFile:
    """Data file that has rows of a key: start to end."""

    file: RunFile
    start: int
    end: int


def find_key_files(snapshot: Snapshot, key: Key) -> list[KeyFile]:
    """Return the data files of a snapshot that have a key."""
    found = []
    for run in (*snapshot.runs, *snapshot.chunks):
        for file, index in run.locate(key):
            found.append(KeyFile(file, *file.index.first_rows[index : index + 2].tolist()))
    return found


class Deletion:
    """Deletes rows of a store. With `dry_run` nothing changes, and the lease is not needed.

    `snapshot` returns the newest snapshot, `write_lock` is the lock of all writes of this process.
    """

    def __init__(
        self,
        writer: HistoryWriter,
        snapshot: Callable[[], Snapshot],
        write_lock: AbstractContextManager[Any],
        dry_run: bool,
    ) -> None:
        self._writer, self._snapshot, self._write_lock, self._dry_run = writer, snapshot, write_lock, dry_run
        self._table, self._storage = writer.table, writer.table.storage

    # Rows of a key

    def delete_key(self, key: Key) -> DeleteResult:
        """Delete all rows of a key.

        Large files are rewritten while appends go on; those of later appends, and the rest, while none does.
        """
        if self._dry_run:
            return self._commit_key(key, self._snapshot(), None)
        with self._rewrites(key) as rewrites:
            with self._writer.compactor.compaction_lock:
                rewrites.write(self._snapshot())
            with self._locks():
                snapshot = self._snapshot()
                rewrites.write(snapshot)
                return self._commit_key(key, snapshot, rewrites)

    @contextmanager
    def _rewrites(self, key: Key) -> Iterator["KeyRewrites"]:
        rewrites = KeyRewrites(self._writer, key)
        try:
            yield rewrites
        finally:
            rewrites.release()

    @contextmanager
    def _locks(self) -> Iterator[None]:
        """Block all other changes of the table; wait for a running compaction."""
        writer = self._writer
        with self._write_lock, writer.compactor.compaction_lock, writer.recent.compaction_lock, writer.retired.lock:
            yield

    def _commit_key(self, key: Key, snapshot: Snapshot, rewrites: "KeyRewrites | None") -> DeleteResult:
        found = find_key_files(snapshot, key)
        rows = sum(one.end - one.start for one in found)
        result = DeleteResult(rows, len(found), sum(one.file.index.info.data_size for one in found))
        entries, unchecked = self._find_entries(snapshot, key)
        result += _count_files([(entry.name, entry.size) for entry in entries], unchecked)
        result += self._edit_copies(lambda name: self._has_key(name, key), key)
        if rewrites is not None and (found or entries):

            def edit(_: ManifestEntry, rows: RecentRows) -> RecentRows | None:
                index = find_key(rows.keys, key)
                mask = np.ones(len(rows), dtype=bool)
                mask[rows.bounds[index] : rows.bounds[index + 1]] = False
                return rows.select(mask) if mask.any() else None

            added = [written for one in found if (written := rewrites.added[one.file.name]) is not None]
            self._commit(added, [one.file.name for one in found], entries, edit, rows, 1)
        return result

    def _find_entries(self, snapshot: Snapshot, key: Key) -> tuple[list[ManifestEntry], list[str]]:
        """Return the recent files that have a key, and the unreadable ones."""
        manifest = self._manifest(snapshot)
        settings, entries, unreadable = self._table.settings, [], []
        keys = key_type(settings.keys, snapshot.key_types)
        for entry in manifest.entries:
            try:
                file = RecentFile.open(self._storage.map(entry.name), entry, manifest.clock, settings, keys)
            except (CorruptBytesError, FileNotFoundError):
                unreadable += [entry.name] if self._storage.exists(entry.name) else []
                continue
            if find_key(file.keys, key) >= 0:
                entries.append(entry)
        return entries, unreadable

    def _has_key(self, name: FileName, key: Key) -> bool:
        """Return True if a retired file has a key; an unreadable one may have it."""
        try:
            return find_key(IndexFile(self._writer.retired.map_index(name), name.index).keys, key) >= 0
        except (CorruptBytesError, FileNotFoundError):
            return True

    # The oldest steps

    def delete_before(self, step: int, time: int | None) -> DeleteResult:
        """Delete all steps before one, and recent rows of times before `time`, its first one, if that is known."""
        if self._dry_run:
            return self._commit_before(step, time)
        with self._locks():
            return self._commit_before(step, time)

    def _commit_before(self, step: int, time: int | None) -> DeleteResult:
        snapshot = self._snapshot()
        runs = select_before(snapshot, step)
        files = [part for run in runs for part in run.parts]
        rows = sum(run.rows for run in runs)
        result = DeleteResult(rows, len(files), sum(file.index.info.data_size for file in files))
        manifest = self._manifest(snapshot)
        kept = snapshot.history_rows + snapshot.stream_rows - rows
        unlisted = max(self._table.unlisted, kept + rows - manifest.arrived)
        deleted = DeletedRecentRows(manifest, kept - unlisted, None if time is None else self._to_clock(manifest, time))
        entries = [entry for entry in manifest.entries if deleted.cuts(entry)]
        lost = [entry for entry in entries if not deleted.removes(entry) and not self._is_readable(entry, manifest)]
        entries = [entry for entry in entries if entry not in lost]
        result += _count_files([(entry.name, entry.size) for entry in entries], [entry.name for entry in lost])
        result += self._edit_copies(lambda name: name.run.first < step, None, step)
        if not self._dry_run and (files or entries or step > snapshot.first_step):
            self._commit([], [file.name for file in files], entries, deleted.edit, rows, step, deleted)
        return result

    def _is_readable(self, entry: ManifestEntry, manifest: RecentManifest) -> bool:
        table = self._table
        keys = key_type(table.settings.keys, table.key_types())
        try:
            RecentFile.open(self._storage.map(entry.name), entry, manifest.clock, table.settings, keys)
        except (CorruptBytesError, FileNotFoundError):
            return False
        return True

    def _to_clock(self, manifest: RecentManifest, time: int) -> Any:
        """Return a time as a number of the clock of recent rows; None if they have another clock than the wall clock's.

        Seconds are those since 1970 only where times are compared with the wall clock.
        """
        if manifest.clock != "seconds":
            return time
        return None if self._table.settings.ahead is None else time / NANOSECONDS

    # Both

    def _manifest(self, snapshot: Snapshot) -> RecentManifest:
        if self._table.settings.window is None:
            return RecentManifest()
        return self._table.load_manifest(snapshot.recent)

    def _commit(
        self,
        added: list[AddedFile],
        removed: list[FileName],
        entries: list[ManifestEntry],
        edit: Callable[[ManifestEntry, RecentRows], RecentRows | None],
        rows: int,
        first_step: int,
        cut: "DeletedRecentRows | None" = None,
    ) -> None:
        """Commit a deletion; recent files of which all rows are deleted need not be readable."""
        recent, table = self._writer.recent, self._table
        whole = [] if cut is None else [entry for entry in entries if cut.removes(entry)]
        rewritten: dict[str, ManifestEntry | None] = dict.fromkeys(entry.name for entry in whole)
        rewritten |= recent.rewrite([entry for entry in entries if entry.name not in rewritten], edit)
        listed = sum(entry.rows - _rows(rewritten[entry.name]) for entry in entries)

        def change(manifest: RecentManifest) -> RecentManifest:
            return manifest.without_rows(rewritten, max(0, rows - listed))

        obsolete: list[str] = []
        try:
            fault_points.point("delete.written")
            change_manifest = None if table.settings.window is None else change
            unlisted = 0 if cut is None else cut.late + sum(map(cut.count_late, whole))
            obsolete = table.commit(
                added, removed, change_manifest=change_manifest, first_step=first_step, unlisted=unlisted
            )
        finally:
            recent.finish([entry for entry in rewritten.values() if entry is not None], obsolete)
        fault_points.point("delete.committed")

    def _edit_copies(
        self, is_retired: Callable[[FileName], bool], key: Key | None, step: int | None = None
    ) -> DeleteResult:
        """Remove rows from the files of the store that are not in the table; return their counts.

        This precedes the commit: none of these rows can be restored once it is there. After a failure the call is
        repeated, and finds the others.
        """
        if not self._dry_run:
            self._table.check_writer()
        retired = [name for name in self._writer.retired.list_files() if is_retired(name)]
        sizes = {file.name.rpartition("/")[2]: file.size for file in self._storage.list_files(RETIRED)}
        result = _count_files([(name.stem, sizes.get(f"{name.stem}.parquet", 0)) for name in retired])
        if not self._dry_run:
            self._writer.retired.remove(retired)
        files = [file for file in self._storage.list_files(ASIDE) if file.name.endswith(".parquet")]
        if key is None:
            return result + self._remove_aside(files, step)
        staged = self._storage.list_files(STAGING)
        files += [file for file in self._storage.list_files(QUARANTINE) if file.name.endswith(".parquet")]
        return result + self._edit_files(files, key) + _count_files([], [file.name for file in staged])

    def _remove_aside(self, files: Iterable[FileStatus], step: int | None) -> DeleteResult:
        """Remove files that were set aside and have only rows of deleted steps; report those that have others, too."""
        result = DeleteResult()
        for file in files:
            name = FileName.parse(file.name.replace(ASIDE, DATA, 1))
            if name is None or step is None or name.run.first >= step:
                continue
            if name.run.last >= step:
                result += _count_files([], [file.name])
                continue
            result += _count_files([(file.name, file.size)])
            if not self._dry_run:
                self._storage.remove(file.name)
        return result

    def _edit_files(self, files: Iterable[FileStatus], key: Key) -> DeleteResult:
        """Remove rows of a key from Parquet files."""
        result, settings = DeleteResult(), self._table.settings
        types = self._table.key_types() or []
        for file in files:
            columns = dict(zip(settings.keys, types, strict=True))
            removed, is_certain = remove_rows(self._storage, file.name, columns, key, self._dry_run)
            result += _count_files([(file.name, file.size)] if removed else [], [] if is_certain else [file.name])
        return result


class KeyRewrites:
    """Data files written again without the rows of a key; `added` has them by the names of the old ones.

    None stands for a file that has no other rows. Until release() the files are pending: vacuum keeps them.
    """

    def __init__(self, writer: HistoryWriter, key: Key) -> None:
        self._writer, self._key = writer, key
        self.added: dict[FileName, AddedFile | None] = {}
        self._runs: set[RunId] = set()

    def write(self, snapshot: Snapshot) -> None:
        """Write the files of a snapshot that have the key and are not written yet."""
        writer, tasks = self._writer, []
        found = [one for one in find_key_files(snapshot, self._key) if one.file.name not in self.added]
        writer.table.storage.check_space(sum(one.file.index.info.data_size for one in found) * 5 // 4)
        for one in found:
            self._runs.add(one.file.name.run)
            task = self._plan(one)
            if task is None:
                self.added[one.file.name] = None
            else:
                tasks.append(task)
        writer.serials.pending.update(self._runs)
        tasks.sort(key=lambda task: task.name.part)  # the order in which executors return their outputs
        for task, output in zip(tasks, writer.compactor.executor.map(tasks), strict=True):
            self.added[task.sources[0].name] = task.name, output.size, output.rows

    def release(self) -> None:
        """Mark the files as committed or given up."""
        self._writer.serials.release(self._runs)

    def _plan(self, one: KeyFile) -> CompactionTask | None:
        """Return the task that writes a file without the rows of the key; None if it has no others."""
        name, index, table = one.file.name, one.file.index, self._writer.table
        ranges = [(start, end) for start, end in ((0, one.start), (one.end, index.info.rows)) if start < end]
        if not ranges:
            return None
        settings = table.settings
        return CompactionTask(
            storage=table.storage,
            name=replace(name, rewrite=(table.epoch, self._writer.serials.reserve(1))),
            run_rows=sum(end - start for start, end in ranges),
            before=0,
            range_rows=compaction_plan.TASK_ROWS,
            value_type=settings.value_type,
            keys=settings.keys,
            profile=settings.run_profile if name.run.level else settings.chunk_profile,
            sources=tuple(CompactionInput(name, start, end, i == 0) for i, (start, end) in enumerate(ranges)),
        )


def select_before(snapshot: Snapshot, step: int) -> list[Run]:
    """Return the runs of all steps before one; raise SpanError if a run has earlier and later steps."""
    cut = [run for run in snapshot.runs if run.id.first < step <= run.id.last]
    if cut:
        first, last = min(run.id.first for run in cut), max(run.id.last for run in cut)
        raise SpanError(
            f"before={step} would cut a run of steps {first} to {last}, whose rows do not tell their step; it can be "
            f"{first}, which leaves the run, or {last + 1}, which deletes it"
        )
    return [run for run in snapshot.runs if run.id.last < step]


class DeletedRecentRows:
    """Recent rows of deleted steps: the oldest arrivals, and rows of times before `time` if it is given.

    Rows of the steps that stay are the newest arrivals, as many (`kept`) as the table has of them. Rows that left the
    windows before may be of any step: as many more are deleted.
    """

    def __init__(self, manifest: RecentManifest, kept: int, time: Any) -> None:
        self._first = manifest.arrived - max(0, kept)  # first arrival number that stays
        self._time = time
        self.late = 0  # rows of earlier times that arrived later, and stay in history

    def cuts(self, entry: ManifestEntry) -> bool:
        """Return True if rows of a file are deleted."""
        return entry.first < self._first or (self._time is not None and bool(entry.oldest < self._time))

    def removes(self, entry: ManifestEntry) -> bool:
        """Return True if all rows of a file are deleted, whatever their times are in detail."""
        is_earlier = self._time is not None and bool(entry.newest < self._time)
        return entry.first + entry.rows <= self._first or is_earlier

    def count_late(self, entry: ManifestEntry) -> int:
        """Return how many rows of a file whose rows are all deleted stay in history."""
        return max(0, entry.first + entry.rows - max(entry.first, self._first))

    def edit(self, entry: ManifestEntry, rows: RecentRows) -> RecentRows | None:
        """Return the rows that stay; None if there are none."""
        numbers = np.arange(len(rows)) if rows.numbers is None else rows.numbers
        mask = numbers.astype(np.int64) >= self._first - entry.first
        if self._time is not None:
            is_late = mask & (rows.times < self._time)
            self.late += int(np.count_nonzero(is_late))
            mask &= ~is_late
        return rows.select(mask) if mask.any() else None


def _rows(entry: ManifestEntry | None) -> int:
    return 0 if entry is None else entry.rows


def _count_files(sizes: Iterable[tuple[str, int]], unchecked: Iterable[str] = ()) -> DeleteResult:
    listed = list(sizes)
    return DeleteResult(0, len(listed), sum(size for _, size in listed), tuple(unchecked))
