"""Real server on a real socket for tests: uvicorn in a thread, over stores that the test writes."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import uvicorn
from fastapi import FastAPI

from quantide import History
from quantide.config import Config, read_config
from quantide.server.app import make_app
from quantide.server.http.request_limits import limited_protocol

STREAM = """
[streams.latency]
source  = { format = "parquet", path = "in" }
value   = "ms"
time    = "ts"
keys    = ["endpoint"]
filters = { errors = "status >= 500" }
"""
ENDPOINTS = ["/pay", "/cart", "/home"]


def configure(folder: Path, server: str = "", streams: str = STREAM) -> Config:
    """Write a configuration file and read it."""
    (folder / "quantide.toml").write_text(f'store = "data"\n[server]\nport = 0\n{server}\n{streams}')
    return read_config(folder / "quantide.toml")


def make_store(folder: Path, name: str = "latency", **settings: Any) -> History:
    """Create an empty store at the configured location."""
    chosen: dict[str, Any] = {"eps": 0.01, "keys": "endpoint", "filters": ["errors"], "window": "24 hours"} | settings
    return History(folder / "data" / name, **chosen)


def traffic(history: History, rng: np.random.Generator, rows: int, start: float, slow: float = 1.0) -> Any:
    """Append ten seconds of requests to three endpoints; return their latencies."""
    values = rng.lognormal(3, 1, rows) * slow
    history.append(
        values,
        key=rng.choice(ENDPOINTS, rows),
        times=start + rng.uniform(0, 10, rows),
        filters={"errors": rng.random(rows) < 0.1},
    )
    return values


@contextmanager
def run_server(config: Config, app: FastAPI | None = None, port: int = 0, **client: Any) -> Iterator[httpx.Client]:
    """Run a server, at a port or at a free one; yield a client of it."""
    app = app or make_app(config)
    settings = uvicorn.Config(app, log_config=None, access_log=False, lifespan="on", http=limited_protocol(4000))
    server = uvicorn.Server(settings)
    listening = socket.create_server(("127.0.0.1", port))
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # otherwise each response waits 40 ms for its body
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])), daemon=True)
    thread.start()
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{listening.getsockname()[1]}", timeout=60, **client) as result:
            yield result
    finally:
        app.state.service.hub.close()
        server.should_exit = True
        thread.join()
        listening.close()
