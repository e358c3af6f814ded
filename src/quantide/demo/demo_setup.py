"""Setup of the demo: its folder and configuration, its port, its past data, its continuous queries and alarms."""

import fcntl
import socket
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import pairwise, repeat
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quantide.client import Client
from quantide.config import Config, StreamConfig, read_config
from quantide.config.server_config import PORT
from quantide.demo.market import DAY, HOUR, LATE, RATE, SCHEMA, SHARE, SYMBOLS, WIDE, Market
from quantide.errors import InvalidArgumentError
from quantide.history.history import History
from quantide.spark.stream.running_stream import open_history

DAYS = 30
DAY_RATE = 60_000 / DAY  # ticks a second before the last hour
PIECES = 12  # of the last hour
LAST_HOUR_BATCH = "last hour"
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
unit    = "{unit}"
time    = "ts"
keys    = ["symbol"]
filters = {{ {filter} = "{value} >= {least:g}" }}
eps     = 0.005   # coarse enough for bands to be seen
step    = "1 min"
window  = "2 hours"
"""
STREAMS = (
    {"name": "spread", "value": "spread_bps", "unit": "bp", "filter": "wide", "least": WIDE},
    {"name": "latency", "value": "latency_us", "unit": "µs", "filter": "late", "least": LATE},
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


def generate_day(market: Market, step: int) -> pa.Table:
    """Return the ticks of a day; step 1 is the oldest, and the last one ends where the last hour starts."""
    until = -HOUR - (DAYS - step) * DAY
    return market.ticks(until - DAY, until, DAY_RATE)


def generate_last_hour(market: Market) -> pa.Table:
    """Return the ticks of the hour before the demo starts, at a growing rate."""
    edges = [-HOUR + HOUR * piece / PIECES for piece in range(PIECES + 1)]
    pieces = [
        market.ticks(since, until, RATE * ((number + 1) / PIECES) ** 4)
        for number, (since, until) in enumerate(pairwise(edges))
    ]
    return pa.concat_tables(pieces)


def backfill(streams: Sequence[StreamConfig], market: Market) -> int:
    """Write the days and the last hour that the stores lack; return the number of values in the stores."""
    with ExitStack() as stack, ThreadPoolExecutor(len(streams)) as threads:
        histories = [stack.enter_context(open_history(stream)) for stream in streams]
        for step in range(min(history.step for history in histories), DAYS + 1):
            ticks = generate_day(market, step)
            list(threads.map(_write_day, streams, histories, repeat(step), repeat(ticks)))
        if not all(history.batch_seen(LAST_HOUR_BATCH) for history in histories):
            ticks = generate_last_hour(market)
            list(threads.map(_append, streams, histories, repeat(LAST_HOUR_BATCH), repeat(ticks)))
        return sum(int(history.n) for history in histories)


def _write_day(stream: StreamConfig, history: History, step: int, ticks: pa.Table) -> None:
    """Write a step, unless it exists because an earlier demo was killed during the backfill."""
    if history.step == step:
        _append(stream, history, f"day {step}", ticks)
        history.end_step(wait=False)


def _append(stream: StreamConfig, history: History, batch: str, ticks: pa.Table) -> None:
    """Append ticks as ingestion would: the same values, keys, times and filters."""
    filters = {
        name: pc.greater_equal(ticks[stream.value], _parse_threshold(condition))
        for name, condition in stream.filters.items()
    }
    history.append(
        ticks[stream.value].combine_chunks(),
        key=ticks[stream.keys[0]],
        batch_id=batch,
        times=ticks[SCHEMA.names[0]],
        filters=filters,
    )


def _parse_threshold(condition: str) -> float:
    """Return the number in a filter such as "spread_bps >= 20"."""
    return float(condition.rpartition(" ")[2])


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
