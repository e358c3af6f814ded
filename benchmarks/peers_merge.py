"""Many sketches of a part each, merged into one and asked: how long it takes, and the error after."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks import clickhouse, data, peers
from benchmarks.data import Values
from benchmarks.engines import DuckTable
from benchmarks.peers import Method, Phis
from benchmarks.peers_column import THREE
from benchmarks.peers_settings import Settings
from benchmarks.report import Row, say
from benchmarks.timing import Timed, interleave
from quantide import StreamSketch


@dataclass(frozen=True)
class Merge:
    """`run(phis)` merges all sketches and answers; `size`: bytes of one of them as it is stored, where it is known."""

    method: Method
    run: Callable[[Phis], Values]
    size: int | None = None


def merge(settings: Settings) -> list[Row]:
    say(f"peers: {settings.parts:,} sketches of {settings.part:,} values")
    values = np.random.default_rng(6).random(settings.parts * settings.part)
    parts = values.reshape(settings.parts, settings.part)
    phis = np.arange(1, settings.phis + 1) / settings.phis
    chosen = [*_ours(parts, settings.eps), *_sketches(parts, settings.eps), *_engines(parts, settings.eps, phis)]
    for one in chosen:
        one.run(THREE)
    timed = interleave([(_job(one), settings.rounds) for one in chosen])
    return [_row(values, one, found, phis) for one, found in zip(chosen, timed, strict=True)]


def _job(one: Merge) -> Callable[[], Values]:
    return lambda: one.run(THREE)


def _row(values: Values, one: Merge, timed: Timed, phis: Phis) -> Row:
    ordered = np.sort(values.astype(np.float32) if one.method.rounded else values)
    return {
        "method": one.method.name,
        "setting": one.method.setting,
        "seconds": round(timed.best, 6),
        "observed_error": data.rank_error(ordered, phis, one.run(phis).astype(ordered.dtype)),
        "guarantee": one.method.kind,
        "guaranteed_error": one.method.bound,
        "bytes": one.size,
    }


def _ours(parts: Values, eps: float) -> list[Merge]:
    made = []
    for part in parts:
        made.append(StreamSketch(eps))
        made[-1].update(part)

    def run(phis: Phis) -> Values:
        whole = StreamSketch(eps)
        for one in made:
            whole.merge(one)
        return np.asarray(whole.quantiles(phis))

    return [Merge(peers.stream(eps), run, len(made[0].summary().to_bytes()))]


def _sketches(parts: Values, eps: float) -> list[Merge]:
    found = []
    if peers.load("datasketches"):
        makers = (peers.kll, peers.req, peers.tdigest)
        found += [_into_one(make(eps, "float64")[0], parts) for make in makers]
    if fastdigest := peers.load("fastdigest"):
        [method] = peers.fastdigest(eps, "float64")
        made = [method.feed(part) for part in parts]
        found.append(Merge(method, _asked(method, lambda: fastdigest.merge_all(made)), _size(method, made)))
    return found


def _into_one(method: Method, parts: Values) -> Merge:
    """All into an empty one of the same kind."""
    made = [method.feed(method.prepare(part)) for part in parts]

    def merged() -> Any:
        whole = method.feed(method.prepare(parts[0][:0]))
        for one in made:
            whole.merge(one)
        return whole

    return Merge(method, _asked(method, merged), _size(method, made))


def _asked(method: Method, merged: Callable[[], Any]) -> Callable[[Phis], Values]:
    ask = method.ask
    assert ask is not None, method.name
    return lambda phis: ask(merged(), phis)


def _size(method: Method, made: Sequence[Any]) -> int:
    assert method.size is not None, method.name
    return method.size(made[0])


def _engines(parts: Values, eps: float, phis: Phis) -> list[Merge]:
    """States of a group each, kept in a table; the phis belong to a state, so there are two of each."""
    keys = np.repeat(np.arange(len(parts)), parts.shape[1])
    table = peers.load_required("pyarrow").table({"k": keys, "v": parts.ravel()})
    found = []
    if peers.load("duckdb"):
        found.append(_duckdb(table, phis))
    if peers.load("chdb"):
        rows = clickhouse.Table(table)
        found += [_clickhouse(function, rows, eps, phis) for function in clickhouse.functions(eps)[:-1]]
    return found


def _duckdb(table: Any, phis: Phis) -> Merge:
    duck = DuckTable(table)
    for name, asked in (("few", THREE), ("many", phis)):
        state = f"approx_quantile(v, {asked.tolist()}) EXPORT_STATE AS s"
        duck.connection.execute(f"CREATE TABLE {name} AS SELECT k, {state} FROM data GROUP BY k")

    def run(asked: Phis) -> Values:
        return np.array(duck.one(f"SELECT finalize(combine_aggr(s)) FROM {'few' if asked is THREE else 'many'}"))

    return Merge(Method("DuckDB approx", feed=lambda given: given, setting="approx_quantile"), run)


def _clickhouse(function: clickhouse.Function, rows: clickhouse.Table, eps: float, phis: Phis) -> Merge:
    def states(asked: Phis) -> clickhouse.Table:
        state = function.call(asked.tolist(), suffix="State")
        return clickhouse.Table(f"SELECT k, {state} AS s FROM {rows.name} GROUP BY k")

    few, many = states(THREE), states(phis)

    def run(asked: Phis) -> Values:
        table = few if asked is THREE else many
        call = function.call(asked.tolist(), "s", "Merge")
        return np.array(clickhouse.rows(f"SELECT {call} FROM {table.name}").column(0)[0].as_py(), dtype=np.float64)

    [size] = clickhouse.rows(f"SELECT max(length(CAST(s AS String))) FROM {few.name}").column(0).to_pylist()
    return Merge(clickhouse.method(function, eps), run, int(size))
