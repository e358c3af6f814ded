"""Quantiles up to p99.999 of latencies in twelve orders, beside peers of the same size; cost in time and bytes."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bench import competitors, environment, inputs, plots
from bench.collection import Subject
from bench.competitors import Method
from bench.inputs import Floats, Values
from bench.rendering import group
from bench.report import Report, Row, show, sized
from bench.timing import blocks
from quantide import StreamSketch

EPS, TAIL = 0.001, 0.01
MEDIAN, SIGMA = 0.001, 2.5  # of the latencies in seconds: lognormal
PHIS: Floats = np.array([0.9, 0.99, 0.999, 0.9999, 0.99999])
PACKAGES = ("datasketches", "fastdigest")
CLASSIC = np.array([0, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10])  # default of Prometheus clients
GAMMA = 1.01 / 0.99  # of DDSketch, values within 1%


@dataclass(frozen=True)
class Settings:
    n: int = sized(20_000_000, quick=200_000)
    speed: int = sized(10_000_000, quick=20_000)
    rounds: int = sized(9, quick=1)
    stored: int = sized(100_000_000, quick=50_000)


def orders(v: Values, rng: np.random.Generator) -> dict[str, Callable[[], Values]]:
    """Return functions that arrange sorted values; the last one rounds them to two digits, which makes ties."""
    middle, top, runs = len(v) // 2, len(v) // 1_000, v.reshape(1_000, -1).T.ravel()
    return {
        "random": lambda: rng.permutation(v),
        "sorted": lambda: v,
        "reversed": lambda: v[::-1].copy(),
        "ends first": lambda: np.column_stack([v[:middle], v[::-1][:middle]]).ravel(),
        "ends last": lambda: np.column_stack([v[:middle], v[::-1][:middle]]).ravel()[::-1].copy(),
        "sorted blocks": lambda: np.sort(rng.permutation(v).reshape(-1, 1_000)).ravel(),
        "rising runs": lambda: runs,
        "falling runs": lambda: runs[::-1].copy(),
        "nearly sorted": lambda: v[np.argsort(np.arange(len(v)) + rng.normal(0, 10_000, len(v)))],
        "largest first": lambda: np.concatenate([v[-top:], rng.permutation(v[:-top])]),
        "largest last": lambda: np.concatenate([rng.permutation(v[:-top]), v[-top:]]),
        "two digits": lambda: rng.permutation(np.round(v / (unit := 10 ** (np.floor(np.log10(v)) - 1))) * unit),
    }


def histogram(name: str, bounds: Values, between: Callable[[Any, Any, Any], Any], **more: Any) -> Method:
    """Return a histogram, whose answers depend on the counts of its buckets only; it reads sorted values."""

    def answer(ordered: Values, phis: Floats) -> Any:
        counts, rank = np.searchsorted(ordered, bounds, side="right"), phis * len(ordered)
        at = np.clip(np.searchsorted(counts, rank), 1, len(bounds) - 1)
        share = (rank - counts[at - 1]) / np.maximum(1, counts[at] - counts[at - 1])
        return between(bounds[at - 1], bounds[at], np.minimum(share, 1.0))

    return Method(name, answer, lambda v: 8 * int((np.diff(np.searchsorted(v, bounds)) > 0).sum()), **more)


def methods(values: Values) -> list[Method]:
    """Return ours with and without tails, and peers; REQ and t-digest with about the bytes of our summary."""
    ours = replace(competitors.stream(EPS), setting=f"eps={EPS:g}, tail={TAIL:g}")
    plain = replace(ours, name="StreamSketch, tail=None", make=lambda: StreamSketch(EPS, tail=None), setting="")
    found, room = [ours, plain], ours.stored(ours.feed(values)) or 0
    if environment.load("datasketches"):
        pilot = competitors.req(EPS, 50)
        k = 50 * room / (pilot.stored(pilot.feed(pilot.prepare(values))) or 1)
        found.append(competitors.req(EPS, min(competitors.REQ_MAX_K, 2 * round(k / 2))))
    if environment.load("fastdigest"):
        found.append(replace(competitors.fastdigest(room // 16), name="t-digest"))
    eighths, hundredths = 2.0 ** np.arange(-30, 30, 1 / 8), GAMMA ** np.arange(-1_000.0, 1_000)
    dd = histogram("DDSketch", hundredths, lambda low, high, share: 2 * high / (GAMMA + 1), setting="values within 1%")
    linear = histogram("Prometheus, classic", CLASSIC, lambda low, high, share: low + (high - low) * share)
    native = histogram("Prometheus, native", eighths, lambda low, high, share: low * (high / low) ** share)
    return [*found, dd, replace(native, setting="factor 2^(1/8)"), replace(linear, setting="default buckets")]


def accuracy(s: Settings) -> list[Row]:
    """Compare every method with the sorted values in every order; `ranks` is off, `above` the distance from the end."""
    rng, rows = np.random.default_rng(23), list[Row]()
    latencies = np.sort(rng.lognormal(np.log(MEDIAN), SIGMA, s.n))
    compared, above = methods(rng.permutation(latencies)), s.n - inputs.targets(PHIS, s.n)
    for order, arrange in orders(latencies, rng).items():
        show(f"tails: {s.n:,} values, {order}")
        values = arrange()
        exact = {False: np.sort(values), True: np.sort(values.astype(np.float32))}
        for method in compared:
            fed = method.feed(method.prepare(values) if method.make else exact[False])
            about = {"order": order, "method": method.name, "setting": method.setting, "bytes": method.stored(fed)}
            for phi, answer, far in zip(PHIS, method.answers(fed, PHIS).tolist(), above.tolist(), strict=True):
                ordered, one = exact[method.rounded], np.array([phi])
                ranks = round(inputs.rank_error(ordered, one, np.array([answer], ordered.dtype)) * s.n)
                true = float(ordered[int(s.n - far) - 1])
                row = {"phi": float(phi), "above": int(far), "ranks": ranks, "value_error": abs(answer / true - 1)}
                if method is compared[0]:
                    row["promised"] = min(EPS * s.n, TAIL * far) + 0.5
                    row["certified"] = round(fed.answer(phi).error * s.n, 1)
                rows.append(about | row)
    return rows


def cost(s: Settings) -> list[Row]:
    """Measure the processor time of updates (the machine may be busy), memory after them, and stored bytes."""
    rng, tails = np.random.default_rng(24), {"none": None, f"{TAIL:g}": TAIL}
    values, seconds = rng.lognormal(np.log(MEDIAN), SIGMA, s.speed), dict[str, list[float]]()
    for _ in range(s.rounds + 1):  # the first round compiles
        for name, tail in tails.items():
            sketch, begun = StreamSketch(EPS, tail=tail), time.thread_time()
            sketch.update(values)
            seconds.setdefault(name, []).append(time.thread_time() - begun)
    rows = []
    for name, tail in tails.items():
        show(f"tails: stored bytes of {s.stored:,} values, tail {name}")
        sketch, rng = StreamSketch(EPS, tail=tail), np.random.default_rng(25)
        row: Row = {"tail": name, "values_per_s": round(s.speed / min(seconds[name][1:])), "n": s.speed}
        for part in blocks(s.stored, s.speed // 10):
            sketch.update(rng.lognormal(np.log(MEDIAN), SIGMA, part.stop - part.start))
            if sketch.n == s.speed:
                sketch.quantile(0.9999)  # what answers need is memory, too
                row["bytes"] = int(sketch.nbytes)
        rows.append(row | {"stored_n": int(sketch.n), "summary_bytes": len(sketch.summary().to_bytes())})
    return rows


def worst(report: Report) -> list[Row]:
    """Return a row for each method; `at`: its row with the most ranks by phi; `off`: its largest error of a value."""
    found = []
    for rows in group(report.rows.get("accuracy", []), "method").values():
        by = group(rows, "phi").items()
        at = {phi: max(some, key=lambda row: float(row["ranks"])) for phi, some in by}
        found.append(rows[0] | {"at": at, "off": {phi: max(row["value_error"] for row in some) for phi, some in by}})
    return found


def figures(report: Report) -> Row:
    """Draw errors of ranks and of values by phi; an error of 0 is drawn at the foot."""
    by, curves = "p90, p99 ... p99.999: one value in ... is larger", list[plots.Curve]()
    for number, method in enumerate(worst(report)):
        rows = [row | {"x": round(1 / (1 - phi)), "off": method["off"][phi]} for phi, row in method["at"].items()]
        name, colour, dashes = method["method"], min(number, 5), "2 3" if number > 5 else ""
        ranks = [(row["x"], max(row["ranks"] / row["above"], 1e-4)) for row in rows]
        curves.append(plots.Curve("ranks", by, "error / values above", name, colour, ranks, dashes))
        if not number:
            bound = [(row["x"], row["promised"] / row["above"]) for row in rows]
            curves.append(plots.Curve("ranks", by, "", "promise of StreamSketch", number, bound, plots.DASHED))
        values = [(row["x"], max(row["off"], 1e-4)) for row in rows]
        curves.append(plots.Curve("values", by, "error / exact value", name, colour, values, dashes))
    return {"tails.svg": plots.figure(curves, "Errors of ranks, divided by the values above, and of values, by phi")}


def context(report: Report) -> Row:
    found = worst(report)
    ours = [row for row in report.rows.get("accuracy", []) if row["method"] == found[0]["method"]]
    by_order = [some[0] | {"at": {row["phi"]: row for row in some}} for some in group(ours, "order").values()]
    return {"methods": found, "orders": by_order}


PARTS = {"accuracy": accuracy, "cost": cost}
SUBJECT = Subject("p99.9 to p99.999 beside peers, and the cost of tails", Settings, PARTS, context, figures, PACKAGES)
