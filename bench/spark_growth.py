"""Percentiles of files on Spark: growth of time, and of the memory of a task, with rows, files and keys."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bench import plots
from bench.collection import Subject
from bench.history_growth import exponent, last_exponent
from bench.plots import Curve
from bench.processes import spark_session
from bench.rendering import group
from bench.report import Report, Row, say, sized
from bench.spark_speed import write_lake
from bench.timing import clock, scratch

if TYPE_CHECKING:
    from bench.spark_task import Task


@dataclass(frozen=True)
class Settings:
    """`rows_keys`: keys while the rows grow; `tasks`: rows of a single task; `fresh`: each in a new process."""

    rows: tuple[int, ...] = sized((10**6, 10**7, 10**8), (10**6, 3 * 10**6, 10**7), (1_000, 2_000))
    rows_keys: int = sized(1_000, quick=10)
    files: tuple[int, ...] = sized((1, 10, 100, 1_000, 10_000), (1, 10, 100), (1, 2))
    files_rows: int = sized(10_000_000, quick=2_000)
    keys: tuple[int, ...] = sized((1, 10, 1_000, 10_000, 100_000, 1_000_000), (1, 1_000, 100_000, 1_000_000), (1, 10))
    keys_rows: int = sized(10_000_000, quick=2_000)
    tasks: tuple[int, ...] = sized((10**6, 5 * 10**6, 2 * 10**7), quick=(1_000, 2_000))
    many_keys: int = sized(1_000_000, quick=100)
    few_values: int = 16
    group: int = sized(1_000_000, quick=1_000)
    eps: float = 0.001
    keys_eps: float = 0.01
    cores: int = 2
    rounds: int = sized(3, 2, 1)
    fresh: bool = sized(True, quick=False)


def measure(s: Settings) -> dict[str, list[Row]]:
    with scratch() as folder, spark_session(s.cores):
        out = {
            "rows": [_grown(folder, s, rows=n, files=n // s.group, keys=k) for n in s.rows for k in (0, s.rows_keys)]
        }
        out["files"] = [_grown(folder, s, rows=s.files_rows, files=files, keys=0) for files in s.files]
        out["keys"] = [_grown(folder, s, True, rows=s.keys_rows, files=1, keys=keys) for keys in s.keys]
        return out | {"tasks": list(tasks(folder, s))}


def _grown(folder: Path, s: Settings, memory: bool = False, **size: int) -> Row:
    """Measure the time of a question, and with `memory` also a task that reads and one that merges."""
    say(f"spark: {size}")
    with _lake(folder, s, **size) as task:
        seconds = [clock(lambda: task.ask().toArrow())[0] for _ in range(s.rounds + 1)]  # the first warms up
        row: Row = size | {"seconds": round(min(seconds[1:]), 4), "tasks": task.steps()[0].tasks}
        if memory:
            row |= _run(task, s)
            row |= {f"merge_{name}": value for name, value in _run(task, s, True).items()}
        return row


def tasks(folder: Path, s: Settings) -> Iterator[Row]:
    """Measure a single task with more and more rows."""
    for kind, size in kinds(s).items():
        for rows in s.tasks:
            say(f"spark: a task of {rows:,} rows, {kind}")
            with _lake(folder, s, rows, **size | {"files": rows // s.group if size["files"] else 1}) as task:
                yield {"kind": kind, "rows": rows, **_run(replace(task, parts="", whole=True), s)}


def kinds(s: Settings) -> dict[str, dict[str, int]]:
    """Return the keys, the distinct values (0: all differ) and whether there are many files, by name."""
    out, few = {}, f", {s.few_values} different values"
    for name, keys in {
        "no keys": 0,
        f"{s.rows_keys:,} keys": s.rows_keys,
        f"{s.many_keys:,} keys": s.many_keys,
    }.items():
        many = keys == s.many_keys
        out[name] = {"keys": keys, "values": 0, "files": 0}
        out[name + few + ", small files" * many] = {"keys": keys, "values": s.few_values, "files": int(many)}
    return out


@contextmanager
def _lake(folder: Path, s: Settings, rows: int, files: int, keys: int, values: int = 0) -> Iterator["Task"]:
    from bench.spark_task import Task  # needs Spark

    try:
        paths = write_lake(folder / "lake", rows, files, keys, group=s.group, values=values)
        yield Task(paths, keys, s.keys_eps if keys else s.eps, s.cores, str(folder / "parts.arrow"))
    finally:
        shutil.rmtree(folder / "lake", ignore_errors=True)


def _run(task: "Task", s: Settings, merge: bool = False) -> Row:
    from bench.spark_task import measure, measure_apart

    return (measure_apart if s.fresh else measure)(task, merge)


def curves(report: Report) -> list[Curve]:
    def curve(
        panel: str, rows: list[Row], by: str, name: str, colour: int, y: str = "seconds", bound: str = ""
    ) -> Curve:
        factor, least = (1.0, 0.0) if y == "seconds" else (1e-6, 4096e-6)  # a page at least: axes are logarithmic
        found, limit = ([(row[by], max(factor * row[one], least)) for row in rows if one] for one in (y, bound))
        return Curve(panel, by, "seconds" if y == "seconds" else "MB", name, colour, found, limit)

    keys, memory = report.rows["keys"], "memory of a task by keys"
    out = [
        curve("time by rows", rows, "rows", f"{number:,} keys" if number else "no keys", i)
        for i, (number, rows) in enumerate(group(report.rows["rows"], "keys").items())
    ]
    out.append(curve("time by files", report.rows["files"], "files", "no keys", 0))
    out.append(curve("time by keys", keys, "keys", "by keys", 2))
    out.append(curve(memory, keys, "keys", "by keys", 2, "peak", "stated"))
    out.append(curve(memory, keys, "keys", "by keys, merging", 3, "merge_peak", "merge_stated"))
    return [*out, curve("bytes that leave a task by keys", keys, "keys", "by keys", 2, "left")]


def figures(report: Report) -> Row:
    about = "Time of a question and memory of its tasks, by rows, files and keys, logarithmic axes"
    return {"spark.svg": plots.figure(curves(report), about)}


def context(report: Report) -> Row:
    growth = []
    for c in curves(report):
        row: Row = {"panel": c.panel, "name": c.name, "unit": c.unit}
        row["span"] = f"{c.points[0][0]:,.0f} to {c.points[-1][0]:,.0f} {c.by}"
        growth.append(row | {"exponent": exponent(c.points), "last": last_exponent(c.points)})
    return {"growth": growth}


ABOUT = "percentiles of files, with more rows, more files and more keys; memory of a task"
SUBJECT = Subject(ABOUT, Settings, {"growth": measure}, context, figures)
