"""Compaction plan: which runs become one, and into how many files, each written by one task."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from quantide.history.run import Run
from quantide.store.store_settings import ErrorProfile
from quantide.typing import Ints

TASK_ROWS = 1 << 22  # that a task has in memory; it needs a few times their size
LARGE_FILE_ROWS = 1 << 26  # of a file of an upper level: 512 MB of 8 bytes
MIN_FILES = 64  # of a large run: so many tasks can write it at the same time
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

    When a level has more than kappa runs, its kappa oldest become one of the next level, and the newest stay (Algorithm
    3 of the paper). So a row is written once per level, a step merges no row twice, and the newest steps can be queried
    one by one. With kappa = 1 there is nothing to merge the oldest run with but the newest: both become one, together
    with those of the next levels that it would fill.
    With a retention (in steps) no run becomes so long that its oldest rows would outlive it by much.
    """
    longest = None if retention is None else max(1, retention // RETENTION_SHARE)
    steps: dict[tuple[int, int], list[Run]] = {}  # the chunks of one step count as one run
    for run in runs:
        steps.setdefault((run.id.first, run.id.last), []).append(run)
    levels: dict[int, list[list[Run]]] = {}
    for span in sorted(steps):
        levels.setdefault(steps[span][0].id.level, []).append(steps[span])
    for level in sorted(levels):
        if len(levels[level]) <= kappa:
            continue
        chosen, target = (levels[level][:kappa], level + 1) if kappa > 1 else _merge_pairs(levels, level, longest)
        if longest is None or _span(chosen) <= longest:
            in_order = sorted((run for step_runs in chosen for run in step_runs), key=lambda run: run.id)
            return Compaction(tuple(in_order), target)
    split = [step_runs for step_runs in steps.values() if len(step_runs) > 1]
    return Compaction(tuple(split[0]), split[0][0].id.level) if split else None


def _merge_pairs(levels: dict[int, list[list[Run]]], level: int, longest: int | None) -> tuple[list[list[Run]], int]:
    """Return the runs to merge from a level that may have only one, and the level of the result."""
    chosen, target = levels[level], level + 1
    while levels.get(target) and (longest is None or _span([*levels[target], *chosen]) <= longest):
        chosen, target = [*levels[target], *chosen], target + 1
    return chosen, target


def next_chunk_compaction(chunks: Sequence[Run]) -> Compaction | None:
    """Return the next compaction of the open step's chunks; None if there are few of every size class.

    FANOUT chunks of a size class make one of a larger class, so a row is rewritten once for each class.
    """
    sizes: dict[int, list[Run]] = {}
    for chunk in chunks:
        if chunk.rows < LARGE_CHUNK:
            sizes.setdefault((chunk.rows.bit_length() - 1) // SIZE_BITS, []).append(chunk)
    return next((Compaction(tuple(sizes[size]), 0) for size in sorted(sizes) if len(sizes[size]) >= FANOUT), None)


def file_count(rows: int, level: int, tuples: int = 0) -> int:
    """Return the number of files of a run of a level, whose summaries have so many tuples.

    A file has TASK_ROWS rows at level 0 and four times as many at each next level, up to LARGE_FILE_ROWS: so a table
    has few files however long it grows, and a row that is still merged often is in files that are written by many
    tasks. A run has at least MIN_FILES files, unless they would be smaller than those of level 0. A task has all tuples
    of its file in memory, so where keys have few rows each, tuples limit the size of a file.

    >>> file_count(10**6, 3), file_count(10**9, 0), file_count(10**9, 3), file_count(10**11, 3)
    (1, 239, 64, 1491)
    """
    largest = min(TASK_ROWS << 2 * min(level, 8), LARGE_FILE_ROWS)
    size = max(TASK_ROWS, min(largest, rows // MIN_FILES))
    return max(1, -(-rows // size), -(-tuples // TASK_ROWS))


def count_tuples(rows_by_key: Ints, profile: ErrorProfile) -> int:
    """Return a bound on the number of tuples in the summaries of keys that have so many rows.

    Ranks are 2 * eps * n apart, and towards each end their distance from it grows by a factor of 1 + 2 * tail.

    >>> count_tuples(np.array([3, 10**9]), ErrorProfile(0.01, None))
    55
    """
    most = 1 / (2 * profile.eps) + 2
    if profile.tail is not None:
        largest = max(2, int(rows_by_key.max(initial=0)))
        most += 2 * (1 / (2 * profile.tail) + math.log(largest) / math.log1p(2 * profile.tail) + 1)
    return int(np.minimum(rows_by_key, most).sum())


def _span(chosen: list[list[Run]]) -> int:
    return max(runs[0].id.last for runs in chosen) - min(runs[0].id.first for runs in chosen) + 1
