"""Update speed, observed error and size of every sketch, beside sorting the same data."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import data, peers
from benchmarks.data import Values
from benchmarks.peers import Method
from benchmarks.report import Report, Row, say
from benchmarks.timing import Timed, clock, interleave
from quantide import StreamSketch


@dataclass(frozen=True)
class Settings:
    """How much is measured. `rounds` for ours, np.sort and KLL; `other_rounds` for the rest."""

    n: int = 10_000_000
    rounds: int = 4
    other_rounds: int = 2
    singles: int = 1_000_000
    phis: int = 1_000
    epsilons: tuple[float, ...] = (0.01, 0.001, 0.0001)
    dtypes: tuple[str, ...] = data.DTYPES
    orders: tuple[str, ...] = data.ORDERS


HOUR = Settings(rounds=3, other_rounds=1)
QUICK = Settings(
    n=5_000,
    rounds=1,
    other_rounds=1,
    singles=2_000,
    phis=20,
    epsilons=(0.01, 0.001),
    orders=("random", "clustered"),
)


def run(settings: Settings, command: str, folder: Path | None) -> Report:
    for package in peers.missing():
        say(f"stream: {package} is not installed, skipped")
    return Report.in_parts("stream", settings, {"rows": _grid, "one_by_one": one_by_one}, command, folder)


def _grid(settings: Settings) -> list[Row]:
    """A group is one type and order; all its methods, for all eps, share its rounds."""
    rows: list[Row] = []
    for dtype in settings.dtypes:
        for order in (*settings.orders, "constant"):
            rows += _group(dtype, order, settings)
    return rows


def _group(dtype: str, order: str, settings: Settings) -> list[Row]:
    say(f"stream: {settings.n:,} {order} {dtype} values")
    values = data.make(order, dtype, settings.n)
    chosen = _methods(dtype, order, settings)
    inputs = [method.prepare(values[: method.limit]) for method in chosen]
    warm = values[: min(20_000, settings.n)]
    for method in chosen:
        method.feed(method.prepare(warm[: method.limit]))
    timed = interleave(
        [
            (_job(method, given), settings.rounds if method.core else settings.other_rounds)
            for method, given in zip(chosen, inputs, strict=True)
        ]
    )
    exact = Exact(values, settings.phis)
    return [
        {"type": dtype, "order": order, **_row(exact, method, one)} for method, one in zip(chosen, timed, strict=True)
    ]


def _methods(dtype: str, order: str, settings: Settings) -> list[Method]:
    """Everything; on constant input only the ones the promise is about."""
    if order != "constant":
        return peers.methods(settings.epsilons, dtype)
    return [peers.sort_blocks(), *(peers.stream(eps) for eps in settings.epsilons)]


def _job(method: Method, given: Any) -> Callable[[], Any]:
    return lambda: method.feed(given)


class Exact:
    """The data itself, sorted once for each part of it that a method was given."""

    def __init__(self, values: Values, phis: int) -> None:
        self.values = values
        self.phis = np.arange(1, phis + 1) / phis
        self._ordered: dict[tuple[int, bool], Values] = {}

    def error(self, n: int, rounded: bool, answers: Values) -> float:
        if (n, rounded) not in self._ordered:
            given = self.values[:n].astype(np.float32) if rounded else self.values[:n]
            self._ordered[n, rounded] = np.sort(given)
        return data.rank_error(self._ordered[n, rounded], self.phis, answers)


def _row(exact: Exact, method: Method, timed: Timed) -> Row:
    n = min(len(exact.values), method.limit or len(exact.values))
    error = ask_seconds = None
    if method.ask is not None:
        ask = method.ask
        ask_seconds, answers = clock(lambda: ask(timed.result, exact.phis))
        error = exact.error(n, method.rounded, answers)
    return {
        "eps": method.eps,
        "method": method.name,
        "setting": method.setting,
        "note": method.note,
        "n": n,
        "values_per_s": round(n / timed.best),
        "values_per_s_median": round(n / timed.median),
        "rounds": len(timed.seconds),
        "ask_all_s": ask_seconds and round(ask_seconds, 6),
        "observed_error": error,
        "guarantee": method.kind,
        "guaranteed_error": method.bound,
        "certified_error": method.certified(timed.result) if method.certified else None,
        "bytes": method.size(timed.result) if method.size else None,
        "summary_bytes": method.summary_size(timed.result) if method.summary_size else None,
    }


def one_by_one(settings: Settings) -> list[Row]:
    """`update(x)` in a plain Python loop."""
    say(f"stream: {settings.singles:,} values one at a time")
    values = data.make("random", "float64", settings.singles).tolist()
    makers = _single_makers()
    for make in makers.values():
        _loop(make, values[:1000])
    timed = interleave([(_single_job(make, values), settings.other_rounds) for make in makers.values()])
    return [
        {
            "method": name,
            "values_per_s": round(len(values) / one.best),
            "values_per_s_median": round(len(values) / one.median),
        }
        for name, one in zip(makers, timed, strict=True)
    ]


def _single_makers() -> dict[str, Callable[[], Callable[[float], Any]]]:
    makers: dict[str, Callable[[], Callable[[float], Any]]] = {"StreamSketch": lambda: StreamSketch(0.001).update}
    if ds := peers.load("datasketches"):
        makers["KLL k=2600"] = lambda: ds.kll_doubles_sketch(2600).update
        makers["REQ"] = lambda: ds.req_floats_sketch(218).update
        makers["t-digest"] = lambda: ds.tdigest_double(200).update
    if dd := peers.load("ddsketch"):
        makers["DDSketch"] = lambda: dd.DDSketch(relative_accuracy=0.001).add
    if river := peers.load("river.stats"):
        makers["river"] = lambda: river.Quantile(0.5).update
    return makers


def _single_job(make: Callable[[], Callable[[float], Any]], values: list[float]) -> Callable[[], None]:
    return lambda: _loop(make, values)


def _loop(make: Callable[[], Callable[[float], Any]], values: list[float]) -> None:
    update = make()
    for value in values:
        update(value)
