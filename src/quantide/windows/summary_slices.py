"""Slices: blocks of values that arrive already summarised, of any size, in aligned groups of power-of-two sizes.

A slice occupies the positions of its values and belongs to the position of its last one. The smallest aligned interval
of power-of-two size that contains the last positions of several slices makes them a group, so groups form a binary
tree. A group is summarised from its two halves as soon as no further slice can join it. The halves are kept as
boundaries for as long as a window needs them, by the same rule as in block_layout.py, and are thinned as they age.

The looseness of a slice on arrival cannot be undone, so each brings its own budget, `slack`: BLOCK_SHARE * eps * n less
its own looseness. Ages are counted in slack, and a group may be thinned by at most the slack since its start over
`budget_divisor(eps) + UNEVEN`: all groups of a window together then use what their slices left. Proof in
docs/guarantees/windows.md.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from quantide.sketches.byte_frame import FrameReader, FrameWriter
from quantide.summary.ranks import MAX_N
from quantide.summary.summary import Summary, TupleArrays
from quantide.windows.block_layout import BLOCK_SHARE, SPARSE, STEADY, BlockLayout, budget_divisor
from quantide.windows.newest_values import thin_within

UNEVEN = 9  # slices of any size make more groups than blocks of values would
MAINTENANCE_SHARE = 4  # maintain() runs after a quarter as many slices as there are groups

Marks = tuple[tuple[Any, Any], ...]  # first and last of each mark


class LeadSlice(NamedTuple):
    """End and last marks of a group's first slice, which may begin far before the group's interval."""

    end: int
    marks: tuple[Any, ...]


@dataclass(slots=True)
class SliceGroup:
    """One slice, or two adjacent groups, a node of a tree. The halves are dropped when no window needs them."""

    start: int
    end: int
    summary: Summary
    marks: Marks
    slack_before: float  # total slack of everything before it
    slack: float
    entry: int  # looseness of its slices on arrival
    lead: LeadSlice
    size: int = 0  # size of the aligned interval; 0 for one slice
    height: int = 0
    left: "SliceGroup | None" = None
    right: "SliceGroup | None" = None
    pending: bool = True  # will be merged with the next group; until then it is not thinned for its age
    thinned_at: float = 0.0  # slack since its start when it was last thinned for its age

    def walk(self) -> Iterator["SliceGroup"]:
        """Yield this group, then its halves, recursively."""
        yield self
        for half in (self.left, self.right):
            if half is not None:
                yield from half.walk()

    def write(self, frame: FrameWriter) -> None:
        """Write everything except the summary and the halves."""
        numbers = (self.entry, self.lead.end, self.size, self.height, self.pending, self.left is not None)
        for number in numbers:
            frame.number(number)
        frame.array(np.array([self.slack_before, self.slack, self.thinned_at]))
        for (first, last), lead in zip(self.marks, self.lead.marks, strict=True):
            frame.array(np.array([first, lead, last]))


class SummarySlices:
    """Tuples for every suffix of the slices."""

    def __init__(self, layout: BlockLayout) -> None:
        self.layout = layout
        self.slack = 0.0  # total of all closed slices
        self.open: SliceGroup | None = None  # the newest slice; slices that overlap it in time are merged into it
        self.start = 0  # oldest position in memory
        self.roots: list[SliceGroup] = []  # groups that are not part of a larger one, larger and older first
        self._countdown = MAINTENANCE_SHARE  # slices until the next maintenance

    @property
    def n(self) -> int:
        """Number of values in all slices so far."""
        newest = self.open or (self.roots[-1] if self.roots else None)
        return newest.end if newest else self.start

    @property
    def nbytes(self) -> int:
        return sum(group.summary.nbytes for group in self.groups())

    @property
    def stored_values(self) -> int:
        """Number of tuples in memory."""
        return sum(len(group.summary) for group in self.groups())

    def groups(self) -> Iterator[SliceGroup]:
        for root in self._all_roots():
            yield from root.walk()

    def _all_roots(self) -> list[SliceGroup]:
        return [*self.roots, self.open] if self.open else self.roots

    def add(self, summary: Summary, marks: Marks) -> None:
        """Close the open slice and add the next one, which stays open."""
        self.close()
        self.open = self._new_slice(self.n, summary, marks, summary.looseness)

    def extend(self, summary: Summary, marks: Marks) -> None:
        """Merge a summary into the open slice."""
        if self.open is None:
            return self.add(summary, marks)
        joined = tuple((min(a[0], b[0]), max(a[1], b[1])) for a, b in zip(self.open.marks, marks, strict=True))
        entry = self.open.entry + summary.looseness
        self.open = self._new_slice(self.open.start, Summary.merge(self.open.summary, summary), joined, entry)

    def _new_slice(self, start: int, summary: Summary, marks: Marks, entry: int) -> SliceGroup:
        slack = BLOCK_SHARE * self.layout.eps * summary.n - entry
        lead = LeadSlice(start + summary.n, tuple(last for _, last in marks))
        leaf = SliceGroup(start, start + summary.n, summary, marks, self.slack, slack, entry, lead)
        self._thin(leaf, leaf.slack * self._share(0))
        return leaf

    def close(self) -> None:
        """Close the open slice and merge groups that no further slice can join."""
        leaf, self.open = self.open, None
        if leaf is None:
            return
        while len(self.roots) > 1:
            left, right = self.roots[-2:]
            if _common_interval(left, right) >= _common_interval(right, leaf):
                break
            both_pending = left.pending and right.pending
            left.pending = right.pending = False
            if not both_pending:  # the merged group would begin where everything is forgotten
                break
            self.roots[-2:] = [self._merge_halves(left, right)]
        self.roots.append(leaf)
        self.slack += leaf.slack
        self._countdown -= 1
        if self._countdown <= 0:
            self._maintain()

    def _merge_halves(self, left: SliceGroup, right: SliceGroup) -> SliceGroup:
        height = 1 + max(left.height, right.height)
        group = SliceGroup(
            left.start,
            right.end,
            Summary.merge(left.summary, right.summary),
            tuple((a[0], b[1]) for a, b in zip(left.marks, right.marks, strict=True)),
            left.slack_before,
            left.slack + right.slack,
            left.entry + right.entry,
            left.lead,
            _common_interval(left, right),
            height,
            left,
            right,
        )
        self._thin(group, group.slack * self._share(height))
        return group

    def _share(self, height: int) -> float:
        """Return the share of its slack that a group may use when it is made; see BlockLayout.merge_budget."""
        steady, later = min(height + 1, STEADY), max(0, height + 1 - STEADY)
        return min(1.0, steady / 16 + later / SPARSE) / (budget_divisor(self.layout.eps) + UNEVEN)

    def _thin(self, group: SliceGroup, allowed: float) -> None:
        """Compress until the group is loose by at most `allowed` more than its slices were on arrival."""
        group.summary = thin_within(group.summary, group.entry + allowed)

    def _maintain(self) -> None:
        """Thin old groups, and drop halves that no window needs."""
        count = 0
        for group in self.groups():
            count += 1
            if self._is_indivisible(group):
                group.left = group.right = None
            age = self.slack - group.slack_before
            if not group.pending and age >= 2 * group.thinned_at:
                group.thinned_at = age
                self._thin(group, age / (budget_divisor(self.layout.eps) + UNEVEN))
        self._countdown = max(MAINTENANCE_SHARE, count // MAINTENANCE_SHARE)

    def _is_indivisible(self, group: SliceGroup) -> bool:
        """Return True if no window is cut inside the group: it is one slice, or its halves have expired."""
        return group.left is None or self.n - group.end >= self._expiry_age(group)

    def _expiry_age(self, group: SliceGroup) -> int:
        """Return the age of its end from which a group is indivisible; its first slice may begin far before it."""
        return self.layout.expiry_age(-(-max(group.size, group.end - group.start) // 2))

    def forget(self, before: int) -> None:
        """Drop everything before this position, as far as groups can be divided."""
        end = self.n
        while self.roots and self.roots[0].start < before:
            first = self.roots[0]
            if first.end <= before:
                self.roots.pop(0)
            elif self._is_indivisible(first) or first.left is None or first.right is None:
                break
            else:
                self.roots[:1] = [first.left, first.right]
        self.start = self._all_roots()[0].start if self._all_roots() else end

    def group_at(self, position: int) -> SliceGroup | None:
        """Return the indivisible group that contains a position."""
        return self._descend(lambda group: group.start <= position)

    def start_after(self, mark: int, threshold: Any) -> tuple[int, int]:
        """Return bounds on the first position whose mark exceeds the threshold; (-1, _) if it is forgotten."""
        group = self._descend(lambda group: group.marks[mark][0] <= threshold)
        if group is None:
            return (0 if self.start == 0 else -1), self.start
        if group.marks[mark][1] <= threshold:
            return group.end, group.end
        return (group.lead.end if group.lead.marks[mark] <= threshold else group.start + 1), group.end

    def _descend(self, condition: Callable[[SliceGroup], bool]) -> SliceGroup | None:
        """Return the last indivisible group that meets a condition which all groups before it meet, too."""
        group = next((root for root in reversed(self._all_roots()) if condition(root)), None)
        while group is not None and not self._is_indivisible(group) and group.left and group.right:
            group = group.right if condition(group.right) else group.left
        return group

    def cut(self, start: int) -> int:
        """Return the first position at or after this one where a group starts."""
        group = self.group_at(start) if start < self.n else None
        return start if group is None or group.start == start else group.end

    def first_mark(self, mark: int, cut: int) -> Any:
        """Return the mark of the first value at a cut."""
        group = self.group_at(cut)
        return group.marks[mark][0] if group else None

    def tuples_from(self, cut: int) -> list[TupleArrays]:
        """Return the tuples of everything from a cut on."""
        summaries = [group.summary for root in self._all_roots() for group in self._groups_from(root, cut)]
        return [(s.carried, s.rmin, s.rmax, s.n) for s in summaries]

    def _groups_from(self, group: SliceGroup, cut: int) -> Iterator[SliceGroup]:
        if group.start >= cut:
            yield group
        elif group.end > cut and group.left and group.right:
            yield from self._groups_from(group.left, cut)
            yield from self._groups_from(group.right, cut)

    def write(self, frame: FrameWriter) -> None:
        """Write all groups, each before its halves."""
        groups = list(self.groups())
        frame.number(self.start)
        frame.number(self._countdown)
        frame.number(self.open is not None)
        frame.array(np.array([self.slack]))
        frame.summaries([group.summary for group in groups])
        for group in groups:
            group.write(frame)

    def read(self, frame: FrameReader, marks: list[np.dtype[Any]]) -> None:
        """Read groups as write() writes them; raise on a state that no slices can produce."""
        self.start, self._countdown, has_open = frame.number(MAX_N), frame.number(MAX_N), frame.number(1)
        self.slack = float(frame.array(np.dtype(np.float64), 1)[0])
        summaries = iter(frame.summaries())
        end, before = self.start, None
        for summary in summaries:
            root = _read_group(frame, summary, summaries, end, marks)
            frame.require(before is None or all(a[1] <= b[0] for a, b in zip(before.marks, root.marks, strict=True)))
            self.roots.append(root)
            end, before = root.end, root
        frame.require(
            end <= MAX_N
            and (bool(self.roots) or not self.start)
            and math.isfinite(self.slack)
            and (not has_open or bool(self.roots))
        )
        if has_open:
            self.open = self.roots.pop()


def _read_group(
    frame: FrameReader, summary: Summary, rest: Iterator[Summary], start: int, marks: list[np.dtype[Any]]
) -> SliceGroup:
    """Read the group of this summary; the summaries of its halves come next in `rest`."""
    entry, lead = frame.number(MAX_N), frame.number(MAX_N)
    size, height = frame.number(2 * MAX_N), frame.number(64)
    pending, halved = frame.number(1), frame.number(1)
    before, slack, thinned_at = frame.array(np.dtype(np.float64), 3).tolist()
    triples = [frame.finite(mark, 3) for mark in marks]
    pairs, leads = tuple((t[0], t[2]) for t in triples), LeadSlice(lead, tuple(t[1] for t in triples))
    end = start + summary.n
    group = SliceGroup(start, end, summary, pairs, before, slack, entry, leads, size, height, pending=bool(pending))
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
                halves.append(_read_group(frame, half, rest, start, marks))
                start = halves[-1].end
        group.left, group.right = halves
        frame.require(start == group.end and group.height > max(half.height for half in halves))
    return group


def _common_interval(a: SliceGroup, b: SliceGroup) -> int:
    """Return the size of the smallest aligned interval that contains the last positions of both."""
    return 1 << ((a.end - 1) ^ (b.end - 1)).bit_length()
