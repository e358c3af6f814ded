"""Summary against the oracle, for all inputs, merges, compressions and lifts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantide import Summary
from tests import oracle
from tests.checks.verify import verify_ranks
from tests.orders import ORDERS

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"]
TIMES = [*(f"datetime64[{unit}]" for unit in ("D", "s", "us", "ns")), "timedelta64[ms]", "timedelta64[ns]"]
TYPES = ["float64", "float32", *INTEGERS, *TIMES, "decimal"]


@dataclass(frozen=True)
class Column:
    """Values of one type: as input, and as a list that the oracle can sort."""

    type: str
    values: list[Any]

    @property
    def given(self) -> Any:
        return self.values if self.type == "decimal" else np.array(self.values, dtype=self.type)

    def __add__(self, other: Column) -> Column:
        return Column(self.type, self.values + other.values)

    def cut(self, cuts: list[int]) -> list[Column]:
        ends = [0, *sorted(cuts), len(self.values)]
        return [Column(self.type, self.values[a:b]) for a, b in pairwise(ends)]


def elements(name: str) -> st.SearchStrategy[Any]:
    """Draw values of a type: few distinct ones, so that there are ties, with the extremes of the type among them."""
    if name == "decimal":
        return st.integers(-(10**6), 10**6).map(lambda i: Decimal(i).scaleb(-3)) | st.sampled_from(
            [Decimal("0.000"), Decimal("-1.500"), Decimal("2.125")]
        )
    if name.startswith("float"):
        kind = np.dtype(name).type
        wide = st.floats(allow_nan=False, width=64 if name == "float64" else 32)
        return (wide | st.sampled_from([0.0, -0.0, 1.0, -1.5, float("inf"), float("-inf")])).map(kind)
    if name in INTEGERS:
        info, whole = np.iinfo(name), np.dtype(name).type
        return (st.integers(info.min, info.max) | st.sampled_from([info.min, 0, 1, 2, info.max])).map(whole)
    span = 2**40 if name.endswith("[D]") is False else 2**20
    number = st.integers(-span, span) | st.integers(-2, 2)
    return number.map(lambda i: np.array(i, dtype="int64").astype(name)[()])


@st.composite
def columns(draw: st.DrawFn, min_size: int = 1, max_size: int = 60) -> Column:
    name = draw(st.sampled_from(TYPES))
    pool = draw(st.lists(elements(name), min_size=1, max_size=12))
    tied = st.sampled_from(pool)
    values = draw(st.lists(tied | elements(name), min_size=min_size, max_size=max_size))
    return Column(name, values)


def compressed(draw: Callable[..., Any], s: Summary) -> Summary:
    """Draw the summary, or its compression to few tuples."""
    return s.compress(draw(st.integers(1, 20))) if s.n and draw(st.booleans()) else s


@st.composite
def trees(draw: st.DrawFn) -> tuple[Summary, Column]:
    """Draw a summary merged and compressed in a random tree, with all its values."""
    column = draw(columns(max_size=120))
    cuts = draw(st.lists(st.integers(0, len(column.values)), max_size=6))
    grove = [(Summary.of(part.given), part) for part in column.cut(cuts) if part.values]
    while True:
        grove = [(compressed(draw, s), part) for s, part in grove]
        if len(grove) == 1:
            return grove[0]
        many = draw(st.integers(2, min(4, len(grove))))
        taken = [grove.pop(draw(st.integers(0, len(grove) - 1))) for _ in range(many)]
        whole = taken[0][1]
        for _, part in taken[1:]:
            whole = whole + part
        grove.append((Summary.merge(*(s for s, _ in taken)), whole))


def values_of(s: Summary, column: Column) -> list[Any]:
    """Return a summary's values in the form of the column."""
    if column.type != "decimal":
        return list(s.values)
    return [value if isinstance(value, Decimal) else Decimal(int(value)).scaleb(-3) for value in s.values]


def faults(s: Summary, column: Column, lifted: bool = False) -> list[str]:
    return oracle.summary_faults(s, column.values, lifted, values_of(s, column))


# --- of -----------------------------------------------------------------------------------------------------


@given(columns())
def test_of_is_exact(column: Column) -> None:
    s, n = Summary.of(column.given), len(column.values)
    assert (s.n, len(s), s.rank_error, s.error) == (n, n, 0, 0.0)
    assert values_of(s, column) == sorted(column.values)
    assert list(s.rmin) == list(s.rmax) == list(range(1, n + 1))
    assert faults(s, column) == []
    ordered = sorted(column.values)
    assert (s.answer(1e-12).value, s.answer(1.0).value) == (ordered[0], ordered[-1])
    assert (s.min, s.max) == (ordered[0], ordered[-1])


@given(columns())
def test_order_of_arrival_does_not_matter(column: Column) -> None:
    assert Summary.of(column.given) == Summary.of(Column(column.type, column.values[::-1]).given)
    assert (
        Summary.of(column.given).to_bytes() == Summary.of(Column(column.type, sorted(column.values)).given).to_bytes()
    )


@given(columns())
def test_the_type_that_went_in_comes_out(column: Column) -> None:
    s = Summary.of(column.given)
    for one in (s, s.compress(3), s.lift(4), Summary.merge(s, s), Summary.from_bytes(s.to_bytes())):
        value = one.answer(0.5).value
        if column.type == "decimal":
            assert type(value) is Decimal
            assert value.as_tuple().exponent == -3
        else:
            assert value.dtype == one.quantiles([0.5]).dtype == one.values.dtype == np.dtype(column.type)
            assert str(one.type) == column.type or column.type in TIMES
        assert str(one.type) == str(s.type)


def test_it_cannot_be_changed() -> None:
    source = np.arange(5.0)
    s = Summary.of(source)
    source[0] = 99.0
    assert s.min == 0.0
    for array in (s.values, s.rmin, s.rmax):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 3
    with pytest.raises((AttributeError, TypeError)):
        s.n = 7  # type: ignore[misc]
    a, b = Summary.of([1.0, 2.0, 3.0]), Summary.of([2.0, 5.0])
    before = a.to_bytes(), b.to_bytes()
    Summary.merge(a, b), a.compress(1), a.lift(9), a.answer(0.5)
    assert (a.to_bytes(), b.to_bytes()) == before


# --- answers ------------------------------------------------------------------------------------------------


@given(trees())
def test_every_rank_is_answered_as_well_as_the_tuples_allow(tree: tuple[Summary, Column]) -> None:
    s, column = tree
    phis = [rank / s.n for rank in range(1, s.n + 1)]
    for rank, phi, value in zip(range(1, s.n + 1), phis, s.quantiles(phis), strict=True):
        answer = s.answer(phi)
        assert oracle.bound_faults(column.values, answer) == []
        assert answer.target == rank
        assert max(rank - answer.rank_lo, answer.rank_hi - rank) == oracle.best_error(s, rank)
        assert answer.error * s.n <= s.rank_error + oracle.SLACK
        assert s.quantile(phi) == answer.value
        assert column.type == "decimal" or value == answer.value


@given(trees(), st.lists(st.floats(0, 1, exclude_min=True), min_size=1, max_size=20))
def test_answers_are_eps_correct_and_monotone(tree: tuple[Summary, Column], phis: list[float]) -> None:
    s, column = tree
    answers = [s.answer(phi).value for phi in sorted(phis)]
    assert oracle.wrong_answers(column.values, answers, sorted(phis), s.error) == []
    assert answers == sorted(answers)


@given(trees(), st.lists(st.floats(0, 1, exclude_min=True), min_size=1, max_size=20))
def test_the_true_quantile_lies_between_its_bounds(tree: tuple[Summary, Column], phis: list[float]) -> None:
    s, column = tree
    for phi in (*phis, 1e-9, 1.0):
        low, high = s.bounds(phi)
        assert low <= oracle.exact_quantile(column.values, phi) <= high
        assert low <= s.answer(phi).value <= high
        target = oracle.target_rank(phi, s.n)
        (first_low, last_low), (first_high, last_high) = (oracle.occupied(column.values, one) for one in (low, high))
        assert first_low <= last_low
        assert first_high <= last_high
        assert target - last_low <= s.gap
        assert first_high - target <= s.gap


@pytest.mark.parametrize("shift", [-0.25, 0.25])
def test_bounds_hold_at_every_rank_where_ranks_are_as_far_off_as_they_can_be(shift: float) -> None:
    """Between two tuples of the one summary all that the other left out lies on one side of a tuple of the first: true
    ranks are then at an end of what is proved, the lowest for one shift and the highest for the other."""
    wide = np.arange(0, 1000, 10.0)
    close = np.repeat(wide, 10) + shift
    s = Summary.merge(Summary.of(wide).compress(7), Summary.of(close).compress(9))
    data = np.sort(np.concatenate([wide, close]))
    assert (s.rmin < s.rmax).any()
    for target in range(1, len(data) + 1):
        low, high = s.bounds(target / len(data))
        assert low <= data[target - 1] <= high, target


@given(trees(), st.data())
def test_ranks_are_bounded(tree: tuple[Summary, Column], data: st.DataObject) -> None:
    s, column = tree
    probes = data.draw(st.lists(st.sampled_from(column.values) | elements(column.type), min_size=1, max_size=8))
    low, high = s.rank(probes if column.type == "decimal" else np.array(probes, dtype=column.type))
    fractions = s.cdf(probes if column.type == "decimal" else np.array(probes, dtype=column.type))
    for probe, lo, hi, fraction in zip(probes, low, high, fractions, strict=True):
        true = oracle.count_at_most(column.values, probe)
        assert lo <= true <= hi
        assert hi - lo <= 2 * s.rank_error
        assert abs(fraction - true / s.n) <= s.error + 1e-12
        assert tuple(map(int, s.rank(probe))) == (lo, hi)


def test_ties_follow_the_definition() -> None:
    """Section 0: an element occupies all ranks from #(x<e)+1 to #(x<=e)."""
    data = [1.0, 2.0, 2.0, 2.0, 3.0]
    s = Summary.of(data)
    assert [s.quantile(rank / 5) for rank in range(1, 6)] == sorted(data)
    assert s.rank(2.0) == (4, 4)
    assert s.rank(1.999) == (1, 1)
    assert list(s.cdf([0.0, 1.0, 2.0, 3.0])) == [0.0, 0.2, 0.8, 1.0]


@pytest.mark.parametrize("n", [1, 2, 3, 10, 100, 1000, 4096])
def test_the_target_is_the_ceiling_with_a_guard(n: int) -> None:
    """0.07 * 100 is above 7 in floating point, and still means rank 7."""
    s = Summary.of(np.arange(1, n + 1))
    phis = np.concatenate([np.arange(1, n + 1) / n, np.arange(1, 101) / 100, [1e-12, 1 - 1e-12]])
    targets = [oracle.target_rank(phi, n) for phi in phis]
    assert list(s.quantiles(phis)) == targets
    assert [s.answer(phi).target for phi in phis] == targets
    assert oracle.target_rank(0.07, 100) == 7


def test_ten_thousand_at_once() -> None:
    s = Summary.of(np.random.default_rng(5).normal(size=50_000)).compress(400)
    phis = np.random.default_rng(6).random(10_000)
    values = s.quantiles(phis)
    assert values.shape == (10_000,)
    assert list(values[::97]) == [s.quantile(phi) for phi in phis[::97]]


# --- merge --------------------------------------------------------------------------------------------------


@given(trees())
def test_trees_of_merges_and_compressions_are_valid(tree: tuple[Summary, Column]) -> None:
    s, column = tree
    assert faults(s, column) == []
    assert s.error == s.rank_error / s.n


@given(columns(min_size=2, max_size=120), st.data())
def test_merge_is_the_brute_force_merge(column: Column, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(column.values)), max_size=7))
    parts = [Summary.of(part.given) for part in column.cut(cuts)]
    parts = [compressed(data.draw, part) for part in parts]
    lifts = [data.draw(st.integers(0, 3)) if part.n else 0 for part in parts]
    parts = [part.lift(k) for part, k in zip(parts, lifts, strict=True)]
    whole = Summary.merge(*parts)
    expected = oracle.merged([oracle.plain(part, values_of(part, column)) for part in parts])
    assert oracle.plain(whole, values_of(whole, column)) == expected
    assert whole.rank_error == expected.rank_error <= sum(part.rank_error for part in parts)


@given(columns(min_size=3, max_size=60), st.data())
def test_merging_in_steps_is_merging_at_once(column: Column, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(column.values)), min_size=2, max_size=2))
    a, b, c = (Summary.of(part.given) for part in column.cut(cuts))
    a, b, c = (s.compress(data.draw(st.integers(1, 6))) if s.n else s for s in (a, b, c))
    assert Summary.merge(a, b, c) == Summary.merge(Summary.merge(a, b), c) == Summary.merge(a, Summary.merge(b, c))


@pytest.mark.parametrize("many", [1, 2, 3, 17, 64, 300])
def test_merging_many(many: int) -> None:
    rng = np.random.default_rng(many)
    blocks = [rng.integers(0, 40, int(size)).astype(np.float64) for size in rng.integers(1, 60, many)]
    parts = [Summary.of(block).compress(int(rng.integers(1, 30))) for block in blocks]
    whole = Summary.merge(*parts)
    assert oracle.summary_faults(whole, np.concatenate(blocks)) == []
    assert oracle.plain(whole) == oracle.merged([oracle.plain(part) for part in parts])


def test_the_empty_summary_merges_away() -> None:
    empty, s = Summary.of([]), Summary.of([1.0, 2.0])
    assert (empty.n, len(empty), empty.error) == (0, 0, 0)
    assert Summary.merge(s, empty) == Summary.merge(empty, s) == Summary.merge(s) == s
    assert Summary.merge(empty, empty).n == 0


def test_skipped_values_are_counted_through_merges_and_bytes() -> None:
    a = Summary.of([1.0, None, float("nan"), 2.0], nan="skip")
    b = Summary.of([None, None, 5.0])
    assert (a.n, a.nulls, a.nans, b.n, b.nulls, b.nans) == (2, 1, 1, 1, 2, 0)
    whole = Summary.from_bytes(Summary.merge(a, b).compress(1).to_bytes())
    assert (whole.n, whole.nulls, whole.nans) == (3, 3, 1)


# --- compress -----------------------------------------------------------------------------------------------


@given(trees(), st.integers(1, 40))
def test_compress_keeps_few_tuples_as_they_were(tree: tuple[Summary, Column], b: int) -> None:
    s, column = tree
    small = s.compress(b)
    assert len(small) <= b + 1
    assert (small.n, small.nulls, small.nans) == (s.n, s.nulls, s.nans)
    before = set(zip(values_of(s, column), s.rmin.tolist(), s.rmax.tolist(), strict=True))
    after = list(zip(values_of(small, column), small.rmin.tolist(), small.rmax.tolist(), strict=True))
    assert set(after) <= before
    assert {min(before), max(before)} <= set(after)
    assert faults(small, column) == []


@given(trees(), st.integers(1, 40))
def test_compress_adds_less_than_half_a_step(tree: tuple[Summary, Column], b: int) -> None:
    s, _ = tree
    small = s.compress(b)
    assert oracle.real_error(small) - oracle.real_error(s) < Fraction(s.n, 2 * b)
    assert small.rank_error - s.rank_error < Fraction(s.n, 2 * b) + 1


@given(trees(), st.integers(1, 9))
def test_ties_are_filled(tree: tuple[Summary, Column], gap: int) -> None:
    s, column = tree
    filled = s.compress(7).fill_ties(gap)
    assert faults(filled, column) == []
    between = filled.rmax[1:] - filled.rmin[:-1]
    wide = np.maximum(gap, (filled.rmax - filled.rmin)[1:] + 1)  # a tuple may be wider itself
    assert (between <= wide)[filled.carried[1:] == filled.carried[:-1]].all()
    assert filled.rank_error == s.compress(7).rank_error


@given(trees(), st.integers(2, 40), st.integers(0, 9))
def test_compress_keeps_the_best_answers_to_even_ranks(tree: tuple[Summary, Column], b: int, k: int) -> None:
    s = tree[0].lift(k)
    small = s.compress(b)
    for rank in (Fraction(i * s.n, b) for i in range(1, b)):
        nearest = {s: min(max(rank - a, b - rank) for a, b in zip(s.rmin, s.rmax, strict=True)) for s in (s, small)}
        assert nearest[small] == nearest[s] or (s.gap + 1) // 2 > s.rank_error


@pytest.mark.parametrize("b", [1, 2, 3, 7, 10, 31, 100, 999])
def test_compress_of_many_sizes(b: int) -> None:
    for n in [*range(1, 70), 128, 777, 1000, 1001, 5003]:
        s = Summary.of(np.arange(n))
        small = s.compress(b)
        assert len(small) <= b + 1
        assert oracle.summary_faults(small, np.arange(n)) == []
        assert oracle.real_error(small) - oracle.real_error(s) < Fraction(n, 2 * b)


@given(trees(), st.integers(1, 40), st.integers(1, 60))
def test_compress_of_a_lifted_summary(tree: tuple[Summary, Column], b: int, k: int) -> None:
    s, _ = tree
    lifted = s.lift(k)
    small = lifted.compress(b)
    assert oracle.shape_faults(small, small.carried.tolist()) == []
    assert oracle.real_error(small) - oracle.real_error(lifted) < Fraction(lifted.n, 2 * b)


# --- lift ---------------------------------------------------------------------------------------------------


@given(trees(), st.data())
def test_lift_speaks_of_older_elements_too(tree: tuple[Summary, Column], data: st.DataObject) -> None:
    """k older elements that the summary never saw, whatever their values."""
    s, column = tree
    older = data.draw(st.lists(st.sampled_from(column.values) | elements(column.type), max_size=50))
    lifted, everything = s.lift(len(older)), column + Column(column.type, older)
    assert lifted.n == len(everything.values)
    assert faults(lifted, everything, lifted=True) == []
    for phi in (1e-9, 0.2, 0.5, 0.9, 1.0):
        assert oracle.bound_faults(everything.values, lifted.answer(phi)) == []
        (low, high), true = lifted.bounds(phi), oracle.exact_quantile(everything.values, phi)
        assert low is None or low <= true
        assert high is None or true <= high


@given(trees(), st.integers(0, 200))
def test_lift_costs_half_while_it_is_small(tree: tuple[Summary, Column], k: int) -> None:
    s, _ = tree
    widest = oracle.gaps(s.rmin.tolist(), s.rmax.tolist())
    lifted = s.lift(k)
    expected = max(Fraction(k), Fraction(widest + k, 2)) if len(s) > 1 else Fraction(k)
    assert oracle.real_error(lifted) == expected
    assert lifted.rank_error == (max(k, (widest + k) // 2) if len(s) > 1 else k)
    assert np.array_equal(lifted.rmin, s.rmin)
    assert np.array_equal(lifted.rmax, s.rmax + k)
    assert lifted == s.lift(k // 2).lift(k - k // 2)
    assert s.lift(0) == s


# --- bytes --------------------------------------------------------------------------------------------------


@given(trees(), st.integers(0, 30))
def test_bytes_round_trip(tree: tuple[Summary, Column], k: int) -> None:
    s = tree[0].lift(k)
    blob = s.to_bytes()
    restored = Summary.from_bytes(blob)
    assert restored == s
    assert restored.to_bytes() == blob
    assert (restored.n, restored.error, str(restored.type)) == (s.n, s.error, str(s.type))
    for name in ("values", "rmin", "rmax"):
        assert np.array_equal(getattr(restored, name), getattr(s, name))
        assert getattr(restored, name).dtype == getattr(s, name).dtype


@given(columns(), columns())
def test_equal_is_equal_bytes(one: Column, two: Column) -> None:
    a, b = Summary.of(one.given), Summary.of(two.given)
    assert (a == b) == (a.to_bytes() == b.to_bytes())
    assert a != a.lift(1)
    assert a != "a summary"


@pytest.mark.parametrize("name", ORDERS)
def test_large_summaries(name: str, rng: np.random.Generator) -> None:
    """Check summaries of many values in every order: valid, exact ranks, bytes."""
    blocks = [ORDERS[name](rng, n) for n in (20_000, 1, 3_000, 9_999)]
    parts = [Summary.of(block).compress(b) for block, b in zip(blocks, (100, 5, 333, 64), strict=True)]
    whole, data = Summary.merge(*parts), np.sort(np.concatenate(blocks))
    for s in (whole, whole.compress(50), Summary.from_bytes(whole.to_bytes())):
        assert oracle.summary_faults(s, data) == []
        verify_ranks(s, data, rng)
        phis = np.linspace(0.001, 1, 1000)
        assert oracle.wrong_answers(data, s.quantiles(phis), phis, s.error) == []


def _finest(s: Summary, error: float) -> Summary:
    """Return the smallest compression that is certified to an error."""
    return next(small for b in range(500, 5000, 50) if (small := s.compress(b)).error <= error)


def test_bytes_are_compact() -> None:
    """Certified to 0.001, random float64: at most 24 KB, exact or from a sketch's merges."""
    rng = np.random.default_rng(3)
    parts = [Summary.of(rng.normal(size=250_000)) for _ in range(4)]
    exact_whole = Summary.merge(*parts)
    coarse_whole = Summary.merge(*(part.compress(1000) for part in parts))
    for s in (exact_whole, coarse_whole):
        small = _finest(s, 0.001)
        assert small.error <= 0.001
        assert len(small.to_bytes()) <= 24 * 1024


@pytest.mark.slow
def test_bytes_are_compact_for_a_hundred_million() -> None:
    rng = np.random.default_rng(4)
    parts = [Summary.of(rng.normal(size=10_000_000)).compress(4000) for _ in range(10)]
    small = _finest(Summary.merge(*parts), 0.001)
    assert small.n == 10**8
    assert len(small.to_bytes()) <= 24 * 1024
