"""Programs of Prometheus that tests run: of build/tools, where `make setup` unpacks them, or of this machine."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

TOOLS = Path(__file__).parents[2] / "build" / "tools" / "prometheus" / "usr" / "bin"
PATIENCE = 60.0


def find_program(name: str) -> str:
    """Return the path of a program; skip the test if there is none."""
    found = shutil.which(name, path=str(TOOLS)) or shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name}; `make setup` unpacks Debian's package of Prometheus")
    return found


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([find_program("promtool"), *arguments], capture_output=True, text=True, timeout=PATIENCE)


@contextmanager
def prometheus_server(folder: Path, target: str) -> Iterator[httpx.Client]:
    """Run a Prometheus server that scrapes a target every second; yield a client of it."""
    program = find_program("prometheus")
    config = folder / "prometheus.yml"
    config.write_text(
        "global: { scrape_interval: 1s }\nscrape_configs:\n  - job_name: quantide\n"
        f'    static_configs: [{{ targets: ["{target}"] }}]\n'
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    settings = [f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}", f"--web.listen-address={address}"]
    with (folder / "prometheus.log").open("w") as log:
        process = subprocess.Popen([program, *settings], stdout=log, stderr=log)
        try:
            with httpx.Client(base_url=f"http://{address}", timeout=PATIENCE, trust_env=False) as client:
                yield client
        finally:
            process.terminate()
            process.wait(PATIENCE)


def wait_for_result(client: httpx.Client, query: str) -> list[dict[str, Any]]:
    """Return the result of a query as soon as there is one."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            result: list[dict[str, Any]] = client.get("/api/v1/query", params={"query": query}).json()["data"]["result"]
        except (httpx.TransportError, ValueError):
            result = []
        if result:
            return result
        time.sleep(0.2)
    raise AssertionError(f"Prometheus has no sample of {query}")
