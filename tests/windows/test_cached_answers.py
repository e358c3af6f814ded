"""Reused answers of a SlidingWindow: within their bounds, eps and the tail, and values of the window."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantide import SlidingWindow, Summary
from quantide.windows.newest_values import NewestValues
from quantide.windows.window_buckets import WindowBuckets
from tests import oracle
from tests.orders import ORDERS
from tests.windows.small import BucketWindow
from tests.windows.truth import answer_faults

Rng = np.random.Generator
CLASSES = [SlidingWindow, BucketWindow]
PHIS = (0.01, 0.5, 0.9, 0.99, 1.0)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize(("size", "eps", "tail"), [(30, 0.2, None), (150, 0.05, None), (300, 0.01, 0.1)])
def test_asked_after_every_value(
    cls: type[SlidingWindow], order: str, size: int, eps: float, tail: float | None, rng: Rng
) -> None:
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
    """Less memory than the values, at the same eps; the choice is part of the bytes."""
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
