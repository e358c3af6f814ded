"""Invalid input raises a named error and changes nothing; nulls, NaN and empty input follow the policies."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from quantide import Summary, errors
from tests.checks.kind import Kind, Rng, Sketch, needs
from tests.checks.verify import fed, refused, state_of, verify
from tests.orders import uniform


def bad_values() -> dict[str, tuple[Any, type[Exception]]]:
    """Return inputs that a sketch of float64 must refuse, with the error of each."""
    huge = np.arange(200_000.0)
    middle, end = huge.copy(), huge.copy()
    middle[100_000] = np.nan
    end[-1] = np.nan
    return {
        "NaN": (np.nan, errors.NaNError),
        "NaN in a list": ([1.0, float("nan"), 2.0], errors.NaNError),
        "NaN in the middle of a huge block": (middle, errors.NaNError),
        "NaN at the end of a huge block": (end, errors.NaNError),
        "NaN of another type": (np.array([1, np.nan], dtype=np.float32), errors.NaNError),
        "NaN in arrow": (pa.array([1.0, float("nan")]), errors.NaNError),
        "NaN in the last chunk": (pa.chunked_array([huge, [float("nan")]]), errors.NaNError),
        "bool": (True, errors.TypeMismatchError),
        "bools": (np.array([True, False]), errors.TypeMismatchError),
        "a list with a bool": ([1.0, True], errors.TypeMismatchError),
        "str": ("word", errors.TypeMismatchError),
        "strs": (["a", "b"], errors.TypeMismatchError),
        "a list that ends in a str": ([1.0, 2.0, "word"], errors.TypeMismatchError),
        "arrow strings": (pa.array(["a"]), errors.TypeMismatchError),
        "bytes": (b"1234", errors.TypeMismatchError),
        "complex": (1 + 2j, errors.TypeMismatchError),
        "complexes": (np.array([1j]), errors.TypeMismatchError),
        "uint64": (np.array([1], dtype=np.uint64), errors.TypeMismatchError),
        "objects": (np.array([object()], dtype=object), errors.TypeMismatchError),
        "an object": (object(), errors.TypeMismatchError),
        "a dict": ({"a": 1}, errors.TypeMismatchError),
        "times among floats": (np.array(["2026-01-01"], dtype="datetime64[us]"), errors.TypeMismatchError),
        "spans among floats": (np.array([5], dtype="timedelta64[s]"), errors.TypeMismatchError),
        "an int64 that no float64 is": (np.array([2**53 + 1]), errors.TypeMismatchError),
        "two dimensions": (np.zeros((2, 3)), errors.TypeMismatchError),
        "no columns": (np.zeros((5, 0)), errors.TypeMismatchError),
        "a nested list": ([[1.0, 2.0]], errors.TypeMismatchError),
    }


FINE_AT_FIRST = {"times among floats", "spans among floats", "an int64 that no float64 is"}


def check_unchanged_after_bad_input(kind: Kind, rng: Rng) -> None:
    """Every invalid input raises a named error; the sketch is unchanged, to the byte, and continues."""
    for n in (0, 500, 1023, 3000):
        values = rng.normal(size=n)
        sketch = fed(kind, 0.1, values)
        sketch.update(np.empty(0))
        twin = type(sketch).from_bytes(sketch.to_bytes())
        before = state_of(sketch)
        for name, (bad, error) in bad_values().items():
            if n or name not in FINE_AT_FIRST:
                refused(sketch, error, sketch.update, bad, what=name)
                assert state_of(sketch) == before, name
        more = rng.normal(size=1500)
        sketch.update(more)
        twin.update(more)
        assert sketch.to_bytes() == twin.to_bytes()
        verify(kind, sketch, np.concatenate([values, more]), rng, deep=True)


def check_bad_input_among_singles(kind: Kind, rng: Rng) -> None:
    """Invalid input right after buffered values, before any query: nothing is lost."""
    values = rng.normal(size=1030)
    for name, (bad, error) in bad_values().items():
        sketch, twin = fed(kind, 0.1, values[:1020]), fed(kind, 0.1, values[:1020])
        for value in values[1020:].tolist():
            sketch.update(value)
            twin.update(value)
        try:
            sketch.update(bad)
        except error:
            pass
        else:
            raise AssertionError(f"not refused: {name}")
        sketch.update(1.5)
        twin.update(1.5)
        assert sketch.n == twin.n == len(kind.covers(np.zeros(1031)))
        assert sketch.to_bytes() == twin.to_bytes(), name


def check_unchanged_after_bad_questions(kind: Kind, rng: Rng) -> None:
    """An invalid phi or value raises a named error and changes nothing."""
    sketch = fed(kind, 0.1, uniform(rng, 2000))
    before = state_of(sketch)
    for phi in (-1e-12, -0.5, 1.0000001, 2, float("nan"), float("inf"), -float("inf")):
        for query, argument in ((sketch.quantile, phi), (sketch.answer, phi), (sketch.quantiles, [0.5, phi])):
            message = refused(sketch, errors.InvalidArgumentError, query, argument)
            assert str(float(phi)) in message or str(phi) in message
    for wrong in ("0.5", None, 0.5j, [[0.5]], object(), b"1"):
        refused(sketch, errors.QuantideError, sketch.quantile, wrong)
        refused(sketch, errors.QuantideError, sketch.quantiles, [0.5, wrong])
    for probe in (float("nan"), "word", 1j):
        refused(sketch, errors.QuantideError, sketch.rank, probe)
        refused(sketch, errors.QuantideError, sketch.cdf, [probe])
    assert state_of(sketch) == before


@needs("merge")
def check_unchanged_after_bad_merge(kind: Kind, rng: Rng) -> None:
    """Merging a sketch of another eps or type raises, and both stay unchanged."""
    sketch = fed(kind, 0.1, uniform(rng, 2000))
    times = np.arange(3000).astype("datetime64[s]")
    others: list[tuple[Any, type[Exception]]] = [
        (fed(kind, 0.11, uniform(rng, 2000)), errors.MergeError),
        (fed(kind, 0.1, times), errors.TypeMismatchError),
        (Summary.of([1.0]), errors.QuantideError),
        (None, errors.QuantideError),
    ]
    before = state_of(sketch)
    for other, error in others:
        other_before = other.to_bytes() if other is not None else b""
        refused(sketch, error, sketch.merge, other)
        assert state_of(sketch) == before
        assert (other.to_bytes() if other is not None else b"") == other_before
    if "update_summary" in kind.promises:
        refused(sketch, errors.TypeMismatchError, sketch.update_summary, Summary.of(times))
        assert state_of(sketch) == before


def check_skipping(kind: Kind, rng: Rng) -> None:
    """Nulls, and NaN with nan="skip", are skipped and counted; the rest is as if there were none."""
    values = rng.normal(size=3000)
    holes = values.copy()
    holes[::7] = np.nan
    clean = holes[~np.isnan(holes)]
    quiet: Sketch = kind.make(0.1, nan="skip")
    quiet.update(holes)
    once: Sketch = kind.make(0.1)
    once.update(holes, nan="skip")
    nulls: Sketch = kind.make(0.1)
    nulls.update(pa.array(values, mask=np.isnan(holes)))
    listed: Sketch = kind.make(0.1)
    listed.update([None if np.isnan(value) else float(value) for value in holes])
    for sketch in (quiet, once, nulls, listed):
        verify(kind, sketch, clean, rng, deep=True)
    missing = len(values) - len(clean)
    assert (quiet.nans, quiet.nulls, once.nans, once.nulls) == (missing, 0, missing, 0)
    assert (nulls.nans, nulls.nulls, listed.nans, listed.nulls) == (0, missing, 0, missing)
    restored = type(nulls).from_bytes(nulls.to_bytes())
    assert (restored.nulls, restored.nans) == (missing, 0)
    once.update(None)
    assert (once.nulls, once.nans, once.n) == (1, missing, len(kind.covers(clean)))
    refused(once, errors.NaNError, once.update, np.nan)
    refused(quiet, errors.NaNError, partial(quiet.update, nan="refuse"), np.nan)
    if "merge" in kind.promises:
        once.merge(nulls)
        assert (once.nulls, once.nans) == (1 + missing, missing)


def check_empty(kind: Kind, rng: Rng) -> None:
    """An empty sketch raises EmptyError, survives to_bytes(), and accepts empty input."""
    del rng
    sketch: Sketch = kind.make(0.1)
    empties: list[Any] = [[], np.empty(0), np.empty(0, dtype=np.float32), pa.array([], pa.float64()), [None]]
    for empty in empties:
        sketch.update(empty)
        assert sketch.n == 0
        refused(sketch, errors.EmptyError, sketch.quantile, 0.5)
        refused(sketch, errors.EmptyError, sketch.answer, 0.5)
        refused(sketch, errors.EmptyError, sketch.quantiles, [0.5])
        assert sketch.summary().n == 0
        assert sketch.error == 0
        sketch = type(sketch).from_bytes(sketch.to_bytes())
    sketch.update([2.0])
    assert sketch.quantile(0.5) == 2.0
