"""Bad input: a named error, with the offending value in its message, and everything as it was before."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from quantide import GKSketch, StreamSketch, Summaries, Summary, errors

SKETCHES: list[Callable[..., Any]] = [StreamSketch, GKSketch]
NAN, INF = float("nan"), float("inf")
EVERY = pytest.mark.parametrize("make", SKETCHES)


def shown(value: object) -> str:
    """A pattern that finds a value in a message, as written by str or repr."""
    return "|".join(re.escape(text) for text in {str(value), repr(value)})


def state(sketch: Any) -> tuple[object, ...]:
    return sketch.to_bytes(), sketch.n, sketch.nulls, sketch.nans


# --- eps and phi --------------------------------------------------------------------------------------------


@EVERY
@pytest.mark.parametrize("eps", [0, 0.0, -0.1, 1, 1.0, 1.5, NAN, INF, -INF])
def test_eps_out_of_range(make: Callable[..., Any], eps: float) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=shown(eps)):
        make(eps)


@EVERY
@pytest.mark.parametrize("eps", ["0.1", None, 0.1j, [0.1], object(), b"0.1", np.array([0.1, 0.2])])
def test_eps_of_a_wrong_type(make: Callable[..., Any], eps: object) -> None:
    with pytest.raises((errors.InvalidArgumentError, errors.TypeMismatchError), match=shown(eps)):
        make(eps)


@EVERY
@pytest.mark.parametrize("eps", [0.1, np.float32(0.125), np.float64(0.25), 0.999])
def test_eps_of_any_real_type(make: Callable[..., Any], eps: float) -> None:
    sketch = make(eps)
    sketch.update([1.0, 2.0, 3.0])
    assert sketch.eps == float(eps)
    assert type(sketch).from_bytes(sketch.to_bytes()).eps == float(eps)


@pytest.mark.parametrize("phi", [-1, -1e-12, 1.0000001, 2, NAN, INF, -INF])
def test_phi_out_of_range(phi: float) -> None:
    s = Summary.of([1.0, 2.0])
    table = Summaries.of(["a", "a"], [1.0, 2.0], 0.1)
    askers: list[Callable[[], object]] = [
        lambda: s.answer(phi),
        lambda: s.quantile(phi),
        lambda: s.quantiles([0.5, phi]),
        lambda: s.quantiles(np.array([phi, 0.5])),
        lambda: table.answer([0.5, phi]),
        lambda: table.quantiles([phi]),
    ]
    for ask in askers:
        with pytest.raises(errors.InvalidArgumentError, match=f"{shown(phi)}|{shown(float(phi))}"):
            ask()


@pytest.mark.parametrize("phi", ["0.5", None, 0.5j, [0.5], object(), b"0.5"])
def test_phi_of_a_wrong_type(phi: Any) -> None:
    s = Summary.of([1.0, 2.0])
    askers: list[Callable[[], object]] = [lambda: s.answer(phi), lambda: s.quantile(phi)]
    if not isinstance(phi, list):
        askers.append(lambda: s.quantiles([0.5, phi]))
    for ask in askers:
        with pytest.raises((errors.InvalidArgumentError, errors.TypeMismatchError)):
            ask()


@pytest.mark.parametrize("phi", [0, 0.0, -0.0, 1, 1.0, np.float32(0.5), np.float64(0.5), np.int64(1)])
def test_phi_of_any_real_type(phi: Any) -> None:
    s = Summary.of([1.0, 2.0])
    assert s.quantile(phi) == s.quantile(float(phi)) == s.answer(phi).value


# --- emptiness ----------------------------------------------------------------------------------------------


def test_an_empty_summary_answers_nothing() -> None:
    for empty in (Summary.of([]), Summary.of(np.empty(0)), Summary.of([None]), Summary.of([NAN], nan="skip")):
        askers: list[Callable[[], object]] = [
            lambda empty=empty: empty.answer(0.5),  # type: ignore[misc]
            lambda empty=empty: empty.quantile(0.5),  # type: ignore[misc]
            lambda empty=empty: empty.quantiles([0.5]),  # type: ignore[misc]
        ]
        for ask in askers:
            with pytest.raises(errors.EmptyError):
                ask()
        assert Summary.from_bytes(empty.to_bytes()) == empty


# --- NaN and nulls ------------------------------------------------------------------------------------------


def test_nan_is_refused() -> None:
    for values in ([NAN], [1.0, NAN], np.array([NAN, 1.0], np.float32), pa.array([1.0, NAN])):
        with pytest.raises(errors.NaNError, match="skip"):
            Summary.of(values)
        with pytest.raises(errors.NaNError, match="skip"):
            Summaries.of(pa.array(["k"] * len(values)), values, 0.1)


@EVERY
def test_nan_is_refused_with_where_it_is(make: Callable[..., Any]) -> None:
    sketch = make(0.1)
    sketch.update([1.0, 2.0])
    before = state(sketch)
    with pytest.raises(errors.NaNError, match="skip"):
        sketch.update([5.0, 6.0, NAN])
    assert state(sketch) == before


@EVERY
@pytest.mark.parametrize("nan", ["drop", "", "SKIP", 1, True])
def test_an_unknown_way_with_nan(make: Callable[..., Any], nan: Any) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=shown(nan)):
        make(0.1, nan=nan)
    sketch = make(0.1)
    with pytest.raises(errors.InvalidArgumentError, match=shown(nan)):
        sketch.update([1.0], nan=nan)
    with pytest.raises(errors.InvalidArgumentError, match=shown(nan)):
        Summary.of([1.0], nan=nan)
    assert sketch.n == 0


@EVERY
def test_nan_is_skipped_and_counted(make: Callable[..., Any]) -> None:
    by_sketch, by_update = make(0.1, nan="skip"), make(0.1)
    for count in (1, 2, 3):
        by_sketch.update(np.array([1.0, NAN, 3.0]))
        by_update.update([1.0, NAN, 3.0], nan="skip")
        assert (by_sketch.n, by_sketch.nans, by_update.n, by_update.nans) == (
            2 * count,
            count,
            2 * count,
            count,
        )
    by_sketch.update(NAN)
    assert by_sketch.nans == 4
    with pytest.raises(errors.NaNError):
        by_update.update(NAN)
    restored = type(by_sketch).from_bytes(by_sketch.to_bytes())
    assert restored.nans == 4
    restored.update(NAN)
    assert restored.nans == 5


@EVERY
def test_nulls_are_skipped_and_counted(make: Callable[..., Any]) -> None:
    nat = np.array(["2026-01-01", "NaT", "2026-01-02"], dtype="datetime64[us]")
    cases: list[tuple[Any, int, int]] = [
        ([1.0, None, 3.0, None], 2, 2),
        (None, 0, 1),
        ([None, None], 0, 2),
        (pa.array([1.0, None, 2.0]), 2, 1),
        (pa.array([1.0, None, 2.0, None]).slice(1), 1, 2),
        (pa.chunked_array([[1.0, None], [None], [2.0]]), 2, 2),
        (pa.array([None, None], pa.float64()), 0, 2),
        (pa.array([1, None, 3], pa.int32()), 2, 1),
        (nat, 2, 1),
        (nat - nat[0], 2, 1),
        (pa.array(nat), 2, 1),
        (pa.array([Decimal("1.50"), None], pa.decimal128(5, 2)), 1, 1),
        ([Decimal("1.50"), None], 1, 1),
    ]
    for values, n, nulls in cases:
        sketch = make(0.1)
        sketch.update(values)
        assert (sketch.n, sketch.nulls, sketch.nans) == (n, nulls, 0), values
        restored = type(sketch).from_bytes(sketch.to_bytes())
        assert (restored.n, restored.nulls, restored.nans) == (n, nulls, 0), values
        if values is not None:
            s = Summary.of(values)
            assert (s.n, s.nulls, s.nans) == (n, nulls, 0), values


@EVERY
def test_pandas_and_polars_nulls(make: Callable[..., Any]) -> None:
    import pandas as pd
    import polars as pl

    cases = [
        pl.Series([1.0, None, 3.0]),
        pl.Series([1, None, 3]),
        pd.Series([1, None, 3], dtype="Int64"),
        pd.Series([1.5, None, 3], dtype="Float64"),
        pd.Series(np.array(["2026-01-01", "NaT", "2026-01-02"], dtype="datetime64[ns]")),
    ]
    for values in cases:
        sketch = make(0.1)
        sketch.update(values)
        assert (sketch.n, sketch.nulls, sketch.nans) == (2, 1, 0), values


@EVERY
def test_a_null_arrow_slot_may_hide_a_nan(make: Callable[..., Any]) -> None:
    """Arrow slots under a null are never read as values."""
    sketch = make(0.1)
    sketch.update(pa.array(np.array([1.0, NAN, 2.0]), mask=np.array([False, True, False])))
    assert (sketch.n, sketch.nulls, sketch.nans) == (2, 1, 0)


# --- types --------------------------------------------------------------------------------------------------

UNSUPPORTED: list[Any] = [
    True,
    [True, False],
    np.array([True]),
    pa.array([True]),
    "word",
    ["a"],
    np.array(["a"]),
    pa.array(["a"]),
    b"bytes",
    1j,
    np.array([1j]),
    np.array([1], dtype=np.uint64),
    pa.array([1], pa.uint64()),
    np.array([object()]),
    np.array([1.0], dtype=np.float16),
    np.array([1.0], dtype=np.longdouble),
    object(),
    {"a": 1},
    [[1.0]],
    [object()],
    np.zeros((2, 2)),
    np.zeros((0, 2)),
    pa.array([[1.0]]),
    pa.array([{"a": 1.0}]),
    pa.table({"a": [1.0]}),
    2**63,
    [2**63],
    [-(2**63) - 1],
    [1, 2**70],
]


@EVERY
@pytest.mark.parametrize("values", UNSUPPORTED, ids=lambda v: re.sub(r"\s+|0x\w+", " ", repr(v))[:40])
def test_unsupported_types(make: Callable[..., Any], values: Any) -> None:
    with pytest.raises(errors.TypeMismatchError):
        Summary.of(values)
    sketch = make(0.1)
    before = state(sketch)
    with pytest.raises(errors.TypeMismatchError):
        sketch.update(values)
    assert state(sketch) == before
    sketch.update(np.arange(5.0))
    assert sketch.quantile(1.0) == 4.0


MIXED: list[tuple[Any, Any]] = [
    (np.array([1.0]), np.array(["2026-01-01"], dtype="datetime64[us]")),
    (np.array([1.0]), np.array([1], dtype="timedelta64[s]")),
    (np.array(["2026-01-01"], dtype="datetime64[us]"), [1.0]),
    (np.array(["2026-01-01"], dtype="datetime64[us]"), np.array([5])),
    (np.array(["2026-01-01"], dtype="datetime64[us]"), np.array([5], dtype="timedelta64[us]")),
    (np.array([1], dtype=np.int64), np.array([1.5])),
    (np.array([1], dtype=np.int64), [1.5]),
    (np.array([1], dtype=np.int64), 0.5),
    (np.array([1], dtype=np.int64), INF),
    (np.array([1], dtype=np.int8), [300]),
    (np.array([1], dtype=np.int8), 128),
    (np.array([1], dtype=np.uint8), [-1]),
    (np.array([1], dtype=np.int8), np.array([1], dtype=np.int64)),
    (np.array([1.0], dtype=np.float32), np.array([0.1])),
    (np.array([1.0], dtype=np.float32), [1e300]),
    (np.array([1.0]), np.array([2**53 + 1])),
    (np.array([1.0]), [2**53 + 1]),
    (np.array([1.0]), [Decimal("0.1")]),
    ([Decimal("0.10")], [Decimal("0.123")]),
    ([Decimal("0.10")], [0.1]),
    (
        np.array(["2026-01-01"], dtype="datetime64[s]"),
        np.array(["2026-01-01T00:00:00.001"], dtype="datetime64[ms]"),
    ),
]


@EVERY
@pytest.mark.parametrize(("first", "second"), MIXED, ids=lambda v: re.sub(r"\s+", " ", repr(v))[:40])
def test_mixed_types(make: Callable[..., Any], first: Any, second: Any) -> None:
    sketch = make(0.1)
    sketch.update(first)
    before = state(sketch)
    with pytest.raises(errors.TypeMismatchError):
        sketch.update(second)
    assert state(sketch) == before
    sketch.update(first)
    assert sketch.n == 2


@EVERY
def test_an_unknown_value_type(make: Callable[..., Any]) -> None:
    for wrong in ("float65", "uint64", "str", "", 7):
        with pytest.raises(errors.QuantideError, match=shown(wrong)):
            make(0.1, value_type=wrong)


def test_summaries_of_mixed_types_do_not_merge() -> None:
    floats, times = Summary.of([1.0]), Summary.of(np.array(["2026-01-01"], dtype="datetime64[us]"))
    with pytest.raises(errors.TypeMismatchError, match="float64"):
        Summary.merge(floats, times)
    with pytest.raises(errors.TypeMismatchError):
        Summary.merge(floats, [1.0])  # type: ignore[arg-type]


# --- b and k ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("b", [0, -1, -(10**20)])
def test_compress_to_nothing(b: int) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=shown(b)):
        Summary.of([1.0, 2.0]).compress(b)
    with pytest.raises(errors.InvalidArgumentError, match=shown(b)):
        Summaries.of(["a"], [1.0], 0.1).compress(b)


@pytest.mark.parametrize("b", [1.5, NAN, "3", None])
def test_compress_to_no_number(b: Any) -> None:
    with pytest.raises((errors.InvalidArgumentError, errors.TypeMismatchError), match=shown(b)):
        Summary.of([1.0, 2.0]).compress(b)


def test_compress_to_more_than_there_is() -> None:
    s = Summary.of([1.0, 2.0])
    for b in (2, 100, 2**40, 2**70):
        assert s.compress(b) == s


@pytest.mark.parametrize("k", [-1, -(2**60)])
def test_lift_down(k: int) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=shown(k)):
        Summary.of([1.0, 2.0]).lift(k)


@pytest.mark.parametrize("k", [0.5, NAN, "3", None])
def test_lift_by_no_number(k: Any) -> None:
    with pytest.raises((errors.InvalidArgumentError, errors.TypeMismatchError), match=shown(k)):
        Summary.of([1.0, 2.0]).lift(k)


# --- counts -------------------------------------------------------------------------------------------------

MAX_N = 2**53


def full(n: int) -> Summary:
    """A summary that speaks of n elements, almost all of them unknown."""
    return Summary.of([1.0]).lift(n - 1)


def test_the_largest_count() -> None:
    s = full(MAX_N)
    assert s.n == MAX_N
    assert Summary.from_bytes(s.to_bytes()) == s
    assert s.answer(1.0).target == MAX_N


@pytest.mark.parametrize("k", [MAX_N, 2**62, 2**63, 2**64, 2**80])
def test_lift_beyond_all_counts(k: int) -> None:
    s = Summary.of([1.0])
    with pytest.raises(errors.CountOverflowError, match=f"{k}|{k + 1}"):
        s.lift(k)
    with pytest.raises(errors.CountOverflowError):
        full(MAX_N).lift(1)
    assert s.n == 1


def test_merge_beyond_all_counts() -> None:
    half = full(MAX_N // 2)
    assert Summary.merge(half, half).n == MAX_N
    with pytest.raises(errors.CountOverflowError, match=str(MAX_N + 1)):
        Summary.merge(half, Summary.of([2.0]), half)


@pytest.mark.parametrize("many", [2, 1024, 2048])
def test_summaries_beyond_all_counts(many: int) -> None:
    """Merges beyond all counts are refused, also if the sum exceeds 64 bits and wraps to a small number."""
    one = Summaries.from_binary(["a"], [full(MAX_N).to_bytes()])
    with pytest.raises(errors.CountOverflowError, match=str(MAX_N)):
        Summaries.merge(*[one] * many)


def doubled(limit: int) -> Summary:
    """A summary merged with itself, again and again, while no more than `limit` elements come of it."""
    s = Summary.of(np.arange(400.0))
    while s.n * 2 <= limit:
        s = Summary.merge(s, s).compress(300)
    return s


@EVERY
def test_sketches_beyond_all_counts(make: Callable[..., Any]) -> None:
    s = doubled(MAX_N)
    assert s.n > MAX_N // 2
    sketch = make(0.3)
    sketch.update_summary(s)
    before = state(sketch)
    other = type(sketch).from_bytes(sketch.to_bytes())
    acts: list[Callable[[], object]] = [
        lambda: sketch.update_summary(s),
        lambda: sketch.merge(other),
        lambda: sketch.merge(sketch),
    ]
    for act in acts:
        with pytest.raises(errors.CountOverflowError, match=str(MAX_N)):
            act()
        assert state(sketch) == before
    sketch.update([1.0])
    assert sketch.n == s.n + 1
    assert sketch.error <= 0.3


@EVERY
def test_updates_beyond_all_counts(make: Callable[..., Any]) -> None:
    """The last few values fit; one more does not, and a block that does not fit is refused whole."""
    sketch = make(0.9)
    while (missing := MAX_N - 3 - sketch.n) >= 400:
        sketch.update_summary(doubled(missing))
    sketch.update(np.arange(float(missing + 1)))
    assert sketch.n == MAX_N - 2
    assert sketch.error <= 0.9
    before = state(sketch)
    for block in (np.arange(3.0), np.arange(100_000.0)):
        with pytest.raises(errors.CountOverflowError, match=str(MAX_N)):
            sketch.update(block)
        assert state(sketch) == before
    sketch.update([1.0, 2.0])
    assert sketch.n == MAX_N
    with pytest.raises(errors.CountOverflowError, match=str(MAX_N)):
        sketch.update(3.0)
    assert sketch.n == MAX_N


# --- coarse summaries, other sketches, unknown keys ---------------------------------------------------------


@EVERY
def test_too_coarse(make: Callable[..., Any]) -> None:
    sketch = make(0.01)
    sketch.update(np.arange(300.0))
    before = state(sketch)
    coarse = Summary.of(np.arange(1000.0)).compress(20)
    with pytest.raises(errors.TooCoarseError, match=f"{re.escape(f'{coarse.error:.3g}')}"):
        sketch.update_summary(coarse)
    with pytest.raises(errors.TypeMismatchError):
        sketch.update_summary([1.0])
    assert state(sketch) == before


@EVERY
def test_merge_of_another_eps(make: Callable[..., Any]) -> None:
    one, other = make(0.1), make(0.2)
    one.update([1.0])
    other.update([2.0])
    before = state(one), state(other)
    with pytest.raises(errors.MergeError, match=r"0\.2"):
        one.merge(other)
    assert (state(one), state(other)) == before


def test_sketches_of_another_class_do_not_merge() -> None:
    one, other = StreamSketch(0.1), GKSketch(0.1)
    with pytest.raises(errors.QuantideError):
        one.merge(other)  # type: ignore[arg-type]
    with pytest.raises(errors.QuantideError):
        other.merge(one)  # type: ignore[arg-type]


def test_the_unknown_key() -> None:
    s = Summaries.of(["a", "b"], [1.0, 2.0], 0.1)
    with pytest.raises(errors.UnknownKeyError, match="zzz"):
        s["zzz"]
    with pytest.raises(KeyError):
        s["zzz"]
    assert "zzz" not in s


def test_keys_and_values_of_unequal_length() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="3"):
        Summaries.of(["a", "b", "c"], [1.0, 2.0], 0.1)


@pytest.mark.parametrize("eps", [0, -1, 1, NAN])
def test_summaries_with_a_bad_eps(eps: float) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=shown(eps)):
        Summaries.of(["a"], [1.0], eps)


def test_errors_can_be_caught_by_their_common_names() -> None:
    tree = {
        errors.InvalidArgumentError: ValueError,
        errors.EmptyError: ValueError,
        errors.NaNError: ValueError,
        errors.TypeMismatchError: TypeError,
        errors.CountOverflowError: OverflowError,
        errors.CorruptBytesError: ValueError,
        errors.TooCoarseError: ValueError,
        errors.MergeError: ValueError,
        errors.UnknownKeyError: KeyError,
    }
    for error, common in tree.items():
        assert issubclass(error, common)
        assert issubclass(error, errors.QuantideError)
    assert str(errors.UnknownKeyError("no key 'a'; known: 'b'")) == "no key 'a'; known: 'b'"
