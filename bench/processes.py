"""Child processes of benchmarks and tests, each in its own group, and the memory of processes."""

import ctypes
import gc
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TextIO

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 600.0  # seconds that a child may take
KINDS = ("python", "jvm", "workers")


def spawn(command: Sequence[str], log: Path, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a process in its own group, so that it can be ended with its children; its output goes to the log."""
    with log.open("wb") as out:
        pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": subprocess.STDOUT}
        return subprocess.Popen(command, cwd=ROOT, env=env, start_new_session=True, **pipes)


def family(pid: int) -> set[int]:
    """Return a process and all its descendants."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it may end while it is read
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found


class Child:
    """Process `python -m MODULE ARGUMENTS`, whose output is logged; it ends with the context."""

    def __init__(self, log: Path, *arguments: str) -> None:
        self._log, spark = log, {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        self.process = spawn([sys.executable, "-m", *arguments], log, os.environ | spark)

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError, subprocess.TimeoutExpired):
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(30)
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)

    def check(self) -> None:
        """Raise if it failed."""
        if self.process.poll():
            text = self._log.read_text(encoding="utf-8", errors="replace")
            raise RuntimeError(f"a process ended with {self.process.returncode}: {text[-3000:]}")

    def wait_for(self, condition: Callable[[], Any]) -> None:
        last = time.monotonic() + PATIENCE
        while not condition():
            self.check()
            if time.monotonic() > last:
                raise TimeoutError(f"not within {PATIENCE:.0f} s")
            time.sleep(0.02)

    def finish(self, stop: bool = False) -> None:
        self.check()
        if stop:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE)
        self.check()

    def memory(self) -> dict[str, int]:
        """Return the private bytes of the process, of the JVM and of Python workers, and the bytes of mapped files."""
        found = dict.fromkeys((*KINDS, "mapped"), 0)
        for pid in family(self.process.pid):
            with suppress(OSError):
                fields = status(pid)
                kind = "python" if pid == self.process.pid else "jvm" if fields["Name"] == "java" else "workers"
                found[kind] += status_bytes(fields) + status_bytes(fields, "RssShmem")
                found["mapped"] += status_bytes(fields, "RssFile")
        return found


def status(pid: int | str = "self") -> dict[str, str]:
    """Return the fields of /proc/PID/status."""
    text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return {name: content.strip() for name, _, content in (line.partition(":") for line in text.splitlines())}


def status_bytes(fields: Mapping[str, str], name: str = "RssAnon") -> int:
    """Return the bytes of a field; by default those that are no mapped files, which the system may reclaim."""
    return int(fields[name].split()[0]) * 1024 if name in fields else 0


class Peak(NamedTuple):
    """Resident bytes before the work, the most that it added, and its result."""

    base: int
    more: int
    result: Any


def peak_of(work: Callable[[], Any]) -> Peak:
    """Run the work and return its peak (VmHWM); imports and kernels must have been loaded before."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    base, result = status_bytes(status(), "VmRSS"), work()
    return Peak(base, max(0, status_bytes(status(), "VmHWM") - base), result)


def new_process() -> ProcessPoolExecutor:
    """Return a pool of one new process."""
    return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))


def end_with_parent() -> None:
    """Let the kernel kill this process when its parent ends: a killed benchmark leaves no process behind."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def write_event(log: TextIO, **event: Any) -> None:
    """Append an event to a log of JSON lines."""
    print(json.dumps(event), file=log, flush=True)


def read_events(log: Path) -> list[dict[str, Any]]:
    """Return the complete events of a log of JSON lines."""
    text = log.read_text(encoding="utf-8") if log.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


@contextmanager
def spark_session(cores: int) -> Iterator[Any]:
    """Yield a local Spark session."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{cores}]").config("spark.driver.memory", "8g")
    for name in ("driver.host=127.0.0.1", "driver.bindAddress=127.0.0.1", "ui.enabled=false"):
        builder = builder.config(*f"spark.{name}".split("="))
    session = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()
