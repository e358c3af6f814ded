"""Row ranges: consecutive rows of runs, and their division into equal ranges in the order of (key, value).

A compaction is divided twice in the same way: by the writer into files, and by the task of a file into ranges that fit
into memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import pyarrow as pa

from quantide.history.block_search import Fences, Read, cut
from quantide.history.run import Key, Run, RunFile, RunSegment, key_at
from quantide.summary.key_encoding import encode_keys
from quantide.typing import Ints

FileRange = tuple[RunFile, int, int]  # rows start to end of a file


@dataclass(frozen=True)
class RowRange:
    """Rows start to end of a run."""

    run: Run
    start: int
    end: int

    @staticmethod
    def of(run: Run) -> "RowRange":
        """Return all rows of a run."""
        return RowRange(run, 0, run.rows)

    def __len__(self) -> int:
        return self.end - self.start

    def slice(self, start: int, end: int) -> "RowRange":
        """Return rows start to end of this range."""
        return RowRange(self.run, self.start + start, self.start + end)

    @property
    def files(self) -> list[FileRange]:
        """Files with rows of this range, and their rows in it."""
        ranges = []
        for part, offset in zip(self.run.parts, self._offsets.tolist(), strict=True):
            first, last = max(self.start - offset, 0), min(self.end - offset, part.index.info.rows)
            if first < last:
                ranges.append((part, first, last))
        return ranges

    def segment(self, key: Key | None, read: Read) -> RunSegment:
        """Return the rows of a key in this range, or of all if there are no keys; `read` reads blocks."""
        if key is None:
            return _slice_segment(self.run.unkeyed_segment, self.start, self.end, read)
        part, index = self.run.locate(key)[0]
        first = int(self._offsets[self.run.parts.index(part)] + part.index.first_rows[index])
        segment = self.run.segment(key)
        assert segment is not None
        return _slice_segment(segment, max(0, self.start - first), min(len(segment), self.end - first), read)

    @cached_property
    def _offsets(self) -> Ints:
        """Row of the run at which each of its files begins."""
        rows = [part.index.info.rows for part in self.run.parts]
        return np.cumsum([0, *rows[:-1]])


class KeyCounts:
    """Number of rows of each key in each of several ranges."""

    def __init__(self, ranges: Sequence[RowRange]) -> None:
        keys, counts, owners = [], [], []
        for owner, one in enumerate(ranges):
            for part, start, end in one.files:
                first_rows = np.clip(part.index.first_rows, start, end)
                keys.append(part.index.keys)
                counts.append(np.diff(first_rows))
                owners.append(np.full(len(part.index.keys), owner))
        codes, self.keys = encode_keys(pa.concat_arrays(keys))
        self.rows = np.zeros((len(self.keys), len(ranges)), dtype=np.int64)
        np.add.at(self.rows, (codes, np.concatenate(owners)), np.concatenate(counts))

    @property
    def totals(self) -> Ints:
        """Number of rows of each key in all ranges."""
        totals: Ints = self.rows.sum(axis=1)
        return totals


def split_ranges(
    ranges: Sequence[RowRange], pieces: int, counts: KeyCounts | None, read: Read
) -> list[tuple[RowRange, ...]]:
    """Divide ranges of several runs into about equal pieces; together they are all rows, in the order of (key, value).

    `counts` are those of the ranges; None without keys. A key that is not cut can leave nothing between two cuts: there
    is no piece for that.
    """
    rows = sum(map(len, ranges))
    targets = [rows * i // pieces for i in range(1, pieces)]
    if not targets:
        cuts = []
    elif counts is None:
        cuts = _cuts([one.segment(None, read) for one in ranges], targets, read)
    else:
        cuts = _keyed_cuts(ranges, counts, targets, -(-rows // pieces), read)
    edges = [np.zeros(len(ranges), dtype=np.int64), *cuts, np.array([len(one) for one in ranges])]
    divided = []
    for low, high in pairwise(edges):
        bounds = zip(ranges, low.tolist(), high.tolist(), strict=True)
        divided.append(tuple(one.slice(start, end) for one, start, end in bounds if start < end))
    return [piece for piece in divided if piece]


def _cuts(segments: list[RunSegment], targets: list[int], read: Read) -> list[Ints]:
    """Return how many rows of each segment are among the first `target` of all, for each target."""
    fences = Fences(segments)
    return [cut(fences, None, target + 1, read).before for target in targets]


def _keyed_cuts(ranges: Sequence[RowRange], counts: KeyCounts, targets: list[int], size: int, read: Read) -> list[Ints]:
    """Cut where keys begin, by the directories; cut within a key, by value, only if it has more than `size` rows."""
    rows, totals = counts.rows, counts.totals
    before = np.concatenate([np.zeros((1, len(ranges)), dtype=np.int64), np.cumsum(rows, axis=0)])
    ends = before.sum(axis=1)
    cuts = []
    for target in targets:
        key = int(np.searchsorted(ends, target, side="right")) - 1
        inside = target - int(ends[key])
        position = before[key].copy()
        if inside and totals[key] > size:
            cut_key = key_at(counts.keys, key)
            owners = np.flatnonzero(rows[key]).tolist()
            segments = [ranges[i].segment(cut_key, read) for i in owners]
            position[owners] += _cuts(segments, [inside], read)[0]
        cuts.append(position)
    return cuts


def _slice_segment(segment: RunSegment, start: int, end: int, read: Read) -> RunSegment:
    """Return rows start to end of a segment.

    The first value is read if a block begins before it. `last` is that of a longer segment, which bounds it.
    """
    if start == 0 and end == len(segment):
        return segment
    first = int(np.searchsorted(segment.starts, start, side="right")) - 1
    last = int(np.searchsorted(segment.starts, end, side="left"))
    fences, skip = segment.fences[first:last].copy(), segment.skip[first:last].copy()
    inside = start - int(segment.starts[first])
    if inside:
        fences[0] = read([(segment, first)])[0][inside]
        skip[0] += inside
    starts = np.clip(segment.starts[first : last + 1], start, end) - start
    upper = segment.fences[last] if last < len(segment.fences) else segment.last
    files, groups = segment.file[first:last], segment.group[first:last]
    return RunSegment(fences, starts, upper, segment.paths, files, groups, skip)
