"""Lanes: the rows of one key, or of all, in one recent file that a window cuts.

A lane of few rows is looked at row by row. One of many is cut into blocks, each with its times and a summary, once;
after that a window that cuts it reads the blocks at its edges only.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quantide.store.recent import PART, RecentFile
from quantide.store.rows import ALL, SortedRows
from quantide.summary.summary import Summary
from quantide.summary.types import ValueType

Array = NDArray[Any]

BLOCK = 1 << 16  # rows of a block
FEW = 2 * BLOCK  # rows up to which a lane has no blocks


class Between(NamedTuple):
    """Times above one, and, where there may be later ones, up to another."""

    above: Any
    upto: Any = None

    def passes_by(self, oldest: Any, newest: Any) -> bool:
        """Whether none of rows with such times is meant."""
        return bool(newest <= self.above or (self.upto is not None and oldest > self.upto))

    def holds(self, oldest: Any, newest: Any) -> bool:
        """Whether all of them are."""
        return bool(oldest > self.above and (self.upto is None or newest <= self.upto))

    def chosen(self, times: Array) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = times > self.above
        return found if self.upto is None else found & (times <= self.upto)


@dataclass(frozen=True)
class Found:
    """What a window holds: values, of which all is known, and summaries."""

    values: list[Array]
    summaries: list[Summary]

    def add(self, more: "Found") -> None:
        self.values.extend(more.values)
        self.summaries.extend(more.summaries)

    def summary(self, kind: ValueType) -> Summary:
        """All of it as one; merging adds nothing to the error of the summaries."""
        exact = np.concatenate([np.empty(0, kind.carrier), *self.values])
        exact.sort()
        return Summary.merge(Summary.of_sorted(exact, kind), *self.summaries)


@dataclass(frozen=True)
class Lane:
    """Rows in the order they came, those left out that a filter does not want: `position` tells where each stood."""

    kind: ValueType
    values: Array
    times: Array
    position: Array | None

    @classmethod
    def read(cls, file: RecentFile, place: int | None, filter: str | None) -> "Lane":
        rows = file.lane(place)
        values, times = file.values(rows), file.times(rows)
        wanted = None if filter is None else file.satisfies(rows, filter)
        if place is None and file.keyed:  # rows lie key by key
            order = file.order()
            values, times = values[order], times[order]
            wanted = None if wanted is None else wanted[order]
        if wanted is None:
            return cls(file.kind, values, times, None)
        return cls(file.kind, values[wanted], times[wanted], np.flatnonzero(wanted))

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in (self.values, self.times, self.position) if array is not None)

    def start(self, skip: int) -> int:
        """The first row that is not among the first `skip` of the lane."""
        return skip if self.position is None else int(np.searchsorted(self.position, skip))

    def cut(self, skip: int, span: Between | None) -> Array:
        """The values of the rows after the first `skip` whose time lies in a span."""
        start = self.start(skip)
        return self.values[start:] if span is None else self.values[start:][span.chosen(self.times[start:])]


class Blocks:
    """A lane of many rows, in blocks."""

    def __init__(self, lane: Lane, eps: float) -> None:
        self.lane, self._eps = lane, eps

    @property
    def nbytes(self) -> int:
        return self.lane.nbytes + sum(summary.nbytes for summary in self._summaries)

    def cut(self, skip: int, span: Between | None) -> Found:
        """What Lane.cut gives, with summaries for blocks that are in the window as a whole."""
        lane, found = self.lane, Found([], [])
        start = lane.start(skip)
        for block, (oldest, newest) in enumerate(self._spans):
            first, last = max(start, block * BLOCK), min((block + 1) * BLOCK, len(lane.values))
            if last <= first or (span is not None and span.passes_by(oldest, newest)):
                continue
            if first == block * BLOCK and (span is None or span.holds(oldest, newest)):
                found.summaries.append(self._summaries[block])
            else:
                rows = slice(first, last)
                wanted = slice(None) if span is None else span.chosen(lane.times[rows])
                found.values.append(lane.values[rows][wanted])
        return found

    @cached_property
    def _spans(self) -> list[tuple[Any, Any]]:
        starts = range(0, len(self.lane.values), BLOCK)
        return [(times.min(), times.max()) for i in starts if len(times := self.lane.times[i : i + BLOCK])]

    @cached_property
    def _summaries(self) -> list[Summary]:
        kind, out = self.lane.kind, []
        for i in range(0, len(self.lane.values), BLOCK):
            values = np.sort(self.lane.values[i : i + BLOCK])
            kept = SortedRows(kind, ALL, np.array([0, len(values)]), values).summarise(self._eps / PART).tuples
            out.append(Summary(kept.values, kept.rmin, kept.rmax, len(values), kind))
        return out
