"""Comparisons and sums over ranks: every interval contains the exact result of all the data."""

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantide import GKSketch, Monitor, RecentWindow, SlidingWindow, StreamSketch, Summary
from quantide.errors import EmptyError, InvalidArgumentError, TypeMismatchError, UnprovedError
from quantide.histograms import from_prometheus_buckets
from quantide.summary.cdf_distance import find_ks, find_wasserstein, gaps_of
from tests import comparison_oracle as oracle
from tests.comparison_cases import comparison_faults, sum_faults

SEEDS = range(4)
NUMBERS = st.lists(st.floats(allow_nan=False), min_size=1, max_size=30)
WHOLE = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=30)


@pytest.mark.parametrize("seed", SEEDS)
def test_comparisons_contain_the_exact_result(seed: int) -> None:
    assert list(comparison_faults(seed, 250)) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_sums_contain_the_exact_one(seed: int) -> None:
    assert list(sum_faults(seed, 250)) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 120))
def test_no_bound_is_violated_in_fifty_thousand_cases(seed: int) -> None:
    assert list(comparison_faults(seed, 2_500)) == []
    assert list(sum_faults(seed, 2_500)) == []


@given(st.one_of(st.tuples(NUMBERS, NUMBERS), st.tuples(WHOLE, WHOLE)), st.integers(1, 8))
def test_distances_of_any_numbers(data: tuple[list[Any], list[Any]], size: int) -> None:
    a, b = data
    found = Summary.of(a).compress(size).compare(Summary.of(b).compress(size), bins=4)
    assert oracle.contains(found.ks, oracle.ks_distance(a, b))
    assert oracle.contains(found.wasserstein, oracle.wasserstein_distance(a, b))
    assert oracle.contains(found.psi, oracle.stability_index(a, b, found.splits.tolist(), found.floor))


@given(st.one_of(NUMBERS, WHOLE), st.integers(1, 8), st.floats(0, 0.49))
def test_means_of_any_numbers(data: list[Any], size: int, cut: float) -> None:
    summary, share = Summary.of(data).compress(size), Fraction(cut)
    assert oracle.contains(summary.trimmed_mean(cut), oracle.mean_between(data, share, 1 - share))
    assert oracle.contains(summary.winsorised_mean(cut), oracle.winsorised_mean(data, share))
    assert oracle.contains(summary.sum(), oracle.rank_sum(data, Fraction(0), Fraction(len(data))))


def test_exact_summaries_give_exact_results() -> None:
    a, b = [1, 2, 3, 4], [2, 3, 4, 5]
    found = Summary.of(a).compare(Summary.of(b), phis=[0.5, 1.0])
    assert found.ks == (0.25, 0.25)
    assert found.shifts == {0.5: (-1, -1), 1.0: (-1, -1)}
    assert found.is_above(0.5) is False
    assert Summary.of(b).compare(Summary.of(a)).is_above(0.5) is True
    assert found.wasserstein == pytest.approx((1.0, 1.0), rel=1e-12)
    assert Summary.of(a).sum() == (10, 10)
    assert Summary.of(a).mean() == (2.5, 2.5)
    assert Summary.of(a).sum_above(2) == (7, 7)
    assert Summary.of(a).trimmed_mean(0.25) == (2.5, 2.5)


def test_the_same_data_has_no_distance() -> None:
    values = np.random.default_rng(1).normal(size=1000)
    found = Summary.of(values).compare(Summary.of(values), bins=5)
    assert found.ks == (0, 0)
    assert found.psi[0] == 0
    assert found.psi[1] < 1e-20
    assert found.wasserstein == (0, 0)
    assert set(found.shifts.values()) == {(0.0, 0.0)}
    assert found.is_above(0.9) is False


@given(NUMBERS, NUMBERS, st.integers(1, 8), st.floats(0, 1))
def test_a_distance_is_above_a_limit_only_if_proved(a: list[float], b: list[float], size: int, limit: float) -> None:
    found, exact = Summary.of(a).compress(size).compare(Summary.of(b).compress(size)), oracle.ks_distance(a, b)
    for limits in (limit, found.ks[0], found.ks[1], float(exact)):
        assert found.proves_above("ks", limits) in (None, exact > Fraction(limits))
    assert found.proves_above("ks", found.ks[1]) is False
    assert found.proves_above("ks", -1) is True
    assert (found.ks[0] > limit) == (found.proves_above("ks", limit) is True)


def test_limits_of_numpy_are_compared_without_rounding() -> None:
    found = Summary.of([1.0] * 15 + [0.0] * 14).compare(Summary.of([0.0]))
    below, above = np.float32(15 / 29), np.nextafter(np.float32(15 / 29), np.float32(1))
    assert float(below) < 15 / 29 < float(above)
    assert found.proves_above("ks", below) is True
    assert found.proves_above("ks", above) is False
    far = Summary.of([2**53 + 2]).compare(Summary.of([0]))  # as a float, the limit is 2**53 + 4
    assert far.proves_above("wasserstein", np.int64(2**53 + 3)) is not True


def test_given_splits_of_float32_are_those_that_are_counted() -> None:
    values = np.full(3, 0.1, dtype=np.float32)  # above 0.1
    found = Summary.of(values).compare(Summary.of(values), bins=[0.1, 0.5])
    assert found.splits.tolist() == [0.1, 0.5]


def test_a_sum_above_the_smallest_threshold_is_exact() -> None:
    assert Summary.of([-math.inf, -2.0, 3.0]).sum_above(-math.inf) == (1.0, 1.0)


@pytest.mark.parametrize(("measure", "limit"), [("mean", 1), (None, 1), ("ks", "0.1"), ("ks", True), ("psi", math.nan)])
def test_a_limit_is_a_number_of_a_known_distance(measure: Any, limit: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"not a distance|give a number"):
        Summary.of([1.0]).compare(Summary.of([2.0])).proves_above(measure, limit)


def test_what_is_not_proved_is_neither_yes_nor_no() -> None:
    a = Summary.of(range(1000)).compress(4)
    found = a.compare(Summary.of(range(10, 1010)).compress(4), phis=[0.4])
    assert found.is_above(0.4) is None
    assert "not proved" in repr(found)


def test_many_values_whose_products_exceed_64_bits() -> None:
    """Fractions of n values each are then rounded, and outward."""
    own, other = [2**51 + 3, 2**52 - 7, 5, 11], [17, 2**52 + 1, 2**51 - 3, 9]
    a, b = Summary.of([1.0, 2.0, 3.0, 4.0], weights=own), Summary.of([1.0, 2.0, 3.0, 4.0], weights=other)
    gaps = gaps_of(a, b)
    assert gaps.scale == 1
    shares = [[Fraction(sum(weights[: i + 1]), sum(weights)) for i in range(4)] for weights in (own, other)]
    exact = max(abs(x - y) for x, y in zip(*shares, strict=True))
    low, high = find_ks(gaps)
    assert low < high < low + 1e-14
    assert oracle.contains((low, high), exact)
    assert math.isfinite(find_wasserstein(gaps, 0)[1])


def test_every_structure_compares_with_every_other() -> None:
    values = np.random.default_rng(2).normal(size=500)
    sources: list[Any] = [Summary.of(values)]
    for sketch in (StreamSketch(0.01), GKSketch(0.01), SlidingWindow(500, 0.01), RecentWindow(0.01), Monitor(0.01)):
        sketch.update(values)
        sources.append(sketch)
    for a in sources:
        for b in sources:
            low, high = a.compare(b).ks
            assert low == 0
            assert high < 0.1


@pytest.mark.parametrize(
    ("a", "b", "shift"),
    [
        (np.array([1, 2], "i4"), np.array([1.5, 2.5], "f4"), -0.5),
        ([Decimal("1.5")], [Decimal("1.25")], Decimal("0.25")),
        (np.array([5], "m8[s]"), np.array([100], "m8[ms]"), np.timedelta64(4900, "ms")),
        (np.array(["2026-01-02"], "M8[D]"), np.array(["2026-01-01"], "M8[D]"), np.timedelta64(1, "D")),
    ],
)
def test_types_that_compare(a: Any, b: Any, shift: Any) -> None:
    found = Summary.of(a).compare(Summary.of(b), phis=[0.5])
    assert found.shifts == {0.5: (shift, shift)}
    assert found.ks[1] > 0
    assert found.wasserstein[1] > 0
    assert found.psi[0] >= 0


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([1.0], np.array([1], "M8[s]")),
        ([Decimal("1.5")], [1.5]),
        (np.array([1], "m8[s]"), np.array([1], "M8[s]")),
        ([2**60], [1.5]),
        ([10**17], [Decimal("0.123456789")]),
        ([1.0], "text"),
        ([1.0], [1.0, 2.0]),
    ],
)
def test_types_that_do_not_compare_raise(a: Any, b: Any) -> None:
    other = Summary.of(b) if not isinstance(b, str) and len(b) == 1 else b
    with pytest.raises(TypeMismatchError):
        Summary.of(a).compare(other)


def test_upper_ends_of_zero_have_no_sign() -> None:
    same = Summary.of([1.0, 2.0])
    found = same.compare(same)
    ends = (*found.ks, *found.psi, *found.wasserstein, *found.shift(0.5), *Summary.of([0.0]).sum())
    assert all(math.copysign(1, end) == 1 for end in ends), ends


def test_a_histogram_is_compared_by_its_ends() -> None:
    histogram = from_prometheus_buckets([(1.0, 5), ("+Inf", 9)], smallest=0.0, largest=2.0)
    with pytest.raises(UnprovedError, match="known only up to intervals"):
        Summary.of([1.0]).compare(histogram)  # type: ignore[arg-type]
    assert histogram.high.compare(histogram.high).ks == (0.0, 0.0)


def test_invalid_arguments_raise() -> None:
    a = Summary.of([1.0, 2.0])
    for arguments in ({"phis": [2]}, {"bins": 1}, {"bins": 10**9}, {"bins": [2.0, 1.0]}, {"bins": "ten"}, {"floor": 1}):
        with pytest.raises(InvalidArgumentError):
            a.compare(a, **arguments)
    for cut in (-0.1, 0.5, "half", math.nan):
        with pytest.raises(InvalidArgumentError):
            a.trimmed_mean(cut)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError):
        a.expected_shortfall(1.0)
    with pytest.raises(InvalidArgumentError):
        a.sum_above([1.0, 2.0])
    with pytest.raises(EmptyError, match="b, the reference, has no values"):
        a.compare(Summary.of([]))
    with pytest.raises(EmptyError, match="a has no values"):
        Summary.of([]).compare(a)
    for labels in ((), ("today",), ("a", "b", "c")):
        with pytest.raises(InvalidArgumentError, match="two names"):
            a.compare(a).plot(labels=labels)  # type: ignore[arg-type]
    with pytest.raises(EmptyError):
        Summary.of([]).mean()


def test_times_have_means_and_durations_have_sums() -> None:
    days = Summary.of(np.array(["2026-01-01", "2026-01-02"], "M8[D]"))
    assert days.mean() == (np.datetime64("2026-01-01"), np.datetime64("2026-01-02"))
    with pytest.raises(TypeMismatchError):
        days.sum()
    spans = Summary.of(np.array([1500, 2500], "m8[ms]"))
    assert spans.sum() == (np.timedelta64(4, "s"), np.timedelta64(4, "s"))
    assert Summary.of([Decimal("1.50"), Decimal("2.25")]).sum() == (Decimal("3.75"), Decimal("3.75"))


def test_a_lifted_summary_leaves_open_what_it_has_not_seen() -> None:
    lifted = Summary.of(range(100)).lift(10)
    assert lifted.mean() == (-math.inf, math.inf)
    assert lifted.sum_above(50)[0] > 0
    low, high = lifted.trimmed_mean(0.2)
    assert -math.inf < low < high < math.inf
    assert lifted.compare(Summary.of(range(100))).wasserstein[1] == math.inf


@pytest.mark.parametrize("floor", [5e-324, 1e-309, 1e-300])
def test_psi_is_finite_for_every_floor_above_zero(floor: float) -> None:
    low, high = Summary.of([1.0, 1.0]).compare(Summary.of([2.0, 2.0]), bins=[1.5], floor=floor).psi
    assert low <= -2 * math.log(floor) <= high
    assert high < 1500
