"""Servers and ingestion are killed in turn while clients push: every acknowledged row is in the store exactly once."""

import json
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import Popen

import httpx
import pytest
from pyspark.sql import SparkSession

from quantide import History
from quantide.config import read_config
from quantide.spark.ingest import ingest
from tests.spark.processes import environment, running, tail, wait_until

CONFIG = """store = "data"
[streams.s]
source = "push"
value_type = "int64"
[server]
port = 0
"""
ROUNDS, ROWS, REQUESTS = 4, 10, 20  # kills; rows of a request; acknowledged requests between two kills


class Servers:
    """Two servers of one store; one that was killed is started again, at another port."""

    def __init__(self, config: Path, stack: ExitStack) -> None:
        self._config, self._stack = config, stack
        self.processes: list[Popen[bytes]] = []
        self.urls: list[str] = []
        for number in range(2):
            self._start(number)

    def _start(self, number: int) -> None:
        log = self._config.parent / f"server-{number}-{len(list(self._config.parent.glob('server-*')))}.log"
        command = [sys.executable, "-m", "quantide", "serve", str(self._config), "--json"]
        process = self._stack.enter_context(running(command, log, environment()))
        wait_until(lambda: b'"url"' in log.read_bytes(), [process], log)
        url = next(json.loads(line)["url"] for line in log.read_text().splitlines() if line.startswith('{"url"'))
        self.processes[number : number + 1], self.urls[number : number + 1] = [process], [url]

    def kill(self, number: int) -> None:
        self.processes[number].send_signal(signal.SIGKILL)
        self.processes[number].wait()
        self._start(number)


class NumberedClient(threading.Thread):
    """Pushes consecutive numbers; a request is repeated, to either server, with its key, until it is acknowledged."""

    def __init__(self, servers: Servers, client: int) -> None:
        super().__init__(daemon=True)
        self._servers, self._client, self.stopping = servers, client, threading.Event()
        self.acknowledged: list[int] = []
        self.requests = 0

    def run(self) -> None:
        while not self.stopping.is_set():
            first = self._client * 10**9 + self.requests * ROWS
            rows = [{"value": first + i} for i in range(ROWS)]
            attempt = 0
            while not self._push(rows, f"{self._client}-{self.requests}", attempt):
                attempt += 1
                self.stopping.wait(0.05)
            self.acknowledged += [row["value"] for row in rows]
            self.requests += 1

    def _push(self, rows: list[dict[str, int]], key: str, attempt: int) -> bool:
        url = self._servers.urls[(self._client + attempt) % 2]
        try:
            response = httpx.post(f"{url}/api/streams/s/rows", json=rows, headers={"idempotency-key": key}, timeout=60)
        except httpx.HTTPError:
            return False
        return response.status_code == 201


@contextmanager
def ingesting(config: Path, number: int) -> Iterator[tuple[Popen[bytes], Path]]:
    log = config.parent / f"ingest-{number}.log"
    command = [sys.executable, "-m", "quantide", "ingest", str(config), "--master", "local[2]"]
    with running(command, log, environment()) as process:
        yield process, log


@pytest.mark.slow
def test_every_acknowledged_row_is_stored_exactly_once(spark: SparkSession, tmp_path: Path) -> None:
    config = tmp_path / "quantide.toml"
    config.write_text(CONFIG)
    store = tmp_path / "data" / "s"
    with ExitStack() as stack:
        servers = Servers(config, stack)
        clients = [NumberedClient(servers, number) for number in range(3)]
        for client in clients:
            client.start()
        for number in range(ROUNDS):
            with ingesting(config, number) as (driver, log):
                before = History(store).n if (store / "_delta_log").exists() else 0
                done = sum(client.requests for client in clients)
                wait_until(lambda: sum(c.requests for c in clients) >= done + REQUESTS, [driver], log)  # noqa: B023
                servers.kill(number % 2)
                wait_until(
                    lambda: (store / "_delta_log").exists() and History(store).n > before,  # noqa: B023
                    [driver],
                    log,
                )
                driver.send_signal(signal.SIGKILL)
                driver.wait()
                assert driver.returncode == -signal.SIGKILL, tail(log)
        for client in clients:
            client.stopping.set()
        for client in clients:
            client.join()
    with (tmp_path / "out").open("w") as out:
        ingest(read_config(config), out, once=True)
    expected = sorted(value for client in clients for value in client.acknowledged)
    history = History(store)
    assert history.n == len(expected)
    table = sorted(int(value) for value in stored_values(store))
    assert table == expected
    assert list((store / "_quantide" / "landing").iterdir()) == []


def stored_values(store: Path) -> list[int]:
    from deltalake import DeltaTable

    values: list[int] = DeltaTable(str(store)).to_pyarrow_table()["value"].to_pylist()
    return values
