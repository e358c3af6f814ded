"""Values of any form and type, nulls and NaN, and repeated batches."""

import gc
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from quantide import History, errors
from tests.history.history_model import Rng, everything, small

NAN, INF = float("nan"), float("inf")

# --- values -------------------------------------------------------------------------------------------------


FORMS: list[Any] = [
    [1.0, 2.0, 3.0],
    (1, 2, 3),
    range(1, 4),
    (x for x in (1.0, 2.0, 3.0)),
    np.array([3, 1, 2], dtype=np.int8),
    np.array([3, 1, 2], dtype=np.float32),
    np.array([3.0, 1.0, 2.0], dtype=">f8"),
    np.arange(1.0, 7.0)[:3],
    np.arange(3.0, 0.0, -1.0),
    pa.array([1.0, 2.0, 3.0]),
    pa.chunked_array([[1.0], [2.0, 3.0]]),
    pa.array([1, 2, 3], pa.uint8()),
    pd.Series([1.0, 2.0, 3.0]),
    pl.Series([1.0, 2.0, 3.0]),
    pd.Series([1, 2, 3], dtype="Int32"),
]


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("form", range(len(FORMS)))
def test_values_of_any_form(form: int, keyed: bool, path: Path) -> None:
    """Narrower numbers widen; input is not changed."""
    values: Any = FORMS[form] if form != 3 else iter([1.0, 2.0, 3.0])
    before = values.copy() if isinstance(values, np.ndarray) else None
    history = History(path, keys="k" if keyed else None)
    history.append(values, key="a" if keyed else None)
    assert everything(history) == [1.0, 2.0, 3.0]
    if before is not None:
        assert np.array_equal(values, before)


def test_single_values_and_none(path: Path) -> None:
    history = History(path)
    for one in (1, 2.5, np.float32(3), pa.scalar(4.0)):
        history.append(one)
    nothings: list[Any] = [[], np.empty(0), pa.array([], pa.float64()), np.empty(0, dtype=np.int64)]
    for nothing in nothings:
        history.append(nothing)
    assert everything(history) == [1, 2.5, 3, 4]
    assert history.stats()["chunks"] == 4


@pytest.mark.parametrize(
    ("value_type", "values", "out"),
    [
        ("float64", np.array([2**30], dtype=np.int32), np.float64(2**30)),
        ("float64", [2**53], np.float64(2**53)),
        ("float32", np.array([1.5], dtype=np.float32), np.float32(1.5)),
        ("float32", np.array([7], dtype=np.int16), np.float32(7)),
        ("int64", [2**63 - 1], np.int64(2**63 - 1)),
        ("int64", np.array([2**32 - 1], dtype=np.uint32), np.int64(2**32 - 1)),
        ("int32", np.array([-5], dtype=np.int8), np.int32(-5)),
        ("uint16", np.array([65535], dtype=np.uint16), np.uint16(65535)),
        ("timestamp[us]", [datetime(2024, 5, 1, 12)], np.datetime64("2024-05-01T12:00:00.000000")),
        (
            "timestamp[ns]",
            [pd.Timestamp("2024-05-01 12:00:00.000000001")],
            np.datetime64("2024-05-01T12:00:00.000000001"),
        ),
        ("timestamp[us, tz=UTC]", [datetime(2024, 5, 1, 12, tzinfo=UTC)], np.datetime64("2024-05-01T12:00:00.000000")),
        ("timestamp[ms]", np.array(["2024-05-01"], dtype="M8[ms]"), np.datetime64("2024-05-01T00:00:00.000")),
        ("date", [date(2024, 5, 1)], np.datetime64("2024-05-01")),
        ("duration[s]", np.array([90], dtype="m8[s]"), np.timedelta64(90, "s")),
        ("decimal[2]", [Decimal("1234567.89")], Decimal("1234567.89")),
        ("decimal[0]", [Decimal(10**17)], Decimal(10**17)),
    ],
)
def test_the_type_that_went_in_comes_out(value_type: str, values: Any, out: Any, path: Path) -> None:
    with History(path, value_type=value_type, kappa=1) as history:
        for _ in range(3):
            history.append(values)
            history.end_step()
        history.append(values)
    reader = History(path)
    for mode in ("quick", "accurate", "exact"):
        value = reader.quantile(0.5, mode)
        assert value == out
        assert type(value) is type(out)
        assert reader.quantiles([0.1, 1.0], mode).tolist() == [out, out] or value_type != "decimal[2]"
    assert reader.rank(values[0] if isinstance(values, list) else values)[1] == 4


@pytest.mark.parametrize(
    ("value_type", "values"),
    [
        ("float64", ["text"]),
        ("float64", np.array([1 + 2j])),
        ("float64", [True]),
        ("float64", [2**53 + 1]),
        ("float64", np.array([1], dtype="M8[us]")),
        ("float64", [[1.0]]),
        ("float64", np.ones((2, 2))),
        ("float64", {"a": 1}),
        ("float64", "12"),
        ("float32", np.array([0.1])),
        ("float32", [0.1]),
        ("int64", [1.5]),
        ("int64", np.array([1.0])),
        ("int64", [2**63]),
        ("int32", np.array([1], dtype=np.int64)),
        ("int8", [200]),
        ("date", [datetime(2024, 5, 1, 12)]),
        ("timestamp[us]", [datetime(2024, 5, 1, tzinfo=UTC)]),
        ("timestamp[us, tz=UTC]", [datetime(2024, 5, 1)]),
        ("decimal[2]", [Decimal("0.001")]),
        ("decimal[2]", [1.5]),
    ],
)
def test_a_wrong_type_changes_nothing(value_type: str, values: Any, path: Path) -> None:
    history = History(path, value_type=value_type)
    with pytest.raises(errors.TypeMismatchError):
        history.append(values, batch_id="b")
    assert history.n == 0
    assert not list(path.glob("runs/*"))
    good: Any = {"date": [date(2024, 1, 1)], "decimal[2]": [Decimal("1.00")]}.get(value_type)
    if good is None:
        good = np.array([1], dtype="M8[us]") if value_type == "timestamp[us]" else [1]
    if "tz=" not in value_type:
        history.append(good, batch_id="b")
        assert history.n == 1, "the batch that was refused was not used up"


@pytest.mark.parametrize("keyed", [False, True])
def test_nan(keyed: bool, path: Path) -> None:
    history = History(path, keys="k" if keyed else None)
    key = "a" if keyed else None
    for bad in ([1.0, NAN], np.array([NAN], dtype=np.float32), pa.array([NAN, None])):
        with pytest.raises(errors.NaNError, match="skip"):
            history.append(bad, key=key)
    assert history.n == 0
    with small():
        history.append(np.array([NAN, 1.0, NAN, -INF, INF] * 30), key=key, nan="skip")
    history.append([NAN, NAN], key=key, nan="skip")
    assert history.n == 90
    assert history.stats()["nans"] >= 60
    assert (history.quantile(1e-9), history.quantile(1.0)) == (-INF, INF)
    with pytest.raises(errors.NaNError):
        history.append([NAN], key=key)
    with pytest.raises(errors.InvalidArgumentError, match="drop"):
        history.append([1.0], key=key, nan="drop")


@pytest.mark.parametrize("keyed", [False, True])
def test_nulls_are_counted(keyed: bool, path: Path) -> None:
    """Nulls of every form are counted, also after compactions and by a handle opened later."""
    key: Any = ["a", "b", "c"] if keyed else None
    with History(path, kappa=1, keys="k" if keyed else None) as history:
        for values in (
            [1.0, None, 3.0],
            pa.array([1.0, None, 3.0]),
            pl.Series([1.0, None, 3.0]),
            pd.Series([1, None, 3], dtype="Int32"),
            np.ma.array([1.0, 9.0, 3.0], mask=[False, True, False]),
        ):
            history.append(values, key=key)
            history.end_step()
        assert (history.n, history.stats()["nulls"]) == (10, 5)
        if keyed:
            assert (history.answer(1.0, key="a").n, history.answer(1.0, key="c").value) == (5, 3)
            with pytest.raises(errors.UnknownKeyError):
                history.answer(1.0, key="b")
    assert History(path).stats()["nulls"] == 5


def test_negative_zero_is_zero(path: Path, rng: Rng) -> None:
    history = History(path, keys="k")
    history.append(np.array([-0.0, 0.0, -0.0]), key=[-0.0, 0.0, 0.0])
    history.append([-0.0], key=-0.0)
    assert not np.signbit(history.quantiles([0.1, 0.5, 1.0], "exact")).any()
    assert history.answer(1.0, key=0.0).n == history.answer(1.0, key=-0.0).n == 4
    assert history.rank(-0.0) == history.rank(0.0) == (4, 4)
    values = np.where(rng.random(1_100_000) < 0.5, -0.0, 1.0)
    large = History(path.with_name("large"))
    large.append(values)
    assert not np.signbit(large.quantile(0.1, "exact"))


def test_values_in_queries_may_be_of_other_types(path: Path) -> None:
    history = History(path, value_type="int64")
    history.append([1, 2, 2**62 + 1])
    history.end_step()
    history.append([2])
    for mode in ("quick", "accurate", "exact"):
        assert history.rank(2.5, mode) == (3, 3)
        assert history.rank(2**62, mode) == (3, 3)
        assert history.rank(INF, mode) == (4, 4)
        assert history.rank(-INF, mode) == (0, 0)
        low, high = history.rank([0, 2, 10**30], mode)
        assert low.tolist() == high.tolist() == [0, 3, 4]
        assert history.cdf(2, mode) == 0.75
        assert history.cdf([0, 2], mode).tolist() == [0, 0.75]
    assert history.rank([]) is not None


# --- batches ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", ["monday", "", "ü\n'", 7, 0, -7, 2**70, np.int64(7), ("kafka", 3), ("kafka", 0)])
def test_a_repeated_batch_changes_nothing(batch: Any, path: Path) -> None:
    history = History(path, kappa=1)
    history.append([1.0], batch_id=batch)
    history.append([2.0], batch_id=batch)
    assert history.n == 1
    history.end_step()
    history.append([2.0], batch_id=batch)
    reopened = History(path)
    del history
    gc.collect()
    reopened.append([2.0], batch_id=batch)
    pq.write_table(pa.table({"value": [2.0]}), path.with_name("f.parquet"))
    assert reopened.append_files(str(path.with_name("f.parquet")), batch_id=batch) == 0
    assert everything(reopened) == [1.0]


def test_batches_of_different_kinds_are_different(path: Path) -> None:
    history = History(path)
    for batch in ("1", 1, ("s", 1), ("t", 1), None, None):
        history.append([1.0], batch_id=batch)
    assert history.n == 6
    history.append([1.0], batch_id=np.str_("1"))
    assert history.n == 6


def test_a_source_counts_upwards(path: Path) -> None:
    """The log stores the last number of a source: lower numbers count as seen."""
    history = History(path)
    history.append([1.0], batch_id=("s", 5))
    history.append([2.0], batch_id=("s", 4))
    history.append([3.0], batch_id=("s", 9))
    assert everything(history) == [1, 3]


def test_an_empty_batch_is_remembered(path: Path) -> None:
    history = History(path)
    history.append([], batch_id="b")
    history.append([1.0], batch_id="b")
    assert history.n == 0


@pytest.mark.parametrize(
    "batch", [1.5, True, b"x", ["a", 1], ("a",), ("a", "b"), (1, 2), ("s", -1), ("s", 2**63), ("s", True)]
)
def test_what_is_no_batch(batch: Any, path: Path) -> None:
    history = History(path)
    with pytest.raises(errors.InvalidArgumentError, match="batch"):
        history.append([1.0], batch_id=batch)
    assert history.n == 0
