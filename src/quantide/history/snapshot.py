"""Snapshots: the runs and the open step's chunks as one version of the table has them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import pyarrow as pa

from quantide.errors import CorruptBytesError, SpanError
from quantide.history.run import Part, Run
from quantide.store.names import FileName
from quantide.store.place import Place
from quantide.store.rows import key_type
from quantide.store.settings import Settings
from quantide.store.sidefile import SideFile
from quantide.store.table import StreamTable


@dataclass(frozen=True)
class Span:
    """The last steps that can be asked about together: `last_steps` ended ones from `first_step` on."""

    last_steps: int
    first_step: int
    last_step: int
    values: int


@dataclass(frozen=True)
class Snapshot:
    """Runs of ended steps in the order of time, and chunks of the open one."""

    version: int
    step: int  # the open one
    runs: tuple[Run, ...]
    chunks: tuple[Run, ...]
    key_types: list[pa.DataType] | None
    recent: int | None  # the number of the manifest of recent files

    @cached_property
    def history_rows(self) -> int:
        return sum(run.rows for run in self.runs)

    @cached_property
    def stream_rows(self) -> int:
        return sum(run.rows for run in self.chunks)

    @property
    def files(self) -> list[Part]:
        return [part for run in (*self.runs, *self.chunks) for part in run.parts]

    def spans(self) -> list[Span]:
        """Every span that ends on run boundaries, the shortest first."""
        out, rows = [], 0
        for first, runs in groupby(reversed(self.runs), key=lambda run: run.id.first):
            rows += sum(run.rows for run in runs)
            out.append(Span(self.step - first, first, self.step - 1, rows))
        return out

    def last(self, steps: int | None, widen: bool) -> tuple[tuple[Run, ...], int]:
        """The runs of the last steps, and how many steps those are; all of them for None."""
        if steps is None or steps >= self.step - 1:
            return self.runs, self.step - 1
        first = self.step - steps
        cut = [run for run in self.runs if run.id.first < first <= run.id.last]
        if cut and not widen:
            known = ", ".join(str(span.last_steps) for span in self.spans())
            raise SpanError(
                f"last_steps={steps} would cut a run of steps {cut[0].id.first} to {cut[0].id.last}; it can be one of "
                f"{known}, or pass widen=True to get the next longer one"
            )
        first = min((run.id.first for run in cut), default=first)
        return tuple(run for run in self.runs if run.id.first >= first), self.step - first

    def between(self, first: int, last: int) -> tuple[Run, ...]:
        """The runs of ended steps first to last."""
        cut = [run for run in self.runs if run.id.first < first <= run.id.last or run.id.first <= last < run.id.last]
        if cut or not 1 <= first <= last < self.step:
            known = ", ".join(f"{run.id.first}-{run.id.last}" for run in self.runs)
            raise SpanError(f"steps {first} to {last} do not begin and end where runs do; runs are of steps {known}")
        return tuple(run for run in self.runs if first <= run.id.first and run.id.last <= last)


class Catalog:
    """Side files by the data files they belong to, read once."""

    def __init__(self, place: Place, settings: Settings, rebuild: Callable[[FileName], bytes]) -> None:
        self._place, self._settings, self._rebuild = place, settings, rebuild
        self._parts: dict[FileName, Part] = {}
        self.rebuilt: list[FileName] = []

    def snapshot(self, table: StreamTable) -> Snapshot:
        """What the table says now."""
        state = table.state()
        names, step = state.files, state.step
        known = self._parts
        new = [name for name in names if name not in known]
        keys = key_type(self._settings.keys, state.key_types)
        read = dict(zip(new, self._place.each(lambda name: self._part(name, keys), new), strict=True))
        self._parts = parts = {name: known[name] if name in known else read[name] for name in names}
        runs = [Run(run, tuple(parts[name] for name in held)) for run, held in groupby(names, key=lambda n: n.run)]
        ended = tuple(run for run in runs if run.id.last < step)
        chunks = tuple(run for run in runs if run.id.last >= step)
        return Snapshot(state.version, step, ended, chunks, state.key_types, state.recent)

    def _part(self, name: FileName, keys: pa.DataType | None) -> Part:
        kind = self._settings.value_type
        try:
            side = SideFile(self._place.mapped(name.side), name.side)
            side.check_belongs(kind, keys)
        except (FileNotFoundError, CorruptBytesError):
            side = SideFile(self._rebuild(name), name.data)
            side.check_belongs(kind, keys)
            self.rebuilt.append(name)
        return Part(name, self._place.whole(name.data), side)

    @property
    def nbytes(self) -> int:
        return sum(part.side.nbytes for part in self._parts.values())
