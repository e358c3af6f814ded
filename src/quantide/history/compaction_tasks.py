"""Tasks that write the files of a run: plain functions for any executor, here or on another machine."""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

import numpy as np

from quantide.errors import CorruptBytesError
from quantide.history.chunk_sort import SortedChunk, in_threads, merge_pieces
from quantide.store import fault_points
from quantide.store.data_file import BLOCK, DataFiles, write_data
from quantide.store.durable_files import write_bytes
from quantide.store.file_names import AddedFile, FileName, RunId
from quantide.store.index_file import IndexFile, IndexFileInfo, build_index_file
from quantide.store.location import FolderLocation, verify_checksum
from quantide.store.store_settings import ErrorProfile, StoreSettings
from quantide.store.stored_rows import ALL, SortedRows
from quantide.summary.value_types import type_named


@dataclass(frozen=True)
class CompactionInput:
    """Range of rows of a file in the store."""

    data: str
    side: str
    start: int
    end: int


@dataclass(frozen=True)
class CompactionTask:
    """Rows of several files that become one file, a range of the compacted run; serialised as JSON."""

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
    profile: ErrorProfile
    durable: bool
    sources: tuple[CompactionInput, ...]

    @property
    def name(self) -> FileName:
        return FileName(RunId(self.first, self.last, self.level, self.epoch, self.serial), self.part)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "CompactionTask":
        sources = tuple(CompactionInput(**source) for source in fields["sources"])
        keys, profile = tuple(fields["keys"]), ErrorProfile(*fields["profile"])
        return cls(**{**fields, "sources": sources, "keys": keys, "profile": profile})


@dataclass(frozen=True)
class CompactionOutput:
    """Written file: its part number in the run, its size and its rows."""

    part: int
    size: int
    rows: int


class Executor(Protocol):
    """Executor of compaction tasks: all succeed, or the compaction fails."""

    def map(self, tasks: Sequence[CompactionTask]) -> list[CompactionOutput]: ...


class LocalExecutor:
    """Executor with threads of this process."""

    def map(self, tasks: Sequence[CompactionTask]) -> list[CompactionOutput]:
        return in_threads(compact_range, tasks)


def compact_range(task: CompactionTask) -> CompactionOutput:
    """Read a range of rows of each source and write them as one sorted file."""
    place = FolderLocation(task.folder)
    files = DataFiles(type_named(task.value_type), place)
    pieces, nulls, nans, batches = [], 0, 0, set()
    for source in task.sources:
        index = IndexFile(place.map_file(source.side), source.side)
        if not 0 <= source.start < source.end <= index.info.rows or index.kind.name != task.value_type:
            raise CorruptBytesError(
                f"{source.side} is damaged: it is not the file that this compaction was planned with"
            )
        path = os.path.join(task.folder, source.data)
        if source.start == 0:  # check each file once: after the merge, damaged values could not be found
            verify_checksum(place, path, index.info.data_size, index.info.data_crc)
        pieces.append(_read(files, path, index, source))
        if source.start == 0:  # the counts of skipped values follow a file's first row
            nulls, nans = nulls + index.info.nulls, nans + index.info.nans
        batches.update(index.info.sources)
    rows = merge_pieces(pieces)
    fault_points.point("merge.sorted")
    about = IndexFileInfo(len(rows), task.value_type, BLOCK, 0, 0, nulls, nans, sorted(batches)[:100])
    return write_run_file(task.folder, task.name, rows, task.keys, about, task.profile, task.run_rows, task.durable)


def write_partition(
    folder: str, name: FileName, chunk: SortedChunk, settings: StoreSettings, sources: Sequence[str], durable: bool
) -> CompactionOutput:
    """Write one file of a chunk, the part in its name; the first part has the counts of skipped values."""
    rows = chunk.partitions[name.part]()
    skipped = (chunk.nulls, chunk.nans) if name.part == 0 else (0, 0)
    about = IndexFileInfo(len(rows), settings.value_type, BLOCK, 0, 0, *skipped, list(sources))
    return write_run_file(folder, name, rows, settings.keys, about, settings.chunk_profile, chunk.rows, durable)


def write_run_file(
    folder: str,
    name: FileName,
    rows: SortedRows,
    keys: Sequence[str],
    about: IndexFileInfo,
    profile: ErrorProfile,
    run_rows: int,
    durable: bool,
) -> CompactionOutput:
    """Write a data file and its index file. Neither is visible before the commit."""
    size, crc = write_data(os.path.join(folder, name.data), rows, keys, durable)
    fault_points.point("write.data")
    data = build_index_file(rows, bool(keys), replace(about, data_size=size, data_crc=crc), profile, run_rows)
    write_bytes(os.path.join(folder, name.index), data, durable)
    fault_points.point("write.side")
    return CompactionOutput(name.part, size, len(rows))


def run_files(run: RunId, written: Sequence[CompactionOutput]) -> list[AddedFile]:
    """Return the files of a run as a commit takes them."""
    return [(FileName(run, output.part), output.size, output.rows) for output in written]


def _read(files: DataFiles, path: str, index: IndexFile, source: CompactionInput) -> SortedRows:
    """Read rows start to end of a file. The directory has their keys, so only values are read."""
    size = index.info.block_rows
    groups = list(range(source.start // size, (source.end - 1) // size + 1))
    offset = groups[0] * size
    values = files.read_blocks(path, groups)[source.start - offset : source.end - offset]
    if len(values) != source.end - source.start:
        raise CorruptBytesError(f"{path} is damaged: its rows are not those of its index file")
    if not index.keyed:
        return SortedRows(index.kind, ALL, np.array([0, len(values)]), values)
    first = int(np.searchsorted(index.first_rows, source.start, side="right")) - 1
    last = int(np.searchsorted(index.first_rows, source.end, side="left"))
    bounds = np.clip(index.first_rows[first : last + 1], source.start, source.end) - source.start
    return SortedRows(index.kind, index.keys.slice(first, last - first), bounds, values)
