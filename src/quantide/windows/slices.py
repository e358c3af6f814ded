"""Slices: blocks that came already summarised, of any size, as aligned groups of every power-of-two size.

A slice stands at the positions of its elements and belongs to the place of its last one. The smallest aligned interval
of power-of-two size that holds the last places of several slices makes them a group, so groups form a binary tree. A
group is summarised from its two halves as soon as no further slice can join it. The halves are kept as boundaries for
as long as a window needs them, the same rule as in layout.py, and are thinned as they age.

What a slice was loose by when it came cannot be undone, so each brings its own room, `slack`: what BLOCKS * eps * n
leaves beside its own looseness. Ages are counted in slack, and a group may be thinned by at most the slack since its
start over `blocks_of(eps) + UNEVEN`: all groups of a window together then use what their slices left. Proof in
docs/guarantees/windows.md.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from quantide.sketches.frame import FrameReader, FrameWriter
from quantide.summary.ranks import MAX_N
from quantide.summary.summary import Summary
from quantide.windows.group import Group, Lead, apart, read_group
from quantide.windows.layout import BLOCKS, SPARSE, STEADY, Layout, blocks_of
from quantide.windows.level import Part

UNEVEN = 9  # slices of any size make more groups than blocks of values would
OFTEN = 4  # groups are looked over when a quarter as many slices came as there are groups


class Slices:
    """Answers for every suffix of slices."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.slack = 0.0  # of all closed slices
        self.open: Group | None = None  # the newest slice, which others that overlap it in time still join
        self.start = 0  # the oldest position that is held
        self.roots: list[Group] = []  # groups that are not yet part of a larger one, larger and older first
        self._until = OFTEN  # so many slices more, and the groups are looked over

    @property
    def n(self) -> int:
        """How many elements have come."""
        newest = self.open or (self.roots[-1] if self.roots else None)
        return newest.end if newest else self.start

    @property
    def nbytes(self) -> int:
        return sum(group.summary.nbytes for group in self.groups())

    @property
    def values(self) -> int:
        """How many tuples are held."""
        return sum(len(group.summary) for group in self.groups())

    def groups(self) -> Iterator[Group]:
        for root in self._all():
            yield from root.walk()

    def _all(self) -> list[Group]:
        return [*self.roots, self.open] if self.open else self.roots

    def add(self, summary: Summary, marks: tuple[tuple[Any, Any], ...]) -> None:
        """Take the next slice, which stays open."""
        self.close()
        self.open = self._slice(self.n, summary, marks, summary.gap - 1)

    def join(self, summary: Summary, marks: tuple[tuple[Any, Any], ...]) -> None:
        """Take more of the open slice."""
        if self.open is None:
            return self.add(summary, marks)
        both = tuple((min(a[0], b[0]), max(a[1], b[1])) for a, b in zip(self.open.marks, marks, strict=True))
        entry = self.open.entry + summary.gap - 1
        self.open = self._slice(self.open.start, Summary.merge(self.open.summary, summary), both, entry)

    def _slice(self, start: int, summary: Summary, marks: tuple[tuple[Any, Any], ...], entry: int) -> Group:
        slack = BLOCKS * self.layout.eps * summary.n - entry
        lead = Lead(start + summary.n, tuple(last for _, last in marks))
        leaf = Group(start, start + summary.n, summary, marks, self.slack, slack, entry, lead)
        self._thin(leaf, leaf.slack * self._share(0))
        return leaf

    def close(self) -> None:
        """Nothing joins the open slice any more: it becomes part of groups."""
        leaf, self.open = self.open, None
        if leaf is None:
            return
        while len(self.roots) > 1:
            left, right = self.roots[-2:]
            if apart(left, right) >= apart(right, leaf):
                break
            both_wait = left.waits and right.waits
            left.waits = right.waits = False
            if not both_wait:  # what they would make reaches back to where all is forgotten
                break
            self.roots[-2:] = [self._joined(left, right)]
        self.roots.append(leaf)
        self.slack += leaf.slack
        self._until -= 1
        if self._until <= 0:
            self._look_over()

    def _joined(self, left: Group, right: Group) -> Group:
        height = 1 + max(left.height, right.height)
        group = Group(
            left.start,
            right.end,
            Summary.merge(left.summary, right.summary),
            tuple((a[0], b[1]) for a, b in zip(left.marks, right.marks, strict=True)),
            left.before,
            left.slack + right.slack,
            left.entry + right.entry,
            left.lead,
            apart(left, right),
            height,
            left,
            right,
        )
        self._thin(group, group.slack * self._share(height))
        return group

    def _share(self, height: int) -> float:
        """The part of its slack that a group may have used when it is made; as Layout.chain_room."""
        steady, later = min(height + 1, STEADY), max(0, height + 1 - STEADY)
        return min(1.0, steady / 16 + later / SPARSE) / (blocks_of(self.layout.eps) + UNEVEN)

    def _thin(self, group: Group, allowed: float) -> None:
        """Keep so few tuples that the group is loose by at most `allowed` more than its slices were."""
        more = allowed - (group.summary.gap - 1 - group.entry)
        if more >= 1:
            group.summary = group.summary.compress(math.ceil(group.summary.n / more))

    def _look_over(self) -> None:
        """Thin what has grown old, and forget halves that have outlived their use."""
        count = 0
        for group in self.groups():
            count += 1
            if self._is_whole(group):
                group.left = group.right = None
            age = self.slack - group.before
            if not group.waits and age >= 2 * group.thinned_at:
                group.thinned_at = age
                self._thin(group, age / (blocks_of(self.layout.eps) + UNEVEN))
        self._until = max(OFTEN, count // OFTEN)

    def _is_whole(self, group: Group) -> bool:
        """Whether a group is used as one: it is a slice, or its halves have outlived their use."""
        return group.left is None or self.n - group.end >= self._outlived(group)

    def _outlived(self, group: Group) -> int:
        """The age of its end from which on a group is used as one; its first slice may reach back far."""
        return self.layout.outlived(-(-max(group.size, group.end - group.start) // 2))

    def forget(self, before: int) -> None:
        """Nothing before this position will be asked for."""
        end = self.n
        while self.roots and self.roots[0].start < before:
            first = self.roots[0]
            if first.end <= before:
                self.roots.pop(0)
            elif self._is_whole(first) or first.left is None or first.right is None:
                break
            else:
                self.roots[:1] = [first.left, first.right]
        self.start = self._all()[0].start if self._all() else end

    def holding(self, position: int) -> Group | None:
        """The group, used as one, that holds a position."""
        return self._descend(lambda group: group.start <= position)

    def after(self, mark: int, threshold: Any) -> tuple[int, int]:
        """Between which positions the first element lies whose mark is above a threshold; (-1, _) if not known."""
        group = self._descend(lambda group: group.marks[mark][0] <= threshold)
        if group is None:
            return (0 if self.start == 0 else -1), self.start
        if group.marks[mark][1] <= threshold:
            return group.end, group.end
        return (group.lead.end if group.lead.marks[mark] <= threshold else group.start + 1), group.end

    def _descend(self, reached: Any) -> Group | None:
        """The last group, used as one, for whose start the condition holds; it holds for all before, too."""
        found = next((root for root in reversed(self._all()) if reached(root)), None)
        while found is not None and not self._is_whole(found) and found.left and found.right:
            found = found.right if reached(found.right) else found.left
        return found

    def cut(self, start: int) -> int:
        """The first position at or after this one where a group starts."""
        group = self.holding(start) if start < self.n else None
        return start if group is None or group.start == start else group.end

    def first_mark(self, mark: int, cut: int) -> Any:
        """The mark of the first element at a cut."""
        group = self.holding(cut)
        return group.marks[mark][0] if group else None

    def parts(self, cut: int) -> list[Part]:
        """Tuples of everything from a cut on."""
        summaries = [group.summary for root in self._all() for group in self._from(root, cut)]
        return [(s.carried, s.rmin, s.rmax, s.n) for s in summaries]

    def _from(self, group: Group, cut: int) -> Iterator[Group]:
        if group.start >= cut:
            yield group
        elif group.end > cut and group.left and group.right:
            yield from self._from(group.left, cut)
            yield from self._from(group.right, cut)

    def write(self, frame: FrameWriter) -> None:
        """All groups, each before its halves."""
        groups = list(self.groups())
        frame.number(self.start)
        frame.number(self._until)
        frame.number(self.open is not None)
        frame.array(np.array([self.slack]))
        frame.summaries([group.summary for group in groups])
        for group in groups:
            group.write(frame)

    def read(self, frame: FrameReader, marks: list[np.dtype[Any]]) -> None:
        """Take what write() left, refusing what no slices could have left."""
        self.start, self._until, opened = frame.number(MAX_N), frame.number(MAX_N), frame.number(1)
        self.slack = float(frame.array(np.dtype(np.float64), 1)[0])
        summaries = iter(frame.summaries())
        end, before = self.start, None
        for summary in summaries:
            root = read_group(frame, summary, summaries, end, marks)
            frame.require(before is None or all(a[1] <= b[0] for a, b in zip(before.marks, root.marks, strict=True)))
            self.roots.append(root)
            end, before = root.end, root
        frame.require(
            end <= MAX_N
            and (bool(self.roots) or not self.start)
            and math.isfinite(self.slack)
            and (not opened or bool(self.roots))
        )
        if opened:
            self.open = self.roots.pop()
