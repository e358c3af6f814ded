"""A server, or a whole installation, as a user starts it; and what its processes hold in memory."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from benchmarks.process import ROOT, spark_environment, spawn

PATIENCE = 300.0
STREAM = """store = "data"

[server]
port = {port}
state = "state"
{server}
[streams.latency]
source = {{ format = "parquet", path = "in" }}
value = "v"
time = "t"
keys = ["endpoint"]
eps = {eps:g}
"""


def configuration(folder: Path, eps: float, server: str = "") -> Path:
    """A stream of latencies by endpoint, from "in" into "data", and a server on a port that is free."""
    (folder / "in").mkdir(parents=True)
    path = folder / "quantide.toml"
    path.write_text(STREAM.format(port=free_port(), eps=eps, server=server), encoding="utf-8")
    return path


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


class Started:
    """`quantide COMMAND CONFIG`, which serves."""

    def __init__(self, command: str, config: Path) -> None:
        self._log = config.with_suffix(f".{command}.log")
        started = [sys.executable, "-m", "quantide", command, str(config)]
        self.process = spawn(started, self._log, spark_environment())
        text = config.read_text(encoding="utf-8")
        self.port = int(text.partition("port = ")[2].split()[0])
        self.ready = 0.0  # seconds from its start until every stream could be asked
        self._begun = time.monotonic()
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=120, trust_env=False)

    def wait_ready(self) -> None:
        """Until every stream can be asked."""
        last = time.monotonic() + PATIENCE
        while time.monotonic() < last:
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended: {self._log.read_text(encoding='utf-8')[-3000:]}")
            with suppress(httpx.TransportError):
                if self.client.get("/readyz").status_code == 200:
                    self.ready = time.monotonic() - self._begun
                    return
            time.sleep(0.02)
        raise TimeoutError(f"the server was not ready within {PATIENCE:.0f} s")

    def get(self, path: str, **params: Any) -> Any:
        found = self.client.get(path, params=params)
        found.raise_for_status()
        return found.json()

    def stop(self) -> None:
        self.client.close()
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@contextmanager
def started(command: str, config: Path) -> Iterator[Started]:
    """A server that is gone at the end."""
    found = Started(command, config)
    try:
        found.wait_ready()
        yield found
    finally:
        found.stop()


def own_memory(pid: int) -> int:
    """Bytes that a process holds itself, without files that it has mapped."""
    text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return 1024 * int(text.partition("RssAnon:")[2].split()[0])


def tool(module: str, asked: dict[str, Any]) -> Any:
    """What a tool in a process of its own gives: JSON in, JSON out."""
    done = subprocess.run(
        [sys.executable, "-m", module],
        input=json.dumps(asked).encode(),
        capture_output=True,
        cwd=ROOT,
        timeout=PATIENCE,
    )
    if done.returncode:
        raise RuntimeError(f"{module} failed: {done.stderr.decode()[-2000:]}")
    return json.loads(done.stdout)
