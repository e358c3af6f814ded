"""Tasks: plain functions that write files, run by whatever executor there is, here or on another machine."""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

import numpy as np

from quantide.errors import CorruptBytesError
from quantide.history.sort import Chunk, in_threads, merge_pieces
from quantide.store import faults
from quantide.store.datafile import BLOCK, DataFiles, write_data
from quantide.store.disk import write_bytes
from quantide.store.names import File, FileName, RunId
from quantide.store.place import Folder, check_whole
from quantide.store.rows import ALL, SortedRows
from quantide.store.settings import Settings
from quantide.store.sidefile import About, SideFile, build_side
from quantide.summary.types import type_named


@dataclass(frozen=True)
class Source:
    """Some rows of a file of the store."""

    data: str
    side: str
    start: int
    end: int


@dataclass(frozen=True)
class MergeTask:
    """Rows of several files that become one: a range of the merged run. It travels as JSON."""

    folder: str
    first: int
    last: int
    level: int
    epoch: int
    serial: int
    part: int
    run_rows: int
    value_type: str
    keys: tuple[str, ...]
    run_eps: float
    durable: bool
    sources: tuple[Source, ...]

    @property
    def name(self) -> FileName:
        return FileName(RunId(self.first, self.last, self.level, self.epoch, self.serial), self.part)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, found: dict[str, Any]) -> "MergeTask":
        sources = tuple(Source(**source) for source in found["sources"])
        return cls(**{**found, "sources": sources, "keys": tuple(found["keys"])})


@dataclass(frozen=True)
class Written:
    """A file that was written: its part of the run, its size and its rows."""

    part: int
    size: int
    rows: int


class Executor(Protocol):
    """Runs merge tasks, all of them or none that counts."""

    def map(self, tasks: Sequence[MergeTask]) -> list[Written]: ...


class LocalExecutor:
    """Threads of this process."""

    def map(self, tasks: Sequence[MergeTask]) -> list[Written]:
        return in_threads(merge_range, tasks)


def merge_range(task: MergeTask) -> Written:
    """Read some rows of each source, write them as one sorted file."""
    place = Folder(task.folder)
    files = DataFiles(type_named(task.value_type), place)
    pieces, nulls, nans, batches = [], 0, 0, set()
    for source in task.sources:
        side = SideFile(place.mapped(source.side), source.side)
        if not 0 <= source.start < source.end <= side.about.rows or side.kind.name != task.value_type:
            raise CorruptBytesError(f"{source.side} is damaged: it is not the one that this merge was planned with")
        path = os.path.join(task.folder, source.data)
        if source.start == 0:  # once for each file: it is looked at whole, for what is merged cannot be told from good
            check_whole(place, path, side.about.data_size, side.about.data_crc)
        pieces.append(_read(files, path, side, source))
        if source.start == 0:  # counts of what was skipped go where a file's first row goes
            nulls, nans = nulls + side.about.nulls, nans + side.about.nans
        batches.update(side.about.sources)
    rows = merge_pieces(pieces)
    faults.point("merge.sorted")
    about = About(len(rows), task.value_type, BLOCK, 0, 0, nulls, nans, sorted(batches)[:100])
    return write_part(task.folder, task.name, rows, task.keys, about, task.run_eps, task.run_rows, task.durable)


def write_lot(
    folder: str, name: FileName, chunk: Chunk, settings: Settings, sources: Sequence[str], durable: bool
) -> Written:
    """One file of a chunk, the part that its name tells; the first has the counts of what was skipped."""
    rows = chunk.lots[name.part]()
    skipped = (chunk.nulls, chunk.nans) if name.part == 0 else (0, 0)
    about = About(len(rows), settings.value_type, BLOCK, 0, 0, *skipped, list(sources))
    return write_part(folder, name, rows, settings.keys, about, settings.chunk_eps, chunk.rows, durable)


def write_part(
    folder: str,
    name: FileName,
    rows: SortedRows,
    keys: Sequence[str],
    about: About,
    run_eps: float,
    run_rows: int,
    durable: bool,
) -> Written:
    """A data file and its side file. Nothing is visible before both are committed."""
    size, crc = write_data(os.path.join(folder, name.data), rows, keys, durable)
    faults.point("write.data")
    data = build_side(rows, bool(keys), replace(about, data_size=size, data_crc=crc), run_eps, run_rows)
    write_bytes(os.path.join(folder, name.side), data, durable)
    faults.point("write.side")
    return Written(name.part, size, len(rows))


def named(run: RunId, written: Sequence[Written]) -> list[File]:
    """Files of a run as a commit takes them."""
    return [(FileName(run, one.part), one.size, one.rows) for one in written]


def _read(files: DataFiles, path: str, side: SideFile, source: Source) -> SortedRows:
    """Rows start to end of a file. Which keys they have is known from the directory, so only values are read."""
    size = side.about.block_rows
    groups = list(range(source.start // size, (source.end - 1) // size + 1))
    offset = groups[0] * size
    values = files.values(path, groups)[source.start - offset : source.end - offset]
    if len(values) != source.end - source.start:
        raise CorruptBytesError(f"{path} is damaged: it has not the rows that the side file tells")
    if not side.keyed:
        return SortedRows(side.kind, ALL, np.array([0, len(values)]), values)
    first = int(np.searchsorted(side.first_rows, source.start, side="right")) - 1
    last = int(np.searchsorted(side.first_rows, source.end, side="left"))
    bounds = np.clip(side.first_rows[first : last + 1], source.start, source.end) - source.start
    return SortedRows(side.kind, side.keys.slice(first, last - first), bounds, values)
