"""Compactor: makes few large runs out of many while appends and queries go on, and drops expired runs."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock

from quantide.history import compaction_plan
from quantide.history.compaction_plan import (
    FANOUT,
    Compaction,
    count_tuples,
    file_count,
    is_expired,
    next_chunk_compaction,
    next_level_compaction,
    select_expired,
)
from quantide.history.compaction_tasks import CompactionInput, CompactionTask, Executor, LocalExecutor, run_files
from quantide.history.row_range import KeyCounts, RowRange, split_ranges
from quantide.history.run import BlockReader, Run
from quantide.history.snapshot import Snapshot
from quantide.store import fault_points
from quantide.store.file_names import FileName, RunId
from quantide.store.retired_files import RetiredFiles
from quantide.store.store_settings import ErrorProfile
from quantide.store.writable_table import WritableTable
from quantide.summary.value_types import type_named


class RunSerials:
    """Serial numbers of one writer's runs. `pending` runs are being written: not committed, and no garbage."""

    def __init__(self, table: WritableTable) -> None:
        self._table, self._last, self._lock = table, 0, Lock()
        self.pending: set[RunId] = set()

    def new_run(self, first: int, last: int, level: int) -> RunId:
        """Return a new run of these steps; it is pending until release()."""
        with self._lock:
            self._last += 1
            run = RunId(first, last, level, self._table.epoch, self._last)
            self.pending.add(run)
            return run

    def reserve(self, count: int) -> int:
        """Reserve `count` serial numbers; return the first."""
        with self._lock:
            first, self._last = self._last + 1, self._last + count
            return first

    def release(self, runs: Iterable[RunId]) -> None:
        """Mark runs as committed or given up."""
        self.pending.difference_update(runs)


class Compactor:
    """Compacts runs of ended steps by levels, and small chunks of the open step by size."""

    def __init__(
        self,
        table: WritableTable,
        snapshot: Callable[[], Snapshot],
        serials: RunSerials,
        retired: RetiredFiles,
        active: Callable[[], bool],
        executor: Executor | None,
    ) -> None:
        self._table, self._snapshot, self._serials, self._active = table, snapshot, serials, active
        self._retired = retired
        self.executor: Executor = executor or LocalExecutor()
        self._lock = Lock()
        self.compaction_lock = Lock()  # held while runs are read and replaced
        self._background: ThreadPoolExecutor | None = None
        self._level_task: Future[None] | None = None
        self._chunk_task: Future[None] | None = None
        self._new_chunks = FANOUT  # since the last compaction; at first, those of earlier writers may be as many
        self.is_behind = False  # True if a step has ended and its compaction failed

    @property
    def is_compacting(self) -> bool:
        """Return True if ended steps are being compacted in the background."""
        return self._level_task is not None and not self._level_task.done()

    def compact_levels(self, wait: bool) -> None:
        """Compact full levels, now or in the background."""
        if wait:
            self.is_behind = True
            self._compact_levels()
        else:
            self._level_task = self._submit(self._compact_levels)

    def schedule_compaction(self, chunks: int) -> None:
        """Count new chunks; once there may be too many, compact them in the background.

        After an error chunks stay as they are until join() or check() has raised it.
        """
        self._new_chunks += chunks
        previous = self._chunk_task
        if self._new_chunks >= FANOUT and (previous is None or (previous.done() and previous.exception() is None)):
            self._new_chunks = 0
            self._chunk_task = self._submit(self._compact_chunks)

    def check(self) -> None:
        """Wait for the compaction of levels before a step ends; raise the error of any that has finished."""
        self._join_levels()
        if self._chunk_task is not None and self._chunk_task.done():  # one that runs may finish after its step
            self._join_chunks()

    def join(self) -> None:
        """Wait for background compactions; raise their error."""
        try:
            self._join_levels()
        finally:
            self._join_chunks()

    def close(self) -> None:
        if self._background is not None:
            self._background.shutdown()
            self._background = None

    def check_space(self, runs: Sequence[Run], step: int) -> None:
        """Raise an error if the disk has no room for the first compaction of these runs once `step` is the open one."""
        compaction = self._next_level_compaction(runs, step)
        if compaction is not None:
            self._check_space(compaction)

    def _compact_levels(self) -> None:
        """Drop expired runs, then compact until no level has too many runs."""
        with self.compaction_lock:
            self._drop_expired()
            while (
                compaction := self._next_level_compaction((snapshot := self._snapshot()).runs, snapshot.step)
            ) is not None:
                self._run(compaction, self._table.settings.run_profile)
            self.is_behind = False

    def _compact_chunks(self) -> None:
        """Compact chunks of the open step until there are few of every size class."""
        with self.compaction_lock:
            while self._active() and (compaction := next_chunk_compaction(self._snapshot().chunks)) is not None:
                self._run(compaction, self._table.settings.chunk_profile)

    def _run(self, compaction: Compaction, profile: ErrorProfile) -> None:
        """Write one run out of several, with summaries within the profile, in one commit."""
        self._check_space(compaction)
        run = self._serials.new_run(compaction.first, compaction.last, compaction.level)
        try:
            tasks = self._plan_tasks(compaction, run, profile)
            fault_points.point("merge.planned")
            written = self.executor.map(tasks)
            fault_points.point("merge.written")
            replaced = [part.name for source in compaction.runs for part in source.parts]
            self._table.commit(run_files(run, written), replaced)
        finally:
            self._serials.release([run])

    def _plan_tasks(self, compaction: Compaction, run: RunId, profile: ErrorProfile) -> list[CompactionTask]:
        """Return the tasks of a compaction, one for each file."""
        settings, storage = self._table.settings, self._table.storage
        ranges = [RowRange.of(source) for source in compaction.runs]
        counts = KeyCounts(ranges) if settings.keys else None
        tuples = 0 if counts is None else count_tuples(counts.totals, profile)
        files = file_count(compaction.rows, compaction.level, tuples)
        blocks = BlockReader(type_named(settings.value_type), storage)
        tasks, before = [], 0
        for part, piece in enumerate(split_ranges(ranges, files, counts, blocks.read)):
            rows = [file for one in piece for file in one.files]
            inputs = [CompactionInput(file.name, start, end, start == 0) for file, start, end in rows]
            tasks.append(
                CompactionTask(
                    storage=storage,
                    name=FileName(run, part),
                    run_rows=compaction.rows,
                    before=before,
                    range_rows=compaction_plan.TASK_ROWS,
                    value_type=settings.value_type,
                    keys=settings.keys,
                    profile=profile,
                    sources=tuple(inputs),
                )
            )
            before += sum(map(len, piece))
        return tasks

    def _next_level_compaction(self, runs: Sequence[Run], step: int) -> Compaction | None:
        settings = self._table.settings
        return next_level_compaction(
            [run for run in runs if not self._is_expired(run, step)], settings.kappa, settings.retention
        )

    def _check_space(self, compaction: Compaction) -> None:
        size = sum(run.size for run in compaction.runs)
        self._table.storage.check_space(size + size // 4)

    def _is_expired(self, run: Run, step: int) -> bool:
        return is_expired(run, step, self._table.settings.retention, self._table.extended_steps)

    def _drop_expired(self) -> None:
        """Retire the oldest expired runs; the others follow at the ends of the next steps."""
        snapshot, retention = self._snapshot(), self._table.settings.retention
        expired = [run for run in snapshot.runs if self._is_expired(run, snapshot.step)]
        if expired and retention is not None:
            names = [part.name for run in select_expired(expired, retention) for part in run.parts]
            with self._retired.lock:
                self._retired.retire(names, snapshot.step)
                self._table.commit(remove=names)

    def _join_levels(self) -> None:
        task, self._level_task = self._level_task, None
        if task is not None:
            task.result()

    def _join_chunks(self) -> None:
        task, self._chunk_task = self._chunk_task, None
        if task is not None:
            task.result()

    def _submit(self, task: Callable[[], None]) -> Future[None]:
        with self._lock:
            if self._background is None:
                self._background = ThreadPoolExecutor(1, thread_name_prefix="quantide-merge")
            return self._background.submit(task)
