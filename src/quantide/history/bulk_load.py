"""Bulk load: chunks written by many tasks, here or on other machines, and made visible by one commit."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from quantide.errors import InvalidArgumentError
from quantide.history.appended_rows import ParquetPiece
from quantide.history.chunk_sort import merge_chunk, sort_chunk
from quantide.history.compaction_tasks import write_partition
from quantide.history.history_writer import AppendFiles, HistoryWriter
from quantide.history.recent_writer import write_entry
from quantide.kernels.block_sort import sorted_copy
from quantide.store import fault_points
from quantide.store.file_names import FileName, RunId, recent_name
from quantide.store.recent_manifest import ManifestEntry, RecentManifest
from quantide.store.storage import Storage
from quantide.store.store_settings import StoreSettings
from quantide.store.stored_rows import RecentRows
from quantide.store.writable_table import ManifestChange
from quantide.summary.value_types import type_named
from quantide.typing import Array
from quantide.windows.time_clock import TimeClock, TimeHorizon

RUNS_PER_TASK = 1 << 12  # names reserved for each task
RECENT_PER_RUN = 16  # recent files reserved for each run


@dataclass(frozen=True)
class NameReservation:
    """File names reserved for tasks, and the settings they write by; `manifest` has the clock of the recent rows."""

    storage: Storage
    step: int
    epoch: int
    serial: int
    settings: StoreSettings
    recent: int = 0
    manifest: RecentManifest = field(default_factory=RecentManifest)
    now: int = 0  # time of rows without times, in nanoseconds
    chunks: int = 0  # chunks that a task has written already

    def after_chunks(self, chunks: int) -> "NameReservation":
        """Return the reservation for a task that has written this many chunks already."""
        serial, recent = self.serial + chunks, self.recent + chunks * RECENT_PER_RUN
        return replace(self, serial=serial, recent=recent, chunks=self.chunks + chunks)


@dataclass(frozen=True)
class WrittenFile:
    """File that a task wrote, by its path in the store, and the recent files of its rows."""

    data: str
    size: int
    rows: int
    recent: tuple[ManifestEntry, ...] = ()
    clock: str | None = None  # of the recent files
    given: bool = False  # True if the rows had times

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "WrittenFile":
        """Return the file of which asdict() made these fields."""
        return cls(**{**fields, "recent": tuple(ManifestEntry(**entry) for entry in fields["recent"])})


def write_chunks(names: NameReservation, task: int, pieces: Iterable[ParquetPiece], nan: str) -> list[WrittenFile]:
    """Write each piece as a chunk of its own; return the files that task number `task` wrote."""
    settings, files = names.settings, []
    kind = type_named(settings.value_type)
    for count, piece in enumerate(pieces):
        if names.chunks + count >= RUNS_PER_TASK:
            raise InvalidArgumentError(f"a task writes at most {RUNS_PER_TASK} chunks; give it less to load")
        number = task * RUNS_PER_TASK + count
        run = RunId(names.step, names.step, 0, names.epoch, names.serial + number)
        row_groups, in_order, clock, given = list[RecentRows](), list[Array](), None, False
        if piece.recent is not None and len(piece.recent.values):
            store_clock, row_groups = piece.recent.split(settings, names.manifest, names.now)
            if len(row_groups) > RECENT_PER_RUN:
                raise InvalidArgumentError(f"{len(piece.recent.values)} rows in one piece; give them in smaller ones")
            clock, given = store_clock.kind, piece.recent.times is not None
        if row_groups and piece.keys is None:  # sorted once, for their summaries and for the chunk
            in_order = [sorted_copy(rows.values) for rows in row_groups]
            chunk = merge_chunk(in_order, piece.column, kind, nan)
        else:
            chunk = sort_chunk(piece.keys, piece.column, kind, nan)
        entries = []
        for i, rows in enumerate(row_groups):
            recent = recent_name(names.epoch, names.recent + number * RECENT_PER_RUN + i)
            sorted_values = in_order[i] if in_order else None
            entries.append(write_entry(names.storage, recent, rows, settings, sorted_values))
        for part in range(len(chunk.partitions)):
            name = FileName(run, part)
            written = write_partition(names.storage, name, chunk, settings, ())
            recent_fields = (tuple(entries), clock, given) if part == 0 else ()
            files.append(WrittenFile(name.data, written.size, written.rows, *recent_fields))
    return files


class BulkLoad:
    """Load of files that tasks write: reserve names, let the tasks write under them, then commit the files.

    `is_repeat` is True if the table has a batch of that id already; then there is nothing to load.
    """

    def __init__(self, writer: HistoryWriter, batch: Any, is_repeat: bool) -> None:
        self._writer, self._batch, self.is_repeat = writer, batch, is_repeat
        self._is_closed = False

    def close(self) -> None:
        """Refuse further calls: the lock of the history is released."""
        self._is_closed = True

    def reserve(self, tasks: int) -> NameReservation:
        """Reserve file names for some number of tasks."""
        self._check_open()
        table, writer = self._writer.table, self._writer
        first, recent = (
            writer.serials.reserve(tasks * RUNS_PER_TASK),
            writer.recent.reserve(tasks * RUNS_PER_TASK * RECENT_PER_RUN),
        )
        return NameReservation(table.storage, table.step, table.epoch, first, table.settings, *recent)

    def commit(self, names: NameReservation, written: Sequence[WrittenFile]) -> int:
        """Make all files visible in one commit; return the number of their rows."""
        self._check_open()
        writer, added = self._writer, []
        for file in written:
            name = FileName.parse(file.data)
            assert name is not None
            added.append((name, file.size, file.rows))
        entries = [entry for file in written for entry in file.recent]
        recent = self._recent_change(written, entries, names.manifest.ahead) if entries else writer.count_change(added)
        rows = AppendFiles(added, entries, any(file.given for file in written))
        fault_points.point("append.written")
        writer.recent.finish((), writer.commit(rows, self._batch, recent))
        writer.schedule_compaction(len({name.run for name, _, _ in added}))
        return sum(rows for _, _, rows in added)

    def _check_open(self) -> None:
        if self.is_repeat:
            raise InvalidArgumentError(f"batch {self._batch!r} is in the table already; check is_repeat before a load")
        if self._is_closed:
            raise InvalidArgumentError("this load has ended; begin another with History.bulk_load()")

    def _recent_change(
        self, written: Sequence[WrittenFile], entries: Sequence[ManifestEntry], ahead: int
    ) -> ManifestChange:
        """Return the change of the manifest that shows recent files; they must have all rows, on one clock."""
        clocks = {(file.clock, file.given) for file in written if file.recent}
        if len(clocks) > 1 or sum(entry.rows for entry in entries) != sum(file.rows for file in written):
            raise InvalidArgumentError(
                "some rows came with times, and others without or on another clock; give one kind"
            )
        clock, given = clocks.pop()
        assert clock is not None
        max_ahead = self._writer.table.settings.ahead
        if given and max_ahead is not None:
            TimeHorizon.of(max_ahead).check(TimeClock(clock), np.array([entry.newest for entry in entries]))
        return self._writer.recent.manifest_change(entries, clock, given, 0 if given else ahead)
