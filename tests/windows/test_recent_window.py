"""RecentWindow fed with values: any number of the newest, any span of time, each answer within eps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quantide import RecentWindow, errors
from tests.orders import ORDERS
from tests.windows.small_windows import SmallRecentWindow
from tests.windows.window_oracle import Array, every_rank, inside, verify

Rng = np.random.Generator


def bursts(rng: Rng, n: int) -> Array:
    """Return times that stand still, run, jump and rest: many are equal."""
    steps = rng.exponential(rng.choice([0.0, 0.0, 0.001, 0.1, 5.0], n))
    steps[rng.random(n) < 0.002] = 300
    return np.round(np.cumsum(steps), 2)


# --- the last n ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
def test_every_prefix_and_every_n(order: str, rng: Rng) -> None:
    values, window = ORDERS[order](rng, 60), SmallRecentWindow(0.2)
    for n in range(1, len(values) + 1):
        window.update(values[n - 1])
        assert window.arrived == n
        for last in range(1, n + 3, 1 if n % 20 == 0 else 13):
            data = values[:n][-last:]
            answer = verify(window, data, rng, every_rank(len(data)), last=last)
            assert (answer.n_lo, answer.n_hi) == (len(data), len(data))


@pytest.mark.parametrize("order", ORDERS)
def test_every_n_of_a_stream_of_many_levels(order: str, rng: Rng) -> None:
    """Every n is answered from one structure."""
    values = ORDERS[order](rng, 6000)
    for eps in (0.3, 0.1):
        window = SmallRecentWindow(eps)
        window.update(values)
        assert len(window._values.levels.levels) > 4  # type: ignore[union-attr]
        for last in [*range(1, 6000, 73), 5999, 6000, 9000]:
            answer = verify(window, values[-last:], rng, last=last)
            assert answer.missing <= eps * answer.n / 2
            assert answer.n_lo == answer.n_hi == min(last, 6000)


@pytest.mark.parametrize("order", ORDERS)
def test_at_random_moments(order: str, rng: Rng) -> None:
    """Blocks of all sizes: values beyond max_items are forgotten, all others are answered."""
    for eps, max_items in ((0.2, 1500), (0.05, 4000), (0.5, 100), (0.1, 1)):
        window, values, done = SmallRecentWindow(eps, max_items=max_items), ORDERS[order](rng, 12_000), 0
        while done < len(values):
            done += int(rng.choice([1, 3, 50, 64, 65, 700, 3000]))
            window.update(values[window.arrived : done])
            if rng.random() < 0.4:
                for last in {1, max_items, int(rng.integers(1, max_items + 1))}:
                    verify(window, values[:done][-last:], rng, last=last)
                everything = verify(window, values[:done][-max_items:], rng)
                assert everything.n == window.n == min(window.arrived, max_items)
        with pytest.raises(errors.InvalidArgumentError, match="max_items"):
            window.quantile(0.5, last=max_items + 1)


@pytest.mark.parametrize("eps", [0.9, 0.5, 0.02])
def test_extreme_eps(eps: float, rng: Rng) -> None:
    values = np.concatenate([rng.normal(size=9000), np.arange(9000.0), -np.arange(9000.0)])
    window = SmallRecentWindow(eps)
    for part in np.array_split(values, 7):
        window.update(part)
        for last in rng.integers(1, window.arrived + 1, 25).tolist():
            verify(window, values[: window.arrived][-last:], rng, last=last)


def test_the_layout_that_users_get(rng: Rng) -> None:
    """Real sizes: raw values for small windows, levels of blocks for large ones."""
    values = np.concatenate([rng.normal(size=500_000), np.sort(rng.random(500_000)), -np.arange(400_000.0)])
    window = RecentWindow(0.01, max_items=1_000_000)
    for start in range(0, len(values), 65_536):
        window.update(values[start : start + 65_536])
    for last in (1, 100, 65_536, 131_072, 200_000, 400_001, 700_000, 999_999, 1_000_000):
        answer = verify(window, values[-last:], rng, last=last)
        if last <= 65_536:
            assert answer.error == 0
    assert verify(window, values[-1_000_000:], rng).n == 1_000_000


@pytest.mark.parametrize("items", [1, 2, 100, 1023, 1024, 1025, 5000, 65_535, 65_536, 70_000])
def test_few_items_as_users_get_them(items: int, rng: Rng) -> None:
    """max_items near the number of raw values: exact, in little space, and forgotten after they leave."""
    values, times = rng.random(4 * items + 9000), np.arange(4.0 * items + 9000)
    window, done = RecentWindow(0.1, max_items=items), 0
    while done < len(values):
        start, done = done, done + int(rng.choice([1, 500, items // 3 + 1, 2 * items]))
        window.update(values[start:done], times[start:done])
        for last in {1, items, int(rng.integers(1, items + 1))}:
            verify(window, values[:done][-last:], rng, last=last)
        if rng.random() < 0.3:
            window = RecentWindow.from_bytes(window.to_bytes())
        span = int(rng.integers(1, items + 1))
        verify(window, values[:done][-span:], rng, within=span)
        if done > 3 * items + 5000:
            with pytest.raises(errors.SpanError):
                window.quantile(0.5, within=3 * items + 5000)
    assert window.tuples <= max(5000, 6 * items)


def test_an_adversary_who_reads_the_answers(rng: Rng) -> None:
    """An adversary inserts values where the summary of some window is least precise."""
    eps, window = 0.1, SmallRecentWindow(0.1, max_items=3000)
    values = rng.integers(-(2**50), 2**50, 200).astype(np.float64)
    window.update(values)
    for _ in range(120):
        s = window.summary(last=int(rng.integers(1, 3001)))
        gaps = (s.rmax[1:] - s.rmin[:-1]) * (np.diff(s.values) > 1e-3 * np.abs(s.values[1:]))
        at = int(np.argmax(gaps)) if len(gaps) else 0
        low, high = s.values[at], s.values[min(at + 1, len(s) - 1)]
        block = rng.permutation(np.linspace(low, high if high > low else low + 1e6, 102)[1:-1])
        window.update(block)
        values = np.concatenate([values, block])
        for last in (50, 1000, 2999, 3000):
            verify(window, values[-last:], rng, last=last)
    assert window.error <= eps


# --- the last span of time ----------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["uniform", "ascending", "descending", "few_distinct", "nested"])
def test_every_prefix_within_a_span(order: str, rng: Rng) -> None:
    values, times = ORDERS[order](rng, 90), bursts(rng, 90)
    window = SmallRecentWindow(0.15)
    for n in range(1, 91):
        window.update(values[n - 1], times[n - 1])
        for span in (0.01, 0.1, 1, 7.5, 400, 1e6):
            within = inside(times[:n], times[n - 1], span)
            data = values[:n][within]
            answer = verify(window, data, rng, every_rank(len(data)), within=span)
            assert (answer.since, answer.until) == (times[:n][within][0], times[n - 1])


@pytest.mark.parametrize("order", ORDERS)
def test_spans_at_random_moments(order: str, rng: Rng) -> None:
    for eps, age in ((0.2, 100.0), (0.05, 1000.0), (0.4, None)):
        window, values, times = SmallRecentWindow(eps, max_age=age), ORDERS[order](rng, 9000), bursts(rng, 9000)
        done = 0
        while done < 9000:
            start, done = done, done + int(rng.choice([1, 3, 64, 900, 2500]))
            window.update(values[start:done], times[start:done])
            now, before = times[:done][-1], times[:done]
            for _ in range(2):
                span = min(float(rng.choice([0.005, 1, 30, 99.99, 350, 1000])), age or np.inf)
                answer = verify(window, values[:done][inside(before, now, span)], rng, within=span)
                covered = answer.n_hi - answer.missing
                assert answer.since == before[len(before) - covered]
                assert answer.until == now
            if age is not None:
                verify(window, values[:done][before > now - age], rng)


def test_the_true_number_is_bounded_closely(rng: Rng) -> None:
    """n_hi - n_lo stays within what the error allows for."""
    values, times, eps = rng.random(20_000), bursts(rng, 20_000), 0.1
    window = SmallRecentWindow(eps)
    window.update(values, times)
    loose = 0
    for span in rng.exponential(times[-1] / 3, 200):
        answer = window.answer(0.5, within=float(span))
        true = int(np.count_nonzero(times > times[-1] - span))
        assert answer.n_lo <= true <= answer.n_hi
        assert answer.n_hi - answer.n_lo <= eps * answer.n_lo
        loose += answer.n_lo < answer.n_hi
    assert loose > 5


def test_equal_times_enter_and_leave_together(rng: Rng) -> None:
    values = rng.random(4000)
    for width in (1, 10, 64, 1000):
        times = np.arange(4000) // width * 1.0
        window = SmallRecentWindow(0.1)
        window.update(values, times)
        for span in (0.5, 1, 1.5, 2, 3, 100):
            verify(window, values[times > times[-1] - span], rng, within=span)


def test_all_at_one_moment(rng: Rng) -> None:
    values, window = rng.random(5000), SmallRecentWindow(0.1, max_age=1)
    window.update(values, 7)
    verify(window, values, rng, within=1e-9)
    verify(window, values, rng)
    window.update(0.5, 8)
    assert window.answer(0.5).n == 1
    window.update(0.25, 8.0)
    assert sorted(window.quantiles([0.5, 1.0]).tolist()) == [0.25, 0.5]


def test_within_is_open_at_its_far_end() -> None:
    window = RecentWindow(0.1)
    window.update([1.0, 2.0, 3.0], [0.0, 5.0, 10.0])
    assert window.answer(0.5, within=10).n == 2
    assert window.answer(0.5, within=10.000001).n == 3
    assert window.answer(0.5, within=5).n == 1
    assert window.quantile(0.5, within=5) == 3.0


def test_now_may_be_given(rng: Rng) -> None:
    """A now after the newest time shrinks the window; one before it leaves newer values in the window."""
    values, times = rng.random(6000), np.sort(rng.random(6000)) * 1000
    window = SmallRecentWindow(0.1)
    window.update(values, times)
    for now in (0.0, 400.0, float(times[-1]), 1000.0, 1100.0):
        for span in (50.0, 200.0, 2000.0):
            data = values[times > now - span]
            if len(data):
                verify(window, data, rng, within=span, now=now)
            else:
                with pytest.raises(errors.EmptyError):
                    window.quantile(0.5, within=span, now=now)
    with pytest.raises(errors.InvalidArgumentError, match="now"):
        window.quantile(0.5, last=5, now=1000.0)
    with pytest.raises(errors.InvalidArgumentError, match="now"):
        window.quantile(0.5, now=1000.0)


def test_now_when_only_a_span_is_kept(rng: Rng) -> None:
    """An earlier now that reaches beyond the stored values is refused with a named error, or answered correctly."""
    values, times = rng.random(8000), np.arange(8000.0)
    window = SmallRecentWindow(0.1, max_age=500)
    window.update(values, times)
    refused = 0
    for now in range(7000, 8600, 100):
        for span in (100, 500):
            data = values[times > now - span]
            if not len(data):
                with pytest.raises(errors.EmptyError):
                    window.answer(0.5, within=span, now=now)
                continue
            try:
                verify(window, data, rng, within=span, now=now)
            except errors.SpanError:
                refused += 1
                assert now - span < 7500
    assert refused > 0


def test_nothing_for_an_hour() -> None:
    window = RecentWindow(0.1, max_age="1 h")
    window.update(np.arange(100.0), np.arange(100.0))
    for scope in ({"within": 3600}, {"within": "1 h"}, {}):
        with pytest.raises(errors.EmptyError):
            window.quantile(0.5, now=99 + 3600, **scope)
        assert window.quantile(0.5, now=99 + 3599.5, **scope) == 99
    with pytest.raises(errors.EmptyError):
        window.answer(0.5, within="5 min", now=10_000)
    window.update(7.0, 10_000.0)
    assert window.answer(0.5, within="5 min").n == 1


def test_the_shorter_of_both(rng: Rng) -> None:
    values, times = rng.random(7000), bursts(rng, 7000)
    window = SmallRecentWindow(0.1)
    window.update(values, times)
    for _ in range(60):
        last, span = int(rng.integers(1, 8000)), float(rng.exponential(times[-1] / 4))
        data = values[-last:][inside(times[-last:], times[-1], span)]
        verify(window, data, rng, last=last, within=span)


# --- what is promised is answered, what is not kept is refused ----------------------------------------------


@pytest.mark.parametrize("limits", [(None, None), (1000, None), (None, 50.0), (1000, 50.0), (3, 1000.0), (5000, 0.5)])
def test_limits(limits: tuple[int | None, float | None], rng: Rng) -> None:
    items, age = limits
    window = SmallRecentWindow(0.1, max_items=items, max_age=age)
    values, times = np.empty(0), np.empty(0)
    refused = beyond = 0
    for _ in range(60):
        n = int(rng.choice([1, 10, 300, 1500]))
        times = np.append(times, (times[-1] if len(times) else 0.0) + bursts(rng, n))
        values = np.append(values, rng.random(n))
        window.update(values[-n:], times[-n:])
        now = times[-1]
        number, span = int(rng.integers(1, items or 6000)), float(rng.uniform(0, age or 300)) + 1e-3
        span = min(span, age or span)
        counts = [len(values)] if items is None and age is None else [min(items or 0, len(values))]
        counts += [] if age is None else [int(np.count_nonzero(times > now - age))]
        verify(window, values[len(values) - max(counts) :], rng)
        for scope, data, promised in (
            ({"last": number}, values[-number:], items is not None or age is None),
            ({"within": span}, values[inside(times, now, span)], age is not None or items is None),
            ({"last": number, "within": span}, values[-number:][inside(times[-number:], now, span)], True),
        ):
            try:
                verify(window, data, rng, **scope)
            except errors.SpanError:
                refused += 1
                assert not promised, (scope, limits)
        for scope in ({"last": (items or 0) + 1}, {"within": (age or 0.0) + 1}):
            if (items if "last" in scope else age) is not None:
                with pytest.raises(errors.InvalidArgumentError, match="beyond"):
                    window.quantile(0.5, **scope)
                beyond += 1
    assert (beyond > 0) == (limits != (None, None))
    if limits == (None, 50.0):
        assert refused > 0


def test_what_is_not_kept_is_refused_by_name(rng: Rng) -> None:
    window = SmallRecentWindow(0.1, max_items=100)
    window.update(rng.random(50_000), np.arange(50_000.0))
    assert window.answer(0.5, within=50).n == 50
    with pytest.raises(errors.SpanError, match="the last 100 values"):
        window.quantile(0.5, within=40_000)
    window = SmallRecentWindow(0.1, max_age="2 min")
    window.update(rng.random(50_000), np.arange(50_000.0))
    assert window.answer(0.5, last=50).n == 50
    with pytest.raises(errors.SpanError, match="the last 2 min"):
        window.quantile(0.5, last=40_000)


# --- questions ----------------------------------------------------------------------------------------------


def test_empty_windows() -> None:
    window = RecentWindow(0.1)
    for scope in ({}, {"last": 5}, {"within": 5}):
        with pytest.raises(errors.EmptyError):
            window.quantile(0.5, **scope)
    assert (window.n, window.arrived, window.error, window.clamped, window.newest) == (0, 0, 0.0, 0, None)
    assert window.summary().n == 0
    window.update([])
    window.update([], [])
    window.update(5.0)
    assert window.quantile(0.5, last=1) == 5.0


@pytest.mark.parametrize("last", [0, -1, 1.0, 1.5, True, "5", float("nan"), [1]])
def test_numbers_that_are_none(last: Any) -> None:
    window = RecentWindow(0.1)
    window.update([1.0, 2.0])
    window.quantile(0.5, last=1)
    with pytest.raises(errors.QuantideError):
        window.quantile(0.5, last=last)


@pytest.mark.parametrize(
    "span", [0, -1, float("nan"), float("inf"), True, "5", "min", "5 parsec", "", " ", "-5 s", "5 s x"]
)
def test_spans_that_are_none(span: Any) -> None:
    window = RecentWindow(0.1)
    window.update([1.0, 2.0], [0.0, 1.0])
    window.quantile(0.5, within=1)
    with pytest.raises(errors.InvalidArgumentError):
        window.quantile(0.5, within=span)
    with pytest.raises(errors.InvalidArgumentError):
        RecentWindow(0.1, max_age=span)


def test_questions_change_nothing_and_are_remembered(rng: Rng) -> None:
    window, twin = SmallRecentWindow(0.1), SmallRecentWindow(0.1)
    for _ in range(30):
        block, times = rng.random(400), (window.newest or 0.0) + np.sort(rng.random(400))
        window.update(block, times)
        twin.update(block, times)
        for _ in range(40):
            scope = {"last": int(rng.integers(1, 9000))} if rng.random() < 0.5 else {"within": rng.random() * 20}
            first = window.answer(0.4, **scope)
            assert window.answer(0.4, **scope) == first
        assert window.to_bytes() == twin.to_bytes()


def test_a_question_sees_values_that_came_one_by_one() -> None:
    window = RecentWindow(0.1)
    window.update([1.0], [0.0])
    for i in range(1, 50):
        window.update(float(i), i / 10)
        assert window.quantile(1.0, last=1) == i
        assert window.answer(1.0, within=0.35).n == min(4, i + 1)
        assert window.newest == i / 10


def test_space_is_constant(rng: Rng) -> None:
    """A window has the same number of tuples after 4 and 16 times max_items, within a tenth."""
    for eps, items in ((0.1, 5000), (0.03, 8000)):
        window, sizes = SmallRecentWindow(eps, max_items=items), {}
        for fed in range(1, 21):
            window.update(rng.random(items))
            sizes[fed] = window.tuples
            assert window.nbytes < 60 * window.tuples + 10_000
        assert sizes[16] <= 1.1 * sizes[4]
        assert max(sizes[i] for i in range(13, 21)) <= 1.1 * max(sizes[i] for i in range(3, 8))


def test_space_is_constant_over_time(rng: Rng) -> None:
    """Values beyond max_age are forgotten, also after the rate changes."""
    window, sizes = SmallRecentWindow(0.1, max_age=100), []
    for second in range(4000):
        window.update(rng.random(20), float(second))
        sizes.append(window.tuples)
    assert max(sizes[2000:]) <= 1.1 * max(sizes[300:1000])
    for second in range(4000, 9000):
        window.update(0.5, float(second))
    assert window.tuples <= 1.1 * max(sizes)


def test_space_of_everything_grows_slowly(rng: Rng) -> None:
    """A window without limits takes little more space for four times the values."""
    window, sizes = SmallRecentWindow(0.1), []
    for _ in range(64):
        window.update(rng.random(4000))
        sizes.append(window.tuples)
    assert sizes[63] - sizes[15] <= sizes[15]


@pytest.mark.slow
def test_the_layout_that_users_get_at_length(rng: Rng) -> None:
    values = np.concatenate([rng.normal(size=3_000_000), np.sort(rng.random(3_000_000)), rng.random(3_000_000)])
    times = np.cumsum(rng.exponential(0.001, len(values)))
    for eps in (0.01, 0.003):
        window = RecentWindow(eps, max_items=4_000_000, max_age=2000)
        for start in range(0, len(values), 50_000):
            window.update(values[start : start + 50_000], times[start : start + 50_000])
            done = start + 50_000
            if start % 1_000_000 == 0:
                last = int(rng.integers(1, 4_000_000))
                verify(window, values[:done][-last:], rng, last=last)
                span = float(rng.uniform(0, 2000))
                verify(window, values[:done][times[:done] > times[done - 1] - span], rng, within=span)
