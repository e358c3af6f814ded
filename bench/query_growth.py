"""Continuous queries: the experiment of the paper, with elements that arrive one by one.

Lin, Xu, Zhang, Lu, Yu, Zhou, Yuan: Approximate processing of massive continuous quantile queries over high-speed data
streams, TKDE 2006, section 5: eager first-hit, SU, CSU and CASU.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from bench import plots
from bench.collection import Subject
from bench.inputs import Floats
from bench.plots import Curve, points
from bench.report import Report, Row, say, settings_at, sized
from bench.tables import DASH, duration, markdown, seconds
from bench.timing import clock
from quantide.kernels.jit import compiled
from quantide.queries.cluster_evaluators import DeadlineEvaluator
from quantide.queries.evaluator import TOGETHER, TRIGGERS
from quantide.queries.marked_sketch import MarkedSketch
from quantide.queries.query_clusters import FEWEST, ONLINE, RESERVED_FIELDS, WORST_CASE, QueryClusters
from quantide.queries.query_registry import compute_intervals, reserve

Ints = NDArray[np.int64]
CLUSTERINGS = {"QC-A": WORST_CASE, "QC-B": FEWEST, "online": ONLINE}
METHODS: dict[str, tuple[str | None, str]] = {"SU": (None, TOGETHER)}
METHODS |= {f"CSU {name}": (clustering, TOGETHER) for name, clustering in CLUSTERINGS.items()}
METHODS |= {f"CASU {name}": (clustering, TRIGGERS) for name, clustering in CLUSTERINGS.items()}
DRAWN = ("eager", "SU", "CSU QC-A", "CASU QC-A", "CASU QC-B", "CASU online")


@dataclass(frozen=True)
class Settings:
    """Elements arrive one by one after `head` at once; with more than `apart` queries SU, too slow, is left out."""

    queries: tuple[int, ...] = sized(
        (1_000, 5_000, 10_000, 50_000, 100_000, 1_000_000), (1_000, 10_000, 50_000, 100_000, 1_000_000), (50, 200)
    )
    apart: int = 100_000
    streams: tuple[str, ...] = sized(("uniform", "normal", "semi-sorted"), ("uniform",))
    elements: int = sized(1_000_000, quick=6_000)
    head: int = sized(2_000, quick=500)
    eps: float = sized(0.001, quick=0.005)
    precision: tuple[float, float] = sized((0.002, 0.05), quick=(0.01, 0.05))
    eager_moments: int = sized(10, quick=2)
    growth_queries: int = sized(10_000, quick=200)
    growth: tuple[int, ...] = sized((3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000), quick=(1_000, 3_000, 6_000))

    def asked(self, count: int) -> tuple[Floats, Floats]:
        """Return phis uniform in (0, 1], and precisions uniform in their range."""
        rng = np.random.default_rng(2006)
        return 1 - rng.random(count), rng.uniform(*self.precision, count)

    def stream(self, name: str) -> Floats:
        """Semi-sorted: groups of 1,000 elements, each group above all before it, in random order."""
        rng = np.random.default_rng(18)
        values = rng.standard_normal(self.elements) if name == "normal" else rng.random(self.elements)
        return values + np.arange(self.elements) // 1000 if name == "semi-sorted" else values


class Separate(DeadlineEvaluator):
    """Evaluator in which every query is its own cluster."""

    def _cluster(self) -> None:
        alive = self.queries.active()
        spans = compute_intervals(self.queries.phi[alive], self.queries.eps[alive], self.eps)
        k, every, made = len(alive), np.arange(len(alive)), QueryClusters(self.source.kind.carrier)
        reserve(made, RESERVED_FIELDS, k)
        made.used = k
        made.span[:k], made.due[:k], made.members[:k], made.sizes[:k] = spans, -1, 1, 1
        made.root[:k] = made.newest[:k] = made.heap[1 : k + 1] = every
        made.order[1 : k + 1] = np.argsort(spans[:, 0])
        made.order[0] = made.heap[0] = k
        made.heap_index[:k] = every + 1
        self.clusters, self.queries.slot[alive] = made, every
        self.stale, self.changes, self.first_due = False, 0, -1


def evaluator(method: str, stream: MarkedSketch, phis: Floats, epss: Floats) -> DeadlineEvaluator:
    """Return an evaluator of all queries; "online" has registered them one by one."""
    clustering, updates = METHODS[method]
    made: tuple[str, int | None] = (FEWEST, None) if clustering is None else (clustering, len(phis) + 1)
    board = (Separate if clustering is None else DeadlineEvaluator)(stream, made[0], updates, made[1])
    if clustering == ONLINE:
        board.add(phis[:1], epss[:1])
        board.evaluate()
        phis, epss = phis[1:], epss[1:]
    board.add(phis, epss)
    board.evaluate()
    return board


@compiled
def first_hits(low: Floats, high: Floats, rmin: Ints, rmax: Ints, n: int, out: Ints) -> None:
    """Scan the summary from its beginning for every query until a tuple answers it."""
    for q in range(len(low)):
        i = 0
        while i < len(rmin) and not (low[q] * n <= rmin[i] and rmax[i] <= high[q] * n):
            i += 1
        out[q] = i


def measure(s: Settings) -> dict[str, list[Row]]:
    quick = settings_at(Settings, "quick")
    for method in METHODS:  # compile before anything is timed
        _trial(method, quick.stream("uniform"), *quick.asked(20), quick)
    _eager(quick.stream("uniform"), *quick.asked(20), quick)
    rows, eager = list[Row](), list[Row]()
    for name in s.streams:
        values = s.stream(name)
        alone, _ = clock(_one_by_one, _begun(values, s), values[s.head :])
        for count in s.queries:
            say(f"queries: {count:,} over a {name} stream")
            about = {"stream": name, "queries": count}
            eager.append(about | _eager(values, *s.asked(count), s))
            chosen = [method for method in METHODS if METHODS[method][0] or count <= s.apart]
            rows += [
                about | {"method": m, "alone": round(alone, 4)} | _trial(m, values, *s.asked(count), s) for m in chosen
            ]
    return {"rows": rows, "eager": eager, "growth": [row for name in s.streams for row in _growth(name, s)]}


def _begun(values: Floats, s: Settings) -> MarkedSketch:
    stream = MarkedSketch(s.eps)
    stream.update(values[: s.head])
    return stream


def _one_by_one(stream: MarkedSketch, values: Floats, board: DeadlineEvaluator | None = None) -> None:
    update, refresh = stream.update, board.evaluate if board else None
    if refresh is None:
        for x in values.tolist():
            update(x)
        return
    for x in values.tolist():
        update(x)
        refresh()


def _trial(method: str, values: Floats, phis: Floats, epss: Floats, s: Settings) -> Row:
    stream = _begun(values, s)
    registering, board = clock(evaluator, method, stream, phis, epss)
    taken, _ = clock(_one_by_one, stream, values[s.head :], board)
    row = {"clusters": len(board.clusters), "registering": round(registering, 6), "seconds": round(taken, 4)}
    return (
        row | {name: board.counts[name] for name in ("evaluations", "triggers")} | {"summaries": stream.summary_count}
    )


def _eager(values: Floats, phis: Floats, epss: Floats, s: Settings) -> Row:
    """Time first-hit of all queries at a few arrivals, and project their average to all arrivals."""
    stream, out = MarkedSketch(s.eps), np.empty(len(phis), dtype=np.int64)
    spent, end, arrivals = 0.0, 0, s.elements - s.head
    for moment in np.linspace(s.head, s.elements, s.eager_moments).astype(int).tolist():
        stream.update(values[end:moment])
        end, tuples = moment, stream.tuples(rebuild=True)
        spent += clock(partial(first_hits, phis - epss, phis + epss, tuples.rmin, tuples.rmax, end, out))[0]
    arrival = spent / s.eager_moments
    row = {"an_arrival": round(arrival, 9), "seconds": round(arrival * arrivals, 3)}
    return row | {"evaluations": len(phis) * arrivals}


def _growth(name: str, s: Settings) -> Iterator[Row]:
    """Count evaluations as elements arrive, beside the bound; CASU with QC-A."""
    values = s.stream(name)
    stream, end = _begun(values, s), s.head
    board = evaluator("CASU QC-A", stream, *s.asked(s.growth_queries))
    assert board.clusters is not None
    spans = board.clusters.span[board.clusters.ordered]
    for n in s.growth:
        _one_by_one(stream, values[end:n], board)
        end, bound = n, stated_evaluations(spans[:, 1] - spans[:, 0], s.head, n, s.eps)
        counts = {"clusters": len(spans), "evaluations": board.counts["evaluations"], "bound": round(bound)}
        yield {"stream": name, "n": n, **counts}


def stated_evaluations(lengths: Floats, head: int, n: int, eps: float) -> float:
    """Return the most evaluations of clusters of these lengths from `head` elements on: docs/guarantees/queries.md."""
    factor = np.log1p(lengths / (4 * (1 - eps)))
    early = np.maximum(np.ceil(4 * (1 - eps) / np.maximum(lengths, 1e-300)) - head, 0)  # at every arrival until then
    with np.errstate(divide="ignore"):
        logarithmic = np.log(n / np.maximum(head, head + early)) / factor
    return float(np.minimum(1 + early + np.maximum(logarithmic, 0), n - head + 1).sum())


def _rows(report: Report, stream: str, method: str) -> list[Row]:
    rows = report.rows["eager"] if method == "eager" else [r for r in report.rows["rows"] if r["method"] == method]
    return [row for row in rows if row["stream"] == stream]


def figures(report: Report) -> Row:
    streams, first = report.settings["streams"], report.settings["streams"][0]
    shown = [
        Curve(f"{name}: {what}", "queries", unit, method, i, points(_rows(report, name, method), "queries", y))
        for what, unit, y in (("time", "s", "seconds"), ("evaluations", "evaluations", "evaluations"))
        for name in streams
        for i, method in enumerate(DRAWN)
    ]
    casu = [(i, name, _rows(report, first, f"CASU {name}")) for i, name in enumerate(CLUSTERINGS)]
    made = [
        Curve("clusters", "queries", "clusters", name, i, points(rows, "queries", "clusters")) for i, name, rows in casu
    ]
    grown = []
    for i, name in enumerate(streams):
        rows = [row for row in report.rows["growth"] if row["stream"] == name]
        found, bound = points(rows, "n", "evaluations"), points(rows, "n", "bound")
        grown.append(Curve("evaluations", "elements", "evaluations", name, i, found, bound, "bound"))
    return {
        "queries-time.svg": plots.figure(shown, "Time and evaluations by the number of queries, by stream"),
        "queries-clusters.svg": plots.figure(made, "Clusters by the number of queries", 1),
        "queries-growth.svg": plots.figure(grown, "Evaluations as elements arrive, beside the bound", 1),
    }


def context(report: Report) -> Row:
    s, methods = report.settings, ("eager", *METHODS)
    times, evaluations, clusters = [], [], []
    for name in s["streams"]:
        for count in s["queries"]:
            found = [next((row for row in _rows(report, name, m) if row["queries"] == count), None) for m in methods]
            alone = seconds(next(row["alone"] for row in found[1:] if row))
            times.append([name, f"{count:,}", *(duration(row["seconds"]) if row else DASH for row in found), alone])
            evaluations.append([name, f"{count:,}", *(f"{row['evaluations']:,}" if row else DASH for row in found)])
            if name == s["streams"][0]:
                casu = [found[methods.index(f"CASU {one}")] or {} for one in CLUSTERINGS]
                made = [f"{row['clusters']:,}" for row in casu]
                clusters.append([f"{count:,}", *made, *(seconds(row["registering"]) for row in casu)])
    most = [(_rows(report, s["streams"][0], method)[-1])["seconds"] for method in ("CASU QC-A", "eager")]
    heads = ["queries", *CLUSTERINGS, *(f"{name}: made in" for name in CLUSTERINGS)]
    tables = {
        "times": markdown(["time, stream", "queries", *methods, "alone"], times),
        "clusters": markdown(heads, clusters),
    }
    return tables | {"evaluations": markdown(["evaluations, stream", "queries", *methods], evaluations), "most": most}


ABOUT = "continuous queries, the experiment of the paper: eager, SU, CSU, CASU, clusters, evaluations"
SUBJECT = Subject(ABOUT, Settings, {"all": measure}, context, figures)
