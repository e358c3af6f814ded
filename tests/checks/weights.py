"""A value of weight w counts as w equal values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from quantide import Summary, errors
from quantide.summary.ranks import MAX_N
from tests.checks.kind import Kind, Rng, Sketch, needs
from tests.checks.verify import fed, refused, state_of, verify
from tests.orders import Order, uniform


def check_weights_are_repeats(kind: Kind, order: Order, rng: Rng) -> None:
    """Light weights, heavy weights and plain values, mixed: answers as if every value were repeated."""
    for eps, heavy in ((0.1, (40, 900, 30)), (0.02, (500, 70_000, 30))):
        sketch: Sketch = kind.make(eps)
        everything = np.empty(0)
        for weight in heavy:
            values = order(rng, 400)
            weights = rng.integers(0, 4, len(values))
            weights[rng.integers(0, len(values))] = weight
            sketch.update(values, weights=weights)
            plain = order(rng, 300)
            sketch.update(plain)
            everything = np.concatenate([everything, np.repeat(values, weights), plain])
            verify(kind, sketch, everything, rng, deep=True)
        again = type(sketch).from_bytes(sketch.to_bytes())
        assert again.to_bytes() == sketch.to_bytes()
        sketch.update(2.5, weights=3)
        again.update(2.5, weights=3)
        assert again.to_bytes() == sketch.to_bytes()
        verify(kind, sketch, np.concatenate([everything, [2.5] * 3]), rng)


@needs("same bytes whatever the blocks")
def check_light_weights_have_the_same_bytes(kind: Kind, rng: Rng) -> None:
    """Weights that are repeated leave the state that repeated values leave."""
    values, weights = rng.normal(size=50), rng.integers(0, 3, 50)
    weighted, repeated = kind.make(0.05), kind.make(0.05)
    weighted.update(values, weights=weights)
    repeated.update(np.repeat(values, weights))
    assert weighted.to_bytes() == repeated.to_bytes()


def check_forms_of_weights(kind: Kind, rng: Rng) -> None:
    """One weight for all, lists, Arrow, whole floats; nulls and NaN count as often as their weight says."""
    values = rng.normal(size=60)
    weights = rng.integers(0, 5, 60)
    forms: list[Any] = [weights.tolist(), weights.astype(np.uint8), weights.astype(float), pa.array(weights)]
    expected = kind.make(0.1)
    expected.update(values, weights=weights)
    for form in forms:
        sketch = kind.make(0.1)
        sketch.update(values, weights=form)
        assert sketch.to_bytes() == expected.to_bytes()
    one = kind.make(0.1)
    one.update(values, weights=2)
    verify(kind, one, np.repeat(values, 2), rng)
    skipping = kind.make(0.1)
    skipping.update([1.0, None, float("nan"), 2.0, float("nan")], nan="skip", weights=[2, 3, 4, 1, 0])
    assert (skipping.n, skipping.nulls, skipping.nans) == (3, 3, 4)
    before = skipping.to_bytes()
    skipping.update([7.0, float("nan")], weights=0)
    skipping.update([], weights=[])
    assert skipping.to_bytes() == before


def check_unchanged_after_bad_weights(kind: Kind, rng: Rng) -> None:
    """Invalid weights raise a named error and change nothing."""
    sketch = fed(kind, 0.1, uniform(rng, 2000))
    before = state_of(sketch)
    wrong: dict[str, Any] = {
        "negative": [1, -1],
        "a negative one": -1,
        "fractional": [1.5, 1],
        "NaN": [1.0, float("nan")],
        "infinite": [1.0, float("inf")],
        "null": [1, None],
        "arrow null": pa.array([1, None]),
        "bool": [True, False],
        "text": ["1", "2"],
        "nested": [[1, 2], [3, 4]],
        "ragged": [[1, 2], 3],
        "times": np.array([1, 2], dtype="timedelta64[ns]"),
        "too few": [1],
        "too many": [1, 1, 1],
    }
    for weights in wrong.values():
        refused(sketch, errors.InvalidArgumentError, _update, sketch, [1.0, 2.0], weights)
    for weights in ([MAX_N, 1], [2**64 - 1, 1], [2**80, 1], [1e300, 1], [MAX_N] * 5000):
        values = np.zeros(len(weights))
        refused(sketch, errors.CountOverflowError, _update, sketch, values, weights)
    refused(sketch, errors.NaNError, _update, sketch, [1.0, float("nan")], 10**6)
    refused(sketch, errors.TypeMismatchError, _update, sketch, Summary.of([1.0]), 2)
    refused(sketch, errors.TypeMismatchError, _update, sketch, ["a"], 2)
    assert state_of(sketch) == before


def _update(sketch: Sketch, values: Any, weights: Any) -> None:
    sketch.update(values, weights=weights)
