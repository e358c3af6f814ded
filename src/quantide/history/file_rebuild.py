"""Rebuild of lost files: index files from their data files, and a manifest of recent files from older ones.

If a manifest is lost and the log has no copy of it, the newest older manifest that is left lists the recent files up to
its version. Rows that were appended after it are listed in the new manifest as a missing file: a window that may
contain some of them is refused, until they are too old for any window.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from quantide.errors import CorruptBytesError
from quantide.store import fault_points
from quantide.store.data_file import BLOCK, open_data, read_rows
from quantide.store.file_names import RECENT, FileName, manifest_name, recent_name
from quantide.store.index_builder import IndexBuilder
from quantide.store.index_file import IndexFileInfo
from quantide.store.location import compute_checksum
from quantide.store.log_entry import DELETES, RECENT_FILES, LogEntry
from quantide.store.log_repair import LogFinding
from quantide.store.recent_file import RecentFile, RecentFileInfo
from quantide.store.recent_manifest import ManifestEntry, RecentManifest
from quantide.store.storage import Storage
from quantide.store.store_settings import StoreSettings
from quantide.store.stored_rows import ALL, SortedRows
from quantide.store.writable_table import WritableTable
from quantide.summary.key_encoding import encode_keys
from quantide.summary.value_types import ValueType, type_named
from quantide.typing import Array, Ints
from quantide.windows.time_clock import TimeClock

MAX_ENTRY_ROWS = 2**32 - 1  # of a manifest entry
MISSING_SERIAL = 2**32 - 1  # of the missing file; no writer reaches it


def rebuild_index(storage: Storage, name: FileName, settings: StoreSettings) -> bytes:
    """Return the bytes of an index file, computed from the data alone."""
    with open_data(storage, name.data, type_named(settings.value_type)) as parquet:
        rows = parquet.metadata.num_rows
    builder = IndexBuilder(bool(settings.keys), settings.chunk_profile, BLOCK, rows, 0)
    for piece in read_sorted_rows(storage, name.data, settings):
        builder.add(piece)
    if not rows or builder.rows != rows:
        raise CorruptBytesError(
            f"{storage.full_path(name.data)} is damaged: it has no rows, or not those of its footer"
        )
    size, crc = compute_checksum(storage, name.data)
    return builder.finish(IndexFileInfo(rows, settings.value_type, BLOCK, size, crc))


def replace_index(storage: Storage, name: FileName, settings: StoreSettings) -> None:
    """Write an index file anew. Readers that have mapped the old one keep it: it is not overwritten."""
    storage.replace(name.index, rebuild_index(storage, name, settings))
    fault_points.point("side.rebuilt")


def read_sorted_rows(storage: Storage, name: str, settings: StoreSettings) -> Iterator[SortedRows]:
    """Yield all rows of a data file in pieces; raise CorruptBytesError if they are not sorted by (key, value)."""
    kind, names, path = type_named(settings.value_type), settings.keys, storage.full_path(name)
    before: SortedRows | None = None
    for columns, values in read_rows(storage, name, kind, names):
        if not len(values):
            continue
        rows = _group_rows(path, kind, names, columns, values)
        if before is not None:
            _check_order(path, before, rows)
        yield rows
        before = rows.slice(len(rows) - 1, len(rows))


def _group_rows(path: str, kind: ValueType, names: Sequence[str], columns: list[pa.Array], values: Array) -> SortedRows:
    if not names:
        bounds, distinct = np.array([0, len(values)]), ALL
    else:
        key_column = columns[0] if len(names) == 1 else pa.StructArray.from_arrays(columns, names=list(names))
        codes, distinct = _encode(path, key_column)
        if (codes[1:] < codes[:-1]).any():
            raise CorruptBytesError(f"{path} is damaged: its keys are not in order")
        bounds = np.searchsorted(codes, np.arange(len(distinct) + 1))
    is_falling = values[1:] < values[:-1]
    is_falling[bounds[1:-1] - 1] = False  # values may fall from one key to the next
    if is_falling.any():
        raise CorruptBytesError(f"{path} is damaged: its values are not in order")
    return SortedRows(kind, distinct, bounds, values)


def _check_order(path: str, before: SortedRows, rows: SortedRows) -> None:
    """Check that the first row of a piece follows the last one of the piece before."""
    codes, _ = _encode(path, pa.concat_arrays([before.keys, rows.keys.slice(0, 1)]))
    if codes[1] < codes[0]:
        raise CorruptBytesError(f"{path} is damaged: its keys are not in order")
    if codes[1] == codes[0] and rows.values[0] < before.values[-1]:
        raise CorruptBytesError(f"{path} is damaged: its values are not in order")


def _encode(path: str, keys: pa.Array) -> tuple[Ints, pa.Array]:
    """Encode a key column. Texts stay dictionary-encoded until then: decoded they could be huge."""
    try:
        return encode_keys(keys)
    except (pa.ArrowException, LookupError) as error:
        raise CorruptBytesError(f"{path} is damaged: its keys cannot be read: {error}") from error


def rebuild_manifest(table: WritableTable) -> tuple[RecentManifest, LogFinding]:
    """Return a manifest for the table's version, and a finding that says what it lacks."""
    number = table.manifest_number
    assert number is not None
    older, missing_rows = _find_older(table, number)
    if older is None:
        manifest = RecentManifest(arrived=missing_rows)
        lost = f"windows contain only rows appended from now on, and none of the {missing_rows:,} before"
    elif missing_rows:
        manifest = _with_gap(table, older, missing_rows)
        until = TimeClock(manifest.clock or "").show(manifest.entries[-1].newest)
        lost = f"{missing_rows:,} rows are in no list; windows over times up to {until} that may have some are refused"
    else:
        manifest, lost = older, ""
    problem = f"is lost, and there is no copy of it in the log{': ' * bool(lost)}{lost}"
    action = "a new one is written" if lost else "an older one of the same rows takes its place"
    return manifest, LogFinding("manifest", manifest_name(number), problem, action, bool(lost), missing_rows)


def _with_gap(table: WritableTable, older: RecentManifest, missing_rows: int) -> RecentManifest:
    """Add an entry for the rows appended since, whose file is missing."""
    files = [about for about in _recent_files(table) if about.clock == older.clock]
    newest = max((older.newest, *(about.newest for about in files)))
    oldest = min((older.newest, *(about.oldest for about in files)))
    latest = newest if older.clock == "seconds" else max(newest, time.time_ns())
    arrived, rows = older.arrived + missing_rows, min(missing_rows, MAX_ENTRY_ROWS)
    gap = ManifestEntry(recent_name(table.epoch, MISSING_SERIAL), arrived - rows, rows, oldest, latest, 0)
    return replace(older, arrived=arrived, newest=newest, entries=(*older.entries, gap))


def _find_older(table: WritableTable, number: int) -> tuple[RecentManifest | None, int]:
    """Return the newest older manifest with a clock and the number of rows appended after it; without one, all rows."""
    rows = 0
    for version in range(table.version, -1, -1):
        try:
            entry = LogEntry.read(table.log.read_entry(version))
        except FileNotFoundError:
            break
        older = entry.transactions.get(RECENT_FILES)
        manifest = _read(table, older) if isinstance(older, int) and older < number else None
        if manifest is not None and manifest.clock is not None:
            return manifest, rows
        if DELETES in entry.transactions:  # older manifests list rows that were deleted
            break
        rows += entry.rows_added
    return None, max(rows, table.rows())


def _read(table: WritableTable, number: int) -> RecentManifest | None:
    name = manifest_name(number)
    try:
        return RecentManifest.from_json(bytes(table.storage.map(name)).decode(errors="replace"), name)
    except (FileNotFoundError, CorruptBytesError):
        return table.find_manifest_copy(number)


def _recent_files(table: WritableTable) -> Iterator[RecentFileInfo]:
    """Return the header of every readable recent file, whether the manifest lists it or not."""
    for file in table.storage.list_files(RECENT):
        if file.name.endswith(".recent"):
            try:
                about = RecentFile(table.storage.map(file.name), file.name).info
            except (FileNotFoundError, CorruptBytesError):
                continue
            yield about
