"""Windows of the last span of time and of filtered values: error, space, time of an update; after CONSTRAINED."""

import time
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import windows_bounds as bounds
from benchmarks.report import Row, say
from benchmarks.timing import blocks
from characterization.windows_data import WORDS, stream, times
from characterization.windows_layout import BUILT, SHRUNK, layout
from characterization.windows_settings import Settings
from characterization.windows_trial import Array, Held, Probe, watch
from quantide import ConstrainedWindow, RecentWindow, last, where

LAYOUTS = (BUILT, SHRUNK)


class Spans:
    """A stream at the paper's rate, one and a half of the longest span long, through windows of time."""

    def __init__(self, settings: Settings, name: str, kind: str, age: int) -> None:
        self.settings, self.name, self.kind, self.age = settings, name, kind, age
        n = int(1.5 * age * settings.rate)
        self.values, self.times = stream(kind, n), times(n, settings.rate)
        self.probes: list[Probe] = []
        self.helds: list[Held] = []

    def add(self, eps: float, spans: tuple[int, ...]) -> None:
        """A window that is asked about some spans."""
        window = RecentWindow(eps, max_age=self.age)
        for span in spans:
            labels = {"layout": self.name, "kind": self.kind, "age": self.age, "span": span}
            self.probes.append(Probe(labels, window, {"within": span}, partial(self._first, span)))
            self.helds.append(Held(window, bounds.recent(eps, self.age * self.settings.rate)))

    def measure(self) -> list[Row]:
        s = self.settings
        full = int(np.searchsorted(self.times, self.age)) + 1
        watch(self.values, self._feed, self.probes, self.helds, full, s.moments, s.asked_in_time(), s.piece // 8)
        return [{**probe.row(), **held.row()} for probe, held in zip(self.probes, self.helds, strict=True)]

    def _feed(self, window: Any, part: slice) -> None:
        window.update(self.values[part], self.times[part])

    def _first(self, span: int, end: int) -> int:
        return int(np.searchsorted(self.times[:end], self.times[end - 1] - span, side="right"))


def measure(settings: Settings) -> dict[str, list[Row]]:
    s = settings
    rows: dict[str, list[Row]] = {"times": [], "time_ranks": [], "ages": [], "time_epsilons": [], "filters": []}
    say("windows: spans of time")
    for name in LAYOUTS:
        with layout(name):
            for kind in ("uniform", "normal", "semi-sorted", WORDS):
                spans = Spans(s, name, kind, s.age)
                spans.add(s.time_eps, (s.age, s.shorter))
                rows["times"] += spans.measure()
                if name == SHRUNK:
                    rows["time_ranks"] += [row for probe in spans.probes for row in probe.by_phi(s.asked_in_time())]
            for age in s.ages:
                spans = Spans(s, name, "uniform", age)
                spans.add(s.time_eps, (age,))
                rows["ages"] += spans.measure()
            spans = Spans(s, name, "uniform", s.age)
            for eps in s.time_epsilons:
                spans.add(eps, (s.age,))
            rows["time_epsilons"] += spans.measure()
            for size in s.filtered:
                rows["filters"].append(_filtered(s, name, size))
    rows["updates"] = [row for eps in s.time_epsilons for row in _updates(s, eps)]
    return rows


def _filtered(settings: Settings, name: str, size: int) -> Row:
    """The last values that pass a filter, counted among all."""
    s, n = settings, int(1.5 * size)
    values, key = stream(WORDS, n), np.random.default_rng(n).random(n)
    table = pa.table({"key": key, "value": values})
    window = ConstrainedWindow(last(size) & where(pc.field("key") < s.passing), s.time_eps)
    labels = {"layout": name, "kind": WORDS, "size": size, "passing": s.passing}
    probe = Probe(labels, window, {}, lambda end: end - size, key < s.passing)
    held = Held(window, bounds.recent(s.time_eps, int(s.passing * size)))

    def feed(window: Any, part: slice) -> None:
        window.update(table.slice(part.start, part.stop - part.start))

    watch(values, feed, [probe], [held], size, s.moments, s.asked_in_time(), s.piece // 8)
    return {**probe.row(), **held.row()}


def _updates(settings: Settings, eps: float) -> list[Row]:
    """Times of single updates of a few values, and of blocks, into a window of time."""
    s = settings
    n = int(1.5 * s.age * s.rate)
    values, moments = stream("uniform", n), times(n, s.rate)
    rows = []
    for size in (s.batch, s.block):
        window = RecentWindow(eps, max_age=s.age)
        window.update(values[:1], moments[:1])
        each = np.array([_seconds(window, values[part], moments[part]) for part in blocks(n, size)])
        rows.append(
            {
                "eps": eps,
                "batch": size,
                "mean": float(each.mean()),
                "median": float(np.median(each)),
                "p999": float(np.quantile(each, 0.999)),
                "worst": float(each.max()),
                "values_per_s": round(n / each.sum()),
            }
        )
    return rows


def _seconds(window: RecentWindow, values: Array, moments: Array) -> float:
    start = time.perf_counter()
    window.update(values, moments)
    return time.perf_counter() - start
