"""Percentiles of files on Spark: growth of time, and of the memory of a task, with rows, files and keys."""

from dataclasses import dataclass

from bench.collection import Subject
from bench.history_growth import growth
from bench.processes import spark_session
from bench.rendering import group
from bench.report import Report, Row, sized
from bench.timing import scratch


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
    from bench.spark_task import grown, tasks  # needs Spark

    with scratch() as folder, spark_session(s.cores):
        out = {"rows": [grown(folder, s, rows=n, files=n // s.group, keys=k) for n in s.rows for k in (0, s.rows_keys)]}
        out["files"] = [grown(folder, s, rows=s.files_rows, files=files, keys=0) for files in s.files]
        out["keys"] = [grown(folder, s, True, rows=s.keys_rows, files=1, keys=keys) for keys in s.keys]
        return out | {"tasks": list(tasks(folder, s))}


def context(report: Report) -> Row:
    """Return the growth of time and memory; no memory counts as a page."""
    keys, found = report.rows["keys"], []
    for number, rows in group(report.rows["rows"], "keys").items():
        found += growth(rows, "rows", {f"time by rows, {number:,} keys" if number else "time by rows": "seconds"})
    found += growth(report.rows["files"], "files", {"time by files": "seconds"})
    columns = {"memory of a task by keys": "peak", "memory of a merge by keys": "merge_peak"}
    columns |= {"bytes that leave a task by keys": "left"}
    found += growth(keys, "keys", {"time by keys": "seconds"})
    return {"growth": [*found, *growth(keys, "keys", columns, 4096)]}


ABOUT = "percentiles of files, with more rows, more files and more keys; memory of a task"
SUBJECT = Subject(ABOUT, Settings, {"growth": measure}, context)
