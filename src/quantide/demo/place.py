"""Where the demo lies: a folder with its configuration, its stores, and the files that come in."""

import fcntl
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from quantide.config import Config, read_config
from quantide.config.server import PORT
from quantide.demo.market import LATE, WIDE
from quantide.errors import InvalidArgumentError

CONFIG = """\
# Written by `quantide demo`, each time it starts.
store = "data"

[server]
port = {port}

[spark]
"spark.driver.extraJavaOptions" = "-Xss16m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"   # small, and soon up
"""
STREAM = """
[streams.{name}]
source  = {{ format = "parquet", path = "incoming" }}
value   = "{value}"
time    = "ts"
keys    = ["symbol"]
filters = {{ {filter} = "{value} >= {least:g}" }}
eps     = 0.005   # coarse enough for bands to be seen
step    = "1 min"
window  = "2 hours"
"""
STREAMS = (
    {"name": "spread", "value": "spread_bps", "filter": "wide", "least": WIDE},
    {"name": "latency", "value": "latency_us", "filter": "late", "least": LATE},
)


def incoming(folder: Path) -> Path:
    """Where ticks come in."""
    return folder / "incoming"


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """One demo a folder: a second would write its port over that of the first."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fix = "name a folder that can be written to"
        raise InvalidArgumentError(f"the folder {folder} cannot be had ({error.strerror}); {fix}") from error
    with (folder / "demo.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InvalidArgumentError(f"another demo runs in {folder}; end it first, or name another folder") from None
        yield


def prepare(folder: Path, port: int) -> Config:
    """Make the folder, or go on with what is in it; its configuration."""
    incoming(folder).mkdir(parents=True, exist_ok=True)
    path = folder / "demo.toml"
    path.write_text(CONFIG.format(port=port) + "".join(STREAM.format(**one) for one in STREAMS), encoding="utf-8")
    return read_config(path)


def choose_port(asked: int | None) -> int:
    """The port that was asked for; the usual one, or one that is free, when none was.

    A number in any case: a server that is started again is to have the same one.
    """
    try:
        return free_port(PORT if asked is None else asked)
    except OSError as error:
        if asked is not None:
            fix = "give another one, or none for one that is free"
            raise InvalidArgumentError(f"port {asked} cannot be had ({error.strerror}); {fix}") from error
        return free_port(0)


def free_port(port: int) -> int:
    """This port, or any for 0; an OSError where it is not free."""
    with socket.create_server(("127.0.0.1", port)) as found:
        return int(found.getsockname()[1])
