"""Driver of the soak test: `quantide ingest`, which is killed, dies at fault points, and is started again."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from bench.processes import spawn
from quantide.spark.kafka_connector import JARS_VARIABLE
from tests.kafka.broker import CONNECTOR
from tests.spark.process_groups import end, environment, running, tail

Record = Callable[..., None]
REFUSED = 2  # exit code of a driver that reports an error
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # a driver lives for seconds
LIMIT = 1800.0  # seconds for the rest of an hour


class SoakDriver:
    """One driver at a time. If it ends by itself, it must have a reason: its fault point, or a failure beside it."""

    def __init__(self, config: Path, env: Mapping[str, str], record: Record) -> None:
        self._config, self._record = config, record
        self._env = environment() | {JARS_VARIABLE: str(CONNECTOR), "JAVA_TOOL_OPTIONS": QUICK_START} | dict(env)
        self._process: subprocess.Popen[bytes] | None = None
        self._remains: list[subprocess.Popen[bytes]] = []
        self._fault, self._is_excused, self._starts = "", False, 0
        self.started_at = time.monotonic()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, fault: str = "") -> None:
        """Start a driver, perhaps with a fault point."""
        self._starts += 1
        self._fault, self._is_excused, self.started_at = fault, False, time.monotonic()
        command = self._command("ingest", "--master", "local[2]")
        self._process = spawn(command, self._log, self._env | ({"QUANTIDE_FAULT": fault} if fault else {}))

    def excuse(self) -> None:
        """Allow the driver to end with an error: something that it needs fails."""
        self._is_excused = True

    def tend(self) -> None:
        """Start the driver again if it ended for a reason."""
        if self._process is None or self.is_running:
            return
        code, kind = self._process.wait(), self._fault.rpartition(":")[2]
        if kind == "kill" and code == -signal.SIGKILL:
            self._record("a driver died at its fault point", self._fault)
        elif code == REFUSED and (self._is_excused or kind == "full"):
            self._record("a driver ended with an error, and was started again", self._last_line())
        else:
            raise AssertionError(f"a driver ended with {code}: {self.tail()}")
        excused = self._is_excused
        self._remains.append(self._process)
        self.start()
        self._is_excused = excused  # what fails may still be away

    def kill(self, with_processes: bool = True) -> None:
        """Kill the driver, with all its processes or without: then its JVM lives a little longer."""
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            if with_processes:
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._remains.append(self._process)
        self._process = None
        if with_processes:
            self._end_remains()

    def run(self, *arguments: str) -> None:
        """Run a command about all streams, which must succeed."""
        self._starts += 1
        with running(self._command(*arguments, "--master", "local[2]"), self._log, self._env) as process:
            code = process.wait(LIMIT)
        assert code == 0, self.tail()

    def tail(self) -> str:
        return tail(self._log)

    @property
    def _log(self) -> Path:
        return self._config.parent / f"driver-{self._starts}.log"

    def _command(self, *arguments: str) -> list[str]:
        verbs = [word for word in arguments if not word.startswith("-") and "[" not in word]
        options = [word for word in arguments if word not in verbs]
        return [sys.executable, "-m", "quantide", *verbs, str(self._config), *options]

    def _last_line(self) -> str:
        lines = [line for line in self.tail().splitlines() if line.strip()]
        return lines[-1][:200] if lines else ""

    def _end_remains(self) -> None:
        for process in self._remains:
            end(process, signal.SIGKILL)
        self._remains = []
