"""The merger: makes few large runs out of many, while appends and questions go on, and drops what expired."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock

from quantide.history.blocks import Blocks
from quantide.history.merge import FAN, Merge, expired, next_compaction, next_expired, next_merge, ranges
from quantide.history.run import Run
from quantide.history.serials import Serials
from quantide.history.snapshot import Snapshot
from quantide.history.tasks import Executor, LocalExecutor, MergeTask, named
from quantide.store import faults
from quantide.store.commits import WritableTable
from quantide.store.disk import check_space
from quantide.store.retired import RetiredFiles
from quantide.summary.types import type_named


class Merger:
    """Merges runs of ended steps by levels, and small chunks of the open step by size."""

    def __init__(
        self,
        table: WritableTable,
        snapshot: Callable[[], Snapshot],
        serials: Serials,
        retired: RetiredFiles,
        active: Callable[[], bool],
        executor: Executor | None,
    ) -> None:
        self._table, self._snapshot, self._serials, self._active = table, snapshot, serials, active
        self._retired = retired
        self._executor: Executor = executor or LocalExecutor()
        self._one_merge, self._lock = Lock(), Lock()
        self._background: ThreadPoolExecutor | None = None
        self._merging: Future[None] | None = None
        self._compacting: Future[None] | None = None
        self._fresh = FAN  # chunks that nobody has counted: at first, those of the writer before
        self.owed = False  # a step was ended by a call whose merges failed

    @property
    def merging(self) -> bool:
        """Whether merges of ended steps go on in the background."""
        return self._merging is not None and not self._merging.done()

    def merge_levels(self, wait: bool) -> None:
        """Merge what is to be merged, now or in the background."""
        if wait:
            self.owed = True
            self._merge_levels()
        else:
            self._merging = self._submit(self._merge_levels)

    def compact_soon(self, chunks: int) -> None:
        """So many chunks were added: once there may be too many, merge them in the background.

        After an error chunks are left as they are, until somebody was told.
        """
        self._fresh += chunks
        before = self._compacting
        if self._fresh >= FAN and (before is None or (before.done() and before.exception() is None)):
            self._fresh = 0
            self._compacting = self._submit(self._compact)

    def check(self) -> None:
        """Before a step ends: wait for merges, and raise the error of what is over."""
        self._join_merging()
        if self._compacting is not None and self._compacting.done():  # else it may go on, and end after its step
            self._join_compacting()

    def join(self) -> None:
        """Wait for what is done in the background; its error, if it had one, is raised here."""
        try:
            self._join_merging()
        finally:
            self._join_compacting()

    def close(self) -> None:
        if self._background is not None:
            self._background.shutdown()
            self._background = None

    def check_space(self, runs: Sequence[Run], step: int) -> None:
        """Refuse when there is no room for the first merge of these runs, once a step is the open one."""
        merge = self._next_merge(runs, step)
        if merge is not None:
            self._check_space(merge)

    def _merge_levels(self) -> None:
        """Drop what expired, then merge until no level has too many runs."""
        with self._one_merge:
            self._drop_expired()
            while (merge := self._next_merge((snapshot := self._snapshot()).runs, snapshot.step)) is not None:
                self._merge(merge, self._table.settings.run_eps)
            self.owed = False

    def _compact(self) -> None:
        """Merge chunks of the open step until there are few of every size; let the log forget old versions."""
        with self._one_merge:
            while self._active() and (merge := next_compaction(self._snapshot().chunks)) is not None:
                self._merge(merge, self._table.settings.chunk_eps)
            self._table.trim_log()

    def _merge(self, merge: Merge, eps: float) -> None:
        """One run out of several, with summaries within eps, in one commit."""
        settings = self._table.settings
        self._check_space(merge)
        run = self._serials.new_run(merge.first, merge.last, merge.level)
        try:
            cut = ranges(merge, bool(settings.keys), Blocks(type_named(settings.value_type), self._table.place))
            tasks = [
                MergeTask(
                    folder=self._table.path,
                    first=run.first,
                    last=run.last,
                    level=run.level,
                    epoch=run.epoch,
                    serial=run.serial,
                    part=part,
                    run_rows=merge.rows,
                    value_type=settings.value_type,
                    keys=settings.keys,
                    run_eps=eps,
                    durable=self._table.durable,
                    sources=sources,
                )
                for part, sources in enumerate(cut)
            ]
            faults.point("merge.planned")
            written = self._executor.map(tasks)
            faults.point("merge.written")
            inputs = [part.name for held in merge.runs for part in held.parts]
            self._table.commit(named(run, written), inputs)
        finally:
            self._serials.done([run])

    def _next_merge(self, runs: Sequence[Run], step: int) -> Merge | None:
        settings = self._table.settings
        return next_merge([run for run in runs if not self._expired(run, step)], settings.kappa, settings.retention)

    def _check_space(self, merge: Merge) -> None:
        size = sum(run.size for run in merge.runs)
        check_space(self._table.path, size + size // 4)

    def _expired(self, run: Run, step: int) -> bool:
        return expired(run, step, self._table.settings.retention, self._table.held)

    def _drop_expired(self) -> None:
        """Retire the oldest of the runs that expired; the others follow at the ends of the next steps."""
        snapshot, retention = self._snapshot(), self._table.settings.retention
        old = [run for run in snapshot.runs if self._expired(run, snapshot.step)]
        if old and retention is not None:
            names = [part.name for run in next_expired(old, retention) for part in run.parts]
            with self._retired.lock:
                self._retired.retire(names, snapshot.step, self._table.durable)
                self._table.commit(remove=names)

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
