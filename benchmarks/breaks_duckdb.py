"""DuckDB: approximate quantiles of integers, times, ties and infinities, and of the same table by several threads."""

from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks import data
from benchmarks.breaks_rows import OURS, PHIS, judged, ours
from benchmarks.breaks_settings import Settings
from benchmarks.data import Values
from benchmarks.peers import load, load_required
from benchmarks.report import Row, say
from quantide import StreamSketch

NONE = "none stated"
BASE = 1 << 62
NOW_NS = 1_790_000_000_000_000_000  # some day in 2026, in nanoseconds


def approx_quantiles(values: Values, threads: int = 1) -> Values:
    return _listed("approx_quantile", values, threads)


def _listed(function: str, values: Values, threads: int) -> Values:
    connection = load_required("duckdb").connect()
    connection.execute(f"SET threads = {threads}")
    connection.register("given", pa.table({"v": values}))
    connection.execute("CREATE TABLE data AS SELECT * FROM given")
    return np.array(connection.execute(f"SELECT {function}(v, {PHIS.tolist()}) FROM data").fetchall()[0][0])


def _one(column: Any, expression: str) -> Any:
    connection = load_required("duckdb").connect()
    connection.register("data", pa.table({"v": column}))
    return connection.execute(f"SELECT {expression} FROM data").fetchall()[0][0]


def run(settings: Settings) -> dict[str, list[Row]]:
    if load("duckdb") is None:
        return {}
    say("breaks: DuckDB")
    answers = [*integers(), *_times(), *_ties(), *_infinite()]
    return {"duckdb": answers, "duckdb_threads": list(_threads(settings))}


def integers() -> list[Row]:
    """Neighbours that a float64 cannot tell apart."""
    values = np.arange(BASE, BASE + 1_001, dtype=np.int64)
    ordered = values.tolist()
    asked = {
        "approx_quantile(v, 0.5)": (NONE, None),
        "quantile_cont(v, 0.5)": ("exact, but a DOUBLE", None),
        "quantile_disc(v, 0.5)": ("exact", 0.0),
    }
    rows = [
        judged("integers", f"DuckDB {text}", ordered, 0.5, _one(values, text), said, bound)
        for text, (said, bound) in asked.items()
    ]
    return [*rows, ours("integers", values, ordered, 0.5, 0.01)]


def _times() -> list[Row]:
    """A thousand nanoseconds."""
    values = np.arange(NOW_NS, NOW_NS + 1_001, dtype=np.int64)
    column, ordered = pa.array(values.view("M8[ns]")), values.tolist()
    asked = {"approx_quantile(v, 0.5)": NONE, "quantile_disc(v, 0.5)": "exact"}
    rows = [
        judged("times", f"DuckDB {text}", ordered, 0.5, _one(column, f"epoch_ns({text})"), said, bound)
        for (text, said), bound in zip(asked.items(), (None, 0.0), strict=True)
    ]
    return [*rows, ours("times", values, ordered, 0.5, 0.01)]


def _ties() -> list[Row]:
    """Only two values there are."""
    values = np.repeat(np.array([0, 1_000], dtype=np.int32), [500, 501])
    ordered = values.tolist()
    rows = [
        judged(
            "ties", f"DuckDB approx_quantile(v, {phi})", ordered, phi, _one(values, f"approx_quantile(v, {phi})"), NONE
        )
        for phi in (0.49, 0.5)
    ]
    return [*rows, *(ours("ties", values, ordered, phi, 0.01) for phi in (0.49, 0.5))]


def _infinite() -> list[Row]:
    """A fifth of all values is infinite: requests that never came back."""
    values = np.concatenate([np.arange(800.0), np.full(200, np.inf)])
    ordered = values.tolist()
    asked = {"approx_quantile(v, 0.9)": NONE, "quantile_disc(v, 0.9)": "exact"}
    rows = [
        judged("infinite", f"DuckDB {text}", ordered, 0.9, _one(values, text), said, bound)
        for (text, said), bound in zip(asked.items(), (None, 0.0), strict=True)
    ]
    return [*rows, ours("infinite", values, ordered, 0.9, 0.01)]


def _threads(settings: Settings) -> list[Row]:
    values = np.random.default_rng(1346).lognormal(0, 3, settings.n)
    ordered = np.sort(values)
    rows = [
        repeated(
            f"DuckDB {function}", threads, ordered, [_listed(function, values, threads) for _ in range(settings.runs)]
        )
        for function in ("approx_quantile", "reservoir_quantile")
        for threads in settings.threads
    ]
    return [*rows, *our_runs(values, ordered, settings)]


def repeated(method: str, threads: int, ordered: Values, runs: list[Values], bound: float | None = None) -> Row:
    """The same question asked again: how many different medians, and the worst rank error of any run at any phi."""
    middle = len(PHIS) // 2
    medians = [float(answers[middle]) for answers in runs]
    errors = [data.rank_error(ordered, PHIS, answers) for answers in runs]
    return {
        "method": method,
        "threads": threads,
        "runs": len(runs),
        "medians": len(set(medians)),
        "lowest": min(medians),
        "highest": max(medians),
        "true": float(ordered[(len(ordered) + 1) // 2 - 1]),
        "rank_error": max(errors),
        "bound": bound,
        "certified": None,
    }


def our_runs(values: Values, ordered: Values, settings: Settings) -> list[Row]:
    """Ours, its input cut in another way in each run."""
    runs, certified, eps = [], 0.0, 0.01
    for run in range(settings.runs):
        sketch = StreamSketch(eps)
        for part in np.array_split(values, 1 + 7 * run):
            sketch.update(part)
        runs.append(np.asarray(sketch.quantiles(PHIS)))
        certified = max(certified, float(sketch.error))
    return [{**repeated(OURS, 1, ordered, runs, eps), "certified": certified}]
