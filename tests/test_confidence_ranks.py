"""Confidence intervals of quantiles by order statistics: exact binomial tails, for every number of values."""

import math
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import cast

import numpy as np
import pytest

from quantide import Summary
from quantide.errors import InvalidArgumentError
from quantide.summary.confidence_ranks import confidence_ranks, lower_tail


def exact_tail(n: int, phi: float, count: int) -> Fraction:
    p = Fraction(phi)
    return sum((math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(count + 1)), Fraction(0))


@pytest.mark.parametrize("n", [1, 2, 5, 17, 60, 200])
@pytest.mark.parametrize("phi", [0.01, 0.3, 0.5, 0.9, 0.99])
def test_ranks_are_the_narrowest_with_this_confidence(n: int, phi: float) -> None:
    for level in (0.5, 0.9, 0.95, 0.999):
        low, high = confidence_ranks(n, phi, level)
        half = Fraction(1 - level) / 2
        assert low == 0 or exact_tail(n, phi, low - 1) <= half
        assert high == n + 1 or 1 - exact_tail(n, phi, high - 1) <= half
        nearly = half * Fraction(1 - 10**-6)
        assert exact_tail(n, phi, low) > nearly
        assert high == 1 or 1 - exact_tail(n, phi, high - 2) > nearly


@pytest.mark.parametrize("expected", [1e-6, 0.0066, 0.0277, 0.1, 1.0, 5.0])
@pytest.mark.parametrize("n", [140, 9_000, 20_000])
def test_tails_of_skewed_counts_are_not_below_the_exact_ones(n: int, expected: float) -> None:
    """Few values are expected above the quantile, so that a tail has more than its first few terms."""
    phi = 1 - expected / n
    p, q = Decimal(phi), 1 - Decimal(phi)
    with localcontext(Context(prec=60)):
        for below in (1, 2, 3):
            terms = (math.comb(n, k) * p ** (n - k) * q**k for k in range(below, min(n, 120)))
            exact = sum(terms, Decimal(0))
            assert 0 <= Decimal(lower_tail(n, phi, 1 - phi, n - below)) / exact - 1 < 1e-8


def test_a_level_just_below_that_of_an_interval_is_not_claimed() -> None:
    """P(X <= 139) is 0.00663403, the sum of more than two terms."""
    n, phi = 140, 0.9999524573121535
    half = Fraction(0.006634)
    assert exact_tail(n, phi, 139) > half
    low, _ = confidence_ranks(n, phi, 1 - 2 * 0.006634)
    assert low == 139


@pytest.mark.parametrize(("n", "count"), [(10_000, 4_900), (40_000, 19_700), (3_000_000, 1_498_000)])
def test_tails_in_groups_are_slightly_above_the_exact_ones(n: int, count: int) -> None:
    logs = [
        math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) - n * math.log(2) for k in range(count + 1)
    ]
    exact = math.fsum(map(math.exp, logs))
    assert 0.999_99 < lower_tail(n, 0.5, 0.5, count) / exact < 1.01


@pytest.mark.parametrize("n", [10**8, 10**12, 2**53])
def test_many_values_give_nearly_the_normal_interval(n: int) -> None:
    low, high = confidence_ranks(n, 0.99, 0.95)
    deviation = math.sqrt(n * 0.99 * 0.01)
    assert 1.95 < (n * 0.99 - low) / deviation < 1.99
    assert 1.95 < (high - n * 0.99) / deviation < 1.99


def test_intervals_contain_the_quantile_of_the_population_as_often_as_they_say() -> None:
    rng, inside = np.random.default_rng(3), 0
    for _ in range(400):
        low, high = Summary.of(rng.random(200)).compress(50).confidence_interval(0.7, 0.9)
        inside += low <= 0.7 <= high
    assert inside >= 360


def test_shifts_of_populations_are_wider_than_those_of_the_data() -> None:
    rng = np.random.default_rng(4)
    found = Summary.of(rng.normal(size=1000)).compare(Summary.of(rng.normal(size=1000)))
    low, high = found.confidence_interval(0.5)
    assert low < 0 < high
    assert low < found.shift(0.5)[0] <= found.shift(0.5)[1] < high


@pytest.mark.parametrize("phi", [5e-324, 1e-300, 1e-17, 1e-9, 1 - 2**-53])
def test_quantiles_next_to_an_end_have_an_interval(phi: float) -> None:
    for n in (1, 2, 40):
        low, high = confidence_ranks(n, phi, 0.95)
        half = Fraction(1 - 0.95) / 2
        assert low == 0 or exact_tail(n, phi, low - 1) <= half
        assert high == n + 1 or 1 - exact_tail(n, phi, high - 1) <= half


def test_a_rounded_level_of_one_is_refused() -> None:
    for level in (np.float32(1), np.float16(0.9999)):
        with pytest.raises(InvalidArgumentError, match="probability below 1"):
            Summary.of([1.0]).confidence_interval(0.5, cast(float, level))


def test_too_few_values_leave_an_end_open() -> None:
    assert Summary.of([1.0, 2.0]).confidence_interval(0.5) == (None, None)
    assert Summary.of([1.0, 2.0]).confidence_interval(0.0) == (None, 1.0)
    for level in (0, 1, "high"):
        with pytest.raises(InvalidArgumentError):
            Summary.of([1.0]).confidence_interval(0.5, level)  # type: ignore[arg-type]
