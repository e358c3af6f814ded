"""Update speed, rank error and size of every sketch, beside sorting the same data."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from bench import competitors, environment, inputs
from bench.collection import Subject
from bench.rendering import group
from bench.report import Report, Row, show, sized
from bench.tables import plain
from bench.timing import interleave
from quantide import StreamSketch

OURS, EPS = "StreamSketch", 0.001
PACKAGES = ("datasketches", "ddsketch", "fastdigest", "river")


@dataclass(frozen=True)
class Settings:
    n: int = sized(10_000_000, quick=5_000)
    rounds: int = sized(4, 3, 1)
    singles: int = sized(1_000_000, quick=2_000)
    phis: int = sized(1_000, quick=20)
    epsilons: tuple[float, ...] = sized((0.01, 0.001, 0.0001), quick=(0.01, 0.001))
    orders: tuple[str, ...] = sized((*inputs.ORDERS, "constant"), quick=("random", "clustered", "constant"))


def methods(epsilons: tuple[float, ...]) -> list[competitors.Method]:
    """Return sorting and the installed sketches, one for each eps if they depend on it; the headline's k = 2600."""
    found = [competitors.sort_blocks(), *(one for eps in epsilons for one in competitors.sketches(eps))]
    if environment.load("datasketches"):
        found.append(competitors.kll(EPS, 2600))
    return list({(one.name, one.eps): one for one in found}.values())


def grid(s: Settings) -> list[Row]:
    """Measure every order; all methods share its rounds."""
    rows: list[Row] = []
    for order in s.orders:
        show(f"stream: {s.n:,} {order} values")
        values, phis = inputs.make(order, "float64", s.n), np.arange(1, s.phis + 1) / s.phis
        found = competitors.measure(methods(s.epsilons), values, phis, s.rounds, None)
        rows += [{"type": "float64", "order": order, **row} for row in found]
    return rows


def one_by_one(s: Settings) -> list[Row]:
    """Measure `update(x)` in a plain Python loop."""
    show(f"stream: {s.singles:,} values one at a time")
    values = inputs.make("random", "float64", s.singles).tolist()
    ds, dd, stats = map(environment.load, ("datasketches", "ddsketch", "river.stats"))
    makers: dict[str, Callable[[], Callable[[float], Any]]] = {OURS: lambda: StreamSketch(EPS).update}
    if ds:
        makers["KLL k=2600"] = lambda: ds.kll_doubles_sketch(2600).update
        makers["REQ"] = lambda: ds.req_floats_sketch(218).update
        makers["t-digest"] = lambda: ds.tdigest_double(200).update
    if dd:
        makers["DDSketch"] = lambda: dd.DDSketch(relative_accuracy=EPS).add
    if stats:
        makers["river"] = lambda: stats.Quantile(0.5).update

    def loop(make: Callable[[], Callable[[float], Any]]) -> None:
        update = make()
        for value in values:
            update(value)

    loop(makers[OURS])  # compile before the clock runs
    timed = interleave({name: partial(loop, make) for name, make in makers.items()}, s.rounds)
    return [{"method": name, "values_per_s": round(len(values) / one.best)} for name, one in timed.items()]


def promise(row: Row) -> str:
    """Format the promise of a method about its error."""
    bound = row["guaranteed_error"]
    if row["guarantee"] == "value":
        return f"values within {bound:.2%}"
    if row["guarantee"] in ("none", "exact"):
        return str(row["guarantee"])
    return f"{plain(bound)} {row['guarantee'].replace('certified', 'proved')}"


def context(report: Report) -> Row:
    """Return a line for each method and eps: its row on random input, speeds by order, and the largest error."""
    tables: dict[float, list[Row]] = {}
    for eps in report.settings["epsilons"]:
        tables[eps] = []
        for rows in group((row for row in report.rows["rows"] if row["eps"] in (None, eps)), "method").values():
            worst = max(row["observed_error"] or 0.0 for row in rows)
            rates = {row["order"]: row["values_per_s"] for row in rows}
            tables[eps].append({**rows[0], "rates": rates, "worst": worst})
        tables[eps].sort(key=lambda line: line["method"] != OURS)
    return {"tables": tables, "own": {line["method"]: line["values_per_s"] for line in tables[EPS]}, "promise": promise}


PARTS = {"rows": grid, "one_by_one": one_by_one}
SUBJECT = Subject("update speed of whole-stream sketches beside peers", Settings, PARTS, context, packages=PACKAGES)
