"""Continuous queries: section 5 of the paper by Lin, Xu and others (TKDE 2006), elements arrive one by one."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench import plots
from bench.collection import Subject
from bench.inputs import Floats
from bench.plots import Curve, points
from bench.rendering import group
from bench.report import Report, Row, settings_at, show, sized
from bench.timing import processor_clock as clock
from quantide.kernels.jit import compiled
from quantide.queries.cluster_evaluators import DeadlineEvaluator
from quantide.queries.evaluator import TOGETHER, TRIGGERS
from quantide.queries.marked_sketch import MarkedSketch
from quantide.queries.query_clusters import FEWEST, ONLINE, RESERVED_FIELDS, WORST_CASE, QueryClusters
from quantide.queries.query_registry import reserve

Ints = NDArray[np.int64]
CLUSTERINGS = {"QC-A": WORST_CASE, "QC-B": FEWEST, "online": ONLINE}
UPDATES = {"CSU": TOGETHER, "CASU": TRIGGERS}
OWN_BOUND, THEOREM_6 = 8, 2  # c of a bound: n grows by 1 + length / (c (1 - eps)) between two evaluations
METHODS = {"SU": (WORST_CASE, TOGETHER)}
METHODS |= {f"{way} {name}": (CLUSTERINGS[name], UPDATES[way]) for way in UPDATES for name in CLUSTERINGS}


@dataclass(frozen=True)
class Settings:
    """Uniform elements arrive one by one after `head` at once; SU is measured with up to `separate` queries.

    All times are processor time.
    """

    clock: str = "processor"  # before it was stored, times were those on the clock
    queries: tuple[int, ...] = sized((1_000, 10_000, 50_000, 100_000, 1_000_000), quick=(50, 200))
    separate: int = 10_000
    elements: int = sized(1_000_000, quick=6_000)
    head: int = sized(2_000, quick=500)
    eps: float = sized(0.001, quick=0.005)
    precision: tuple[float, float] = sized((0.002, 0.05), quick=(0.01, 0.05))
    eager_moments: int = sized(10, quick=2)
    growth_queries: int = sized(10_000, quick=200)
    growth: tuple[int, ...] = sized((3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000), quick=(1_000, 3_000, 6_000))

    def random_queries(self, count: int) -> tuple[Floats, Floats]:
        """Return phis uniform in (0, 1], and precisions uniform in their range."""
        rng = np.random.default_rng(2006)
        return 1 - rng.random(count), rng.uniform(*self.precision, count)

    def begun(self) -> tuple[MarkedSketch, Floats]:
        """Return a sketch that has the head, and all values."""
        sketch, values = MarkedSketch(self.eps), np.random.default_rng(18).random(self.elements)
        sketch.update(values[: self.head])
        return sketch, values


class SeparateEvaluator(DeadlineEvaluator):
    """Evaluator in which every query is a cluster of its own."""

    def _cluster(self) -> None:
        active = self.queries.active()
        spans, inside = self._compute_intervals(self.queries.phi[active], self.queries.eps[active])
        assert inside.all()  # a sketch without a tail has a place for every query
        k, clusters = len(active), QueryClusters(self.source.kind.carrier)
        reserve(clusters, RESERVED_FIELDS, k)
        clusters.used = clusters.order[0] = k
        clusters.span[:k], clusters.due[:k], clusters.members[:k], clusters.sizes[:k] = spans, -1, 1, 1
        clusters.root[:k] = clusters.newest[:k] = self.queries.slot[active] = np.arange(k)
        clusters.order[1 : k + 1], clusters.unevaluated[0] = np.argsort(spans[:, 0]), 1
        self.clusters, self._separate, self.stale, self.changes, self.first_due = clusters, None, False, 0, -1


def evaluator(method: str, sketch: MarkedSketch, phis: Floats, epss: Floats) -> DeadlineEvaluator:
    """Return an evaluator of all queries; "online" has registered them one by one."""
    clustering, updates = METHODS[method]
    kind = SeparateEvaluator if method == "SU" else DeadlineEvaluator
    board = kind(sketch, clustering, updates, len(phis) + 1)
    first = 1 if clustering == ONLINE else len(phis)
    for part in (slice(first), slice(first, None)):
        board.add(phis[part], epss[part])
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
    if s != (quick := settings_at(Settings, "quick")):
        measure(quick)  # compile before anything is timed
    sketch, values = s.begun()
    alone, _ = clock(_one_by_one, sketch, values[s.head :], None)
    rows, eager = list[Row](), list[Row]()
    for count in s.queries:
        show(f"queries: {count:,}")
        eager.append({"queries": count} | _eager(*s.random_queries(count), s))
        methods = [method for method in METHODS if method != "SU" or count <= s.separate]
        rows += [{"queries": count, "method": m, "alone": round(alone, 4)} | _trial(m, count, s) for m in methods]
    return {"rows": rows, "eager": eager, "growth": list(_growth(s))}


def _one_by_one(sketch: MarkedSketch, values: Floats, evaluate: Callable[[], object] | None) -> None:
    update = sketch.update
    for x in values.tolist():
        update(x)
        if evaluate is not None:
            evaluate()


def _trial(method: str, count: int, s: Settings) -> Row:
    sketch, values = s.begun()
    registering, board = clock(evaluator, method, sketch, *s.random_queries(count))
    taken, _ = clock(_one_by_one, sketch, values[s.head :], board.evaluate)
    row = {"clusters": len(board.clusters), "registering": round(registering, 6), "seconds": round(taken, 4)}
    return row | {"evaluations": board.counts["evaluations"]}


def _eager(phis: Floats, epss: Floats, s: Settings) -> Row:
    """Time first-hit of all queries at a few arrivals, and project their average to all arrivals."""
    (sketch, values), out = s.begun(), np.empty(len(phis), dtype=np.int64)
    spent, end, arrivals = 0.0, s.head, s.elements - s.head
    for moment in np.linspace(s.head, s.elements, s.eager_moments).astype(int).tolist():
        sketch.update(values[end:moment])
        end, tuples = moment, sketch.tuples(rebuild=True)
        spent += clock(first_hits, phis - epss, phis + epss, tuples.rmin, tuples.rmax, end, out)[0]
    return {"seconds": round(spent / s.eager_moments * arrivals, 3), "evaluations": len(phis) * arrivals}


def _growth(s: Settings) -> Iterator[Row]:
    """Count evaluations as elements arrive, beside the bound; CASU with QC-A."""
    (sketch, values), end = s.begun(), s.head
    board = evaluator("CASU QC-A", sketch, *s.random_queries(s.growth_queries))
    assert board.clusters is not None
    spans = board.clusters.span[board.clusters.ordered]
    for n in s.growth:
        _one_by_one(sketch, values[end:n], board.evaluate)
        end, bound = n, stated_evaluations(spans[:, 1] - spans[:, 0], s.head, n, s.eps)
        theorem = stated_evaluations(spans[:, 1] - spans[:, 0], s.head, n, s.eps, THEOREM_6)
        counts = {"evaluations": board.counts["evaluations"], "bound": round(bound), "paper_bound": round(theorem)}
        yield {"n": n, "clusters": len(spans), **counts}


def stated_evaluations(lengths: Floats, head: int, n: int, eps: float, constant: int = OWN_BOUND) -> float:
    """Return the most evaluations of clusters of these lengths from `head` elements on: docs/guarantees/queries.md."""
    factor = np.log1p(lengths / (constant * (1 - eps)))
    first = np.ceil(constant * (1 - eps) / np.maximum(lengths, 1e-300))  # at every arrival until then
    early = np.maximum(first - head, 0)
    with np.errstate(divide="ignore"):
        logarithmic = np.log(n / np.maximum(head, head + early)) / factor
    return float(np.minimum(1 + early + np.maximum(logarithmic, 0), n - head + 1).sum())


def figures(report: Report) -> Row:
    methods, rows = {"eager": report.rows["eager"], **group(report.rows["rows"], "method")}, report.rows["growth"]
    curves = [
        Curve(title, "queries", title, method, i % 6, points(methods[method], "queries", y))
        for title, y in (("seconds", "seconds"), ("evaluations", "evaluations"))
        for i, method in enumerate(("eager", "CSU QC-A", "CASU QC-A", "CASU QC-B", "CASU online", "SU"))
        if method in methods
    ]
    growing = ("as elements arrive", "elements", "evaluations")
    curves.append(Curve(*growing, "CASU QC-A", 2, points(rows, "n", "evaluations")))
    curves.append(Curve(*growing, "CASU QC-A: bound", 2, points(rows, "n", "bound"), plots.DASHED))
    return {"queries-time.svg": plots.figure(curves, "Time and evaluations by queries, and beside the bound")}


ABOUT = "continuous queries, the experiment of the paper: eager, SU, CSU, CASU, clusters, evaluations"
SUBJECT = Subject(ABOUT, Settings, {"all": measure}, plots=figures)
