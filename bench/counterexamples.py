"""Inputs on which other methods answer worse than is believed or promised, each beside StreamSketch."""

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bench import environment, inputs, plots
from bench.collection import Subject
from bench.competitors import NORMAL_99, REQ_SIGMA, DuckTable
from bench.environment import load_required
from bench.inputs import Floats, Values
from bench.processes import spark_session
from bench.report import Part, Report, Row, say, sized
from bench.timing import scratch
from quantide import StreamSketch, Summary
from quantide.errors import QuantideError

OURS, NONE = "StreamSketch", "none stated"
PHIS, SPARK_PHIS = np.arange(1, 1_000) / 1_000, np.arange(1, 200) / 200
MEDIAN, BASE = len(PHIS) // 2, 1 << 62
NOW_NS = 1_790_000_000_000_000_000  # a day in 2026, in nanoseconds
KLL_K, REQ_KS, CHECKS = 200, (254, 256, 300, 1_024), 8  # CHECKS: lengths at which the error is computed
ORDERS = ("random", "interleaved", "sorted")
PACKAGES = ("datasketches", "fastdigest", "duckdb", "chdb")


@dataclass(frozen=True)
class Settings:
    """`levels` of an attack on t-digest; `runs` of nondeterministic queries; 0 `spark_partitions`: no Spark."""

    n: int = sized(2_000_000, 1_000_000, 10_000)
    levels: int = sized(400, quick=20)
    runs: int = sized(10, 5, 2)
    threads: tuple[int, ...] = sized((1, 2, 4), quick=(1, 2))
    sketches: int = sized(1_000, 300, 10)
    partitions: tuple[int, ...] = sized((2, 10, 100, 400), (2, 10, 100), (2, 10))
    part_rows: int = sized(2_000, quick=500)
    accuracies: tuple[int, ...] = sized((100, 1_000, 10_000), quick=(100,))
    spark_partitions: int = sized(100, 20, 0)
    cores: int = 2


# Judgement of single answers


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
    error, (value, true) = rank_error(ordered, phi, answer), map(_json, (answer, exact(ordered, phi)))
    held = None if bound is None else error <= bound + 1 / len(ordered) + 1e-12
    row = {"case": case, "method": method, "phi": phi, "value": value, "true": true, "rank_error": error}
    return row | {"promised": promised, "bound": bound, "certified": None, "held": held}


def judge_own(case: str, values: Any, ordered: Sequence[Any], phi: float, eps: float) -> Row:
    """Judge our answer by the error that it certifies, which is below eps."""
    answer = sketch_of(values, eps).answer(phi)
    value = answer.value.item() if hasattr(answer.value, "item") else answer.value
    row = judge(case, OURS, ordered, phi, value, f"eps = {eps:g}", eps)
    return {**row, "certified": answer.error, "held": row["rank_error"] <= answer.error + 1e-12}


def sketch_of(values: Any, eps: float, pieces: int = 1) -> StreamSketch:
    sketch = StreamSketch(eps)
    for part in np.array_split(values, pieces):
        sketch.update(part)
    return sketch


def _json(value: Any) -> int | float | str:
    return value if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)) else str(value)


# t-digest: streams that nest ever smaller scales inside a gap


@dataclass(frozen=True)
class Attack:
    """Stream after Cormode, Mishra, Ross and Vesely, "Theory meets practice at the median", KDD 2021.

    A t-digest stores the mean of a cluster and forgets where its values lie. Each level puts a few values at -x and
    many at a much smaller +y: one cluster, whose mean is below 0. The next level lies between that mean and 0, so the
    digest counts the whole cluster as smaller, where most of it is larger; the error of every level stays.
    `first` values; a level adds `growth` of them, `share` of it low, and `far` as many far above, which keeps the gap
    away from the end where clusters are small. Scales go from 2^top to 2^bottom.
    """

    name: str
    growth: float
    far: float
    first: int = 1_000
    share: float = 0.25
    shrink: float = 1 / 32
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
            low, far = max(1, int(self.share * added)), int(self.far * added)
            yield np.repeat([edge, -x, x * self.shrink], [far, low, added - low])
            n, x = n + added + far, x * self.shrink


ATTACKS = (
    Attack("wide", growth=0.01, far=0.25),
    Attack("slow", growth=0.002, far=1.0),
    Attack("narrow", growth=0.04, far=0.5, first=20_000, top=110, bottom=-140),
)


@dataclass
class LevelSketch:
    """A sketch that takes a level at a time; `facts`: its stored and held bytes, its certified error and its eps."""

    name: str
    take: Callable[[Values], Any]
    ask: Callable[[Floats], Values]
    facts: Callable[[], Row]


def sketches() -> list[LevelSketch]:
    found = []
    for eps in (0.1, 0.01):
        own = StreamSketch(eps)
        facts: Any = lambda own=own, eps=eps: _own_facts(own, eps)  # noqa: E731
        ask: Any = lambda phis, own=own: np.asarray(own.quantiles(phis))  # noqa: E731
        found.append(LevelSketch(f"{OURS}, eps = {eps:g}", own.update, ask, facts))
    if ds := environment.load("datasketches"):
        digest = ds.tdigest_double(200)

        def room() -> int:
            sizes = dict(re.findall(r"(Centroids|Buffer) capacity\s*: (\d+)", digest.to_string()))
            return 16 * int(sizes["Centroids"]) + 8 * int(sizes["Buffer"])

        ask = lambda phis: np.array([digest.get_quantile(phi) for phi in phis.tolist()])  # noqa: E731
        facts = lambda: {"stored": len(digest.serialize()), "room": room()}  # noqa: E731
        found.append(LevelSketch("DataSketches t-digest, k = 200", digest.update, ask, facts))
    for centroids in (100, 1_000) if environment.load("fastdigest") else ():
        fast = load_required("fastdigest").TDigest(max_centroids=centroids)
        ask = lambda phis, fast=fast: np.array(fast.quantile_vec(phis.tolist()))  # noqa: E731
        facts = lambda fast=fast: {"stored": len(fast.to_bytes())}  # noqa: E731
        found.append(LevelSketch(f"fastdigest, {centroids:,} centroids", fast.batch_update, ask, facts))
    return found


def _own_facts(own: StreamSketch, eps: float) -> Row:
    stored = {"stored": len(own.summary().to_bytes()), "room": int(own.nbytes)}
    return stored | {"certified": float(own.error), "eps": eps}


def engines(attack: Attack) -> dict[str, Callable[[Values], Values]]:
    """Return databases, which answer about a whole table. ClickHouse stores float32: only streams that fit are fair."""
    found: dict[str, Callable[[Values], Values]] = {}
    if environment.load("duckdb"):
        found["DuckDB approx_quantile"] = lambda values: duckdb_quantiles("approx_quantile", values)
    if environment.load("chdb") and attack.top < 127:
        found["ClickHouse quantileTDigest"] = lambda values: clickhouse_quantiles("quantileTDigest", values)
    return found


def tdigest(s: Settings) -> list[Row]:
    """Measure the error by the length of each stream, and of the same values shuffled (level 0)."""
    rows: list[Row] = []
    for attack in ATTACKS:
        levels = list(attack.levels(s.levels))
        say(f"breaks: t-digest, {attack.name}: {len(levels)} levels, {sum(map(len, levels)):,} values")
        values, ends = np.concatenate(levels), np.cumsum([len(level) for level in levels])
        checks = sorted({round(part * len(levels) / CHECKS) for part in range(1, CHECKS + 1)})
        mixed = np.random.default_rng(20210814).permutation(values)

        def row(method: str, level: int, given: Values, answers: Values, attack: Attack = attack, **facts: Any) -> Row:
            error = inputs.rank_error(np.sort(given), PHIS, np.asarray(answers, dtype=np.float64))
            about = {"stream": attack.name, "method": method, "level": level, "n": len(given)}
            return about | {"rank_error": error} | facts

        for one in sketches():
            for at, level in enumerate(levels, 1):
                one.take(level)
                one.ask(PHIS[:1])
                if at in checks:
                    rows.append(row(one.name, at, values[: ends[at - 1]], one.ask(PHIS), **one.facts()))
        for name, ask in engines(attack).items():
            rows += [row(name, at, values[: ends[at - 1]], ask(values[: ends[at - 1]])) for at in checks]
            rows.append(row(name, 0, values, ask(mixed)))
        for one in sketches():
            for part in np.array_split(mixed, 100):
                one.take(part)
            rows.append(row(one.name, 0, values, one.ask(PHIS), **one.facts()))
    return rows


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

    @property
    def claimed(self) -> float:
        """The error that the tuples imply: half the widest g + delta."""
        return float((self.g + self.delta)[1:].max() / 2 / self.g.sum())


def merge_wrongly(one: Tuples, other: Tuples) -> Tuples:
    """Merge as SPARK-29336 reports it, written by us: tuples are sorted together and left as they are.

    But a tuple of one lies between two tuples of the other, and an unknown number of hidden values there is smaller:
    delta has to grow by that. Later compression trusts the wrong delta, and the error of every merge stays.
    """
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


def partitions(order: str, count: int, rows: int) -> list[Values]:
    """Return the numbers 0, 1, 2, ... in so many partitions."""
    values = np.arange(count * rows, dtype=np.float64)
    if order == "random":
        values = np.random.default_rng(29336).permutation(values)
    return [values[i::count] for i in range(count)] if order == "interleaved" else np.array_split(values, count)


def merges(s: Settings) -> list[Row]:
    """Merge the same summaries, each within eps, wrongly and with Summary.merge."""
    say("breaks: merges")
    rows: list[Row] = []
    for eps, count, order in ((e, c, o) for e in (0.01, 0.001) for c in s.partitions for o in ORDERS):
        parts = partitions(order, count, s.part_rows)
        summaries = [Summary.of(part).compress(round(0.5 / eps)) for part in parts]
        ordered = np.sort(np.concatenate(parts))
        wrong, n = Tuples.of(summaries[0]), summaries[0].n
        for summary in summaries[1:]:
            n += summary.n
            wrong = compress(merge_wrongly(wrong, Tuples.of(summary)), 2 * eps * n)
        right = Summary.merge(*summaries)
        about = {"order": order, "eps": eps, "partitions": count, "n": n, "bound": eps}
        errors = [inputs.rank_error(ordered, PHIS, one.quantiles(PHIS)) for one in (wrong, right)]
        rows.append(about | {"method": "faulty merge", "rank_error": errors[0], "claimed": wrong.claimed})
        rows.append(about | {"method": "Summary.merge", "rank_error": errors[1], "certified": float(right.error)})
    return rows


def spark(s: Settings) -> dict[str, list[Row]]:
    """Measure percentile_approx over many partitions beside a merged sketch of each."""
    if not s.spark_partitions:
        return {}
    rows: list[Row] = []
    with scratch() as folder, spark_session(s.cores) as session:
        session.conf.set("spark.sql.files.openCostInBytes", str(128 << 20))  # so that each file is a partition
        for order in ORDERS:
            parts, path = partitions(order, s.spark_partitions, s.part_rows), folder / order
            path.mkdir()
            for number, part in enumerate(parts):
                pq.write_table(pa.table({"v": part}), path / f"{number:05}.parquet")
            frame, ordered = session.read.parquet(str(path)), np.sort(np.concatenate(parts))
            for accuracy in s.accuracies:
                text = f"percentile_approx(v, array({', '.join(map(str, SPARK_PHIS))}), {accuracy})"
                whole, bound = StreamSketch(1 / accuracy), 1 / accuracy
                for part in parts:
                    whole.merge(sketch_of(part, bound))
                theirs, mine = np.array(frame.selectExpr(text).collect()[0][0]), np.asarray(whole.quantiles(SPARK_PHIS))
                about: Row = {"order": order, "accuracy": accuracy, "bound": bound}
                about["partitions"] = frame.rdd.getNumPartitions()
                for method, answers, proved in (("percentile_approx", theirs, None), (OURS, mine, float(whole.error))):
                    error = inputs.rank_error(ordered, SPARK_PHIS, answers)
                    row = {"method": method, "rank_error": error, "certified": proved, "held": error <= bound + 1e-12}
                    rows.append(about | row)
    return {"spark": rows}


# Databases


def duckdb_quantiles(function: str, values: Values, threads: int = 1) -> Values:
    return np.array(DuckTable(pa.table({"v": values}), threads).one(f"SELECT {function}(v, {PHIS.tolist()}) FROM data"))


def clickhouse_quantiles(function: str, values: Values, threads: int = 1) -> Values:
    return np.array(_clickhouse(values, _call(function.replace("quantile", "quantiles"), *PHIS.tolist()), threads))


def _call(function: str, *phis: float) -> str:
    """Return a call with its levels; "quantileGK 100" has its accuracy before them."""
    name, *accuracy = function.split()
    return f"{name}({', '.join([*accuracy, *(f'{phi:g}' for phi in phis)])})" + ("(v)" if phis else "")


def _clickhouse(values: Any, expression: str, threads: int = 1) -> Any:
    given = pa.table({"v": values})  # noqa: F841  (chdb reads it from this frame)
    query = f"SELECT {expression} AS answer FROM Python(given) SETTINGS max_threads = {threads}"
    return load_required("chdb").query(query, "ArrowTable").column("answer")[0].as_py()


def _cases(
    ask: Callable[[Any, str], Any], cases: Sequence[tuple[str, Any, Any, float, dict[str, tuple[str, Any]]]]
) -> list[Row]:
    """Judge the answers of a database about each case, and ours."""
    rows = []
    for case, column, values, phi, calls in cases:
        ordered = np.sort(values).tolist()
        found = {call: ask(column, call) for call in calls}
        name = "DuckDB" if ask is _duckdb else "ClickHouse"
        rows += [judge(case, f"{name} {call}", ordered, phi, found[call], *calls[call]) for call in calls]
        rows.append(judge_own(case, values, ordered, phi, 0.01))
    return rows


def _duckdb(column: Any, call: str) -> Any:
    text = f"epoch_ns({call})" if pa.types.is_timestamp(pa.array(column[:1]).type) else call
    return DuckTable(pa.table({"v": column})).one(f"SELECT {text} FROM data")


def duckdb(s: Settings) -> dict[str, list[Row]]:
    """Query integers, times, ties and infinities, and the same table with several threads."""
    if not environment.load("duckdb"):
        return {}
    integers, times = (np.arange(base, base + 1_001, dtype=np.int64) for base in (BASE, NOW_NS))
    ties = np.repeat(np.array([0, 1_000], dtype=np.int32), [500, 501])
    infinite = np.concatenate([np.arange(800.0), np.full(200, np.inf)])

    def approx(phi: float, **more: tuple[str, Any]) -> dict[str, tuple[str, Any]]:
        return {
            f"approx_quantile(v, {phi})": (NONE, None),
            **{f"{name}(v, {phi})": said for name, said in more.items()},
        }

    said: Any = ("exact", 0.0)
    three = approx(0.5, quantile_cont=("exact, but a DOUBLE", None), quantile_disc=said)
    rows = _cases(_duckdb, [
        ("integers", integers, integers, 0.5, three),
        ("times", pa.array(times.view("M8[ns]")), times, 0.5, approx(0.5, quantile_disc=said)),
        ("ties", ties, ties, 0.49, approx(0.49)),
        ("ties", ties, ties, 0.5, approx(0.5)),
        ("infinite", infinite, infinite, 0.9, approx(0.9, quantile_disc=said)),
    ])  # fmt: skip
    values = np.random.default_rng(1346).lognormal(0, 3, s.n)
    named = dict.fromkeys(("approx_quantile", "reservoir_quantile"))
    return {"duckdb": rows, "duckdb_threads": _repeated("DuckDB", duckdb_quantiles, named, values, s)}


def clickhouse(s: Settings) -> dict[str, list[Row]]:
    if not environment.load("chdb"):
        return {}
    integers = np.arange(BASE, BASE + 1_001, dtype=np.int64)
    times = np.random.default_rng(30_000).permutation(60_000).astype(np.float64)
    near = np.random.default_rng(16).permutation(1_000).astype(np.float64) + 1_000_000
    reported = np.repeat([1_000.0, 3_000.0, 9_000.0], [26, 11, 2])  # ClickHouse/ClickHouse#22408

    def calls(phi: float, **more: tuple[str, Any]) -> dict[str, tuple[str, Any]]:
        return {
            _call(name.replace("_", " "), phi): said for name, said in {**more, "quantileExact": ("exact", 0.0)}.items()
        }

    digest, whole = (NONE, None), ("exact up to 8,192 values, but a Float64", None)
    four = calls(0.5, quantile=whole, quantileTDigest=digest, quantileGK_100=("accuracy 100", 0.01))
    relative = ("value within 0.78125% of it", None)
    rows = _cases(_clickhouse, [
        ("integers", integers, integers, 0.5, four),
        ("timing", times, times, 0.99, calls(0.99, quantileTiming=("30,000 for all that is above", None))),
        ("bfloat", near, near, 0.5, calls(0.5, quantileBFloat16=relative)),
        ("reported", reported, reported, 0.9, calls(0.9, quantileTDigest=digest)),
    ])  # fmt: skip
    values = np.random.default_rng(8192).permutation(s.n).astype(np.float64)
    named = {"quantile": None, "quantileTDigest": None, "quantileGK 100": 0.01, "quantileGK 1000": 0.001}
    return {"clickhouse": rows, "clickhouse_threads": _repeated("ClickHouse", clickhouse_quantiles, named, values, s)}


def _repeated(name: str, ask: Any, functions: dict[str, float | None], values: Values, s: Settings) -> list[Row]:
    """Repeat a query: count different medians, and the worst rank error of any run; ours gets other pieces each run."""
    ordered, rows = np.sort(values), []

    def row(method: str, threads: int, runs: list[Values], bound: float | None, certified: float | None = None) -> Row:
        medians, errors = [float(one[MEDIAN]) for one in runs], [inputs.rank_error(ordered, PHIS, one) for one in runs]
        found = {"method": method, "threads": threads, "runs": len(runs), "medians": len(set(medians))}
        found |= {"lowest": min(medians), "highest": max(medians), "true": float(ordered[(len(ordered) + 1) // 2 - 1])}
        return found | {"rank_error": max(errors), "bound": bound, "certified": certified}

    for function, bound in functions.items():
        title = f"{name} {_call(function) if ' ' in function else function}"
        rows += [row(title, t, [ask(function, values, t) for _ in range(s.runs)], bound) for t in s.threads]
    own = [sketch_of(values, 0.01, 1 + 7 * run) for run in range(s.runs)]
    certified = max(float(sketch.error) for sketch in own)
    return [*rows, row(OURS, 1, [np.asarray(sketch.quantiles(PHIS)) for sketch in own], 0.01, certified)]


# DataSketches


def datasketches(s: Settings) -> dict[str, list[Row]]:
    if not (ds := environment.load("datasketches")):
        return {}
    values = np.random.default_rng(99).permutation(min(s.n, 100_000)).astype(np.float64)
    bound, ordered = float(ds.kll_doubles_sketch.get_normalized_rank_error(KLL_K, False)), np.sort(values)
    single, worst = [], []
    for _ in range(s.sketches):  # the same values into new randomized sketches
        sketch = ds.kll_doubles_sketch(KLL_K)
        sketch.update(values)
        answers, one = np.array(sketch.get_quantiles(PHIS.tolist(), True)), slice(MEDIAN, MEDIAN + 1)
        worst.append(inputs.rank_error(ordered, PHIS, answers))
        single.append(inputs.rank_error(ordered, PHIS[one], answers[one]))
    own = sketch_of(values, bound)
    error = inputs.rank_error(ordered, PHIS, np.asarray(own.quantiles(PHIS)))

    def row(method: str, single: list[float], worst: list[float], certified: float | None) -> Row:
        above = {
            name: float(np.mean([e > bound for e in es]))
            for name, es in (("median_above", single), ("any_above", worst))
        }
        about = {"method": method, "n": len(values), "sketches": len(worst), "bound": bound, "certified": certified}
        return about | above | {"rank_error": max(worst)}

    kll = [row(f"KLL, k = {KLL_K}", single, worst, None)]
    kll.append(row(f"{OURS}, eps = {bound:.4f}", [error], [error], float(own.error)))
    req: list[Row] = []
    for k in REQ_KS:
        sketch = ds.req_floats_sketch(k)
        sketch.update(values.astype(np.float32))
        found = np.array(sketch.get_quantiles(PHIS.tolist(), True), dtype=np.float64)
        about = {"asked": k, "got": int(sketch.k), "n": len(values), "bound": NORMAL_99 * REQ_SIGMA / k}
        req.append(about | {"rank_error": inputs.rank_error(ordered, PHIS, found)})
    return {"kll": kll, "req": req, "nan": _nan(ds)}


def _nan(ds: Any) -> list[Row]:
    """Give a thousand values, of which a hundred are NaN."""
    values, skipping = np.arange(1_000.0), StreamSketch(0.01, nan="skip")
    kll, digest = ds.kll_doubles_sketch(KLL_K), ds.tdigest_double(200)
    values[::10] = np.nan
    for sketch in (kll, digest, skipping):
        sketch.update(values)
    rows: list[tuple[str, int | None, str]] = [
        ("KLL", int(kll.n), ""),
        ("DataSketches t-digest", int(digest.get_total_weight()), ""),
    ]
    takers: list[tuple[str, Callable[[Values], Any]]] = [(OURS, StreamSketch(0.01).update)]
    if environment.load("fastdigest"):
        takers.insert(0, ("fastdigest", load_required("fastdigest").TDigest().batch_update))
    for name, update in takers:
        try:
            update(values)
            rows.append((name, len(values), "accepted"))
        except (ValueError, QuantideError) as reason:
            rows.append((name, None, f"rejected: {reason}"))
    rows.append((f'{OURS}, nan="skip"', skipping.n, f"skipped and counted: {skipping.summary().nans} NaN"))
    return [{"method": name, "given": 1_000, "counted": counted, "said": said} for name, counted, said in rows]


def last_rows(rows: list[Row]) -> list[Row]:
    """Return the last row of every stream and method of an attack."""
    return list({(row["stream"], row["method"]): row for row in rows if row["level"]}.values())


def figures(report: Report) -> Row:
    """Draw the error by length, each stream in a panel; lengths are rounded to two digits, to be legible."""
    rows, panels = [row for row in report.rows.get("tdigest", []) if row["level"]], []
    drawn = ("DataSketches", "fastdigest, 100 ", "fastdigest, 1,000", "DuckDB", "ClickHouse")
    for attack in ATTACKS if rows else ():
        lines = []
        for method in dict.fromkeys(row["method"] for row in rows):
            found = [row for row in rows if row["stream"] == attack.name and row["method"] == method]
            number = next((i for i, name in enumerate(drawn, 1) if method.startswith(name)), 0)
            points = [(float(f"{row['n']:.2g}"), row["rank_error"]) for row in found]
            lines += [plots.Line(method, points, number, "5 3" if method.endswith("0.1") else "")] if points else []
        panels.append(plots.Panel(f'stream "{attack.name}"', "values", "rank error", lines, "y"))
    title = "Rank error of t-digests and of StreamSketch, by the length of the stream"
    return {"breaks.svg": plots.svg(panels, title)} if panels else {}


def value(number: int | float | str) -> str:
    return str(number) if isinstance(number, int | str) else f"{number:.10g}" if abs(number) < 1e10 else repr(number)


def context(report: Report) -> Row:
    rows = report.rows
    digests, merge = last_rows(rows.get("tdigest", [])), rows.get("merge", [])
    mixed = {(row["stream"], row["method"]): row["rank_error"] for row in rows.get("tdigest", []) if not row["level"]}
    order = [attack.name for attack in ATTACKS]
    digests = [row | {"mixed": mixed[row["stream"], row["method"]], "eps": row.get("eps")} for row in digests]
    digests.sort(key=lambda row: order.index(row["stream"]))
    own = max((row for row in digests if row["eps"]), key=lambda row: row["rank_error"] / row["eps"], default=None)
    right = {(row["order"], row["bound"], row["partitions"]): row for row in merge if row["method"] == "Summary.merge"}
    pairs = [
        row | {"right": right[row["order"], row["bound"], row["partitions"]]}
        for row in merge
        if row["method"] == "faulty merge"
    ]
    mine = {(row["order"], row["accuracy"]): row for row in rows.get("spark", []) if row["method"] == OURS}
    asked = [
        row | {"ours": mine[row["order"], row["accuracy"]]} for row in rows.get("spark", []) if row["method"] != OURS
    ]
    return {"digests": digests, "own": own, "merges": pairs, "sparks": asked, "value": value}


PARTS: dict[str, Part] = {"tdigest": tdigest, "merge": merges, "spark": spark}
PARTS |= {"duckdb": duckdb, "clickhouse": clickhouse, "datasketches": datasketches}
ABOUT = "accuracy where others break: t-digests, merges, types, threads"
SUBJECT = Subject(ABOUT, Settings, PARTS, context, figures, PACKAGES)
