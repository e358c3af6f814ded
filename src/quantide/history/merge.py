"""Merge: which runs become one, and the equal ranges their rows are cut into, one task each."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from quantide.history.blocks import Blocks
from quantide.history.run import Run, key_at
from quantide.history.search import Fences, cut
from quantide.history.segment import Segment
from quantide.history.tasks import Source
from quantide.summary.keys import encode_keys

Ints = NDArray[np.int64]

RANGE = 1 << 22  # rows of a task: what it holds in memory is a few times that
FAN = 16  # chunks of a size that are too many for an open step
SIZE_BITS = 4  # sizes of chunks differ by a factor of 2**4
LARGE = 1 << 22  # rows of a chunk that is left alone until its step ends
DROPPED = 4  # a run may span a fourth of the retention, so that no more than that is kept too long


@dataclass(frozen=True)
class Merge:
    """Runs that become one of the given level."""

    runs: tuple[Run, ...]
    level: int

    @property
    def rows(self) -> int:
        return sum(run.rows for run in self.runs)

    @property
    def first(self) -> int:
        return min(run.id.first for run in self.runs)

    @property
    def last(self) -> int:
        return max(run.id.last for run in self.runs)


def expired(run: Run, step: int, retention: int | None, held: range = range(0)) -> bool:
    """Return True if all of a run is older than the retention (in steps) while a step is open.

    Steps that are `held` count as if they had ended when the step after all of them was the open one.
    """
    if retention is None:
        return False
    return (held.stop - 1 if run.id.last in held else run.id.last) < step - retention


def next_expired(runs: Sequence[Run], retention: int) -> list[Run]:
    """The expired runs that are dropped at once: the oldest, with no more steps than one run may have."""
    old = sorted(runs, key=lambda run: run.id)
    longest = max(1, retention // DROPPED)
    return [run for run in old if run.id.last < old[0].id.first + longest or run.id.last <= old[0].id.last]


def next_merge(runs: Sequence[Run], kappa: int, retention: int | None) -> Merge | None:
    """What is to be merged now; None when every level has at most kappa runs and every step one.

    More than kappa runs of a level become one of the next. Where that would make the next level too full as well,
    all of them are merged at once, and written once. With a retention (in steps) no run becomes so long that its
    oldest rows would be kept much beyond it.
    """
    longest = None if retention is None else max(1, retention // DROPPED)
    steps: dict[tuple[int, int], list[Run]] = {}  # chunks of one step count as one run
    for run in runs:
        steps.setdefault((run.id.first, run.id.last), []).append(run)
    levels: dict[int, list[list[Run]]] = {}
    for held in steps.values():
        levels.setdefault(held[0].id.level, []).append(held)
    for level in sorted(levels):
        best, chosen, target = None, list(levels[level]), level + 1
        while len(chosen) > kappa and (longest is None or _span(chosen) <= longest):
            best = Merge(tuple(sorted((run for held in chosen for run in held), key=lambda run: run.id)), target)
            above = levels.get(target, [])
            if len(above) + 1 <= kappa:
                break
            chosen, target = [*chosen, *above], target + 1
        if best is not None:
            return best
    split = [held for held in steps.values() if len(held) > 1]
    return Merge(tuple(split[0]), split[0][0].id.level) if split else None


def next_compaction(chunks: Sequence[Run]) -> Merge | None:
    """Chunks of the open step that become one now; None when there are few of every size.

    FAN chunks of a size make one of a larger size, so that a row is written again once a size.
    """
    sizes: dict[int, list[Run]] = {}
    for chunk in chunks:
        if chunk.rows < LARGE:
            sizes.setdefault((chunk.rows.bit_length() - 1) // SIZE_BITS, []).append(chunk)
    return next((Merge(tuple(sizes[size]), 0) for size in sorted(sizes) if len(sizes[size]) >= FAN), None)


def _span(chosen: list[list[Run]]) -> int:
    return max(held[0].id.last for held in chosen) - min(held[0].id.first for held in chosen) + 1


def ranges(merge: Merge, keyed: bool, blocks: Blocks) -> list[tuple[Source, ...]]:
    """The sources of each task: together they are all rows of all runs, in the order of (key, value).

    A key that is not cut can leave nothing between two cuts: there is no task for that.
    """
    tasks = max(1, -(-merge.rows // RANGE))
    targets = [merge.rows * i // tasks for i in range(1, tasks)]
    cuts = (
        _keyed_cuts(merge.runs, targets, blocks) if keyed else _cuts([run.whole for run in merge.runs], targets, blocks)
    )
    edges = [np.zeros(len(merge.runs), dtype=np.int64), *cuts, np.array([run.rows for run in merge.runs])]
    return [found for low, high in pairwise(edges) if (found := _sources(merge.runs, low, high))]


def _cuts(segments: list[Segment], targets: list[int], blocks: Blocks) -> list[Ints]:
    """How many rows of each segment are among the first `target` of all."""
    fences = Fences(segments)
    return [cut(fences, None, target + 1, blocks.read).before for target in targets]


def _keyed_cuts(runs: Sequence[Run], targets: list[int], blocks: Blocks) -> list[Ints]:
    """Cuts where keys begin, as the directories tell; within a key, by value, only when it is that large."""
    directory = pa.concat_arrays([part.side.keys for run in runs for part in run.parts])
    counts = np.concatenate([part.side.counts for run in runs for part in run.parts])
    owner = np.repeat(np.arange(len(runs)), [sum(len(part.side.counts) for part in run.parts) for run in runs])
    codes, distinct = encode_keys(directory)
    held = np.zeros((len(distinct), len(runs)), dtype=np.int64)
    np.add.at(held, (codes, owner), counts)
    before = np.concatenate([np.zeros((1, len(runs)), dtype=np.int64), np.cumsum(held, axis=0)])
    ends = before.sum(axis=1)
    out = []
    for target in targets:
        key = int(np.searchsorted(ends, target, side="right")) - 1
        inside = target - int(ends[key])
        place = before[key].copy()
        if inside and held[key].sum() > RANGE:
            name = key_at(distinct, key)
            found = [(i, run.segment(name)) for i, run in enumerate(runs) if held[key, i]]
            segments = [segment for _, segment in found if segment is not None]
            place[[i for i, _ in found]] += _cuts(segments, [inside], blocks)[0]
        out.append(place)
    return out


def _sources(runs: Sequence[Run], low: Ints, high: Ints) -> tuple[Source, ...]:
    """The files behind rows low to high of each run."""
    out = []
    for run, start, end in zip(runs, low.tolist(), high.tolist(), strict=True):
        offset = 0
        for part in run.parts:
            rows = part.side.about.rows
            first, last = max(start - offset, 0), min(end - offset, rows)
            if first < last:
                out.append(Source(part.name.data, part.name.side, first, last))
            offset += rows
    return tuple(out)
