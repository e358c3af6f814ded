"""Inputs on which other methods answer worse than is believed or promised, each beside StreamSketch."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench import competitors, environment, inputs, plots
from bench.collection import Subject
from bench.competitors import NORMAL_99, REQ_SIGMA, ClickHouseTable, DuckTable, Method, clickhouse_call
from bench.inputs import Floats, Values
from bench.report import Report, Row, say, sized
from quantide import Summary

OURS, EPS, MERGE_EPS = "StreamSketch", 0.01, 0.001
PHIS = np.arange(1, 1_000) / 1_000
REQ_KS, CHECKS = (254, 256, 300, 1_024), 8  # CHECKS: lengths at which the error is computed
PACKAGES = ("datasketches", "fastdigest", "duckdb", "chdb")
ENGINES = {"DuckDB": "duckdb", "ClickHouse": "chdb"}


@dataclass(frozen=True)
class Settings:
    """`levels` of an attack on t-digest; `partitions` of `part_rows` to merge."""

    levels: int = sized(400, quick=20)
    partitions: tuple[int, ...] = sized((2, 10, 100, 400), (2, 10, 100), (2, 10))
    part_rows: int = sized(2_000, quick=500)


def engine_answer(engine: str, values: Values, call: str) -> Any:
    """Return the answer of an installed database about a column v."""
    return (DuckTable if engine == "DuckDB" else ClickHouseTable)(pa.table({"v": values})).one(call)


# t-digest: streams that nest ever smaller scales inside a gap


@dataclass(frozen=True)
class Attack:
    """Stream after Cormode, Mishra, Ross and Vesely, "Theory meets practice at the median", KDD 2021.

    Each level puts a few values at -x and many at a much smaller +y: one cluster, whose mean is below 0. The next level
    lies between that mean and 0, so the digest counts the whole cluster as smaller, where most of it is larger.
    """

    name: str
    growth: float
    far: float
    first: int = 1_000
    top: int = 900
    bottom: int = -1040

    def levels(self, most: int) -> Iterator[Values]:
        """Yield the stream level by level; every value is finite."""
        edge, n, x = 2.0 ** (self.top + 3), 2 * (self.first // 2), 2.0**self.top
        yield np.repeat([-edge, edge], n // 2)
        for _ in range(most):
            if x <= 2.0**self.bottom:
                return
            added = max(4, int(self.growth * n))
            low, far = max(1, int(0.25 * added)), int(self.far * added)
            yield np.repeat([edge, -x, x / 32], [far, low, added - low])
            n, x = n + added + far, x / 32


ATTACKS = (
    Attack("wide", growth=0.01, far=0.25),
    Attack("slow", growth=0.002, far=1.0),
    Attack("narrow", growth=0.04, far=0.5, first=20_000, top=110, bottom=-140),
)


def methods(attack: Attack) -> dict[str, Method]:
    """Return sketches, and databases, which answer about all pieces as one table."""
    found = {f"{OURS}, eps = {EPS:g}": competitors.stream(EPS)}
    if environment.load("datasketches"):
        found["DataSketches t-digest, k = 200"] = competitors.tdigest()
    for centroids in (100, 1_000) if environment.load("fastdigest") else ():
        found[f"fastdigest, {centroids:,} centroids"] = competitors.fastdigest(centroids)
    calls = {"DuckDB approx_quantile": f"approx_quantile(v, {PHIS.tolist()})"}
    if attack.top < 127:  # ClickHouse stores float32: only streams that fit are fair
        calls["ClickHouse quantileTDigest"] = clickhouse_call("quantilesTDigest", PHIS)
    for name, call in calls.items():
        if environment.load(ENGINES[engine := name.split()[0]]):
            ask = lambda pieces, _, use=(engine, call): engine_answer(use[0], np.concatenate(pieces), use[1])  # noqa: E731
            found[name] = Method(name, ask, make=list, update=list.append)
    return found


def tdigest(s: Settings) -> list[Row]:
    """Measure the error by the length of each stream, and of the same values shuffled (level 0)."""
    rows: list[Row] = []
    for attack in ATTACKS:
        levels = list(attack.levels(s.levels))
        say(f"breaks: t-digest, {attack.name}: {len(levels)} levels, {sum(map(len, levels)):,} values")
        mixed = np.array_split(np.random.default_rng(20210814).permutation(np.concatenate(levels)), 100)
        checks = {round(part * len(levels) / CHECKS) for part in range(1, CHECKS + 1)}
        for name, method in methods(attack).items():
            rows += [{"stream": attack.name, "method": name, **row} for row in errors(method, levels, checks, True)]
            [shuffled] = errors(method, mixed, {100}, False)
            rows.append({"stream": attack.name, "method": name, **shuffled, "level": 0})
    return rows


def errors(method: Method, pieces: Sequence[Values], checks: set[int], query: bool) -> Iterator[Row]:
    """Update piece by piece, a sketch with a query after each if wanted, and yield the error after some of them."""
    sketch = method.feed(pieces[0][:0])
    for level, piece in enumerate(pieces, 1):
        method.update(sketch, piece)
        if query and method.size:
            method.answers(sketch, PHIS[:1])
        if level in checks:
            given = np.sort(np.concatenate(pieces[:level]))
            row = {"level": level, "n": len(given), "stored": method.stored(sketch), "eps": method.eps}
            row["rank_error"] = inputs.rank_error(given, PHIS, method.answers(sketch, PHIS))
            yield row | {"certified": method.certified(sketch)}


# Merges of Greenwald-Khanna summaries


@dataclass(frozen=True)
class Tuples:
    """Tuples of Greenwald and Khanna: the least rank of a value is the sum of g up to it, its largest is delta more."""

    values: Values
    g: NDArray[np.int64]
    delta: NDArray[np.int64]

    @classmethod
    def of(cls, summary: Summary) -> "Tuples":
        return cls(summary.values, np.diff(summary.rmin, prepend=0), summary.rmax - summary.rmin)

    def quantiles(self, phis: Floats) -> Values:
        rmin = np.cumsum(self.g)
        target = inputs.targets(phis, int(rmin[-1]))[:, None]
        return np.asarray(self.values[np.maximum(target - rmin, rmin + self.delta - target).argmin(axis=1)])


def merge_wrongly(one: Tuples, other: Tuples) -> Tuples:
    """Merge as SPARK-29336 reports it: tuples are sorted together, delta does not grow by what lies between."""
    values = np.concatenate([one.values, other.values])
    order = np.argsort(values, kind="stable")
    pairs = ((one.g, other.g), (one.delta, other.delta))
    return Tuples(values[order], *(np.concatenate(pair)[order] for pair in pairs))


def compress(tuples: Tuples, widest: float) -> Tuples:
    """Join a tuple with the next one, from the end, while g + delta stays below `widest`. The first stays."""
    g, delta = tuples.g.tolist(), tuples.delta.tolist()
    kept = [len(g) - 1]
    for at in range(len(g) - 2, 0, -1):
        if g[at] + g[kept[-1]] + delta[kept[-1]] < widest:
            g[kept[-1]] += g[at]
        else:
            kept.append(at)
    chosen = np.unique([0, *kept])
    return Tuples(tuples.values[chosen], np.array(g)[chosen], tuples.delta[chosen])


def partitions(count: int, rows: int) -> list[Values]:
    """Return the numbers 0, 1, 2, ... in random order, in so many partitions."""
    return np.array_split(np.random.default_rng(29336).permutation(np.arange(count * rows, dtype=np.float64)), count)


def merges(s: Settings) -> list[Row]:
    """Merge the same summaries, each within eps, wrongly and with Summary.merge."""
    say("breaks: merges")
    rows: list[Row] = []
    for count in s.partitions:
        summaries = [Summary.of(part).compress(round(0.5 / MERGE_EPS)) for part in partitions(count, s.part_rows)]
        wrong = Tuples.of(summaries[0])
        for number, summary in enumerate(summaries[1:], 2):
            wrong = compress(merge_wrongly(wrong, Tuples.of(summary)), 2 * MERGE_EPS * (number * s.part_rows))
        right, ordered = Summary.merge(*summaries), np.arange(count * s.part_rows)
        about = {"partitions": count, "n": len(ordered), "bound": MERGE_EPS}
        errors = [inputs.rank_error(ordered, PHIS, one.quantiles(PHIS)) for one in (wrong, right)]
        claimed = float((wrong.g + wrong.delta)[1:].max() / 2 / wrong.g.sum())  # half the widest tuple
        rows.append(about | {"method": "faulty merge", "rank_error": errors[0], "claimed": claimed})
        rows.append(about | {"method": "Summary.merge", "rank_error": errors[1], "certified": float(right.error)})
    return rows


# Single answers of databases

GIVEN = {"integers": (0.5, np.arange(1 << 62, (1 << 62) + 1_001))}  # phi and values
GIVEN["infinite"] = (0.9, np.concatenate([np.arange(800.0), np.full(200, np.inf)]))
CALLS: dict[str, list[tuple[str, str, str, float | None]]] = {  # database, call, promise, bound of its rank error
    "integers": [
        ("DuckDB", "approx_quantile(v, 0.5)", "none stated", None),
        ("DuckDB", "quantile_cont(v, 0.5)", "exact, but a DOUBLE", None),
        ("DuckDB", "quantile_disc(v, 0.5)", "exact", 0.0),
        ("ClickHouse", "quantile(0.5)(v)", "exact up to 8,192 values, but a Float64", None),
        ("ClickHouse", "quantileTDigest(0.5)(v)", "none stated", None),
        ("ClickHouse", "quantileGK(100, 0.5)(v)", "accuracy 100", 0.01),
        ("ClickHouse", "quantileExact(0.5)(v)", "exact", 0.0),
    ],
    "infinite": [
        ("DuckDB", "approx_quantile(v, 0.9)", "none stated", None),
        ("DuckDB", "quantile_disc(v, 0.9)", "exact", 0.0),
    ],
}


def exact(ordered: Sequence[Any], phi: float) -> Any:
    return ordered[max(1, math.ceil(phi * len(ordered) - 1e-9)) - 1]


def rank_error(ordered: Sequence[Any], phi: float, answer: Any) -> float:
    """Return inputs.rank_error of one answer with Python numbers: integers are not rounded to floats."""
    below, upto = bisect_left(ordered, answer), bisect_right(ordered, answer)
    low, high = (below + 1, upto) if upto > below else (below, below + 1)
    target = max(1, math.ceil(phi * len(ordered) - 1e-9))
    return max(low - target, target - high, 0) / len(ordered)


def judge(
    case: str, method: str, ordered: Sequence[Any], phi: float, answer: Any, promised: str, bound: float | None = None
) -> Row:
    """Judge an answer; one rank more than `bound` is allowed, as definitions of a quantile differ by that."""
    error, both = rank_error(ordered, phi, answer), (answer, exact(ordered, phi))
    value, true = (one if isinstance(one, int) or math.isfinite(one) else str(one) for one in both)
    held = None if bound is None else error <= bound + 1 / len(ordered) + 1e-12
    row = {"case": case, "method": method, "phi": phi, "value": value, "true": true, "rank_error": error}
    return row | {"promised": promised, "bound": bound, "certified": None, "held": held}


def judge_own(case: str, values: Any, ordered: Sequence[Any], phi: float, eps: float) -> Row:
    """Judge our answer by the error that it certifies, which is below eps."""
    answer = competitors.stream(eps).feed(values).answer(phi)
    row = judge(case, OURS, ordered, phi, np.asarray(answer.value).item(), f"eps = {eps:g}", eps)
    return {**row, "certified": answer.error, "held": row["rank_error"] <= answer.error + 1e-12}


def answers(s: Settings) -> list[Row]:
    """Query databases about 64-bit integers and infinities."""
    rows = []
    for case, (phi, values) in GIVEN.items():
        ordered = np.sort(values).tolist()
        for engine, call, promised, bound in CALLS[case]:
            if environment.load(ENGINES[engine]):
                answer = engine_answer(engine, values, call)
                rows.append(judge(case, f"{engine} {call}", ordered, phi, answer, promised, bound))
        rows.append(judge_own(case, values, ordered, phi, EPS))
    return rows


def req(s: Settings) -> list[Row]:
    """Make sketches with a large k."""
    values, rows = np.random.default_rng(99).permutation(100_000).astype(np.float32), list[Row]()
    for k in REQ_KS if environment.load("datasketches") else ():
        sketch = environment.load_required("datasketches").req_floats_sketch(k)
        sketch.update(values)
        error = inputs.rank_error(np.sort(values), PHIS, np.array(sketch.get_quantiles(PHIS.tolist(), True)))
        about = {"asked": k, "got": int(sketch.k), "n": len(values), "bound": NORMAL_99 * REQ_SIGMA / k}
        rows.append(about | {"rank_error": error})
    return rows


def figures(report: Report) -> Row:
    """Draw the error by length, each stream in a panel; lengths are rounded to two digits, to be legible."""
    rows, curves = [row for row in report.rows.get("tdigest", []) if row["level"]], []
    names = list(dict.fromkeys(row["method"] for row in rows))
    for stream, name in ((attack.name, name) for attack in ATTACKS for name in names):
        found = [row for row in rows if (row["stream"], row["method"]) == (stream, name)]
        points = [(float(f"{row['n']:.2g}"), row["rank_error"]) for row in found]
        about = (f'stream "{stream}"', "values", "rank error", name, names.index(name))
        curves += [plots.Curve(*about, points, linear=True)] * bool(points)
    title = "Rank error of t-digests and of StreamSketch, by the length of the stream"
    return {"breaks.svg": plots.figure(curves, title)} if curves else {}


def context(report: Report) -> Row:
    rows, merge = report.rows.get("tdigest", []), report.rows.get("merge", [])
    mixed = {(row["stream"], row["method"]): row["rank_error"] for row in rows if not row["level"]}
    last = {(row["stream"], row["method"]): row for row in rows if row["level"]}
    digests = [row | {"mixed": mixed[key], "eps": row.get("eps")} for key, row in last.items()]
    worst = max(merge, key=lambda row: row["rank_error"] / row["bound"], default=None)
    ordered = sorted(digests, key=lambda row: row["rank_error"])
    theirs, own = ([row for row in ordered if bool(row["eps"]) == mine] for mine in (False, True))
    return {"digests": digests, "theirs": theirs, "own": own, "worst_merge": worst}


PARTS = {"tdigest": tdigest, "merge": merges, "answers": answers, "req": req}
SUBJECT = Subject("accuracy where others break: t-digests, merges, types", Settings, PARTS, context, figures, PACKAGES)
