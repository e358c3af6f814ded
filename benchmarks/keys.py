"""Summaries of many keys at once, beside group-by in the engines people use."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks import peers
from benchmarks.report import Report, Row, say
from benchmarks.timing import interleave
from quantide import Summaries

PHIS = (0.5, 0.9, 0.99)


@dataclass(frozen=True)
class Settings:
    rows: int = 10_000_000
    keys: tuple[int, ...] = (1_000, 1_000_000)
    kinds: tuple[str, ...] = ("int64", "string")
    eps: float = 0.001
    rounds: int = 2


HOUR = Settings(rows=5_000_000)
QUICK = Settings(rows=20_000, keys=(10, 2_000), rounds=1)


@dataclass(frozen=True)
class Case:
    """`rows` values, each with the number of its key (all keys occur) and the key itself."""

    numbers: NDArray[np.int64]
    keys: Any
    values: NDArray[np.float64]

    @classmethod
    def make(cls, kind: str, rows: int, keys: int) -> "Case":
        rng = np.random.default_rng(7)
        numbers = rng.permutation(rows) % keys
        values = rng.standard_normal(rows)
        if kind == "int64":
            return cls(numbers, numbers, values)
        names = pa.array([f"key-{number:07d}" for number in range(keys)])
        return cls(numbers, names.take(pa.array(numbers)), values)

    def table(self) -> Any:
        return pa.table({"k": self.keys, "v": self.values})


def run(settings: Settings, command: str, folder: Path | None) -> Report:
    """On one thread."""
    threads = pa.cpu_count()
    pa.set_cpu_count(1)
    try:
        return Report.in_parts("keys", settings, {"rows": _cases}, command, folder)
    finally:
        pa.set_cpu_count(threads)


def _cases(settings: Settings) -> list[Row]:
    """Every kind and number of keys."""
    for package in ("polars", "duckdb", "pandas"):
        if peers.load(package) is None:
            say(f"keys: {package} is not installed, skipped")
    _warm(settings)
    rows: list[Row] = []
    for kind in settings.kinds:
        for keys in settings.keys:
            rows += _case(kind, keys, settings)
    return rows


def _warm(settings: Settings) -> None:
    """Compile and load everything before the clock runs."""
    for kind in settings.kinds:
        case = Case.make(kind, 5_000, 50)
        for job in (*ours(case, settings.eps).values(), *others(case).values()):
            job()


def _case(kind: str, keys: int, settings: Settings) -> list[Row]:
    say(f"keys: {settings.rows:,} rows over {keys:,} {kind} keys")
    case = Case.make(kind, settings.rows, keys)
    jobs = ours(case, settings.eps) | others(case)
    timed = interleave([(job, settings.rounds) for job in jobs.values()])
    best = {name: one.best for name, one in zip(jobs, timed, strict=True)}
    results = {name: one.result for name, one in zip(jobs, timed, strict=True)}
    answered = "Summaries: of + quantiles"
    error = observed_error(case, keys, results[answered])
    return [
        {
            "kind": kind,
            "keys": keys,
            "method": name,
            "ratio": None if name in OURS else round(best[name] / best[answered], 2),
            "seconds": round(seconds, 4),
            "rows_per_s": None if name == OURS[3] else round(settings.rows / seconds),
            "observed_error": error if name == answered else None,
        }
        for name, seconds in best.items()
    ]


OURS = ("Summaries.of", "Summaries: of + quantiles", "Summaries.merge", "Summaries.answer")


def ours(case: Case, eps: float) -> dict[str, Callable[[], Any]]:
    half = len(case.values) // 2
    keys, values = case.keys, case.values
    left = Summaries.of(keys[:half], values[:half], eps)
    right = Summaries.of(keys[half:], values[half:], eps)
    whole = Summaries.merge(left, right)
    return {
        OURS[0]: lambda: Summaries.of(keys, values, eps),
        OURS[1]: lambda: Summaries.of(keys, values, eps).quantiles(list(PHIS)),
        OURS[2]: lambda: Summaries.merge(left, right),
        OURS[3]: lambda: whole.answer(list(PHIS)),
    }


def others(case: Case) -> dict[str, Callable[[], Any]]:
    jobs: dict[str, Callable[[], Any]] = {}
    table = case.table()
    if pl := peers.load("polars"):
        jobs["Polars exact"] = _polars(pl, table)
    if duckdb := peers.load("duckdb"):
        jobs["DuckDB approx"] = _duckdb(duckdb, table, "approx_quantile")
        jobs["DuckDB exact"] = _duckdb(duckdb, table, "quantile_disc")
    if pd := peers.load("pandas"):
        frame = pd.DataFrame({"k": table["k"].to_pandas(), "v": case.values})
        jobs["pandas exact"] = lambda: frame.groupby("k")["v"].quantile(list(PHIS))
    return jobs


def _polars(pl: Any, table: Any) -> Callable[[], Any]:
    frame = pl.from_arrow(table)
    wanted = [pl.col("v").quantile(phi, "higher").alias(f"q{phi}") for phi in PHIS]
    return lambda: frame.group_by("k").agg(wanted)


def _duckdb(module: Any, table: Any, function: str) -> Callable[[], Any]:
    connection = module.connect()
    connection.execute("SET threads = 1")
    connection.register("data", table)
    query = f"SELECT k, {function}(v, {list(PHIS)}) FROM data GROUP BY k"
    return lambda: connection.sql(query).to_arrow_table()


def observed_error(case: Case, keys: int, answers: NDArray[Any]) -> float:
    """The largest rank error over all keys and phis, against the rows themselves; a value that is no element counts as
    lying between its neighbours."""
    n = np.bincount(case.numbers, minlength=keys)
    worst = 0.0
    for phi, column in zip(PHIS, np.asarray(answers).T, strict=True):
        own = column[case.numbers]
        below = np.bincount(case.numbers, weights=case.values < own, minlength=keys)
        upto = np.bincount(case.numbers, weights=case.values <= own, minlength=keys)
        target = np.maximum(1.0, np.ceil(phi * n - 1e-9))
        low, high = np.minimum(below + 1, upto), np.maximum(below + 1, upto)
        misses = np.maximum(np.maximum(low - target, target - high), 0.0)
        worst = max(worst, float((misses / n).max()))
    return worst
