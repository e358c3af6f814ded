"""Runs: sorted rows in one or more files, with the summary of each key, and segments, the rows of one key in blocks."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from quantide.caching import ByteLRU
from quantide.errors import CorruptBytesError
from quantide.store.data_file import DataFiles
from quantide.store.file_names import FileName, RunId
from quantide.store.index_file import IndexFile
from quantide.store.storage import Storage
from quantide.store.store_settings import ErrorProfile
from quantide.summary.copying import NotCopied
from quantide.summary.keyed_merge import PartSlice
from quantide.summary.summary import Summary
from quantide.summary.value_types import ValueType
from quantide.typing import Ints

MAX_BYTES = 64 << 20  # default size of the cache of blocks
Key = tuple[Any, ...]


@dataclass(frozen=True)
class RunSegment:
    """Segment; block b has rows starts[b]:starts[b+1], fences[b] is its first value, `last` the last value of all.

    A block is read from row group group[b] of the data file paths[file[b]], from its row skip[b] on. `summarised` are
    the index files that have a summary of these rows, each with the index of the key there.
    """

    fences: NDArray[Any]
    starts: Ints
    last: Any
    paths: tuple[str, ...]
    file: Ints
    group: Ints
    skip: Ints
    summarised: tuple[tuple[IndexFile, int], ...] = ()

    def __len__(self) -> int:
        return int(self.starts[-1])

    @cached_property
    def constant(self) -> NDArray[np.bool_]:
        """True for blocks with one distinct value, as the next fence shows: they are not read."""
        is_constant: NDArray[np.bool_] = np.append(self.fences[1:], self.last) == self.fences
        return is_constant

    def interpolate(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Estimate the number of rows below each value, from the fences and the summaries; NaN where that fails."""
        first, known = 0, [self.fences, np.array([self.last])]
        positions = [self.starts[:-1], self.starts[-1:] - 1]
        for index, key_index in self.summarised:
            summary = index.read_summary(key_index)
            known.append(summary.carried)
            positions.append(first + summary.rmin - 1)
            first += int(index.counts[key_index])
        position = np.concatenate(positions)
        order = np.argsort(position)
        with np.errstate(invalid="ignore", over="ignore"):  # infinities
            return np.interp(values, np.concatenate(known)[order].astype(np.float64), position[order])

    @staticmethod
    def concat(parts: list["RunSegment"]) -> "RunSegment":
        """Concatenate consecutive segments."""
        if len(parts) == 1:
            return parts[0]
        offsets = np.cumsum([0, *(len(part) for part in parts)])
        paths = tuple(dict.fromkeys(path for part in parts for path in part.paths))
        number = {path: i for i, path in enumerate(paths)}
        return RunSegment(
            np.concatenate([part.fences for part in parts]),
            np.concatenate([*(part.starts[:-1] + at for part, at in zip(parts, offsets, strict=False)), offsets[-1:]]),
            parts[-1].last,
            paths,
            np.concatenate([np.array([number[path] for path in part.paths])[part.file] for part in parts]),
            np.concatenate([part.group for part in parts]),
            np.concatenate([part.skip for part in parts]),
            tuple(summarised for part in parts for summarised in part.summarised),
        )


class BlockReader:
    """Reads blocks, those of one call in parallel where that is faster, with a byte-bounded LRU cache. Thread-safe."""

    def __init__(self, kind: ValueType, storage: Storage, max_bytes: int | None = None) -> None:
        self.files, self.reads_ahead = DataFiles(kind, storage), storage.reads_ahead
        self._cache = ByteLRU(MAX_BYTES if max_bytes is None else max_bytes)

    def read(self, blocks: Sequence[tuple[RunSegment, int]]) -> list[NDArray[Any]]:
        """Return the values of blocks, each given by its segment and its number there."""
        groups = [(segment.paths[segment.file[block]], int(segment.group[block])) for segment, block in blocks]
        stored = {group: self._cache.lookup(*group) for group in groups}
        missing = [group for group, values in stored.items() if values is None]
        for group, values in zip(missing, self.files.read_all(missing), strict=True):
            self._cache.put(*group, values, values.nbytes)
            stored[group] = values
        return [self._check(*block, *group, stored[group]) for block, group in zip(blocks, groups, strict=True)]

    def _check(self, segment: RunSegment, block: int, name: str, group: int, stored: NDArray[Any]) -> NDArray[Any]:
        """Return the rows of a block of a segment from the row group that has them; check that they are the right ones.

        Pages have checksums; their offsets and encodings in the footer have none.
        """
        length = int(segment.starts[block + 1] - segment.starts[block])
        skip = int(segment.skip[block])
        values = stored[skip : skip + length]
        following = segment.fences[block + 1] if block + 1 < len(segment.fences) else segment.last
        if (
            len(values) != length
            or values[0] != segment.fences[block]
            or values[-1] > following
            or (values[1:] < values[:-1]).any()
        ):
            path = self.files.storage.full_path(name)
            raise CorruptBytesError(f"{path} is damaged: block {group} differs from the index file")
        return values

    def clear(self) -> None:
        self._cache.clear()
        self.files.close()

    @property
    def nbytes(self) -> int:
        return self._cache.nbytes


@dataclass(frozen=True)
class RunFile:
    """File of a run and its index file."""

    name: FileName
    index: IndexFile

    def find_key(self, key: Key) -> int:
        """Return the index of a key in this file's directory; -1 if it is missing."""
        return find_key(self.index.keys, key)

    @property
    def keys(self) -> pa.Array:
        return self.index.keys

    @property
    def sizes(self) -> Ints:
        """Number of tuples of the summary of each key."""
        return self.index.tuple_counts

    def read(self, start: int, end: int) -> PartSlice:
        """Return the summaries of the keys at these indexes of the directory."""
        none = np.empty(0, dtype=np.int64)
        summaries = self.index.read_summaries(start, end)
        return PartSlice(none, none.astype(summaries.values.dtype), np.arange(start, end), summaries)

    def segment(self, index: int) -> RunSegment:
        """Return the rows of the key at an index of the directory."""
        start, end = int(self.index.first_rows[index]), int(self.index.first_rows[index + 1])
        size = self.index.info.block_rows
        group, fences, last = self.index.read_fences(index)
        starts = np.append(np.maximum(group * size, start), end) - start
        skip = np.maximum(start - group * size, 0)
        file = np.zeros(len(group), dtype=np.int64)
        return RunSegment(fences, starts, last, (self.name.data,), file, group, skip, ((self.index, index),))


@dataclass(frozen=True)
class Run(NotCopied):
    """Files of a run, in the order of (key, value)."""

    REOPEN = "its files are open in this process; call runs() of a HistoryReader(path) where it is needed"

    id: RunId
    parts: tuple[RunFile, ...]

    @cached_property
    def rows(self) -> int:
        return sum(part.index.info.rows for part in self.parts)

    @cached_property
    def identity(self) -> tuple[Any, ...]:
        """Value to cache results by: it differs once a deletion has rewritten or removed a file of the run."""
        return self.id, len(self.parts), tuple(part.name for part in self.parts if part.name.rewrite)

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(part.index.info.data_size for part in self.parts)

    @cached_property
    def unkeyed_segment(self) -> RunSegment:
        """All rows of a run without keys."""
        return RunSegment.concat([part.segment(0) for part in self.parts])

    def locate(self, key: Key) -> list[tuple[RunFile, int]]:
        """Return the files that have a key, and its index there; a key may continue in the next file."""
        first_keys = self._first_keys
        target = sort_key(key)
        candidates = range(max(0, bisect_left(first_keys, target) - 1), bisect_right(first_keys, target))
        matches = [(self.parts[i], self.parts[i].find_key(key)) for i in candidates]
        return [(part, index) for part, index in matches if index >= 0]

    def segment(self, key: Key) -> RunSegment | None:
        """Return the rows of a key; None if there are none."""
        segments = [part.segment(index) for part, index in self.locate(key)]
        return RunSegment.concat(segments) if segments else None

    def segments(self) -> list[RunSegment]:
        """Return the rows of every key; a key in two files is in two segments."""
        return [part.segment(index) for part in self.parts for index in range(len(part.index.counts))]

    def summary(self, key: Key | None) -> Summary | None:
        """Return the summary of a key, or of everything. Files are disjoint ranges, so merging is lossless."""
        if key is None:
            summaries = [part.index.total for part in self.parts]
        else:
            summaries = [part.index.read_summary(index) for part, index in self.locate(key)]
        return Summary.merge(*summaries) if summaries else None

    def compressed_summary(self, profile: ErrorProfile) -> Summary:
        """Return the summary of everything with as few tuples as the profile allows; cached."""
        if profile not in self._compressed:
            summary = self.summary(None)
            assert summary is not None  # every run has rows
            self._compressed[profile] = compress_to(summary, profile)
        return self._compressed[profile]

    @cached_property
    def _compressed(self) -> dict[ErrorProfile, Summary]:
        return {}

    @cached_property
    def _first_keys(self) -> list[Any]:
        return [sort_key(key_at(part.index.keys, 0)) for part in self.parts]


def compress_to(summary: Summary, profile: ErrorProfile) -> Summary:
    """Compress a summary as far as the profile allows; not at all if little is left of eps or of the tail."""
    slack = profile.eps - summary.error
    if slack <= 0:
        return summary
    b = math.ceil(1 / (2 * slack))
    if profile.tail is None or (tail := summary.tail) is None:
        return summary.compress(b)
    return summary.compress(b, profile.tail - tail) if profile.tail - tail >= profile.tail / 8 else summary


def find_key(keys: pa.Array, key: Key) -> int:
    """Return the index of a key in a directory; -1 if it is missing."""
    target = sort_key(key)
    index = bisect_left(range(len(keys)), target, key=lambda i: sort_key(key_at(keys, i)))
    return index if index < len(keys) and sort_key(key_at(keys, index)) == target else -1


def key_at(keys: pa.Array, index: int) -> Key:
    """Return a key of a directory; a tuple even if it has one column."""
    value = keys[index].as_py()
    return tuple(value.values()) if isinstance(value, dict) else (value,)


def sort_key(key: Key) -> tuple[Any, ...]:
    """Return a value that compares as the directory is sorted: NaN after numbers, null after everything."""
    return tuple((2, 0) if x is None else (1, 0) if x != x else (0, x) for x in key)
