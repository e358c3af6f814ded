"""A process that runs Spark: started, stopped, what it tells, and what it and its children hold in memory."""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from benchmarks.process import family, spark_environment, spawn
from benchmarks.report import Row

PATIENCE = 600.0  # seconds that anything may take
KINDS = ("python", "jvm", "workers")


class Driver:
    """`python -m MODULE ARGUMENTS LOG MORE`."""

    def __init__(self, module: str, given: Path, log: Path, more: Sequence[str]) -> None:
        self._log, self._out = log, log.with_suffix(".out")
        command = [sys.executable, "-m", module, str(given), str(log), *more]
        self.process = spawn(command, self._out, spark_environment())

    def events(self) -> list[dict[str, Any]]:
        """What it has told so far."""
        text = self._log.read_text(encoding="utf-8") if self._log.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def batches(self) -> list[dict[str, Any]]:
        return [event for event in self.events() if "batch" in event]

    def check(self) -> None:
        """It must not have failed."""
        if self.process.poll():
            raise RuntimeError(f"a driver ended with {self.process.returncode}: {self._tail()}")

    def finish(self) -> list[dict[str, Any]]:
        """Wait until it ends by itself; all it told."""
        self.process.wait(PATIENCE)
        self.check()
        return self.events()

    def stop(self) -> list[dict[str, Any]]:
        """Ask it to stop; all it told."""
        self.check()
        os.kill(self.process.pid, signal.SIGTERM)
        return self.finish()

    def end(self) -> None:
        """Nothing of it is left."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)

    def memory(self) -> Row:
        """Bytes of its own that the driver, the JVM and Python workers hold, and of files that are mapped."""
        found: Row = dict.fromkeys((*KINDS, "mapped"), 0)
        for pid in family(self.process.pid):
            fields = _status(pid)
            if fields is not None:
                kind = "python" if pid == self.process.pid else "jvm" if fields["Name"] == "java" else "workers"
                found[kind] += _bytes(fields, "RssAnon") + _bytes(fields, "RssShmem")
                found["mapped"] += _bytes(fields, "RssFile")
        return found

    def _tail(self) -> str:
        return self._out.read_text(encoding="utf-8", errors="replace")[-3000:]


@contextmanager
def driver(module: str, given: Path, log: Path, more: Sequence[str]) -> Iterator[Driver]:
    """A driver that is gone at the end, whatever happened."""
    found = Driver(module, given, log, more)
    try:
        yield found
    finally:
        found.end()


def wait_for(holds: Any, running: Driver) -> None:
    """Until something holds, while the driver runs."""
    last = time.monotonic() + PATIENCE
    while not holds():
        running.check()
        if time.monotonic() > last:
            raise TimeoutError(f"not within {PATIENCE:.0f} s")
        time.sleep(0.02)


def _status(pid: int) -> dict[str, str] | None:
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return None
    return {name: content.strip() for name, _, content in (line.partition(":") for line in text.splitlines())}


def _bytes(fields: dict[str, str], name: str) -> int:
    return int(fields[name].split()[0]) * 1024 if name in fields else 0
