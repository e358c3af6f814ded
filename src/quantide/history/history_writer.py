"""Writer: appends chunks and ends steps. Every change is one commit.

A commit that raised CommitUncertainError may be in the table. The next call that repeats it is recognised by the
content of its files: both calls wrote their rows before they tried to commit them.
"""

import hashlib
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from threading import get_ident
from typing import Any

import numpy as np

from quantide.errors import CommitUncertainError, RepairWarning
from quantide.history.appended_rows import AppendedRows
from quantide.history.chunk_sort import SortedChunk, in_threads
from quantide.history.compaction_tasks import CompactionOutput, Executor, run_files, write_partition
from quantide.history.compactor import Compactor, RunSerials
from quantide.history.recent_writer import RecentWriter
from quantide.history.snapshot import Snapshot
from quantide.store import fault_points
from quantide.store.file_names import AddedFile, FileName, RunId
from quantide.store.recent_file import RecentFile
from quantide.store.recent_manifest import ManifestEntry
from quantide.store.retired_files import RetiredFiles
from quantide.store.storage import Lease
from quantide.store.stored_rows import keys_to_bytes
from quantide.store.writable_table import ManifestChange, WritableTable


@dataclass(frozen=True)
class AppendFiles:
    """Files of an append: data files, and recent files, whose times were given or are those of the call."""

    files: Sequence[AddedFile]
    recent: Sequence[ManifestEntry] = ()
    times_given: bool = False


@dataclass(frozen=True)
class CommitAttempt:
    """Commit that may be in the table, under the id in its error."""

    batch: Any
    rows: AppendFiles | None  # None: the commit ended a step
    thread: int


class CommitAttempts:
    """Last uncertain commit of a writer."""

    def __init__(self, table: WritableTable) -> None:
        self._table = table
        self._last: CommitAttempt | None = None

    def record(self, error: CommitUncertainError, rows: AppendFiles | None = None) -> None:
        """Record a commit that may be in the table."""
        self._last = CommitAttempt(error.batch_id, rows, get_ident())

    def batch_seen(self, batch: Any) -> bool:
        """Return True if a batch is in the table; then it needs no repeat."""
        in_table = self._table.batch_seen(batch)
        if in_table and self._last is not None and self._last.batch == batch:
            self._last = None
        return in_table

    def is_repeat(self, rows: AppendFiles | None = None) -> bool:
        """Return True if a call repeats an attempt that is in the table.

        This clears the attempt, unless the call is of another thread and has other rows.
        """
        last = self._last
        if last is None or (last.rows is None) != (rows is None):
            return False
        in_table = self._table.batch_seen(last.batch)
        same = in_table and (rows is None or last.rows is None or self._digest(rows) == self._digest(last.rows))
        if same or not in_table or last.thread == get_ident():
            self._last = None
        return same

    def clear(self) -> None:
        """Clear the attempt of this thread: another commit of it succeeded."""
        if self._last is not None and self._last.thread == get_ident():
            self._last = None

    def _digest(self, rows: AppendFiles) -> list[bytes]:
        """Return digests of the content of all files, in an order that does not depend on their names."""
        storage = self._table.storage
        digests = [hashlib.sha256(storage.map(name.data)).digest() for name, _, _ in rows.files]
        return sorted(digests) + sorted(self._digest_recent(entry.name, rows.times_given) for entry in rows.recent)

    def _digest_recent(self, name: str, times_given: bool) -> bytes:
        rows = RecentFile(self._table.storage.map(name), name).rows()
        parts = [rows.values, rows.bounds, rows.numbers, rows.flags, rows.times if times_given else None]
        digest = hashlib.sha256(keys_to_bytes(rows.keys))
        for part in parts:
            digest.update(b"none" if part is None else np.ascontiguousarray(part).tobytes())
        return digest.digest()


class HistoryWriter:
    """Writer that has the store's lease from its first write on."""

    def __init__(self, table: WritableTable, snapshot: Callable[[], Snapshot], executor: Executor | None) -> None:
        self.table, self._snapshot = table, snapshot
        self._lease: Lease | None = None
        self.serials = RunSerials(table)
        self.retired = RetiredFiles(table.storage)
        self.compactor = Compactor(table, snapshot, self.serials, self.retired, lambda: self.is_active, executor)
        self.recent = RecentWriter(table)
        self.attempts = CommitAttempts(table)

    @property
    def is_active(self) -> bool:
        return self._lease is not None

    def acquire(self) -> None:
        """Take the lease, unless this handle has it."""
        if self._lease is None:
            lease = self.table.storage.acquire_lease()
            try:
                self.table.take_over()
            except BaseException:
                lease.release()
                raise
            self._lease = lease
            for finding in self.table.repairs:
                warnings.warn(f"{self.table.path}: {finding}", RepairWarning, 4)

    def append(self, chunks: Iterable[SortedChunk], batch: Any, recent_rows: AppendedRows | None = None) -> int:
        """Append chunks, all visible at once, with `recent_rows` as recent files; return the number of rows."""
        step = self.table.step
        added: list[AddedFile] = []
        runs = []
        entries: list[ManifestEntry] = []
        removed: list[str] = []
        try:
            for chunk in chunks:
                if chunk.rows:
                    run = self.serials.new_run(step, step, 0)
                    runs.append(run)
                    added += self._write_chunk(run, chunk, batch)
            recent = self.count_change(added)
            if added and recent_rows is not None:
                entries, recent = self.recent.write(recent_rows)
            fault_points.point("append.written")
            if added or batch is not None:
                given = recent_rows is not None and recent_rows.times is not None
                removed = self.commit(AppendFiles(added, entries, given), batch, recent)
        finally:
            self.serials.release(runs)
            self.recent.finish(entries, removed)
        self.schedule_compaction(len(runs))
        return sum(rows for _, _, rows in added)

    def end_step(self) -> None:
        """End the open step: its chunks become runs, to be compacted."""
        if self.attempts.is_repeat():
            return
        self.compactor.check()
        self.recent.check()
        snapshot = self._snapshot()
        if (
            not self.compactor.is_behind or snapshot.chunks
        ):  # else this repeats a call that ended the step and failed later
            self.compactor.check_space((*snapshot.runs, *snapshot.chunks), snapshot.step + 1)
            try:
                self.table.commit(step=snapshot.step)
            except CommitUncertainError as error:
                self.attempts.record(error)
                raise
            self.attempts.clear()
            fault_points.point("step.ended")

    def join(self) -> None:
        """Wait for background compactions; raise their error."""
        try:
            self.compactor.join()
        finally:
            self.recent.join()
            self.table.maintenance.wait()

    def close(self) -> None:
        try:
            self.join()
        finally:
            self.recent.close()
            self.compactor.close()
            self.table.close()
            self.release()

    def release(self) -> None:
        """Release the lease. A running compaction may commit, unless another writer takes over and fences it off."""
        if self._lease is not None:
            self._lease.release()
            self._lease = None

    def commit(self, rows: AppendFiles, batch: Any, recent: ManifestChange | None) -> list[str]:
        """Commit rows, unless this repeats a commit that is in the table although it raised an error."""
        if batch is None and self.attempts.is_repeat(rows):
            return []
        try:
            removed = self.table.commit(add=rows.files, batch=batch, change_manifest=recent)
        except CommitUncertainError as error:
            self.attempts.record(error, rows)
            raise
        self.attempts.clear()
        return removed

    def schedule_compaction(self, chunks: int) -> None:
        """Count new chunks; once there are too many, compact them, and recent files, in the background.

        While the log cannot be read, that waits for the next append: this one is committed, and must not fail.
        """
        if self.table.is_behind:
            return
        self.recent.schedule_compaction()
        self.compactor.schedule_compaction(chunks)

    def _write_chunk(self, run: RunId, chunk: SortedChunk, batch: Any) -> list[AddedFile]:
        table, sources = self.table, [] if batch is None else [str(batch)]

        def write(part: int) -> CompactionOutput:
            return write_partition(table.storage, FileName(run, part), chunk, table.settings, sources)

        return run_files(run, in_threads(write, range(len(chunk.partitions))))

    def count_change(self, added: Sequence[AddedFile]) -> ManifestChange | None:
        """Return the change of the manifest for rows that have no recent file."""
        rows = sum(rows for _, _, rows in added)
        return (
            None
            if self.table.settings.window is None or not rows
            else lambda manifest: manifest.with_skipped_rows(rows)
        )
