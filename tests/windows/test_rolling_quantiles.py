"""Rolling quantiles: answers are compared with a sort of each window, and with pandas and polars where they agree."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import quantide.pandas
import quantide.polars
from quantide import errors, rolling_quantile
from quantide.kernels import rank_bitmap

Rng = np.random.Generator
PHIS = [0.001, 0.07, 0.5, 0.75, 0.99, 1.0]
INTERPOLATIONS = ["linear", "lower", "higher", "nearest", "midpoint"]


def is_value(x: Any) -> bool:
    return x is not None and x == x


def naive(values: Sequence[Any], starts: Sequence[int], phi: float, least: int) -> list[Any]:
    """Sort the values of every window; None where there are fewer than `least`."""
    answers = []
    for end, start in enumerate(starts, start=1):
        window = sorted(x for x in values[start:end] if is_value(x))
        rank = max(1, math.ceil(phi * len(window) - 1e-9))
        answers.append(window[rank - 1] if window and len(window) >= least else None)
    return answers


def by_count(n: int, window: int) -> list[int]:
    return [max(0, row + 1 - window) for row in range(n)]


def by_time(times: Sequence[Any], window: Any) -> list[int]:
    return [next(j for j in range(row + 1) if times[j] > times[row] - window) for row in range(len(times))]


def plain(answers: Any) -> list[Any]:
    """Return answers as a list with None where there is none."""
    return [x if is_value(x) else None for x in answers.tolist()]


def check(values: Any, window: int, least: int | None = None, phis: Sequence[float] = PHIS) -> None:
    answers = rolling_quantile(values, window, phis, min_count=least)
    assert answers.shape == (len(values), len(phis))
    for phi, column in zip(phis, answers.T, strict=True):
        expected = naive(values.tolist(), by_count(len(values), window), phi, window if least is None else least)
        assert plain(column) == expected, (phi, window, least)


def orders(n: int) -> dict[str, Any]:
    rng = np.random.default_rng(11)
    values = rng.normal(size=n)
    return {
        "random": values,
        "sorted": np.sort(values),
        "reversed": np.sort(values)[::-1],
        "constant": np.zeros(n),
        "ties": rng.integers(0, 5, n).astype(float),
        "walk": np.cumsum(values),
        "saw": np.arange(n) % 37 * 1.0,
        "two heights": np.where(np.arange(n) % 2 == 0, -1.0, 1.0) * (1 + np.arange(n) / n),
        "NaN": np.where(rng.random(n) < 0.3, np.nan, values),
        "long runs of NaN": np.where(np.arange(n) // 100 % 2 == 0, np.nan, values),
        "only NaN": np.full(n, np.nan),
        "infinities": rng.choice([np.inf, -np.inf, 0.0, 1.0], n),
        "zeros": rng.choice([-0.0, 0.0], n),
        "tiny": values * 5e-324,
        "strided": np.repeat(values, 2)[::2],
    }


@pytest.mark.parametrize("order", orders(1))
@pytest.mark.parametrize("window", [1, 2, 3, 64, 100, 150])
def test_every_window_by_count(order: str, window: int) -> None:
    """More rows than a segment has, so that windows continue across segments."""
    values = orders(1500)[order]
    check(values, window, phis=[0.07, 0.5, 1.0])
    check(values, window, least=1, phis=[0.5])


@pytest.mark.parametrize("n", [0, 1, 2, 63, 64, 65, 511, 512, 513])
def test_sizes_around_words_and_segments(n: int, rng: Rng) -> None:
    for window in (1, 2, n // 2 + 1, n + 1, 10**12):
        check(rng.normal(size=n), window)
        check(rng.normal(size=n), window, least=1)


def test_distant_neighbours_in_the_bitmap() -> None:
    """Values that a later window has lie between two neighbours of this one: whole words of the bitmap are empty."""
    n, window = 40_000, 1_001
    rng = np.random.default_rng(12)
    values = rng.random(n)
    values[: 4 * window] = np.where(np.arange(4 * window) % 2 == 0, -1.0, 2.0) + rng.random(4 * window) / 10
    answers = rolling_quantile(values, window, [0.3, 0.5, 0.501])
    for row in range(window - 1, n, 61):
        ordered = np.sort(values[row + 1 - window : row + 1])
        expected = [ordered[math.ceil(phi * window - 1e-9) - 1] for phi in (0.3, 0.5, 0.501)]
        assert answers[row].tolist() == expected


@pytest.mark.parametrize("window", [5_000, 30_000, 65_537])
def test_large_windows(window: int) -> None:
    values = np.random.default_rng(13).normal(size=3 * window + 17)
    values[::1000] = np.nan
    answers = rolling_quantile(values, window, PHIS, min_count=1)
    for row in (0, 1, 999, window - 1, window, 2 * window + 1, len(values) - 1, *range(3, len(values), window // 5)):
        ordered = np.sort(values[max(0, row + 1 - window) : row + 1])
        ordered = ordered[~np.isnan(ordered)]
        expected = [ordered[max(1, math.ceil(phi * len(ordered) - 1e-9)) - 1] if len(ordered) else None for phi in PHIS]
        assert plain(answers[row]) == expected


# Types


def columns() -> dict[str, Any]:
    rng = np.random.default_rng(14)
    whole = rng.integers(-100, 100, 300)
    floats = rng.normal(size=300)
    start = datetime(2026, 3, 1)
    return {
        "float64": floats,
        "float32": floats.astype(np.float32),
        "big-endian": floats.astype(">f8"),
        "int64": whole,
        "int64 limits": rng.choice([-(2**63), 2**63 - 1, 0, 2**53 + 1], 300),
        "int8": whole.astype(np.int8),
        "uint32": (whole + 2**31).astype(np.uint32),
        "masked": np.ma.MaskedArray(whole, rng.random(300) < 0.2),
        "list": [None if x % 7 == 0 else x for x in whole.tolist()],
        "floats with None": [None if x < 0 else math.nan if x > 1 else x for x in floats.tolist()],
        "datetime64": np.array([start + timedelta(days=x) for x in whole.tolist()], "datetime64[us]"),
        "NaT": np.where(rng.random(300) < 0.2, np.datetime64("NaT"), whole.astype("datetime64[s]")),
        "timedelta64": whole.astype("timedelta64[ms]"),
        "dates": [date(2026, 1, 1) + timedelta(days=x) for x in whole.tolist()],
        "zoned": pa.array([start.replace(tzinfo=UTC) + timedelta(days=x) for x in whole.tolist()]),
        "decimals": [None if x == 3 else Decimal(x) / 4 for x in whole.tolist()],
        "arrow chunks": pa.chunked_array([pa.array([1, None, 3]), pa.array([5, 2])]),
        "pandas": pd.Series(whole, dtype="Int32").where(whole % 5 > 0),
        "polars": pl.Series(floats),
    }


def as_list(values: Any) -> list[Any]:
    """Return values as Python objects that can be compared; missing ones as None."""
    if isinstance(values, (pa.Array, pa.ChunkedArray)) or not hasattr(values, "tolist"):
        values = np.array(values.to_pylist() if hasattr(values, "to_pylist") else values, dtype=object)
    listed = values.to_list() if isinstance(values, pl.Series) else values.tolist()
    listed = [x.replace(tzinfo=None) if isinstance(x, datetime) else x for x in listed]
    return [None if x is pd.NA or not is_value(x) else x for x in listed]


@pytest.mark.parametrize("name", columns())
def test_the_type_of_the_values_is_returned(name: str) -> None:
    values = columns()[name]
    answers = rolling_quantile(values, 20, 0.75, min_count=2)
    expected = naive(as_list(values), by_count(len(values), 20), 0.75, 2)
    assert as_list(answers) == expected
    if isinstance(values, np.ndarray):
        assert answers.dtype == values.dtype.newbyteorder("=")
        assert isinstance(answers, np.ma.MaskedArray) == (values.dtype.kind in "iu")


def test_the_values_are_not_changed(rng: Rng) -> None:
    values = np.where(rng.random(500) < 0.1, np.nan, rng.normal(size=500))
    copy = values.copy()
    rolling_quantile(values, 10, [0.5])
    np.testing.assert_array_equal(values, copy)


def test_without_values_and_without_phis() -> None:
    assert rolling_quantile([], 3, 0.5).shape == (0,)
    assert rolling_quantile([], 3, [0.5, 0.9]).shape == (0, 2)
    assert rolling_quantile([1.0, 2.0], 3, []).shape == (2, 0)
    assert plain(rolling_quantile([None, None], 1, 0.5)) == [None, None]


# Windows by time


@pytest.mark.parametrize("window", [1, 2, 7, 50, 10_000])
def test_windows_by_time(window: int, rng: Rng) -> None:
    """Times with ties and gaps; a window has no row after its own, even of the same time."""
    gaps = rng.choice([0, 0, 1, 1, 2, 30, 200], 1500)
    times, values = np.cumsum(gaps), np.where(rng.random(1500) < 0.1, np.nan, rng.normal(size=1500))
    starts = by_time(times.tolist(), window)
    for phi in (0.1, 0.5, 1.0):
        expected = naive(values.tolist(), starts, phi, 1)
        assert plain(rolling_quantile(values, window, phi, times=times)) == expected
        stamps = times.astype("datetime64[s]")
        assert plain(rolling_quantile(values, timedelta(seconds=window), phi, times=stamps)) == expected
        of_pandas = pd.Series(values, index=pd.DatetimeIndex(stamps))
        assert plain(quantide.pandas.rolling_quantile(of_pandas, f"{window} s", phi)) == expected
    least = rolling_quantile(values, window, 0.5, times=times, min_count=3)
    assert plain(least) == naive(values.tolist(), starts, 0.5, 3)


def test_bursts_and_silence(rng: Rng) -> None:
    """Windows of very different numbers of rows, which empty at once."""
    times = np.concatenate([1000 * burst + np.sort(rng.random(size)) for burst, size in enumerate([3, 4000, 1, 900])])
    values = rng.normal(size=len(times))
    answers = rolling_quantile(values, 0.5, 0.9, times=times)
    for row in range(0, len(times), 37):
        window = np.sort(values[: row + 1][times[: row + 1] > times[row] - 0.5])
        assert answers[row] == window[math.ceil(0.9 * len(window) - 1e-9) - 1]


def test_a_span_below_the_resolution_of_times_has_the_row_itself() -> None:
    assert rolling_quantile([1.0, 2.0], 1e-9, 0.5, times=[1e9, 1e9 + 1]).tolist() == [1.0, 2.0]
    times = np.array([0, 1, 1], dtype="datetime64[ns]")
    assert rolling_quantile([1.0, 2.0, 0.0], 1e-12, 1.0, times=times).tolist() == [1.0, 2.0, 2.0]
    early = np.array([-(2**63) + 1, 0, 2**63 - 1]).view("datetime64[ns]")
    assert rolling_quantile([1.0, 2.0, 0.0], 10**100, 1.0, times=early).tolist() == [1.0, 2.0, 2.0]


# pandas and polars


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@pytest.mark.parametrize("window", [1, 2, 10, 99, 600])
def test_interpolation_is_that_of_pandas(interpolation: str, window: int, rng: Rng) -> None:
    series: Any = pd.Series(np.where(rng.random(1200) < 0.1, np.nan, rng.normal(size=1200)), name="ms")
    for least in (None, 0, 1, window):
        theirs = series.rolling(window, min_periods=least)
        for phi in (0.0, 0.25, 0.5, 0.9, 1.0):
            ours = series.quantide.rolling_quantile(window, phi, min_periods=least, interpolation=interpolation)
            pd.testing.assert_series_equal(ours, theirs.quantile(phi, interpolation=interpolation), rtol=1e-14)


@pytest.mark.parametrize("phi", [0.1, 0.25, 0.5, 0.9, 0.99])
def test_where_the_target_rank_is_that_of_pandas(phi: float, rng: Rng) -> None:
    """pandas rounds r - 1 = phi * (n - 1) for rank r of n: "higher" or "lower" includes our rank."""
    values: Any = pd.Series(rng.normal(size=400))
    for n in range(1, 60):
        ours = quantide.pandas.rolling_quantile(values, n, phi)
        rank, position = max(1, math.ceil(phi * n - 1e-9)), phi * (n - 1)
        rounded = {"lower": math.floor(position), "higher": math.ceil(position)}
        assert rank - 1 in rounded.values()
        for interpolation, below in rounded.items():
            same = ours.equals(values.rolling(n).quantile(phi, interpolation=interpolation))
            assert same == (below == rank - 1)


def test_the_accessor_of_pandas() -> None:
    index = pd.date_range("2026-01-01", periods=5, freq="min", tz="UTC")
    series: Any = pd.Series([3, 1, 2, 5, 4], index=index, name="ms")
    by_rows = series.quantide.rolling_quantile(2, [0.5, 1.0])
    assert by_rows.columns.tolist() == [0.5, 1.0]
    assert by_rows.index.equals(index)
    assert by_rows.dtypes.tolist() == [pd.Int64Dtype()] * 2
    for window in ("3min", timedelta(minutes=3), np.timedelta64(3, "m"), pd.Timedelta("3min")):
        linear = series.quantide.rolling_quantile(window, 0.4, interpolation="linear")
        pd.testing.assert_series_equal(linear, series.rolling("3min").quantile(0.4))
    dated = series.reset_index(drop=True).quantide.rolling_quantile("3 min", 0.5, times=index)
    assert dated.tolist() == series.quantide.rolling_quantile("3 min", 0.5).tolist() == [3, 1, 2, 2, 4]
    grouped = series.groupby([0, 1, 0, 1, 0]).transform(lambda one: one.quantide.rolling_quantile(2, 1.0))
    assert grouped.tolist()[2:] == [3, 5, 4]


def test_duplicate_labels_and_phis_of_pandas() -> None:
    series: Any = pd.Series([1.0, 2.0, 3.0], index=["a", "a", "b"])
    frame = series.quantide.rolling_quantile(2, (0.5, 0.5), min_periods=1)
    assert frame.columns.tolist() == [0.5, 0.5]
    assert frame.to_numpy().tolist() == [[1.0, 1.0], [1.0, 1.0], [2.0, 2.0]]


@pytest.mark.parametrize(
    "values",
    [
        pd.Series(pd.to_datetime(["2026-01-02", "NaT", "2026-01-01"])),
        pd.Series(pd.to_datetime(["2026-01-02", "2026-01-03", "2026-01-01"])).dt.tz_localize("Asia/Tokyo"),
        pd.Series(pd.to_timedelta([5, 2, 7], unit="s")),
        pd.Series([1.5, None, 2.5], dtype="float32"),
    ],
)
def test_types_of_pandas(values: Any) -> None:
    answers = values.quantide.rolling_quantile(3, 1.0, min_periods=1)
    assert answers.dtype == values.dtype
    assert answers.tolist() == values.cummax().ffill().tolist()


def test_polars_has_the_same_answers(rng: Rng) -> None:
    values = rng.normal(size=2000)
    for window, phi in ((10, 0.5), (100, 0.99), (999, 0.07)):
        position = max(1, math.ceil(phi * window - 1e-9)) - 1
        near = "lower" if math.floor(phi * (window - 1)) == position else "higher"
        series: Any = pl.Series(values)
        theirs = series.rolling_quantile(phi, near, window_size=window)
        assert series.quantide.rolling_quantile(window, phi).equals(theirs)


def test_expressions_of_polars() -> None:
    frame = pl.DataFrame({"key": ["a", "b"] * 3, "second": range(6), "ms": [5, 1, 4, None, 3, 2]})
    ms: Any = pl.col("ms")
    lazy = frame.lazy().select(
        ms.quantide.rolling_quantile(2, 1.0, min_count=1).over("key").alias("each"),
        ms.quantide.rolling_quantile("3 s", [0.5, 1], times="second").alias("both"),
        ms.quantide.rolling_quantile(timedelta(seconds=1), 0.5, times=pl.col("second")).alias("own"),
    )
    pair = pl.Struct({"0.5": pl.Int64, "1": pl.Int64})
    assert lazy.collect_schema() == {"each": pl.Int64, "both": pair, "own": pl.Int64}
    found = lazy.collect()
    assert found["each"].to_list() == [5, 1, 5, 1, 4, 2]
    assert found["both"].struct.field("0.5").to_list() == [5, 1, 4, 1, 3, 2]
    assert found["both"].struct.field("1").to_list() == [5, 5, 5, 4, 4, 3]
    assert found["own"].equals(frame["ms"].alias("own"))


@pytest.mark.parametrize(
    "values",
    [
        pl.Series([Decimal("1.25"), None, Decimal("3.00")]),
        pl.Series([date(2026, 1, 1), date(2026, 1, 3), None]),
        pl.Series([datetime(2026, 1, 1, tzinfo=UTC), None]),
        pl.Series([timedelta(1), timedelta(2)]),
        pl.Series([1, 2, 3], dtype=pl.UInt8),
        pl.Series([], dtype=pl.Float32),
    ],
)
def test_types_of_polars(values: Any) -> None:
    answers = values.quantide.rolling_quantile(3, 1.0, min_count=1)
    assert answers.equals(values.fill_null(strategy="forward"))
    assert answers.dtype == values.dtype


# Input that is refused


@pytest.mark.parametrize(
    ("arguments", "named", "message"),
    [
        ((0, 0.5), {}, "window must be at least 1, not 0"),
        ((2.5, 0.5), {}, "window must be a whole number of rows, not 2.5"),
        ((True, 0.5), {}, "window must be a whole number of rows"),
        (("5 min", 0.5), {}, "needs times="),
        ((2, -0.1), {}, "phi must be in"),
        ((2, 1.5), {}, "phi must be in"),
        ((2, math.nan), {}, "phi must be in"),
        ((2, [[0.5]]), {}, "a list of numbers, not of shape"),
        ((2, "0.5"), {}, "phi must be a number"),
        ((2, 0.5), {"min_count": 3}, "min_count must be at most the window of 2 rows, not 3"),
        ((2, 0.5), {"min_count": -1}, "min_count must be at least 0"),
        ((2, 0.5), {"min_count": 1.5}, "min_count must be a whole number"),
        ((2, 0.5), {"times": [1, 2]}, "there are 2 times for 3 values"),
        ((2, 0.5), {"times": [1, 3, 2]}, "times must ascend, and 2.0 in row 2 is before 3.0"),
        ((2, 0.5), {"times": [1, None, 2]}, "a time is null"),
        ((2, 0.5), {"times": [1, math.nan, 2]}, "a time is nan"),
        ((0, 0.5), {"times": [1, 2, 3]}, "must be above zero"),
        (("soon", 0.5), {"times": [1, 2, 3]}, "is not a length of time"),
    ],
)
def test_what_is_refused(arguments: tuple[Any, ...], named: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=message):
        rolling_quantile([1.0, 2.0, 3.0], *arguments, **named)


@pytest.mark.parametrize("values", [["a"], [True], np.zeros((2, 2)), [[1.0]], np.array([1 + 2j])])
def test_types_that_are_refused(values: Any) -> None:
    with pytest.raises(errors.TypeMismatchError):
        rolling_quantile(values, 1, 0.5)


def test_what_the_helpers_refuse() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="needs a DatetimeIndex, not a RangeIndex"):
        quantide.pandas.rolling_quantile(pd.Series([1.0]), "5 min", 0.5)
    with pytest.raises(errors.InvalidArgumentError, match="give a pandas Series, not a list"):
        quantide.pandas.rolling_quantile([1.0], 1, 0.5)
    with pytest.raises(errors.InvalidArgumentError, match="interpolation='cubic' is unknown"):
        quantide.pandas.rolling_quantile(pd.Series([1.0]), 1, 0.5, interpolation="cubic")
    with pytest.raises(errors.InvalidArgumentError, match=r"a quantile must be in \[0, 1\], not 2.0"):
        quantide.pandas.rolling_quantile(pd.Series([1.0]), 1, 2, interpolation="linear")
    with pytest.raises(errors.InvalidArgumentError, match="interpolation needs numbers"):
        quantide.pandas.rolling_quantile(pd.Series(["a"]), 1, 0.5, interpolation="linear")
    with pytest.raises(errors.InvalidArgumentError, match="give a polars Series or expression, not a list"):
        quantide.polars.rolling_quantile([1.0], 1, 0.5)


# Any input

NUMBERS = st.one_of(st.none(), st.floats(width=32), st.integers(-3, 3).map(float))


@given(
    values=st.lists(NUMBERS, max_size=60),
    window=st.integers(1, 70),
    phi=st.floats(0, 1, exclude_min=True),
    least=st.integers(1, 70),
)
def test_any_values_by_count(values: list[float | None], window: int, phi: float, least: int) -> None:
    least = min(least, window)
    answers = rolling_quantile(pa.array(values, pa.float64()), window, phi, min_count=least)
    assert plain(answers) == naive(values, by_count(len(values), window), phi, least)


@given(
    rows=st.lists(st.tuples(st.integers(0, 5), st.integers(-3, 3)), min_size=1, max_size=60),
    window=st.integers(1, 30),
    phi=st.floats(0, 1, exclude_min=True),
)
def test_any_values_by_time(rows: list[tuple[int, int]], window: int, phi: float) -> None:
    times = np.cumsum([gap for gap, _ in rows])
    values = [value for _, value in rows]
    answers = rolling_quantile(values, window, phi, times=times)
    assert answers.tolist() == naive(values, by_time(times.tolist(), window), phi, 1)


@given(st.data())
def test_the_bitmap_finds_its_bits(data: st.DataObject) -> None:
    """Searches of both levels, against a sorted list."""
    ranks = sorted(data.draw(st.sets(st.integers(rank_bitmap.FIRST, 40_000), min_size=1, max_size=20)))
    bitmap, upper = np.zeros(626, np.uint64), np.zeros(10, np.uint64)
    for rank in (*ranks, 30_000, 31_000):
        rank_bitmap.insert(bitmap, upper, np.uint64(rank))
    for rank in {30_000, 31_000} - {*ranks}:
        rank_bitmap.remove(bitmap, upper, np.uint64(rank))
    at = data.draw(st.integers(rank_bitmap.FIRST, ranks[-1]))
    assert rank_bitmap.next_set(bitmap, upper, np.int64(at)) == min(rank for rank in ranks if rank >= at)
    at = data.draw(st.integers(ranks[0], 40_000))
    assert rank_bitmap.previous_set(bitmap, upper, np.int64(at)) == max(rank for rank in ranks if rank <= at)


# Bands of large windows, in which only some values are sorted


def drifting(n: int) -> dict[str, Any]:
    rng = np.random.default_rng(15)
    values, rows = rng.normal(size=n), np.arange(n)
    return {
        "random": values,
        "a jump": np.where(rows < n // 2, values, values + 50),
        "a short burst": np.where((rows > n // 2) & (rows < n // 2 + 4_000), 99.0, values),
        "walk": np.cumsum(values),
        "trend": values + rows / 2_000,
        "waves": values + 3 * np.sin(rows / 900),
        "few values": np.round(values),
        "constant": np.ones(n),
        "sorted": np.sort(values),
        "reversed": np.sort(values)[::-1].copy(),
        "NaN": np.where(rng.random(n) < 0.4, np.nan, values),
        "mostly NaN": np.where(rng.random(n) < 0.999, np.nan, values),
        "infinities": rng.choice([np.inf, -np.inf, 0.0], n),
        "periodic": np.where(rows % 16 == 0, values - 9, values),
        "integers": rng.integers(-(2**62), 2**62, n),
        "float32": values.astype(np.float32),
    }


@pytest.mark.parametrize("name", drifting(1))
def test_bands_change_no_answer(name: str) -> None:
    """Windows that a band fits, and others whose quantile leaves it in the middle of a segment."""
    window = 8_200
    values = drifting(7 * window)[name]
    phis = [0.001, 0.5, 0.99, 1.0]
    answers = rolling_quantile(values, window, phis, min_count=1)
    full = rolling_quantile(values, window, phis, min_count=window)
    for row in sorted({*range(0, len(values), 173), window - 2, window - 1, window, len(values) - 1}):
        ordered = np.sort(values[max(0, row + 1 - window) : row + 1])
        ordered = ordered[ordered == ordered]
        ranks = [max(1, math.ceil(phi * len(ordered) - 1e-9)) for phi in phis]
        expected = [ordered[rank - 1] for rank in ranks] if len(ordered) else [None] * len(phis)
        assert plain(answers[row]) == expected, row
        assert plain(full[row]) == (expected if len(ordered) == window else [None] * len(phis)), row


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_bands_interpolate_as_pandas(interpolation: Any) -> None:
    values = drifting(30_000)["a jump"]
    series: Any = pd.Series(values)
    for phi in (0.0, 0.3, 1.0):
        ours = series.quantide.rolling_quantile(8_200, phi, interpolation=interpolation)
        theirs = series.rolling(8_200).quantile(phi, interpolation=interpolation)
        pd.testing.assert_series_equal(ours, theirs, rtol=1e-13)


def test_bands_of_windows_by_time(rng: Rng) -> None:
    values, times = rng.normal(size=60_000), np.cumsum(rng.exponential(1, 60_000))
    answers = rolling_quantile(values, 9_000, [0.5, 0.9], times=times)
    for row in range(0, 60_000, 239):
        ordered = np.sort(values[: row + 1][times[: row + 1] > times[row] - 9_000])
        assert answers[row].tolist() == [ordered[math.ceil(phi * len(ordered) - 1e-9) - 1] for phi in (0.5, 0.9)]


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_missing_package_is_named(package: str) -> None:
    code = f"import sys; sys.modules[{package!r}] = None; import quantide.{package}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip().endswith(f"which is not installed; run: pip install {package}")
    assert "MissingPackageError" in done.stderr
