"""Processes that tests start: each in a group of its own, with a log and a time limit, and ended by its id."""

import ipaddress
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pyspark

from bench.processes import spawn
from tests.spark.streams import Feed

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

SPARK = Path(pyspark.__file__).parent
LIMIT = 480.0  # seconds: many times what anything here takes alone on two cores

CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
    "spark.executor.memory": "512m",
}


def environment(python: str = sys.executable) -> dict[str, str]:
    """Spark on loopback alone, with this Python (or another) for its workers."""
    arguments = " ".join(f"--conf {name}={value}" for name, value in CONF.items())
    return os.environ | {
        "SPARK_HOME": str(SPARK),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
        "PYSPARK_PYTHON": python,
        "PYSPARK_SUBMIT_ARGS": f"{arguments} pyspark-shell",
    }


# Spark Connect at a free port, which the client queries: PySpark has that for its own tests.
FREE_PORT = {"SPARK_TESTING": "1"}


@contextmanager
def running(command: Sequence[str], log: Path, env: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process from the root of the project; at the end nothing of its group is left."""
    process = spawn(command, log, env)
    try:
        yield process
    finally:
        end(process)


def end(process: subprocess.Popen[bytes], first: signal.Signals = signal.SIGTERM) -> None:
    """Ends a process and what it started in its group: a JVM, an executor."""
    for sign in (first, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        with suppress(subprocess.TimeoutExpired):
            process.wait(15)


def finish(process: subprocess.Popen[bytes], log: Path) -> str:
    """The log of a process that must end well."""
    wait_until(lambda: process.poll() is not None, [], log)
    assert process.returncode == 0, tail(log)
    return log.read_text(errors="replace")


def kill_at(fault: str, feed: Feed) -> None:
    """Let a driver that ingests a feed die at a fault point."""
    log, command = feed.folder / "driver.log", [sys.executable, "-m", "quantide", "ingest", str(feed.config), "--once"]
    env = environment() | {"QUANTIDE_FAULT": f"{fault}:kill"}
    with running([*command, "--master", "local[2]"], log, env) as driver:
        wait_until(lambda: driver.poll() is not None, [], log)
        assert driver.returncode == -signal.SIGKILL, tail(log)


def wait_until(is_met: Callable[[], bool], needed: Iterable[subprocess.Popen[bytes]], log: Path) -> None:
    """Wait for a condition, within LIMIT, while the needed processes run."""
    last = time.monotonic() + LIMIT
    while not is_met():
        ended = [process.args for process in needed if process.poll() is not None]
        assert not ended, f"{ended} ended: {tail(log)}"
        assert time.monotonic() < last, f"not within {LIMIT} s: {tail(log)}"
        time.sleep(0.05)


def tail(log: Path) -> str:
    return log.read_text(errors="replace")[-5000:]


def listening(pids: Iterable[int]) -> list[Address]:
    """The addresses at which these processes accept connections."""
    own = set()
    for pid in pids:
        with suppress(OSError):
            for handle in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):
                    own.add(os.readlink(handle))
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path("/proc/net", name).read_text().splitlines()[1:]]
    return [_address(line[1]) for line in lines if line[3] == "0A" and f"socket:[{line[9]}]" in own]


def _address(text: str) -> Address:
    """Parse an address of the kernel: groups of four bytes, each reversed, then the port."""
    raw = bytes.fromhex(text.partition(":")[0])
    turned = b"".join(raw[i : i + 4][::-1] for i in range(0, len(raw), 4))
    address = ipaddress.ip_address(turned)
    return getattr(address, "ipv4_mapped", None) or address
