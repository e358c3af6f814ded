"""Keys of any form and type, and files that have them."""

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

# --- keys ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "key",
    [
        ["a", "b", "a"],
        ("a", "b", "a"),
        np.array(["a", "b", "a"]),
        np.array(["a", "b", "a"], dtype=object),
        pa.array(["a", "b", "a"]),
        pa.chunked_array([["a"], ["b", "a"]]),
        pa.array(["a", "b", "a"]).dictionary_encode(),
        pa.array(["a", "b", "a"], pa.large_string()),
        pd.Series(["a", "b", "a"]),
        pd.Categorical(["a", "b", "a"]),
        pl.Series(["a", "b", "a"]),
        pl.Series(["a", "b", "a"], dtype=pl.Categorical),
    ],
)
def test_keys_beside_the_values(key: Any, path: Path) -> None:
    history = History(path, keys="k")
    history.append([1.0, 2.0, 3.0], key=key)
    assert history.answer(1.0, key="a").n == 2
    assert history.answer(1.0, key=np.str_("b")).value == 2
    assert history.answer(1.0, key=("b",)).value == history.answer(1.0, key={"k": "b"}).value == 2


@pytest.mark.parametrize(
    "key",
    [
        ("x", 7),
        (np.str_("x"), np.int8(7)),
        {"host": "x", "port": 7},
        {"port": [7, 7], "host": ["x", "x"]},
        [("x", 7), ("x", 7)],
        (["x", "x"], np.array([7, 7])),
        ("x", [7, 7]),
        pa.table({"host": ["x", "x"], "port": [7, 7]}),
        pa.table({"port": [7, 7], "host": ["x", "x"]}),
        [{"port": 7, "host": "x"}] * 2,
        pl.DataFrame({"host": ["x", "x"], "port": [7, 7]}),
        pa.array([{"host": "x", "port": 7}] * 2),
    ],
)
def test_keys_of_two_columns(key: Any, path: Path) -> None:
    history = History(path, keys=["host", "port"])
    history.append([1.0, 2.0], key=key)
    history.append([3.0], key=("y", 8))
    queried: list[Any] = [("x", 7), ["x", 7], {"port": 7, "host": "x"}, ("x", np.int64(7)), ("x", "7")]
    for one in queried:
        assert history.answer(1.0, key=one).n == 2
    refused: list[Any] = ["x", ("x",), ("x", 7, 8), {"host": "x"}]
    for one in refused:
        with pytest.raises((errors.InvalidArgumentError, errors.UnknownKeyError)):
            history.answer(1.0, key=one)


@pytest.mark.parametrize(
    "key",
    [
        "text",
        b"bytes",
        5,
        True,
        1.5,
        date(2024, 5, 1),
        datetime(2024, 5, 1),
        datetime(2024, 5, 1, tzinfo=UTC),
        Decimal("1.50"),
        np.datetime64("2024-05-01", "D"),
        np.datetime64("2024-05-01", "ns"),
        pa.scalar("s"),
        np.uint8(3),
    ],
    ids=repr,
)
def test_a_key_of_any_type(key: Any, path: Path) -> None:
    with History(path, kappa=1, keys="k") as history:
        for _ in range(3):
            history.append([1.0, 2.0], key=key)
            history.end_step()
        history.verify()
    assert History(path).answer(1.0, key=key).n == 6
    assert len(pl.read_delta(str(path))) == 6


@pytest.mark.parametrize("key", [object, 1j, 2**70, [None, None], [["a"], ["b"]], {"z": 1}, None, ["a"]], ids=repr)
def test_what_is_no_key(key: Any, path: Path) -> None:
    history = History(path, keys="k")
    with pytest.raises((errors.InvalidArgumentError, errors.TypeMismatchError)):
        history.append([1.0, 2.0], key=key)
    assert history.n == 0
    history.append([1.0], key=np.timedelta64(5, "s").astype(int))
    assert History(path).answer(1.0, key=5).n == 1


def test_keys_of_types_that_tables_lack(path: Path) -> None:
    history = History(path, keys="k")
    for key in (np.timedelta64(5, "s"), datetime(2024, 5, 1).time(), pa.array([2**63], pa.uint64())):
        with pytest.raises(errors.TypeMismatchError):
            history.append([1.0], key=key)
    history.append([1.0], key="a")
    assert history.n == 1


def test_columns_go_by_name(path: Path) -> None:
    """Columns may be in any order; other names are refused."""
    history = History(path, keys=["first", "second"])
    history.append([1.0], key=pl.DataFrame({"second": ["b"], "first": ["a"]}))
    assert history.answer(1.0, key=("a", "b")).n == 1
    with pytest.raises(errors.InvalidArgumentError, match="first, second"):
        history.append([1.0], key=pa.table({"one": ["a"], "two": ["b"]}))


def test_no_values_need_no_keys(path: Path) -> None:
    history = History(path, keys="k")
    history.append([])
    history.append([], key=[], batch_id="b")
    history.append([1.0], key="a", batch_id="b")
    assert history.n == 0


@pytest.mark.parametrize(
    ("first", "others"),
    [
        (True, [2, 0.5, "no"]),
        (Decimal("1.00"), [1.001, Decimal("1.005")]),
        (date(2024, 5, 1), [datetime(2024, 5, 1, 12), datetime(2024, 5, 1, 12, tzinfo=UTC)]),
        (5, [5.5, True, "x"]),
        (datetime(2024, 5, 1), [np.datetime64("2024-05-01T00:00:00.000000001")]),
    ],
    ids=repr,
)
def test_a_key_becomes_no_other_key(path: Path, first: Any, others: list[Any]) -> None:
    history = History(path, keys="k")
    history.append([1.0], key=first)
    for key in others:
        with pytest.raises(errors.UnknownKeyError):
            history.answer(1.0, key=key)
        if key is not True:  # Arrow reads it as 1, which is a key of its own
            with pytest.raises(errors.TypeMismatchError):
                history.append([2.0], key=[key])
    assert history.answer(1.0, key=first).n == history.n == 1


def test_keys_of_another_type_that_are_the_same(path: Path) -> None:
    history = History(path, keys="k")
    history.append([1.0], key=Decimal("1.50"))
    history.append([2.0, 3.0], key=[1.5, 2.0])
    assert history.answer(1.0, key=1.5).n == 2
    assert history.answer(1.0, key=Decimal(2)).n == 1


def test_decimal_keys_may_grow(path: Path) -> None:
    history = History(path, keys="k")
    history.append([1.0], key=Decimal("1.50"))
    history.append([2.0], key=Decimal("12345.67"))
    assert history.answer(1.0, key=Decimal("12345.67")).value == 2


def test_null_is_a_key(path: Path) -> None:
    history = History(path, keys="k")
    history.append([1.0, 2.0, 3.0], key=["a", None, None])
    assert history.answer(1.0, key=(None,)).n == 2
    assert history.answer(1.0).n == 3, "no key means all"
    pairs = History(path.with_name("pairs"), keys=["a", "b"])
    pairs.append([1.0, 2.0], key=[("x", None), (None, 1)])
    assert pairs.answer(1.0, key=("x", None)).value == 1
    assert pairs.answer(1.0, key=(None, 1)).value == 2
    with pytest.raises(errors.UnknownKeyError):
        pairs.answer(1.0, key=(None, None))


def test_nan_is_a_key(path: Path) -> None:
    history = History(path, keys="k")
    history.append([1.0, 2.0, 3.0, 4.0], key=[NAN, -INF, NAN, None])
    history.end_step()
    assert history.answer(1.0, key=NAN).n == 2
    assert history.answer(1.0, key=-INF).value == 2
    assert history.answer(1.0, key=(None,)).value == 4


def test_a_key_is_never_rounded(path: Path) -> None:
    history = History(path, keys="k")
    history.append([1.0], key=5)
    with pytest.raises(errors.UnknownKeyError, match=r"5\.5"):
        history.answer(1.0, key=5.5)
    with pytest.raises(errors.TypeMismatchError):
        history.append([1.0], key=5.5)
    assert history.answer(1.0, key=5.0).n == history.answer(1.0, key="5").n == 1


def test_keys_where_there_are_none_and_none_where_there_are(path: Path) -> None:
    plain = History(path)
    with pytest.raises(errors.InvalidArgumentError, match="no keys"):
        plain.append([1.0], key="a")
    plain.append([1.0])
    with pytest.raises(errors.InvalidArgumentError, match="no keys"):
        plain.answer(0.5, key="a")
    keyed = History(path.with_name("keyed"), keys="host")
    with pytest.raises(errors.InvalidArgumentError, match="host"):
        keyed.append([1.0])
    with pytest.raises(errors.UnknownKeyError):
        keyed.answer(0.5, key="a")
    assert (plain.n, keyed.n) == (1, 0)


def test_an_unknown_key_is_a_key_error(path: Path) -> None:
    history = History(path, keys="k")
    history.append([1.0], key="a")
    with pytest.raises(KeyError) as raised:
        history.quantile(0.5, key="zz")
    assert isinstance(raised.value, errors.UnknownKeyError)
    assert "'zz'" in str(raised.value)


def test_keys_of_another_handle_set_the_type(path: Path) -> None:
    """A handle that was opened while the store had no keys yet must not write keys of another type."""
    late = History(path, keys="k")
    with History(path) as early:
        early.append([1.0], key="a")
    assert late.answer(1.0, key="a").n == 1
    late.append([2.0], key=5)
    assert late.answer(1.0, key="5").value == 2
    late.verify()
    assert pl.read_delta(str(path)).sort("value")["k"].to_list() == ["a", "5"]


# --- files --------------------------------------------------------------------------------------------------


def test_files_of_parquet(path: Path, tmp_path: Path, rng: Rng) -> None:
    """Append Parquet files piece by piece in one commit, also files of narrower types; count nulls."""
    values = rng.normal(size=300).astype(np.float32)
    pq.write_table(pa.table({"x": values[:200], "y": np.arange(200)}), tmp_path / "a.parquet", row_group_size=64)
    pq.write_table(pa.table({"x": [*values[200:].astype(float).tolist(), None]}), tmp_path / "b.parquet")
    with small(), History(path) as history:
        added = history.append_files(
            [str(tmp_path / "a.parquet"), str(tmp_path / "b.parquet")], column="x", batch_id="f"
        )
        assert added == history.n == 300
        assert history.stats()["nulls"] == 1
        assert everything(history) == np.sort(values).astype(float).tolist()
        assert history.append_files(str(tmp_path / "a.parquet"), column="x", batch_id="f") == 0
        assert history.append_files([]) == 0
    assert History(path).n == 300


def test_files_with_keys(path: Path, tmp_path: Path) -> None:
    first = pa.table({"k": ["a", "b"], "value": [1.0, 2.0]})
    second = pa.table({"k": pa.array(["a", None], pa.large_string()), "value": pa.array([3.0, 4.0], pa.float32())})
    pq.write_table(first, tmp_path / "a.parquet")
    pq.write_table(second, tmp_path / "b.parquet")
    history = History(path, keys="k")
    assert history.append_files([str(tmp_path / "a.parquet"), str(tmp_path / "b.parquet")]) == 4
    assert history.answer(1.0, key="a").value == 3
    assert history.answer(1.0, key=(None,)).value == 4


def test_files_that_cannot_be_read_change_nothing(path: Path, tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1.0], "y": [1.0]}), tmp_path / "two.parquet")
    pq.write_table(pa.table({"value": ["a"]}), tmp_path / "text.parquet")
    pq.write_table(pa.table({"value": [NAN]}), tmp_path / "nan.parquet")
    pq.write_table(pa.table({"value": [5.0]}), tmp_path / "good.parquet")
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "good.parquet").read_bytes()[:-9])
    (tmp_path / "folder").mkdir()
    history = History(path)
    good = str(tmp_path / "good.parquet")
    refused = {
        "two.parquet": errors.InvalidArgumentError,
        "text.parquet": errors.TypeMismatchError,
        "nan.parquet": errors.NaNError,
        "cut.parquet": errors.CorruptBytesError,
        "none.parquet": errors.StorageError,
        "folder": errors.QuantideError,
    }
    for name, error in refused.items():
        with pytest.raises(error, match=name if name != "nan.parquet" and name != "text.parquet" else None):
            history.append_files([good, str(tmp_path / name)], batch_id="b")
    with pytest.raises(errors.InvalidArgumentError, match="z"):
        history.append_files(good, column="z")
    assert history.n == 0
    history.append_files(good, batch_id="b")
    assert history.n == 1
