"""Engines that keep a column and read all of it for an answer: DuckDB, Polars, ClickHouse, and numpy beside them.

The column is in the engine's own memory before the clock runs, and each works on one thread.
"""

from typing import Any

import numpy as np

from benchmarks import clickhouse
from benchmarks.data import Values
from benchmarks.peers import Method, Phis, load, load_required

FEW = 3


def engines(eps: float) -> list[Method]:
    """Those that are installed."""
    found = [*_numpy()]
    if load("duckdb"):
        found += _duckdb()
    if load("polars"):
        found += _polars()
    if load("chdb"):
        found += clickhouse.methods(eps)
    return found


def _numpy() -> list[Method]:
    return [
        Method(
            "numpy quantile",
            feed=lambda values: values,
            ask=lambda values, phis: np.quantile(values, phis, method="inverted_cdf"),
            size=lambda values: int(values.nbytes),
            kind="exact",
            bound=0.0,
        )
    ]


class DuckTable:
    """A table of DuckDB's own, on one thread; gone with this object."""

    def __init__(self, table: Any) -> None:
        self.connection = load_required("duckdb").connect()
        self.connection.execute("SET threads = 1")
        self.connection.register("given", table)
        self.connection.execute("CREATE TABLE data AS SELECT * FROM given")
        self.connection.unregister("given")

    def one(self, query: str) -> Any:
        """The only cell of the answer."""
        return self.connection.execute(query).fetchall()[0][0]


def _duckdb() -> list[Method]:
    wanted = (
        ("approx_quantile", "DuckDB approx", "none", None),
        ("quantile_disc", "DuckDB exact", "exact", 0.0),
    )
    return [
        Method(
            name,
            feed=lambda table: table,
            ask=_duckdb_ask(function),
            prepare=lambda values: DuckTable(load_required("pyarrow").table({"v": values})),
            kind=kind,
            bound=bound,
            setting=function,
        )
        for function, name, kind, bound in wanted
    ]


def _duckdb_ask(function: str) -> Any:
    def ask(table: DuckTable, phis: Phis) -> Values:
        return np.array(table.one(f"SELECT {function}(v, {phis.tolist()}) FROM data"))

    return ask


def _polars() -> list[Method]:
    pl = load_required("polars")
    threads = pl.thread_pool_size()
    return [
        Method(
            "Polars exact",
            feed=lambda series: series,
            ask=_polars_ask,
            size=lambda series: int(series.estimated_size()),
            prepare=pl.Series,
            kind="exact",
            bound=0.0,
            note="" if threads == 1 else f"{threads} threads",
        )
    ]


def _polars_ask(series: Any, phis: Phis) -> Values:
    """A few are found faster one by one, many by a sort for all."""
    if len(phis) > FEW:
        return np.array(series.quantile(phis.tolist(), "equiprobable"))
    return np.array([series.quantile(phi, "equiprobable") for phi in phis.tolist()])
