"""Snapshots: the runs and the open step's chunks of one version of the table."""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from threading import RLock
from typing import Any

import pyarrow as pa

from quantide.caching import ByteLRU
from quantide.errors import CorruptBytesError, SpanError
from quantide.history.run import Run, RunFile
from quantide.store.file_names import FileName, RunId
from quantide.store.index_file import IndexFile
from quantide.store.log_state import FileChanges
from quantide.store.storage import Storage
from quantide.store.store_settings import StoreSettings
from quantide.store.stored_rows import key_type
from quantide.store.stream_table import Position, StreamTable

MAX_MAPPED = 256  # index files that are mapped at a time


@dataclass(frozen=True)
class StepSpan:
    """Span of last steps that can be queried: `last_steps` ended steps from `first_step` on."""

    last_steps: int
    first_step: int
    last_step: int
    values: int


@dataclass(frozen=True)
class Snapshot:
    """Runs of ended steps in the order of time, and chunks of the open one."""

    version: int
    step: int  # the open step
    runs: tuple[Run, ...]
    chunks: tuple[Run, ...]
    key_types: list[pa.DataType] | None
    recent: int | None  # number of the manifest of recent files
    history_rows: int  # of the runs
    stream_rows: int  # of the chunks
    deletes: int = 0  # number of commits that deleted rows
    first_step: int = 1  # all before it were deleted

    @property
    def files(self) -> list[RunFile]:
        return [part for run in (*self.runs, *self.chunks) for part in run.parts]

    def spans(self) -> list[StepSpan]:
        """Return every span that ends on run boundaries, the shortest first."""
        spans, rows = [], 0
        for first, runs in groupby(reversed(self.runs), key=lambda run: run.id.first):
            rows += sum(run.rows for run in runs)
            spans.append(StepSpan(self.step - first, first, self.step - 1, rows))
        return spans

    def last_runs(self, steps: int | None, widen: bool) -> tuple[tuple[Run, ...], int]:
        """Return the runs of the last steps, and how many steps those are; all runs for None."""
        if steps is None or steps >= self.step - 1:
            return self.runs, self.step - 1
        first = self.step - steps
        cut = [run for run in self.runs if run.id.first < first <= run.id.last]
        if cut and not widen:
            choices = ", ".join(str(span.last_steps) for span in self.spans())
            raise SpanError(
                f"last_steps={steps} would cut a run of steps {cut[0].id.first} to {cut[0].id.last}; it can be one of "
                f"{choices}; with widen, the next longer one is used"
            )
        first = min((run.id.first for run in cut), default=first)
        return tuple(run for run in self.runs if run.id.first >= first), self.step - first

    def runs_between(self, first: int, last: int) -> tuple[Run, ...]:
        """Return the runs of ended steps first to last."""
        cut = [run for run in self.runs if run.id.first < first <= run.id.last or run.id.first <= last < run.id.last]
        if cut or not 1 <= first <= last < self.step:
            choices = ", ".join(f"{run.id.first}-{run.id.last}" for run in self.runs)
            raise SpanError(f"steps {first} to {last} do not begin and end where runs do; runs are of steps {choices}")
        return tuple(run for run in self.runs if first <= run.id.first and run.id.last <= last)


class SnapshotCatalog:
    """Runs of the current version, with their index files; each of these is read once.

    A commit costs as much as it has files: the catalog changes only the runs of files that were added or removed.
    """

    def __init__(self, storage: Storage, settings: StoreSettings, rebuild: Callable[[FileName], bytes]) -> None:
        self._storage, self._settings, self._rebuild = storage, settings, rebuild
        self._position: Position | None = None
        self._files: dict[FileName, RunFile] = {}
        self._runs, self._chunks = RunList(), RunList()
        self.rebuilt: list[FileName] = []
        self._maps = ByteLRU(None, MAX_MAPPED)

    def snapshot(self, table: StreamTable) -> Snapshot:
        """Return the snapshot of the table's version."""
        state = table.state(self._position)
        changes = state.changes or self._compare(state.files)
        missing = [name for name in changes.added if name not in self._files]
        keys = key_type(self._settings.keys, state.key_types)
        read = self._storage.map_all(lambda name: self._read_file(name, keys), missing)
        self._apply(changes, dict(zip(missing, read, strict=True)), state.step)
        self._position = state.position
        return Snapshot(
            state.version,
            state.step,
            self._runs.all,
            self._chunks.all,
            state.key_types,
            state.manifest_number,
            self._runs.rows,
            self._chunks.rows,
            state.deletes,
            state.first_step,
        )

    def _compare(self, names: list[FileName]) -> FileChanges:
        """Return the changes that lead to these files."""
        after = dict.fromkeys(names)
        added = {name: None for name in names if name not in self._files}
        return FileChanges(added, {name: None for name in self._files if name not in after})

    def _apply(self, changes: FileChanges, read: dict[FileName, RunFile], step: int) -> None:
        """Change the runs; nothing here can fail half-way."""
        changed: dict[RunId, dict[FileName, RunFile]] = {}
        for run_id in {name.run for name in (*changes.added, *changes.removed)}:
            run = self._runs.find(run_id) or self._chunks.find(run_id)
            changed[run_id] = {} if run is None else {part.name: part for part in run.parts}
        for name in changes.removed:
            self._files.pop(name, None)
            changed[name.run].pop(name, None)
        for name in changes.added:
            self._files[name] = changed[name.run][name] = read[name] if name in read else self._files[name]
        for run_id, parts in changed.items():
            self._runs.remove(run_id)
            self._chunks.remove(run_id)
            if parts:
                run = Run(run_id, tuple(parts[name] for name in sorted(parts)))
                (self._runs if run_id.last < step else self._chunks).add(run)
        for run in self._chunks.all:  # of steps that have ended
            if run.id.last < step:
                self._chunks.remove(run.id)
                self._runs.add(run)

    def _read_file(self, name: FileName, keys: pa.DataType | None) -> RunFile:
        kind = self._settings.value_type
        try:
            data = self._storage.map(name.index)
            index = IndexFile(data, name.index)
            index.check_belongs(kind, keys)
            if not isinstance(data, bytes):  # bytes in memory would have to be fetched again
                index.release(partial(self._map, name.index))
        except (FileNotFoundError, CorruptBytesError):
            index = IndexFile(self._rebuild(name), name.data)
            index.check_belongs(kind, keys)
            self.rebuilt.append(name)
        return RunFile(name, index)

    def _map(self, name: str) -> Any:
        """Return the content of an index file that is used again."""
        return self._maps.get(None, name, partial(self._storage.map, name), lambda _: 0)

    @property
    def nbytes(self) -> int:
        return sum(part.index.nbytes for part in list(self._files.values()))  # another thread may change it


class RunList:
    """Runs in the order of their ids, and the number of their rows."""

    def __init__(self) -> None:
        self._ids: list[RunId] = []
        self._runs: list[Run] = []
        self._all: tuple[Run, ...] | None = ()
        self.rows = 0

    @property
    def all(self) -> tuple[Run, ...]:
        if self._all is None:
            self._all = tuple(self._runs)
        return self._all

    def find(self, run_id: RunId) -> Run | None:
        index = bisect_left(self._ids, run_id)
        return self._runs[index] if index < len(self._ids) and self._ids[index] == run_id else None

    def add(self, run: Run) -> None:
        index = bisect_left(self._ids, run.id)
        self._ids.insert(index, run.id)
        self._runs.insert(index, run)
        self.rows, self._all = self.rows + run.rows, None

    def remove(self, run_id: RunId) -> None:
        """Remove a run, if it is there."""
        index = bisect_left(self._ids, run_id)
        if index < len(self._ids) and self._ids[index] == run_id:
            self.rows, self._all = self.rows - self._runs[index].rows, None
            del self._ids[index], self._runs[index]


class SnapshotHolder:
    """Current snapshot of a table. Thread-safe: queries go on while another thread advances it."""

    def __init__(self, table: StreamTable, catalog: SnapshotCatalog) -> None:
        self._table, self._catalog = table, catalog
        self._lock = RLock()
        self._snapshot: Snapshot | None = None

    @property
    def version(self) -> int:
        snapshot = self._snapshot
        return self._table.version if snapshot is None else snapshot.version

    def current(self) -> Snapshot:
        """Return the current snapshot."""
        return self._snapshot or self.advance()

    def advance(self, prepare: Callable[[Snapshot], None] | None = None) -> Snapshot:
        """Advance to the version of the table's handle; `prepare` gets the new snapshot before it becomes current."""
        with self._lock:
            if self._snapshot is None or self._snapshot.version != self._table.version:
                snapshot = self._catalog.snapshot(self._table)
                if prepare is not None:
                    prepare(snapshot)
                self._snapshot = snapshot
            return self._snapshot

    def refresh(self, prepare: Callable[[Snapshot], None] | None = None) -> Snapshot:
        """Refresh the table's handle, and advance to its version."""
        with self._lock:
            self._table.refresh()
            return self.advance(prepare)

    def reload(self) -> None:
        """Read the whole log again, and drop the current snapshot."""
        with self._lock:
            self._table.reload()
            self._snapshot = None
