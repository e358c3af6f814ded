"""Clients that push numbered rows to two servers of one store, any of which may be killed."""

import json
import signal
import sys
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from subprocess import Popen

import httpx
from deltalake import DeltaTable

from tests.spark.process_groups import environment, running, wait_until

ROWS = 10  # rows of a request


class Servers:
    """Two servers of one store; one that was killed is started again, at another port."""

    def __init__(self, config: Path, stack: ExitStack, env: Mapping[str, str] | None = None) -> None:
        self._config, self._stack, self._env = config, stack, environment() | dict(env or {})
        self.processes: list[Popen[bytes]] = []
        self.urls: list[str] = []
        for number in range(2):
            self._start(number)

    def _start(self, number: int) -> None:
        log = self._config.parent / f"server-{number}-{len(list(self._config.parent.glob('server-*')))}.log"
        command = [sys.executable, "-m", "quantide", "serve", str(self._config), "--json"]
        process = self._stack.enter_context(running(command, log, self._env))
        wait_until(lambda: b'"url"' in log.read_bytes(), [process], log)
        url = next(json.loads(line)["url"] for line in log.read_text().splitlines() if line.startswith('{"url"'))
        self.processes[number : number + 1], self.urls[number : number + 1] = [process], [url]

    def kill(self, number: int) -> None:
        self.processes[number].send_signal(signal.SIGKILL)
        self.processes[number].wait()
        self._start(number)


class NumberedClient(threading.Thread):
    """Pushes consecutive numbers; a request is repeated, to either server, with its key, until it is acknowledged."""

    def __init__(self, servers: Servers, client: int, stream: str = "s", pause: float = 0.0) -> None:
        super().__init__(daemon=True)
        self._servers, self._client, self.stopping = servers, client, threading.Event()
        self._stream, self._pause = stream, pause
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
            self.stopping.wait(self._pause)

    def _push(self, rows: list[dict[str, int]], key: str, attempt: int) -> bool:
        server = self._servers.urls[(self._client + attempt) % 2]
        url, headers = f"{server}/api/streams/{self._stream}/rows", {"idempotency-key": key}
        try:
            response = httpx.post(url, json=rows, headers=headers, timeout=60)
        except httpx.HTTPError:
            return False
        return response.status_code == 201


def stored_values(store: Path | str, options: dict[str, str] | None = None) -> list[int]:
    """Return the values in a store, a folder or a URI."""
    values: list[int] = DeltaTable(str(store), storage_options=options).to_pyarrow_table()["value"].to_pylist()
    return values
