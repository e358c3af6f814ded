"""Theorem 3 and the deadline, by brute force: arrivals in the worst place, one by one."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantide import Monitor, Summary
from quantide.kernels.cluster_evaluation import ANSWERED, evaluate, lifetime, lifetime_terms
from tests import oracle
from tests.queries import query_model

GRID = 64  # fractions of it are exact in floating point


def life(rmin: int, rmax: int, low: float, high: float, n: int) -> float:
    return lifetime(rmin, rmax, *lifetime_terms(low, high, n))


def evaluate_one(summary: Summary, a: float, b: float, eps: float, start: int = 0) -> tuple[float, float] | None:
    """The value for a cluster [a, b] and how long it lasts, None when there is none."""
    span, value, due = np.array([[a, b]]), np.empty(1), np.array([-1])
    ranks = np.array([[0, 0, 0, start]])
    values, rmin, rmax = np.array(summary.carried), np.array(summary.rmin), np.array(summary.rmax)
    state = span, value, ranks, due, values, rmin, rmax, summary.n, eps, -1.0, eps
    status, _ = evaluate(np.array([0]), *state, False, False)
    assert status != ANSWERED or due[0] >= summary.n
    lasting = life(int(ranks[0, 0]), int(ranks[0, 1]), a - eps, b + eps, summary.n)
    return (float(value[0]), lasting) if status == ANSWERED else None


fractions = st.integers(0, GRID).map(lambda i: Fraction(i, GRID))


@given(fractions, fractions, st.integers(1, 200), st.data())
def test_lifetime_is_the_number_of_worst_case_arrivals(
    one: Fraction, other: Fraction, n: int, data: st.DataObject
) -> None:
    """The lifetime is exactly the number of worst-case arrivals, neither fewer nor more."""
    a, b = min(one, other), max(one, other)
    eps = Fraction(1, GRID)
    rmin = data.draw(st.integers(1, n))
    rmax = data.draw(st.integers(rmin, n))
    lasting = life(rmin, rmax, float(a - eps), float(b + eps), n)
    exact = query_model.exact_life(rmin, rmax, a - eps, b + eps, n)
    assert (lasting >= 0) == (exact >= 0)
    if 0 <= exact < 9_999:
        assert exact == int(lasting + 1e-9)
    elif exact > 0:
        assert lasting >= exact


@given(fractions, st.integers(1, 3), st.lists(st.integers(0, 30), min_size=64, max_size=300), st.integers(8, 64))
def test_theorem_3_and_the_deadline_hold_for_values(at: Fraction, reach: int, values: list[int], width: int) -> None:
    """A tuple that the condition accepts answers, also after arrivals below, or above, all values."""
    eps = Fraction(1, 16)
    a, b = max(Fraction(0), at - Fraction(reach, GRID)), min(Fraction(1), at + Fraction(reach, GRID))
    summary = Summary.of([float(x) for x in values]).compress(width)
    low, high = float(a - eps), float(b + eps)
    found = evaluate_one(summary, float(a), float(b), float(eps))
    assert found or summary.gap + 1 > 2 * eps * summary.n - 2
    value, lasting = found or (0.0, -1)
    for far in (-1e9, 1e9):
        for k in {0, int(min(lasting, 500)), int(min(lasting, 500)) // 2} if found else ():
            data = np.array([*values, *([far] * k)], dtype=float)
            first, last = oracle.occupied(data, value)
            assert low * len(data) + (low > 0) <= last + 1e-9
            assert first <= high * len(data) + 1e-9


@given(fractions, fractions, st.lists(st.integers(0, 1000), min_size=20, max_size=200), st.integers(4, 40))
def test_the_best_tuple_is_the_best_of_all(one: Fraction, other: Fraction, values: list[int], start: int) -> None:
    summary = Summary.of([float(x) for x in values]).compress(16)
    a, b, eps = float(min(one, other)), float(max(one, other)), 0.02
    lives = [life(int(x), int(y), a - eps, b + eps, summary.n) for x, y in zip(summary.rmin, summary.rmax, strict=True)]
    found = evaluate_one(summary, a, b, eps, start)
    assert (found[1] if found else -1) >= max(lives) or (found is None and max(lives) < 0)


def test_theorem_5_there_is_a_tuple_that_lasts(rng: np.random.Generator) -> None:
    eps = 0.02
    for width in (30, 60, 200):
        summary = Summary.of(rng.normal(size=5000)).compress(width)
        assert summary.gap + 1 <= 2 * eps * summary.n
        for _ in range(200):
            a, b = np.sort(rng.random(2))
            found = evaluate_one(summary, a, b, eps, 5)
            assert found is not None
            assert found[1] >= (b - a) * summary.n / (2 * (1 - eps)) - 1e-6


def evaluation_bound(width: float, n: int, eps: float, factor: int) -> float:
    first = np.ceil(factor * (1 - eps) / width) + 1 / eps
    return float(first + np.log(n / first) / np.log1p(width / (factor * (1 - eps))))


@pytest.mark.parametrize("updates", ["triggers", "together"])
def test_evaluations_stay_within_the_bound(updates: str, rng: np.random.Generator) -> None:
    """Theorem 6 with the constant of docs/guarantees/queries.md for a single cluster: logarithmic in n."""
    eps, width, n = 0.005, 0.04, 60_000
    monitor = Monitor(eps, updates=updates)
    one = monitor.register(0.4, eps + width / 2)
    data = rng.random(n)
    for x in data.tolist():
        monitor.update(x)
        monitor.answer(one)
    assert 1 < monitor.stats()["evaluations"] <= evaluation_bound(width, n, eps, 4)


def test_a_wakeup_evaluates_clusters_whose_deadlines_are_near(rng: np.random.Generator) -> None:
    """Most evaluations have no wakeup of their own, and their number stays within the bound for many clusters."""
    eps, width, n = 0.005, 0.02, 20_000
    monitor = Monitor(eps, "worst-case")
    ids = monitor.register_many(np.arange(0.05, 1, 0.05), eps + width / 2)  # one cluster each
    data, evaluated, wakeups = rng.random(n), 0, 0
    for x in data.tolist():
        monitor.update(x)
        monitor.changes()
        wakeups += monitor.stats()["evaluations"] > evaluated
        evaluated = monitor.stats()["evaluations"]
    stats = monitor.stats()
    assert stats["clusters"] == len(ids)
    assert 3 * wakeups < evaluated <= len(ids) * evaluation_bound(width, n, eps, 8)
    assert stats["triggers"] < evaluated
    answers, ordered = monitor.answers(ids), np.sort(data)
    found = np.searchsorted(ordered, answers.values, side="right")
    assert (np.abs(found - answers.target) <= (eps + width / 2) * n).all()
