"""A real `quantide demo` for tests of the page: started, found at its address, and ended by Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from bench.processes import family
from tests.spark.process_groups import finish, running, wait_until


@dataclass(frozen=True)
class Demo:
    """A running demo: its address, and its API."""

    url: str
    api: httpx.Client


@contextmanager
def run_demo(folder: Path) -> Iterator[Demo]:
    """Run the demo in a folder; at the end press Ctrl-C, and check that all its processes end."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "demo.log"
    command = [sys.executable, "-m", "quantide", "demo", "--json", "--port", "0", "--folder", str(folder / "market")]
    with running(command, log, dict(os.environ)) as process:
        wait_until(lambda: address(log) is not None, [process], log)
        url = str(address(log))
        with httpx.Client(base_url=url, timeout=20) as api:
            yield Demo(url, api)
        press_ctrl_c(process, log)


def address(log: Path) -> str | None:
    """Return the address of the page once the demo has printed it."""
    for line in log.read_text(errors="replace").splitlines():
        if line.startswith('{"url"'):
            return str(json.loads(line)["url"])
    return None


def press_ctrl_c(process: subprocess.Popen[bytes], log: Path) -> None:
    started = family(process.pid) - {process.pid}
    assert started, "a demo has a server and a JVM"
    process.send_signal(signal.SIGINT)
    assert '"answered"' in finish(process, log)
    wait_until(lambda: not any(runs(pid) for pid in started), [], log)


def runs(pid: int) -> bool:
    """Return True if the process runs: one that ended stays listed until its parent waits for it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
