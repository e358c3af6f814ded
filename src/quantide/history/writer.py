"""The writer: appends chunks, ends steps, merges chunks and runs, drops what expired. Every change is one commit."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any

from quantide.errors import InvalidArgumentError
from quantide.history.arrivals import Arrivals
from quantide.history.blocks import Blocks
from quantide.history.load import EACH, FILES, Loaded, Slot
from quantide.history.merge import FAN, Merge, expired, next_compaction, next_merge, ranges
from quantide.history.recent import Change, RecentLog
from quantide.history.run import Run
from quantide.history.snapshot import Snapshot
from quantide.history.sort import Chunk, in_threads
from quantide.history.tasks import Executor, LocalExecutor, MergeTask, Written, write_part
from quantide.store import faults
from quantide.store.datafile import BLOCK
from quantide.store.disk import check_space
from quantide.store.lease import Lease
from quantide.store.manifest import Entry
from quantide.store.names import FileName, RunId
from quantide.store.sidefile import About
from quantide.store.table import StreamTable
from quantide.summary.types import type_named


class Writer:
    """Holds the store's lease from its first write on."""

    def __init__(
        self, table: StreamTable, snapshot: Callable[[], Snapshot], durable: bool, executor: Executor | None
    ) -> None:
        self.table, self._snapshot, self._durable = table, snapshot, durable
        table.durable = durable
        self._executor: Executor = executor or LocalExecutor()
        self._lease: Lease | None = None
        self._serial = 0
        self._lock, self._one_merge = Lock(), Lock()
        self._background: ThreadPoolExecutor | None = None
        self._merging: Future[None] | None = None
        self._compacting: Future[None] | None = None
        self._fresh = FAN  # chunks that nobody has counted: at first, those of the writer before
        self._owed = False  # a step was ended by a call whose merges failed
        self.pending: set[RunId] = set()
        self.recent = RecentLog(table, durable)

    @property
    def active(self) -> bool:
        return self._lease is not None

    @property
    def merging(self) -> bool:
        """Whether merges go on in the background."""
        return self._merging is not None and not self._merging.done()

    def begin(self) -> None:
        """Take the lease, if this handle does not have it yet."""
        if self._lease is None:
            lease = Lease(self.table.path)
            try:
                self.table.take_over()
            except BaseException:
                lease.release()
                raise
            self._lease = lease

    def append(self, chunks: Iterable[Chunk], batch: Any, arrivals: Arrivals | None = None) -> int:
        """Chunks, all visible at once, and their rows as recent ones, in `arrivals`; how many rows there were."""
        step = self.table.step
        added: list[tuple[FileName, int, int]] = []
        runs = []
        entries: list[Entry] = []
        gone: list[str] = []
        try:
            for chunk in chunks:
                if chunk.rows:
                    run = self._new_run(step, step, 0)
                    runs.append(run)
                    added += self._write_chunk(run, chunk, batch)
            recent = self._past(added)
            if added and arrivals is not None:
                entries, recent = self.recent.write(arrivals)
            faults.point("append.written")
            if added or batch is not None:
                gone = self.table.commit(add=added, batch=batch, recent=recent)
        finally:
            self.pending.difference_update(runs)
            self.recent.done(entries, gone)
        self._compact_soon(len(runs))
        return sum(rows for _, _, rows in added)

    def load(self, tasks: int, write: Callable[[Slot], Iterable[Loaded]], batch: Any) -> int:
        """What some number of tasks write, all visible at once; how many rows there were."""
        table = self.table
        with self._lock:
            first, self._serial = self._serial + 1, self._serial + tasks * EACH + 1
        known = self.recent.slot(tasks * EACH * FILES)
        slot = Slot(table.path, table.step, table.epoch, first, table.settings, self._durable, *known)
        added, loaded = [], []
        for one in write(slot):
            name = FileName.parse(one.data)
            assert name is not None
            added.append((name, one.size, one.rows))
            loaded.append(one)
        recent = self._loaded(loaded) or self._past(added)
        faults.point("append.written")
        self.recent.done((), table.commit(add=added, batch=batch, recent=recent))
        self._compact_soon(len({name.run for name, _, _ in added}))
        return sum(rows for _, _, rows in added)

    def end_step(self) -> None:
        """Close the open step. Its chunks are runs from now on, and wait to be merged."""
        self._join_merging()
        if self._compacting is not None and self._compacting.done():  # else it may go on, and end after its step
            self._join_compacting()
        self.recent.check()
        snapshot = self._snapshot()
        if not self._owed or snapshot.chunks:  # else the call that failed is repeated, and has ended the step
            self._check_space(self._next_merge((*snapshot.runs, *snapshot.chunks), snapshot.step + 1))
            self.table.commit(step=snapshot.step)
            faults.point("step.ended")

    def merge_levels(self, wait: bool) -> None:
        """Merge what is to be merged, now or in the background; appends and questions go on."""
        if wait:
            self._owed = True
            self.merge()
            return
        self._merging = self._submit(self.merge)

    def join(self) -> None:
        """Wait for what is done in the background; its error, if it had one, is raised here."""
        try:
            self._join_merging()
        finally:
            self._join_compacting()
            self.recent.join()

    def merge(self) -> None:
        """Drop what expired, then merge until no level has too many runs."""
        with self._one_merge:
            self._drop_expired()
            while (merge := self._next_merge((snapshot := self._snapshot()).runs, snapshot.step)) is not None:
                self._merge(merge, self.table.settings.run_eps)
            self._owed = False

    def compact(self) -> None:
        """Merge chunks of the open step until there are few of every size; let the log forget old versions."""
        with self._one_merge:
            while self.active and (merge := next_compaction(self._snapshot().chunks)) is not None:
                self._merge(merge, self.table.settings.chunk_eps)
            self.table.trim_log()

    def close(self) -> None:
        try:
            self.join()
        finally:
            self.recent.close()
            if self._background is not None:
                self._background.shutdown()
                self._background = None
            self.let_go()

    def let_go(self) -> None:
        """Give the lease back. A merge that still runs may end, unless another writer comes first and fences it off."""
        if self._lease is not None:
            self._lease.release()
            self._lease = None

    def _compact_soon(self, chunks: int) -> None:
        """So many chunks were added: once there may be too many, merge them, and recent files, in the background.

        After an error chunks are left as they are, until somebody was told.
        """
        self.recent.compact_soon()
        self._fresh += chunks
        before = self._compacting
        if self._fresh >= FAN and (before is None or (before.done() and before.exception() is None)):
            self._fresh = 0
            self._compacting = self._submit(self.compact)

    def _join_merging(self) -> None:
        merging, self._merging = self._merging, None
        if merging is not None:
            merging.result()

    def _join_compacting(self) -> None:
        compacting, self._compacting = self._compacting, None
        if compacting is not None:
            compacting.result()

    def _submit(self, work: Callable[[], None]) -> Future[None]:
        with self._lock:
            if self._background is None:
                self._background = ThreadPoolExecutor(1, thread_name_prefix="quantide-merge")
            return self._background.submit(work)

    def _merge(self, merge: Merge, eps: float) -> None:
        """One run out of several, with summaries within eps, in one commit."""
        settings = self.table.settings
        self._check_space(merge)
        run = self._new_run(merge.first, merge.last, merge.level)
        try:
            cut = ranges(merge, bool(settings.keys), Blocks(type_named(settings.value_type), self.table.place))
            tasks = [
                MergeTask(
                    self.table.path,
                    run.first,
                    run.last,
                    run.level,
                    run.epoch,
                    run.serial,
                    part,
                    merge.rows,
                    settings.value_type,
                    settings.keys,
                    eps,
                    self._durable,
                    sources,
                )
                for part, sources in enumerate(cut)
            ]
            faults.point("merge.planned")
            written = self._executor.map(tasks)
            faults.point("merge.written")
            inputs = [part.name for held in merge.runs for part in held.parts]
            self.table.commit(_named(run, written), inputs)
        finally:
            self.pending.discard(run)

    def _next_merge(self, runs: Sequence[Run], step: int) -> Merge | None:
        settings = self.table.settings
        return next_merge([run for run in runs if not self._expired(run, step)], settings.kappa, settings.retention)

    def _check_space(self, merge: Merge | None) -> None:
        size = sum(run.size for run in merge.runs) if merge else 0
        check_space(self.table.path, size + size // 4)

    def _expired(self, run: Run, step: int) -> bool:
        return expired(run, step, self.table.settings.retention)

    def _drop_expired(self) -> None:
        snapshot = self._snapshot()
        old = [run for run in snapshot.runs if self._expired(run, snapshot.step)]
        if old:
            self.table.commit(remove=[part.name for run in old for part in run.parts])

    def _write_chunk(self, run: RunId, chunk: Chunk, batch: Any) -> list[tuple[FileName, int, int]]:
        settings = self.table.settings
        sources = [] if batch is None else [str(batch)]

        def write(part: int) -> Written:
            rows = chunk.lots[part]()
            skipped = (chunk.nulls, chunk.nans) if part == 0 else (0, 0)
            about = About(len(rows), settings.value_type, BLOCK, 0, 0, *skipped, sources)
            name = FileName(run, part)
            return write_part(
                self.table.path, name, rows, settings.keys, about, settings.chunk_eps, chunk.rows, self._durable
            )

        return _named(run, in_threads(write, range(len(chunk.lots))))

    def _loaded(self, loaded: Sequence[Loaded]) -> Change | None:
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
        return self.recent.shown(entries, clock, given)

    def _past(self, added: Sequence[tuple[FileName, int, int]]) -> Change | None:
        """The change of the manifest by rows that have no recent file."""
        rows = sum(rows for _, _, rows in added)
        return None if self.table.settings.window is None or not rows else lambda manifest: manifest.past(rows)

    def _new_run(self, first: int, last: int, level: int) -> RunId:
        with self._lock:
            self._serial += 1
            run = RunId(first, last, level, self.table.epoch, self._serial)
            self.pending.add(run)
            return run


def _named(run: RunId, written: Sequence[Written]) -> list[tuple[FileName, int, int]]:
    return [(FileName(run, one.part), one.size, one.rows) for one in written]
