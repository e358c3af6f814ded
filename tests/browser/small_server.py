"""Small servers over stores that a test writes, for what a demo cannot show."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from quantide import History
from quantide.config import Config
from tests.server.running_server import configure, serving

NOON = np.datetime64("2026-01-31T12:00:00", "us")


@dataclass
class Small:
    """A server with one stream, and its store."""

    folder: Path
    config: Config
    api: httpx.Client

    @property
    def url(self) -> str:
        return str(self.api.base_url)


def stream(*names: str) -> str:
    """A configuration of streams; what their columns are called does not matter to a server."""
    columns = 'source = { format = "parquet", path = "in" }\nvalue = "v"\ntime = "ts"\n'
    return "".join(f"[streams.{name}]\n{columns}" for name in names)


def store(folder: Path, name: str = "numbers", **settings: Any) -> History:
    chosen: dict[str, Any] = {"eps": 0.01, "window": "1 hour"} | settings
    return History(folder / "data" / name, **chosen)


def moments(count: int, seconds: float = 600.0, end: np.datetime64 = NOON) -> Any:
    """So many, evenly spread over the last seconds before one."""
    back = np.linspace(seconds, 0, count) * 1e6
    return end - back.astype(np.int64).astype("m8[us]")


@contextmanager
def small(folder: Path, *names: str, server: str = "", port: int = 0) -> Iterator[Small]:
    """A server over what is, or comes to be, in a folder."""
    with small_with(folder, stream(*(names or ("numbers",))), server, port) as found:
        yield found


@contextmanager
def small_with(folder: Path, streams: str, server: str = "", port: int = 0) -> Iterator[Small]:
    """The same, with the configuration of its streams as text."""
    config = configure(folder, server, streams)
    with serving(config, port=port) as api:
        yield Small(folder, config, api)
