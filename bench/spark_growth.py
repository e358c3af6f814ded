"""Percentiles of files on Spark: growth of time, and of the memory of a task, with rows, files and keys."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import plots
from bench.collection import Subject
from bench.history_growth import exponent, last_exponent
from bench.plots import Curve, Points, points
from bench.processes import spark_session
from bench.rendering import group
from bench.report import Part, Report, Row, say, sized
from bench.timing import interleave, scratch

if TYPE_CHECKING:
    from bench.spark_task import Task  # needs Spark


@dataclass(frozen=True)
class Settings:
    """`rows_keys`: keys while the rows grow; `tasks`: rows of a single task; `fresh`: each in a new process."""

    rows: tuple[int, ...] = sized(
        (10**6, 3 * 10**6, 10**7, 3 * 10**7, 10**8), (10**6, 3 * 10**6, 10**7), (1_000, 2_000)
    )
    rows_keys: int = sized(1_000, quick=10)
    files: tuple[int, ...] = sized((1, 10, 100, 1_000, 10_000), (1, 10, 100), (1, 2))
    files_rows: int = sized(10_000_000, quick=2_000)
    keys: tuple[int, ...] = sized((1, 10, 1_000, 10_000, 100_000, 1_000_000), (1, 1_000, 100_000, 1_000_000), (1, 10))
    keys_rows: int = sized(10_000_000, quick=2_000)
    tasks: tuple[int, ...] = sized(
        (10**6, 5 * 10**6, 2 * 10**7, 4 * 10**7), (10**6, 5 * 10**6, 2 * 10**7), (1_000, 2_000)
    )
    many_keys: int = sized(1_000_000, quick=100)
    few_values: int = 16
    group: int = sized(1_000_000, quick=1_000)
    eps: float = 0.001
    keys_eps: float = 0.01
    cores: int = 2
    rounds: int = sized(3, 2, 1)
    fresh: bool = sized(True, quick=False)


@contextmanager
def stage(settings: Settings) -> Iterator[Mapping[str, Part]]:
    with scratch() as folder, spark_session(settings.cores):
        lab = Lab(folder, settings)
        parts = {"rows": lab.rows, "files": lab.files, "keys": lab.keys, "tasks": lab.tasks}
        yield {name: lambda _, part=part: list(part()) for name, part in parts.items()}  # type: ignore[misc]


@dataclass(frozen=True)
class Lab:
    """A folder for files, and the measurements on them."""

    folder: Path
    s: Settings

    def rows(self) -> Iterator[Row]:
        s = self.s
        with self.lake(max(s.rows), max(s.rows) // s.group, s.rows_keys) as paths:
            for rows in s.rows:
                say(f"spark: {rows:,} rows")
                tasks = {keys: self.task(paths[: rows // s.group], keys) for keys in (0, s.rows_keys)}
                for keys, seconds in self.seconds(tasks).items():
                    yield {"rows": rows, "keys": keys, "seconds": seconds, **self.memory(tasks[keys])}

    def files(self) -> Iterator[Row]:
        for files in self.s.files:
            say(f"spark: {self.s.files_rows:,} rows in {files:,} files")
            with self.lake(self.s.files_rows, files) as paths:
                task = self.task([str(Path(paths[0]).parent)])
                about = {"files": files, "rows": self.s.files_rows, "seconds": self.seconds({0: task})[0]}
                yield about | {"tasks": task.steps()[0].tasks}

    def keys(self) -> Iterator[Row]:
        """Measure a task that reads, and one that merges."""
        for keys in self.s.keys:
            say(f"spark: {self.s.keys_rows:,} rows of {keys:,} keys")
            with self.lake(self.s.keys_rows, 1, keys) as paths:
                task = replace(self.task(paths, keys), parts=str(self.folder / "parts.arrow"))
                row: Row = {"keys": keys, "rows": self.s.keys_rows, "seconds": self.seconds({0: task})[0]}
                row |= self.memory(task)
                yield row | {f"merge_{name}": value for name, value in self.memory(replace(task, merge=True)).items()}

    def tasks(self) -> Iterator[Row]:
        """Measure a single task with more and more rows, as long as they fit the largest split."""
        from quantide.spark.file_splits import MAX_SPLIT

        s = self.s
        for name, (keys, values, small_files) in self.kinds().items():
            say(f"spark: tasks of {name}")
            with self.lake(max(s.tasks), max(s.tasks) // s.group if small_files else 1, keys, values) as paths:
                stored = sum(Path(path).stat().st_size for path in paths)
                for rows in s.tasks:
                    if stored * rows // max(s.tasks) <= MAX_SPLIT * 5 // 4:
                        task = replace(self.task(paths[: rows // s.group], keys), groups=rows // s.group)
                        yield {"kind": name, "rows": rows, **self.memory(task)}

    def kinds(self) -> dict[str, tuple[int, int, bool]]:
        """Return keys, distinct values (0: all differ) and whether files are small, by name."""
        s, few = self.s, f"{self.s.few_values} different values"
        plain = {"no keys": 0, f"{s.rows_keys:,} keys": s.rows_keys, f"{s.many_keys:,} keys": s.many_keys}
        found = {name: (keys, 0, False) for name, keys in plain.items()}
        found |= {
            f"no keys, {few}": (0, s.few_values, False),
            f"{s.rows_keys:,} keys, {few}": (s.rows_keys, s.few_values, False),
        }
        return found | {f"{s.many_keys:,} keys, {few}, small files": (s.many_keys, s.few_values, True)}

    @contextmanager
    def lake(self, rows: int, files: int = 1, keys: int = 0, values: int = 0) -> Iterator[list[str]]:
        from bench.spark_task import write_files

        try:
            yield write_files(self.folder / "lake", rows, files, keys, values, self.s.group)
        finally:
            shutil.rmtree(self.folder / "lake", ignore_errors=True)

    def task(self, paths: Sequence[str], keys: int = 0) -> "Task":
        from bench.spark_task import Task

        return Task(tuple(paths), keys, self.s.keys_eps if keys else self.s.eps, self.s.cores)

    def memory(self, task: "Task") -> Row:
        from bench.spark_task import measure

        found: Row = task.measure() if self.s.fresh else measure(task)
        return found

    def seconds(self, tasks: "dict[int, Task]") -> dict[int, float]:
        """Return the best time of each question on Spark, after a warm-up."""
        jobs = {name: partial(_answer, task) for name, task in tasks.items()}
        for job in jobs.values():
            job()
        return {name: round(timed.best, 4) for name, timed in interleave(jobs, self.s.rounds).items()}


def _answer(task: "Task") -> Any:
    return task.ask().toArrow()


def kind_of(row: Row) -> str:
    return f"{row['keys']:,} keys" if row["keys"] else "no keys"


def _memory(panel: str, by: str, name: str, colour: int, rows: list[Row], prefix: str = "") -> Curve:
    peak, bound = (_megabytes(rows, by, prefix + column) for column in ("peak", "stated"))
    return Curve(panel, by, "MB", name, colour, peak, bound)


def _megabytes(rows: list[Row], by: str, column: str) -> Points:
    return [(row[by], max(row[column], 4096) / 1e6) for row in rows]  # a page at least: the axis is logarithmic


def curves(report: Report) -> list[Curve]:
    rows, files, keys = (report.rows[name] for name in ("rows", "files", "keys"))
    kinds = list(enumerate(group([row | {"kind": kind_of(row)} for row in rows], "kind").items()))
    out = [
        Curve("time by rows", "rows", "seconds", kind, i, points(some, "rows", "seconds")) for i, (kind, some) in kinds
    ]
    out.append(Curve("time by files", "files", "seconds", "no keys", 0, points(files, "files", "seconds")))
    out.append(Curve("time by keys", "keys", "seconds", "by keys", 2, points(keys, "keys", "seconds")))
    out += [_memory("memory of a task by rows", "rows", kind, i, some) for i, (kind, some) in kinds]
    out.append(_memory("memory of a task by keys", "keys", "by keys", 2, keys))
    out.append(_memory("memory of a task by keys", "keys", "by keys, merging", 3, keys, "merge_"))
    sent = "bytes that leave a task by keys"
    return [*out, Curve(sent, "keys", "MB", "by keys", 2, _megabytes(keys, "keys", "left"))]


def figures(report: Report) -> Row:
    tasks = [_memory(kind, "rows", "a task", 0, some) for kind, some in group(report.rows["tasks"], "kind").items()]
    grown = "Time of a question and memory of its tasks, by rows, files and keys, logarithmic axes"
    held = "Memory of one task by the rows it reads, measured and stated, logarithmic axes"
    return {"spark.svg": plots.figure(curves(report), grown), "spark-tasks.svg": plots.figure(tasks, held)}


def last_step(found: Points) -> float:
    """Return the increase of y for one more x, between the last two points."""
    (x0, y0), (x1, y1) = sorted(found)[-2:]
    return (y1 - y0) / (x1 - x0)


def context(report: Report) -> Row:
    growth = []
    for c in curves(report):
        step = last_step(c.points)
        factor, unit = (1e6, "B") if c.unit == "MB" else (1e6, "us") if step >= 1e-6 else (1e9, "ns")
        span = f"{c.points[0][0]:,.0f} to {c.points[-1][0]:,.0f} {c.by}"
        row: Row = {"panel": c.panel, "name": c.name, "unit": c.unit, "by": c.by.removesuffix("s"), "span": span}
        row["more"] = f"{step * factor:,.1f} {unit}"
        growth.append(row | {"exponent": exponent(c.points), "last": last_exponent(c.points)})
    return {"growth": growth, "kind_of": kind_of}


ABOUT = "percentiles of files, with more rows, more files and more keys; memory of a task"
SUBJECT = Subject(ABOUT, Settings, stage, context, figures)
