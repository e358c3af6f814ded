"""Methods that are compared, behind one interface: prepare (not timed), feed (timed), ask, size."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Any

import numpy as np

from bench import environment
from bench.environment import load_required
from bench.inputs import Floats, Values
from bench.qdigest import QDigest
from bench.timing import blocks
from quantide import GKSketch, StreamSketch

BLOCK = 65_536
PURE_PYTHON = 200_000  # values of a peer that takes about a microsecond each
NORMAL_99 = 2.576
REQ_SIGMA = 0.084  # one standard error is REQ_SIGMA/k of n, from the sketch's own rank bounds
REQ_MAX_K = 254  # datasketches 5.2 stores k in 8 bits: k=256 silently becomes 4
THREE: Floats = np.array([0.5, 0.99, 0.999])
_numbers = count()


@dataclass(frozen=True)
class Method:
    """A method and its promise.

    `limit`: the most values that a slow peer gets (the pages mark it); `rounded`: it gets float32, and its error is
    that on the rounded data; `kind`, `bound`: its promise about the rank error; `engine`: it reads a column when asked.
    """

    name: str
    feed: Callable[[Any], Any] = lambda given: given
    ask: Callable[[Any, Floats], Values] | None = None
    size: Callable[[Any], int] | None = None
    prepare: Callable[[Values], Any] = lambda values: values
    kind: str = "none"
    bound: float | None = None
    setting: str = ""
    note: str = ""
    rounded: bool = False
    limit: int | None = None
    core: bool = False
    engine: bool = False
    summary_size: Callable[[Any], int] | None = None
    certified: Callable[[Any], float] | None = None
    eps: float | None = None

    def answers(self, fed: Any, phis: Floats) -> Values:
        assert self.ask is not None, self.name
        return np.asarray(self.ask(fed, phis), dtype=np.float64)

    def promise(self) -> dict[str, Any]:
        return {"guarantee": self.kind, "guaranteed_error": self.bound}

    def sizes(self, fed: Any) -> tuple[float | None, int | None, int | None]:
        """Return the certified error, the bytes held and the bytes of the summary, where known."""
        return tuple(one(fed) if one else None for one in (self.certified, self.size, self.summary_size))  # type: ignore[return-value]


def _updated(sketch: Any, values: Values) -> Any:
    sketch.update(values)
    return sketch


def own_sketch(make: Any, eps: float, **more: Any) -> Method:
    def feed(values: Values) -> Any:
        return _updated(make(eps), values)

    def ask(sketch: Any, phis: Floats) -> Values:
        return np.asarray(sketch.quantiles(phis))

    more |= {"kind": "certified", "bound": eps, "eps": eps, "certified": lambda sketch: float(sketch.error)}
    more["summary_size"] = lambda sketch: len(sketch.summary().to_bytes())
    return Method(make.__name__, feed, ask, lambda sketch: int(sketch.nbytes), **more)


def stream(eps: float) -> Method:
    return own_sketch(StreamSketch, eps, core=True)


def gk(eps: float) -> Method:
    """Greenwald and Khanna, on as many values as take a second or two: an insert costs about as many tuples."""
    return own_sketch(GKSketch, eps, limit=max(100_000, min(1_000_000, int(eps * 5e8))))


def qdigest(eps: float, dtype: str) -> Method:
    def feed(values: Values) -> Any:
        return _updated(QDigest(eps), values)

    more: dict[str, Any] = {"kind": "certified", "bound": eps, "setting": f"k={QDigest(eps).k}", "eps": eps}
    return Method("q-digest", feed, QDigest.quantiles, lambda digest: int(digest.nbytes), **more, **_rounded(dtype))


def _rounded(dtype: str) -> dict[str, Any]:
    note = "" if dtype == "float32" else "as float32"
    return {"rounded": True, "note": note, "prepare": lambda values: values.astype(np.float32)}


def sort_blocks() -> Method:
    def sort(values: Values) -> None:
        room = np.empty(BLOCK, values.dtype)
        for part in blocks(len(values), BLOCK):
            block = room[: part.stop - part.start]
            block[:] = values[part]
            block.sort()

    return Method("np.sort 64K", feed=sort, core=True, note="bound, answers nothing")


def kll_k(eps: float) -> int:
    """Return the smallest k whose rank error at 99% is at most eps."""
    error = load_required("datasketches").kll_doubles_sketch.get_normalized_rank_error
    low, high = 8, 65_535
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if error(middle, False) <= eps else (middle + 1, high)
    return low


def _datasketch(name: str, make: Any, k: int, **more: Any) -> Method:
    return Method(
        name,
        feed=lambda values: _updated(make(k), values),
        ask=more.pop("ask", lambda sketch, phis: np.array(sketch.get_quantiles(phis.tolist(), True))),
        size=lambda sketch: len(sketch.serialize()),
        setting=f"k={k}",
        **more,
    )


def kll(eps: float, dtype: str) -> list[Method]:
    """KLL with k by the rule; at eps = 0.001 also k = 2600, whose error at 99% is 0.0011: the headline's ratio."""
    ds = load_required("datasketches")
    make = ds.kll_doubles_sketch if dtype == "float64" else ds.kll_floats_sketch
    found = {"KLL": kll_k(eps)} | ({"KLL k=2600": 2600} if eps == 0.001 else {})
    promise: dict[str, Any] = {"kind": "99%", "core": True, "eps": eps}
    bounds = {k: float(make.get_normalized_rank_error(k, False)) for k in found.values()}
    return [_datasketch(name, make, k, bound=bounds[k], **promise) for name, k in found.items()]


def req(eps: float, dtype: str) -> list[Method]:
    k = min(REQ_MAX_K, 2 * int(np.ceil(NORMAL_99 * REQ_SIGMA / eps / 2)))
    promise: dict[str, Any] = {"kind": "99%", "bound": NORMAL_99 * REQ_SIGMA / k, "eps": eps, **_rounded(dtype)}
    return [_datasketch("REQ", load_required("datasketches").req_floats_sketch, k, **promise)]


def tdigest(_eps: float, dtype: str, k: int = 200) -> list[Method]:
    ds = load_required("datasketches")
    make = ds.tdigest_double if dtype == "float64" else ds.tdigest_float
    return [
        _datasketch("t-digest", make, k, ask=lambda one, phis: np.array([one.get_quantile(x) for x in phis.tolist()]))
    ]


def fastdigest(_eps: float, _dtype: str) -> list[Method]:
    make = load_required("fastdigest").TDigest

    def feed(values: Values) -> Any:
        digest = make(max_centroids=1000)
        for part in blocks(len(values), BLOCK):  # a stream: it may not see everything at once
            digest.batch_update(values[part])
        return digest

    def ask(digest: Any, phis: Floats) -> Values:
        return np.array(digest.quantile_vec(phis.tolist()))

    return [Method("fastdigest", feed, ask, lambda digest: len(digest.to_bytes()), setting="1000 centroids")]


def ddsketch(eps: float, _dtype: str) -> list[Method]:
    make = load_required("ddsketch").DDSketch

    def feed(values: list[float]) -> Any:
        sketch = make(relative_accuracy=eps)
        for value in values:
            sketch.add(value)
        return sketch

    def ask(sketch: Any, phis: Floats) -> Values:
        return np.array([sketch.get_quantile_value(phi) for phi in phis.tolist()])

    promise: dict[str, Any] = {"kind": "value", "bound": eps, "eps": eps}
    return [Method("DDSketch", feed, ask, prepare=np.ndarray.tolist, note="pure Python", limit=PURE_PYTHON, **promise)]


def river(name: str, phis: Sequence[float], note: str) -> Method:
    """P2 of river, which estimates phis chosen beforehand."""
    quantile = load_required("river.stats").Quantile

    def feed(values: list[float]) -> Any:
        estimators = [quantile(phi) for phi in phis]
        for value in values:
            for estimator in estimators:
                estimator.update(value)
        return estimators

    def ask(estimators: Any, _phis: Floats) -> Values:
        return np.array([one.get() for one in estimators])

    return Method(name, feed, ask if len(phis) > 1 else None, prepare=np.ndarray.tolist, note=note, limit=PURE_PYTHON)


class DuckTable:
    """Table of DuckDB on some threads, dropped with this object."""

    def __init__(self, table: Any, threads: int = 1) -> None:
        self.connection = load_required("duckdb").connect()
        self.connection.execute(f"SET threads = {threads}")
        self.connection.register("given", table)
        self.connection.execute("CREATE TABLE data AS SELECT * FROM given")
        self.connection.unregister("given")

    def one(self, query: str) -> Any:
        """Return the only cell of the answer."""
        return self.connection.execute(query).fetchall()[0][0]


def column_table(values: Values) -> Any:
    return load_required("pyarrow").table({"v": values})


def duckdb(_eps: float, _dtype: str) -> list[Method]:
    def method(function: str, name: str, **promise: Any) -> Method:
        def ask(table: DuckTable, phis: Floats) -> Values:
            return np.array(table.one(f"SELECT {function}(v, {phis.tolist()}) FROM data"))

        prepare: Any = lambda values: DuckTable(column_table(values))  # noqa: E731
        return Method(name, ask=ask, prepare=prepare, setting=function, engine=True, **promise)

    return [
        method("approx_quantile", "DuckDB approx"),
        method("quantile_disc", "DuckDB exact", kind="exact", bound=0.0),
    ]


def polars(_eps: float, _dtype: str) -> list[Method]:
    pl = load_required("polars")
    note = "" if (threads := pl.thread_pool_size()) == 1 else f"{threads} threads"

    def ask(series: Any, phis: Floats) -> Values:
        """Ask a few phis one by one, many by one sort: each is the faster way."""
        if len(phis) > len(THREE):
            return np.array(series.quantile(phis.tolist(), "equiprobable"))
        return np.array([series.quantile(phi, "equiprobable") for phi in phis.tolist()])

    promise: dict[str, Any] = {"kind": "exact", "bound": 0.0, "note": note, "engine": True}
    return [Method("Polars exact", ask=ask, size=lambda one: int(one.estimated_size()), prepare=pl.Series, **promise)]


@dataclass(frozen=True)
class ClickHouse:
    """Quantile function of ClickHouse; `prefix` precedes the phis. `rounded`: it stores and returns float32."""

    title: str
    name: str
    prefix: tuple[float, ...] = ()
    kind: str = "none"
    bound: float | None = None
    rounded: bool = False
    note: str = ""

    def call(self, phis: Sequence[float], column: str = "v", suffix: str = "") -> str:
        """Return the SQL of a call; `suffix` is State or Merge."""
        before = "".join(f"{parameter:g}, " for parameter in self.prefix)
        return f"{self.name}{suffix}({before}{', '.join(repr(float(phi)) for phi in phis)})({column})"

    def ask(self, table: "ClickHouseTable", phis: Floats) -> Values:
        return np.array(clickhouse_cell(f"SELECT {self.call(phis.tolist())} FROM {table.name}"), dtype=np.float64)

    def state_bytes(self, table: "ClickHouseTable") -> int:
        """Return the bytes of the state as it is stored and sent."""
        state = self.call([0.5], suffix="State")
        return int(clickhouse_cell(f"SELECT length(CAST({state} AS String)) FROM {table.name}"))

    def method(self, eps: float) -> Method:
        setting = self.name + (f"({self.prefix[0]:g}, ...)" if self.prefix else "")
        promise: dict[str, Any] = {"kind": self.kind, "bound": self.bound, "rounded": self.rounded, "eps": eps}
        more: dict[str, Any] = {"prepare": clickhouse_column, "setting": setting, "note": self.note, "engine": True}
        return Method(self.title, ask=self.ask, size=self.state_bytes, **promise, **more)


def clickhouse_functions(eps: float) -> list[ClickHouse]:
    return [
        ClickHouse("ClickHouse sample", "quantiles", note="a sample of 8,192 values"),
        ClickHouse("ClickHouse t-digest", "quantilesTDigest", rounded=True, note="as float32"),
        ClickHouse("ClickHouse GK", "quantilesGK", (round(1 / eps),), "stated", eps),
        ClickHouse("ClickHouse DD", "quantilesDD", (eps,), "value", eps),
        ClickHouse("ClickHouse exact", "quantilesExact", kind="exact", bound=0.0),
    ]


@cache
def clickhouse_connection() -> Any:
    """Return the one connection of this process."""
    return load_required("chdb").connect(":memory:")


def clickhouse_rows(query: str, threads: int = 1) -> Any:
    """Return an Arrow table."""
    return clickhouse_connection().query(f"{query} SETTINGS max_threads = {threads}", "ArrowTable")


def clickhouse_cell(query: str, threads: int = 1) -> Any:
    return clickhouse_rows(query, threads).column(0)[0].as_py()


class ClickHouseTable:
    """Table in memory with the rows of an Arrow table, or of a query; dropped with this object."""

    def __init__(self, given: Any) -> None:
        self.name = f"t{next(_numbers)}"
        source = given if isinstance(given, str) else "SELECT * FROM Python(given)"
        clickhouse_connection().query(f"CREATE TABLE {self.name} ENGINE = Memory AS {source}")

    def __del__(self) -> None:
        clickhouse_connection().query(f"DROP TABLE {self.name}")


def clickhouse_column(values: Values) -> ClickHouseTable:
    return ClickHouseTable(column_table(values))


def clickhouse(eps: float, _dtype: str) -> list[Method]:
    return [function.method(eps) for function in clickhouse_functions(eps)]


def numpy_quantile() -> Method:
    def ask(values: Values, phis: Floats) -> Values:
        return np.quantile(values, phis, method="inverted_cdf")

    return Method(
        "numpy quantile", ask=ask, size=lambda values: int(values.nbytes), kind="exact", bound=0.0, engine=True
    )


PACKAGES = ("datasketches", "fastdigest", "ddsketch", "river", "duckdb", "polars", "chdb")


def installed(
    package: str, *makers: Callable[[float, str], list[Method]]
) -> list[Callable[[float, str], list[Method]]]:
    """Return the makers if the package is installed."""
    return list(makers) if environment.load(package) is not None else []
