"""`quantide run`: ingestion here, the server as a child; each ends as it should, however the other does."""

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

from benchmarks.process import ROOT, family
from tests.server.serving import configure

# The command with something in the place of ingestion: Spark has tests of its own.
DRIVER = """
import sys, time
from quantide.cli import child, main, serving

def ingest(args):
    print("ingesting", flush=True)
    {stub}

serving.ingest = ingest
child.FIRST_PAUSE = 0.1
sys.exit(main(["run", *sys.argv[1:]]))
"""
FOREVER = "time.sleep(600)"


@contextmanager
def running(config: str, stub: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """The command in a process group of its own, as a shell would start it."""
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER.format(stub=stub), config, *words],
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
    """The server, once there is one."""
    wait_until(lambda: len(family(process.pid)) == 2)
    [child] = family(process.pid) - {process.pid}
    return child


def wait_until(holds: Callable[[], bool]) -> None:
    while not holds():  # until the time limit of the test
        time.sleep(0.02)


def gone(pid: int) -> bool:
    """Whether a process has ended, also where nobody has asked for its exit code."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_the_server_comes_first_returns_when_it_dies_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    with running(configure(tmp_path).path, FOREVER, "--json") as process:
        url = json.loads(line(process))["url"]
        assert line(process) == "ingesting"
        assert httpx.get(f"{url}/api/streams").status_code == 200
        first = child_of(process)
        os.kill(first, signal.SIGKILL)
        again = json.loads(line(process))["url"]
        second = child_of(process)
        assert second != first
        assert httpx.get(f"{again}/api/streams").status_code == 200
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        out, error = process.communicate()
        assert process.returncode == 130
        assert out == ""
        [said] = [json.loads(said) for said in error.splitlines()]
        assert "ended by signal 9; it is started again" in said["warning"]["message"]
        assert gone(second)


@pytest.mark.parametrize("how", [pytest.param(signal.SIGTERM, marks=pytest.mark.slow), signal.SIGKILL])
def test_the_server_ends_with_the_run(how: signal.Signals, tmp_path: Path) -> None:
    with running(configure(tmp_path).path, FOREVER) as process:
        assert line(process).startswith("http://")
        assert line(process) == "ingesting"
        child = child_of(process)
        process.send_signal(how)
        process.wait()
        wait_until(lambda: gone(child))


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
