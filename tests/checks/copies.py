"""Copies and pickles answer as the original, and share nothing with it."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.checks.kind import Kind, Rng, Sketch
from tests.checks.verify import PHIS, chop, feed, verify
from tests.orders import Floats, Order, uniform

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)


def pickled(protocol: int) -> Callable[[Any], Any]:
    """Return a function that copies by a pickle."""
    return lambda thing: pickle.loads(pickle.dumps(thing, protocol))


WAYS: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    **{f"pickle {protocol}": pickled(protocol) for protocol in PROTOCOLS},
}


def check_copies_go_their_own_way(kind: Kind, order: Order, rng: Rng) -> None:
    """After different updates, the original and the copy each answer for their own values alone."""
    for way in ("copy", "deepcopy", f"pickle {rng.choice(PROTOCOLS)}"):
        for eps, n in ((0.3, 2_600), (0.05, 3_100)):
            both, mine, theirs = order(rng, n), order(rng, 1_900), 3 * order(rng, 2_300) + 1
            original = prepared(kind, eps, both, rng)
            twin = WAYS[way](original)
            same(original, twin)
            parts = zip(np.array_split(mine, 7), np.array_split(theirs, 7), strict=True)
            for own, other in parts:
                feed(original, own)
                feed(twin, other)
            verify(kind, original, np.concatenate([both, mine]), rng, deep=True)
            verify(kind, twin, np.concatenate([both, theirs]), rng, deep=True)


def check_every_way_to_copy(kind: Kind, rng: Rng) -> None:
    """Copies of all protocols give the same answers now, and the same bytes after the same values."""
    both, more = uniform(rng, 4_000), uniform(rng, 3_000)
    for name, way in WAYS.items():
        original = prepared(kind, 0.1, both, rng)
        twin = way(original)
        assert twin is not original, name
        same(original, twin)
        for block in np.split(more, [1, 5, 900]):
            feed(original, block)
            feed(twin, block)
        assert twin.to_bytes() == original.to_bytes(), name
        same(original, twin)


def check_an_empty_copy(kind: Kind, rng: Rng) -> None:
    """An empty sketch is copied with its settings."""
    for name, way in WAYS.items():
        original: Sketch = kind.make(0.2, nan="skip")
        twin: Sketch = way(original)
        assert (type(twin), twin.n, twin.eps) == (type(original), 0, 0.2), name
        values = uniform(rng, 500)
        twin.update(np.append(values, np.nan))
        assert (original.n, original.nans, twin.nans) == (0, 0, 1), name
        verify(kind, twin, values, rng, deep=True)


def prepared(kind: Kind, eps: float, values: Floats, rng: Rng) -> Sketch:
    """Return a sketch with a cached summary and buffered values."""
    sketch: Sketch = kind.make(eps)
    for block in chop(values[:-3], rng, 1_500):
        feed(sketch, block)
    sketch.quantile(0.5)
    for value in values[-3:]:
        sketch.update(float(value))
    return sketch


def same(original: Sketch, twin: Sketch) -> None:
    """Check that both give exactly the same answer to every query."""
    assert type(twin) is type(original)
    for name in ("n", "eps", "error", "nulls", "nans", "type", "arrived"):
        assert getattr(twin, name) == getattr(original, name), name
    assert np.array_equal(twin.quantiles(PHIS), original.quantiles(PHIS))
    assert twin.answer(0.3) == original.answer(0.3)
    assert twin.summary() == original.summary()
    assert twin.to_bytes() == original.to_bytes()
