"""The last values of a stream: what is measured about windows, at one size, and beside it engines that hold a table."""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import clickhouse, data, peers, windows_peers, windows_settings
from benchmarks.engines import DuckTable
from benchmarks.peers_settings import Settings
from benchmarks.report import Row, say
from benchmarks.timing import clock
from benchmarks.windows_columns import BLOCK
from benchmarks.windows_peers import PHI

ASKED = 16  # how often an engine is asked


def windows(settings: Settings) -> list[Row]:
    chosen = windows_settings.Settings(
        block=min(65_536, settings.window),
        peer_sizes=(settings.window,),
        peer_eps=settings.window_eps,
        peer_rounds=1,
        seconds=settings.window_seconds,
        slow_seconds=settings.window_seconds,
        column=settings.window,
    )
    return [*windows_peers.peers(chosen), *_engines(settings.window, chosen.block)]


def _engines(size: int, block: int) -> list[Row]:
    """A quantile of the last rows of a table, after every block; the table holds all of it from the beginning."""
    say(f"peers: the last {size:,} rows of a table")
    values = np.random.default_rng(9).normal(size=size + ASKED * block)
    table = peers.load_required("pyarrow").table({"i": np.arange(len(values)), "v": values})
    found = []
    if peers.load("duckdb"):
        found.append(_engine("DuckDB", _duckdb(table), values, size, block))
    if peers.load("chdb"):
        found.append(_engine("ClickHouse", _clickhouse(table), values, size, block))
    return found


def _engine(name: str, ask: Callable[[int, int], float], values: Any, size: int, block: int) -> Row:
    ends = [size + block * number for number in range(1, ASKED + 1)]
    ask(0, size)
    seconds, answers = clock(lambda: [ask(end - size, end) for end in ends])
    errors = [
        data.rank_error(np.sort(values[end - size : end]), np.array([PHI]), np.array([answer]))
        for end, answer in zip(ends, answers, strict=True)
    ]
    return {
        "size": size,
        "asked": BLOCK,
        "method": name,
        "values_per_s": round(ASKED * block / seconds),
        "values": ASKED * block,
        "error": max(errors),
        "bytes": values.itemsize * size,
    }


def _duckdb(table: Any) -> Callable[[int, int], float]:
    duck = DuckTable(table)
    return lambda start, end: float(
        duck.one(f"SELECT quantile_disc(v, {PHI}) FROM data WHERE i >= {start} AND i < {end}")
    )


def _clickhouse(table: Any) -> Callable[[int, int], float]:
    rows = clickhouse.Table(table)

    def ask(start: int, end: int) -> float:
        query = f"SELECT quantileExact({PHI})(v) FROM {rows.name} WHERE i >= {start} AND i < {end}"
        return float(clickhouse.rows(query).column(0)[0].as_py())

    return ask
