"""Imports and exports of histograms a second, one by one, in processor time."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench import environment
from bench.collection import Subject
from bench.report import Row, show, sized
from quantide import Summary
from quantide.histograms import (
    IntervalSummary,
    count_buckets,
    from_ddsketch,
    from_hdr,
    from_otel,
    from_prometheus_buckets,
    from_prometheus_native,
    from_prometheus_text,
    to_otel_explicit,
    to_otel_exponential,
    to_prometheus_native,
    to_prometheus_text,
)

SEED, MEDIAN, SIGMA = 29, 0.05, 1.0  # latencies in seconds: lognormal
EDGES = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0]  # default of Prometheus clients
PACKAGES = ("ddsketch", "hdrh")
Call = Callable[[Any], Any]


@dataclass(frozen=True)
class Settings:
    """`histograms` of `n` values each, all different, are read and written in each of `rounds`."""

    histograms: int = sized(2_000, 1_000, 20)
    n: int = sized(1_000, quick=50)
    rounds: int = sized(9, 5, 1)


def latencies(s: Settings) -> list[np.ndarray[Any, np.dtype[np.float64]]]:
    rng = np.random.default_rng(SEED)
    return [rng.lognormal(np.log(MEDIAN * (1 + k % 7)), SIGMA, s.n) for k in range(s.histograms)]


def rate(call: Call, inputs: list[Any], rounds: int) -> Row:
    """Return the number of calls in a second of processor time, the best of some rounds."""
    call(inputs[0])
    seconds = []
    for _ in range(rounds):
        begun = time.thread_time()
        for one in inputs:
            call(one)
        seconds.append(time.thread_time() - begun)
    return {"per_s": round(len(inputs) / max(min(seconds), 1e-9))}


def hdr_texts(columns: list[Any]) -> list[Any]:
    from hdrh.histogram import HdrHistogram

    texts = []
    for column in columns:
        histogram = HdrHistogram(1, 60_000_000, 2)
        for microseconds in (column * 1e6).astype(int).tolist():
            histogram.record_value(microseconds)
        texts.append(histogram.encode())
    return texts


def ddsketches(columns: list[Any]) -> list[Any]:
    from ddsketch import DDSketch

    made = []
    for column in columns:
        sketch = DDSketch(0.01)
        for value in column.tolist():
            sketch.add(value)
        made.append(sketch)
    return made


def read_text(text: str) -> IntervalSummary:
    return from_prometheus_text(text, "a")[()]


def imports(s: Settings) -> list[Row]:
    """Measure imports of histograms that were exported here, and of sketches of other libraries."""
    columns = latencies(s)
    exact = [Summary.of(column) for column in columns]
    classic = [to_otel_explicit(one, EDGES) for one in exact]
    pairs = [
        [*zip(EDGES, np.cumsum([int(c) for c in one["bucketCounts"]])[:-1].tolist(), strict=True), (np.inf, s.n)]
        for one in classic
    ]
    forms: list[tuple[str, Call, list[Any]]] = [
        ("OpenTelemetry, exponential", from_otel, [to_otel_exponential(one) for one in exact]),
        ("OpenTelemetry, explicit", from_otel, classic),
        ("Prometheus, native", from_prometheus_native, [to_prometheus_native(one) for one in exact]),
        ("Prometheus, classic", from_prometheus_buckets, pairs),
        ("Prometheus, text", read_text, [to_prometheus_text(one, "a", EDGES) for one in exact]),
    ]
    if environment.load("ddsketch"):
        forms.append(("DDSketch, 1%", from_ddsketch, ddsketches(columns)))
    if environment.load("hdrh"):
        forms.append(("HdrHistogram, 2 digits, encoded", from_hdr, hdr_texts(columns)))
    rows = []
    for name, call, inputs in forms:
        show(f"histograms: import of {name}")
        row = {"format": name, "buckets": round(float(np.mean([len(np.unique(call(x).high.values)) for x in inputs])))}
        rows.append(row | rate(call, inputs, s.rounds))
    merged = rate(lambda group: IntervalSummary.merge(*group), [[from_otel(x) for x in classic]], s.rounds)
    return [*rows, {"format": "merge of explicit ones", "buckets": 12, "per_s": merged["per_s"] * len(classic)}]


def exports(s: Settings) -> list[Row]:
    """Measure exports of summaries that were compressed to 200 tuples."""
    sources = [Summary.of(column).compress(200, 0.01) for column in latencies(s)]
    forms: list[tuple[str, Call]] = [
        ("OpenTelemetry, exponential", to_otel_exponential),
        ("OpenTelemetry, explicit", lambda x: to_otel_explicit(x, EDGES)),
        ("Prometheus, native", to_prometheus_native),
        ("Prometheus, text", lambda x: to_prometheus_text(x, "a", EDGES)),
        ("counts with bounds", lambda x: count_buckets(x, EDGES)),
    ]
    rows = []
    for name, call in forms:
        show(f"histograms: export of {name}")
        rows.append({"format": name} | rate(call, sources, s.rounds))
    return rows


PARTS = {"imports": imports, "exports": exports}
SUBJECT = Subject("histograms of other systems, in and out", Settings, PARTS, packages=PACKAGES)
