"""Small servers over stores that a test writes, for states that a demo does not reach."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from quantide import History
from quantide.config import Config
from tests.server.running_server import configure, run_server

NOON = np.datetime64("2026-01-31T12:00:00", "us")


@dataclass
class SmallServer:
    """A server with one stream, and its store."""

    folder: Path
    config: Config
    api: httpx.Client

    @property
    def url(self) -> str:
        return str(self.api.base_url)


def stream(*names: str) -> str:
    """Return a configuration of streams; a server does not use the names of their columns."""
    columns = 'source = { format = "parquet", path = "in" }\nvalue = "v"\ntime = "ts"\n'
    return "".join(f"[streams.{name}]\n{columns}" for name in names)


def store(folder: Path, name: str = "numbers", **settings: Any) -> History:
    chosen: dict[str, Any] = {"eps": 0.01, "window": "1 hour"} | settings
    return History(folder / "data" / name, **chosen)


def moments(count: int, seconds: float = 600.0, end: np.datetime64 = NOON) -> Any:
    """Return `count` moments, spread evenly over the seconds before `end`."""
    back = np.linspace(seconds, 0, count) * 1e6
    return end - back.astype(np.int64).astype("m8[us]")


@contextmanager
def serve_store(folder: Path, *names: str, server: str = "", port: int = 0) -> Iterator[SmallServer]:
    """Serve the stores in a folder, also those that are created later."""
    with serve_streams(folder, stream(*(names or ("numbers",))), server, port) as found:
        yield found


@contextmanager
def serve_streams(folder: Path, streams: str, server: str = "", port: int = 0) -> Iterator[SmallServer]:
    """Serve the streams of a configuration."""
    config = configure(folder, server, streams)
    with run_server(config, port=port) as api:
        yield SmallServer(folder, config, api)
