"""Update speed, rank error and size of every sketch, beside sorting the same data."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench import competitors, environment, inputs
from bench.collection import Subject
from bench.competitors import Method, installed
from bench.inputs import Values
from bench.report import Report, Row, say, sized
from bench.tables import markdown, millions, plain, ratio, size
from bench.timing import Timed, clock, interleave
from quantide import StreamSketch

OURS, EPS = "StreamSketch", 0.001
PACKAGES = ("datasketches", "ddsketch", "duckdb", "fastdigest", "polars", "river")
COLUMNS = f"{OURS},np.sort 64K,KLL,KLL k=2600,REQ,t-digest,fastdigest,DDSketch,river,DuckDB approx,Polars exact".split(
    ","
)
COLUMNS += ["GKSketch", "q-digest"]


@dataclass(frozen=True)
class Settings:
    """`rounds` of ours, np.sort and KLL; `other_rounds` of the others."""

    n: int = sized(10_000_000, quick=5_000)
    rounds: int = sized(4, 3, 1)
    other_rounds: int = sized(2, 1, 1)
    singles: int = sized(1_000_000, quick=2_000)
    phis: int = sized(1_000, quick=20)
    epsilons: tuple[float, ...] = sized((0.01, 0.001, 0.0001), quick=(0.01, 0.001))
    dtypes: tuple[str, ...] = inputs.DTYPES
    orders: tuple[str, ...] = sized(inputs.ORDERS, quick=("random", "clustered"))


def methods(epsilons: tuple[float, ...], dtype: str) -> list[Method]:
    """Return all installed methods: those that depend on eps once for each, the others once."""
    each = installed("datasketches", competitors.kll, competitors.req) + installed("ddsketch", competitors.ddsketch)
    once = installed("datasketches", competitors.tdigest) + installed("fastdigest", competitors.fastdigest)
    once += installed("duckdb", competitors.duckdb) + installed("polars", competitors.polars)
    found = [competitors.sort_blocks()]
    for eps in epsilons:
        found += [competitors.stream(eps), competitors.gk(eps), competitors.qdigest(eps, dtype)]
        found += [method for make in each for method in make(eps, dtype)]
    found += [make(epsilons[0], dtype)[0] for make in once]
    if environment.load("river") is not None:
        found.append(competitors.river("river", [0.5], "P2, one phi only, one by one"))
    return found


def grid(settings: Settings) -> list[Row]:
    """Measure every type and order; all methods of a group share its rounds."""
    orders = (*settings.orders, "constant")
    return [row for dtype in settings.dtypes for order in orders for row in _group(dtype, order, settings)]


def _group(dtype: str, order: str, settings: Settings) -> list[Row]:
    say(f"stream: {settings.n:,} {order} {dtype} values")
    values = inputs.make(order, dtype, settings.n)
    constant = [competitors.sort_blocks(), *(competitors.stream(eps) for eps in settings.epsilons)]
    chosen = dict(enumerate(constant if order == "constant" else methods(settings.epsilons, dtype)))
    for method in chosen.values():
        _job(method, values[: min(20_000, method.limit or 20_000)])()
    jobs = {i: _job(method, values[: method.limit]) for i, method in chosen.items()}
    rounds = {i: settings.rounds if method.core else settings.other_rounds for i, method in chosen.items()}
    timed, exact = interleave(jobs, rounds), Exact(values, settings.phis)
    return [{"type": dtype, "order": order, **_row(exact, chosen[i], one)} for i, one in timed.items()]


def _job(method: Method, values: Values) -> Callable[[], Any]:
    """Feed a sketch; an engine is asked for the median of a column in its memory."""
    given = method.prepare(values)
    if not method.engine:
        return lambda: method.feed(given)

    def run() -> Any:
        method.answers(given, np.array([0.5]))
        return given

    return run


class Exact:
    """The data, sorted once for each part of it that a method was given."""

    def __init__(self, values: Values, phis: int) -> None:
        self.values, self.phis = values, np.arange(1, phis + 1) / phis
        self._ordered: dict[tuple[int, bool], Values] = {}

    def error(self, n: int, rounded: bool, answers: Values) -> float:
        if (n, rounded) not in self._ordered:
            given = self.values[:n].astype(np.float32) if rounded else self.values[:n]
            self._ordered[n, rounded] = np.sort(given)
        return inputs.rank_error(self._ordered[n, rounded], self.phis, answers)


def _row(exact: Exact, method: Method, timed: Timed) -> Row:
    n, error, seconds = min(len(exact.values), method.limit or len(exact.values)), None, None
    if method.ask is not None:
        seconds, answers = clock(method.ask, timed.result, exact.phis)
        error = exact.error(n, method.rounded, answers)
    certified, held, summary = method.sizes(timed.result)
    row = {"eps": method.eps, "method": method.name, "setting": method.setting, "note": method.note, "n": n}
    row |= {"values_per_s": round(n / timed.best), "values_per_s_median": round(n / timed.median)}
    row |= {"rounds": len(timed.seconds), "ask_all_s": seconds and round(seconds, 6), "observed_error": error}
    return row | method.promise() | {"certified_error": certified, "bytes": held, "summary_bytes": summary}


def one_by_one(settings: Settings) -> list[Row]:
    """Measure `update(x)` in a plain Python loop."""
    say(f"stream: {settings.singles:,} values one at a time")
    values, makers = inputs.make("random", "float64", settings.singles).tolist(), _single_makers()

    def loop(make: Callable[[], Callable[[float], Any]], values: list[float] = values) -> None:
        update = make()
        for value in values:
            update(value)

    for make in makers.values():
        loop(make, values[:1000])
    jobs = {name: lambda make=make: loop(make) for name, make in makers.items()}
    rates = [(name, len(values), one) for name, one in interleave(jobs, settings.other_rounds).items()]
    keys = ("values_per_s", "values_per_s_median")
    return [
        {"method": name} | dict(zip(keys, (round(n / one.best), round(n / one.median)), strict=True))
        for name, n, one in rates
    ]


def _single_makers() -> dict[str, Callable[[], Callable[[float], Any]]]:
    makers: dict[str, Callable[[], Callable[[float], Any]]] = {OURS: lambda: StreamSketch(EPS).update}
    if ds := environment.load("datasketches"):
        makers["KLL k=2600"] = lambda: ds.kll_doubles_sketch(2600).update
        makers["REQ"] = lambda: ds.req_floats_sketch(218).update
        makers["t-digest"] = lambda: ds.tdigest_double(200).update
    if dd := environment.load("ddsketch"):
        makers["DDSketch"] = lambda: dd.DDSketch(relative_accuracy=EPS).add
    if stats := environment.load("river.stats"):
        makers["river"] = lambda: stats.Quantile(0.5).update
    return makers


def promise(row: Row) -> str:
    """Format the promise of a method about its error."""
    bound = row["guaranteed_error"]
    if row["guarantee"] == "value":
        return f"values within {bound:.2%}"
    return row["guarantee"] if row["guarantee"] in ("none", "exact") else f"{plain(bound)} {row['guarantee']}"


def speed(rows: list[Row], dtype: str, order: str, method: str, eps: float) -> int | None:
    """Return the values a second of a method, None where it was not measured."""
    wanted = (dtype, order, method)
    found = (row for row in rows if (row["type"], row["order"], row["method"]) == wanted and row["eps"] in (None, eps))
    return next((int(row["values_per_s"]) for row in found), None)


def context(report: Report) -> Row:
    rows, s = report.rows["rows"], report.settings
    names = [name for name in COLUMNS[1:] if any(row["method"] == name for row in rows)]
    scaled = {row["method"] for row in rows if row["n"] < s["n"]}
    body = []
    for row in sorted(
        (row for row in rows if row["method"] == OURS), key=lambda row: (row["type"] != "float64", -row["eps"])
    ):
        others = [speed(rows, row["type"], row["order"], name, row["eps"]) for name in names]
        cells = [ratio(row["values_per_s"] / other if other else None) for other in others]
        body.append([row["type"], f"{row['eps']:g}", row["order"], *cells, millions(row["values_per_s"])])
    heads = [f"/ {name}{'*' if name in scaled else ''}" for name in names]
    details = [(dtype, eps, _details(rows, dtype, eps, s["n"])) for dtype in s["dtypes"] for eps in s["epsilons"]]
    own = [speed(rows, "float64", "random", name, EPS) for name in (OURS, "KLL k=2600", "np.sort 64K")]
    return {"ratios": markdown(["type", "eps", "order", *heads, "M values/s"], body), "details": details, "own": own}


def _details(rows: list[Row], dtype: str, eps: float, n: int) -> str:
    """Return a table of every method on random input: speed, error, promise, size."""
    same = [row for row in rows if row["type"] == dtype and row["eps"] in (None, eps)]
    random = sorted((row for row in same if row["order"] == "random"), key=lambda row: COLUMNS.index(row["method"]))
    ours, body = next(row["values_per_s"] for row in random if row["method"] == OURS), []
    for row in random:
        errors = [
            one["observed_error"]
            for one in same
            if one["method"] == row["method"] and one["observed_error"] is not None
        ]
        sample = f"on {row['n']:,} values*" if row["n"] < n else ""
        remarks = [
            row["setting"],
            row["note"],
            row["summary_bytes"] and f"{size(row['summary_bytes'])} as a Summary",
            sample,
        ]
        rates = [ratio(ours / row["values_per_s"]), millions(row["values_per_s"]), millions(row["values_per_s_median"])]
        found = [plain(row["observed_error"]), plain(max(errors, default=None)), promise(row), size(row["bytes"])]
        body.append([row["method"], *rates, *found, ", ".join(filter(None, remarks))])
    errors_head = ["error, random", "error, any order", "promise", "size", ""]
    return markdown(["method", "ours / it", "M values/s", "median", *errors_head], body)


PARTS = {"rows": grid, "one_by_one": one_by_one}
SUBJECT = Subject("update speed of whole-stream sketches beside peers", Settings, PARTS, context, packages=PACKAGES)
