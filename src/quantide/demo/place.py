"""Where the demo lies: a folder with its configuration, its stores, and the files that come in."""

import socket
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

[streams.spread]
source  = {{ format = "parquet", path = "incoming" }}
value   = "spread_bps"
time    = "ts"
keys    = ["symbol"]
filters = {{ wide = "spread_bps >= {wide:g}" }}
step    = "1 min"
window  = "2 hours"

[streams.latency]
source  = {{ format = "parquet", path = "incoming" }}
value   = "latency_us"
time    = "ts"
keys    = ["symbol"]
filters = {{ late = "latency_us >= {late:g}" }}
step    = "1 min"
window  = "2 hours"
"""


def incoming(folder: Path) -> Path:
    """Where ticks come in."""
    return folder / "incoming"


def prepare(folder: Path, port: int) -> Config:
    """Make the folder, or go on with what is in it; its configuration."""
    incoming(folder).mkdir(parents=True, exist_ok=True)
    path = folder / "demo.toml"
    path.write_text(CONFIG.format(port=port, wide=WIDE, late=LATE), encoding="utf-8")
    return read_config(path)


def choose_port(asked: int | None) -> int:
    """The port that was asked for; otherwise the usual one, or one that is free."""
    if asked is not None and not 0 <= asked < 2**16:
        raise InvalidArgumentError(f"port is {asked}; give a number up to 65535, or 0 for any that is free")
    for port in (PORT if asked is None else asked, 0):
        try:
            with socket.create_server(("127.0.0.1", port)) as found:
                return int(found.getsockname()[1])
        except OSError:
            if asked is not None:
                return asked  # the server will say what is wrong with it
    raise AssertionError("a system without free ports")
