"""Masses between splits, ranks below a value, and the ends."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantide import ConstrainedWindow, History, Monitor, RecentWindow, StreamSketch, Summary, errors, last
from quantide.live import LiveStream
from quantide.summary.outward_rounding import (
    float_above,
    float_below,
    fractions_above,
    fractions_below,
    interval_text,
    interval_texts,
    ratio_above,
    ratio_below,
)

NUMBERS: list[Any] = [
    *(0, 1, -5, 4, -6, 2.5, -2.5, 1e300, float("inf"), -float("inf"), 2**70, -(2**70), 2**63 - 1, -(2**63)),
    *(
        Decimal("1.25"),
        Decimal("1.255"),
        Decimal("-1e400"),
        Decimal("1e400"),
        Fraction(10**400),
        Fraction(1, 3),
        np.float32(1.1),
        np.int8(3),
    ),
    *(float(np.nextafter(1.0, 0)), 5e-324, -0.0),
]
DATA: dict[str, Any] = {
    "integers": np.arange(-5, 6),
    "floats": np.array([-1e308, -5.0, -0.0, 0.0, 1.0, 1.0, 2.5, np.inf, -np.inf]),
    "float32": np.array([-5, 0, 1, 1.1, 2.5], dtype=np.float32),
    "decimals": [Decimal("1.25"), Decimal("1.26"), Decimal("1.25"), Decimal("-5.00")],
    "smallest integers": np.array([-(2**63), -(2**63) + 1, 0, 2**63 - 1]),
}


def exact(x: Any) -> Any:
    """Return a number that compares exactly."""
    x = x.item() if isinstance(x, np.generic) else x
    return x if isinstance(x, float) and not np.isfinite(x) else Fraction(x)


@pytest.mark.parametrize("name", DATA)
def test_ranks_of_any_number(name: str) -> None:
    data = DATA[name]
    s = Summary.of(data)
    for x in NUMBERS:
        below, at_most = (sum(op(exact(v), exact(x)) for v in data) for op in (operator.lt, operator.le))
        assert s.rank(x) == (at_most, at_most), x
        assert s.rank(x, inclusive=False) == (below, below), x
        many = [x, x]
        assert s.rank(many, inclusive=False)[0].tolist() == [below] * 2
        assert s.cdf(x, inclusive=False) == below / s.n


def test_no_finite_float_is_below_the_lowest_one() -> None:
    lowest = -sys.float_info.max
    s = Summary.of([-np.inf, lowest, 1.0])
    below = s.rank(np.array([-np.inf, lowest, 1.0]), inclusive=False)
    assert [bound.tolist() for bound in below] == [[0, 1, 2]] * 2


def test_ranks_of_times() -> None:
    days = np.array(["2026-01-01", "2026-01-02", "2026-01-02", "2026-01-05"], dtype="datetime64[D]")
    s = Summary.of(days)
    assert s.rank(days[1]) == (3, 3)
    assert s.rank(days[1], inclusive=False) == (1, 1)
    assert s.pmf(days[[1, 3]], inclusive=False).tolist() == [0.25, 0.5, 0.25]
    assert (s.min, s.max) == (days[0], days[-1])


@given(st.lists(st.integers(-20, 20), min_size=1, max_size=60), st.lists(st.integers(-22, 22)), st.integers(1, 9))
def test_masses_of_small_summaries(values: list[int], splits: list[int], b: int) -> None:
    s, ordered = Summary.of(values).compress(b), np.sort(values)
    splits = sorted(splits)
    for inclusive, side in ((True, "right"), (False, "left")):
        masses = s.pmf(splits, inclusive=inclusive)
        counts = np.searchsorted(ordered, splits, side=side)  # type: ignore[call-overload]
        true = np.diff(counts, prepend=0, append=len(values)) / len(values)
        assert np.all(masses >= 0)
        assert masses.sum() == pytest.approx(1)
        assert np.all(np.abs(masses - true) <= 2 * s.error + 1e-12)
        low, high = s.rank(splits, inclusive=inclusive)
        lows, highs = np.concatenate(([0], low, [s.n])), np.concatenate(([0], high, [s.n]))
        count = np.rint(true * s.n)
        assert np.all((lows[1:] - highs[:-1] <= count) & (count <= highs[1:] - lows[:-1])), "the documented bounds"


def test_forms_of_splits() -> None:
    s = Summary.of([1.0, 2.0, 2.0, 5.0])
    assert s.pmf([]).tolist() == [1.0]
    assert s.pmf(2).tolist() == s.pmf([2]).tolist() == s.pmf(pa.array([2.0])).tolist() == [0.75, 0.25]
    assert s.pmf([2, 2]).tolist() == [0.75, 0.0, 0.25]
    for wrong in ([2, 1], [1.0, float("nan")], ["a"], [1, None], pa.array([3, 1])):
        with pytest.raises(errors.QuantideError):
            s.pmf(wrong)
    with pytest.raises(errors.InvalidArgumentError, match="must not decrease, unlike 5, 4"):
        s.pmf([1, 5, 4])
    with pytest.raises(errors.EmptyError):
        Summary.of([]).pmf([1.0])


def test_every_class_has_the_ends_and_masses(tmp_path: Path) -> None:
    values = np.arange(1000.0)
    sketch, window, chosen = StreamSketch(0.01), RecentWindow(0.01), ConstrainedWindow(last(1000), 0.01)
    sketch.update(values)
    window.update(values)
    chosen.update(pa.table({"value": values}))
    history = History(tmp_path / "s", eps=0.01, window="1 hour", max_ahead="off")
    for part in (values[500:], values[:500]):
        history.append(part, times=0.0)
        history.end_step()
    history.append([250.5, 2000.0], times=1.0)
    with LiveStream(tmp_path / "s") as live:
        n, top = 1002, 2000.0
        for stored in (history, live):
            assert (stored.min, stored.max) == (0.0, top)
            assert stored.quantile(0) == 0.0
            assert stored.rank(500.0, mode="exact", inclusive=False) == (501, 501)
            assert stored.rank(500.0, mode="exact") == (502, 502)
            assert stored.rank(500.0, inclusive=False)[0] <= 501 <= stored.rank(500.0, inclusive=False)[1]
            assert stored.cdf(500.0, mode="exact", inclusive=False) == 501 / n
            assert stored.pmf([0.0, 1000.0], mode="exact").tolist() == pytest.approx([1 / n, 1000 / n, 1 / n])
            assert stored.pmf([0.0], mode="exact", inclusive=False).tolist() == [0.0, 1.0]
        within: dict[str, Any] = {"last": 2}
        assert live.pmf([1000.0], **within).tolist() == [0.5, 0.5]
    history.close()
    for one in (sketch, window, chosen):
        assert (one.min, one.max, one.quantile(0)) == (0.0, 999.0, 0.0)
        assert one.rank(500.0, inclusive=False) == (500, 500)
        assert one.pmf([499.0, 500.0]).tolist() == pytest.approx([0.5, 0.001, 0.499])
    assert window.pmf([998.0], last=2).tolist() == [0.5, 0.5]
    assert window.rank(999.0, last=2, inclusive=False) == (1, 1)
    assert chosen.pmf([998.0], window=last(2)).tolist() == [0.5, 0.5]


def test_queries_for_the_minimum() -> None:
    monitor = Monitor(0.001)
    least, coarse = monitor.register(0.0), monitor.register(0, 0.1)
    seen: list[tuple[int, Any]] = []
    low = monitor.watch(0.0, below=-5.0, on_change=lambda id, state: seen.append((id, state)))
    for block in range(20):
        monitor.update(np.arange(1000.0) - block)
        assert monitor.answer(least).value == monitor.min == -block
        assert monitor.answer(coarse).error <= 0.1
        assert monitor.condition(low) == ("certain" if block > 5 else "no")
    assert seen == [(low, "no"), (low, "certain")]
    again = Monitor.from_bytes(monitor.to_bytes())
    assert again.answer(least).value == -19.0


def test_an_empty_structure_has_no_ends() -> None:
    empty: list[Callable[[], Any]] = [
        lambda: StreamSketch(0.1).min,
        lambda: RecentWindow(0.1).max,
        lambda: Monitor(0.1).min,
        lambda: Summary.of([]).max,
    ]
    for ask in empty:
        with pytest.raises(errors.EmptyError):
            ask()


@given(
    values=st.lists(st.integers(-9, 9), min_size=1, max_size=300),
    splits=st.lists(st.integers(-10, 10), max_size=6).map(sorted),
    tuples=st.integers(1, 20),
    missing=st.integers(0, 3),
    inclusive=st.booleans(),
)
def test_bounds_of_masses(values: list[int], splits: list[int], tuples: int, missing: int, inclusive: bool) -> None:
    """Bounds contain the true fraction of every interval, also if some values are known by their number only."""
    missing = min(missing, len(values) - 1)
    summary = Summary.of(values[missing:]).compress(tuples).lift(missing)
    low, high = summary.pmf_bounds(splits, inclusive=inclusive)
    compare = operator.le if inclusive else operator.lt
    upto = [0, *(sum(compare(value, split) for value in values) for split in splits), len(values)]
    truth = np.diff(upto) / len(values)
    assert (len(low), len(high)) == (len(splits) + 1,) * 2
    assert np.all((low >= 0) & (low <= truth) & (truth <= high) & (high <= 1))
    fractions = [Fraction(int(count), len(values)) for count in np.diff(upto)]
    for least, fraction, most in zip(low.tolist(), fractions, high.tolist(), strict=True):
        assert Fraction(least) <= fraction <= Fraction(most)
    low, high = Summary.of(values).pmf_bounds(splits, inclusive=inclusive)
    assert low.tolist() == [float_below(fraction) for fraction in fractions]
    assert high.tolist() == [float_above(fraction) for fraction in fractions]


@pytest.mark.parametrize("n", [1, 3, 7, 10, 2**52 + 1, 2**53 - 1, 2**53])
def test_fractions_are_rounded_outward(n: int) -> None:
    drawn = np.random.default_rng(n % 1000).integers(0, n + 1, 200)
    counts = np.concatenate((drawn, [0, n // 3, n // 2, n - 1, n]))
    assert fractions_below(counts, n).tolist() == [ratio_below(count, n) for count in counts.tolist()]
    assert fractions_above(counts, n).tolist() == [ratio_above(count, n) for count in counts.tolist()]


def test_bad_splits_of_bounds() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="splits must not decrease"):
        Summary.of([1.0]).pmf_bounds([2.0, 1.0])
    with pytest.raises(errors.EmptyError):
        Summary.of([]).pmf_bounds([2.0])


@given(low=st.floats(allow_nan=False), high=st.floats(allow_nan=False))
def test_texts_of_an_interval_enclose_it_in_six_digits(low: float, high: float) -> None:
    texts = interval_texts(low, high)
    for end, text, sign in zip((low, high), texts, (1, -1), strict=True):
        assert sign * Decimal(text) <= sign * Decimal(end)
        if math.isfinite(end):
            assert abs(Decimal(text) - Decimal(end)) <= abs(Decimal(end)) / 10**5
            assert len(Decimal(text).normalize().as_tuple().digits) <= 6
    assert interval_texts(0.1, 7) == ("0.1", "7")


@given(low=st.floats(-1e6, 1e6), width=st.floats(0, 1e-6))
def test_an_interval_in_one_text_is_within_a_billionth_of_both_ends(low: float, width: float) -> None:
    for high in (low + width, math.nextafter(low, math.inf)):
        text = interval_text(low, high)
        if text.startswith("about "):
            near = Fraction(Decimal(text.removeprefix("about ")))
            assert max(abs(Fraction(low) - near), abs(Fraction(high) - near)) <= abs(near) / 10**9
        else:
            assert text == "{} to {}".format(*interval_texts(low, high))


def test_differences_of_decimals_are_shown_as_decimals() -> None:
    for a, b in ((8.6, 5.2), (0.5, 1.2), (1e-7, 3e-8), (12345.6, 0.3), (0.4, 0.1)):
        exact = Fraction(a) - Fraction(b)
        assert interval_text(float_below(exact), float_above(exact)) in (
            f"about {Decimal(str(a)) - Decimal(str(b)):g}",
            f"{Decimal(str(a)) - Decimal(str(b)):g} to {Decimal(str(a)) - Decimal(str(b)):g}",
        )
    assert interval_text(3, 3) == "3 to 3", "exact values keep both ends"
    assert interval_text(3.375, 3.4) == "3.375 to 3.4"
    assert interval_text(0.0, 1e-300).startswith("0 to ")
