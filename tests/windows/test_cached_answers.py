"""Reused answers of windows: within their bounds, eps and the tail, and values of the window."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantide import RecentWindow, SlidingWindow, Summary
from quantide.windows.newest_values import NewestValues
from quantide.windows.window_buckets import WindowBuckets
from tests import oracle
from tests.orders import ORDERS
from tests.sampling import one_in
from tests.windows.small_windows import BucketWindow, SmallRecentWindow
from tests.windows.window_oracle import answer_faults

Rng = np.random.Generator
CLASSES = [SlidingWindow, BucketWindow]
LIMITS = [(30, 0.2, None), (150, 0.05, None), (300, 0.01, 0.1)]  # size, eps, tail
PHIS = (0.01, 0.5, 0.9, 0.99, 1.0)


@pytest.mark.parametrize(("order", "cls", "limits"), one_in(5, product(ORDERS, CLASSES, LIMITS)))
def test_asked_after_every_value(
    cls: type[SlidingWindow], order: str, limits: tuple[int, float, float | None], rng: Rng
) -> None:
    size, eps, tail = limits
    values = ORDERS[order](rng, 3 * size)
    window = cls(size, eps, tail=tail)
    for n, value in enumerate(values, 1):
        window.update(value)
        phi = PHIS[n % 5]
        assert window.quantile(phi) == window.answer(phi).value
        if n % 11 == 0 or abs(n - size) < 3:
            _check(window, values[:n][-size:])


def _check(window: SlidingWindow, data: Any) -> None:
    """Check every cached phi; values of one moment ascend with phi."""
    answers = [window.answer(phi) for phi in PHIS]
    for answer in answers:
        assert answer_faults(answer, data, window.eps) == []
        if window.tail is not None and window.covered == window.n:
            away = max(answer.target - answer.rank_lo, answer.rank_hi - answer.target)
            assert away <= window.tail * min(answer.n - answer.target, answer.target - 1) + 0.5
    values = window.quantiles(PHIS)
    assert all(a <= b for a, b in pairwise(values))
    assert oracle.wrong_answers(np.sort(data), values, np.array(PHIS), window.eps) == []


@given(data=st.data())
def test_any_calls(data: st.DataObject) -> None:
    """Blocks, single values, summaries, copies and queries in any order."""
    size = data.draw(st.integers(1, 60))
    window = data.draw(st.sampled_from(CLASSES))(size, data.draw(st.sampled_from([0.02, 0.1, 0.3])))
    arrived: list[float] = []
    for _ in range(data.draw(st.integers(1, 30))):
        block = data.draw(st.lists(st.integers(0, 9).map(float), min_size=1, max_size=6))
        match data.draw(st.sampled_from(["one", "block", "copy", "summary"])):
            case "block":
                window.update(block)
            case "copy":
                block = block[:1]
                window = type(window).from_bytes(window.to_bytes())
                window.update(block[0])
            case "summary":  # of one value: a longer block leaves as a whole
                block = block[:1]
                window.update_summary(Summary.of(block))
            case _:
                block = block[:1]
                window.update(block[0])
        arrived += block
        phi = data.draw(st.sampled_from(PHIS))
        assert answer_faults(window.answer(phi), np.array(arrived[-size:]), window.eps) == []


@pytest.mark.parametrize("value_type", ["int64", "float32", "timestamp[us]", "decimal[2]"])
def test_types(value_type: str, rng: Rng) -> None:
    values = rng.integers(0, 500, 3000)
    window = SlidingWindow(1000, 0.05, value_type=value_type)
    column = _as_type(values, value_type)
    for start in range(0, 3000, 7):
        window.update(column[start : start + 7])
        data = values[: start + 7][-1000:]
        given = window.answer(0.5)
        exact = _as_type(np.sort(data)[[given.rank_lo - 1, given.rank_hi - 1]], value_type)
        assert exact[0] <= given.value <= exact[1]
        assert given.value == window.quantile(0.5) == window.quantiles([0.5])[0]


def _as_type(values: Any, value_type: str) -> Any:
    if value_type.startswith("decimal"):
        return np.array([Decimal(int(value)) / 100 for value in values], dtype=object)
    return values.astype({"timestamp[us]": "datetime64[us]"}.get(value_type, value_type))


@pytest.mark.parametrize("exact", [True, False])
def test_few_views(exact: bool, rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """A window queried after every value computes few views."""
    views = 0

    def counted(storage: Any) -> Any:
        nonlocal views
        views += 1
        return originals[type(storage)](storage)

    originals = {cls: cls.summary for cls in (NewestValues, WindowBuckets)}
    for cls in originals:
        monkeypatch.setattr(cls, "summary", counted)
    window = SlidingWindow(20_000, 0.01, tail=None, exact=exact)
    window.update(rng.normal(size=20_000))
    for value in rng.normal(size=5_000).tolist():
        window.update(value)
        window.quantile(0.99)
        window.quantile(0.5)
    assert views <= 5_000 / (50 if exact else 25)


def test_small_windows_in_buckets(rng: Rng) -> None:
    """A window in buckets takes less memory than its values, at the same eps; bytes store the choice."""
    window, whole = SlidingWindow(100_000, 0.01, exact=False), SlidingWindow(100_000, 0.01)
    values = rng.lognormal(size=250_000)
    for start in range(0, len(values), 10_000):
        window.update(values[start : start + 10_000])
        whole.update(values[start : start + 10_000])
    assert whole.tuples == 100_000
    assert window.tuples < 41_000
    again = SlidingWindow.from_bytes(window.to_bytes())
    assert again.to_bytes() == window.to_bytes()
    assert again.tuples == window.tuples
    assert answer_faults(again.answer(0.9), values[-100_000:], 0.01) == []


RECENT = [RecentWindow, SmallRecentWindow]
RECENT_LIMITS = [(30, 0.2), (900, 0.05), (None, 0.1)]  # most items, eps


@pytest.mark.parametrize(("order", "cls", "limits"), one_in(5, product(ORDERS, RECENT, RECENT_LIMITS)))
def test_the_last_values_asked_after_every_value(
    cls: type[RecentWindow], order: str, limits: tuple[int | None, float], rng: Rng
) -> None:
    """Query several lengths in turn: cached answers of one never affect another."""
    most, eps = limits
    values = ORDERS[order](rng, 1500)
    window = cls(eps, max_items=most)
    lengths = [None, *(length for length in (1, 7, 29, 300, 800) if most is None or length <= most)]
    for n, value in enumerate(values, 1):
        window.update(value)
        phi, last = PHIS[n % 5], lengths[n % 7 % len(lengths)]
        data = values[:n][-(last or most or n) :]
        answer = window.answer(phi, last=last)
        assert window.quantile(phi, last=last) == answer.value
        if n % 5 == 0:
            assert answer_faults(answer, data, eps) == []


@given(data=st.data())
def test_any_calls_of_a_recent_window(data: st.DataObject) -> None:
    """Blocks, single values, weights, summaries, copies and queries in any order."""
    most = data.draw(st.one_of(st.none(), st.integers(1, 60)))
    window = data.draw(st.sampled_from(RECENT))(data.draw(st.sampled_from([0.02, 0.1, 0.3])), max_items=most)
    arrived: list[float] = []
    for _ in range(data.draw(st.integers(1, 30))):
        block = data.draw(st.lists(st.integers(0, 9).map(float), min_size=1, max_size=6))
        match data.draw(st.sampled_from(["one", "block", "copy", "summary", "weights"])):
            case "block":
                window.update(block)
            case "weights":
                weights = data.draw(st.lists(st.integers(0, 9), min_size=len(block), max_size=len(block)))
                window.update(block, weights=weights)
                block = np.repeat(block, weights).tolist()
            case "copy":
                block = block[:1]
                window = type(window).from_bytes(window.to_bytes())
                window.update(block[0])
            case "summary":  # of one value: a longer block leaves as a whole
                block = block[:1]
                window.update_summary(Summary.of(block))
            case _:
                block = block[:1]
                window.update(block[0])
        arrived += block
        if arrived:
            last = data.draw(st.one_of(st.none(), st.integers(1, most or 60)))
            answer = window.answer(data.draw(st.sampled_from(PHIS)), last=last)
            assert answer_faults(answer, np.array(arrived[-(last or most or len(arrived)) :]), window.eps) == []


def test_few_views_of_a_recent_window(rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    views: list[Any] = []
    compute = RecentWindow._compute_view

    def counted(window: RecentWindow, *scope: Any) -> Any:
        views.append(scope)
        return compute(window, *scope)

    monkeypatch.setattr(RecentWindow, "_compute_view", counted)
    window = RecentWindow(0.01, max_items=20_000)
    window.update(rng.normal(size=20_000))
    for value in rng.normal(size=5000).tolist():
        window.update(value)
        window.quantile(0.5)
        window.quantile(0.99, last=10_000)
    assert len(views) < 300


def test_times_are_of_the_moment(rng: Rng) -> None:
    """A window with times reuses nothing: an answer has the times of the first and the last value that it is about."""
    window = RecentWindow(0.2, max_items=100)
    for second in range(300):
        window.update(float(rng.random()), float(second))
        answer = window.answer(0.5, last=50)
        assert (answer.since, answer.until) == (max(0.0, second - 49.0), float(second))
