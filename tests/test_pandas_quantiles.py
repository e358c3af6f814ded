"""Quantiles of pandas objects: equal to those of pandas, to the bit, with the same types, index and names."""

import itertools
import warnings
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import quantide.pandas
from quantide import errors
from quantide.windows.rolling_quantiles import INTERPOLATIONS

QS: list[Any] = [0, 1, 0.3, [0, 0.1, 0.25, 0.5, 0.77, 1], (0.5,), np.array([0.9, 0.2, 0.2])]


def make_frame(n: int, seed: int = 3) -> pd.DataFrame:
    """A column of each type; some have missing values or infinities."""
    rng = np.random.default_rng(seed)
    missing = rng.random(n) < 0.2
    floats, whole = rng.normal(size=n), rng.integers(-9, 9, n)
    days = pd.Series(pd.to_datetime(rng.integers(10**17, 2 * 10**18, n)))
    columns: dict[str, Any] = {
        "float": floats,
        "holes": np.where(missing, np.nan, floats),
        "empty": np.full(n, np.nan),
        "infinite": np.where(missing, np.inf, np.where(rng.random(n) < 0.2, -np.inf, floats)),
        "float32": floats.astype(np.float32),
        "whole": whole,
        "int32": rng.integers(-(2**31), 2**31, n).astype(np.int32),
        "uint8": rng.integers(0, 255, n).astype(np.uint8),
        "uint64": rng.integers(0, 2**60, n).astype(np.uint64),
        "large": rng.integers(-(2**62), 2**62, n),
        "day": days,
        "some days": days.where(~missing),
        "zoned": days.dt.tz_localize("UTC").dt.tz_convert("America/New_York"),
        "seconds": days.dt.as_unit("s"),
        "length": pd.to_timedelta(rng.integers(-(10**15), 10**15, n)),
        "nullable": pd.Series(whole, dtype="Int64").where(~missing),
        "nullable float": pd.Series(floats, dtype="Float64").where(~missing),
        "boolean": whole > 0,
        "text": whole.astype(str),
    }
    return pd.DataFrame(columns)


def outcome(function: Callable[[], Any]) -> Any:
    """The result, or the type of the error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function()
        except Exception as error:
            return type(error)


def assert_same(ours: Any, theirs: Any, message: Any) -> None:
    if isinstance(theirs, pd.DataFrame):
        pd.testing.assert_frame_equal(ours, theirs, check_exact=True, obj=str(message))
    elif isinstance(theirs, pd.Series):
        pd.testing.assert_series_equal(ours, theirs, check_exact=True, obj=str(message))
    else:
        assert type(ours) is type(theirs), message
        assert ours is theirs or ours == theirs or (pd.isna(ours) and pd.isna(theirs)), message


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@pytest.mark.parametrize("n", [0, 1, 2, 7, 100, 5_000])
def test_series_are_as_in_pandas(n: int, interpolation: Any) -> None:
    frame = make_frame(n)
    for name, q in itertools.product(frame, QS):
        series = frame[name]
        theirs = outcome(lambda: series.quantile(q, interpolation))  # noqa: B023
        ours = outcome(lambda: series.quantide.quantile(q, interpolation))  # noqa: B023
        assert_same(ours, theirs, (name, q))


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@pytest.mark.parametrize("n", [0, 1, 7, 4_500])
def test_frames_are_as_in_pandas(n: int, interpolation: str) -> None:
    numbers = make_frame(n).drop(columns=["text", "boolean"])
    choices: list[dict[str, Any]] = [{}, {"numeric_only": True}, {"axis": "index"}]
    if n <= 7:
        choices += [{"axis": 1, "numeric_only": True}, {"method": "table", "numeric_only": True}, {"axis": "rows?"}]
    for q, more in itertools.product(QS, choices):
        named = {"q": q, "interpolation": interpolation, **more}
        theirs = outcome(lambda: numbers.quantile(**named))  # noqa: B023
        assert_same(outcome(lambda: numbers.quantide.quantile(**named)), theirs, named)  # noqa: B023
    mixed = make_frame(n)[["text", "whole", "boolean"]]
    theirs = outcome(lambda: mixed.quantile(0.5, numeric_only=True))
    assert_same(outcome(lambda: quantide.pandas.quantile(mixed, 0.5, numeric_only=True)), theirs, "mixed")
    prices = pd.Series([Decimal(i) / 4 for i in range(n)], dtype=pd.ArrowDtype(pa.decimal128(10, 2)))
    numbers = numbers.assign(prices=prices)
    theirs = outcome(lambda: numbers.quantile([0.3], numeric_only=True))
    assert_same(outcome(lambda: quantide.pandas.quantile(numbers, [0.3], numeric_only=True)), theirs, "decimals")
    twice = numbers[["whole", "float", "whole"]]
    assert_same(quantide.pandas.quantile(twice, [0.5]), twice.quantile([0.5]), "names that occur twice")


GROUPINGS: list[tuple[Any, dict[str, Any]]] = [
    ("key", {}),
    (["letter", "key"], {}),
    ("gaps", {}),
    ("gaps", {"dropna": False}),
    ("letter", {"sort": False}),
    ("letter", {"as_index": False}),
    ("kind", {"observed": False}),
    ("kind", {"observed": True}),
]
SELECTIONS: list[Any] = ["some days", ["float", "holes", "int32", "length", "nullable"]]


def make_grouped_frame(n: int) -> pd.DataFrame:
    rng = np.random.default_rng(4)
    key = rng.integers(0, 4, n)
    frame = make_frame(n).assign(key=key, letter=rng.choice(list("ab"), n))
    frame["gaps"] = np.where(rng.random(n) < 0.2, np.nan, key)
    frame["kind"] = pd.Categorical(np.where(key > 2, "x", "y"), ["x", "y", "z"])
    return frame


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@pytest.mark.parametrize("n", [9, 1_500])
def test_groups_are_as_in_pandas(n: int, interpolation: Any) -> None:
    frame = make_grouped_frame(n)
    for (by, more), selection, q in itertools.product(GROUPINGS, SELECTIONS, [0.5, [0.1, 0.77, 1.0]]):
        groups: Any = frame.groupby(by, **more)[selection]
        theirs = outcome(lambda: groups.quantile(q, interpolation))  # noqa: B023
        ours = outcome(lambda: groups.quantide.quantile(q, interpolation))  # noqa: B023
        assert_same(ours, theirs, (by, more, selection, q))


def test_wrong_arguments_have_names() -> None:
    series = pd.Series([1.0, 2.0])
    for q in (-0.1, 1.5, [0.5, 2.0], float("nan")):
        with pytest.raises(errors.InvalidArgumentError, match=r"in \[0, 1\]"):
            quantide.pandas.quantile(series, q)
        with pytest.raises(errors.InvalidArgumentError, match=r"in \[0, 1\]"):
            quantide.pandas.group_quantile(series.groupby([0, 1]), q)
    with pytest.raises(errors.InvalidArgumentError, match="interpolation='cubic' is unknown; use one of linear"):
        quantide.pandas.quantile(series, 0.5, "cubic")
    with pytest.raises(errors.InvalidArgumentError, match="give a pandas Series or DataFrame, not a list"):
        quantide.pandas.quantile([1.0], 0.5)
    with pytest.raises(errors.InvalidArgumentError, match="give a groupby object of pandas, not a Series"):
        quantide.pandas.group_quantile(series)
    with pytest.raises(TypeError, match="dtype 'object' does not support operation 'quantile'"):
        quantide.pandas.group_quantile(pd.DataFrame({"k": ["x"], "v": ["a"]}).groupby("k"))


# The cases of pandas' own tests of quantile, with their answers


def test_cases_of_pandas_for_series() -> None:
    def of(values: Any, q: Any, interpolation: str = "linear", dtype: Any = None) -> Any:
        return quantide.pandas.quantile(pd.Series(values, dtype=dtype, name="XXX"), q, interpolation)

    assert of([1, 3, 4], 0.5, "lower") == of([1, 3, 4], 0.5, "higher") == 3
    assert isinstance(of([1, 3, 4], 0.5, "lower"), np.int64)
    assert of([1, 2, 3, 4, np.nan], 0.5) == 2.5
    assert np.isnan(of([], 0.5, dtype=float))
    assert np.isnan(of([], 0.5, dtype="int64"))
    assert np.isnan(of([np.nan, np.nan], 0.5))
    assert of([], 0.5, dtype="datetime64[ns]") is pd.NaT
    assert of([pd.NaT, pd.NaT], 0.5) is pd.NaT
    days = pd.date_range("2011-01-01", periods=3)
    for case in (days, days.tz_localize("US/Eastern"), days - days[0], [*days, pd.NaT]):
        assert of(case, 0.5) == pd.Series(case).iloc[1]
    expected = pd.Series([1.0, 1.5, 2.0, 2.5], index=[0, 0.25, 0.5, 0.75], name="XXX")
    pd.testing.assert_series_equal(of([1, 2, 3], np.arange(0, 1, 0.25)), expected)
    pd.testing.assert_series_equal(of([1, 2, 3], np.arange(0, 1, 0.25), dtype="Int64"), expected.astype("Float64"))
    none = pd.Series([], index=pd.Index([], dtype=float), dtype=float, name="XXX")
    pd.testing.assert_series_equal(of([1.0], []), none)
    missing = pd.Series([pd.NA, pd.NA], index=[0.1, 0.5], dtype="Int64", name="XXX")
    pd.testing.assert_series_equal(of([pd.NA, pd.NA], [0.1, 0.5], dtype="Int64"), missing)


def test_cases_of_pandas_for_frames() -> None:
    table = pd.DataFrame({"A": [1, 2, 3], "B": [2, 3, 4]}, index=[1, 2, 3])
    quantile = quantide.pandas.quantile
    assert quantile(table, 0.5).to_dict() == {"A": 2.0, "B": 3.0}
    assert quantile(table, 0.5, axis=1).to_dict() == {1: 1.5, 2: 2.5, 3: 3.5}
    assert quantile(table, 0.5, "nearest", axis=1).to_dict() == {1: 1, 2: 2, 3: 3}
    assert quantile(table, [0.25, 0.5], "midpoint").to_dict("list") == {"A": [1.5, 2.0], "B": [2.5, 3.0]}
    assert quantile(pd.DataFrame({"x": [], "y": []}), 0.1).isna().all()
    times = pd.DataFrame({"a": pd.to_datetime(["2010", "2011"]), "b": [0, 5]})
    assert quantile(times, 0.5).tolist() == [pd.Timestamp("2010-07-02 12:00:00"), 2.5]
    assert quantile(pd.DataFrame({"a": np.arange(1, 6.0), "b": [1, 2, 3, 4, np.nan]}), 0.5).tolist() == [3.0, 2.5]
    with pytest.raises(ValueError, match="No axis named -1"):
        quantile(table, 0.1, axis=-1)


def test_cases_of_pandas_for_groups() -> None:
    table = pd.DataFrame({"A": [0, 1, 2, 3, 4]})
    answers: Any = quantide.pandas.group_quantile(table.groupby([0, 0, 1, 1, 1]), [0.25])
    assert answers["A"].to_dict() == {(0, 0.25): 0.25, (1, 0.25): 2.5}
    unsorted = pd.DataFrame({"A": [0, 1, 2], "B": [3, 4, 5]}).groupby([1, 0, 1], sort=False)
    answers = quantide.pandas.group_quantile(unsorted, [0.75, 0.25])
    assert list(answers.index) == [(1, 0.75), (1, 0.25), (0, 0.75), (0, 0.25)]
    assert answers["A"].tolist() == [1.5, 0.5, 1.0, 1.0]
    gaps = pd.DataFrame({"key": [1.0, np.nan, 2.0, 2.0], "val": range(4)}).groupby("key")
    assert gaps.quantide.quantile()["val"].to_dict() == {1.0: 0.0, 2.0: 2.5}
    nullable = pd.DataFrame({"a": ["x"] * 3, "b": pd.array([1, 0, None], dtype="Int64")}).groupby("a")["b"]
    assert nullable.quantide.quantile([0.0, 0.5, 1.0]).tolist() == [0.0, 0.5, 1.0]


def test_the_group_of_missing_keys_is_an_entry_of_its_level() -> None:
    frame = pd.DataFrame({"k": np.array(["a", None, "b", "a"], dtype=object), "x": [1.0, 2.0, 3.0, 4.0]})
    for sort in (False, True):
        grouped = frame.groupby("k", sort=sort, dropna=False)["x"]
        for q in ([0.5], [0.7, 0.5, 0.7]):
            ours, theirs = quantide.pandas.group_quantile(grouped, q), grouped.quantile(np.array(q))
            pd.testing.assert_series_equal(ours, theirs)
            assert isinstance(theirs.index, pd.MultiIndex)
            for level in (0, 1):
                pd.testing.assert_index_equal(ours.index.levels[level], theirs.index.levels[level])
                assert ours.index.codes[level].tolist() == theirs.index.codes[level].tolist()
