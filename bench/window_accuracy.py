"""Windows: error and space, after the figures of two papers, RECENT (ICDE 2004) and CONSTRAINED."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bench import plots
from bench.collection import Subject
from bench.inputs import Floats, targets
from bench.plots import Curve, points
from bench.rendering import group
from bench.report import Report, Row, show, sized
from bench.window_speed import recent_bound, sliding_bound
from quantide import ConstrainedWindow, RecentWindow, SlidingWindow, last, where
from quantide.windows.block_layout import BlockLayout, layout_for

BUILT, SHRUNK, WORDS = "as built", "shrunk", "words"
SUMMARISED = "SlidingWindow (exact=False)"
CHUNK, LEAST, PIECES = 1_024, 64, 50  # the shrunk layout; blocks of a stream that is sorted in blocks
CHECKED = ("epsilons", "kinds", "sizes", "parts", "times", "ages", "filters")


@dataclass(frozen=True)
class Settings:
    """`large`: a window in its own layout, `small`: one of the papers' size in a smaller layout; then spans of time."""

    epsilons: tuple[float, ...] = sized((0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001), quick=(0.1, 0.01))
    eps: float = 0.01
    large: int = sized(1_000_000, quick=150_000)
    small: int = sized(100_000, quick=20_000)
    sizes: tuple[int, ...] = sized((10**4, 10**5, 10**6, 4_000_000), (10**4, 10**5, 10**6), (10_000, 150_000))
    small_sizes: tuple[int, ...] = sized((10_000, 20_000, 50_000, 100_000, 200_000), quick=(10_000, 20_000))
    parts: tuple[int, ...] = sized((1, 2, 5, 10, 20, 50, 100), quick=(10, 100))  # n of N: percent
    turns: float = sized(2.5, 2.0, 1.5)
    moments: int = sized(50, 10, 2)
    phis: int = sized(256, quick=16)
    piece: int = 8_192
    rate: int = sized(400, quick=40)
    ages: tuple[int, ...] = sized((200, 400, 600, 800), quick=(200, 400))
    age: int = 600
    shorter: int = 300
    time_eps: float = 0.05
    time_phis: int = sized(128, quick=8)
    filtered: tuple[int, ...] = sized((100_000, 200_000), quick=(10_000, 20_000))
    passing: float = 0.6


def _word_numbers(rng: np.random.Generator, n: int) -> Floats:
    """Return numbers that stand for words, a few of which are very frequent."""
    rank = rng.zipf(1.3, n).astype(np.uint64)
    return ((rank * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(33)).astype(np.float64)


KINDS: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "uniform": lambda rng, n: rng.random(n),
    "normal": lambda rng, n: rng.normal(size=n),
    "exponential": lambda rng, n: rng.exponential(size=n),
    "sorted": lambda rng, n: np.sort(rng.random(n)),
    "reversed": lambda rng, n: np.ascontiguousarray(np.sort(rng.random(n))[::-1]),
    "block-sorted": lambda rng, n: np.concatenate([np.sort(one) for one in np.array_split(rng.random(n), PIECES)]),
    "semi-sorted": lambda r, n: np.concatenate([*map(r.permutation, np.array_split(np.sort(r.random(n)), PIECES))]),
    WORDS: _word_numbers,
}


def stream(kind: str, n: int) -> Floats:
    """Return a stream of the papers, the same every time."""
    return KINDS[kind](np.random.default_rng([list(KINDS).index(kind), n]), n)


def arrival_times(n: int, rate: float) -> Floats:
    return np.cumsum(np.random.default_rng([77, n]).exponential(1 / rate, n))


@contextmanager
def layout(name: str) -> Iterator[None]:
    """Shrink the layout: no window stores raw values because it is small, and few of the newest are raw."""

    def small(eps: float, most: int | None = None) -> BlockLayout:
        return layout_for(eps, None, CHUNK, LEAST)

    changes = {"sliding_window.EXACT": 0, "recent_window.layout_for": small, "constrained_window.layout_for": small}
    with ExitStack() as stack:
        for target, new in changes.items() if name == SHRUNK else ():
            stack.enter_context(patch(f"quantide.windows.{target}", new))
        yield


@dataclass
class Probe:
    """A query of a window; `starts[i]`: the first value of the window after value i; `passing` marks values in it.

    `bound`: tuples that the paper allows; `raw`: values of the whole window, which a plain list would store.
    """

    labels: Row
    window: Any
    scope: dict[str, Any]
    starts: NDArray[np.int64]
    bound: int = 0
    raw: int = 0
    passing: NDArray[np.bool_] | None = None
    errors: list[Floats] = field(default_factory=list)
    tuples: int = 0
    exact: bool = True

    def query(self, ordered: Floats, phis: Floats) -> None:
        n, found = len(ordered), np.asarray(self.window.quantiles(phis, **self.scope))
        below, upto = (np.searchsorted(ordered, found, side=side) for side in ("left", "right"))
        if not (upto > below).all():
            raise AssertionError(f"an answer is no value of the window: {self.labels}")
        target = targets(phis, n)
        self.errors.append(np.maximum(np.maximum(below + 1 - target, target - upto), 0) / (self.window.eps * n))
        self.exact = self.exact and self.window.summary(**self.scope).rank_error == 0

    def row(self) -> Row:
        errors = {"worst": float(np.max(self.errors)), "mean": float(np.mean(self.errors)), "exact": self.exact}
        space = {"tuples": self.tuples, "paper_tuples": self.bound, "raw": self.raw}
        return self.labels | {"eps": self.window.eps} | errors | space


def watch(columns: Sequence[Any], probes: Sequence[Probe], full: int, moments: int, phis: Floats, piece: int) -> None:
    """Feed every window piece by piece; from `full` values on count its tuples and query it at random moments."""
    values = np.asarray(columns[0]["value"] if isinstance(columns[0], pa.Table) else columns[0])
    rng, begun = np.random.default_rng([full, len(values)]), 0
    query_times = {len(values), *rng.integers(full, len(values), moments - 1).tolist()}
    windows = {id(probe.window): probe.window for probe in probes}
    for end in sorted({*range(piece, len(values), piece), *query_times}):
        for window in windows.values():
            window.update(*(column[begun:end] for column in columns))
        begun, ordered = end, dict[int, Floats]()
        for probe in probes if end >= full else ():
            probe.tuples = max(probe.tuples, probe.window.tuples)
        for probe in probes if end in query_times else ():
            first = int(probe.starts[end - 1])
            if first not in ordered:
                ordered[first] = np.sort(values[first:end][... if probe.passing is None else probe.passing[first:end]])
            probe.query(ordered[first], phis)


def _last(n: int, size: int) -> NDArray[np.int64]:
    return np.maximum(np.arange(n) + 1 - size, 0)


def recent(s: Settings) -> dict[str, list[Row]]:
    """Measure windows of the last values by eps, data, size and n of N."""

    def run(
        size: int, kind: str, epsilons: Iterable[float], parts: Iterable[int] = (100,), summarised: bool = False
    ) -> list[Row]:
        values, probes, about = stream(kind, int(s.turns * size)), [], {"layout": name, "size": size, "kind": kind}
        for eps in epsilons:
            sliding, window = SlidingWindow(size, eps), RecentWindow(eps, max_items=size)
            labels, starts = {"window": "SlidingWindow", **about, "n": size}, _last(len(values), size)
            probes.append(Probe(labels, sliding, {}, starts, sliding_bound(eps, size), size))
            if summarised:
                labels = {**labels, "window": SUMMARISED}
                window_of_buckets = SlidingWindow(size, eps, exact=False)
                probes.append(Probe(labels, window_of_buckets, {}, starts, sliding_bound(eps, size), size))
            for n in (size * part // 100 for part in parts):
                labels, starts = {"window": "RecentWindow", **about, "n": n}, _last(len(values), n)
                probes.append(Probe(labels, window, {"last": n}, starts, recent_bound(eps, size), size))
        watch([values], probes, size, s.moments, np.arange(1, s.phis) / s.phis, s.piece)
        return [probe.row() for probe in probes]

    rows = {part: list[Row]() for part in ("epsilons", "kinds", "sizes", "parts")}
    for name, size, sizes in ((BUILT, s.large, s.sizes), (SHRUNK, s.small, s.small_sizes)):
        show(f"windows: the last values, {name}")
        with layout(name):
            rows["epsilons"] += run(size, "uniform", s.epsilons)
            rows["kinds"] += [row for kind in KINDS if kind != WORDS for row in run(size, kind, [s.eps])]
            rows["sizes"] += [row for one in sizes for row in run(one, "uniform", [s.eps], (100,), name == BUILT)]
            rows["parts"] += run(size, "uniform", [s.eps], s.parts)
    return rows


def constrained(s: Settings) -> dict[str, list[Row]]:
    """Measure windows of the last span of time and of filtered values."""
    phis, piece = np.arange(1, s.time_phis) / s.time_phis, s.piece // 8

    def spans(kind: str, age: int, cases: Iterable[tuple[float, int]]) -> list[Row]:
        n, windows, probes = int(1.5 * age * s.rate), dict[float, RecentWindow](), []
        values, times = stream(kind, n), arrival_times(n, s.rate)
        for eps, span in cases:
            window = windows.setdefault(eps, RecentWindow(eps, max_age=age))
            labels = {"layout": name, "kind": kind, "age": age, "span": span}
            starts = np.searchsorted(times, times - span, side="right")
            raw = age * s.rate
            probes.append(Probe(labels, window, {"within": span}, starts, recent_bound(eps, raw), raw))
        watch([values, times], probes, int(np.searchsorted(times, age)) + 1, s.moments, phis, piece)
        return [probe.row() for probe in probes]

    def filtered(size: int) -> Row:
        n, bound = int(1.5 * size), recent_bound(s.time_eps, int(s.passing * size))
        table = pa.table({"key": np.random.default_rng(n).random(n), "value": stream(WORDS, n)})
        window = ConstrainedWindow(last(size) & where(pc.field("key") < s.passing), s.time_eps)
        labels = {"layout": name, "kind": WORDS, "size": size, "passing": s.passing}
        raw, passing = int(s.passing * size), np.asarray(table["key"]) < s.passing
        probe = Probe(labels, window, {}, _last(n, size), bound, raw, passing)
        watch([table], [probe], size, s.moments, phis, piece)
        return probe.row()

    rows = {part: list[Row]() for part in ("times", "ages", "filters")}
    for name in (BUILT, SHRUNK):
        show(f"windows: spans of time, {name}")
        with layout(name):
            for kind in ("uniform", "normal", "semi-sorted", WORDS):
                rows["times"] += spans(kind, s.age, [(s.time_eps, s.age), (s.time_eps, s.shorter)])
            rows["ages"] += [row for age in s.ages for row in spans("uniform", age, [(s.time_eps, age)])]
            rows["filters"] += [filtered(size) for size in s.filtered]
    return rows


def checked_rows(report: Report) -> list[Row]:
    return [row for name in CHECKED for row in report.rows[name]]


def figures(report: Report) -> Row:
    """Draw errors as fractions of eps * n on a linear axis, and tuples beside the papers' bounds."""
    drawn = {}
    for part, by in (("epsilons", "eps"), ("sizes", "size")):
        curves = []
        for name, rows in group(report.rows[part], "layout").items():
            for i, (window, some) in enumerate(group(rows, "window").items()):
                error, tuples, bound = (points(some, by, column) for column in ("worst", "tuples", "paper_tuples"))
                space = (f"space, {name}", by, "tuples")
                curves.append(Curve(f"worst error, {name}", by, "error / (eps n)", window, i, error, linear=True))
                curves.append(Curve(*space, window, i, tuples))
                curves.append(Curve(*space, f"{window}: paper's bound", i, bound, plots.DASHED))
        drawn[f"windows-{part}.svg"] = plots.figure(curves, f"Worst error and space by {by}", 2)
    return drawn


def context(report: Report) -> Row:
    return {"checked": checked_rows(report), "chunk": CHUNK, "least": LEAST, "built": BUILT}


PARTS = {"recent": recent, "constrained": constrained}
ABOUT = "windows, the figures of two papers: error and space by eps, data, size and span of time"
SUBJECT = Subject(ABOUT, Settings, PARTS, context, figures)
