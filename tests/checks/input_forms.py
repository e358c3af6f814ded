"""The result is the same for all ways of input: blocks, single values, bytes, types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from quantide import Summary
from tests.checks.kind import Kind, Rng, Sketch, needs
from tests.checks.verify import PHIS, chop, fed, feed, verify
from tests.orders import Order, uniform


def check_blocks_and_singles(kind: Kind, order: Order, rng: Rng) -> None:
    """One block, many blocks, or one by one: all within the bound, and the same bytes if promised."""
    for eps, n in ((0.1, 2_100), (0.3, 9_500)):
        values = order(rng, n)
        one_by_one: Sketch = kind.make(eps)
        for value in values:
            one_by_one.update(value)
        blocks: Sketch = kind.make(eps)
        for block in chop(values, rng, 1500):
            blocks.update(block)
        whole = fed(kind, eps, values)
        for sketch in (one_by_one, blocks, whole):
            verify(kind, sketch, values, rng, deep=True)
        if "same bytes whatever the blocks" in kind.promises:
            assert one_by_one.to_bytes() == blocks.to_bytes() == whole.to_bytes()


@needs("same bytes whatever the blocks")
def check_long_streams_have_the_same_bytes(kind: Kind, order: Order, rng: Rng) -> None:
    """The same at every level, also with queries in between, and after a round trip through bytes."""
    eps, values = 0.05, order(rng, 70_000)
    reference = fed(kind, eps, values).to_bytes()
    for largest in (200, 3_000, 65_000):
        sketch: Sketch = kind.make(eps)
        for block in chop(values, rng, largest):
            feed(sketch, block)
            if rng.random() < 0.02 and sketch.n:
                sketch.quantile(0.5)
                sketch = type(sketch).from_bytes(sketch.to_bytes())
        assert sketch.to_bytes() == reference


def check_same_input_same_bytes(kind: Kind, order: Order, rng: Rng) -> None:
    """Two sketches of the same input have the same bytes at every moment, whatever the queries."""
    eps, values = 0.08, order(rng, 6_000)
    queried, quiet = kind.make(eps), kind.make(eps)
    for block in chop(values, rng, 2500):
        feed(queried, block)
        feed(quiet, block)
        assert queried.to_bytes() == quiet.to_bytes()
        if queried.n:
            before = queried.to_bytes()
            (
                queried.quantiles(PHIS),
                queried.answer(0.5),
                queried.rank(0.0),
                queried.cdf([0.0]),
                queried.summary(),
                queried.error,
            )
            assert queried.to_bytes() == before
    assert np.array_equal(queried.quantiles(PHIS), quiet.quantiles(PHIS))


def check_bytes_round_trip(kind: Kind, order: Order, rng: Rng) -> None:
    """A sketch restored at any moment continues identically to one that was not."""
    for eps in (0.3, 0.04):
        values, more = order(rng, 9_000), order(rng, 5_000)
        sketch, straight = kind.make(eps), kind.make(eps)
        for block in chop(values, rng, 2000):
            feed(sketch, block)
            feed(straight, block)
            blob = sketch.to_bytes()
            restored = type(sketch).from_bytes(blob)
            assert restored.to_bytes() == blob == straight.to_bytes()
            assert (restored.n, restored.eps, restored.error) == (sketch.n, sketch.eps, sketch.error)
            if sketch.n:
                assert np.array_equal(restored.quantiles(PHIS), sketch.quantiles(PHIS))
                assert restored.summary() == sketch.summary()
            sketch = restored if rng.random() < 0.5 else sketch
        restored = type(sketch).from_bytes(sketch.to_bytes())
        for one in (straight, restored):
            for block in np.split(more, [1, 700, 701, 3000]):
                one.update(block)
        assert straight.to_bytes() == restored.to_bytes()
        verify(kind, restored, np.concatenate([values, more]), rng, deep=True)


def check_input_is_left_alone(kind: Kind, order: Order, rng: Rng) -> None:
    """The caller's arrays are neither changed nor referenced: later changes to them have no effect."""
    for n in (50, 1024, 5000):
        values = order(rng, n)
        original = values.copy()
        sketch = fed(kind, 0.1, values)
        sketch.quantiles(PHIS)
        assert values.tobytes() == original.tobytes()
        before = sketch.to_bytes()
        values[:] = 1e9
        assert sketch.to_bytes() == before
        verify(kind, sketch, original, rng, deep=True)
        frozen = original.copy()
        frozen.setflags(write=False)
        sketch.update(frozen)
        verify(kind, sketch, np.concatenate([original, original]), rng)


@needs("update_summary")
def check_summaries_are_left_alone(kind: Kind, rng: Rng) -> None:
    """Later updates change neither an inserted summary nor a returned one."""
    given = Summary.of(uniform(rng, 3000))
    blob = given.to_bytes()
    sketch: Sketch = kind.make(0.1)
    sketch.update_summary(given)
    taken = sketch.summary()
    taken_blob = taken.to_bytes()
    sketch.update(uniform(rng, 8000))
    sketch.quantile(0.5)
    assert given.to_bytes() == blob
    assert taken.to_bytes() == taken_blob


def check_forms_of_input(kind: Kind, rng: Rng) -> None:
    """numpy, strided, foreign byte order, lists, arrow, chunked, pandas, polars: the same bytes."""
    import pandas as pd
    import polars as pl

    values = rng.normal(size=2500)
    reference = fed(kind, 0.1, values).to_bytes()
    backwards = values[::-1].copy()[::-1]
    forms: list[Any] = [
        list(values),
        tuple(values.tolist()),
        backwards,
        np.repeat(values, 2)[::2],
        values.astype(">f8"),
        pa.array(values),
        pa.chunked_array([values[:1000], values[1000:1000], values[1000:]]),
        pa.array(np.concatenate([[1.0], values])).slice(1),
        pd.Series(values),
        pd.Series(values, index=range(5000, 7500)),
        pl.Series(values),
        pl.Series(values).append(pl.Series([], dtype=pl.Float64)),
    ]
    for form in forms:
        sketch: Sketch = kind.make(0.1)
        sketch.update(form)
        assert sketch.to_bytes() == reference, type(form)
