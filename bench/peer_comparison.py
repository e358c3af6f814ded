"""Today's peers: the same questions to every one of them, on the same values, in one run."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from bench import competitors, environment, inputs
from bench.collection import Subject
from bench.competitors import THREE, ClickHouseTable, DuckTable, Method, clickhouse_call
from bench.inputs import Floats, Values
from bench.rendering import group
from bench.report import Report, Row, show, sized
from bench.sketch_speed import promise
from bench.tables import plain, seconds, size
from bench.timing import interleave

INPUTS: dict[str, Callable[[int], Values]] = {
    "random": lambda n: inputs.make("random", "float64", n),
    "heavy": lambda n: np.sort(np.ceil(np.random.default_rng(5).pareto(0.5, n))),
}
Merge = tuple[Method, Callable[[Floats], Any], int | None]  # merges and answers; the stored bytes of one sketch


@dataclass(frozen=True)
class Settings:
    """A column of `n` values; `parts` sketches of `part` values."""

    n: int = sized(10_000_000, 2_000_000, 20_000)
    eps: float = 0.001
    phis: int = sized(1_000, quick=50)
    rounds: int = sized(3, 2, 2)
    parts: int = sized(1_000, 200, 5)
    part: int = sized(10_000, quick=2_000)

    def all_phis(self) -> Floats:
        return np.arange(1, self.phis + 1) / self.phis


def column(s: Settings) -> list[Row]:
    """Measure three quantiles of a column by every method."""
    rows: list[Row] = []
    for name, make in INPUTS.items():
        show(f"peers: a column of {s.n:,} values, {name}")
        methods = [*competitors.sketches(s.eps), *competitors.engines(s.eps)]
        found = competitors.measure(methods, make(s.n), s.all_phis(), s.rounds, THREE)
        rows += [{"input": name, **row} for row in found]
    return rows


def merge(s: Settings) -> list[Row]:
    """Measure the merge of many sketches and the error after it."""
    show(f"peers: {s.parts:,} sketches of {s.part:,} values")
    parts, phis, rows = np.random.default_rng(6).random((s.parts, s.part)), s.all_phis(), []
    chosen = dict(enumerate([*_sketches(parts, s.eps), *_states(parts, s.eps, phis)]))
    jobs = {i: partial(run, THREE) for i, (_, run, _) in chosen.items()}
    for i, one in interleave(jobs, s.rounds, warm_up=True).items():
        method, run, stored = chosen[i]
        ordered = np.sort(parts.ravel().astype(np.float32 if method.rounded else np.float64))
        error = inputs.rank_error(ordered, phis, np.asarray(run(phis)).astype(ordered.dtype))
        row = {"method": method.name, "setting": method.setting, "seconds": round(one.best, 6), "observed_error": error}
        rows.append(row | method.promise() | {"bytes": stored})
    return rows


def _sketches(parts: Values, eps: float) -> Iterator[Merge]:
    for method in competitors.sketches(eps):
        made = [method.feed(method.prepare(part)) for part in parts]
        merged = lambda phis, one=method, made=made: one.answers(one.merge(one.make, made), phis)  # noqa: E731
        yield method, merged, method.stored(made[0])


def _states(parts: Values, eps: float, phis: Floats) -> Iterator[Merge]:
    """Yield engines that merge stored states of groups; phis belong to a state, so there are two tables of each."""
    table = pa.table({"k": np.repeat(np.arange(len(parts)), parts.shape[1]), "v": parts.ravel()})
    if environment.load("duckdb"):
        duck = DuckTable(table)
        for levels in (THREE, phis):
            state = f"SELECT k, approx_quantile(v, {levels.tolist()}) EXPORT_STATE AS s FROM data GROUP BY k"
            duck.connection.execute(f"CREATE TABLE states_{len(levels)} AS {state}")
        run = lambda levels: duck.one("finalize(combine_aggr(s))", f"states_{len(levels)}")  # noqa: E731
        yield competitors.duckdb("approx", "approx_quantile"), run, None
    if environment.load("chdb"):
        rows = ClickHouseTable(table)
        for method in competitors.clickhouse(eps)[:-1]:
            states = {}
            for levels in (THREE, phis):
                state = clickhouse_call(method.setting, levels, suffix="State")
                states[len(levels)] = ClickHouseTable(f"SELECT k, {state} AS s FROM {rows.name} GROUP BY k")

            def merged(levels: Floats, call: str = method.setting, states: dict[int, Any] = states) -> Any:
                return states[len(levels)].one(clickhouse_call(call, levels, "s", "Merge"))

            yield method, merged, int(states[len(THREE)].one("max(length(CAST(s AS String)))"))


def better_peers(report: Report) -> Iterator[str]:
    """Yield sentences about methods that are better than ours, the first row, in some respect."""
    rows = report.rows
    for name, every in group(rows.get("column", []), "input").items():
        approximate = [row for row in every if row["guarantee"] != "exact"]
        for what, some, key, form in (
            ("values a second", every, "-values_per_s", "{:,}".format),
            ("error from p99 on", approximate, "observed_tail_error", plain),
            ("error of values", approximate, "observed_value_error", "{:.2g}".format),
            ("bytes held", [row for row in every if row["bytes"]], "bytes", size),
        ):
            yield _ahead(some, f"{name.capitalize()}, {what}", key, form)
    if rows.get("merge"):
        yield _ahead(rows["merge"], "Merging, time", "seconds", seconds)


def _ahead(rows: Iterable[Row], what: str, key: str, form: Callable[[Any], str]) -> str:
    """Return the methods before ours, best first; a key that begins with - is better if larger."""
    name, sign = key.lstrip("-"), -1 if key.startswith("-") else 1
    ours, *others = rows
    ahead = sorted((sign * row[name], row["method"], form(row[name])) for row in others)
    names = ", ".join(f"{method} ({shown})" for value, method, shown in ahead if value < sign * ours[name])
    return f"{what}, ours {form(ours[name])}; better: {names or 'none in this run'}."


def context(report: Report) -> Row:
    columns = group(report.rows.get("column", []), "input")
    bounded = [row for row in columns.get("random", []) if row["guarantee"] in ("99%", "stated")]
    ratios = [columns["random"][0]["values_per_s"] / row["values_per_s"] for row in bounded]
    found: Row = {"columns": columns, "ratios": ratios, "bounded": ", ".join(row["method"] for row in bounded)}
    return found | {"better": list(better_peers(report)), "promise": promise}


PARTS = {"column": column, "merge": merge}
SUBJECT = Subject("the same questions to today's peers", Settings, PARTS, context, packages=competitors.PACKAGES)
