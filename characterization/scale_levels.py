"""Levels without data: the product's own merge policy, driven over any number of steps with counts of rows only."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from benchmarks.report import Row
from characterization.scale_settings import Settings
from quantide.history.merge import Merge, expired, next_compaction, next_merge
from quantide.history.run import Run
from quantide.store.names import RunId


@dataclass(frozen=True)
class CountedRun(Run):
    """A run of which only the number of rows is known."""

    count: int = 0

    @cached_property
    def rows(self) -> int:
        return self.count


def counted(first: int, last: int, level: int, serial: int, rows: int) -> CountedRun:
    return CountedRun(RunId(first, last, level, 1, serial), (), rows)


class Levels:
    """A writer that writes nothing: what it would merge is chosen as the writer does, and counted.

    `rewritten` are rows that merges of runs wrote, `compacted` those that merges of an open step's chunks did.
    """

    def __init__(self, kappa: int, retention: int | None = None) -> None:
        self._kappa, self._retention = kappa, retention
        self.step, self.serial = 1, 0
        self.runs: list[Run] = []
        self.chunks: list[Run] = []
        self.rewritten = self.compacted = self.merges = self.largest = 0

    def append(self, rows: int) -> None:
        """A chunk of the open step."""
        self.chunks.append(self._new(self.step, self.step, 0, rows))

    def compact(self) -> None:
        """Merge chunks of the open step until there are few of every size."""
        while (merge := next_compaction(self.chunks)) is not None:
            self.compacted += merge.rows
            self.chunks = self._merged(self.chunks, merge)

    def end_step(self) -> None:
        """Drop what expired, then merge until no level has too many runs."""
        self.runs, self.chunks = [*self.runs, *self.chunks], []
        self.step += 1
        self.runs = [run for run in self.runs if not expired(run, self.step, self._retention)]
        while (merge := next_merge(self.runs, self._kappa, self._retention)) is not None:
            self.rewritten, self.merges = self.rewritten + merge.rows, self.merges + 1
            self.largest = max(self.largest, merge.rows)
            self.runs = self._merged(self.runs, merge)

    def by_level(self) -> dict[int, int]:
        """How many runs each level has, as History.stats() tells it."""
        return dict(sorted(Counter(run.id.level for run in self.runs).items()))

    def _merged(self, runs: list[Run], merge: Merge) -> list[Run]:
        gone = {run.id for run in merge.runs}
        new = self._new(merge.first, merge.last, merge.level, merge.rows)
        return sorted([run for run in runs if run.id not in gone] + [new], key=lambda run: run.id)

    def _new(self, first: int, last: int, level: int, rows: int) -> Run:
        self.serial += 1
        return counted(first, last, level, self.serial, rows)


def measure(settings: Settings) -> dict[str, list[Row]]:
    """A year of steps for each kappa; an open step for each size of appends."""
    return {
        "levels": [row for kappa in settings.kappas for row in year(kappa, settings.steps, settings.points)],
        "open_step": [open_step(settings.appends, rows) for rows in settings.append_rows],
    }


def year(kappa: int, steps: Iterable[int], points: int) -> list[Row]:
    """Steps of one row each, told about at evenly spaced ones and at those that are named."""
    named, levels, rows, most = set(steps), Levels(kappa), [], 0
    last = max(named)
    told = named | {last * i // points for i in range(1, points + 1)}
    for step in range(1, last + 1):
        levels.append(1)
        levels.end_step()
        most = max(most, len(levels.runs))
        if step in told:
            rows.append(
                {
                    "kappa": kappa,
                    "steps": step,
                    "named": step in named,
                    "runs": len(levels.runs),
                    "by_level": list(levels.by_level().items()),
                    "most_runs": most,
                    "levels": max(levels.by_level()) + 1,
                    "rewritten": levels.rewritten / step,
                    "merges": levels.merges,
                    "largest": levels.largest,
                }
            )
    return rows


def open_step(appends: int, rows: int) -> Row:
    """One step of so many appends: how often a row is written again before and when it ends, beside the levels."""
    levels = Levels(kappa=10)
    for _ in range(appends):
        levels.append(rows)
        levels.compact()
    chunks = len(levels.chunks)
    levels.end_step()
    total = appends * rows
    return {
        "appends": appends,
        "rows": rows,
        "chunks": chunks,
        "rewritten": (levels.compacted + levels.rewritten) / total,
    }
