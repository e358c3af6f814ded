"""Limits of conditions that do not fit, and conditions that are dropped before the type of the values is known."""

import copy
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from quantide import Monitor, Summary
from quantide.errors import CorruptBytesError, InvalidArgumentError, TypeMismatchError
from quantide.kernels.keyed_evaluation import add_rank_bounds
from quantide.summary.value_types import type_named

DAYS = np.array(["2024-01-02", "2024-01-03"], dtype="datetime64[us]")


@pytest.mark.parametrize("limit", [2.5, DAYS[0]])
def test_a_dropped_condition_leaves_no_limit(limit: object) -> None:
    monitor = Monitor(0.01)
    monitor.drop(monitor.watch(0.5, 0.05, above=limit))
    for same in (Monitor.from_bytes(monitor.to_bytes()), copy.copy(monitor)):
        query = same.register(0.5, 0.05)
        same.update(DAYS)
        assert same.answer(query).value == DAYS[0]


@pytest.mark.parametrize("limit", [2.5, float("nan")])
def test_values_that_a_limit_does_not_fit_are_refused_whole(limit: float) -> None:
    monitor = Monitor(0.01)
    monitor.watch(0.5, 0.05, above=limit, on_change=lambda *_: None)
    values = DAYS if limit == limit else np.array([1.0, 2.0])
    with pytest.raises((TypeMismatchError, InvalidArgumentError)):
        monitor.update(values)
    with pytest.raises((TypeMismatchError, InvalidArgumentError)):
        monitor.update_summary(Summary.of(values))
    assert monitor.n == 0


@pytest.mark.parametrize("values", [[1.0, 2.0], [1, 2], np.array([1, 2], np.float32), [Decimal(1), Decimal(2)]])
def test_a_limit_beyond_all_numbers_decides(values: Any) -> None:
    monitor = Monitor(0.01)
    early = monitor.watch(0.5, below=10**400)
    monitor.update(values)
    given: list[dict[str, Any]] = [{"above": 10**400}, {"below": -(10**400)}, {"above": -(10**400)}]
    ids = [early, *(monitor.watch(0.5, **limits) for limits in given)]
    assert [monitor.condition(id) for id in ids] == ["certain", "no", "no", "certain"]


BETWEEN = [
    (2.0**53, 2**53 + 1),
    (2.0**60, np.int64(2**60 + 1)),
    (np.float32(2.0**53), np.uint64(2**53 + 1)),
    (np.float32(3.0), 3.0000000001),
    (2**63 - 1, 2.0**63),
    (2**63 - 1, 2**63),
    (2**60, Fraction(2**61 + 1, 2)),
    (0.1, Decimal("0.1000000000000000056")),
]
"""A value, and a limit just above it that numpy rounds to the value."""


def exact(number: Any) -> Fraction:
    return Fraction(number.item() if isinstance(number, np.generic) else number)


@pytest.mark.parametrize(("value", "limit"), BETWEEN)
def test_a_limit_that_is_rounded_to_a_value_is_above_it(value: Any, limit: Any) -> None:
    assert exact(value) < exact(limit)
    monitor = Monitor(0.01)
    monitor.update(np.array([value] * 10))
    states = [monitor.condition(monitor.watch(0.5, below=limit)), monitor.condition(monitor.watch(0.5, above=limit))]
    assert states == ["certain", "no"]


@pytest.mark.parametrize("limit", [3, np.int64(3), np.float32(3), Decimal("3.00"), Fraction(3)])
def test_a_limit_that_is_a_value_is_neither_above_nor_below_it(limit: Any) -> None:
    for values in ([Decimal("3.00")], [3.0], [3]):
        monitor = Monitor(0.01)
        early = monitor.watch(0.5, below=limit)
        monitor.update(values)
        late = [monitor.watch(0.5, below=limit), monitor.watch(0.5, above=limit)]
        assert [monitor.condition(id) for id in (early, *late)] == ["no", "no", "no"]


@pytest.mark.parametrize("changes", [2**62 + 1, 10**30])
def test_recluster_after_fits_its_bytes(changes: int) -> None:
    with pytest.raises(InvalidArgumentError, match="at most"):
        Monitor(0.01, recluster_after=changes)
    Monitor.from_bytes(Monitor(0.01, recluster_after=2**62).to_bytes())


def test_a_query_that_another_thread_drops_is_no_index() -> None:
    """A key number of -2 marks a dropped query. Plain Python finds what machine code reads outside its array."""
    counts = np.zeros(1, dtype=np.int64)
    ints = np.array([0, 1])
    add_rank_bounds.py_func(  # type: ignore[attr-defined]
        np.array([-2]),
        np.array([1.0]),
        np.array([0], np.int32),
        np.array([1.0]),
        ints,
        ints,
        ints,
        ints,
        counts,
        counts,
    )
    assert counts.tolist() == [0]


@pytest.mark.parametrize(("rmin", "rmax"), [([5, 9], [5, 10]), ([1, 8], [1, 9])])
def test_bytes_of_a_summary_without_its_ends_are_refused(rmin: list[int], rmax: list[int]) -> None:
    """The first tuple is the minimum and the last the maximum: sketches rely on it when they are fed summaries."""
    summary = Summary(np.array([1.0, 2.0]), np.array(rmin), np.array(rmax), 10, type_named("float64"))
    with pytest.raises(CorruptBytesError):
        Summary.from_bytes(summary.to_bytes())


@pytest.mark.parametrize("limit", [1e308, -1e308, np.inf, 0.1])
def test_limits_that_no_float32_has(limit: float) -> None:
    """Such limits are compared as they are, without a warning."""
    monitor = Monitor(0.01)
    monitor.update(np.array([1.0, 2.0, 3.0], dtype=np.float32))
    above, below = monitor.watch(0.5, 0.05, above=limit), monitor.watch(0.5, 0.05, below=limit)
    expected = ("certain", "no") if limit < 2 else ("no", "certain")
    assert (monitor.condition(above), monitor.condition(below)) == expected
