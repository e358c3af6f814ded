"""Streams that nest ever smaller scales inside a gap, on which a t-digest loses count of the ranks.

After the idea of Cormode, Mishra, Ross and Vesely, "Theory meets practice at the median", KDD 2021. A t-digest keeps
the mean of a cluster and forgets where its values lie. Each level of the stream puts a few values at -x and many at a
much smaller +y: one cluster, whose mean is below 0. The next level lies between that mean and 0, so the digest counts
all of the cluster as smaller, where most of it is larger. Nothing is ever put between the mean and 0 twice at the same
scale, so the error of every level stays.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks import data
from benchmarks.breaks_clickhouse import tdigest
from benchmarks.breaks_duckdb import approx_quantiles
from benchmarks.breaks_rows import OURS, PHIS
from benchmarks.breaks_settings import Settings
from benchmarks.data import Values
from benchmarks.peers import Phis, load, load_required
from benchmarks.report import Row, say
from quantide import StreamSketch

CHECKS = 8  # lengths at which the error is looked at
EPSILONS = (0.1, 0.01)
Query = tuple[str, Callable[[Values], Values]]


@dataclass(frozen=True)
class Attack:
    """`first` values to begin with; a level adds `growth` of what is there, `share` of it low, and `far` as many again
    far above, which keeps the gap away from the end where clusters are small. Scales go from 2^top to 2^bottom."""

    name: str
    growth: float
    far: float
    first: int = 1_000
    share: float = 0.25
    shrink: float = 1 / 32
    top: int = 900
    bottom: int = -1040

    def levels(self, most: int) -> Iterator[Values]:
        """The stream, level by level; every value is finite."""
        edge = 2.0 ** (self.top + 3)
        n, x = 2 * (self.first // 2), 2.0**self.top
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
class Held:
    """A sketch that takes a level at a time, asked after each."""

    name: str
    take: Callable[[Values], Any]
    ask: Callable[[Phis], Values]
    stored: Callable[[], int]
    room: Callable[[], int | None] = lambda: None
    certified: Callable[[], float | None] = lambda: None
    eps: float | None = None


def run(settings: Settings) -> list[Row]:
    return [row for attack in ATTACKS for row in _attacked(attack, settings)]


def _attacked(attack: Attack, settings: Settings) -> list[Row]:
    levels = list(attack.levels(settings.levels))
    say(f"breaks: t-digest, {attack.name}: {len(levels)} levels, {sum(map(len, levels)):,} values")
    checks = sorted({round(part * len(levels) / CHECKS) for part in range(1, CHECKS + 1)})
    rows = [row for held in sketches() for row in _watched(attack, held, levels, checks)]
    values = np.concatenate(levels)
    for name, ask in queries(attack):
        for at in checks:
            prefix = values[: sum(map(len, levels[:at]))]
            rows.append(_row(attack, name, at, prefix, ask(prefix)))
    return rows + _shuffled(attack, values)


def _watched(attack: Attack, held: Held, levels: list[Values], checks: list[int]) -> Iterator[Row]:
    values = np.concatenate(levels)
    seen = 0
    for at, level in enumerate(levels, 1):
        held.take(level)
        seen += len(level)
        held.ask(PHIS[:1])
        if at in checks:
            row = _row(attack, held.name, at, values[:seen], held.ask(PHIS))
            extra = {"stored": held.stored(), "room": held.room(), "certified": held.certified(), "eps": held.eps}
            yield {**row, **extra}


def _shuffled(attack: Attack, values: Values) -> list[Row]:
    """The same values in a random order: what the order alone does."""
    mixed = np.random.default_rng(20210814).permutation(values)
    rows = []
    for held in sketches():
        for part in np.array_split(mixed, 100):
            held.take(part)
        extra = {"stored": held.stored(), "certified": held.certified(), "eps": held.eps}
        rows.append({**_row(attack, held.name, 0, values, held.ask(PHIS)), **extra})
    return rows + [_row(attack, name, 0, values, ask(mixed)) for name, ask in queries(attack)]


def _row(attack: Attack, method: str, level: int, values: Values, answers: Values) -> Row:
    """Level 0 stands for the shuffled stream."""
    error = data.rank_error(np.sort(values), PHIS, np.asarray(answers, dtype=np.float64))
    return {"stream": attack.name, "method": method, "level": level, "n": len(values), "rank_error": error}


def sketches() -> list[Held]:
    found = [_ours(eps) for eps in EPSILONS]
    if load("datasketches") is not None:
        found.append(_datasketches())
    if load("fastdigest") is not None:
        found += [_fastdigest(100), _fastdigest(1_000)]
    return found


def _ours(eps: float) -> Held:
    sketch = StreamSketch(eps)
    return Held(
        f"{OURS}, eps = {eps:g}",
        take=sketch.update,
        ask=lambda phis: np.asarray(sketch.quantiles(phis)),
        stored=lambda: len(sketch.summary().to_bytes()),
        room=lambda: int(sketch.nbytes),
        certified=lambda: float(sketch.error),
        eps=eps,
    )


def _datasketches() -> Held:
    digest: Any = load_required("datasketches").tdigest_double(200)

    def room() -> int:
        """As it says itself: centroids of two numbers, and a buffer of values."""
        found = dict(re.findall(r"(Centroids|Buffer) capacity\s*: (\d+)", digest.to_string()))
        return 16 * int(found["Centroids"]) + 8 * int(found["Buffer"])

    return Held(
        "DataSketches t-digest, k = 200",
        take=digest.update,
        ask=lambda phis: np.array([digest.get_quantile(phi) for phi in phis.tolist()]),
        stored=lambda: len(digest.serialize()),
        room=room,
    )


def _fastdigest(centroids: int) -> Held:
    digest: Any = load_required("fastdigest").TDigest(max_centroids=centroids)
    return Held(
        f"fastdigest, {centroids:,} centroids",
        take=digest.batch_update,
        ask=lambda phis: np.array(digest.quantile_vec(phis.tolist())),
        stored=lambda: len(digest.to_bytes()),
    )


def queries(attack: Attack) -> list[Query]:
    """Databases, which answer about a whole table. ClickHouse holds float32: only what fits is fair."""
    found: list[Query] = [("DuckDB approx_quantile", approx_quantiles)] if load("duckdb") is not None else []
    if load("chdb") is not None and attack.top < 127:
        found.append(("ClickHouse quantileTDigest", tdigest))
    return found
