"""A value of weight w counts as w equal values: every class against values that are repeated, and exact ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantide import (
    ConstrainedWindow,
    GKSketch,
    Monitor,
    RecentWindow,
    SlidingWindow,
    StreamSketch,
    Summaries,
    Summary,
    errors,
    last,
    where,
    within,
)
from quantide.queries.marked_sketch import MarkedSketch
from quantide.summary import weighted_values
from quantide.summary.ranks import MAX_N
from tests import oracle
from tests.checks.verify import verify_ranks

Rng = np.random.Generator
Rows = list[tuple[float | None, int]]
ROWS = st.lists(
    st.tuples(st.one_of(st.none(), st.sampled_from([0.0, 1.0, 2.5, -3.0, 7.0, float("inf")])), st.integers(0, 30)),
    max_size=30,
)


class WeightedRanks:
    """Exact ranks of weighted values, whose number may be too large for repeating them."""

    def __init__(self) -> None:
        self._values, self._weights = np.empty(0), np.empty(0, dtype=np.int64)

    def add(self, values: Any, weights: Any) -> None:
        self._values = np.concatenate((self._values, values))
        self._weights = np.concatenate((self._weights, np.broadcast_to(weights, np.shape(values))))
        order = np.argsort(self._values, kind="stable")
        self._values, self._weights = self._values[order], self._weights[order]

    @property
    def n(self) -> int:
        return int(self._weights.sum())

    def some_ranks(self, rng: Rng) -> Any:
        """Return ranks near the ends, near the edges of values, and between."""
        edges = rng.choice(np.cumsum(self._weights), 300)
        ranks = np.concatenate((np.arange(1, 300), self.n - np.arange(300), edges, edges + 1))
        spread = (rng.random(600) * self.n).astype(np.int64) + 1
        return np.unique(np.clip(np.concatenate((ranks, spread)), 1, self.n))

    def distances(self, values: Any, ranks: Any) -> Any:
        """Return how far each value is from each rank."""
        before = np.concatenate(([0], np.cumsum(self._weights)))
        first = before[np.searchsorted(self._values, values, side="left")] + 1
        final = before[np.searchsorted(self._values, values, side="right")]
        assert np.all(first <= final), "every answer is a value"
        return np.maximum(0, np.maximum(first - ranks, ranks - final))


def repeated(values: Any, weights: Any) -> Any:
    return np.repeat(np.asarray(values, dtype=float), weights)


@given(ROWS)
def test_a_summary_is_exact(rows: Rows) -> None:
    values, weights = pa.array([row[0] for row in rows], pa.float64()), [row[1] for row in rows]
    data = [x for x, count in rows if x is not None for _ in range(count)]
    s = Summary.of(values, weights=weights)
    assert oracle.summary_faults(s, data) == []
    assert (s.error, s.rank_error, s.n) == (0.0, 0, len(data))
    assert s.nulls == sum(count for x, count in rows if x is None)
    assert Summary.from_bytes(s.to_bytes()) == s
    assert len(s) <= 2 * len(set(data))
    if data:
        assert s.tail == 0
        assert s.quantiles(np.arange(1, s.n + 1) / s.n).tolist() == sorted(data)
        assert (s.min, s.max) == (min(data), max(data))


@given(ROWS, ROWS, st.integers(1, 12), st.integers(0, 2**32))
def test_merges_with_plain_summaries(rows: Rows, more: Rows, b: int, seed: int) -> None:
    first, second = [[(x, count) for x, count in part if x is not None] for part in (rows, more)]
    data = [x for x, count in first for _ in range(count)]
    plain = [x for x, _ in second]
    weighted = Summary.of([x for x, _ in first], weights=[count for _, count in first])
    if not data or not plain:
        return
    merged = Summary.merge(weighted, Summary.of(plain))
    assert oracle.summary_faults(merged, data + plain) == []
    assert merged.error == 0
    small = merged.compress(b)
    assert oracle.summary_faults(small, data + plain) == []
    assert small.rank_error <= merged.n / (2 * b) + 1
    verify_ranks(small, np.sort(data + plain), np.random.default_rng(seed))


@given(ROWS, st.lists(st.integers(0, 3), min_size=30, max_size=30), st.sampled_from([0.3, 0.1, 0.01]))
def test_summaries_by_key(rows: Rows, keys: list[int], eps: float) -> None:
    own = keys[: len(rows)]
    values, weights = pa.array([row[0] for row in rows], pa.float64()), [row[1] for row in rows]
    for tail in (None, 0.1):
        s = Summaries.of(pa.array(own, pa.int64()), values, eps, tail=tail, weights=weights)
        every = np.repeat(np.arange(len(rows)), weights)
        plain = Summaries.of(pa.array(own, pa.int64()).take(pa.array(every)), values.take(pa.array(every)), eps)
        assert (s.keys, s.n.tolist(), s.nulls.tolist()) == (plain.keys, plain.n.tolist(), plain.nulls.tolist())
        for key in s:
            data = [
                x for (x, count), k in zip(rows, own, strict=True) if k == key and x is not None for _ in [0] * count
            ]
            assert oracle.summary_faults(s[key], data) == []
            assert s[key].error <= eps
            if tail is not None and data:
                certified = s[key].tail
                assert certified is not None
                assert certified <= tail * (1 + 1e-12)


@pytest.mark.parametrize("make", [StreamSketch, MarkedSketch, GKSketch], ids=lambda make: make.__name__)
@pytest.mark.parametrize("heaviest", [10**12, 10**6])
def test_extreme_weights_among_light_ones(make: Any, heaviest: int, rng: Rng) -> None:
    """One weight of 10^12 beside many of 1: every rank within eps, and within the tail."""
    eps, tail = (0.01, None) if make is GKSketch else (0.001, 0.01)
    sketch = make(eps) if make is GKSketch else make(eps, tail=tail)
    truth = WeightedRanks()
    for block in range(4):
        values = rng.normal(size=30_000)
        weights = np.ones(len(values), dtype=np.int64) if block < 3 else rng.integers(0, 1000, len(values))
        if block in (0, 2):
            weights[rng.integers(0, len(values))] = heaviest
        sketch.update(values, weights=weights)
        truth.add(values, weights)
        plain = rng.normal(size=9_000)
        sketch.update(plain)
        truth.add(plain, 1)
        n, ranks = truth.n, truth.some_ranks(rng)
        assert sketch.n == n
        assert sketch.error <= eps
        distance = truth.distances(sketch.quantiles(ranks / n), np.maximum(1, np.ceil(ranks / n * n - 1e-9)))
        allowed = np.full(len(ranks), eps * n)
        if tail is not None:
            allowed = np.minimum(allowed, tail * np.minimum(n - ranks, ranks - 1)) + 1.5  # 1: phi * n is rounded
        assert np.all(distance <= allowed)
        again = type(sketch).from_bytes(sketch.to_bytes())
        assert again.summary() == sketch.summary()


def test_merged_sketches(rng: Rng) -> None:
    sketches, truth = [StreamSketch(0.01) for _ in range(4)], WeightedRanks()
    for sketch in sketches:
        for weights in (1, 10**9, rng.integers(0, 50, 2000)):
            values = rng.integers(0, 500, 2000).astype(float)
            sketch.update(values, weights=weights)
            truth.add(values, weights)
    sketches[0].merge(*sketches[1:])
    ranks = truth.some_ranks(rng)
    assert sketches[0].n == truth.n
    assert sketches[0].tail == 0.1
    assert np.all(truth.distances(sketches[0].quantiles(ranks / truth.n), ranks) <= 0.01 * truth.n)


def test_the_largest_number_of_values() -> None:
    sketch = StreamSketch(0.01)
    sketch.update([1.0, 2.0], weights=[MAX_N - 3, 3])
    assert (sketch.n, sketch.rank(1.0)) == (MAX_N, (MAX_N - 3, MAX_N - 3))
    before = sketch.to_bytes()
    for values, weights in ((1.0, None), (1.0, 1), ([1.0, 2.0], [1, 0])):
        with pytest.raises(errors.CountOverflowError):
            sketch.update(values, weights=weights)
    assert sketch.to_bytes() == before
    assert Summary.from_bytes(sketch.summary().to_bytes()) == sketch.summary()


@pytest.mark.parametrize("clustering", ["online", "fewest"])
def test_a_monitor(clustering: str, rng: Rng) -> None:
    """Values keep their certificates when one update adds more values than all before."""
    monitor, truth = Monitor(0.01, clustering), WeightedRanks()
    phis = np.concatenate(([0.0, 1.0, 0.9999], rng.random(200)))
    ids = monitor.register_many(phis, 0.02)
    for heaviest in (1, 10, 10**9, 1, 50, 10**6):
        values = rng.choice(rng.normal(size=40), 500)
        weights = rng.integers(0, 3, 500)
        weights[7] = heaviest
        monitor.update(values, weights=weights)
        truth.add(values, weights)
        plain = rng.normal(size=300)
        monitor.update(plain)
        truth.add(plain, 1)
        answers = monitor.answers(ids)
        n = truth.n
        assert monitor.n == n
        targets = np.maximum(1, np.ceil(phis * n - 1e-9))
        distance = truth.distances(answers.values, targets)
        assert np.all(distance <= answers.error * n + 1e-6)
        assert np.all(answers.error <= 0.02 + 1e-12)
        assert (monitor.min, monitor.max) == (monitor.summary().min, monitor.summary().max)
    assert monitor.min == truth._values[0]


def test_a_monitor_over_a_window(rng: Rng) -> None:
    monitor, everything = Monitor(0.1, window=SlidingWindow(1000, 0.05)), np.empty(0)
    median = monitor.register(0.5, 0.2)
    for heaviest in (1, 300, 5000, 2):
        values, weights = rng.normal(size=100), rng.integers(0, 5, 100)
        weights[50] = heaviest
        monitor.update(values, weights=weights)
        everything = np.concatenate((everything, repeated(values, weights)))[-1000:]
        assert oracle.wrong_answers(everything, [monitor.answer(median).value], [0.5], 0.2) == []


def test_times_belong_to_values_of_any_weight(rng: Rng) -> None:
    """Windows by number and by time, with values of weight 0, nulls, NaN and late values."""
    weighted, plain = (RecentWindow(0.02, max_age="1000 s", nan="skip", late="clamp") for _ in range(2))
    for start in (0.0, 50.0, 90.0):
        values = [None if rng.random() < 0.1 else x for x in np.round(rng.normal(size=300), 1).tolist()]
        values[5] = float("nan")
        weights, times = rng.integers(0, 40, 300), start + np.sort(rng.random(300)) * 40 - rng.random(300)
        every = np.repeat(np.arange(300), weights)
        weighted.update(values, times, weights=weights)
        plain.update(pa.array(values, pa.float64()).take(pa.array(every)), times[every])
        weighted.update(3.0, start + 45, weights=7)
        plain.update([3.0] * 7, start + 45)
        assert weighted.to_bytes() == plain.to_bytes()
    assert weighted.clamped == plain.clamped > 0
    assert weighted.quantile(0.5, within="30 s") == plain.quantile(0.5, within="30 s")


def test_late_values_of_weight_0_are_not_late() -> None:
    window = RecentWindow(0.1)
    window.update([1.0, 2.0, 3.0], [5.0, 1.0, 6.0], weights=[2, 0, 1])
    assert (window.n, window.clamped, window.newest) == (3, 0, 6.0)
    with pytest.raises(errors.LateError):
        window.update([1.0, 2.0], [6.0, 1.0], weights=[2, 1])
    with pytest.raises(errors.InvalidArgumentError, match="2 times for 3 values"):
        window.update([1.0, 2.0, 3.0], [7.0, 8.0], weights=[2, 0, 1])
    assert window.n == 3


def test_constrained_windows(rng: Rng) -> None:
    """A row of weight w is w arrivals, which last() counts one by one."""
    expression = last(500) | within("9 s") & where(pc.field("src") == "A")
    weighted, plain = (ConstrainedWindow(expression, 0.05) for _ in range(2))
    for start in (0.0, 8.0, 20.0):
        table = pa.table(
            {
                "value": np.round(rng.normal(size=200), 1),
                "time": start + np.sort(rng.random(200)) * 6,
                "src": rng.choice(["A", "B"], 200),
                "copies": rng.integers(0, 30, 200),
            }
        )
        weighted.update(table, weights="copies")
        plain.update(table.take(pa.array(np.repeat(np.arange(200), table["copies"].to_numpy()))))
        assert weighted.to_bytes() == plain.to_bytes()
        weighted.update(table.slice(199), weights=[600])
        plain.update(pa.concat_tables([table.slice(199)] * 600))
        assert weighted.to_bytes() == plain.to_bytes()
    before = weighted.to_bytes()
    for wrong in ("other", [1], -1, "src"):
        with pytest.raises(errors.InvalidArgumentError):
            weighted.update(table, weights=wrong)
    assert weighted.to_bytes() == before


@pytest.mark.parametrize("size", [100, 300_000])
def test_a_weight_beyond_the_size_of_a_window(size: int, rng: Rng) -> None:
    """Only the last arrivals of an update can be in the window; a heavy value leaves it little by little."""
    window, everything = SlidingWindow(size, 0.01), np.empty(0)
    for weight in (1, size // 3, 10**9, size // 2, 7):
        values = rng.normal(size=5)
        weights = np.array([1, 2, weight, 3, 1])
        window.update(values, weights=weights)
        kept = np.minimum(weights, size)
        everything = np.concatenate((everything, repeated(values, kept)))[-size:]
        phis = np.linspace(0, 1, 41)
        assert window.n == len(everything)
        assert oracle.wrong_answers(everything, window.quantiles(phis), phis, 0.01) == []
        assert oracle.bound_faults(everything, window.answer(0.3)) == []
    assert window.arrived == 10**9 + 1 + size // 3 + size // 2 + 7 + 5 * 7


def test_windows_refuse_what_would_take_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weighted_values, "MAX_REPEATS", 1000)
    windows: list[Any] = [SlidingWindow(2000, 0.1), RecentWindow(0.1)]
    for window in windows:
        window.update([1.0], weights=1000)
        before = window.to_bytes()
        with pytest.raises(errors.InvalidArgumentError, match=r"update_summary\(Summary.of"):
            window.update([1.0, 2.0], weights=[1, 1000])
        assert window.to_bytes() == before
        window.update_summary(Summary.of([1.0, 2.0], weights=[10, 990]))
        assert window.n == 2000
    table = pa.table({"value": [1.0, 2.0]})
    with pytest.raises(errors.InvalidArgumentError, match="at most 1000"):
        ConstrainedWindow(last(5), 0.1).update(table, weights=501)
    SlidingWindow(900, 0.1).update([1.0, 2.0], weights=[1, 10**15])


@pytest.mark.parametrize("dtype", ["float32", "int16", "datetime64[s]", "timedelta64[ns]"])
def test_weights_of_values_of_every_type(dtype: str, rng: Rng) -> None:
    values, weights = rng.integers(0, 100, 50).astype("int64").astype(dtype), rng.integers(0, 9, 50)
    s = Summary.of(values, weights=weights)
    assert oracle.summary_faults(s, np.repeat(values, weights)) == []
    assert s.values.dtype == values.dtype
    sketch = StreamSketch(0.01)
    sketch.update(values, weights=weights * 10**9)
    assert sketch.quantile(0.3) == s.quantile(0.3)
    with pytest.raises(errors.TypeMismatchError):
        sketch.update([1j], weights=2)
