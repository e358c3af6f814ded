"""Server with push streams for tests: rows that were pushed are read back from the landing folder."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from quantide.config import Config, read_config
from quantide.store.landing_file import PushedRequest, read_requests

STREAMS = """
[streams.latency]
source = "push"
keys = ["endpoint"]

[streams.plain]
source = "push"

[streams.timed]
source = { format = "push", landing_files = 3 }
value = "ms"
time = "ts"
time_unit = "ms"

[streams.weighted]
source = "push"
weight = "copies"

[streams.files]
source = { format = "parquet", path = "in" }
value = "ms"
"""


def push_config(folder: Path, server: str = "", streams: str = STREAMS) -> Config:
    (folder / "push.toml").write_text(f'store = "data"\n{streams}\n[server]\nport = 0\n{server}')
    return read_config(folder / "push.toml")


def landing_files(folder: Path, stream: str) -> list[Path]:
    """Return the landing files of a stream, oldest first."""
    return sorted((folder / "data" / stream / "_quantide" / "landing").glob("*.parquet"))


def landed(folder: Path, stream: str) -> list[dict[str, Any]]:
    """Return the rows in the landing folder of a stream."""
    return [row for path in landing_files(folder, stream) for row in read_file(path).to_pylist()]


def read_file(path: Path) -> pa.Table:
    return pq.ParquetFile(path).read()


def landed_requests(path: Path) -> list[PushedRequest]:
    return read_requests(pq.read_metadata(path))
