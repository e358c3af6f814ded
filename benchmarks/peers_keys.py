"""Three quantiles of every key of a table, beside group-by in the engines people use."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks import clickhouse, keys, peers
from benchmarks.data import Values
from benchmarks.peers_settings import Settings
from benchmarks.report import Row, say
from benchmarks.timing import interleave

OURS = "Summaries: of + quantiles"
CLICKHOUSE = ("quantilesTDigest", "quantilesGK", "quantilesExact")


def groups(settings: Settings) -> list[Row]:
    """On one thread."""
    threads = pa.cpu_count()
    pa.set_cpu_count(1)
    try:
        return _groups(settings)
    finally:
        pa.set_cpu_count(threads)


def _groups(settings: Settings) -> list[Row]:
    say(f"peers: {settings.rows:,} rows by {settings.keys:,} keys")
    case = keys.Case.make("int64", settings.rows, settings.keys)
    jobs = {OURS: keys.ours(case, settings.eps)[OURS], **keys.others(case), **_clickhouse(case, settings.eps)}
    for job in jobs.values():
        job()
    timed = interleave([(job, settings.rounds) for job in jobs.values()])
    return [
        {
            "method": name,
            "seconds": round(one.best, 4),
            "rows_per_s": round(settings.rows / one.best),
            "observed_error": keys.observed_error(case, settings.keys, answers(one.result)),
        }
        for name, one in zip(jobs, timed, strict=True)
    ]


def _clickhouse(case: keys.Case, eps: float) -> dict[str, Callable[[], Any]]:
    if not peers.load("chdb"):
        return {}
    table = clickhouse.Table(case.table())
    chosen = [function for function in clickhouse.functions(eps) if function.name in CLICKHOUSE]
    return {function.title: _grouped(function, table) for function in chosen}


def _grouped(function: clickhouse.Function, table: clickhouse.Table) -> Callable[[], Any]:
    return lambda: clickhouse.rows(f"SELECT k, {function.call(keys.PHIS)} AS q FROM {table.name} GROUP BY k")


def answers(found: Any) -> Values:
    """One row a key, in the order of keys; one column a phi."""
    if isinstance(found, np.ndarray):  # ours
        return found
    if isinstance(found, pa.Table):  # DuckDB, ClickHouse: a list for each key
        lists = found.sort_by("k").column(1).combine_chunks()
        return np.asarray(lists.flatten(), dtype=np.float64).reshape(-1, len(keys.PHIS))
    if hasattr(found, "sort_index"):  # pandas: indexed by key and phi
        return np.asarray(found.sort_index(), dtype=np.float64).reshape(-1, len(keys.PHIS))
    return np.asarray(found.sort("k").drop("k").to_numpy(), dtype=np.float64)
