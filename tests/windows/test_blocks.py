"""RecentWindow with summarised blocks, alone and among values."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from quantide import RecentWindow, SlidingWindow, StreamSketch, Summary, errors
from tests.windows.feed import Feed
from tests.windows.small_windows import SmallRecentWindow
from tests.windows.window_oracle import Array, inside, verify

Rng = np.random.Generator


def some_values(rng: Rng, n: int, so_far: int) -> Array:
    """Blocks in several orders: they interleave, follow each other, or tie."""
    orders: Array = [
        rng.random(n),
        np.sort(rng.random(n)) + so_far,
        rng.integers(0, 5, n).astype(np.float64),
        -np.sort(rng.random(n)) - so_far,
    ][int(rng.integers(4))]
    return orders


def some_times(rng: Rng, n: int, now: float) -> Array:
    return now + np.sort(np.round(rng.exponential(float(rng.choice([0.001, 0.01, 1.0])), n), 3))


# --- any sizes, any coarseness, any mixture -----------------------------------------------------------------


@pytest.mark.parametrize("mix", [0.0, 0.2, 0.5, 0.9])
@pytest.mark.parametrize("eps", [0.9, 0.5, 0.2, 0.1, 0.05])
def test_mixtures(eps: float, mix: float, rng: Rng) -> None:
    """Every window is answered within eps, or refused because a block that is not small lies across its start."""
    answered = 0
    for way in (0.0, 0.3, 1.0):
        feed, sizes = Feed(SmallRecentWindow(eps)), rng.choice([1, 2, 5, 10, 30, 100, 300], 3)
        for _ in range(60):
            n = int(rng.choice(sizes)) * (10 if rng.random() < 0.02 else 1)
            values, times = some_values(rng, n, len(feed.values)), some_times(rng, n, feed.now)
            if rng.random() < mix:
                feed.take(values, times)
            else:
                feed.summarised(values, times, way)
            if rng.random() < 0.25:
                feed.verify_last(int(rng.integers(1, len(feed.values) + 1)), rng)
                feed.verify_within(float(rng.exponential(1 + feed.now * rng.random())), rng)
        feed.verify_last(len(feed.values), rng)
        answered += feed.answered
    assert answered > 20


SIZES: dict[str, Callable[[int], int]] = {
    "alike": lambda i: 100,
    "one by one": lambda i: 1,
    "one huge among tiny": lambda i: 5000 if i == 40 else 3,
    "huge ones among tiny": lambda i: 700 if i % 40 == 20 else 1 + i % 5,
    "shrinking": lambda i: max(1, int(1500 * 0.9**i)),
    "growing": lambda i: 1 + int(1.05**i),
    "powers of two": lambda i: 1 << (i % 9),
    "sawtooth": lambda i: 1 + 17 * (i % 23),
}


@pytest.mark.parametrize("way", ["exact", "coarse", "lifted"])
@pytest.mark.parametrize("sizes", SIZES)
def test_adversarial_sizes(sizes: str, way: str, rng: Rng) -> None:
    """Insert blocks as coarse as allowed, with windows that begin in the middle or at their ends."""
    for eps in (0.3, 0.1):
        feed = Feed(SmallRecentWindow(eps), timed=False)
        for i in range(150):
            n = SIZES[sizes](i)
            values = some_values(rng, n, len(feed.values))
            late = int(eps / 2 * n) if way == "lifted" else 0
            if late:
                feed.window.update_summary(Summary.of(values[late:]).lift(late))
                feed.blocks.append((len(feed.values), len(feed.values) + n))
                feed._note(values, np.zeros(n))
            else:
                feed.summarised(values, np.zeros(n), float(way == "coarse"))
            if i % 10 == 9:
                feed.verify_last(int(np.exp(rng.uniform(0, np.log(len(feed.values))))), rng)
        for _ in range(40):
            feed.verify_last(int(np.exp(rng.uniform(0, np.log(len(feed.values))))), rng)
        assert feed.answered > 5


def test_a_small_block_never_refuses_a_window(rng: Rng) -> None:
    """Blocks lifted to the limit: each missing value costs a whole rank, and groups may begin far back."""
    for cls in (SmallRecentWindow, RecentWindow):
        window, values = cls(0.1), np.empty(0)
        for _ in range(119):
            block = rng.random(100)
            window.update_summary(Summary.of(block[5:]).lift(5))
            values = np.concatenate([values, block])
        for last in range(2000, 11_900, 37):
            verify(window, values[-last:], rng, last=last)


def test_values_and_blocks_by_turns(rng: Rng) -> None:
    """Values and slices are cut separately: together they lose no more than eps allows."""
    for eps in (0.5, 0.2, 0.1):
        for way in (0.0, 1.0):
            feed = Feed(SmallRecentWindow(eps))
            while len(feed.values) < 6000:
                n = max(1, int(len(feed.values) * eps / 10 * rng.random()))
                feed.take(rng.random(n), some_times(rng, n, feed.now))
                feed.summarised(rng.random(n), some_times(rng, n, feed.now), way)
            for _ in range(60):
                feed.verify_last(int(np.exp(rng.uniform(0, np.log(len(feed.values))))), rng)
                feed.verify_within(float(feed.now * rng.random() ** 3 + 1e-3), rng)


def test_blocks_alone_are_like_a_sketch(rng: Rng) -> None:
    """The longest window over summaries of other sketches is within eps."""
    window, values = RecentWindow(0.02), np.empty(0)
    for _ in range(20):
        block = rng.normal(size=int(rng.integers(1, 30_000)))
        sketch = StreamSketch(0.01)
        sketch.update(block)
        window.update_summary(sketch.summary())
        values = np.concatenate([values, block])
        assert verify(window, values, rng).n == window.n == len(values)


# --- time slices --------------------------------------------------------------------------------------------


def test_overlapping_slices_are_joined(rng: Rng) -> None:
    """Overlapping blocks are merged into one slice; no window begins inside it."""
    feed = Feed(SmallRecentWindow(0.2))
    for second in range(60):
        for part in range(3):
            times = second + np.sort(rng.random(50)) * 0.9
            times[0], times[-1] = second + 0.1 * part, second + 0.9
            feed.summarised(rng.random(50), times, 0.5, joins=part > 0)
    assert len(list(feed.window._slices.groups())) >= 10
    for _ in range(50):
        feed.verify_within(float(rng.random() * 60), rng)
        feed.verify_last(int(rng.integers(1, 9000)), rng)
    assert feed.answered > feed.refused


def test_slices_that_touch_are_not_joined() -> None:
    window = RecentWindow(0.2)
    window.update_summary(Summary.of([1.0, 2.0]), 0.0, 10.0)
    window.update_summary(Summary.of([3.0, 4.0]), 10.0, 20.0)
    assert window.quantiles([0.5, 1.0], last=2).tolist() == [3.0, 4.0]
    window.update_summary(Summary.of([5.0, 6.0]), 19.9, 21.0)
    with pytest.raises(errors.SpanError, match="last=4"):
        window.quantile(0.5, last=2)
    assert window.quantile(1e-9, last=4) == 3.0


def test_slices_out_of_order_are_late(rng: Rng) -> None:
    """A block is late if it begins before the closed slices end, or ends before the open slice begins."""
    window = SmallRecentWindow(0.2)
    window.update_summary(Summary.of(rng.random(10)), 0.0, 10.0)
    window.update_summary(Summary.of(rng.random(10)), 20.0, 30.0)
    before = window.to_bytes()
    for first, last in ((15.0, 19.0), (5.0, 25.0), (9.99, 40.0), (0.0, 10.0)):
        with pytest.raises(errors.LateError):
            window.update_summary(Summary.of([1.0]), first, last)
        assert window.to_bytes() == before
    window.update_summary(Summary.of(rng.random(10)), 12.0, 25.0)
    assert window.newest == 30.0
    window.update(0.5, 30.0)
    with pytest.raises(errors.LateError):
        window.update_summary(Summary.of([1.0]), 29.0, 31.0)
    with pytest.raises(errors.LateError):
        window.update(0.5, 29.0)
    window.update_summary(Summary.of([1.0, 2.0, 3.0]), 5.0, 6.0, late="clamp")
    assert (window.clamped, window.newest, window.arrived) == (3, 30.0, 34)
    assert window.quantiles([0.25, 0.5, 0.75, 1.0], last=4).tolist() == [0.5, 1.0, 2.0, 3.0]


def test_spans_of_blocks_that_are_refused(rng: Rng) -> None:
    window = SmallRecentWindow(0.2)
    window.update_summary(Summary.of(rng.random(10)), 0.0, 10.0)
    before = window.to_bytes()
    bad: list[tuple[Any, Any, type[Exception]]] = [
        (12.0, 11.0, errors.InvalidArgumentError),
        (12.0, None, errors.InvalidArgumentError),
        (None, 12.0, errors.InvalidArgumentError),
        (None, None, errors.InvalidArgumentError),
        (float("nan"), 12.0, errors.InvalidArgumentError),
        (12.0, float("inf"), errors.InvalidArgumentError),
        ([12.0, 13.0], 14.0, errors.InvalidArgumentError),
        ([], 14.0, errors.InvalidArgumentError),
        (np.datetime64("2026-01-01"), np.datetime64("2026-01-02"), errors.TypeMismatchError),
        ("a", "b", errors.TypeMismatchError),
    ]
    for first, last, error in bad:
        with pytest.raises(error):
            window.update_summary(Summary.of([1.0]), first, last)
        assert window.to_bytes() == before
        with pytest.raises(error):
            window.update_summary(Summary.of([1.0]), first, last, late="clamp")
        assert window.to_bytes() == before


def test_timestamps_of_blocks() -> None:
    window = RecentWindow(0.2, max_age="1 d")
    hour, second = np.timedelta64(3600, "s"), np.timedelta64(1, "s")
    start = np.datetime64("2026-03-01T00:00:00")
    for i in range(100):
        window.update_summary(Summary.of([float(i)] * 10), start + i * hour, start + (i + 1) * hour - second)
    assert window.quantile(0.5, within="1 h") == 99
    answer = window.answer(1e-9, within="10 h")
    assert (answer.value, answer.n, answer.since) == (90, 100, start + 90 * hour)
    assert answer.until == start + 100 * hour - second


# --- coarseness ---------------------------------------------------------------------------------------------


def test_too_coarse_is_refused_and_changes_nothing(rng: Rng) -> None:
    window = SmallRecentWindow(0.1)
    window.update(rng.random(300), np.arange(300.0))
    window.update_summary(Summary.of(rng.random(30)), 300.0, 301.0)
    window.update(0.25, 301.0)
    before = window.to_bytes()
    coarse = Summary.of(np.arange(10_000.0)).compress(9)
    assert coarse.error > 0.05
    for late in (None, "clamp"):
        with pytest.raises(errors.TooCoarseError):
            window.update_summary(coarse, 302.0, 303.0, late)
    for bad in (np.arange(3.0), None, Summary.of([1, 2]), Summary.of(np.arange(3).astype("datetime64[s]"))):
        with pytest.raises(errors.TypeMismatchError):
            window.update_summary(bad, 302.0, 303.0)  # type: ignore[arg-type]
    assert window.to_bytes() == before
    just = Summary.of(np.arange(38.0)).lift(2)
    assert just.error == 0.05
    window.update_summary(just, 302.0, 303.0)
    assert window.arrived == 371
    window.update_summary(Summary.of([]), 400.0, 401.0)
    assert (window.arrived, window.newest) == (371, 303.0)


def test_skipped_values_of_blocks_are_counted() -> None:
    window = RecentWindow(0.1)
    window.update_summary(Summary.of([1.0, None, float("nan"), None], nan="skip"), 0.0, 1.0)
    window.update_summary(Summary.of([None, None]), 0.0, 1.0)
    assert (window.nulls, window.nans, window.arrived) == (4, 1, 1)
    assert (window.summary().nulls, window.summary().nans) == (4, 1)


# --- windows finer than the blocks --------------------------------------------------------------------------


def test_the_smallest_window_is_named_and_is_answered(rng: Rng) -> None:
    feed = Feed(SmallRecentWindow(0.1))
    for i in range(200):
        n = int(rng.choice([1, 5, 60, 400]))
        values, times = rng.random(n), some_times(rng, n, feed.now)
        if i % 3:
            feed.summarised(values, times, 0.5)
        else:
            feed.take(values, times)
    named = 0
    for last in range(1, len(feed.values), 97):
        try:
            feed.window.quantile(0.5, last=last)
        except errors.SpanError as refused:
            match = re.search(r"last=(\d+)$", str(refused))
            assert match, refused  # noqa: PT017
            smallest = int(match[1])
            assert smallest >= last
            verify(feed.window, feed.values[-smallest:], rng, last=smallest)
            named += 1
    assert named > 5
    for span in np.linspace(0.01, feed.now, 100):
        try:
            feed.window.quantile(0.5, within=float(span))
        except errors.SpanError as refused:
            match = re.search(r"more than ([\d.e+-]+) (\w+)$", str(refused))
            assert match, refused  # noqa: PT017
            answer = feed.window.answer(0.5, within=f"{float(match[1]) * 1.00001 + 1e-6:.9f} {match[2]}")
            assert answer.n_lo <= np.count_nonzero(feed.times >= answer.since)
            named += 1
    assert named > 10


def test_a_block_newer_than_the_window() -> None:
    """A span that begins within the only block."""
    window = RecentWindow(0.1)
    window.update_summary(Summary.of(np.arange(1000.0)), 0.0, 100.0)
    with pytest.raises(errors.SpanError, match="100"):
        window.quantile(0.5, within=50)
    with pytest.raises(errors.SpanError, match="last=1000"):
        window.quantile(0.5, last=500)
    assert window.answer(0.5, within=101).n == 1000
    with pytest.raises(errors.SpanError, match="last=1000"):
        window.quantile(0.5, last=999)
    with pytest.raises(errors.EmptyError):
        window.quantile(0.5, within=50, now=150)


# --- limits and memory --------------------------------------------------------------------------------------


@pytest.mark.parametrize("limits", [{"max_items": 3000}, {"max_age": 40}, {"max_items": 500, "max_age": 100}])
def test_limits_with_blocks(limits: dict[str, Any], rng: Rng) -> None:
    """Windows within the limits are answered while blocks are small; the number of tuples stays bounded."""
    feed, tuples = Feed(SmallRecentWindow(0.2, **limits)), []
    for i in range(1500):
        n = int(rng.integers(1, 30))
        values, times = rng.random(n), feed.now + np.sort(rng.random(n)) * 0.2
        if i % 10 == 9:
            feed.take(values, times)
        else:
            feed.summarised(values, times, 0.7)
        tuples.append(feed.window.tuples)
        if i % 100 == 99:
            feed.verify_last(int(rng.integers(1, limits.get("max_items", 500) + 1)), rng)
            feed.verify_within(float(rng.random() * limits.get("max_age", 5)) + 0.01, rng)
    assert feed.answered > feed.refused
    assert max(tuples[1000:]) <= 1.25 * max(tuples[300:900])


@pytest.mark.slow
def test_ten_thousands_of_blocks_take_bounded_memory(rng: Rng) -> None:
    blocks = [Summary.of(rng.random(n)) for n in (1, 3, 10, 40)]
    for limits in ({"max_items": 2000}, {"max_age": 100}):
        window, tuples = SmallRecentWindow(0.2, **limits), []
        for i in range(10_000):
            window.update_summary(blocks[i % 4], float(i), float(i) + 0.5)
            if i % 250 == 249:
                tuples.append(window.tuples)
        assert max(tuples[20:]) <= 1.2 * max(tuples[4:20])
        assert max(tuples) < 5000
    window, tuples = SmallRecentWindow(0.2), []
    for i in range(10_000):
        window.update_summary(blocks[i % 4])
        if i % 1250 == 1249:
            tuples.append(window.tuples)
    assert tuples[-1] < 2 * tuples[1]


def test_a_slice_that_never_closes(rng: Rng) -> None:
    """Thousands of overlapping blocks are one slice, thinned as it grows."""
    window, values = SmallRecentWindow(0.2), np.empty(0)
    for i in range(3000):
        block = rng.random(20)
        window.update_summary(Summary.of(block), 0.0, 1000.0 + i)
        values = np.concatenate([values, block])
    assert window.tuples < 6000
    verify(window, values, rng)


def test_what_can_be_read_when_nothing_can_be_answered() -> None:
    window = RecentWindow(0.1, max_items=5)
    window.update_summary(Summary.of(np.arange(1000.0)))
    with pytest.raises(errors.SpanError):
        window.quantile(0.5)
    assert (window.n, window.arrived) == (5, 1000)
    assert "n=5" in repr(window)


def test_as_many_as_can_be() -> None:
    """Ranks are exact up to 2**53; an insert beyond that is refused and changes nothing."""
    half = Summary.of(np.arange(4.0))
    while half.n < 2**52:
        half = Summary.merge(half, half).compress(400)
    windows: list[Any] = [RecentWindow(0.1), SlidingWindow(2**53, 0.1)]
    for window in windows:
        window.update_summary(half)
        window.update_summary(half)
        before = window.to_bytes()
        with pytest.raises(errors.CountOverflowError):
            window.update_summary(half)
        for values in ([1.0], 1.0):
            with pytest.raises(errors.CountOverflowError):
                window.update(values)
        assert window.n == 2**53
        assert window.to_bytes() == before
        assert type(window).from_bytes(before).quantile(0.5) == 1.0


def test_empty_in_time(rng: Rng) -> None:
    window = SmallRecentWindow(0.2, max_age="1 h")
    for i in range(100):
        window.update_summary(Summary.of(rng.random(30)), float(i), i + 1.0)
    with pytest.raises(errors.EmptyError):
        window.quantile(0.5, within="1 h", now=3700 + 1)
    window.update_summary(Summary.of([7.0]), 10_000.0, 10_000.0)
    assert window.quantile(0.5, within="1 h") == 7.0
    assert window.tuples < 2000


def test_restart_in_the_middle(rng: Rng) -> None:
    """A window restored at any moment, with or without an open slice, continues identically, byte for byte."""
    for timed in (True, False):
        straight, restarted = Feed(SmallRecentWindow(0.2), timed), Feed(SmallRecentWindow(0.2), timed)
        for i in range(250):
            n = int(rng.choice([1, 4, 30, 200]))
            values, times = rng.random(n), some_times(rng, n, straight.now)
            for feed in (straight, restarted):
                (feed.take if i % 4 == 3 else feed.summarised)(values, times)
            if rng.random() < 0.3:
                restarted.window = SmallRecentWindow.from_bytes(restarted.window.to_bytes())
            if rng.random() < 0.1:
                straight.verify_last(int(rng.integers(1, len(straight.values) + 1)), rng)
        assert straight.window.to_bytes() == restarted.window.to_bytes()
        mask = inside(straight.times, straight.now, 1e9) if timed else np.ones(len(straight.values), dtype=bool)
        assert verify(restarted.window, straight.values[mask], rng).n == len(straight.values)
