"""Methods that are compared: sketches and query engines, and the one way in which they are measured on a column."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa

from bench import environment, inputs
from bench.environment import load_required
from bench.inputs import Floats, Values
from bench.report import Row
from bench.timing import blocks, clock, interleave
from quantide import StreamSketch

BLOCK = 65_536
NORMAL_99 = 2.576
REQ_SIGMA = 0.084  # one standard error is REQ_SIGMA/k of n, from the sketch's own rank bounds
REQ_MAX_K = 254  # datasketches 5.2 stores k in 8 bits: k=256 silently becomes 4
THREE: Floats = np.array([0.5, 0.99, 0.999])
PACKAGES = ("datasketches", "fastdigest", "duckdb", "polars", "chdb")
_numbers = count()


def _fold(make: Any, parts: Iterable[Any]) -> Any:
    whole = make()
    for one in parts:
        whole.merge(one)
    return whole


@dataclass(frozen=True)
class Method:
    """A method and its promise about rank errors; an engine has no `make` and reads the prepared column when queried.

    `rounded`: it stores float32, and its error is counted on the rounded values."""

    name: str
    query: Callable[[Any, Floats], Any] | None = None
    size: Callable[[Any], int] | None = None
    make: Callable[[], Any] | None = None
    update: Callable[[Any, Values], Any] = lambda sketch, values: sketch.update(values)
    merge: Callable[[Any, Iterable[Any]], Any] = _fold
    prepare: Callable[[Values], Any] = lambda values: values
    kind: str = "none"
    bound: float | None = None
    eps: float | None = None
    setting: str = ""
    note: str = ""
    rounded: bool = False

    def feed(self, given: Any) -> Any:
        if self.make is None:
            return given
        sketch = self.make()
        self.update(sketch, given)
        return sketch

    def run(self, given: Any, few: Floats | None) -> Any:
        """Feed and, if there are quantiles to be timed, answer."""
        fed = self.feed(given)
        if few is not None:
            self.answers(fed, few)
        return fed

    def answers(self, fed: Any, phis: Floats) -> Floats:
        return np.asarray(self.query(fed, phis) if self.query else [], dtype=np.float64)

    def promise(self) -> Row:
        return {"guarantee": self.kind, "guaranteed_error": self.bound}

    def certified(self, fed: Any) -> float | None:
        return float(fed.error) if self.kind == "certified" else None

    def stored(self, fed: Any) -> int | None:
        """Return the serialized bytes, where known; ours stores a summary."""
        return len(fed.summary().to_bytes()) if self.kind == "certified" else self.size(fed) if self.size else None


def measure(methods: Sequence[Method], values: Values, phis: Floats, rounds: int, few: Floats | None) -> list[Row]:
    """Time methods on a column, with `few` quantiles if given, and compare the answers to `phis` with sorted values."""
    jobs = {i: partial(method.run, method.prepare(values), few) for i, method in enumerate(methods)}
    first = {i: methods[i].answers(job(), phis) for i, job in jobs.items()}  # compiles and loads
    exact, rows = {False: np.sort(values), True: np.sort(values.astype(np.float32))}, []
    for i, timed in interleave(jobs, rounds).items():
        method, fed, n = methods[i], timed.result, len(values)
        row: Row = {"eps": method.eps, "method": method.name, "setting": method.setting, "note": method.note, "n": n}
        row |= {"values_per_s": round(n / timed.best), "rounds": rounds}
        row |= {"ask_all_s": None, "observed_error": None, **method.promise()}
        if method.query:
            seconds, answers = clock(method.answers, fed, phis)
            row |= {"ask_all_s": round(seconds, 6), "repeats": bool(np.array_equal(answers, first[i]))}
            row |= errors(exact[method.rounded], phis, answers)
        row |= {"certified_error": method.certified(fed), "bytes": method.size and method.size(fed)}
        rows.append(row | {"summary_bytes": method.stored(fed) if method.kind == "certified" else None})
    return rows


def errors(ordered: Values, phis: Floats, answers: Floats) -> Row:
    """Return the largest rank error, that from p99 on, and the largest distance from an exact value other than 0."""
    found, tail = answers.astype(ordered.dtype), phis >= 0.99
    exact = ordered[inputs.targets(phis, len(ordered)).astype(int) - 1].astype(np.float64)
    off = np.abs(found - exact)[exact != 0] / np.abs(exact[exact != 0])
    row = {"observed_error": inputs.rank_error(ordered, phis, found), "observed_value_error": float(off.max(initial=0))}
    return row | {"observed_tail_error": inputs.rank_error(ordered, phis[tail], found[tail])}


# Sketches


def stream(eps: float) -> Method:
    more: Row = {"make": lambda: StreamSketch(eps), "kind": "certified", "bound": eps, "eps": eps}
    return Method("StreamSketch", lambda one, phis: one.quantiles(phis), lambda one: int(one.nbytes), **more)


def sort_blocks() -> Method:
    def sort(room: Values, values: Values) -> None:
        for part in blocks(len(values), BLOCK):
            block = room[: part.stop - part.start]
            block[:] = values[part]
            block.sort()

    return Method("np.sort 64K", make=lambda: np.empty(BLOCK), update=sort, note="bound, answers nothing")


def _datasketch(name: str, type_name: str, k: int, **more: Any) -> Method:
    make = getattr(load_required("datasketches"), type_name)
    more.setdefault("query", lambda sketch, phis: sketch.get_quantiles(phis.tolist(), True))
    return Method(name, size=lambda one: len(one.serialize()), make=lambda: make(k), setting=f"k={k}", **more)


def kll(eps: float, k: int | None = None) -> Method:
    """Return KLL with the smallest k whose error at 99% is at most eps, or with a given k."""
    error = load_required("datasketches").kll_doubles_sketch.get_normalized_rank_error
    name, k = f"KLL k={k}" if k else "KLL", k or next(k for k in range(8, 65_536) if error(k, False) <= eps)
    return _datasketch(name, "kll_doubles_sketch", k, kind="99%", bound=float(error(k, False)), eps=eps)


def req(eps: float, k: int | None = None) -> Method:
    k = k or min(REQ_MAX_K, 2 * int(np.ceil(NORMAL_99 * REQ_SIGMA / eps / 2)))
    more: Row = {"kind": "99%", "bound": NORMAL_99 * REQ_SIGMA / k, "eps": eps, "rounded": True, "note": "as float32"}
    return _datasketch("REQ", "req_floats_sketch", k, prepare=lambda values: values.astype(np.float32), **more)


def tdigest() -> Method:
    more: Row = {"query": lambda digest, phis: [digest.get_quantile(phi) for phi in phis.tolist()]}
    return _datasketch("t-digest", "tdigest_double", 200, **more)


def fastdigest(centroids: int = 1_000) -> Method:
    module = load_required("fastdigest")

    def update(digest: Any, values: Values) -> None:
        for part in blocks(len(values), BLOCK):  # a stream: it may not see everything at once
            digest.batch_update(values[part])

    more: Row = {"update": update, "merge": lambda _, parts: module.merge_all(list(parts))}
    more |= {"make": lambda: module.TDigest(max_centroids=centroids), "setting": f"{centroids} centroids"}
    more["query"] = lambda digest, phis: digest.quantile_vec(phis.tolist())
    return Method("fastdigest", size=lambda digest: len(digest.to_bytes()), **more)


def sketches(eps: float) -> list[Method]:
    """Return ours, then the installed sketches."""
    found = [stream(eps)]
    if environment.load("datasketches"):
        found += [kll(eps), req(eps), tdigest()]
    return [*found, fastdigest()] if environment.load("fastdigest") else found


# Engines


class DuckTable:
    """Table of DuckDB on one thread, dropped with this object."""

    def __init__(self, table: pa.Table) -> None:
        self.connection = load_required("duckdb").connect()
        self.connection.execute("SET threads = 1")
        self.connection.register("given", table)
        self.connection.execute("CREATE TABLE data AS SELECT * FROM given")
        self.connection.unregister("given")

    def rows(self, select: str, tail: str = "", table: str = "data") -> pa.Table:
        return self.connection.sql(f"SELECT {select} FROM {table} {tail}").to_arrow_table()

    def one(self, select: str, table: str = "data") -> Any:
        """Return the only cell of the answer."""
        return self.rows(select, table=table)[0][0].as_py()


@cache
def clickhouse_connection() -> Any:
    """Return the one connection of this process."""
    return load_required("chdb").connect(":memory:")


class ClickHouseTable:
    """Table in memory with the rows of an Arrow table, or of a query, on one thread; dropped with this object."""

    def __init__(self, given: pa.Table | str) -> None:
        self.name = f"t{next(_numbers)}"
        source = given if isinstance(given, str) else "SELECT * FROM Python(given)"
        clickhouse_connection().query(f"CREATE TABLE {self.name} ENGINE = Memory AS {source}")

    def rows(self, select: str, tail: str = "") -> pa.Table:
        query = f"SELECT {select} FROM {self.name} {tail} SETTINGS max_threads = 1"
        return clickhouse_connection().query(query, "ArrowTable")

    def one(self, select: str) -> Any:
        return self.rows(select)[0][0].as_py()

    def __del__(self) -> None:
        clickhouse_connection().query(f"DROP TABLE {self.name}")


def clickhouse_call(function: str, phis: Iterable[float], column: str = "v", suffix: str = "") -> str:
    """Return the SQL of a call: "quantilesGK 100" has its accuracy before the phis; `suffix` is State or Merge."""
    name, *before = function.split()
    return f"{name}{suffix}({', '.join([*before, *(repr(float(phi)) for phi in phis)])})({column})"


def clickhouse(eps: float) -> list[Method]:
    """Return the functions of ClickHouse; the setting of a method is its function."""

    def method(title: str, function: str, kind: str = "none", bound: float | None = None, **more: Any) -> Method:
        state = f"length(CAST({clickhouse_call(function, [0.5], suffix='State')} AS String))"
        more |= {"query": lambda table, phis: table.one(clickhouse_call(function, phis)), "setting": function}
        more |= {"size": lambda table: int(table.one(state))}
        more["prepare"] = lambda values: ClickHouseTable(pa.table({"v": values}))
        return Method(f"ClickHouse {title}", kind=kind, bound=bound, **more)

    return [
        method("sample", "quantiles", note="a sample of 8,192 values"),
        method("t-digest", "quantilesTDigest", rounded=True, note="as float32"),
        method("GK", f"quantilesGK {round(1 / eps)}", "stated", eps),
        method("DD", f"quantilesDD {eps:g}", "value", eps),
        method("exact", "quantilesExact", "exact", 0.0),
    ]


def duckdb(title: str, function: str, **more: Any) -> Method:
    more |= {"query": lambda table, phis: table.one(f"{function}(v, {phis.tolist()})")}
    more |= {"prepare": lambda values: DuckTable(pa.table({"v": values})), "setting": function}
    return Method(f"DuckDB {title}", **more)


def engines(eps: float) -> list[Method]:
    """Return numpy and the installed engines."""
    exact: Row = {"kind": "exact", "bound": 0.0}
    sort: Row = {"query": lambda values, phis: np.quantile(values, phis, method="inverted_cdf")}
    found = [Method("numpy quantile", size=lambda values: int(values.nbytes), **sort, **exact)]
    if environment.load("duckdb"):
        found += [duckdb("approx", "approx_quantile"), duckdb("exact", "quantile_disc", **exact)]
    if polars := environment.load("polars"):
        one: Any = partial(polars.Series.quantile, interpolation="equiprobable")  # a few one by one, many by one sort
        query: Row = {
            "query": lambda v, phis: one(v, phis.tolist()) if len(phis) > 3 else [one(v, phi) for phi in phis]
        }
        size: Row = {"size": lambda values: int(values.estimated_size())}
        found.append(Method("Polars exact", prepare=polars.Series, **query, **size, **exact))
    return found + (clickhouse(eps) if environment.load("chdb") else [])
