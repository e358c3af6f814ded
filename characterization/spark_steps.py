"""What Spark would run, without Spark: a session that only writes down which functions it is told to send to tasks."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from quantide.spark.splits import Split

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class Step:
    """A function that is sent to so many tasks; `by` is the column that tells which of them a row goes to."""

    run: Callable[[Batches], Batches]
    tasks: int
    by: str | None = None


@dataclass(frozen=True)
class _Frame:
    """A DataFrame that knows only how it would be made."""

    steps: tuple[Step, ...] = ()
    tasks: int = 1
    by: str | None = None

    def mapInArrow(self, run: Callable[[Batches], Batches], schema: Any) -> "_Frame":
        return _Frame((*self.steps, Step(run, self.tasks, self.by)))

    def repartition(self, tasks: int) -> "_Frame":
        return _Frame(self.steps, tasks)

    def repartitionById(self, tasks: int, by: str) -> "_Frame":
        return _Frame(self.steps, tasks, by)

    def __getitem__(self, column: str) -> str:
        return column


def steps_of(ask: Callable[[], Any], cores: int, split: Split | None = None) -> tuple[Step, ...]:
    """The steps of a question to files, on so many cores; given a split, of one task that has to read that."""
    session = SimpleNamespace(
        range=lambda first, last, step, tasks: _Frame(tasks=tasks),
        conf=SimpleNamespace(get=lambda name: "UTC"),
        sparkContext=SimpleNamespace(defaultParallelism=cores),
    )
    with patch("quantide.spark.batch.active_session", lambda: session):
        if split is None:
            frame = ask()
        else:
            with patch("quantide.spark.batch.plan", lambda *_: [split]):
                frame = ask()
    steps: tuple[Step, ...] = frame.steps
    return steps
