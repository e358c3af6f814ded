"""A real standalone cluster on loopback: a master and two workers of one core each."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.spark.process_groups import SPARK, environment, running, wait_until

WORKERS = 2
LOOPBACK = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]


@dataclass(frozen=True)
class Cluster:
    """A cluster's address and processes. A worker's executors are in the worker's process group."""

    url: str
    master: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]]

    @property
    def pids(self) -> list[int]:
        return [self.master.pid, *(worker.pid for worker in self.workers)]


@contextmanager
def cluster(folder: Path, apart: bool = False) -> Iterator[Cluster]:
    """A cluster whose workers are registered; logs and working folders are in `folder`.

    Workers that are `apart` share no folder for temporary files, caches or state.
    """
    spark_class, log = str(SPARK / "bin" / "spark-class"), folder / "master.log"
    with ExitStack() as stack:
        command = [spark_class, "org.apache.spark.deploy.master.Master", *LOOPBACK]
        master = stack.enter_context(running(command, log, environment()))
        wait_until(lambda: _url(log) is not None, [master], log)
        url = _url(log) or ""
        workers = []
        for number in range(WORKERS):
            work = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"worker-{number}")]
            command = [spark_class, "org.apache.spark.deploy.worker.Worker", *LOOPBACK, *work, url]
            env = environment() | (own_folders(folder / f"machine-{number}") if apart else {})
            workers.append(stack.enter_context(running(command, folder / f"worker-{number}.log", env)))
        wait_until(lambda: log.read_text().count("Registering worker") == WORKERS, [master, *workers], log)
        yield Cluster(url, master, workers)


def own_folders(machine: Path) -> dict[str, str]:
    """Return environment variables by which a process uses folders of its own machine alone."""
    names = ("TMPDIR", "SPARK_LOCAL_DIRS", "QUANTIDE_CACHE", "QUANTIDE_STATE", "HOME")
    folders = {name: machine / name.lower() for name in names}
    for path in folders.values():
        path.mkdir(parents=True, exist_ok=True)
    return {name: str(path) for name, path in folders.items()}


def _url(log: Path) -> str | None:
    match = re.search(r"Starting Spark master at (spark://127\.0\.0\.1:[1-9]\d*)", log.read_text())
    return match[1] if match else None
