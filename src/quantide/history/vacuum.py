"""Vacuum and restore: remove files that no version of the table needs, restore dropped runs while their files exist."""

from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from quantide.errors import CorruptBytesError, InvalidArgumentError
from quantide.store import fault_points
from quantide.store.file_names import DATA, INDEXES, AddedFile, FileName, RunId, final_name
from quantide.store.retired_files import RetiredAge, RetiredFiles
from quantide.store.storage import FileStatus, Storage
from quantide.store.writable_table import WritableTable

MAX_HOURS = 10**6


@dataclass(frozen=True)
class VacuumResult:
    """Number of removed files, and their bytes."""

    files: int
    bytes: int


def check_hours(hours: Any, name: str = "older_than_hours") -> float:
    """Return a number of hours; raise InvalidArgumentError if it is out of range."""
    if isinstance(hours, bool) or not isinstance(hours, (int, float)) or not 0 <= hours <= MAX_HOURS:
        raise InvalidArgumentError(f"{name} is a number from 0 to {MAX_HOURS}, not {hours!r}")
    return float(hours)


def vacuum(table: WritableTable, pending: Iterable[RunId], recent: Container[str], hours: float) -> VacuumResult:
    """Remove files that were compacted away or dropped at least that many hours ago, and files that were never
    committed.

    A reader may still use the files of an older version, so they are removed later. Their age is that of the commit
    that removed them from the table: it sets the time of a file in a folder, and is in the log for an object store.
    Files of a later epoch stay: then this writer was fenced off and does not know it yet.

    A compaction may run at the same time. So files are listed first, then pending runs, then active files: a listed
    file that is committed in between is in one of the two. A file that was active before they were listed stays, too:
    its time may be older than its removal. `recent` are the names of pending recent files.
    """
    storage = table.storage
    storage.check_confined()
    table.check_writer()
    active = set(table.files())
    listed = _list_files(storage)
    pending_runs = set(pending)
    active.update(table.files())
    latest = table.file_time() - hours * 3600
    storage.sync_all()  # replacements must survive a power loss before these are removed
    removed = table.clear_recent(recent, hours)
    files, size = table.clear_log(hours) + len(removed), sum(removed)
    for name, is_complete, file in listed:
        if name.run in pending_runs or name.epoch > table.epoch or (is_complete and name in active):
            continue
        if is_complete and hours and max(file.modified, table.removed_at(name) or file.modified) > latest:
            continue
        if storage.remove(file.name):
            files, size = files + 1, size + (0 if file.is_linked else file.size)
        fault_points.point("vacuum.removed")
    return VacuumResult(files, size)


def purge_retired(table: WritableTable, retired: RetiredFiles, grace: float | None) -> VacuumResult:
    """Remove files that retention retired that many hours ago; None: as many steps ago as half the retention has."""
    table.check_writer()
    step, retention = table.step, table.settings.retention

    def is_over(name: FileName, age: RetiredAge) -> bool:
        if name in active:  # it was restored
            return True
        if grace is not None:
            return age.seconds >= grace * 3600
        return step - age.step >= max(1, (retention or 0) // 2)

    with retired.lock:
        active = set(table.files())
        return VacuumResult(*retired.purge(step, is_over))


def _list_files(storage: Storage) -> list[tuple[FileName, bool, FileStatus]]:
    """Return the data and index files of a store, and True for those that are complete, not temporary."""
    listed = []
    for folder, parse in ((DATA, FileName.parse), (INDEXES, FileName.parse_index)):
        for file in (*storage.list_files(folder), *storage.list_remains(folder)):
            final = final_name(file.name)
            name = parse(final)
            if name is not None:
                listed.append((name, final == file.name, file))
    return listed


@dataclass(frozen=True)
class RestoreResult:
    """Number of restored files, and their values."""

    files: int
    values: int


def restore(table: WritableTable, retired: RetiredFiles) -> RestoreResult:
    """Add every retired file to the table in one commit; runs that are there now stay for one more retention."""
    with retired.lock:
        active, retired_names = set(table.files()), retired.list_files()
        names = [name for name in retired_names if name not in active and name.run.first >= table.first_step]
        retired.restore(names)
        files = [_file(table, name) for name in names]
        fault_points.point("restore.linked")
        if files:
            table.commit(add=files, extended=range(table.step))
        fault_points.point("restore.committed")
        table.storage.sync_all()  # a commit lost in a power loss must find the retired names again
        retired.remove(retired_names)  # including runs that are active already
    return RestoreResult(len(files), sum(rows for _, _, rows in files))


def _file(table: WritableTable, name: FileName) -> AddedFile:
    try:
        with table.storage.open(name.data) as file:
            return name, file.size(), pq.read_metadata(file).num_rows
    except (pa.ArrowException, OSError) as error:
        path = table.storage.full_path(name.data)
        raise CorruptBytesError(f"{path} cannot be restored: {error}; nothing was changed") from error
