"""Snapshots: the runs and the open step's chunks of one version of the table."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from threading import RLock

import pyarrow as pa

from quantide.errors import CorruptBytesError, SpanError
from quantide.history.run import Run, RunFile
from quantide.store.file_names import FileName
from quantide.store.index_file import IndexFile
from quantide.store.location import Location
from quantide.store.store_settings import StoreSettings
from quantide.store.stored_rows import key_type
from quantide.store.stream_table import StreamTable


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

    @cached_property
    def history_rows(self) -> int:
        return sum(run.rows for run in self.runs)

    @cached_property
    def stream_rows(self) -> int:
        return sum(run.rows for run in self.chunks)

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
                f"{choices}, or pass widen=True to get the next longer one"
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
    """Index files by data file, each read once."""

    def __init__(self, place: Location, settings: StoreSettings, rebuild: Callable[[FileName], bytes]) -> None:
        self._place, self._settings, self._rebuild = place, settings, rebuild
        self._files: dict[FileName, RunFile] = {}
        self.rebuilt: list[FileName] = []

    def snapshot(self, table: StreamTable) -> Snapshot:
        """Return the snapshot of the table's version."""
        state = table.state()
        names, step = state.files, state.step
        cached = self._files
        missing = [name for name in names if name not in cached]
        keys = key_type(self._settings.keys, state.key_types)
        read = dict(zip(missing, self._place.map_all(lambda name: self._read_file(name, keys), missing), strict=True))
        self._files = files = {name: cached[name] if name in cached else read[name] for name in names}
        runs = [Run(run, tuple(files[name] for name in own)) for run, own in groupby(names, key=lambda name: name.run)]
        ended = tuple(run for run in runs if run.id.last < step)
        chunks = tuple(run for run in runs if run.id.last >= step)
        return Snapshot(state.version, step, ended, chunks, state.key_types, state.manifest_number)

    def _read_file(self, name: FileName, keys: pa.DataType | None) -> RunFile:
        kind = self._settings.value_type
        try:
            index = IndexFile(self._place.map_file(name.index), name.index)
            index.check_belongs(kind, keys)
        except (FileNotFoundError, CorruptBytesError):
            index = IndexFile(self._rebuild(name), name.data)
            index.check_belongs(kind, keys)
            self.rebuilt.append(name)
        return RunFile(name, self._place.full_path(name.data), index)

    @property
    def nbytes(self) -> int:
        return sum(part.index.nbytes for part in self._files.values())


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
