"""Vacuum and restore: remove files that no version of the table needs, restore dropped runs while their files exist."""

import os
from collections.abc import Container, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from quantide.errors import CorruptBytesError, InvalidArgumentError
from quantide.store import fault_points
from quantide.store.durable_files import check_confined, remove, sync_filesystem
from quantide.store.file_names import DATA, INDEXES, AddedFile, FileName, RunId, final_name
from quantide.store.retired_files import RetiredAge, RetiredFiles
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

    A reader may still use the files of an older version, so they are removed later. Their age is that of the file's
    time, which is set when the table removes it. Files of a later epoch stay: then this writer was fenced off and does
    not know it yet.

    A compaction may run at the same time. So files are listed first, then pending runs, then active files: a listed
    file that is committed in between is in one of the two. `recent` are the names of pending recent files.
    """
    check_confined(table.path)
    table.check_writer()
    entries = _entries(table.path)
    pending_runs = set(pending)
    active = set(table.files())
    latest = table.file_time() - hours * 3600
    sync_filesystem(table.path)  # replacements must survive a power loss before these are removed
    removed = table.clear_recent(recent, hours)
    files, size = table.clear_log(hours) + len(removed), sum(removed)
    for name, is_complete, entry in entries:
        if name.run in pending_runs or name.run.epoch > table.epoch or (is_complete and name in active):
            continue
        with suppress(FileNotFoundError):
            status = entry.stat(follow_symlinks=False)
            if is_complete and hours and status.st_mtime > latest:
                continue
            is_removed = remove(entry.path)
            files, size = files + is_removed, size + (status.st_size if is_removed and status.st_nlink == 1 else 0)
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


def _entries(path: str) -> list[tuple[FileName, bool, "os.DirEntry[str]"]]:
    """Return the data and index files on disk, and True for those that are complete, not temporary."""
    entries = []
    for folder, parse in ((DATA, FileName.parse), (INDEXES, FileName.parse_index)):
        location = os.path.join(path, folder)
        listed = sorted(os.scandir(location), key=lambda entry: entry.name) if os.path.isdir(location) else []
        parsed = [(parse(f"{folder}/{final_name(entry.name)}"), entry) for entry in listed]
        entries += [(name, final_name(entry.name) == entry.name, entry) for name, entry in parsed if name is not None]
    return entries


@dataclass(frozen=True)
class RestoreResult:
    """Number of restored files, and their values."""

    files: int
    values: int


def restore(table: WritableTable, retired: RetiredFiles) -> RestoreResult:
    """Add every retired file to the table in one commit; runs that are there now stay for one more retention."""
    with retired.lock:
        active, retired_names = set(table.files()), retired.list_files()
        names = [name for name in retired_names if name not in active]
        retired.restore(names)
        files = [_file(table, name) for name in names]
        fault_points.point("restore.linked")
        if files:
            table.commit(add=files, extended=range(table.step))
        fault_points.point("restore.committed")
        sync_filesystem(table.path)  # a commit lost in a power loss must find the retired names again
        retired.remove(retired_names)  # including runs that are active already
    return RestoreResult(len(files), sum(rows for _, _, rows in files))


def _file(table: WritableTable, name: FileName) -> AddedFile:
    path = os.path.join(table.path, name.data)
    try:
        return name, os.path.getsize(path), pq.read_metadata(path).num_rows
    except (pa.ArrowException, OSError) as error:
        raise CorruptBytesError(f"{path} cannot be restored: {error}; nothing was changed") from error
