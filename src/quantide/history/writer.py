"""The writer: appends chunks and ends steps. Every change is one commit."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from quantide.errors import CommitUncertainError, InvalidArgumentError, RepairWarning, StorageError
from quantide.history.arrivals import Arrivals
from quantide.history.attempt import Attempts, Rows
from quantide.history.load import EACH, FILES, Loaded, Slot
from quantide.history.merger import Merger
from quantide.history.recent import RecentLog
from quantide.history.serials import Serials
from quantide.history.snapshot import Snapshot
from quantide.history.sort import Chunk, in_threads
from quantide.history.tasks import Executor, Written, named, write_lot
from quantide.store import faults
from quantide.store.commits import Change, WritableTable
from quantide.store.lease import Lease
from quantide.store.manifest import Entry
from quantide.store.names import File, FileName, RunId
from quantide.store.retired import RetiredFiles
from quantide.windows.ahead import Horizon
from quantide.windows.clock import Clock


class Writer:
    """Holds the store's lease from its first write on."""

    def __init__(self, table: WritableTable, snapshot: Callable[[], Snapshot], executor: Executor | None) -> None:
        self.table, self._snapshot = table, snapshot
        self._lease: Lease | None = None
        self.serials = Serials(table)
        self.retired = RetiredFiles(table.path)
        self.merger = Merger(table, snapshot, self.serials, self.retired, lambda: self.active, executor)
        self.recent = RecentLog(table)
        self.attempts = Attempts(table)

    @property
    def active(self) -> bool:
        return self._lease is not None

    def begin(self) -> None:
        """Take the lease, if this handle does not have it yet."""
        if self._lease is None:
            lease = Lease(self.table.path)
            try:
                self.table.take_over()
            except FileNotFoundError as error:
                lease.release()
                raise StorageError(
                    f"{self.table.path}: its log cannot be read, nothing was written: {error}"
                ) from error
            except BaseException:
                lease.release()
                raise
            self._lease = lease
            for finding in self.table.repaired:
                warnings.warn(f"{self.table.path}: {finding}", RepairWarning, 4)

    def append(self, chunks: Iterable[Chunk], batch: Any, arrivals: Arrivals | None = None) -> int:
        """Chunks, all visible at once, and their rows as recent ones, in `arrivals`; how many rows there were."""
        step = self.table.step
        added: list[File] = []
        runs = []
        entries: list[Entry] = []
        gone: list[str] = []
        try:
            for chunk in chunks:
                if chunk.rows:
                    run = self.serials.new_run(step, step, 0)
                    runs.append(run)
                    added += self._write_chunk(run, chunk, batch)
            recent = self._past(added)
            if added and arrivals is not None:
                entries, recent = self.recent.write(arrivals)
            faults.point("append.written")
            if added or batch is not None:
                given = arrivals is not None and arrivals.times is not None
                gone = self._commit(Rows(added, entries, given), batch, recent)
        finally:
            self.serials.done(runs)
            self.recent.done(entries, gone)
        self._compact_soon(len(runs))
        return sum(rows for _, _, rows in added)

    def load(self, tasks: int, write: Callable[[Slot], Iterable[Loaded]], batch: Any) -> int:
        """What some number of tasks write, all visible at once; how many rows there were."""
        table = self.table
        first, known = self.serials.reserve(tasks * EACH), self.recent.slot(tasks * EACH * FILES)
        slot = Slot(table.path, table.step, table.epoch, first, table.settings, table.durable, *known)
        added, loaded = [], []
        for one in write(slot):
            name = FileName.parse(one.data)
            assert name is not None
            added.append((name, one.size, one.rows))
            loaded.append(one)
        recent = self._loaded(loaded, slot.known.ahead) or self._past(added)
        rows = Rows(added, [entry for one in loaded for entry in one.recent], any(one.given for one in loaded))
        faults.point("append.written")
        self.recent.done((), self._commit(rows, batch, recent))
        self._compact_soon(len({name.run for name, _, _ in added}))
        return sum(rows for _, _, rows in added)

    def end_step(self) -> None:
        """Close the open step. Its chunks are runs from now on, and wait to be merged."""
        if self.attempts.repeats():
            return
        self.merger.check()
        self.recent.check()
        snapshot = self._snapshot()
        if not self.merger.owed or snapshot.chunks:  # else the call that failed is repeated, and has ended the step
            self.merger.check_space((*snapshot.runs, *snapshot.chunks), snapshot.step + 1)
            try:
                self.table.commit(step=snapshot.step)
            except CommitUncertainError as error:
                self.attempts.failed(error)
                raise
            self.attempts.settle()
            faults.point("step.ended")

    def join(self) -> None:
        """Wait for what is done in the background; its error, if it had one, is raised here."""
        try:
            self.merger.join()
        finally:
            self.recent.join()

    def close(self) -> None:
        try:
            self.join()
        finally:
            self.recent.close()
            self.merger.close()
            self.let_go()

    def let_go(self) -> None:
        """Give the lease back. A merge that still runs may end, unless another writer comes first and fences it off."""
        if self._lease is not None:
            self._lease.release()
            self._lease = None

    def _commit(self, rows: Rows, batch: Any, recent: Change | None) -> list[str]:
        """Commit rows, unless this repeats a commit that is in the table although it raised an error."""
        if batch is None and self.attempts.repeats(rows):
            return []
        try:
            gone = self.table.commit(add=rows.files, batch=batch, recent=recent)
        except CommitUncertainError as error:
            self.attempts.failed(error, rows)
            raise
        self.attempts.settle()
        return gone

    def _compact_soon(self, chunks: int) -> None:
        """So many chunks were added: merge them, and recent files, in the background, once there are too many.

        While the log cannot be read, that waits for the next append: this one is committed, and must not fail.
        """
        if self.table.behind:
            return
        self.recent.compact_soon()
        self.merger.compact_soon(chunks)

    def _write_chunk(self, run: RunId, chunk: Chunk, batch: Any) -> list[File]:
        table, sources = self.table, [] if batch is None else [str(batch)]

        def write(part: int) -> Written:
            return write_lot(table.path, FileName(run, part), chunk, table.settings, sources, table.durable)

        return named(run, in_threads(write, range(len(chunk.lots))))

    def _loaded(self, loaded: Sequence[Loaded], ahead: int) -> Change | None:
        """The change of the manifest by recent files that tasks wrote; None when they wrote none."""
        clocks = {(one.clock, one.given) for one in loaded if one.recent}
        entries = [entry for one in loaded for entry in one.recent]
        if not entries:
            return None
        if len(clocks) > 1 or sum(entry.rows for entry in entries) != sum(one.rows for one in loaded):
            raise InvalidArgumentError(
                "some rows came with times, and others without or on another clock; give one kind"
            )
        clock, given = clocks.pop()
        assert clock is not None
        most = self.table.settings.ahead
        if given and most is not None:
            Horizon.of(most).check(Clock(clock), np.array([entry.newest for entry in entries]))
        return self.recent.shown(entries, clock, given, 0 if given else ahead)

    def _past(self, added: Sequence[File]) -> Change | None:
        """The change of the manifest by rows that have no recent file."""
        rows = sum(rows for _, _, rows in added)
        return None if self.table.settings.window is None or not rows else lambda manifest: manifest.past(rows)
