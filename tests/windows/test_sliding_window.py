"""SlidingWindow: the last `size` values, exactly counted, each answer within eps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quantide import RecentWindow, SlidingWindow, Summary, errors
from quantide.windows.newest_values import NewestValues
from quantide.windows.window_buckets import WindowBuckets
from quantide.windows.window_view import WindowView
from tests.orders import ORDERS
from tests.windows.small_windows import BucketWindow
from tests.windows.window_oracle import every_rank, verify

Rng = np.random.Generator
CLASSES = [SlidingWindow, BucketWindow]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("cls", CLASSES)
def test_every_prefix(cls: type[SlidingWindow], order: str, rng: Rng) -> None:
    for size, eps in ((1, 0.3), (2, 0.5), (7, 0.1), (40, 0.2), (90, 0.05)):
        values = ORDERS[order](rng, 2 * size + 40)
        window = cls(size, eps)
        for n in range(1, len(values) + 1):
            window.update(values[n - 1])
            data = values[:n][-size:]
            assert window.n == len(data)
            assert window.arrived == n
            if n < 5 or n % 7 == 0 or n in (size - 1, size, size + 1):
                verify(window, data, rng, every_rank(len(data)))
        assert window.error <= eps


@pytest.mark.parametrize("order", ORDERS)
def test_buckets_at_random_moments(order: str, rng: Rng) -> None:
    for size, eps in ((900, 0.1), (5000, 0.02), (3000, 0.3)):
        values, window, done = ORDERS[order](rng, 4 * size), BucketWindow(size, eps), 0
        while done < len(values):
            block = values[done : done + int(rng.choice([1, 3, 50, 700, 2 * size]))]
            window.update(block)
            done += len(block)
            if rng.random() < 0.3:
                answer = verify(window, values[:done][-size:], rng)
                assert answer.n_lo == answer.n_hi == window.n
                assert answer.missing < max(1, eps * size / 2)
                assert (answer.since, answer.until) == (None, None)


def test_which_windows_keep_their_values() -> None:
    """Small and precise windows store all values; others are summarised in space independent of the window size."""
    kinds = {
        (1000, 0.1): NewestValues,
        (10**6, 1e-4): NewestValues,
        (10**6, 0.01): WindowBuckets,
        (10**7, 0.01): WindowBuckets,
    }
    for (size, eps), kind in kinds.items():
        window = SlidingWindow(size, eps)
        window.update(1.0)
        window.to_bytes()
        assert type(window._storage) is kind, (size, eps)


def test_a_large_window(rng: Rng) -> None:
    """Answer from fewer than 25,000 tuples about the last 300,000 of 1,200,000 values."""
    values = np.concatenate([rng.normal(size=400_000), rng.random(400_000), np.arange(400_000.0)])
    window = SlidingWindow(300_000, 0.01)
    for done in range(0, len(values), 37_000):
        window.update(values[done : done + 37_000])
        if done // 37_000 % 4 == 3:
            verify(window, values[: done + 37_000][-300_000:], rng)
    assert window.tuples < 25_000


def test_the_error_does_not_depend_on_the_order(rng: Rng) -> None:
    """Mean errors of random, sorted and partly sorted values are alike, whatever the worst case allows."""
    size, eps, pieces = 200_000, 0.01, 50
    ordered = np.sort(rng.random(500_000))
    blocks = np.array_split(ordered, pieces)
    streams = {
        "random": rng.permutation(ordered),
        "sorted": ordered,
        "reversed": ordered[::-1],
        "sorted blocks": np.concatenate([np.sort(block) for block in np.array_split(rng.random(500_000), pieces)]),
        "shuffled blocks": np.concatenate([rng.permutation(block) for block in blocks]),
        "blocks in reverse": np.concatenate(blocks[::-1]),
        "heavy-tailed": ORDERS["heavy_tailed"](rng, 500_000),
    }
    ranks, errors_by_order = np.arange(700, size, 700), {}
    for name, values in streams.items():
        window, done, off = SlidingWindow(size, eps), 0, []
        for end in (205_000, 300_700, 377_007, 500_000):
            window.update(values[done:end])
            done, last = end, np.sort(values[end - size : end])
            answers = np.searchsorted(last, window.quantiles(ranks / size)) + 1
            off.append(np.abs(answers - ranks) / (eps * size))
        errors_by_order[name] = np.mean(off)
    means = sorted(errors_by_order.values())
    assert means[-1] <= min(2 * means[0], 0.2), errors_by_order


def test_space_stays_the_same_over_a_long_stream(rng: Rng) -> None:
    window, tuples, nbytes = BucketWindow(10_000, 0.05), [], []
    for _ in range(40):
        window.update(rng.random(10_000))
        tuples.append(window.tuples)
        nbytes.append(window.nbytes)
    assert max(tuples[20:]) <= 1.05 * max(tuples[1:10])
    assert max(nbytes[20:]) <= 1.05 * max(nbytes[1:10])
    exact = SlidingWindow(500, 0.05)
    for _ in range(60):
        exact.update(rng.random(3_000))
        assert exact.tuples == 500
        assert exact.nbytes <= 8 * 2 * 1024


def test_one_value_and_none() -> None:
    for cls in CLASSES:
        window = cls(1, 0.1)
        assert window.n == window.arrived == window.tuples == 0
        queries: list[tuple[Any, Any]] = [(window.quantile, 0.5), (window.answer, 0.5), (window.quantiles, [0.5])]
        for query, argument in queries:
            with pytest.raises(errors.EmptyError):
                query(argument)
        for value in (5.0, 2.0, 9.0):
            window.update(value)
            assert window.quantile(0.5) == value
            assert window.rank(value) == (1, 1)
            assert window.n == 1


@pytest.mark.parametrize("size", [0, -1, 1.5, True, "7", None, float("nan")])
def test_sizes_that_are_none(size: Any) -> None:
    with pytest.raises(errors.QuantideError):
        SlidingWindow(size, 0.1)


def test_sizes_beyond_the_largest_count() -> None:
    """A window of more than 2**53 values is a window of all values."""
    for size in (2**53, 2**60, 2**70):
        window = SlidingWindow(size, 0.5)
        window.update([1.0, 2.0])
        assert SlidingWindow.from_bytes(window.to_bytes()).quantile(1.0) == 2.0


@pytest.mark.parametrize("eps", [0, 1, -0.5, float("nan"), 2, "x", None])
def test_eps_out_of_range(eps: Any) -> None:
    with pytest.raises(errors.QuantideError):
        SlidingWindow(10, eps)


# --- blocks that were summarised elsewhere ------------------------------------------------------------------


def fed(window: Any, blocks: list[np.ndarray[Any, Any]], eps: float, coarse: Rng | None = None) -> None:
    for block in blocks:
        summary = Summary.of(block)
        if coarse is not None:
            thinner = summary.compress(int(coarse.integers(1, 60)))
            summary = thinner if thinner.error <= eps / 2 else summary
        window.update_summary(summary)


@pytest.mark.parametrize("cls", CLASSES)
def test_blocks_of_all_sizes(cls: type[SlidingWindow], rng: Rng) -> None:
    """A window that begins inside a large block raises SpanError; all others are answered within eps."""
    answered = refused = 0
    for size, eps in ((50, 0.3), (1000, 0.1), (4000, 0.3), (4000, 0.02)):
        window, values, blocks = cls(size, eps), np.empty(0), [0]
        for _ in range(120):
            n = int(rng.choice([1, 2, 9, 60, 300, 1500]))
            block = rng.normal(size=n) + len(values) / 1000
            if rng.random() < 0.3:
                window.update(block)
                blocks += [1] * n
            else:
                fed(window, [block], eps, rng)
                blocks.append(n)
            values = np.concatenate([values, block])
            try:
                verify(window, values[-size:], rng)
                answered += 1
            except errors.SpanError:
                refused += 1
                assert straddled(blocks, size) > eps * window.n / 2
    assert answered > 100
    assert refused > 10


def straddled(blocks: list[int], size: int) -> int:
    """Return the size of the block inside which a window of the last `size` begins; 0 if it begins with a block."""
    covered = 0
    for n in reversed(blocks):
        covered += n
        if covered == size:
            return 0
        if covered > size:
            return n
    return 0


@pytest.mark.parametrize("cls", CLASSES)
def test_small_blocks_are_always_answered(cls: type[SlidingWindow], rng: Rng) -> None:
    for eps in (0.3, 0.1, 0.04):
        size = 2000
        window, values = cls(size, eps), np.empty(0)
        for _ in range(300):
            n = int(rng.integers(1, int(eps * size / 2) + 1))
            block = rng.choice([rng.random(n), np.sort(rng.random(n)) - len(values)])
            summary = Summary.of(block)
            coarse = summary.compress(int(np.ceil(1.05 / eps)))
            window.update_summary(coarse if coarse.error <= eps / 2 else summary)
            values = np.concatenate([values, block])
            if rng.random() < 0.2:
                verify(window, values[-size:], rng)


@pytest.mark.parametrize("cls", CLASSES)
def test_a_block_larger_than_the_window(cls: type[SlidingWindow], rng: Rng) -> None:
    window = cls(100, 0.1)
    window.update_summary(Summary.of(np.arange(250.0)))
    assert (window.n, window.arrived) == (100, 250)
    with pytest.raises(errors.SpanError, match="250"):
        window.quantile(0.5)
    later = np.arange(100.0) - 500
    for i, value in enumerate(later):
        window.update(value)
        if i == 88:
            with pytest.raises(errors.SpanError):
                window.answer(0.5)
    verify(window, later, rng)
    restored = type(window).from_bytes(window.to_bytes())
    assert restored.to_bytes() == window.to_bytes()


@pytest.mark.parametrize("cls", CLASSES)
def test_thousands_of_tiny_blocks(cls: type[SlidingWindow], rng: Rng) -> None:
    values, window = rng.random(12_000), cls(3000, 0.1)
    for value in values[:6000]:
        window.update_summary(Summary.of([value]))
    verify(window, values[3000:6000], rng)
    for start in range(6000, 12_000, 3):
        window.update_summary(Summary.of(values[start : start + 3]))
    verify(window, values[-3000:], rng)
    assert window.tuples <= 3000


@pytest.mark.parametrize("cls", CLASSES)
def test_blocks_that_are_refused_change_nothing(cls: type[SlidingWindow], rng: Rng) -> None:
    window = cls(1000, 0.1)
    window.update(rng.random(700))
    window.update_summary(Summary.of(rng.random(30)))
    window.update(0.5)
    before = window.to_bytes()
    bad: list[tuple[Any, type[Exception]]] = [
        (Summary.of(np.arange(10_000.0)).compress(5), errors.TooCoarseError),
        (Summary.of(np.arange(10)), errors.TypeMismatchError),
        (Summary.of(np.arange(10).astype("datetime64[s]")), errors.TypeMismatchError),
        (np.arange(10.0), errors.TypeMismatchError),
        (None, errors.TypeMismatchError),
    ]
    for summary, error in bad:
        with pytest.raises(error):
            window.update_summary(summary)
        assert window.to_bytes() == before
    window.update_summary(Summary.of([]))
    assert window.to_bytes() == before
    window.update_summary(Summary.of(np.arange(38.0)).lift(2))
    assert window.n == 771


def test_times_of_blocks_are_accepted() -> None:
    """The same calls insert blocks into both kinds of window."""
    sliding, recent = SlidingWindow(100, 0.1), RecentWindow(0.1)
    for window in (sliding, recent):
        window.update_summary(Summary.of([1.0, 2.0]), 5.0, 6.0)
        assert window.quantile(1.0) == 2.0


@pytest.mark.parametrize("cls", CLASSES)
def test_questions_cost_nothing_and_change_nothing(cls: type[SlidingWindow], rng: Rng) -> None:
    window = cls(500, 0.1)
    window.update(rng.random(1300))
    before, first = window.to_bytes(), window.answer(0.3)
    assert window.summary() is window.summary()
    assert window.answer(0.3) == first
    assert window.to_bytes() == before
    window.update(5.0)
    assert window.quantile(1.0) == 5.0


def test_no_answer_is_off_by_more_than_the_window_to_the_last_bit() -> None:
    """No answer exceeds the error of its view, also if the number of elements is known only within bounds."""
    for n in range(20, 200):
        view = WindowView(Summary.of(np.arange(float(n - 3))).lift(3), n - 3, n, 3, None, None)
        assert max(view.answer(phi).error for phi in (1e-9, 0.5, 1.0)) <= view.error


@pytest.mark.parametrize("distinct", [1, 2, 5])
@pytest.mark.parametrize("cls", CLASSES)
def test_ties_in_blocks(cls: type[SlidingWindow], distinct: int, rng: Rng) -> None:
    """Tuples of one value may lie far apart: that is no looseness, takes no space, and is read again."""
    window, values = cls(6000, 0.1), np.empty(0)
    for i in range(60):
        block = np.floor(rng.random(int(rng.choice([1, 40, 300]))) * distinct)
        window.update(block) if i % 3 == 0 else window.update_summary(Summary.of(block))
        values = np.concatenate([values, block])
        verify(window, values[-6000:], rng)
        restored = type(window).from_bytes(window.to_bytes())
        assert restored.to_bytes() == window.to_bytes()
        assert restored.answer(0.7) == window.answer(0.7)


def test_ties_in_a_large_bucket() -> None:
    """The open bucket is a sketch, whose tuples of one value may lie far apart."""
    window = SlidingWindow(2_000_000, 0.1)
    window.update(np.zeros(3_000_000))
    restored = SlidingWindow.from_bytes(window.to_bytes())
    assert restored.to_bytes() == window.to_bytes()
    assert (restored.quantile(0.5), restored.n) == (0.0, 2_000_000)
