"""Verification: read every file of a store again, and compare it with its index and its checksums."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from quantide.errors import CorruptBytesError, InvalidArgumentError
from quantide.history.file_rebuild import read_sorted_rows
from quantide.history.snapshot import Snapshot
from quantide.store.checkpoint_file import is_loadable
from quantide.store.delta_log import survey_log
from quantide.store.file_names import FileName
from quantide.store.index_file import IndexFile
from quantide.store.location import verify_checksum
from quantide.store.recent_file import RecentFile
from quantide.store.recent_manifest import ManifestEntry
from quantide.store.storage import Storage
from quantide.store.store_settings import StoreSettings
from quantide.store.stored_rows import SortedRows, key_type
from quantide.store.stream_table import StreamTable
from quantide.typing import Ints

Name = FileName | str  # of a data file with its index file, or of a recent file


@dataclass(frozen=True)
class VerifyResult:
    """Number of intact files, and their values."""

    files: int
    values: int


def verify(table: StreamTable, snapshot: Snapshot, checked: set[Name]) -> VerifyResult:
    """Check all files of a snapshot except the `checked` ones; add the intact ones to these.

    Raise FileNotFoundError if one was compacted away in the meantime: a newer snapshot has others in its place.
    """
    damaged: list[Exception] = []
    for name, check in _checks(table, snapshot).items():
        try:
            if name not in checked:
                check()
                checked.add(name)
        except FileNotFoundError:
            if not _is_active(table, name):
                raise
            damaged.append(_missing(table.storage, name))
        except (InvalidArgumentError, ValueError) as error:
            damaged.append(error)
    if damaged:
        raise type(damaged[0])("; ".join(str(error) for error in damaged)) from damaged[0]
    return VerifyResult(len(snapshot.files), snapshot.history_rows + snapshot.stream_rows)


def check_log(storage: Storage) -> None:
    """Raise CorruptBytesError if files of the log are torn, or skipped by readers."""
    survey = survey_log(storage, is_loadable)
    if not survey.is_clean:
        raise CorruptBytesError(
            f"its log is damaged after version {survey.version}; all before is in order. "
            f"`quantide history repair {storage.path}` mends what can be mended"
        )


def check_run_file(storage: Storage, name: FileName, settings: StoreSettings) -> None:
    """Read a data file and its index file again, and compare the data stored in both."""
    storage = storage.uncached()
    index = IndexFile(storage.map(name.index), name.index)
    index.check()
    verify_checksum(storage, name.data, index.info.data_size, index.info.data_crc)
    tuples = index.tuples
    sampled = np.repeat(index.first_rows[:-1], np.diff(tuples.bounds)) + tuples.rmin - 1
    start = 0
    for rows in read_sorted_rows(storage, name.data, settings):
        if not _is_indexed(rows, start, index, sampled):
            raise CorruptBytesError(f"{name.index} is damaged: it differs from {name.data}")
        start += len(rows)
    if start != index.info.rows:
        raise CorruptBytesError(f"{name.index} is damaged: it differs from {name.data}")


def _is_indexed(rows: SortedRows, start: int, index: IndexFile, sampled: Ints) -> bool:
    """Return True if an index file describes these rows, from row `start` of the data file on.

    `sampled` are the rows of all tuples of its summaries.
    """
    end, size = start + len(rows), index.info.block_rows
    if end > index.info.rows:
        return False
    first, last = np.searchsorted(index.first_rows, start, "right") - 1, np.searchsorted(index.first_rows, end, "left")
    bounds = np.clip(index.first_rows[first : last + 1], start, end) - start
    low, high = np.searchsorted(sampled, (start, end))
    fences = index.fences[-(-start // size) : -(-end // size)]
    return (
        np.array_equal(rows.bounds, bounds)
        and rows.keys.equals(index.keys.slice(first, last - first))
        and np.array_equal(rows.values[-start % size :: size], fences)
        and np.array_equal(rows.values[sampled[low:high] - start], index.tuples.values[low:high])
    )


def _checks(table: StreamTable, snapshot: Snapshot) -> dict[Name, Callable[[], None]]:
    storage = table.storage.uncached()
    checks: dict[Name, Callable[[], None]] = {
        part.name: partial(check_run_file, storage, part.name, table.settings) for part in snapshot.files
    }
    manifest = table.load_manifest(None) if snapshot.recent is None else table.read_manifest(snapshot.recent)
    keys = key_type(table.settings.keys, snapshot.key_types)

    def check(entry: ManifestEntry) -> None:
        RecentFile.open(storage.map(entry.name), entry, manifest.clock, table.settings, keys).check()

    return checks | {entry.name: partial(check, entry) for entry in manifest.entries}


def _is_active(table: StreamTable, name: Name) -> bool:
    """Return True if a file belongs to the newest version."""
    table.refresh()
    if isinstance(name, FileName):
        return name in table.files()
    return any(entry.name == name for entry in table.load_manifest(table.manifest_number).entries)


def _missing(storage: Storage, name: Name) -> CorruptBytesError:
    """Return the error about an active file that is missing."""
    if isinstance(name, str):
        return CorruptBytesError(f"{name} is missing; restore it from a copy of the store")
    if storage.exists(name.data):
        return CorruptBytesError(f"{name.index} is missing; open the store for writing to rebuild it")
    return CorruptBytesError(f"{name.data} is missing; restore it from a copy of the store")
