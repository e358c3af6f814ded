"""Summaries of many keys at once, beside group-by in the engines people use."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.collection import Subject
from bench.competitors import ClickHouseTable, DuckTable, clickhouse, clickhouse_call
from bench.environment import load
from bench.report import Row, show, sized
from bench.timing import interleave
from quantide import Summaries

PHIS, PACKAGES = (0.5, 0.9, 0.99), ("polars", "duckdb", "pandas", "chdb")
ANSWERED = "Summaries: of + quantiles"
Answers = NDArray[np.float64]  # a row for each key, in the order of keys, and a column for each phi
Job = tuple[Callable[[], Any], Callable[[Any], Any] | None]  # to be timed; reads the answers from its result


@dataclass(frozen=True)
class Settings:
    rows: int = sized(10_000_000, 5_000_000, 20_000)
    keys: tuple[int, ...] = sized((1_000, 1_000_000), quick=(10, 2_000))
    kinds: tuple[str, ...] = ("int64", "string")
    eps: float = 0.001
    rounds: int = sized(2, quick=1)
    warm_up: bool = True  # stored, because results without it remain


def rank_error(numbers: NDArray[np.int64], values: Answers, answers: Answers) -> float:
    """Return the largest rank error of all keys and phis; `numbers` has the key of each value."""
    n, worst = np.bincount(numbers), 0.0
    for phi, column in zip(PHIS, answers.T, strict=True):
        own, target = column[numbers], np.maximum(1.0, np.ceil(phi * n - 1e-9))
        below, upto = (np.bincount(numbers, weights=smaller) for smaller in (values < own, values <= own))
        low, high = np.minimum(below + 1, upto), np.maximum(below + 1, upto)  # no element: between its neighbours
        worst = max(worst, float((np.maximum(np.maximum(low - target, target - high), 0.0) / n).max()))
    return worst


def measure(kind: str, rows: int, keys: int, eps: float, rounds: int, warm_up: bool = True) -> list[Row]:
    """Measure three quantiles of every key by each method, and parts of our work; all keys occur."""
    show(f"keys: {rows:,} rows over {keys:,} {kind} keys")
    rng = np.random.default_rng(7)
    numbers, values = rng.permutation(rows) % keys, rng.standard_normal(rows)
    names = pa.array([f"key-{number:07d}" for number in range(keys)])
    column = numbers if kind == "int64" else names.take(pa.array(numbers))
    threads = pa.cpu_count()
    pa.set_cpu_count(1)
    try:
        jobs, found = ours(column, values, eps) | others(pa.table({"k": column, "v": values}), eps), list[Row]()
        timed = interleave({name: run for name, (run, _) in jobs.items()}, rounds, warm_up)
        for name, one in timed.items():
            row = {"kind": kind, "keys": keys, "method": name, "seconds": round(one.best, 4)}
            row["ratio"] = None if name.startswith("Summaries") else round(one.best / timed[ANSWERED].best, 2)
            row["rows_per_s"] = None if name == "Summaries.answer" else round(rows / one.best)
            read, row["observed_error"] = jobs[name][1], None
            if read:
                answers = np.asarray(read(one.result), dtype=np.float64).reshape(keys, len(PHIS))
                row["observed_error"] = rank_error(numbers, values, answers)
            found.append(row)
    finally:
        pa.set_cpu_count(threads)
    return found


def ours(keys: Any, values: Answers, eps: float) -> dict[str, Job]:
    half = len(values) // 2
    left, right = Summaries.of(keys[:half], values[:half], eps), Summaries.of(keys[half:], values[half:], eps)
    whole = Summaries.merge(left, right)
    return {
        "Summaries.of": (lambda: Summaries.of(keys, values, eps), None),
        ANSWERED: (lambda: Summaries.of(keys, values, eps).quantiles(list(PHIS)), np.asarray),
        "Summaries.merge": (lambda: Summaries.merge(left, right), None),
        "Summaries.answer": (lambda: whole.answer(list(PHIS)), None),
    }


def others(table: Any, eps: float) -> dict[str, Job]:
    jobs: dict[str, Job] = {}
    if polars := load("polars"):
        columns = [polars.col("v").quantile(phi, "higher").alias(f"q{phi}") for phi in PHIS]
        run = partial(polars.from_arrow(table).group_by("k").agg, columns)
        jobs["Polars exact"] = (run, lambda found: found.sort("k").drop("k").to_numpy())
    if load("duckdb"):
        duck = DuckTable(table)
        for name, function in {"approx": "approx_quantile", "exact": "quantile_disc"}.items():
            call = f"k, {function}(v, {list(PHIS)}) AS q"
            jobs[f"DuckDB {name}"] = (partial(duck.rows, call, "GROUP BY k"), _lists)
    if load("pandas"):
        grouped = table.to_pandas().groupby("k")["v"]
        jobs["pandas exact"] = (partial(grouped.quantile, list(PHIS)), lambda found: found.sort_index())
    if load("chdb"):
        rows = ClickHouseTable(table)
        for method in (one for one in clickhouse(eps) if one.name not in ("ClickHouse sample", "ClickHouse DD")):
            call = f"k, {clickhouse_call(method.setting, PHIS)} AS q"
            jobs[method.name] = (partial(rows.rows, call, "GROUP BY k"), _lists)
    return jobs


def _lists(found: Any) -> Any:
    return found.sort_by("k")["q"].combine_chunks().flatten()


def cases(s: Settings) -> list[Row]:
    return [
        row for kind in s.kinds for keys in s.keys for row in measure(kind, s.rows, keys, s.eps, s.rounds, s.warm_up)
    ]


SUBJECT = Subject("summaries of many keys at once", Settings, {"rows": cases}, packages=PACKAGES)
