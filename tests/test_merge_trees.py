"""Sketches merged in every way stay small, and their bytes are theirs."""

import numpy as np
import pytest

from quantide import StreamSketch, Summary
from tests.oracle import wrong_answers

EPS = 0.01


def sketches(count: int, size: int, rng: np.random.Generator) -> tuple[list[StreamSketch], list[np.ndarray]]:
    parts = [rng.lognormal(0, 1, size) for _ in range(count)]
    out = []
    for part in parts:
        out.append(StreamSketch(EPS))
        out[-1].update(part)
    return out, parts


@pytest.mark.parametrize("way", ["at once", "one by one", "as a tree"])
def test_merged(way: str, rng: np.random.Generator) -> None:
    made, parts = sketches(256, 6000, rng)
    if way == "at once":
        made[0].merge(*made[1:])
    elif way == "one by one":
        for other in made[1:]:
            made[0].merge(other)
    else:
        while len(made) > 1:
            for one, other in zip(made[::2], made[1::2], strict=True):
                one.merge(other)
            made = made[::2]
    merged, values = made[0], np.sort(np.concatenate(parts))
    phis = np.linspace(0.001, 1, 500)
    assert not wrong_answers(values, merged.quantiles(phis), phis, EPS)
    assert merged.nbytes <= StreamSketch.max_nbytes(EPS, merged.n, merged=True)
    assert StreamSketch.from_bytes(merged.to_bytes()).to_bytes() == merged.to_bytes()


def test_merged_with_itself_again_and_again(rng: np.random.Generator) -> None:
    sketch, values = StreamSketch(EPS), np.sort(rng.normal(size=30_000))
    sketch.update(values)
    for _ in range(30):
        sketch.merge(sketch)
        assert sketch.nbytes <= StreamSketch.max_nbytes(EPS, sketch.n, merged=True)
    phis = np.linspace(0.001, 1, 500)
    assert not wrong_answers(values, sketch.quantiles(phis), phis, EPS)


def test_many_at_once_is_all_or_nothing() -> None:
    sketch, good, bad = StreamSketch(EPS), StreamSketch(EPS), StreamSketch(EPS)
    sketch.update([1.0, 2.0])
    good.update([3.0])
    bad.update([4])
    before = sketch.to_bytes()
    with pytest.raises(Exception, match="int64 cannot be merged into one of float64"):
        sketch.merge(good, bad)
    assert sketch.to_bytes() == before


@pytest.mark.parametrize(("eps", "n", "b"), [(2 / 49, 49, 24), (2 / 7, 7, 3), (1 / 3, 6, 3)])
def test_summaries_at_the_limit_by_rounding(eps: float, n: int, b: int) -> None:
    """A sketch reads its own bytes if rounding alone brings its error to eps/2."""
    summary = Summary.of(np.arange(float(n))).compress(b)
    target, source = StreamSketch(eps), StreamSketch(eps)
    if summary.error > eps / 2:
        pytest.skip("this summary is refused")
    source.update_summary(summary)
    target.merge(source)
    assert StreamSketch.from_bytes(target.to_bytes()).to_bytes() == target.to_bytes()
    assert target.summary().error <= eps
