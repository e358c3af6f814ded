"""One task in a process of its own, and its peak memory: `python -m characterization.spark_task`, JSON in and out.

The functions are those that `quantiles` makes Spark send to its tasks, and they are fed as Spark feeds them.
"""

import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.report import Row
from characterization import spark_lakes
from characterization.memory import in_fresh_process, peak_of
from characterization.spark_bound import stated, stated_merge
from characterization.spark_steps import Batches, Step, steps_of
from quantide.kernels.warm import warm
from quantide.spark import quantiles
from quantide.spark.files import find_files
from quantide.spark.parts import from_parts
from quantide.spark.reading import read_split
from quantide.spark.splits import Piece, Split, plan
from quantide.store.storage import Storage

PHIS = [0.5, 0.99]


@dataclass(frozen=True)
class Task:
    """A question, and which task of it is measured: the first that reads or, of those that `merge`, the largest.

    `keys`: by how many keys, which are in the column k; 0 for a question without;
    `groups`: instead of what is planned for it, it reads so many row groups of the one file, or all of the many files;
    `parts`: the file in which all that goes to that merging task is kept.
    """

    paths: tuple[str, ...]
    keys: int
    eps: float
    cores: int
    groups: int = 0
    parts: str = ""
    merge: bool = False

    def measure(self) -> Row:
        """In a fresh process: see measure()."""
        return in_fresh_process("characterization.spark_task", asdict(self))

    def ask(self) -> Any:
        """The question that is measured everywhere."""
        return quantiles(list(self.paths), "v", PHIS, by="k" if self.keys else None, eps=self.eps)

    def steps(self) -> tuple[Step, ...]:
        return steps_of(self.ask, self.cores, self.split() if self.groups else None)

    def split(self) -> Split:
        """What the task reads."""
        files = find_files(list(self.paths), Storage())
        if not self.groups:
            return plan(files, self.columns, self.cores, Storage())[0]
        whole = len(files.files) > 1
        return tuple(Piece(file, None if whole else tuple(range(self.groups)), file.size) for file in files.files)

    def tables(self) -> Iterator[pa.Table]:
        """The tables that the task reads."""
        schema = find_files(list(self.paths[:1]), Storage()).schema
        return read_split(self.split(), self.columns, schema, None, Storage())

    @property
    def columns(self) -> tuple[str, ...]:
        return ("k", "v") if self.keys else ("v",)


def measure(task: Task) -> Row:
    """How many such tasks there are; bytes resident before, at most more, and stated; bytes that leave or come."""
    load(task)
    first, *_, last = task.steps()
    if task.merge:
        peak = peak_of(lambda: size(last.run(stored(task.parts))))
        bound = stated_merge(from_parts(pa.Table.from_batches(stored(task.parts)), "v"))
        return {"tasks": last.tasks, "peak": peak.more, "stated": bound, "came": size(stored(task.parts))}
    peak = peak_of(lambda: size(first.run(numbers(0))))
    if task.parts:
        keep(first, last, task.parts)
    bound = stated(task.tables(), task.keys, task.eps)
    return {"tasks": first.tasks, "base": peak.base, "peak": peak.more, "stated": bound, "left": peak.result}


def load(task: Task) -> None:
    """What is loaded once: kernels, and what is imported or allocated when first used."""
    for _ in warm():
        pass
    with tempfile.TemporaryDirectory() as folder:
        paths = spark_lakes.write(Path(folder) / "lake", rows=1_000, files=1, keys=10, values=0, group=100)
        first, *merges = replace(task, paths=tuple(paths), groups=0).steps()
        batches = [*first.run(numbers(0)), *first.run(numbers(0))]
        for step in merges:
            batches = list(step.run(iter(batches)))


def keep(first: Step, last: Step, path: str) -> None:
    """Write what goes from all tasks to the one of those that merge that gets most."""
    dealt: dict[int, list[pa.RecordBatch]] = defaultdict(list)
    for batch in first.run(numbers(*range(first.tasks))):
        for number in set(batch[last.by].to_pylist()):
            dealt[number].append(batch.filter(pc.equal(batch[last.by], number)))
    batches = max(dealt.values(), key=size)
    with pa.OSFile(path, "wb") as file, pa.ipc.new_stream(file, batches[0].schema) as stream:
        for batch in batches:
            stream.write_batch(batch)


def stored(path: str) -> Batches:
    with pa.OSFile(path) as file, pa.ipc.open_stream(file) as stream:
        yield from stream


def numbers(*tasks: int) -> Batches:
    """What tells a task which split it has to read."""
    yield pa.record_batch({"id": pa.array(tasks, pa.int64())})


def size(batches: Iterable[pa.RecordBatch]) -> int:
    """Bytes of batches, none of which is kept: a worker hands each of them on."""
    return sum(batch.nbytes for batch in batches)


if __name__ == "__main__":
    request = json.load(sys.stdin)
    json.dump(measure(Task(**(request | {"paths": tuple(request["paths"])}))), sys.stdout)
