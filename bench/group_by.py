"""Summaries of many keys at once, beside group-by in the engines people use."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.collection import Subject
from bench.competitors import ClickHouse, ClickHouseTable, clickhouse_functions, clickhouse_rows
from bench.environment import load
from bench.report import Part, Row, say, sized
from bench.timing import interleave
from quantide import Summaries

PHIS = (0.5, 0.9, 0.99)
OURS = ("Summaries.of", "Summaries: of + quantiles", "Summaries.merge", "Summaries.answer")
ANSWERED = OURS[1]
Job = Callable[[], Any]


@dataclass(frozen=True)
class Settings:
    rows: int = sized(10_000_000, 5_000_000, 20_000)
    keys: tuple[int, ...] = sized((1_000, 1_000_000), quick=(10, 2_000))
    kinds: tuple[str, ...] = ("int64", "string")
    eps: float = 0.001
    rounds: int = sized(2, quick=1)


@dataclass(frozen=True)
class Case:
    """Values, each with the number of its key (all keys occur) and the key."""

    numbers: NDArray[np.int64]
    keys: Any
    values: NDArray[np.float64]

    @classmethod
    def make(cls, kind: str, rows: int, keys: int) -> "Case":
        rng = np.random.default_rng(7)
        numbers, values = rng.permutation(rows) % keys, rng.standard_normal(rows)
        if kind == "int64":
            return cls(numbers, numbers, values)
        names = pa.array([f"key-{number:07d}" for number in range(keys)])
        return cls(numbers, names.take(pa.array(numbers)), values)

    def table(self) -> Any:
        return pa.table({"k": self.keys, "v": self.values})

    def error(self, keys: int, answers: NDArray[Any]) -> float:
        """Return the largest rank error of all keys and phis; an answer that is no element lies between neighbours."""
        n, worst = np.bincount(self.numbers, minlength=keys), 0.0
        for phi, column in zip(PHIS, np.asarray(answers).T, strict=True):
            own = column[self.numbers]
            below = np.bincount(self.numbers, weights=self.values < own, minlength=keys)
            upto = np.bincount(self.numbers, weights=self.values <= own, minlength=keys)
            target = np.maximum(1.0, np.ceil(phi * n - 1e-9))
            low, high = np.minimum(below + 1, upto), np.maximum(below + 1, upto)
            worst = max(worst, float((np.maximum(np.maximum(low - target, target - high), 0.0) / n).max()))
        return worst


@contextmanager
def one_thread(_settings: Any = None) -> Iterator[Mapping[str, Part]]:
    """Let Arrow use one thread."""
    threads = pa.cpu_count()
    pa.set_cpu_count(1)
    try:
        yield {"rows": cases}
    finally:
        pa.set_cpu_count(threads)


def cases(settings: Settings) -> list[Row]:
    rows: list[Row] = []
    for kind in settings.kinds:
        small = Case.make(kind, 5_000, 50)
        for job in (*ours(small, settings.eps).values(), *others(small).values()):  # compile and load
            job()
        for keys in settings.keys:
            say(f"keys: {settings.rows:,} rows over {keys:,} {kind} keys")
            case = Case.make(kind, settings.rows, keys)
            timed = interleave(ours(case, settings.eps) | others(case), settings.rounds)
            error, base = case.error(keys, timed[ANSWERED].result), timed[ANSWERED].best
            for name, one in timed.items():
                row = {"kind": kind, "keys": keys, "method": name, "seconds": round(one.best, 4)}
                row["ratio"] = None if name in OURS else round(one.best / base, 2)
                row["rows_per_s"] = None if name == OURS[3] else round(settings.rows / one.best)
                rows.append(row | {"observed_error": error if name == ANSWERED else None})
    return rows


def ours(case: Case, eps: float) -> dict[str, Job]:
    half, keys, values = len(case.values) // 2, case.keys, case.values
    left, right = Summaries.of(keys[:half], values[:half], eps), Summaries.of(keys[half:], values[half:], eps)
    whole = Summaries.merge(left, right)
    return {
        OURS[0]: lambda: Summaries.of(keys, values, eps),
        OURS[1]: lambda: Summaries.of(keys, values, eps).quantiles(list(PHIS)),
        OURS[2]: lambda: Summaries.merge(left, right),
        OURS[3]: lambda: whole.answer(list(PHIS)),
    }


def others(case: Case) -> dict[str, Job]:
    jobs: dict[str, Job] = {}
    table = case.table()
    if pl := load("polars"):
        frame = pl.from_arrow(table)
        wanted = [pl.col("v").quantile(phi, "higher").alias(f"q{phi}") for phi in PHIS]
        jobs["Polars exact"] = lambda: frame.group_by("k").agg(wanted)
    if duckdb := load("duckdb"):
        jobs["DuckDB approx"] = _duckdb(duckdb, table, "approx_quantile")
        jobs["DuckDB exact"] = _duckdb(duckdb, table, "quantile_disc")
    if pd := load("pandas"):
        pandas = pd.DataFrame({"k": table["k"].to_pandas(), "v": case.values})
        jobs["pandas exact"] = lambda: pandas.groupby("k")["v"].quantile(list(PHIS))
    return jobs


def _duckdb(module: Any, table: Any, function: str) -> Job:
    connection = module.connect()
    connection.execute("SET threads = 1")
    connection.register("data", table)
    query = f"SELECT k, {function}(v, {list(PHIS)}) FROM data GROUP BY k"
    return lambda: connection.sql(query).to_arrow_table()


def clickhouse(case: Case, eps: float) -> dict[str, Job]:
    if not load("chdb"):
        return {}
    table = ClickHouseTable(case.table())
    chosen = ("quantilesTDigest", "quantilesGK", "quantilesExact")

    def job(function: ClickHouse) -> Job:
        return lambda: clickhouse_rows(f"SELECT k, {function.call(PHIS)} AS q FROM {table.name} GROUP BY k")

    return {one.title: job(one) for one in clickhouse_functions(eps) if one.name in chosen}


def peers(settings: Any) -> list[Row]:
    """Measure three quantiles of every key for the page about peers."""
    say(f"peers: {settings.rows:,} rows by {settings.keys:,} keys")
    with one_thread():
        case = Case.make("int64", settings.rows, settings.keys)
        jobs = {ANSWERED: ours(case, settings.eps)[ANSWERED], **others(case), **clickhouse(case, settings.eps)}
        for job in jobs.values():
            job()
        rows = []
        for name, one in interleave(jobs, settings.rounds).items():
            row = {"method": name, "seconds": round(one.best, 4), "rows_per_s": round(settings.rows / one.best)}
            rows.append(row | {"observed_error": case.error(settings.keys, answers(one.result))})
        return rows


def answers(found: Any) -> NDArray[Any]:
    """Return one row for each key, in the order of keys, and one column for each phi."""
    if isinstance(found, np.ndarray):  # ours
        return found
    if isinstance(found, pa.Table):  # DuckDB, ClickHouse: a list for each key
        lists = found.sort_by("k").column(1).combine_chunks()
        return np.asarray(lists.flatten(), dtype=np.float64).reshape(-1, len(PHIS))
    if hasattr(found, "sort_index"):  # pandas: indexed by key and phi
        return np.asarray(found.sort_index(), dtype=np.float64).reshape(-1, len(PHIS))
    return np.asarray(found.sort("k").drop("k").to_numpy(), dtype=np.float64)


SUBJECT = Subject("summaries of many keys at once", Settings, one_thread, packages=("polars", "duckdb", "pandas"))
