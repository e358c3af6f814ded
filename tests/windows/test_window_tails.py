"""The tail of windows: exact near the ends of the values that are covered, and honest about those that are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantide import ConstrainedWindow, RecentWindow, SlidingWindow, Summary, last
from quantide.errors import InvalidArgumentError
from tests.oracle import tail_faults
from tests.orders import ORDERS
from tests.windows.small_windows import BucketWindow
from tests.windows.window_oracle import answer_faults, verify

Rng = np.random.Generator
EPS, TAIL = 0.02, 0.1


def faults(window: Any, data: Any) -> list[str]:
    """Return what contradicts the promise of a window over exactly this data, at every rank or many of them."""
    ordered, n, eps, tail = np.sort(data), len(data), window.eps, window.tail
    missing, summary = n - window.covered, window.summary()
    assert 0 <= missing < max(1, eps * window.size / 2)
    assert window.answer(0.5).covered == window.covered
    ranks = np.arange(1, n + 1)
    if n > 6000:
        ranks = np.unique(np.concatenate((ranks[:1500], ranks[1500:-1500:97], ranks[-1500:])))
    values = window.quantiles(ranks / n)
    first, after = np.searchsorted(ordered, values, side="left") + 1, np.searchsorted(ordered, values, side="right")
    off = np.maximum(0, np.maximum(first - ranks, ranks - after))
    above, below = n - ranks, ranks - 1
    near = np.minimum(eps * window.covered, tail * np.minimum(above, below)) + (missing + 1) / 2
    allowed = np.maximum(near, np.maximum(missing - above, missing - below))
    far = off > allowed + 1e-9
    wrong = [f"rank {r} of {n}, {missing} missing, is {d} off" for r, d in zip(ranks[far], off[far], strict=True)]
    wrong += [f for phi in (0.001, 0.01, 0.99, 0.999, 1.0) for f in answer_faults(window.answer(phi), data, eps)]
    if summary.tail is not None:
        wrong += tail_faults(ordered, summary.quantiles, eps, summary.tail)
    if missing == 0:
        assert summary.tail is not None
        assert summary.tail <= tail * (1 + 1e-9)
    return wrong


@pytest.mark.parametrize("order", ORDERS)
def test_every_order_at_random_moments(order: str, rng: Rng) -> None:
    for size, eps, tail in ((900, 0.1, 0.3), (5000, EPS, TAIL), (3000, 0.3, 0.05)):
        values, window, done = ORDERS[order](rng, 4 * size), BucketWindow(size, eps, tail=tail), 0
        while done < len(values):
            block = values[done : done + int(rng.choice([1, 3, 50, 700, 2 * size]))]
            window.update(block)
            done += len(block)
            if rng.random() < 0.2:
                assert not faults(window, values[:done][-size:])
        assert window.tail == tail


@pytest.mark.parametrize("where", ["early", "late", "spread", "at bucket edges"])
def test_the_extremes_arrive(where: str, rng: Rng) -> None:
    size, eps = 200_000, 0.01
    window, values = SlidingWindow(size, eps), rng.random(3 * size)
    places = {
        "early": 2 * size + np.arange(400),
        "late": 3 * size - 1 - np.arange(400),
        "spread": np.arange(0, 3 * size, 500),
        "at bucket edges": (np.arange(0, 3 * size, 996)[:, None] + np.arange(-2, 3)).ravel()[3:],
    }[where]
    values[places[places < 3 * size]] += rng.choice([-9, 9], np.count_nonzero(places < 3 * size))
    assert window.tail == 0.1
    for end in (150_000, 200_000, 200_001, 350_123, 599_999, 600_000):
        window.update(values[window.arrived : end])
        assert not faults(window, values[:end][-size:])
    assert window.tuples < 2 / eps * 150


def test_the_values_that_are_about_to_leave_do_not_blur_the_ends(rng: Rng) -> None:
    """Most of a bucket has left; its summary proves that few of its values are extreme, so p99.9 is certified well."""
    size, eps = 1_000_000, 0.01
    window, values = SlidingWindow(size, eps), rng.lognormal(0, 2, 1_300_000)
    window.update(values)
    answer = window.answer(0.999)
    assert answer.missing > 1000  # more than there are values above p99.9
    assert answer.error <= 0.001 / 5
    assert not faults(window, values[-size:])


@pytest.mark.parametrize("ties", ["top", "bottom", "five values", "one value"])
def test_ties_at_the_ends(ties: str, rng: Rng) -> None:
    values = rng.random(12_000)
    if ties in ("top", "bottom"):
        values[rng.permutation(12_000)[:500]] = 2.0 if ties == "top" else -1.0
    else:
        values = np.floor(values * (5 if ties == "five values" else 1))
    window = BucketWindow(4000, EPS, tail=TAIL)
    for end in (3000, 4000, 4001, 7777, 12_000):
        window.update(values[window.arrived : end])
        assert not faults(window, values[:end][-4000:])


@given(st.data())
def test_any_sequence_of_calls(data: st.DataObject) -> None:
    """Blocks of any size, single values and copies by bytes, of few or many distinct values."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    size = data.draw(st.sampled_from([60, 300, 2000]))
    eps, tail = data.draw(st.sampled_from([(0.3, 0.5), (0.1, 0.3), (0.1, 0.02), (0.02, 0.2)]))
    window, arrived = BucketWindow(size, eps, tail=tail), np.empty(0)
    for _ in range(data.draw(st.integers(1, 8))):
        count = data.draw(st.sampled_from([1, 3, 40, 700, 3000]))
        values = rng.integers(0, data.draw(st.sampled_from([3, 50, 10**6])), count).astype(float)
        values = data.draw(st.sampled_from([values, np.sort(values), -np.sort(-values)]))
        if data.draw(st.booleans()):
            window = BucketWindow.from_bytes(window.to_bytes())
        for part in [values] if count != 40 else values:
            window.update(part)
        arrived = np.concatenate((arrived, values))
        assert not faults(window, arrived[-size:])


@pytest.mark.parametrize("cls", [SlidingWindow, BucketWindow])
def test_blocks_that_were_summarised_elsewhere(cls: Any, rng: Rng) -> None:
    """Blocks summarised elsewhere end the promise; certified errors stay true."""
    window, values = cls(3000, 0.1, tail=0.2), rng.random(9000)
    window.update(values[:3000])
    assert window.tail == 0.2
    for start in range(3000, 9000, 50):
        block = Summary.of(values[start : start + 50])
        window.update_summary(block if start % 100 else block.compress(30, 0.05))
        inside = values[: start + 50][-3000:]
        verify(window, inside, rng)
        certified = window.summary().tail
        assert certified is None or not tail_faults(np.sort(inside), window.quantiles, 0.1, certified)
    assert window.tail is None
    assert type(window).from_bytes(window.to_bytes()).tail is None


def test_restored_windows_keep_their_tail(rng: Rng) -> None:
    for window in (SlidingWindow(500, 0.01), BucketWindow(500, 0.1, tail=0.3), BucketWindow(500, 0.1)):
        window.update(rng.random(777))
        restored = type(window).from_bytes(window.to_bytes())
        assert (restored.tail, restored.covered, restored.n) == (window.tail, window.covered, window.n)
        assert restored.summary() == window.summary()
        more = rng.random(60)
        restored.update(more)
        window.update(more)
        assert restored.to_bytes() == window.to_bytes()


@pytest.mark.parametrize(("eps", "tail"), [(0.001, 0.01), (0.01, 0.1), (0.02, None)])
def test_the_default(eps: float, tail: float | None) -> None:
    assert SlidingWindow(10**6, eps).tail == tail
    assert SlidingWindow(10**6, eps, tail=None).tail is None


@pytest.mark.parametrize("tail", [0, 1, -0.1, "0.1", True, float("nan")])
def test_what_is_no_tail(tail: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="tail must be"):
        SlidingWindow(10, 0.1, tail=tail)


@pytest.mark.parametrize("tail", [2.0**-53, 1e-12, 1e-4])
def test_a_very_small_tail_stores_all_values(tail: float) -> None:
    window = SlidingWindow(150_000, 0.01, tail=tail)
    window.update(np.arange(400_000.0))
    assert (window.covered, window.summary().rank_error, window.tuples) == (150_000, 0, 150_000)


def test_other_windows_are_exact_while_they_have_all_values(rng: Rng) -> None:
    """The certified error without a promised tail is 0 among the newest values and None further back."""
    recent, constrained = RecentWindow(0.01), ConstrainedWindow(last(5000), 0.01)
    values = rng.lognormal(0, 2, 400_000)
    recent.update(values)
    constrained.update(pa.table({"value": values}))
    assert recent.summary(last=50_000).tail == constrained.summary().tail == 0
    for answer in (recent.answer(0.9999, last=50_000), constrained.answer(0.9999)):
        assert (answer.error, answer.missing, answer.covered) == (0, 0, answer.n)
    long = recent.answer(0.999, last=333_333)
    assert long.covered == 333_333 - long.missing
    assert recent.summary(last=333_333).tail is None
    assert not answer_faults(long, values[-333_333:], 0.01)
