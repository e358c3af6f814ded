"""`quantide run`: ingestion with the server as a child process; each ends correctly, however the other ends."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from bench.processes import ROOT, family
from tests.server.running_server import configure

# The command with a stub instead of ingestion: Spark has its own tests.
DRIVER = """
import sys, time
from quantide.cli import main, server_commands, server_process

def ingest(args):
    print("ingesting", flush=True)
    {stub}

server_commands.ingest = ingest
server_process.FIRST_PAUSE = 0.1
sys.exit(main(["run", *sys.argv[1:]]))
"""
FOREVER = "time.sleep(600)"


@contextmanager
def running(config: str, stub: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Run the command in its own process group, as a shell would."""
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER.format(stub=stub), config, *options],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    started = {process.pid}
    try:
        yield process
        started |= family(process.pid)
    finally:
        for pid in started:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def child_of(process: subprocess.Popen[str]) -> int:
    """Wait for the server process and return its id."""
    wait_until(lambda: len(family(process.pid)) == 2)
    [child] = family(process.pid) - {process.pid}
    return child


def wait_until(condition: Callable[[], bool]) -> None:
    while not condition():  # until the time limit of the test
        time.sleep(0.02)


def has_ended(pid: int) -> bool:
    """Return True if a process has ended, even if its exit code was not read."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_the_server_starts_first_restarts_when_killed_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    with running(configure(tmp_path).path, FOREVER, "--json") as process:
        url = json.loads(line(process))["url"]
        assert line(process) == "ingesting"
        assert httpx.get(f"{url}/api/streams").status_code == 200
        first = child_of(process)
        os.kill(first, signal.SIGKILL)
        new_url = json.loads(line(process))["url"]
        second = child_of(process)
        assert second != first
        assert httpx.get(f"{new_url}/api/streams").status_code == 200
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        out, error = process.communicate()
        assert process.returncode == 130
        assert out == ""
        [warning] = [json.loads(line) for line in error.splitlines()]
        assert "ended by signal 9; it restarts in" in warning["warning"]["message"]
        assert has_ended(second)


@pytest.mark.parametrize("how", [pytest.param(signal.SIGTERM, marks=pytest.mark.slow), signal.SIGKILL])
def test_the_server_ends_with_the_run(how: signal.Signals, tmp_path: Path) -> None:
    with running(configure(tmp_path).path, FOREVER) as process:
        assert line(process).startswith("http://")
        assert line(process) == "ingesting"
        child = child_of(process)
        process.send_signal(how)
        process.wait()
        wait_until(lambda: has_ended(child))


@pytest.mark.slow
def test_the_server_ends_when_ingestion_does(tmp_path: Path) -> None:
    with running(configure(tmp_path).path, "return") as process:
        out, error = process.communicate()
        assert (process.returncode, error) == (0, "")
        assert out.endswith("ingesting\n")


def test_a_server_that_cannot_start_ends_the_run_before_ingestion(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = configure(tmp_path)
        text = Path(config.path).read_text().replace("port = 0", f"port = {taken.getsockname()[1]}")
        Path(config.path).write_text(text)
        with running(config.path, FOREVER) as process:
            out, error = process.communicate()
            assert (process.returncode, out) == (2, "")
            assert error.startswith("quantide: cannot listen on 127.0.0.1:")
            assert error.count("\n") == 1
