"""MonitorGroup against the values of each key."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantide import MonitorGroup, errors
from quantide.queries import keyed_summary_levels
from quantide.summary import weighted_values
from tests import oracle

rows = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(-9, 9).map(float)), min_size=1, max_size=40)
registrations = st.lists(
    st.tuples(st.sampled_from("abcd"), st.floats(1e-6, 1), st.sampled_from([0.05, 0.1, 0.3])), min_size=1, max_size=6
)


def faults(
    group: MonitorGroup, registered: dict[int, tuple[Any, float, float]], data: dict[Any, list[Any]]
) -> list[str]:
    messages = []
    for one, (key, phi, eps) in registered.items():
        if data.get(key):
            answer = group.answer(one)
            if oracle.wrong_answers(data[key], [answer.value], [phi], max(eps, group.eps)):
                messages.append(f"{key} {phi} {eps}: {answer}")
            messages += oracle.bound_faults(data[key], answer)
    return messages


@given(
    st.lists(st.one_of(rows, registrations, st.integers(0, 5)), min_size=2, max_size=12),
    st.sampled_from([5, 50, 10**6]),
)
def test_every_query_is_right_after_every_step(script: list[Any], waiting: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keyed_summary_levels, "BUFFER_ROWS", waiting)
        group = MonitorGroup(0.05)
        registered: dict[int, tuple[Any, float, float]] = {}
        data: dict[Any, list[Any]] = {}
        seen: dict[int, Any] = {}
        for step in script:
            if isinstance(step, int):
                for one in list(registered)[step : step + 1]:
                    group.drop(one)
                    del registered[one]
                    seen.pop(one, None)
            elif len(step[0]) == 3:
                registered |= dict(zip(group.register_many(*zip(*step, strict=True)).tolist(), step, strict=True))
            else:
                group.update(*(list(column) for column in zip(*step, strict=True)))
                for key, value in step:
                    data.setdefault(key, []).append(value)
            assert faults(group, registered, data) == []
            seen |= dict(group.changes())
            assert seen == {one: group.answer(one).value for one, (key, _, _) in registered.items() if data.get(key)}


def test_many_keys_of_all_sizes(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyed_summary_levels, "BUFFER_ROWS", 3000)
    group = MonitorGroup(0.02)
    keys = np.arange(200)
    phis, epss = 1 - rng.random(200), rng.uniform(0.02, 0.2, 200)
    ids = group.register_many(keys, phis, epss)
    data: dict[Any, list[float]] = {}
    for _ in range(60):
        own = (200 * rng.random(1000) ** 3).astype(int)
        values = rng.normal(size=1000) + own
        group.update(own, values)
        for key, value in zip(own.tolist(), values.tolist(), strict=True):
            data.setdefault(key, []).append(value)
        group.changes()
    registered = {int(one): (int(k), p, e) for one, k, p, e in zip(ids, keys, phis, epss, strict=True)}
    assert faults(group, registered, data) == []
    assert group.stats()["evaluations"] < 60 * 200
    assert len(group.answers([one for one, (key, _, _) in registered.items() if key in data])) == len(data)


@pytest.mark.parametrize("tail", [None, 0.1])
def test_weights_of_many_keys(tail: float | None, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights are repeats: light blocks and heavy ones, which become a part of their own, mixed with plain values."""
    monkeypatch.setattr(keyed_summary_levels, "BUFFER_ROWS", 500)
    monkeypatch.setattr(weighted_values, "MAX_REPEATED", 600)
    group = MonitorGroup(0.02, nan="skip", tail=tail)
    keys, phis = rng.integers(0, 12, 60), np.append(1 - rng.random(58), (0.0, 0.999))
    ids = group.register_many(keys, phis, 0.03)
    registered = {int(one): (int(k), p, 0.03) for one, k, p in zip(ids, keys, phis, strict=True)}
    data: dict[Any, list[float]] = {}
    for block in range(40):
        own, values = rng.integers(0, 12, 100), np.round(rng.normal(size=100), 1)
        weights = np.ones(100, int) if block % 3 == 0 else rng.integers(0, 4 if block % 3 == 1 else 60, 100)
        values[3] = np.nan
        if block % 3 == 0:
            group.update(own, values)
        else:
            group.update(own, values, weights=weights)
        for key, value in zip(np.repeat(own, weights).tolist(), np.repeat(values, weights).tolist(), strict=True):
            if value == value:
                data.setdefault(key, []).append(value)
        if block % 4 == 0:
            assert faults(group, registered, data) == []
    assert faults(group, registered, data) == []
    assert group.n == sum(len(values) for values in data.values())


def test_heavy_weights_of_keys() -> None:
    group = MonitorGroup(0.01)
    ids = group.register_many(["a", "a", "b"], [0.0, 0.5, 0.5])
    group.update(["a", "b", "a", "c"], [1.0, 2.0, 9.0, 5.0], weights=[10**12, 3, 10**12 - 5, 0])
    assert [group.answer(one).value for one in ids] == [1.0, 1.0, 2.0]
    group.update(["a", "b"], [0.5, 7.0], weights=10**13)
    assert [group.answer(one).value for one in ids] == [0.5, 0.5, 7.0]
    assert (group.n, group.stats()["keys"]) == (2 * 10**13 + 2 * 10**12 - 2, 2)


def test_keys_of_several_columns_and_other_types() -> None:
    group = MonitorGroup(0.01)
    one = group.register(("x", 1), 0.5, 0.1)
    group.update({"host": ["x", "x", "y"], "cpu": [1, 1, 1]}, [3, 5, 100])
    assert group.answer(one).value == 3
    assert group.query(one) == (one, 0.5, 0.1)


def test_nan_is_a_key_like_others() -> None:
    group = MonitorGroup(0.01)
    alone, beside = group.register(float("nan"), 0.5, 0.1), group.register(("x", np.float64("nan")), 0.5, 0.1)
    for value in (1.0, 3.0):
        group.update([float("nan"), 1.0], [value, 7.0])
    assert (group.answer(alone).n, group.answer(alone).value, group.stats()["keys"]) == (2, 1.0, 3)
    group.update({"host": ["x", "y"], "rate": [float("nan"), float("nan")]}, [5.0, 6.0])
    assert group.answer(beside).value == 5.0


def test_plain_numbers_take_the_type_of_the_group() -> None:
    group = MonitorGroup(0.01)
    one = group.register("a", 1.0, 0.1)
    group.update(["a"], [1.5])
    group.update(["a", "a"], [2, None])
    assert group.answer(one).value == 2.0
    with pytest.raises(errors.TypeMismatchError, match="cast"):
        group.update(["a"], np.array([2**53 + 1]))
    assert group.n == 2


def test_bad_input_is_named_and_changes_nothing() -> None:
    group = MonitorGroup(0.01)
    one = group.register("a", 0.5, 0.1)
    with pytest.raises(errors.EmptyError):
        group.answer(one)
    group.update(["a", "a"], [1.0, 2.0])
    for wrong in (
        lambda: group.update(["a"], [1.0, 2.0]),
        lambda: group.update(["a"], [float("nan")]),
        lambda: group.update(["a"], ["text"]),
        lambda: group.update(["a"], [1.0, 2.0], weights=1),
        lambda: group.update(["a", "b"], [1.0, 2.0], weights=[1]),
        lambda: group.update(["a"], [3.0], weights=[-1]),
        lambda: group.update(["a"], [3.0], weights=[0.5]),
        lambda: group.update(["a"], [3.0], weights=2**62),
        lambda: group.update(["a"], [float("nan")], weights=2),
        lambda: group.register("a", -0.1, 0.1),
        lambda: group.register_many(["a", "b"], [0.5], 0.1),
        lambda: group.register(["a"], 0.5, 0.1),
        lambda: group.drop(17),
        lambda: group.drop_many([one, one]),
    ):
        with pytest.raises(errors.QuantideError):
            wrong()
    assert (group.n, len(group), group.answer(one).n) == (2, 1, 2)
    group.drop(one)
    with pytest.raises(errors.UnknownQueryError):
        group.answer(one)
