"""Tasks that write the files of a run: plain functions for any executor, here or on another machine."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from quantide.errors import CorruptBytesError
from quantide.history.chunk_sort import SortedChunk, in_threads, merge_pieces
from quantide.history.row_range import KeyCounts, RowRange, split_ranges
from quantide.history.run import BlockReader, Run, RunFile
from quantide.store import fault_points
from quantide.store.data_file import BLOCK, DataFiles, write_data
from quantide.store.file_names import AddedFile, FileName, RunId
from quantide.store.index_builder import IndexBuilder
from quantide.store.index_file import IndexFile, IndexFileInfo
from quantide.store.location import verify_checksum
from quantide.store.storage import Storage
from quantide.store.store_settings import ErrorProfile, StoreSettings
from quantide.store.stored_rows import ALL, SortedRows
from quantide.summary.value_types import type_named

CUT_BYTES = 1 << 24  # of blocks that a task caches while it divides its rows into ranges


@dataclass(frozen=True)
class CompactionInput:
    """Rows start to end of a file in the store.

    With one input of each file, `is_first`, its checksum is verified, and its skipped values are counted.
    """

    name: FileName
    start: int
    end: int
    is_first: bool


@dataclass(frozen=True)
class CompactionTask:
    """Rows of several files that become one file of the compacted run; picklable, for tasks on other machines.

    The task reads, merges and writes `range_rows` rows at a time. The run has `run_rows` rows, `before` of them in the
    files before this one.
    """

    storage: Storage
    name: FileName
    run_rows: int
    before: int
    range_rows: int
    value_type: str
    keys: tuple[str, ...]
    profile: ErrorProfile
    sources: tuple[CompactionInput, ...]


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
    """Merge rows of several files into one sorted file, range by range: memory is that of a range and of an index."""
    files = [_open_input(task, source) for source in task.sources]
    first = [file.index.info for file, source in zip(files, task.sources, strict=True) if source.is_first]
    about = IndexFileInfo(
        sum(source.end - source.start for source in task.sources),
        task.value_type,
        BLOCK,
        0,
        0,
        sum(info.nulls for info in first),
        sum(info.nans for info in first),
        sorted({batch for file in files for batch in file.index.info.sources})[:100],
    )
    pieces = _merge_ranges(task, _row_ranges(task.sources, files), about.rows)
    return write_run_file(task.storage, task.name, pieces, task.keys, about, task.profile, task.run_rows, task.before)


def _open_input(task: CompactionTask, source: CompactionInput) -> RunFile:
    name, storage = source.name, task.storage
    index = IndexFile(storage.map(name.index), name.index)
    if not 0 <= source.start < source.end <= index.info.rows or index.kind.name != task.value_type:
        raise CorruptBytesError(f"{name.index} is damaged: it is not the file that this compaction was planned with")
    if source.is_first:  # after the merge, damaged values could not be found
        verify_checksum(storage, name.data, index.info.data_size, index.info.data_crc)
    return RunFile(name, index)


def _row_ranges(sources: Sequence[CompactionInput], files: Sequence[RunFile]) -> list[RowRange]:
    """Return the rows of the inputs; consecutive rows of one run are one range."""
    ranges: list[RowRange] = []
    for source, file in zip(sources, files, strict=True):
        last = ranges[-1] if ranges else None
        if last is not None and last.run.id == source.name.run and last.end == last.run.rows and source.start == 0:
            ranges[-1] = RowRange(Run(last.run.id, (*last.run.parts, file)), last.start, last.end + source.end)
        else:
            ranges.append(RowRange(Run(source.name.run, (file,)), source.start, source.end))
    return ranges


def _merge_ranges(task: CompactionTask, ranges: Sequence[RowRange], rows: int) -> Iterator[SortedRows]:
    """Yield all rows in the order of (key, value), about `range_rows` at a time."""
    blocks = BlockReader(type_named(task.value_type), task.storage, CUT_BYTES)
    count = -(-rows // task.range_rows)
    counts = KeyCounts(ranges) if task.keys and count > 1 else None
    for piece in split_ranges(ranges, count, counts, blocks.read):
        merged = merge_pieces([_read(blocks.files, *file) for one in piece for file in one.files])
        fault_points.point("merge.sorted")
        yield merged


def write_partition(
    storage: Storage, name: FileName, chunk: SortedChunk, settings: StoreSettings, sources: Sequence[str]
) -> CompactionOutput:
    """Write one file of a chunk, the part in its name; the first part has the counts of skipped values."""
    rows = chunk.partitions[name.part]()
    skipped = (chunk.nulls, chunk.nans) if name.part == 0 else (0, 0)
    about = IndexFileInfo(len(rows), settings.value_type, BLOCK, 0, 0, *skipped, list(sources))
    return write_run_file(storage, name, [rows], settings.keys, about, settings.chunk_profile, chunk.rows)


def write_run_file(
    storage: Storage,
    name: FileName,
    pieces: Iterable[SortedRows],
    keys: Sequence[str],
    about: IndexFileInfo,
    profile: ErrorProfile,
    run_rows: int,
    before: int | None = None,
) -> CompactionOutput:
    """Write a data file and its index file from consecutive pieces. Neither is visible before the commit.

    `before` is the number of rows in earlier files of the run; None if it is not known.
    """
    index = IndexBuilder(bool(keys), profile, about.block_rows, run_rows, before)

    def index_pieces() -> Iterator[SortedRows]:
        try:
            for rows in pieces:
                index.add(rows)
                yield rows
        except OSError as error:
            raise _InputError from error

    try:
        size, crc = write_data(storage, name.data, index_pieces(), keys)
    except _InputError as error:
        raise error.__cause__ or error from None
    fault_points.point("write.data")
    storage.replace(name.index, index.finish(replace(about, data_size=size, data_crc=crc)))
    fault_points.point("write.side")
    return CompactionOutput(name.part, size, about.rows)


class _InputError(Exception):
    """Failure to read inputs while a file is written: it must not be taken for a failure to write that file."""


def run_files(run: RunId, written: Sequence[CompactionOutput]) -> list[AddedFile]:
    """Return the files of a run as a commit takes them."""
    return [(FileName(run, output.part), output.size, output.rows) for output in written]


def _read(files: DataFiles, file: RunFile, start: int, end: int) -> SortedRows:
    """Read rows start to end of a file. The directory has their keys, so only values are read."""
    index, name = file.index, file.name.data
    size = index.info.block_rows
    groups = list(range(start // size, (end - 1) // size + 1))
    offset = groups[0] * size
    values = files.read_blocks(name, groups)[start - offset : end - offset]
    if len(values) != end - start:
        raise CorruptBytesError(f"{name} is damaged: its rows are not those of its index file")
    if not index.keyed:
        return SortedRows(index.kind, ALL, np.array([0, len(values)]), values)
    first = int(np.searchsorted(index.first_rows, start, side="right")) - 1
    last = int(np.searchsorted(index.first_rows, end, side="left"))
    bounds = np.clip(index.first_rows[first : last + 1], start, end) - start
    return SortedRows(index.kind, index.keys.slice(first, last - first), bounds, values)
