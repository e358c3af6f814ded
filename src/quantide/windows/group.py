"""Group: slices side by side as one node of a tree, with its two halves for as long as they are of use."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from quantide.sketches.frame import FrameReader, FrameWriter
from quantide.summary.ranks import MAX_N
from quantide.summary.summary import Summary


class Lead(NamedTuple):
    """Where the first slice of a group ends, and its last marks: it may reach far back beyond the group's interval."""

    end: int
    marks: tuple[Any, ...]


@dataclass(slots=True)
class Group:
    """One slice, or two groups side by side. `marks` has a pair for each mark: of its first and its last element."""

    start: int
    end: int
    summary: Summary
    marks: tuple[tuple[Any, Any], ...]
    before: float  # the slack of everything before it
    slack: float
    entry: int  # how loose its slices were when they came
    lead: "Lead"
    size: int = 0  # of the aligned interval; 0 for one slice
    height: int = 0
    left: "Group | None" = None
    right: "Group | None" = None
    waits: bool = True  # to be joined with the next group; until then it is not thinned for its age
    thinned_at: float = 0.0  # the slack since its start when it was last thinned for its age

    def walk(self) -> Iterator["Group"]:
        yield self
        for half in (self.left, self.right):
            if half is not None:
                yield from half.walk()

    def write(self, frame: FrameWriter) -> None:
        """All but the summary and the halves."""
        numbers = (self.entry, self.lead.end, self.size, self.height, self.waits, self.left is not None)
        for number in numbers:
            frame.number(number)
        frame.array(np.array([self.before, self.slack, self.thinned_at]))
        for (first, last), lead in zip(self.marks, self.lead.marks, strict=True):
            frame.array(np.array([first, lead, last]))


def read_group(
    frame: FrameReader, summary: Summary, rest: Iterator[Summary], start: int, marks: list[np.dtype[Any]]
) -> Group:
    """The group that write() left, of this summary; its halves are of the next of the rest."""
    entry, lead = frame.number(MAX_N), frame.number(MAX_N)
    size, height = frame.number(2 * MAX_N), frame.number(64)
    waits, halved = frame.number(1), frame.number(1)
    before, slack, thinned_at = frame.array(np.dtype(np.float64), 3).tolist()
    triples = [frame.finite(mark, 3) for mark in marks]
    pairs, leads = tuple((t[0], t[2]) for t in triples), Lead(lead, tuple(t[1] for t in triples))
    end = start + summary.n
    group = Group(start, end, summary, pairs, before, slack, entry, leads, size, height, waits=bool(waits))
    group.thinned_at = thinned_at
    frame.require(
        all(math.isfinite(x) for x in (before, slack, thinned_at)) and all(a <= b <= c for a, b, c in triples)
    )
    frame.require(start < lead <= end)
    if halved:
        frame.require(height > 0)
        halves = []
        for _ in "lr":
            half = next(rest, None)
            if half is None:
                frame.require(False)
            else:
                halves.append(read_group(frame, half, rest, start, marks))
                start = halves[-1].end
        group.left, group.right = halves
        frame.require(start == group.end and group.height > max(half.height for half in halves))
    return group


def apart(a: Group, b: Group) -> int:
    """The size of the smallest aligned interval that holds the last places of both."""
    return 1 << ((a.end - 1) ^ (b.end - 1)).bit_length()
