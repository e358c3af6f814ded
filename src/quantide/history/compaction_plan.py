"""Compaction plan: which runs become one, and the equal ranges their rows are split into, one task each."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from quantide.history.block_search import Fences, cut
from quantide.history.compaction_tasks import CompactionInput
from quantide.history.run import BlockReader, Run, RunSegment, key_at
from quantide.summary.key_encoding import encode_keys
from quantide.typing import Ints

TASK_ROWS = 1 << 22  # of one task; its memory is a few times that
FANOUT = 16  # chunks of one size class that become one
SIZE_BITS = 4  # size classes of chunks differ by a factor of 2**4
LARGE_CHUNK = 1 << 22  # rows; a larger chunk is not compacted before its step ends
RETENTION_SHARE = 4  # a run spans at most a fourth of the retention, so rows outlive it by no more than that


@dataclass(frozen=True)
class Compaction:
    """Runs that become one run of the given level."""

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


def is_expired(run: Run, step: int, retention: int | None, held: range = range(0)) -> bool:
    """Return True if all of a run is older than the retention (in steps) while `step` is the open one.

    Steps in `held` count as if they had ended when the step after all of them was the open one.
    """
    if retention is None:
        return False
    return (held.stop - 1 if run.id.last in held else run.id.last) < step - retention


def select_expired(runs: Sequence[Run], retention: int) -> list[Run]:
    """Return the expired runs to drop at once: the oldest, with no more steps than one run may have."""
    by_age = sorted(runs, key=lambda run: run.id)
    longest = max(1, retention // RETENTION_SHARE)
    return [run for run in by_age if run.id.last < by_age[0].id.first + longest or run.id.last <= by_age[0].id.last]


def next_level_compaction(runs: Sequence[Run], kappa: int, retention: int | None) -> Compaction | None:
    """Return the next compaction of ended steps; None if every level has at most kappa runs and every step one.

    More than kappa runs of a level become one of the next. Where that would make the next level too full as well,
    all of them are merged at once, and written once. With a retention (in steps) no run becomes so long that its
    oldest rows would outlive it by much.
    """
    longest = None if retention is None else max(1, retention // RETENTION_SHARE)
    steps: dict[tuple[int, int], list[Run]] = {}  # the chunks of one step count as one run
    for run in runs:
        steps.setdefault((run.id.first, run.id.last), []).append(run)
    levels: dict[int, list[list[Run]]] = {}
    for step_runs in steps.values():
        levels.setdefault(step_runs[0].id.level, []).append(step_runs)
    for level in sorted(levels):
        best, chosen, target = None, list(levels[level]), level + 1
        while len(chosen) > kappa and (longest is None or _span(chosen) <= longest):
            best = Compaction(
                tuple(sorted((run for step_runs in chosen for run in step_runs), key=lambda run: run.id)), target
            )
            above = levels.get(target, [])
            if len(above) + 1 <= kappa:
                break
            chosen, target = [*chosen, *above], target + 1
        if best is not None:
            return best
    split = [step_runs for step_runs in steps.values() if len(step_runs) > 1]
    return Compaction(tuple(split[0]), split[0][0].id.level) if split else None


def next_chunk_compaction(chunks: Sequence[Run]) -> Compaction | None:
    """Return the next compaction of the open step's chunks; None if there are few of every size class.

    FANOUT chunks of a size class make one of a larger class, so a row is rewritten once for each class.
    """
    sizes: dict[int, list[Run]] = {}
    for chunk in chunks:
        if chunk.rows < LARGE_CHUNK:
            sizes.setdefault((chunk.rows.bit_length() - 1) // SIZE_BITS, []).append(chunk)
    return next((Compaction(tuple(sizes[size]), 0) for size in sorted(sizes) if len(sizes[size]) >= FANOUT), None)


def _span(chosen: list[list[Run]]) -> int:
    return max(runs[0].id.last for runs in chosen) - min(runs[0].id.first for runs in chosen) + 1


def split_ranges(compaction: Compaction, keyed: bool, blocks: BlockReader) -> list[tuple[CompactionInput, ...]]:
    """Return the inputs of each task: together they are all rows of all runs, in the order of (key, value).

    A key that is not cut can leave nothing between two cuts: there is no task for that.
    """
    tasks = max(1, -(-compaction.rows // TASK_ROWS))
    targets = [compaction.rows * i // tasks for i in range(1, tasks)]
    cuts = (
        _keyed_cuts(compaction.runs, targets, blocks)
        if keyed
        else _cuts([run.unkeyed_segment for run in compaction.runs], targets, blocks)
    )
    edges = [np.zeros(len(compaction.runs), dtype=np.int64), *cuts, np.array([run.rows for run in compaction.runs])]
    return [inputs for low, high in pairwise(edges) if (inputs := _inputs(compaction.runs, low, high))]


def _cuts(segments: list[RunSegment], targets: list[int], blocks: BlockReader) -> list[Ints]:
    """Return how many rows of each segment are among the first `target` of all, for each target."""
    fences = Fences(segments)
    return [cut(fences, None, target + 1, blocks.read).before for target in targets]


def _keyed_cuts(runs: Sequence[Run], targets: list[int], blocks: BlockReader) -> list[Ints]:
    """Cut where keys begin, by the directories; cut within a key, by value, only if it has more than TASK_ROWS rows."""
    directory = pa.concat_arrays([part.index.keys for run in runs for part in run.parts])
    counts = np.concatenate([part.index.counts for run in runs for part in run.parts])
    owner = np.repeat(np.arange(len(runs)), [sum(len(part.index.counts) for part in run.parts) for run in runs])
    codes, distinct = encode_keys(directory)
    rows = np.zeros((len(distinct), len(runs)), dtype=np.int64)
    np.add.at(rows, (codes, owner), counts)
    before = np.concatenate([np.zeros((1, len(runs)), dtype=np.int64), np.cumsum(rows, axis=0)])
    ends = before.sum(axis=1)
    cuts = []
    for target in targets:
        key = int(np.searchsorted(ends, target, side="right")) - 1
        inside = target - int(ends[key])
        position = before[key].copy()
        if inside and rows[key].sum() > TASK_ROWS:
            cut_key = key_at(distinct, key)
            segments_by_run = [(i, run.segment(cut_key)) for i, run in enumerate(runs) if rows[key, i]]
            segments = [segment for _, segment in segments_by_run if segment is not None]
            position[[i for i, _ in segments_by_run]] += _cuts(segments, [inside], blocks)[0]
        cuts.append(position)
    return cuts


def _inputs(runs: Sequence[Run], low: Ints, high: Ints) -> tuple[CompactionInput, ...]:
    """Return the files behind rows low to high of each run."""
    inputs = []
    for run, start, end in zip(runs, low.tolist(), high.tolist(), strict=True):
        offset = 0
        for part in run.parts:
            rows = part.index.info.rows
            first, last = max(start - offset, 0), min(end - offset, rows)
            if first < last:
                inputs.append(CompactionInput(part.name.data, part.name.index, first, last))
            offset += rows
    return tuple(inputs)
