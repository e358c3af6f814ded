"""A real server on a real socket for tests: uvicorn in a thread, over stores that the test writes."""

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
from quantide.server.lines import lines_of

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
    """A configuration file in a folder, read."""
    (folder / "quantide.toml").write_text(f'store = "data"\n[server]\nport = 0\n{server}\n{streams}')
    return read_config(folder / "quantide.toml")


def make_store(folder: Path, name: str = "latency", **settings: Any) -> History:
    """An empty store where the configuration looks for it."""
    chosen: dict[str, Any] = {"eps": 0.01, "keys": "endpoint", "filters": ["errors"], "window": "24 hours"} | settings
    return History(folder / "data" / name, **chosen)


def traffic(history: History, rng: np.random.Generator, rows: int, start: float, slow: float = 1.0) -> Any:
    """Ten seconds of requests to three endpoints; their latencies."""
    values = rng.lognormal(3, 1, rows) * slow
    history.append(
        values,
        key=rng.choice(ENDPOINTS, rows),
        times=start + rng.uniform(0, 10, rows),
        filters={"errors": rng.random(rows) < 0.1},
    )
    return values


@contextmanager
def serving(config: Config, app: FastAPI | None = None, port: int = 0, **client: Any) -> Iterator[httpx.Client]:
    """A client of a server that runs meanwhile, at a port, or at any that is free."""
    app = app or make_app(config)
    settings = uvicorn.Config(app, log_config=None, access_log=False, lifespan="on", http=lines_of(4000))
    server = uvicorn.Server(settings)
    listening = socket.create_server(("127.0.0.1", port))
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else each answer waits 40 ms for its body
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])), daemon=True)
    thread.start()
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{listening.getsockname()[1]}", timeout=60, **client) as found:
            yield found
    finally:
        app.state.service.hub.close()
        server.should_exit = True
        thread.join()
        listening.close()
