"""Odd values, odd keys, the largest counts, the last bit: where the obvious way would be wrong."""

import decimal
import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from quantide import GKSketch, StreamSketch, Summaries, Summary, errors

INF = float("inf")


@pytest.mark.parametrize(
    ("values", "asked", "count"),
    [
        ([Decimal("1.50")], np.array([2.0]), 1),
        ([Decimal("1.00")], Decimal("0." + "9" * 40), 0),
        ([Decimal("1.00")], 1, 1),
        ([Decimal("1.00")], INF, 1),
        ([Decimal("1.00")], -INF, 0),
        ([2**62 + 1], np.uint64(2**62), 0),
        ([2**62 + 1], np.uint64(2**63 + 5), 1),
        ([2.0**53 + 4], 2**53 + 3, 0),
        ([2.0**53 + 4], 2**53 + 5, 1),
        ([-(2**63)], -INF, 0),
        ([-(2**63)], -(2.0**63), 1),
        ([2**63 - 1], 1e300, 1),
        ([1e308], 10**400, 1),
        ([-1e308], -(10**400), 0),
        ([3], 2.5, 0),
        ([2], pa.array([2.5]), 1),
        (np.array([0.1], dtype=np.float32), 0.1, 0),
    ],
)
def test_rank_rounds_only_down(values: Any, asked: Any, count: int) -> None:
    low, high = Summary.of(values).rank(asked)
    assert int(np.atleast_1d(low)[0]) == int(np.atleast_1d(high)[0]) == count


@pytest.mark.parametrize(
    ("values", "asked"),
    [
        ([datetime(2020, 1, 1)], [datetime(2020, 1, 2), None]),
        ([datetime(2020, 1, 1)], None),
        (np.array([1], "M8[s]"), np.array(["NaT"], "M8[s]")),
        ([1.0, 5.0], np.ma.array([1.0, 5.0], mask=[False, True])),
        ([Decimal("1.0")], None),
        ([Decimal("1.0")], "1.5"),
        ([Decimal("1.0")], Decimal("nan")),
        ([1.0], [[1.0], [1.0, 2.0]]),
        ([1.0], True),
    ],
)
def test_what_has_no_rank(values: Any, asked: Any) -> None:
    with pytest.raises(errors.QuantideError):
        Summary.of(values).rank(asked)


def test_no_value_changes_on_the_way() -> None:
    with pytest.raises(errors.TypeMismatchError):
        StreamSketch(0.1, value_type="date").update([datetime(2020, 1, 1, 23, 59)])
    with pytest.raises(errors.TypeMismatchError):
        Summary.of([datetime(2020, 1, 1), datetime(2020, 1, 1, tzinfo=UTC)])
    moment = pd.Timestamp("2020-01-01 00:00:00.000000001")
    assert Summary.of([moment, None]).max == moment.to_datetime64()
    assert Summary.of([pd.Timedelta(1, "ns")]).max == np.timedelta64(1, "ns")
    with decimal.localcontext(prec=5):
        assert Summary.of(pa.array([Decimal("1234567.89")])).max == Decimal("1234567.89")
    with pytest.raises(errors.TypeMismatchError):
        Summaries.of(["a"], np.array([2**40], "M8[D]"), 0.1)
    with pytest.raises(errors.TypeMismatchError):
        Summary.of(pa.array([-(2**63)], pa.int64()).cast(pa.timestamp("us")))


def test_numbers_take_the_type_of_the_sketch_when_nothing_changes() -> None:
    sketch = StreamSketch(0.1, nan="skip", value_type="float32")
    sketch.update([1.0, float("nan")])
    assert (sketch.n, sketch.nans) == (1, 1)
    with pytest.raises(errors.NaNError):
        StreamSketch(0.1, value_type="float32").update([1.0, float("nan")])
    cents = StreamSketch(0.1, value_type="decimal[2]")
    cents.update([5])
    assert cents.quantile(1) == Decimal("5.00")
    wide = StreamSketch(0.1, value_type="float64")
    wide.update([2**60])
    for refused in ([2**60 + 1], [0.1 + 0.2, "x"]):
        with pytest.raises(errors.TypeMismatchError):
            wide.update(refused)


@pytest.mark.parametrize(
    "keys", [pl.Series(["a", "b"]), pl.Series(["a", "b"], dtype=pl.Categorical), pa.array(["a", "b"], pa.string_view())]
)
def test_keys_of_polars(keys: Any) -> None:
    assert Summaries.of(keys, [1.0, 2.0], 0.1)["b"].max == 2.0


def test_keys_of_several_columns_go_by_name() -> None:
    s = Summaries.of(pl.DataFrame({"host": ["p", "q"], "path": ["q", "p"]}), [1.0, 2.0], 0.1)
    assert s[{"path": "q", "host": "p"}].max == 1.0
    assert s["q", "p"].max == 2.0
    for stranger in ({"zz": "p", "yy": "q"}, "pq", ("p",), None):
        assert stranger not in s


def test_odd_keys() -> None:
    floats = Summaries.of([0.0, -0.0, float("nan")], [1.0, 2.0, 3.0], 0.1)
    assert (len(floats), floats[0.0].n, floats[float("nan")].n) == (2, 2, 1)
    with pytest.raises(errors.QuantideError):
        Summaries.of(pa.array([[1]]), [1.0], 0.1)
    structs = pa.array([{"a": 1}, None])
    assert list(Summaries.of(structs, [1.0, 2.0], 0.1)) == [{"a": 1}, {"a": None}]


@pytest.mark.slow
def test_singles_are_counted_up_to_the_limit() -> None:
    sketch = StreamSketch(0.5)
    sketch.update(1.0)
    sketch.update_summary(Summary.of(np.arange(1000.0)))
    base = Summary.of(np.arange(4096.0)).compress(100)
    while base.n <= 2**50:
        base = Summary.merge(*[base] * 8).compress(100)
    while sketch.n + base.n <= 2**53:
        sketch.update_summary(base)
    left = 2**53 - sketch.n
    sketch.update_summary(Summary.of([1.0]).lift(0))
    assert left > 10_000
    while sketch.n < 2**53 - 5000:
        part = Summary.of(np.zeros(min(2**53 - 5000 - sketch.n, 1 << 20)))
        step = part
        while step.n * 2 <= 2**53 - 5000 - sketch.n:
            step = Summary.merge(step, step).compress(10)
        sketch.update_summary(step)
    before = sketch.n
    with pytest.raises(errors.CountOverflowError):
        _feed_one_by_one(sketch, 10_000)
    assert before < sketch.n <= 2**53
    assert StreamSketch.from_bytes(sketch.to_bytes()).n == sketch.n


def _feed_one_by_one(sketch: StreamSketch, times: int) -> None:
    for _ in range(times):
        sketch.update(1.0)


def test_only_nulls_keep_their_type() -> None:
    nulls = Summaries.of(["a"], pa.array([None], pa.int64()), 0.1)
    for other in (pa.array([1], pa.int64()), pa.array([1.5])):
        merged = Summaries.merge(nulls, Summaries.of(["a"], other, 0.1))
        assert (merged["a"].max, merged["a"].nulls) == (other[0].as_py(), 1)
    sketch = StreamSketch(0.1)
    sketch.update(pa.array([None], pa.int64()))
    sketch.update([1.5])
    assert (sketch.n, sketch.nulls) == (1, 1)


def _endless() -> list[Any]:
    inner: list[Any] = []
    inner.append(inner)
    return inner


S: Any = Summaries.of(["a"], [1.0], 0.1)
MANY: Any = [S, S]
ONE: Any = Summary.of([1.0])
TEXT: Any = "text"
BIG: Any = 10**13
NOTHING: Any = None


@pytest.mark.parametrize(
    "act",
    [
        lambda: StreamSketch(0.1).update(np.ma.array([[1.0]], mask=[[True]])),
        lambda: StreamSketch(0.1).update(pl.Series([1], dtype=pl.Int128)),
        lambda: StreamSketch(0.1).update(pd.arrays.SparseArray(np.array([0.0, 1.0])).astype("complex")),
        lambda: StreamSketch(0.1).update(_endless()),
        lambda: StreamSketch(0.1).update([1, np.True_]),
        lambda: StreamSketch(0.1).update(S),
        lambda: S.answer([[0.5, 0.2]]),
        lambda: S.quantiles([[0.5, 0.2]]),
        lambda: Summaries.merge(NOTHING),
        lambda: Summaries.merge(S, ONE),
        lambda: Summaries.merge(MANY),
        lambda: Summaries.of(pa.table([[1], [2]], names=["a", "a"]), [1.0], 0.1),
        lambda: Summaries.from_binary(["a"], [1]),
        lambda: Summaries.from_arrow(S.to_arrow().replace_schema_metadata({"quantide.type": b"\xff"})),
        lambda: Summary.from_bytes(NOTHING),
        lambda: Summary.from_bytes(TEXT),
        lambda: StreamSketch.from_bytes(BIG),
        lambda: StreamSketch.max_nbytes(-1, 5),
        lambda: StreamSketch.max_nbytes(0.1, -5),
        lambda: StreamSketch(0.1, value_type="decimal[٣]"),
        lambda: StreamSketch(0.1, value_type="decimal[02]"),
    ],
)
def test_errors_have_names(act: Callable[[], object]) -> None:
    with pytest.raises(errors.QuantideError):
        act()


def test_masked_values_are_null() -> None:
    sketch = StreamSketch(0.1)
    sketch.update(np.ma.array([1.0, 2.0], mask=[False, True], dtype=">f8"))
    sketch.update(np.ma.masked)
    assert (sketch.n, sketch.nulls) == (1, 2)


def test_certified_error_is_within_eps_to_the_last_bit() -> None:
    eps = 0.3890214797136038
    assert Summaries.of([1] * 838, np.arange(838.0), eps).error[0] <= eps
    classic = GKSketch(0.1947674418604651)
    classic.update(np.random.default_rng(0).random(344))
    assert classic.error <= classic.eps
    one, other = GKSketch(math.nextafter(5 / 12, 0)), GKSketch(math.nextafter(5 / 12, 0))
    one.update([0.0])
    other.update(np.arange(1.0, 12.0))
    one.merge(other)
    assert one.error <= one.eps


def test_summaries_cannot_be_changed() -> None:
    for array in (S.rmin, S.rmax, S.n, S.offsets, S.values):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 7


def test_tables_in_another_order() -> None:
    s = Summaries.of([3, 1, 2], [30.0, 10.0, 20.0], 0.1)
    turned = Summaries.from_arrow(s.to_arrow().take(pa.array([2, 0, 1])))
    assert list(turned) == [1, 2, 3]
    assert turned.quantiles(1.0).tolist() == [[10.0], [20.0], [30.0]]


def test_a_huge_b_keeps_everything() -> None:
    assert len(S.compress(2**70)) == 1
    assert len(Summary.of([1.0, 2.0]).compress(2**70)) == 2


def test_dates_stay_dates() -> None:
    sketch = StreamSketch(0.1)
    sketch.update([date(2020, 1, 1), date(2021, 1, 1)])
    assert str(sketch.type) == "date"
    assert sketch.quantile(1) == np.datetime64("2021-01-01")
