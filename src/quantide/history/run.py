"""Runs: sorted rows in one or more files, asked for the rows and the summary of a key."""

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from quantide.history.segment import Segment
from quantide.store.names import FileName, RunId
from quantide.store.sidefile import SideFile
from quantide.summary.copying import NotCopied
from quantide.summary.summary import Summary

Key = tuple[Any, ...]


@dataclass(frozen=True)
class Part:
    """A file of a run and what its side file tells."""

    name: FileName
    path: str
    side: SideFile

    def place(self, key: Key) -> int:
        """Where a key is in this file's directory; -1 when it is not there."""
        return find_place(self.side.keys, key)

    def segment(self, place: int) -> Segment:
        """The rows of the key at that place of the directory."""
        start, end = int(self.side.first_rows[place]), int(self.side.first_rows[place + 1])
        size = self.side.about.block_rows
        group, fences, last = self.side.fences_of(place)
        starts = np.append(np.maximum(group * size, start), end) - start
        skip = np.maximum(start - group * size, 0)
        return Segment(fences, starts, last, (self.path,), np.zeros(len(group), dtype=np.int64), group, skip)


@dataclass(frozen=True)
class Run(NotCopied):
    """The parts of a run, in the order of (key, value)."""

    REOPEN = "its files are open in this process; call runs() of a HistoryReader(path) where it is needed"

    id: RunId
    parts: tuple[Part, ...]

    @cached_property
    def rows(self) -> int:
        return sum(part.side.about.rows for part in self.parts)

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(part.side.about.data_size for part in self.parts)

    @cached_property
    def whole(self) -> Segment:
        """All rows of a run without keys."""
        return Segment.joined([part.segment(0) for part in self.parts])

    def places(self, key: Key) -> list[tuple[Part, int]]:
        """The parts that have a key, which may be cut in two where a part ends, and where."""
        firsts = self._first_keys
        wanted = in_order(key)
        some = range(max(0, bisect_left(firsts, wanted) - 1), bisect_right(firsts, wanted))
        found = [(self.parts[i], self.parts[i].place(key)) for i in some]
        return [(part, place) for part, place in found if place >= 0]

    def segment(self, key: Key) -> Segment | None:
        """The rows of a key; None when there are none."""
        found = [part.segment(place) for part, place in self.places(key)]
        return Segment.joined(found) if found else None

    def segments(self) -> list[Segment]:
        """The rows of every key; a key that two parts share is in two segments."""
        return [part.segment(place) for part in self.parts for place in range(len(part.side.counts))]

    def summary(self, key: Key | None) -> Summary | None:
        """The summary of a key, or of everything. Parts share no values, so that merging them costs no accuracy."""
        if key is None:
            found = [part.side.total for part in self.parts]
        else:
            found = [part.side.summary_of(place) for part, place in self.places(key)]
        return Summary.merge(*found) if found else None

    def thinned(self, eps: float) -> Summary:
        """The summary of everything with as few tuples as an error of eps allows; it is kept."""
        if eps not in self._thinned:
            found = self.summary(None)
            assert found is not None  # there is no run without rows
            room = eps - found.error
            self._thinned[eps] = found.compress(math.ceil(1 / (2 * room))) if room > 0 else found
        return self._thinned[eps]

    @cached_property
    def _thinned(self) -> dict[float, Summary]:
        return {}

    @cached_property
    def _first_keys(self) -> list[Any]:
        return [in_order(key_at(part.side.keys, 0)) for part in self.parts]


def find_place(keys: pa.Array, key: Key) -> int:
    """Where a key is in a directory; -1 when it is not there."""
    wanted = in_order(key)
    found = bisect_left(range(len(keys)), wanted, key=lambda i: in_order(key_at(keys, i)))
    return found if found < len(keys) and in_order(key_at(keys, found)) == wanted else -1


def key_at(keys: pa.Array, place: int) -> Key:
    """A key of a directory, a tuple also when it has one column."""
    found = keys[place].as_py()
    return tuple(found.values()) if isinstance(found, dict) else (found,)


def in_order(key: Key) -> tuple[Any, ...]:
    """Something that compares as the directory is sorted: NaN after numbers, null after everything."""
    return tuple((2, 0) if x is None else (1, 0) if x != x else (0, x) for x in key)
