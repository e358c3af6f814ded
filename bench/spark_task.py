"""One task of Spark, fed as Spark feeds it: its peak memory and the stated bound."""

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import MagicMock, patch

import pyarrow as pa
import pyarrow.compute as pc

from bench.processes import new_process, peak_of
from bench.report import Row, show
from bench.spark_growth import Settings
from bench.spark_speed import write_lake
from bench.timing import clock, scratch
from quantide import StreamSketch
from quantide.kernels.warm_up import warm
from quantide.spark import quantiles
from quantide.spark.partial_summaries import FAN_IN, GROUP_ROWS, TASK_SHARE, from_partial_rows
from quantide.spark.source_files import FilePiece, Split, find_files, plan_splits, read_split
from quantide.store.location import StorageOptions

Batches = Iterator[pa.RecordBatch]
OPTIONS = StorageOptions()
READ = 4  # times a table: the one before, this one, and the bytes it is decoded from
GROUPED = 6  # times the rows that are grouped together
MERGED = 6  # times the eight summaries that are merged
VALUE, KEY = 16, 40  # bytes of a value in a summary, of a key
LITTLE = 50_000_000  # bytes that allocators keep
MET = 200  # bytes of a value of the summaries that meet in a merging task
KEY_VALUES = 4  # values of a key, times 1/eps


def stated_bytes(tables: Iterable[pa.Table], keys: int, eps: float) -> int:
    """Return the bound of docs/spark.md for a task that reads these tables, by so many keys, 0 for none."""
    sizes: list[tuple[int, int]] = [(len(table), table.nbytes) for table in tables]
    if not keys:
        sketch = StreamSketch.max_nbytes(TASK_SHARE * eps, sum(n for n, _ in sizes))
        return LITTLE + READ * max(size for _, size in sizes) + sketch
    groups = [(0, 0)]
    for n, size in sizes:  # tables are grouped until there are GROUP_ROWS rows
        groups += [(0, 0)] if groups[-1][0] >= GROUP_ROWS else []
        groups[-1] = (groups[-1][0] + n, groups[-1][1] + size)
    counts = [min(n // 2, int(KEY_VALUES * keys / eps)) for n, _ in groups]  # a group with more values leaves at once
    group_bytes = [VALUE * values + KEY * min(n, keys) for values, (n, _) in zip(counts, groups, strict=True)]
    eights = [sum(group_bytes[i : i + FAN_IN]) for i in range(0, len(group_bytes) - FAN_IN + 1, FAN_IN)]
    return LITTLE + max(GROUPED * max(size for _, size in groups) + sum(group_bytes), MERGED * max(eights, default=0))


class Step(NamedTuple):
    """A function that is sent to so many tasks; `by`: the column with the task of a row."""

    run: Callable[[Batches], Batches]
    tasks: int
    by: str


@dataclass(frozen=True)
class Task:
    """A question, of which the first task that reads is measured, or the largest that merges.

    `keys`: 0 for none; `whole`: one task reads everything; `parts`: the file for the input of the merging task.
    """

    paths: Sequence[str]
    keys: int
    eps: float
    cores: int
    parts: str = ""
    whole: bool = False

    def query(self) -> Any:
        by = f"k{self.keys}" if self.keys else None
        return quantiles(list(self.paths), "v", [0.5, 0.99], by=by, eps=self.eps)

    def steps(self) -> list[Step]:
        """Return the functions that Spark would run, without Spark."""
        session, steps, tasks, by = MagicMock(), list[Step](), 1, ""
        session.conf.get.return_value, session.sparkContext.defaultParallelism = "UTC", self.cores
        with (
            patch("quantide.spark.batch_quantiles.active_session", lambda: session),
            patch("quantide.spark.batch_quantiles.plan_splits", self._splits),
            patch("quantide.spark.batch_quantiles.ONE_TASK_BYTES", 0),
        ):
            self.query()
        for name, arguments, _ in session.mock_calls:
            match name.rpartition(".")[2]:
                case "range":
                    tasks = arguments[3]
                case "repartition" | "repartitionById":
                    tasks = arguments[0]
                case "__getitem__":
                    by = arguments[0]
                case "mapInArrow":
                    steps.append(Step(arguments[0], tasks, by))
                    tasks, by = 1, ""
        return steps

    def _splits(self, files: Any, *more: Any) -> list[Split]:
        whole = tuple(FilePiece(file, None, file.size) for file in files.files)
        return [whole] if self.whole else plan_splits(files, *more)

    def tables(self) -> Iterator[pa.Table]:
        """Return the tables that the first task reads."""
        files, columns = find_files(list(self.paths), OPTIONS), (f"k{self.keys}", "v") if self.keys else ("v",)
        return read_split(self._splits(files, columns, self.cores, OPTIONS)[0], columns, files.schema, None, OPTIONS)


def measure(task: Task, merge: bool = False) -> Row:
    """Return the number of such tasks, resident bytes before and the most added, stated bytes, and bytes sent."""
    _load(task)
    first, *_, last = task.steps()
    if merge:
        peak = peak_of(lambda: batch_bytes(last.run(_stored(task.parts))))
        parts = from_partial_rows(pa.Table.from_batches(_stored(task.parts)), "v")
        bound = LITTLE + sum(MET * len(part.rmin) + KEY * len(part) for part in parts)
        return {"tasks": last.tasks, "peak": peak.more, "stated": bound, "came": batch_bytes(_stored(task.parts))}
    peak = peak_of(lambda: batch_bytes(first.run(_numbers(0))))
    if task.parts:
        _store(first, last, task.parts)
    bound = stated_bytes(task.tables(), task.keys, task.eps)
    return {"tasks": first.tasks, "base": peak.base, "peak": peak.more, "stated": bound, "left": peak.result}


def _load(task: Task) -> None:
    """Load kernels, and everything that is imported or allocated at first use."""
    for _ in warm():
        pass
    with scratch() as folder:
        first, *merges = replace(task, paths=write_lake(folder / "lake", 1_000, 1, task.keys, group=100)).steps()
        batches = [*first.run(_numbers(0)), *first.run(_numbers(0))]
        for step in merges:
            batches = list(step.run(iter(batches)))


def _store(first: Step, last: Step, path: str) -> None:
    """Write the input of the merging task that gets most."""
    table = pa.Table.from_batches(first.run(_numbers(*range(first.tasks))))
    parts = [table.filter(pc.field(last.by) == number) for number in table[last.by].unique().to_pylist()]
    with pa.OSFile(path, "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(max(parts, key=lambda part: part.nbytes))


def _stored(path: str) -> Batches:
    with pa.OSFile(path) as file, pa.ipc.open_stream(file) as stream:
        yield from stream


def _numbers(*tasks: int) -> Batches:
    yield pa.record_batch({"id": pa.array(tasks, pa.int64())})


def batch_bytes(batches: Iterable[pa.RecordBatch]) -> int:
    """Return the bytes of batches, which a worker passes on one by one."""
    return sum(batch.nbytes for batch in batches)


def grown(folder: Path, s: Settings, memory: bool = False, **size: int) -> Row:
    """Measure the time of a question, and with `memory` also a task that reads and one that merges."""
    show(f"spark: {size}")
    with lake(folder, s, **size) as task:
        seconds = [clock(lambda: task.query().toArrow())[0] for _ in range(s.rounds + 1)]  # the first warms up
        row: Row = size | {"seconds": round(min(seconds[1:]), 4), "tasks": task.steps()[0].tasks}
        if memory:
            row |= run(task, s.fresh)
            row |= {f"merge_{name}": value for name, value in run(task, s.fresh, True).items()}
        return row


def tasks(folder: Path, s: Settings) -> Iterator[Row]:
    """Measure a single task with more and more rows."""
    for kind, (keys, values, many) in kinds(s).items():
        for rows in s.tasks:
            show(f"spark: a task of {rows:,} rows, {kind}")
            with lake(folder, s, rows, rows // s.group if many else 1, keys, values) as task:
                yield {"kind": kind, "rows": rows, **run(replace(task, parts="", whole=True), s.fresh)}


def kinds(s: Settings) -> dict[str, tuple[int, int, bool]]:
    """Return the keys, the distinct values (0: all differ) and whether there are many files, by name."""
    out, few = dict[str, tuple[int, int, bool]](), f", {s.few_values} different values"
    for keys in (0, s.rows_keys, s.many_keys):
        name, many = f"{keys:,} keys" if keys else "no keys", keys == s.many_keys
        out |= {name: (keys, 0, False), name + few + ", small files" * many: (keys, s.few_values, many)}
    return out


@contextmanager
def lake(folder: Path, s: Settings, rows: int, files: int, keys: int, values: int = 0) -> Iterator[Task]:
    try:
        paths = write_lake(folder / "lake", rows, files, keys, group=s.group, values=values)
        yield Task(paths, keys, s.keys_eps if keys else s.eps, s.cores, str(folder / "parts.arrow"))
    finally:
        shutil.rmtree(folder / "lake", ignore_errors=True)


def run(task: Task, fresh: bool, merge: bool = False) -> Row:
    """Measure a task, in a new process if it should be fresh."""
    if not fresh:
        return measure(task, merge)
    with new_process() as process:
        return process.submit(measure, task, merge).result()
