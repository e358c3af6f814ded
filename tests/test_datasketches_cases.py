"""Cases that the tests of DataSketches check for KLL, REQ and classic quantiles sketches, with the answers here.

Their sketches answer within an error with some probability; ours must be within eps, and exact while values are few.
"""

import numpy as np
import pytest

from quantide import GKSketch, StreamSketch, errors

Sketch = StreamSketch | GKSketch
KINDS = [StreamSketch, GKSketch]
EPS = 0.01


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def sketch(request: pytest.FixtureRequest) -> Sketch:
    made: Sketch = request.param(EPS)
    return made


def test_an_empty_sketch_has_no_answers(sketch: Sketch) -> None:
    assert sketch.n == 0
    with pytest.raises(errors.EmptyError):
        sketch.quantile(0.5)
    with pytest.raises(errors.EmptyError):
        _ = sketch.min


def test_fractions_outside_0_to_1_are_refused(sketch: Sketch) -> None:
    sketch.update([1.0])
    for phi in (-1.0, 1.000001, float("nan")):
        with pytest.raises(errors.InvalidArgumentError):
            sketch.quantile(phi)


def test_one_value_is_every_quantile(sketch: Sketch) -> None:
    sketch.update([1.0])
    assert sketch.rank(1.0, inclusive=False) == (0, 0)
    assert sketch.rank(1.0) == sketch.rank(2.0) == (1, 1)
    assert sketch.min == sketch.max == sketch.quantile(0) == sketch.quantile(0.5) == sketch.quantile(1) == 1.0


def test_nan_is_refused_where_datasketches_ignores_it(sketch: Sketch) -> None:
    with pytest.raises(errors.NaNError):
        sketch.update([float("nan")])
    assert sketch.n == 0
    skipping = StreamSketch(EPS, nan="skip")
    skipping.update([float("nan"), 1.0])
    assert skipping.n == 1


def test_few_values_are_exact(sketch: Sketch) -> None:
    n = 90  # fewer than 1/eps
    sketch.update(np.random.default_rng(1).permutation(n).astype(float))
    for i in range(n):
        assert sketch.rank(float(i), inclusive=False) == (i, i)
        assert sketch.rank(float(i)) == (i + 1, i + 1)
        assert sketch.quantile((i + 1) / n) == i
    assert (sketch.quantile(0), sketch.quantile(0.5), sketch.quantile(1)) == (0.0, 44.0, 89.0)


def test_many_values_are_within_eps(sketch: Sketch) -> None:
    n = 10_000
    sketch.update(np.random.default_rng(2).permutation(n).astype(float))
    assert (sketch.n, sketch.min, sketch.max) == (n, 0.0, n - 1.0)
    phis = np.arange(1, n + 1, 37) / n
    answers = np.asarray(sketch.quantiles(phis))
    assert (np.diff(answers) >= 0).all()
    assert (np.abs(answers + 1 - phis * n) <= EPS * n).all()
    for value in (0.0, 1234.0, 5000.0, 9999.0):
        low, high = sketch.rank(value)
        assert low <= value + 1 <= high
        assert high - low <= 2 * EPS * n


def test_masses_are_differences_of_the_distribution(sketch: Sketch) -> None:
    sketch.update(np.arange(1000.0))
    splits = np.arange(0.0, 1000.0, 125.0)
    masses, below = np.asarray(sketch.pmf(splits)), np.asarray(sketch.cdf(splits))
    assert masses.sum() == pytest.approx(1)
    np.testing.assert_allclose(np.cumsum(masses)[:-1], below, atol=2 * EPS)


@pytest.mark.parametrize("overlap", [0, 5_000])
def test_merged_halves_are_within_eps(overlap: int) -> None:
    n = 10_000
    first, second = StreamSketch(EPS), StreamSketch(EPS)
    first.update(np.arange(n, dtype=float))
    second.update(np.arange(n - overlap, 2 * n - overlap, dtype=float))
    values = np.sort(np.concatenate([np.arange(n), np.arange(n - overlap, 2 * n - overlap)]))
    first.merge(second)
    assert (first.n, first.min, first.max) == (2 * n, 0.0, 2.0 * n - overlap - 1)
    for phi in (0.01, 0.25, 0.5, 0.75, 0.99):
        answer = first.quantile(phi)
        low, high = np.searchsorted(values, answer, "left") + 1, np.searchsorted(values, answer, "right")
        assert low - EPS * 2 * n <= phi * 2 * n <= high + EPS * 2 * n


def test_merging_nothing_changes_nothing() -> None:
    sketch = StreamSketch(EPS)
    sketch.update(np.arange(1000.0))
    before = sketch.summary().to_bytes()
    sketch.merge(StreamSketch(EPS))
    assert sketch.summary().to_bytes() == before
