"""Quantiles of polars columns: equal to those of polars, to the bit, with the same types and names."""

import itertools
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import quantide.polars
from quantide import errors

QS: list[Any] = [0, 1, 0.25, 0.3, 0.5, [0.0, 0.1, 0.5, 0.77, 1.0], [0.5]]


def make_frame(n: int) -> pl.DataFrame:
    rng = np.random.default_rng(n)
    floats, whole = rng.normal(size=n), rng.integers(-9, 9, n)
    return pl.DataFrame(
        {
            "float": floats,
            "nan": np.where(rng.random(n) < 0.3, np.nan, floats),
            "infinite": np.where(rng.random(n) < 0.3, np.inf, floats),
            "whole": whole,
            "large": rng.integers(-(2**62), 2**62, n),
            "int8": whole.astype(np.int8),
            "uint64": rng.integers(0, 2**60, n).astype(np.uint64),
            "float32": floats.astype(np.float32),
            "time": pl.Series(rng.integers(0, 10**15, n)).cast(pl.Datetime("us")),
            "key": rng.integers(0, 3, n),
        }
    ).with_columns(holes=pl.when(pl.col("whole") > 2).then("float"), none=pl.lit(None, pl.Float64))


@pytest.mark.parametrize("interpolation", quantide.polars.METHODS)
@pytest.mark.parametrize("n", [1, 2, 8, 101, 5_000])
def test_columns_are_as_in_polars(n: int, interpolation: Any) -> None:
    frame = make_frame(n)
    for name, q in itertools.product(frame.columns, QS):
        if not (isinstance(q, list) and frame[name].null_count() == n):  # polars panics on these
            theirs = frame.select(pl.col(name).quantile(q, interpolation))
            assert_frame_equal(frame.select(quantide.polars.quantile(pl.col(name), q, interpolation)), theirs)
            value, own = quantide.polars.quantile(frame[name], q, interpolation), theirs.to_series().to_list()[0]
            np.testing.assert_equal(value, own)


@pytest.mark.parametrize("interpolation", quantide.polars.METHODS)
def test_groups_and_windows_are_as_in_polars(interpolation: Any) -> None:
    frame = make_frame(101)
    for name, q in itertools.product(("float", "nan", "holes", "none", "whole", "time"), (0, 0.3, 0.5, 1)):
        ours = pl.col(name).quantide.quantile(q, interpolation)  # type: ignore[attr-defined]
        theirs = pl.col(name).quantile(q, interpolation)
        groups = [frame.group_by("key").agg(column).sort("key") for column in (ours, theirs)]
        assert_frame_equal(*groups, check_exact=True)
        assert_frame_equal(frame.select(ours.over("key")), frame.select(theirs.over("key")), check_exact=True)


def test_types_are_known_before_a_query_runs() -> None:
    for frame in (make_frame(8), make_frame(8).clear()):
        for name in ("float", "whole", "float32", "time"):
            ours = frame.lazy().select(pl.col(name).quantide.quantile(0.3))  # type: ignore[attr-defined]
            theirs = frame.lazy().select(pl.col(name).quantile(0.3))
            assert ours.collect_schema() == theirs.collect_schema() == ours.collect().schema
        several = frame.lazy().select(pl.col("whole").quantide.quantile([0.1, 0.5]))  # type: ignore[attr-defined]
        assert several.collect_schema() == several.collect().schema == pl.Schema({"whole": pl.List(pl.Float64)})
    empty = make_frame(8).clear().select(pl.col("float").quantide.quantile([0.1, 0.5]))  # type: ignore[attr-defined]
    assert empty.item().to_list() == [None, None]


def test_lists_work_in_groups() -> None:
    """Quantiles of groups take lists, unlike those of polars itself."""
    frame = make_frame(101)
    both = pl.col("float").quantide.quantile([0.1, 0.5], "linear").alias("q")  # type: ignore[attr-defined]
    answers = frame.group_by("key").agg(both, a=pl.col("float").quantile(0.1, "linear"), b=pl.col("float").median())
    assert len(answers) == 3
    for row in answers.rows(named=True):
        assert row["q"][0] == row["a"]
        assert row["q"][1] == pytest.approx(row["b"], rel=1e-15)


CATEGORIES = [pl.Categorical, pl.Enum(["0", "1"])]
OTHER_TYPES = [*CATEGORIES, pl.Boolean, pl.String, pl.Binary, pl.Object, pl.List(pl.Int64)]


@pytest.mark.parametrize(
    "kind", [*OTHER_TYPES, pl.Date, pl.Time, pl.Duration("us"), pl.Decimal(9, 2), pl.Null], ids=str
)
def test_groups_of_other_types_are_as_in_polars(kind: Any) -> None:
    """Groups of types without quantiles give nulls, as in polars; outside of groups such types raise."""
    texts = pl.Series("x", ["0", "1", None, "1", "0"])
    if kind in (pl.String, pl.Binary, *CATEGORIES):
        column = texts.cast(kind)
    elif kind == pl.Object:
        column = pl.Series("x", [object() for _ in texts], kind)
    elif kind == pl.List(pl.Int64):
        column = pl.Series("x", [[1], [2, 3], None, [], [4]], kind)
    else:
        column = texts.cast(pl.Int64).cast(pl.Null if kind == pl.Null else kind, strict=False)
    frame = pl.DataFrame({"key": [1, 2, 1, 2, 2]}).with_columns(column)
    theirs, ours = pl.col("x").quantile(0.3), pl.col("x").quantide.quantile(0.3)  # type: ignore[attr-defined]
    if kind not in CATEGORIES:  # they give null, so that dates without a value do not panic
        assert outcome(lambda: frame.select(ours)) == outcome(lambda: frame.select(theirs))
    assert outcome(lambda: frame["x"].quantide.quantile(0.3)) == outcome(lambda: frame["x"].quantile(0.3))  # type: ignore[attr-defined]
    for rows in (frame, frame.clear()):
        lazy = rows.lazy().group_by("key", maintain_order=True)
        for both in (
            [rows.group_by("key", maintain_order=True).agg(one) for one in (ours, theirs)],
            [lazy.agg(one).collect() for one in (ours, theirs)],
        ):
            if len(rows) or kind not in (pl.Boolean, pl.List(pl.Int64)):  # polars plans floats for these two
                assert both[0].schema == both[1].schema
            assert both[0].rows() == both[1].rows()
    assert frame.select(ours.over("key")).rows() == frame.select(theirs.over("key")).rows()
    if kind in OTHER_TYPES:
        assert frame.group_by("key").agg(ours)["x"].to_list() == [None, None]


def outcome(call: Callable[[], Any]) -> Any:
    """Return the rows or the value of a call, or the type of its error and the first line of its message."""
    try:
        result = call()
    except Exception as error:
        return type(error), str(error).splitlines()[0]
    return result.rows() if isinstance(result, pl.DataFrame) else result


@pytest.mark.parametrize("dtype", [pl.Date, pl.Time, pl.Duration("ms"), pl.Float32, pl.UInt64, pl.Decimal(10, 2)])
def test_groups_and_columns_without_values(dtype: Any) -> None:
    """polars itself panics on columns of dates, and on some lists."""
    frame = pl.DataFrame({"key": [0, 0, 1], "x": pl.Series([1, 2, None]).cast(dtype)})
    ours = pl.col("x").quantide.quantile(0.5)  # type: ignore[attr-defined]
    groups = [frame.group_by("key").agg(column).sort("key") for column in (ours, pl.col("x").quantile(0.5))]
    assert_frame_equal(*groups, check_exact=True)
    for empty in (frame.filter(key=1), frame.clear()):
        assert quantide.polars.quantile(empty["x"], 0.5) is None
        assert list(quantide.polars.quantile(empty["x"], [0.1, 0.5])) == [None, None]
        assert empty.select(ours).to_series().to_list() == [None]


def test_lists_of_whole_and_other_numbers() -> None:
    """polars itself refuses them in expressions of columns that it computes here."""
    series = pl.Series("x", [3.0, 1.0, 2.0], dtype=pl.Float32)
    assert quantide.polars.quantile(series, [0, 0.5, 1]) == series.quantile([0, 0.5, 1]) == [1.0, 2.0, 3.0]
    both = series.to_frame().select(quantide.polars.quantile(pl.col("x"), [0, 0.5, 1]))
    assert both.item().to_list() == [1.0, 2.0, 3.0]
    prices = pl.Series([Decimal(1), Decimal(2)], dtype=pl.Decimal(10, 2))
    assert quantide.polars.quantile(prices, [0.0, 1.0]) == prices.quantile([0.0, 1.0])


def test_wrong_arguments_have_names() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="interpolation='cubic' is unknown; use one of nearest"):
        quantide.polars.quantile(pl.col("x"), 0.5, "cubic")
    with pytest.raises(errors.InvalidArgumentError, match=r"must be in \[0, 1\], not 1.5"):
        quantide.polars.quantile(pl.col("x"), 1.5)
    with pytest.raises(errors.InvalidArgumentError, match="give a polars Series or expression, not a list"):
        quantide.polars.quantile([1.0], 0.5)
    with pytest.raises(pl.exceptions.InvalidOperationError, match="not supported for dtype `str`"):
        quantide.polars.quantile(pl.Series(["a"]), 0.5)
