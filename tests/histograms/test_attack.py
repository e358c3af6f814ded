"""Random values, bucketed by the libraries of others, against the sorted values: no bound may be violated."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from quantide import Summary
from quantide.histograms import (
    IntervalSummary,
    count_buckets,
    exponential_buckets,
    from_otel,
    from_prometheus_native,
    to_otel_exponential,
    to_prometheus_native,
)
from tests.histograms import producers
from tests.histograms.producers import BOUNDS, Values
from tests.histograms.random_values import random_integers, random_values

Producer = Callable[[list[Values], np.random.Generator], list[IntervalSummary]]
PRODUCERS: list[Producer] = [
    producers.otel_exponential,
    producers.otel_explicit,
    producers.prometheus_text,
    producers.prometheus_pairs,
    producers.prometheus_native,
    producers.ddsketch,
    producers.hdr,
]
ABSOLUTE = (producers.otel_exponential, producers.otel_explicit)  # OpenTelemetry drops negative values
BATCH = 50


def true_rank(ordered: Any, value: float, inclusive: bool) -> int:
    return sum((x <= value if inclusive else x < value) for x in ordered)


def check_summary(summary: IntervalSummary, values: Values, rng: np.random.Generator) -> None:
    """Compare answers and ranks with the sorted values."""
    ordered = sorted(values)
    assert summary.n == len(values)
    for phi in (0.0, 0.5, 1.0, *rng.random(2)):
        answer = summary.answer(phi)
        target = max(1, int(np.ceil(phi * len(values) - 1e-9)))
        assert answer.target == target
        assert answer.value_lo <= ordered[target - 1] <= answer.value_hi, (phi, answer, ordered)
        assert answer.rank_lo <= target + answer.error * summary.n
        assert answer.rank_hi >= target - answer.error * summary.n
    for value in (*rng.choice(ordered, 2), *rng.choice(BOUNDS, 2), rng.normal()):
        for inclusive in (True, False):
            low, high = summary.rank(float(value), inclusive=inclusive)
            assert low <= true_rank(ordered, float(value), inclusive) <= high, (value, inclusive, low, high, ordered)


def check_merges(one: IntervalSummary, values: Values, rng: np.random.Generator) -> None:
    """Compare a merge with plain values and with itself, compressed and from bytes, with the sorted values."""
    more = [float(x) for x in (rng.integers(0, 100, 9) if one.type.name == "int64" else rng.normal(0, 5, 9))]
    plain = Summary.of(np.array(more).astype(one.type.dtype))
    merged = IntervalSummary.merge(one, plain, one)
    both = values + more + values
    check_summary(merged, both, rng)
    check_summary(merged.compress(int(rng.integers(2, 12))), both, rng)
    assert IntervalSummary.from_bytes(merged.to_bytes()) == merged


def check_exports(values: Values, rng: np.random.Generator) -> None:
    """Compare exported counts of an exact and of a compressed summary with the values."""
    exact = Summary.of(values)
    for source in (exact, exact.compress(3), exact.lift(2)):
        counted, missing = count_buckets(source, BOUNDS), source.n - exact.n
        true = np.diff([0, *(true_rank(values, edge, True) for edge in BOUNDS), len(values)])
        assert counted.counts.sum() == source.n
        assert ((counted.lo <= counted.counts) & (counted.counts <= counted.hi)).all()
        assert ((counted.lo <= true + missing) & (true <= counted.hi)).all(), (counted, true)
        check_exponential(source, values, rng)
    check_summary(from_prometheus_native(to_prometheus_native(exact)), values, rng)
    check_summary(from_otel(to_otel_exponential(exact, max_buckets=int(rng.integers(5, 200)))), values, rng)


def check_exponential(source: Summary, values: Values, rng: np.random.Generator) -> None:
    threshold = float(rng.choice([2.0**-1022, 0.01]))
    scale = int(rng.integers(-4, 4)) if rng.integers(2) else None
    made, missing = exponential_buckets(source, scale, zero_threshold=threshold), source.n - len(values)
    sides = (made.negative, made.zero, made.positive)
    assert sum(int(side.counts.sum()) for side in sides) == source.n
    for sign, side in ((-1, made.negative), (1, made.positive)):
        sizes = [sign * x for x in values if sign * x > threshold]
        assert ((side.lo >= 0) & (side.lo <= side.counts) & (side.counts <= side.hi)).all()
        for i, (low, high) in enumerate(zip(side.lo, side.hi, strict=True)):
            a, b = (_power(side.first + i + k, made.scale) for k in range(2))
            assert low <= sum(a < x <= b for x in sizes) + missing, (side, sizes)
            assert sum(a < x <= b for x in sizes) <= high, (side, sizes)
    zeros = sum(abs(x) <= threshold for x in values)
    assert made.zero.lo[0] <= zeros + missing
    assert zeros <= made.zero.hi[0]


def _power(index: int, scale: int) -> float:
    """Return an edge in the way of the export: its rounding is part of its definition."""
    from quantide.histograms.exponential_edges import powers_of_two

    return float(powers_of_two(np.array([index]), scale)[0])


def attack(producer: Producer, cases: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(cases // BATCH):
        draw = random_integers if producer is producers.hdr else random_values
        batch = [draw(rng) for _ in range(BATCH)]
        for values, summary in zip(batch, producer(batch, rng), strict=True):
            seen = [abs(x) for x in values] if producer in ABSOLUTE else values
            check_summary(summary, seen, rng)
            check_merges(summary, seen, rng)


@pytest.mark.parametrize("producer", PRODUCERS, ids=lambda producer: producer.__name__)
def test_no_bound_is_violated(producer: Producer) -> None:
    attack(producer, 100, 1)


def attack_exports(cases: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(cases):
        check_exports(random_values(rng), rng)


def test_no_exported_count_is_out_of_its_bounds() -> None:
    attack_exports(100, 3)
