"""Processes that write to a store and are killed: forked from one that has everything imported and compiled.

`python -m tests.history.forked_writers` reads commands, a line of JSON each: start a child, wait for one. A child logs
each operation when it begins and when it is done, so that a test knows the batches acknowledged before the end.
"""

import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from quantide import History, StreamSketch, Summary
from quantide.errors import QuantideError, StorageError
from quantide.history.chunk_sort import sort_chunk
from quantide.history.compaction_tasks import write_run_file
from quantide.store import fault_points
from quantide.store.file_names import FileName, RunId
from quantide.store.folder_storage import FolderStorage
from quantide.store.index_file import IndexFile, IndexFileInfo
from quantide.store.store_settings import ErrorProfile
from quantide.summary.value_column import read_column
from quantide.summary.value_types import type_named
from tests.history.writer_workload import (
    BLOCK,
    HOSTS,
    WORK,
    Op,
    Work,
    batch,
    compact_chunks_early,
    compact_recent_early,
    small,
)
from tests.live.live_workload import live_count, live_work, retry_live_work

ROOT = Path(__file__).parents[2]
LIMIT = 60.0  # seconds: many times what a child takes
HUNG = 1000


# In the child


def work(folder: str, settings: dict[str, Any], durable: bool = False) -> None:
    """Do all the work, from the beginning."""
    doing = Work(folder, settings, durable)
    for op in WORK:
        _note(folder, "begin", op)
        doing.do(op)
        _note(folder, "done", op)
    doing.history.close()


def count(folder: str, settings: dict[str, Any]) -> None:
    """Do all the work; log how often it passes each fault point."""
    passed: dict[str, int] = {}

    def counted(name: str) -> None:
        passed[name] = passed.get(name, 0) + 1

    setattr(fault_points, "point", counted)  # noqa: B010 (a function is replaced)
    work(folder, settings)
    Path(f"{folder}-counts").write_text(json.dumps(passed))


def retry_work(folder: str, settings: dict[str, Any], full: int | None = None, every: int = 3) -> None:
    """Do all the work; repeat failed calls with the same handle. At times no file may be larger than `full`."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        doing = Work(folder, settings)
    except StorageError:
        _note(folder, "refused", ("create", 0))
        doing = Work(folder, settings)
    here = 0
    for index, op in enumerate((*WORK, ("close", 0))):
        _limit(full if index % every == 0 else None)
        try:
            doing.do(op)
        except OSError as error:
            _limit(None)
            _note(folder, "refused" if isinstance(error, StorageError) else f"raw {type(error).__name__}", op)
            assert doing.history.n == here, "part of what failed is visible"
            doing.do(op)
        _limit(None)
        here += len(batch(op[1])) if op[0] in ("append", "files", "load") else 0
        assert doing.history.n == here
        _note(folder, "done", op)


def _limit(size: int | None) -> None:
    limit = resource.RLIM_INFINITY
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit if size is None else size, limit))


def compete(folder: str, settings: dict[str, Any], numbers: list[int], begin: float) -> None:
    """Append batches and end steps whenever the store allows it."""
    time.sleep(max(0.0, begin - time.time()))
    for number in numbers:
        for op in (("append", number), ("step", 0)):
            doing = None
            try:
                doing = Work(folder, settings)
                doing.do(op)
                doing.history.close()
                _note(folder, "done", op)
            except QuantideError as error:
                _note(folder, type(error).__name__, op)
                if doing is not None:
                    doing.history.close()


def hold_lease(folder: str, settings: dict[str, Any], number: int) -> None:
    """Append one batch, then keep the lease until killed."""
    doing = Work(folder, settings)
    doing.do(("append", number))
    _note(folder, "done", ("append", number))
    time.sleep(LIMIT)


def keep_writing(folder: str, settings: dict[str, Any], batches: int) -> None:
    """Append, end steps, compact, and vacuum compacted files at once."""
    doing = Work(folder, settings)
    for number in range(batches):
        doing.append(number)
        if number % 2:
            doing.history.end_step(wait=number % 3 == 0)
        doing.history.vacuum(0)
    doing.history.close()


def expire(folder: str, settings: dict[str, Any]) -> None:
    """Append a batch a step; old ones are dropped."""
    doing = Work(folder, settings)
    for number in range(10):
        for op in (("append", number), ("step", number)):
            _note(folder, "begin", op)
            doing.do(op)
            _note(folder, "done", op)


def expire_and_restore(folder: str, settings: dict[str, Any]) -> None:
    """Append a batch a step until old ones are dropped; then restore, drop and restore them."""
    doing = Work(folder, settings)
    for number in range(14):
        for op in (("append", number), ("step", number)):
            _note(folder, "begin", op)
            doing.do(op)
            _note(folder, "done", op)
    doing.history.restore()
    for _ in range(20):
        doing.history.end_step()
    doing.history.restore()


def delete(folder: str, key: str | None, before: int | None) -> None:
    """Delete a key or the oldest steps of a store that exists."""
    with History(folder) as history:
        history.delete(key, before)


def trickle(folder: str, settings: dict[str, Any], wait: bool = True, batches: int = 24) -> None:
    """Append small batches in few steps. With `wait` each is compacted before the next one, so points are passed in
    order.
    """
    compact_chunks_early(setattr)
    doing = Work(folder, settings)
    for number in range(batches):
        for op in (("append", number), ("step", number))[: 1 + (number % 16 == 15)]:
            _note(folder, "begin", op)
            doing.do(op)
            _note(folder, "done", op)
        if wait:
            doing.history._writer.join()
        elif number % 5 == 4:
            doing.history.vacuum(0)
    doing.history.close()


TASKS: dict[str, Callable[..., None]] = {
    task.__name__: task
    for task in (
        work,
        count,
        retry_work,
        compete,
        hold_lease,
        keep_writing,
        expire,
        expire_and_restore,
        delete,
        trickle,
        live_work,
        live_count,
        retry_live_work,
    )
}


def _note(folder: str, status: str, op: Op) -> None:
    line = f"{status},{op[0]},{op[1]}\n".encode()
    file = os.open(f"{folder}-notes", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, line)
    os.close(file)


# In the process that forks


def main() -> None:
    small()
    compact_recent_early()
    _warm()
    print("ready", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        print(json.dumps(_wait(order["wait"]) if "wait" in order else _start(order)), flush=True)


def _start(order: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.environ["QUANTIDE_FAULT"] = order["fault"]
    importlib.reload(fault_points)
    code = 1
    try:
        TASKS[order["task"]](**order["arguments"])
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


def _wait(pid: int) -> int:
    """Return how a child ended: its exit code, or the signal as a negative number."""
    last = time.monotonic() + LIMIT
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > last:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return HUNG
        time.sleep(0.002)


def _warm() -> None:
    """Load the code that a child will call. Not the table: its library does not survive a fork."""
    kind = type_named("float64")
    column = read_column(np.arange(200.0), kind)
    name = FileName(RunId(1, 1, 0, 1, 1), 0)
    for keys, names in ((None, ()), (pa.array(HOSTS[np.arange(200) % 3]), ("host",))):
        with tempfile.TemporaryDirectory() as folder:
            rows = sort_chunk(keys, column, kind, "refuse").partitions[0]()
            about, profile = IndexFileInfo(len(rows), "float64", BLOCK, 0, 0), ErrorProfile(0.01, 0.1)
            write_run_file(FolderStorage(folder), name, [rows], names, about, profile, 200, 0)
            total = IndexFile((Path(folder) / name.index).read_bytes()).total
        sketch = StreamSketch(0.05)
        sketch.update_summary(total)
        Summary.merge(sketch.summary(), total).answer(0.5)


# In the test


@dataclass
class Child:
    """Process that works on a store."""

    driver: "Driver"
    pid: int
    folder: str
    log: Path

    def wait(self) -> int:
        return self.driver.send({"wait": self.pid})

    def finish(self) -> None:
        """Wait for an end that must be good."""
        assert self.wait() == 0, self.log.read_text()

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.wait()

    def notes(self) -> list[tuple[str, Op]]:
        path = Path(f"{self.folder}-notes")
        lines = path.read_text().splitlines() if path.exists() else []
        return [(status, (what, int(number))) for status, what, number in (line.split(",") for line in lines)]

    def batches(self, status: str) -> list[int]:
        """Return the batches with that log entry."""
        return [op[1] for entry, op in self.notes() if entry == status and op[0] in ("append", "files", "load")]


class Driver:
    """Forking process, as seen by a test."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def send(self, order: dict[str, Any]) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return int(json.loads(self._process.stdout.readline()))

    def start(self, task: str, folder: Path, fault: str = "", **arguments: Any) -> Child:
        log = Path(f"{folder}-log")
        arguments = {"folder": str(folder), **arguments}
        pid = self.send({"task": task, "arguments": arguments, "fault": fault, "log": str(log)})
        return Child(self, pid, str(folder), log)


@contextmanager
def run_driver() -> Iterator[Driver]:
    command = [sys.executable, "-m", "tests.history.forked_writers"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield Driver(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(LIMIT)


if __name__ == "__main__":
    main()
