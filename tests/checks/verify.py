"""Verification of a sketch at one moment, and feeding it up to there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from quantide import Summary, errors
from tests import oracle
from tests.checks.kind import Kind, Rng, Sketch
from tests.orders import Floats

TINY = 1e-12  # what floating point may lose in an error that is a fraction
PHIS = np.concatenate([[0, 1e-12, 1e-4], np.linspace(0.01, 1, 100)])


def verify(kind: Kind, sketch: Sketch, fed: Floats, rng: Rng, deep: bool = False) -> None:
    """Check every answer of a sketch against all values inserted."""
    data = np.sort(kind.covers(fed))
    assert sketch.n == len(data)
    assert sketch.error <= sketch.eps + TINY
    phis = np.concatenate([PHIS, rng.random(20), rng.integers(1, len(data) + 1, 20) / len(data)])
    phis = np.clip(phis, 0, 1)
    assert oracle.wrong_answers(data, sketch.quantiles(phis), phis, sketch.eps) == []
    for phi in rng.choice(phis, 4):
        answer = sketch.answer(phi)
        assert oracle.bound_faults(data, answer) == []
        assert answer.error <= sketch.error + TINY
    verify_ranks(sketch, data, rng)
    verify_ends(kind, sketch, data)
    if deep:
        summary = sketch.summary()
        assert oracle.summary_faults(summary, data, lifted(kind)) == []
        assert summary.error <= sketch.eps + TINY


def lifted(kind: Kind) -> bool:
    """Return True if summaries may be lifted."""
    return "the ends are exact" not in kind.promises


def verify_ends(kind: Kind, sketch: Sketch, data: Floats) -> None:
    """Check min and max: exact where that is promised, and otherwise the answers for 0 and 1, which are within eps."""
    assert (sketch.min, sketch.max) == (sketch.quantile(0), sketch.quantile(1))
    assert oracle.wrong_answers(data, [sketch.min, sketch.max], [0.0, 1.0], sketch.eps) == []
    if not lifted(kind):
        assert (sketch.min, sketch.max) == (data[0], data[-1])


def verify_ranks(sketch: Sketch | Summary, data: Floats, rng: Rng) -> None:
    """Check that ranks are within their bounds, and fractions within the certified error."""
    some = rng.choice(data, 5)
    probes = np.concatenate([some, np.nextafter(some, -np.inf), some + 0.5, [-np.inf, 0.0, np.inf, data[0], data[-1]]])
    true = np.searchsorted(data, probes, side="right")
    low, high = sketch.rank(probes)
    assert np.all(low <= true)
    assert np.all(true <= high)
    assert np.all(high - low <= 2 * sketch.error * sketch.n + oracle.SLACK)
    assert np.all(np.abs(sketch.cdf(probes) - true / len(data)) <= sketch.error + TINY)
    below = np.searchsorted(data, probes, side="left")
    strict_low, strict_high = sketch.rank(probes, inclusive=False)
    assert np.all((strict_low <= below) & (below <= strict_high))
    assert np.all((strict_low <= low) & (strict_high <= high))
    assert np.all(strict_high - strict_low <= 2 * sketch.error * sketch.n + oracle.SLACK)
    assert np.all(np.abs(sketch.cdf(probes, inclusive=False) - below / len(data)) <= sketch.error + TINY)
    verify_masses(sketch, data, np.sort(probes))
    one = sketch.rank(probes[0])
    assert (int(one[0]), int(one[1])) == (int(low[0]), int(high[0]))


def verify_masses(sketch: Sketch | Summary, data: Floats, splits: Floats) -> None:
    """Check that the fractions between splits add up, and are within twice the certified error."""
    for inclusive, side in ((True, "right"), (False, "left")):
        counts = np.searchsorted(data, splits, side=side)  # type: ignore[call-overload]
        true = np.diff(counts, prepend=0, append=len(data)) / len(data)
        masses = sketch.pmf(splits, inclusive=inclusive)
        assert len(masses) == len(splits) + 1
        assert np.all(masses >= 0)
        assert abs(masses.sum() - 1) <= TINY
        assert np.all(np.abs(masses - true) <= 2 * sketch.error + TINY)


def chop(values: npt.NDArray[Any], rng: Rng, largest: int) -> Iterator[npt.NDArray[Any]]:
    """Yield the values in blocks of many sizes: single values, a few, an empty one, up to the largest."""
    start = 0
    while start < len(values):
        size = int(rng.choice([0, 1, 1, 2, 7, 100, largest // 3, largest]))
        yield values[start : start + size]
        start += size


def feed(sketch: Sketch, block: npt.NDArray[Any]) -> None:
    """Insert a block; short ones value by value, as numbers of Python or numpy."""
    if len(block) > 7:
        sketch.update(block)
        return
    for i, value in enumerate(block):
        sketch.update(value.item() if i % 2 else value)


def fed(kind: Kind, eps: float, values: Floats) -> Sketch:
    """Return a sketch of these values."""
    sketch: Sketch = kind.make(eps)
    sketch.update(values)
    return sketch


def state_of(sketch: Sketch) -> tuple[object, ...]:
    return sketch.to_bytes(), sketch.n, sketch.nulls, sketch.nans, sketch.error


def refused(sketch: Sketch, error: type[Exception], act: Callable[..., object], *args: object, what: str = "") -> str:
    """Return the message of the named error that an action must raise, leaving the sketch unchanged."""
    before = state_of(sketch)
    try:
        act(*args)
    except errors.QuantideError as raised:
        caught: Exception = raised
    else:
        raise AssertionError(f"not refused: {what or args}")
    assert isinstance(caught, error), what or args
    assert str(caught)
    assert state_of(sketch) == before, what or args
    return str(caught)
