"""Percentiles of a lake: how time, and the memory of a task, grow with rows, with files and with keys."""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from benchmarks.report import Report, Row, say
from benchmarks.spark import local_session as session
from benchmarks.timing import interleave
from characterization import spark_lakes
from characterization.spark_task import Task, measure
from quantide.spark.splits import MOST


@dataclass(frozen=True)
class Settings:
    """`rows_keys`: keys while the rows grow; `tasks`: rows of a single task; `fresh`: each in a process of its own."""

    rows: tuple[int, ...] = (1_000_000, 3_000_000, 10_000_000, 30_000_000, 100_000_000)
    rows_keys: int = 1_000
    files: tuple[int, ...] = (1, 10, 100, 1_000, 10_000)
    files_rows: int = 10_000_000
    keys: tuple[int, ...] = (1, 10, 1_000, 10_000, 100_000, 1_000_000)
    keys_rows: int = 10_000_000
    tasks: tuple[int, ...] = (1_000_000, 5_000_000, 20_000_000, 40_000_000)
    many_keys: int = 1_000_000
    few_values: int = 16
    group: int = 1_000_000
    eps: float = 0.001
    keys_eps: float = 0.01
    cores: int = 2
    rounds: int = 3
    fresh: bool = True


HOUR = Settings(
    rows=(1_000_000, 3_000_000, 10_000_000),
    files=(1, 10, 100),
    keys=(1, 1_000, 100_000, 1_000_000),
    tasks=(1_000_000, 5_000_000, 20_000_000),
    rounds=2,
)
QUICK = Settings(
    rows=(1_000, 2_000),
    rows_keys=10,
    files=(1, 2),
    files_rows=2_000,
    keys=(1, 10),
    keys_rows=2_000,
    tasks=(1_000, 2_000),
    many_keys=100,
    group=1_000,
    rounds=1,
    fresh=False,
)


def run(settings: Settings, command: str, folder: Path | None) -> Report:
    with tempfile.TemporaryDirectory(prefix="quantide-characterization-") as place, session(settings.cores):
        return Report.in_parts("spark", settings, Lab(Path(place), settings).parts(), command, folder, missing=[])


@dataclass(frozen=True)
class Kind:
    """Rows that a task may have to read; `values`: only so many different ones; 0: all different."""

    name: str
    keys: int
    values: int = 0
    small_files: bool = False


@dataclass(frozen=True)
class Lab:
    """A folder to write lakes to, and what is measured on them."""

    folder: Path
    settings: Settings

    def parts(self) -> dict[str, Callable[[Settings], list[Row]]]:
        parts = {"rows": self.rows, "files": self.files, "keys": self.keys, "tasks": self.tasks}
        return {name: lambda settings, part=part: list(part()) for name, part in parts.items()}  # type: ignore[misc]

    def rows(self) -> Iterator[Row]:
        """More and more files of one lake, without keys and with."""
        s = self.settings
        with self.lake(max(s.rows), files=max(s.rows) // s.group, keys=s.rows_keys) as paths:
            for rows in s.rows:
                say(f"spark: {rows:,} rows")
                asked = [0, s.rows_keys]
                tasks = [self.task(paths[: rows // s.group], keys) for keys in asked]
                for keys, task, seconds in zip(asked, tasks, self.seconds(tasks), strict=True):
                    yield {"rows": rows, "keys": keys, "seconds": seconds, **self.memory(task)}

    def files(self) -> Iterator[Row]:
        """The same number of rows in more and more files."""
        s = self.settings
        for files in s.files:
            say(f"spark: {s.files_rows:,} rows in {files:,} files")
            with self.lake(s.files_rows, files) as paths:
                task = self.task([str(Path(paths[0]).parent)])
                (seconds,) = self.seconds([task])
                yield {"files": files, "rows": s.files_rows, "seconds": seconds, "tasks": task.steps()[0].tasks}

    def keys(self) -> Iterator[Row]:
        """The same number of rows with more and more keys; a task that reads, and one that merges."""
        s = self.settings
        for keys in s.keys:
            say(f"spark: {s.keys_rows:,} rows of {keys:,} keys")
            with self.lake(s.keys_rows, keys=keys) as paths:
                task = replace(self.task(paths, keys), parts=str(self.folder / "parts.arrow"))
                (seconds,) = self.seconds([task])
                found = {"keys": keys, "rows": s.keys_rows, "seconds": seconds, **self.memory(task)}
                merge = self.memory(replace(task, merge=True))
                yield found | {f"merge_{name}": value for name, value in merge.items()}

    def tasks(self) -> Iterator[Row]:
        """A single task that has more and more rows to read, as long as they fit the largest split there is."""
        s = self.settings
        for kind in self.kinds():
            say(f"spark: tasks of {kind.name}")
            files = max(s.tasks) // s.group if kind.small_files else 1
            with self.lake(max(s.tasks), files, kind.keys, kind.values) as paths:
                stored = sum(Path(path).stat().st_size for path in paths)
                for rows in s.tasks:
                    if stored * rows // max(s.tasks) <= MOST * 5 // 4:
                        groups = rows // s.group
                        task = replace(self.task(paths[:groups], kind.keys), groups=groups)
                        yield {"kind": kind.name, "rows": rows, **self.memory(task)}

    def kinds(self) -> list["Kind"]:
        s = self.settings
        few = f"{s.few_values} different values"
        return [
            Kind("no keys", 0),
            Kind(f"{s.rows_keys:,} keys", s.rows_keys),
            Kind(f"{s.many_keys:,} keys", s.many_keys),
            Kind(f"no keys, {few}", 0, s.few_values),
            Kind(f"{s.rows_keys:,} keys, {few}", s.rows_keys, s.few_values),
            Kind(f"{s.many_keys:,} keys, {few}, small files", s.many_keys, s.few_values, small_files=True),
        ]

    @contextmanager
    def lake(self, rows: int, files: int = 1, keys: int = 0, values: int = 0) -> Iterator[list[str]]:
        """The paths of its files; they are removed in the end."""
        folder = self.folder / "lake"
        try:
            yield spark_lakes.write(folder, rows, files, keys, values, self.settings.group)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def task(self, paths: Sequence[str], keys: int = 0) -> Task:
        s = self.settings
        return Task(tuple(paths), keys, s.keys_eps if keys else s.eps, s.cores)

    def memory(self, task: Task) -> Row:
        return task.measure() if self.settings.fresh else measure(task)

    def seconds(self, tasks: Sequence[Task]) -> list[float]:
        """The best time of each question on Spark; all are asked once before, and then take turns."""
        jobs = [partial(_answer, task) for task in tasks]
        for job in jobs:
            job()
        return [round(timed.best, 4) for timed in interleave([(job, self.settings.rounds) for job in jobs])]


def _answer(task: Task) -> object:
    return task.ask().toArrow()
