"""Histograms of given values, made by the libraries that other systems use, or by naive code where there is none."""

import math
from bisect import bisect_left
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from ddsketch import DDSketch, LogCollapsingHighestDenseDDSketch, LogCollapsingLowestDenseDDSketch
from ddsketch.pb.proto import DDSketchProto
from hdrh.histogram import HdrHistogram
from opentelemetry.sdk.metrics import Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, InMemoryMetricReader
from opentelemetry.sdk.metrics.view import (
    Aggregation,
    ExplicitBucketHistogramAggregation,
    ExponentialBucketHistogramAggregation,
    View,
)
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client import Histogram as PrometheusHistogram

from quantide.histograms import (
    IntervalSummary,
    from_ddsketch,
    from_hdr,
    from_otel,
    from_prometheus_buckets,
    from_prometheus_native,
    from_prometheus_text,
)

Values = list[float]
BOUNDS = [0.0, 0.005, 0.01, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0, 1000.0]


def otel_points(cases: list[Values], aggregation: Aggregation) -> list[Any]:
    """Return a data point of the OpenTelemetry SDK for each list of values that are not negative."""
    reader = InMemoryMetricReader(preferred_temporality={Histogram: AggregationTemporality.DELTA})
    view = View(instrument_type=Histogram, aggregation=aggregation)
    provider = MeterProvider([reader], views=[view], shutdown_on_exit=False)
    histogram = provider.get_meter("attack").create_histogram("values")
    for case, values in enumerate(cases):
        for value in values:
            histogram.record(value, {"case": case})
    data = reader.get_metrics_data()
    assert data is not None
    points = data.resource_metrics[0].scope_metrics[0].metrics[0].data.data_points
    provider.shutdown()
    found: dict[Any, Any] = {point.attributes["case"]: point for point in points if point.attributes}
    return [found[case] for case in range(len(cases))]


def otel_exponential(cases: list[Values], rng: np.random.Generator) -> list[IntervalSummary]:
    aggregation = ExponentialBucketHistogramAggregation(
        max_size=int(rng.integers(2, 200)), max_scale=int(rng.integers(-5, 21))
    )
    points = otel_points([[abs(x) for x in values] for values in cases], aggregation)
    return [from_otel(point) for point in points]


def otel_explicit(cases: list[Values], rng: np.random.Generator) -> list[IntervalSummary]:
    recorded = bool(rng.integers(2))
    points = otel_points(
        [[abs(x) for x in values] for values in cases], ExplicitBucketHistogramAggregation(BOUNDS, recorded)
    )
    return [from_otel(point) for point in points]


def prometheus_text(cases: list[Values], rng: np.random.Generator) -> list[IntervalSummary]:
    registry = CollectorRegistry()
    metric = PrometheusHistogram("values", "text", ["case"], buckets=BOUNDS, registry=registry)
    for case, values in enumerate(cases):
        for value in values:
            metric.labels(str(case)).observe(value)
    found = from_prometheus_text(generate_latest(registry).decode(), "values")
    return [found[(("case", str(case)),)] for case in range(len(cases))]


def prometheus_pairs(cases: list[Values], rng: np.random.Generator) -> list[IntervalSummary]:
    edges = [*BOUNDS, math.inf]
    return [
        from_prometheus_buckets([(edge, sum(x <= edge for x in values)) for edge in edges], count=len(values))
        for values in cases
    ]


@lru_cache
def fraction_edges(schema: int) -> list[float]:
    return [0.5 * 2 ** (i / 2**schema) for i in range(2**schema)]


def native_index(value: float, schema: int) -> int:
    """Return the index of Prometheus for a value above 0, by comparison with the edges of one power of two."""
    fraction, exponent = math.frexp(value)  # value = fraction * 2 ** exponent, 0.5 <= fraction < 1
    if schema <= 0:
        power = exponent - (fraction == 0.5)
        return -((-power) >> -schema)
    return bisect_left(fraction_edges(schema), fraction) + ((exponent - 1) << schema)


def native(values: Values, schema: int, threshold: float) -> dict[str, Any]:
    """Return a native histogram of Prometheus with spans and deltas."""
    signs: dict[str, dict[int, int]] = {"positive": {}, "negative": {}}
    zeros = 0
    for value in values:
        if abs(value) <= threshold:
            zeros += 1
            continue
        side, index = signs["positive" if value > 0 else "negative"], native_index(abs(value), schema)
        side[index] = side.get(index, 0) + 1
    made: dict[str, Any] = {"sample_count": len(values), "schema": schema, "zero_count": zeros}
    for sign, counts in signs.items():
        spans: list[list[int]] = []
        deltas, last, before = [], 0, 0
        for index in sorted(counts):
            if spans and index == last:
                spans[-1][1] += 1
            else:
                spans.append([index - last, 1])
            deltas.append(counts[index] - before)
            last, before = index + 1, counts[index]
        made |= {f"{sign}_span": [{"offset": a, "length": b} for a, b in spans], f"{sign}_delta": deltas}
    return made | {"zero_threshold": threshold}


def prometheus_native(cases: list[Values], rng: np.random.Generator) -> list[IntervalSummary]:
    schema, threshold = int(rng.integers(-4, 9)), float(rng.choice([0.0, 2.0**-128, 0.01]))
    exact = bool(rng.integers(2))
    return [from_prometheus_native(native(values, schema, threshold), exact=exact) for values in cases]


DDSKETCHES: list[Callable[[float], Any]] = [
    DDSketch,
    lambda accuracy: LogCollapsingLowestDenseDDSketch(accuracy, 32),
    lambda accuracy: LogCollapsingHighestDenseDDSketch(accuracy, 32),
]


def ddsketch(cases: list[Values], rng: np.random.Generator) -> list[IntervalSummary]:
    """Objects and messages, some of them merged from two parts."""
    made = []
    for values in cases:
        store, accuracy, cut = int(rng.integers(3)), float(rng.choice([0.001, 0.01, 0.05])), int(rng.integers(9))
        sketch, other = DDSKETCHES[store](accuracy), DDSKETCHES[store](accuracy)
        for value in values[cut:]:
            sketch.add(value)
        for value in values[:cut]:
            other.add(value)
        sketch.merge(other)
        message, form = DDSketchProto.to_proto(sketch), int(rng.integers(3))
        end = ("none", "lowest", "highest")[store]
        if form == 0:
            made.append(from_ddsketch(sketch))
        else:
            data = message if form == 1 else message.SerializeToString()
            made.append(from_ddsketch(data, rounding="up", collapsed=end))
    return made


def hdr(cases: list[Values], rng: np.random.Generator) -> list[IntervalSummary]:
    made = []
    for values in cases:
        digits, low = int(rng.integers(1, 4)), int(rng.choice([1, 10, 1000]))
        histogram = HdrHistogram(low, 2**40, digits)
        for value in values:
            assert histogram.record_value(int(value))
        made.append(from_hdr(histogram if rng.integers(2) else histogram.encode()))
    return made
