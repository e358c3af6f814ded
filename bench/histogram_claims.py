"""Claims of histograms that other libraries made, of counts in buckets, and of histograms that were exported."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.comparison_claims import draw_phi, draw_value
from bench.exact_data import Array, ExactData
from bench.random_data import FLOATS, INTEGERS, Rng, Sample, draw_sample, draw_values
from bench.violation_search import Claim
from quantide import Summary
from quantide.histograms import (
    IntervalSummary,
    count_buckets,
    exponential_buckets,
    from_otel,
    from_prometheus_native,
    from_prometheus_text,
    to_otel_explicit,
    to_otel_exponential,
    to_prometheus_native,
    to_prometheus_text,
)
from tests.histograms import producers
from tests.histograms.random_values import random_integers, random_values

QUERIES = 8  # of one summary, each with its own argument
BATCH = 20  # histograms that are made together
PRODUCERS = {
    "OpenTelemetry, exponential": producers.otel_exponential,
    "OpenTelemetry, explicit": producers.otel_explicit,
    "Prometheus, text": producers.prometheus_text,
    "Prometheus, classic": producers.prometheus_pairs,
    "Prometheus, native": producers.prometheus_native,
    "DDSketch": producers.ddsketch,
    "HdrHistogram": producers.hdr,
}
ABSOLUTE = ("OpenTelemetry, exponential", "OpenTelemetry, explicit")  # OpenTelemetry drops negative values
FINITE = {name: shape for name, shape in FLOATS.items() if "infini" not in name}


@dataclass
class Histogram:
    """Values, a histogram of them as it was imported, and with what was merged to it."""

    rng: Rng
    data: ExactData
    summary: IntervalSummary


def draw_numbers(rng: Rng) -> list[float]:
    """Return values that are hard for histograms, or up to 400 of a smooth shape."""
    if rng.random() < 0.7:
        return random_values(rng)
    return [float(x) for x in rng.lognormal(0, rng.choice([0.1, 1, 4]), int(rng.integers(40, 400)))]


def draw_histograms(name: str) -> Callable[[Rng], list[Histogram]]:
    """Return a function that draws histograms of one format: as imported, merged, compressed, from bytes."""

    def draw(rng: Rng) -> list[Histogram]:
        lists = [random_integers(rng) if name == "HdrHistogram" else draw_numbers(rng) for _ in range(BATCH)]
        made, drawn = PRODUCERS[name](lists, rng), list[Histogram]()
        for values, summary in zip(lists, made, strict=True):
            counted = np.abs(values) if name in ABSOLUTE else np.array(values)
            counted = counted.astype(summary.type.dtype)
            drawn += [Histogram(rng, ExactData(counted), summary), _merged(rng, counted, summary)]
        return drawn

    return draw


def _merged(rng: Rng, values: Array, summary: IntervalSummary) -> Histogram:
    """Merge with plain values and with itself; compress."""
    more = rng.integers(0, 100, int(rng.integers(1, 30))).astype(values.dtype)
    merged = IntervalSummary.merge(summary, Summary.of(more).compress(int(rng.integers(1, 30))), summary)
    if rng.random() < 0.7:
        merged = IntervalSummary.from_bytes(merged.compress(int(rng.integers(2, 40))).to_bytes())
    return Histogram(rng, ExactData(np.concatenate((values, more, values))), merged)


def quantile(histograms: list[Histogram]) -> Iterator[Claim]:
    for one in histograms:
        for phi in {draw_phi(one.rng) for _ in range(QUERIES)}:
            yield (*one.summary.bounds(phi), one.data.at(one.data.target(phi)))


def rank(histograms: list[Histogram]) -> Iterator[Claim]:
    for one in histograms:
        points = [*(draw_value(one.rng, one.data) for _ in range(QUERIES - 2)), *one.rng.choice(producers.BOUNDS, 2)]
        if one.summary.type.name == "int64":
            points = [int(point) for point in points]
        values, inclusive = np.unique(points), bool(one.rng.integers(2))
        low, high = one.summary.rank(values, inclusive=inclusive)
        exact = (one.data.count(value, inclusive) for value in values.tolist())
        yield from zip(low, high, exact, strict=True)


def interval_counts(histograms: list[Histogram]) -> Iterator[Claim]:
    """Yield counts between edges of histograms, whose values are known up to intervals."""
    for one in histograms:
        edges = bucket_edges(one.rng, one.data)
        counted = count_buckets(one.summary, edges)
        yield from zip(counted.lo, counted.hi, one.data.masses(edges), strict=True)


IMPORT_CHECKS = {"bounds of a quantile": quantile, "rank": rank, "count_buckets": interval_counts}


@dataclass
class Source:
    """A sample, and a histogram of each summary that may be exported."""

    rng: Rng
    sample: Sample


def draw_source(rng: Rng) -> Source:
    """Return data without infinite values, which have no exponential bucket."""
    return Source(rng, draw_sample(rng, draw_values(rng, {**FINITE, **INTEGERS}), 2))


def bucket_edges(rng: Rng, data: ExactData) -> list[float]:
    return sorted({float(draw_value(rng, data)) for _ in range(rng.integers(1, 9))})


def bucket_counts(source: Source) -> Iterator[Claim]:
    for summary in source.sample.complete:
        edges = bucket_edges(source.rng, source.sample.data)
        counted = count_buckets(summary, edges)
        yield from zip(counted.lo, counted.hi, source.sample.data.masses(edges), strict=True)


def power_edges(first: int, number: int, scale: int) -> Array:
    """Return powers 2^(i / 2^scale) with 64 significant bits."""
    exponents = np.arange(first, first + number).astype(np.longdouble) * np.longdouble(2.0) ** -scale
    return np.asarray(np.exp2(exponents))


def exponential_counts(source: Source) -> Iterator[Claim]:
    """Yield the counts between powers; values within two units in the last place of a power may be on either side."""
    for summary in source.sample.complete:
        scale = int(source.rng.integers(-4, 6)) if source.rng.random() < 0.5 else None
        threshold = float(source.rng.choice([2.0**-1022, 0.01]))
        made = exponential_buckets(summary, scale, max_buckets=40 if scale is None else 160, zero_threshold=threshold)
        for sign, side in ((-1, made.negative), (1, made.positive)):
            if len(side.lo) and len(side.lo) <= 200:
                yield from _counts_of_side(source, sign, side, made.scale, threshold)


def _counts_of_side(source: Source, sign: int, side: Any, scale: int, threshold: float) -> Iterator[Claim]:
    data = source.sample.data
    counts, sizes = np.diff(data.cumulative, prepend=0), np.abs(data.values.astype(np.longdouble))
    is_inside = (np.sign(data.values.astype(np.float64)) == sign) & (sizes > threshold)
    counts, sizes = counts[is_inside], sizes[is_inside]
    edges = power_edges(side.first, len(side.lo) + 1, scale)
    margin = edges * np.longdouble(2.0) ** -51
    order = np.argsort(sizes)
    sums, sizes = np.append(0, np.cumsum(counts[order])), sizes[order]
    least, most = (sums[np.searchsorted(sizes, edges + each, "right")] for each in (-margin, margin))
    surely, possibly = np.maximum(least[1:] - most[:-1], 0), most[1:] - least[:-1]
    nearest = np.clip(side.lo, surely, possibly)  # a number of values that the edges allow
    yield from zip(side.lo, side.hi, nearest.tolist(), strict=True)


EXPORT_CHECKS = {
    "count_buckets": bucket_counts,
    "exponential_buckets": exponential_counts,
}


def draw_round_trips(rng: Rng) -> list[Histogram]:
    """Return an exact summary that was exported and imported again, once in each form."""
    values = draw_values(rng, FINITE).astype(np.float64)
    exact, data, edges = Summary.of(values), ExactData(values), bucket_edges(rng, ExactData(values))
    forms: Iterable[Callable[[], IntervalSummary]] = (
        lambda: from_otel(to_otel_explicit(exact, edges)),
        lambda: from_otel(to_otel_exponential(exact, max_buckets=int(rng.integers(5, 200)))),
        lambda: from_prometheus_native(to_prometheus_native(exact)),
        lambda: from_prometheus_text(to_prometheus_text(exact, "a", edges), "a")[()],
    )
    return [Histogram(rng, data, form()) for form in forms]
