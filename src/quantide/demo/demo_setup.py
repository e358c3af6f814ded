"""Setup of the demo: its folder and configuration, its port, its continuous queries and alarms."""

import fcntl
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from quantide.client import Client
from quantide.config import Config, read_config
from quantide.config.server_config import PORT
from quantide.demo.market import LATE, SHARE, SYMBOLS, WIDE
from quantide.errors import InvalidArgumentError

CONFIG = """\
# Written by `quantide demo`, each time it starts.
store = "data"

[server]
port = {port}

[spark]
"spark.driver.extraJavaOptions" = "-Xss16m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"   # small, and starts fast
"""
STREAM_TABLE = """
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
LABEL = "demo"
QUERIES = 2_000
WINDOWS: tuple[dict[str, object], ...] = ({}, {"last": 20_000}, {"within": "5 min"})
PHIS = (0.5, 0.9, 0.95, 0.99)  # typical; each query has one near these
PRECISIONS = (0.005, 0.01, 0.02, 0.05)
ALARMS = {
    "ECHO spreads are wide": {
        "stream": "spread",
        "phi": 0.99,
        "key": "ECHO",
        "within": "30 s",
        "above": 30.0,
        "clear": 20.0,
        "hold": "2 s",
    },
    "HALO ticks are late": {  # never fires
        "stream": "latency",
        "phi": 0.9,
        "key": "HALO",
        "within": "1 min",
        "above": 5_000.0,
        "clear": 4_000.0,
        "hold": "5 s",
    },
}


# Folder and port


def incoming_folder(folder: Path) -> Path:
    return folder / "incoming"


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock the folder: a second demo in it would overwrite the port of the first."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fix = "name a folder that can be written to"
        raise InvalidArgumentError(f"the folder {folder} cannot be created ({error.strerror}); {fix}") from error
    with (folder / "demo.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InvalidArgumentError(f"another demo runs in {folder}; end it first, or name another folder") from None
        yield


def prepare_folder(folder: Path, port: int) -> Config:
    """Create the folder, or continue with its content; write its configuration and return it."""
    incoming_folder(folder).mkdir(parents=True, exist_ok=True)
    path = folder / "demo.toml"
    streams = "".join(STREAM_TABLE.format(**stream) for stream in STREAMS)
    path.write_text(CONFIG.format(port=port) + streams, encoding="utf-8")
    return read_config(path)


def choose_port(requested: int | None) -> int:
    """Return the requested port; without a request the default port, or a free one if that is taken.

    Never 0: a restarted server must have the same port.
    """
    try:
        return find_free_port(PORT if requested is None else requested)
    except OSError as error:
        if requested is not None:
            fix = "give another one, or none for any free port"
            raise InvalidArgumentError(f"port {requested} cannot be used ({error.strerror}); {fix}") from error
        return find_free_port(0)


def find_free_port(port: int) -> int:
    """Return this port, or any free one for 0; raise OSError if it is taken."""
    with socket.create_server(("127.0.0.1", port)) as listener:
        return int(listener.getsockname()[1])


# Continuous queries and alarms, so that no part of the page is empty


def register_queries(client: Client) -> None:
    """Register the queries and alarms that do not exist yet: a reused folder has them."""
    if next(iter(client.queries(label=LABEL)), None) is None:
        client.register_many(generate_queries(np.random.default_rng(1)))
    existing = {alarm["name"] for alarm in client.alarms()}
    for name, parameters in ALARMS.items():
        if name not in existing:
            client.alarm(name=name, **parameters)  # type: ignore[arg-type]


def generate_queries(random: np.random.Generator) -> list[dict[str, object]]:
    """Return queries as independent clients would choose them: a symbol, a window, a quantile, a precision."""
    phis = random.choice(PHIS, QUERIES) + random.uniform(-0.004, 0.004, QUERIES).round(4)
    choices = zip(
        random.choice(SYMBOLS, QUERIES, p=SHARE).tolist(),
        (WINDOWS[number] for number in random.integers(0, len(WINDOWS), QUERIES)),
        phis.tolist(),
        random.choice(PRECISIONS, QUERIES).tolist(),
        strict=True,
    )
    return [
        {"stream": "spread", "label": LABEL, "key": symbol, **window, "phi": phi, "eps": eps}
        for symbol, window, phi, eps in choices
    ]
