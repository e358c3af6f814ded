"""Streams on which t-digests answer worse than is believed, beside StreamSketch."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from bench import competitors, environment, inputs, plots
from bench.collection import Subject
from bench.competitors import ClickHouseTable, DuckTable, Method, clickhouse_call
from bench.inputs import Values
from bench.report import Report, Row, show, sized

OURS, EPS = "StreamSketch", 0.01
PHIS = np.arange(1, 1_000) / 1_000
CHECKS = 8  # lengths at which the error is computed
PACKAGES = ("datasketches", "fastdigest", "duckdb", "chdb")
ENGINES = {"DuckDB": "duckdb", "ClickHouse": "chdb"}


@dataclass(frozen=True)
class Settings:
    levels: int = sized(400, quick=20)


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
            query = lambda pieces, _, use=(engine, call): engine_answer(use[0], np.concatenate(pieces), use[1])  # noqa: E731
            found[name] = Method(name, query, make=list, update=list.append)
    return found


def tdigest(s: Settings) -> list[Row]:
    """Measure the error by the length of each stream, and of the same values shuffled (level 0)."""
    rows: list[Row] = []
    for attack in ATTACKS:
        levels = list(attack.levels(s.levels))
        show(f"breaks: t-digest, {attack.name}: {len(levels)} levels, {sum(map(len, levels)):,} values")
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
    rows = report.rows.get("tdigest", [])
    mixed = {(row["stream"], row["method"]): row["rank_error"] for row in rows if not row["level"]}
    last = {(row["stream"], row["method"]): row for row in rows if row["level"]}
    digests = [row | {"mixed": mixed[key], "eps": row.get("eps")} for key, row in last.items()]
    ordered = sorted(digests, key=lambda row: row["rank_error"])
    theirs, own = ([row for row in ordered if bool(row["eps"]) == mine] for mine in (False, True))
    return {"digests": digests, "theirs": theirs, "own": own}


PARTS = {"tdigest": tdigest}
SUBJECT = Subject("accuracy where t-digests break", Settings, PARTS, context, figures, PACKAGES)
