"""Windows: error and space, after the figures of two papers.

RECENT: Lin, Lu, Xu, Yu, Continuously maintaining quantile summaries of the most recent N elements over a data stream,
ICDE 2004. CONSTRAINED: Xu, Lin, Zhou, Space efficient quantile summary for constrained sliding windows.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bench import plots
from bench.collection import Subject
from bench.inputs import Floats, targets
from bench.plots import Curve, Points, points
from bench.rendering import group
from bench.report import Report, Row, say, sized
from bench.timing import blocks, clock
from bench.window_speed import recent_bound, sliding_bound
from quantide import ConstrainedWindow, RecentWindow, SlidingWindow, last, where
from quantide.windows.block_layout import BlockLayout, layout_for

SLIDING, RECENT, BUILT, SHRUNK, WORDS = "SlidingWindow", "RecentWindow", "as built", "shrunk", "words"
CHUNK, LEAST, PIECES = 1_024, 64, 50  # the shrunk layout; blocks of a stream that is sorted in blocks
CHECKED = ("epsilons", "kinds", "sizes", "parts", "times", "ages", "time_epsilons", "filters")


@dataclass(frozen=True)
class Settings:
    """`large`: a window in its own layout, `small`: one of the papers' size in a smaller layout; then spans of time."""

    epsilons: tuple[float, ...] = sized((0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001), quick=(0.1, 0.01))
    eps: float = 0.01
    large: int = sized(1_000_000, quick=150_000)
    small: int = sized(100_000, quick=20_000)
    sizes: tuple[int, ...] = sized(
        (10**4, 10**5, 200_000, 500_000, 10**6, 2_000_000, 4_000_000), (10**4, 10**5, 10**6), (10_000, 150_000)
    )
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
    time_epsilons: tuple[float, ...] = sized((0.1, 0.05, 0.02, 0.01, 0.005), quick=(0.1, 0.05))
    time_phis: int = sized(128, quick=8)
    filtered: tuple[int, ...] = sized((100_000, 200_000), quick=(10_000, 20_000))
    passing: float = 0.6
    batch: int = 16
    block: int = 65_536

    def asked(self, timed: bool = False) -> Floats:
        count = self.time_phis if timed else self.phis
        return np.arange(1, count) / count


def _words(rng: np.random.Generator, n: int) -> Floats:
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
    "semi-sorted": lambda rng, n: np.concatenate(
        [rng.permutation(one) for one in np.array_split(np.sort(rng.random(n)), PIECES)]
    ),
}


def stream(kind: str, n: int) -> Floats:
    """Return a stream of the papers, the same every time."""
    kinds = {**KINDS, WORDS: _words}
    return kinds[kind](np.random.default_rng([list(kinds).index(kind), n]), n)


def arrival_times(n: int, rate: float) -> Floats:
    return np.cumsum(np.random.default_rng([77, n]).exponential(1 / rate, n))


@contextmanager
def layout(name: str) -> Iterator[None]:
    """Shrink the layout: no window stores raw values because it is small, and few of the newest are raw."""

    def small(eps: float, most: int | None = None) -> BlockLayout:
        return layout_for(eps, None, CHUNK, LEAST)

    if name == BUILT:
        yield
        return
    names = [f"quantide.windows.{module}.layout_for" for module in ("recent_window", "constrained_window")]
    with patch("quantide.windows.sliding_window.EXACT", 0), patch(names[0], small), patch(names[1], small):
        yield


@dataclass
class Probe:
    """A query of a window; `first(end)`: its start among all values; `passing` marks the values in a filtered window.

    Errors are multiples of eps * n. Tuples are counted beside the paper's `bound`.
    """

    labels: Row
    window: Any
    asked: dict[str, Any]
    first: Callable[[int], int]
    bound: int = 0
    passing: NDArray[np.bool_] | None = None
    errors: list[Floats] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    exact: bool = True

    def ask(self, ordered: Floats, phis: Floats) -> None:
        n, found = len(ordered), np.asarray(self.window.quantiles(phis, **self.asked))
        below, upto = (np.searchsorted(ordered, found, side=side) for side in ("left", "right"))
        if not (upto > below).all():
            raise AssertionError(f"an answer is no value of the window: {self.labels}")
        target = targets(phis, n)
        self.errors.append(np.maximum(np.maximum(below + 1 - target, target - upto), 0) / (self.window.eps * n))
        self.exact = self.exact and self.window.summary(**self.asked).rank_error == 0

    def row(self) -> Row:
        every, counts = np.array(self.errors), self.counts or [0]
        errors = {"eps": self.window.eps, "worst": float(every.max()), "mean": float(every.mean()), "exact": self.exact}
        return (
            self.labels
            | errors
            | {"tuples": max(counts), "mean_tuples": round(np.mean(counts)), "paper_tuples": self.bound}
        )

    def by_phi(self, phis: Floats) -> list[Row]:
        """Return a row for every fourth phi: as many as a figure can show."""
        every = np.array(self.errors)
        pairs = list(zip(phis.tolist(), every.mean(axis=0).tolist(), every.max(axis=0).tolist(), strict=True))
        return [{**self.labels, "phi": phi, "mean": mean, "worst": worst} for phi, mean, worst in pairs[::4]]


def watch(
    values: Floats,
    feed: Callable[[Any, slice], None],
    probes: Sequence[Probe],
    full: int,
    s: Any,
    phis: Floats,
    piece: int,
) -> None:
    """Feed every window piece by piece; from `full` values on count its tuples and query it at random moments."""
    rng, begun = np.random.default_rng([full, len(values)]), 0
    asked = {len(values), *rng.integers(full, len(values), s.moments - 1).tolist()}
    windows = {id(probe.window): probe.window for probe in probes}
    for end in sorted({*range(piece, len(values), piece), *asked}):
        for window in windows.values():
            feed(window, slice(begun, end))
        begun, ordered = end, dict[tuple[int, bool], Floats]()
        for probe in probes if end >= full else ():
            probe.counts.append(probe.window.tuples)
        for probe in probes if end in asked else ():
            first = max(0, probe.first(end))
            if (key := (first, probe.passing is None)) not in ordered:
                ordered[key] = np.sort(
                    values[first:end] if probe.passing is None else values[first:end][probe.passing[first:end]]
                )
            probe.ask(ordered[key], phis)


def recent(s: Settings) -> dict[str, list[Row]]:
    """Measure windows of the last values by eps, data, size, n of N and rank."""

    def run(name: str, size: int, kind: str, epsilons: Iterable[float], parts: Iterable[int] = (100,)) -> list[Probe]:
        probes = []
        with layout(name):
            values = stream(kind, int(s.turns * size))
            for eps in epsilons:
                about = {"layout": name, "size": size, "kind": kind}
                label, sliding = {"window": SLIDING, **about, "n": size}, SlidingWindow(size, eps)
                probes.append(Probe(label, sliding, {}, lambda end: end - size, sliding_bound(eps, size)))
                window, bound = RecentWindow(eps, max_items=size), recent_bound(eps, size)
                for n in (size * part // 100 for part in parts):
                    label = {"window": RECENT, **about, "n": n}
                    probes.append(Probe(label, window, {"last": n}, lambda end, n=n: end - n, bound))  # type: ignore[misc]
            watch(values, lambda window, part: window.update(values[part]), probes, size, s, s.asked(), s.piece)
        return probes

    def rows(found: Iterable[list[Probe]]) -> list[Row]:
        return [probe.row() for probes in found for probe in probes]

    scales = ((BUILT, s.large), (SHRUNK, s.small))
    say("windows: by eps and by data")
    kinds = [run(name, size, kind, [s.eps]) for name, size in scales for kind in KINDS]
    out = {"epsilons": rows(run(name, size, "uniform", s.epsilons) for name, size in scales), "kinds": rows(kinds)}
    out["ranks"] = [row for probes in kinds[: len(KINDS)] for probe in probes for row in probe.by_phi(s.asked())]
    say("windows: by size and by n of N")
    sizes = [(BUILT, size) for size in s.sizes] + [(SHRUNK, size) for size in s.small_sizes]
    out["sizes"] = rows(run(name, size, "uniform", [s.eps]) for name, size in sizes)
    return out | {"parts": rows(run(name, size, "uniform", [s.eps], s.parts) for name, size in scales)}


def constrained(s: Settings) -> dict[str, list[Row]]:
    """Measure windows of the last span of time and of filtered values, and the time of updates."""
    phis, piece = s.asked(timed=True), s.piece // 8
    rows = {name: list[Row]() for name in ("times", "time_ranks", "ages")}
    rows |= {"time_epsilons": [], "filters": []}

    def spans(name: str, kind: str, age: int, asked: Iterable[tuple[float, int]]) -> list[Probe]:
        n, windows = int(1.5 * age * s.rate), dict[float, RecentWindow]()
        values, times, probes = stream(kind, n), arrival_times(n, s.rate), []
        for eps, span in asked:
            window = windows.setdefault(eps, RecentWindow(eps, max_age=age))
            labels = {"layout": name, "kind": kind, "age": age, "span": span}
            first: Any = lambda end, span=span: int(np.searchsorted(times[:end], times[end - 1] - span, side="right"))  # noqa: E731
            probes.append(Probe(labels, window, {"within": span}, first, recent_bound(eps, age * s.rate)))
        feed: Any = lambda window, part: window.update(values[part], times[part])  # noqa: E731
        watch(values, feed, probes, int(np.searchsorted(times, age)) + 1, s, phis, piece)
        return probes

    say("windows: spans of time")
    for name in (BUILT, SHRUNK):
        with layout(name):
            for kind in ("uniform", "normal", "semi-sorted", WORDS):
                probes = spans(name, kind, s.age, [(s.time_eps, s.age), (s.time_eps, s.shorter)])
                rows["times"] += [probe.row() for probe in probes]
                rows["time_ranks"] += [row for probe in probes for row in probe.by_phi(phis)] if name == SHRUNK else []
            rows["ages"] += [
                probe.row() for age in s.ages for probe in spans(name, "uniform", age, [(s.time_eps, age)])
            ]
            asked = [(eps, s.age) for eps in s.time_epsilons]
            rows["time_epsilons"] += [probe.row() for probe in spans(name, "uniform", s.age, asked)]
            rows["filters"] += [_filtered(s, name, size, phis, piece) for size in s.filtered]
    return rows | {"updates": [_updates(s, eps, size) for eps in s.time_epsilons for size in (s.batch, s.block)]}


def _filtered(s: Settings, name: str, size: int, phis: Floats, piece: int) -> Row:
    values, key = stream(WORDS, n := int(1.5 * size)), np.random.default_rng(int(1.5 * size)).random(int(1.5 * size))
    table, bound = pa.table({"key": key, "value": values}), recent_bound(s.time_eps, int(s.passing * size))
    window = ConstrainedWindow(last(size) & where(pc.field("key") < s.passing), s.time_eps)
    labels = {"layout": name, "kind": WORDS, "size": size, "passing": s.passing}
    probe = Probe(labels, window, {}, lambda end: end - size, bound, key < s.passing)
    assert len(table) == n
    watch(
        values, lambda w, part: w.update(table.slice(part.start, part.stop - part.start)), [probe], size, s, phis, piece
    )
    return probe.row()


def _updates(s: Settings, eps: float, size: int) -> Row:
    n, window = int(1.5 * s.age * s.rate), RecentWindow(eps, max_age=s.age)
    values, times = stream("uniform", n), arrival_times(n, s.rate)
    window.update(values[:1], times[:1])
    each = np.array([clock(window.update, values[part], times[part])[0] for part in blocks(n, size)])
    row = {"eps": eps, "batch": size, "mean": float(each.mean()), "median": float(np.median(each))}
    row |= {"p999": float(np.quantile(each, 0.999)), "worst": float(each.max())}
    return row | {"values_per_s": round(n / each.sum())}


def checked_rows(report: Report) -> list[Row]:
    return [row for name in CHECKED for row in report.rows[name]]


def figures(report: Report) -> Row:
    """Draw errors as fractions of eps * n on a linear axis, and tuples beside the papers' bounds."""
    rows, random = report.rows, ("uniform", "normal", "exponential")
    error, paper = "error / (eps n)", "paper's bound"

    def errors(panel: str, by: str, rows: list[Row]) -> list[Curve]:
        some = [(i, w, [row for row in rows if row["window"] == w]) for i, w in enumerate((SLIDING, RECENT))]
        names = list(enumerate(("mean", "worst")))
        return [
            Curve(panel, by, error, f"{w}, {m}", 2 * i + j, points(r, by, m), linear="y")
            for i, w, r in some
            if r
            for j, m in names
        ]

    def space(panel: str, by: str, rows: list[Row]) -> list[Curve]:
        some = [(i, w, [row for row in rows if row["window"] == w]) for i, w in enumerate((SLIDING, RECENT))]
        return [
            Curve(panel, by, "tuples", w, 4 + i, points(r, by, "tuples"), points(r, by, "paper_tuples"), paper)
            for i, w, r in some
        ]

    curves: dict[str, list[Curve]] = {name: [] for name in ("epsilons", "sizes", "parts", "ranks", "times", "space")}
    for name, some in group(rows["epsilons"], "layout").items():
        what = f"{name}, the last {some[0]['size']:,}"
        curves["epsilons"] += [*errors(f"error, {what}", "eps", some), *space(f"space, {what}", "eps", some)]
    for name, some in group(rows["sizes"], "layout").items():
        curves["sizes"] += [*errors(f"error, {name}", "size", some), *space(f"space, {name}", "size", some)]
    for name, some in group(rows["parts"], "layout").items():
        curves["parts"] += errors(f"{name}, N = {some[0]['size']:,}", "n", some)
    for window, some in group([row for row in rows["ranks"] if row["layout"] == BUILT], "window").items():
        for i, (kind, found) in enumerate(group(some, "kind").items()):
            panel = f"{window}, {'random' if kind in random else 'sorted'}, mean"
            curves["ranks"].append(Curve(panel, "phi", error, kind, i % 6, coarse(found), linear="xy"))
    curves["ranks"].sort(key=lambda curve: (curve.panel.startswith(RECENT), "sorted" in curve.panel))
    kinds = group([row for row in rows["time_ranks"] if row["layout"] == SHRUNK], "kind")
    longest = max(row["span"] for row in rows["time_ranks"])
    for i, (span, some) in enumerate(group(kinds["uniform"], "span").items()):
        curves["times"].append(
            Curve("uniform, two spans", "phi", error, f"within {span} s", i, coarse(some), linear="xy")
        )
    for i, (kind, some) in enumerate(kinds.items(), 2):
        line = coarse([row for row in some if row["span"] == longest])
        curves["times"].append(Curve(f"other data, within {longest} s", "phi", error, kind, i, line, linear="xy"))
    for panel, name, by in (("by the longest span", "ages", "age"), ("by eps", "time_epsilons", "eps")):
        for i, (which, some) in enumerate(group(rows[name], "layout").items()):
            bound = points(some, by, "paper_tuples") if which == SHRUNK else ()
            curves["space"].append(
                Curve(panel, by, "tuples", f"{which}, most", i, points(some, by, "tuples"), bound, paper)
            )
            curves["space"].append(Curve(panel, by, "tuples", f"{which}, mean", 2 + i, points(some, by, "mean_tuples")))
    titles = {"epsilons": "Error and space by eps", "sizes": "Error and space by the size of the window"}
    titles |= {"parts": "Error by n of N", "ranks": "Error by phi, seven kinds of data"}
    titles |= {"times": "Error by phi over spans of time", "space": "Space by the longest span and by eps"}
    return {f"windows-{name}.svg": plots.figure(curves[name], title, 2) for name, title in titles.items()}


def coarse(rows: list[Row]) -> Points:
    """Return means over neighbouring phis, so that the line is legible."""
    found = points(rows, "phi", "mean")
    groups = [found[a:b] for a, b in pairwise(sorted({round(i * len(found) / 32) for i in range(33)}))]
    return [(sum(x for x, _ in some) / len(some), sum(y for _, y in some) / len(some)) for some in groups]


def context(report: Report) -> Row:
    rows, s = report.rows, report.settings
    kinds = group([row for row in rows["kinds"] if row["layout"] == BUILT], "window")
    means = {name: sum(row["mean"] for row in some) / len(some) for name, some in kinds.items()}
    held = [row for row in checked_rows(report) if row["tuples"] > row["paper_tuples"]]
    names = ("window", "size", "layout", "eps", "tuples", "paper_tuples")
    above = [tuple(row[name] for name in names) for row in held]
    updates = [row for row in rows["updates"] if row["eps"] == s["time_eps"]]
    found = {"checked": checked_rows(report), "kinds": kinds, "means": means, "above": list(dict.fromkeys(above))}
    return found | {"updates": updates, "chunk": CHUNK, "least": LEAST, "built": BUILT}


PARTS = {"recent": recent, "constrained": constrained}
ABOUT = "windows, the figures of two papers: error and space by eps, data, size and span of time"
SUBJECT = Subject(ABOUT, Settings, PARTS, context, figures)
