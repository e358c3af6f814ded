"""The public names of History as the plan of the house has them, and what they do at the edges."""

import gc
import inspect
import os
import subprocess
import sys
from collections.abc import Callable
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

import quantide
from quantide import History, errors
from quantide.history import answer
from tests.history.model import Rng, small

NAN, INF = float("nan"), float("inf")
ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store"


def everything(history: History) -> list[float]:
    """All values, asked for one by one."""
    return [history.quantile((i + 1) / history.n, "exact").item() for i in range(history.n)]


# --- names --------------------------------------------------------------------------------------------------


def test_the_names_of_the_plan() -> None:
    """In this order, with these defaults (None stands for the default of a new store)."""
    parameters = inspect.signature(History).parameters
    assert list(parameters)[:6] == ["path", "eps", "kappa", "memory", "keys", "value_type"]
    wanted = {
        "append": ["values", "key", "batch_id"],
        "end_step": ["wait"],
        "answer": ["phi", "mode", "last_steps", "key"],
        "quantile": ["phi", "mode", "last_steps", "key"],
        "quantiles": ["phis", "mode", "last_steps", "key"],
        "rank": ["value", "mode", "last_steps", "key"],
        "cdf": ["values", "mode", "last_steps", "key"],
        "compare": ["phis", "last_steps", "against"],
        "append_files": ["paths"],
        "spans": [],
        "verify": [],
        "vacuum": [],
        "stats": [],
        "close": [],
    }
    for name, arguments in wanted.items():
        found = list(inspect.signature(getattr(History, name)).parameters)[1:]
        assert found[: len(arguments)] == arguments
    assert inspect.signature(History.answer).parameters["mode"].default == "accurate"
    assert inspect.signature(History.end_step).parameters["wait"].default is True


def test_the_defaults_of_a_new_store(path: Path) -> None:
    settings = History(path).settings
    assert (settings.eps, settings.kappa, settings.keys, settings.value_type) == (0.001, 10, (), "float64")
    assert (settings.memory, settings.retention) == (None, None)


def test_history_is_exported_without_being_imported() -> None:
    """`from quantide import History` works; `import quantide` alone loads neither it nor what it needs."""
    code = """if True:
        import sys
        import quantide
        assert "History" in quantide.__all__
        assert not {"deltalake", "quantide.history", "quantide.store"} & set(sys.modules)
        from quantide import History
        assert History.__module__ == "quantide.history.history"
    """
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
    with pytest.raises(AttributeError, match="no_such_name"):
        quantide.no_such_name  # noqa: B018


def test_without_its_extra_history_says_which_one() -> None:
    code = """if True:
        import sys
        sys.modules["deltalake"] = None
        import quantide
        try:
            from quantide import History
        except ImportError as error:
            print(error)
    """
    found = subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, capture_output=True, text=True)
    assert "quantide[history]" in found.stdout


def test_stats_and_answers_have_their_keys(path: Path) -> None:
    history = History(path, kappa=2)
    for step in range(4):
        history.append(np.arange(10.0) + step)
        history.end_step()
    history.append([1.0, None, 2.0])
    stats = history.stats()
    assert stats["runs"] == 2
    assert stats["runs_by_level"] == {0: 1, 1: 1}
    assert (stats["values"], stats["history_values"], stats["stream_values"]) == (42, 40, 2)
    assert (stats["steps"], stats["chunks"], stats["files"], stats["blocks"], stats["nulls"]) == (4, 1, 3, 3, 1)
    assert stats["bytes"] == sum(os.path.getsize(file) for file in history_files(history, path))
    assert stats["memory"] > 0
    found = history.answer(0.5)
    assert isinstance(found, quantide.Answer)
    assert {"value", "rank_lo", "rank_hi", "target", "n", "error", "n_lo", "n_hi", "blocks_read"} <= set(dir(found))
    assert isinstance(found, answer.HistoryAnswer)
    assert history.eps == 0.001
    assert str(path) in repr(history)
    assert "42" in repr(history)


def history_files(history: History, path: Path) -> list[Path]:
    return [path / part.name.data for run in history.runs() for part in run.parts] + sorted(path.glob("runs/L0-S5-*"))


# --- opening ------------------------------------------------------------------------------------------------


def test_reopening_needs_only_the_path(path: Path) -> None:
    with History(path, eps=0.02, kappa=3, keys=["a", "b"], value_type="int32", retention=9) as history:
        history.append([1, 2], key=[("x", 1), ("y", 2)])
    for place in (path, str(path), Path(os.path.relpath(path))):
        again = History(place)
        assert again.settings == history.settings
        assert again.quantile(1.0) == 2
        assert again.answer(1.0, key=("x", 1)).value == np.int32(1)
    again.append([3], key=("x", 1))
    assert History(path).n == 3


@pytest.mark.parametrize(
    "other",
    [{"eps": 0.01}, {"kappa": 4}, {"keys": "k"}, {"value_type": "int64"}, {"memory": "1 MB"}, {"retention": 5}],
)
def test_other_settings_are_refused(other: dict[str, Any], path: Path) -> None:
    """The error has both values, and says what to do."""
    History(path, eps=0.02, kappa=3).append([1.0])
    with pytest.raises(errors.SettingsError, match=r"(?s)made with .*opened with .*leave it out") as raised:
        History(path, **other)
    assert next(iter(other)) in str(raised.value) or "memory" in other
    same = History(path, eps=0.02, kappa=3, value_type="float64")
    assert same.n == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"eps": 0},
        {"eps": 1},
        {"eps": NAN},
        {"eps": "0.1"},
        {"kappa": 0},
        {"kappa": 2.5},
        {"keys": "value"},
        {"keys": "VALUE"},
        {"keys": ["a", "a"]},
        {"keys": ["a", "A"]},
        {"keys": 5},
        {"keys": ""},
        {"keys": [None]},
        {"keys": "a b"},
        {"keys": "a,b"},
        {"value_type": "complex"},
        {"value_type": 8},
        {"value_type": "uint64"},
        {"retention": 0},
    ],
)
def test_settings_that_make_no_store(wrong: dict[str, Any], path: Path) -> None:
    with pytest.raises((errors.InvalidArgumentError, errors.TypeMismatchError)):
        History(path, **wrong)
    assert not path.exists()


def test_places_that_are_no_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("text")
    pl.DataFrame({"value": [1.0]}).write_delta(str(tmp_path / "delta"))
    (tmp_path / "empty" / "_delta_log").mkdir(parents=True)
    wrong: dict[Any, type[Exception]] = {
        "": errors.InvalidArgumentError,
        b"bytes": errors.InvalidArgumentError,
        "s3://bucket/store": errors.InvalidArgumentError,
        tmp_path / "a%20b": errors.InvalidArgumentError,
        tmp_path / "file": errors.StorageError,
        tmp_path / "file" / "below": errors.StorageError,
        tmp_path / "full": errors.InvalidArgumentError,
        tmp_path / "delta": errors.InvalidArgumentError,
    }
    for place, error in wrong.items():
        with pytest.raises(error):
            History(place)
    assert os.listdir(tmp_path / "full") == ["mine.txt"]
    assert not (tmp_path / "a%20b").exists()
    assert History(tmp_path / "empty").stats()["values"] == 0


@pytest.mark.parametrize("name", ["with space", "ümläut", "a+b", "[x]*", "'quote'", "#?&", "100%"])
def test_places_with_odd_names(name: str, tmp_path: Path) -> None:
    with History(tmp_path / name / "s", kappa=1) as history:
        for step in range(3):
            history.append([float(step)])
            history.end_step()
        history.vacuum(0)
    assert everything(History(tmp_path / name / "s")) == [0, 1, 2]
    assert os.listdir(tmp_path) == [name]


def test_a_relative_path_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    history = History("store", kappa=1)
    history.append([1.0])
    monkeypatch.chdir(tmp_path / "elsewhere")
    history.append([2.0])
    history.end_step()
    assert everything(history) == everything(History(tmp_path / "store")) == [1, 2]
    assert os.listdir(tmp_path / "elsewhere") == []


def test_nothing_is_asked_of_nothing(path: Path) -> None:
    history = History(path)
    askers: list[Callable[[], object]] = [
        lambda: history.answer(0.5),
        lambda: history.quantile(0.5, "quick"),
        lambda: history.quantiles([0.5], "exact"),
        lambda: history.rank(1.0),
        lambda: history.cdf([1.0]),
        lambda: history.compare([0.5]),
    ]
    for ask in askers:
        with pytest.raises(errors.EmptyError):
            ask()
    assert history.spans() == []
    assert history.verify().files == 0
    assert history.vacuum(0).files == 0
    history.end_step()
    assert history.spans() == []


@pytest.mark.parametrize("phi", [0, -1, 1.01, NAN, "0.5", None, [0.5], True])
def test_phi_out_of_range(phi: Any, path: Path) -> None:
    history = History(path)
    history.append([1.0])
    for mode in ("quick", "accurate", "exact"):
        with pytest.raises(errors.InvalidArgumentError):
            history.answer(phi, mode)


def test_words_that_are_no_question(path: Path) -> None:
    history = History(path)
    history.append([1.0, 2.0])
    wrong: list[Callable[[Any], object]] = [
        lambda x: history.answer(0.5, x),
        lambda x: history.rank(1.0, x),
        lambda x: history.cdf(1.0, x),
        lambda x: history.answer(0.5, last_steps=x),
        lambda x: history.answer(0.5, key=x),
        lambda x: history.append([1.0], key=x),
        lambda x: history.append([1.0], nan=x),
    ]
    for act in wrong:
        for bad in ("fast", -1, 1.5):
            with pytest.raises(errors.QuantideError):
                act(bad)
    for value in ("x", NAN, None, [[1.0]], True):
        with pytest.raises(errors.QuantideError):
            history.rank(value)
    assert history.n == 2


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
    """Narrower numbers widen; nothing handed over is changed."""
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
        found = reader.quantile(0.5, mode)
        assert found == out
        assert type(found) is type(out)
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
    """Also after merges, by a handle opened later, and whatever form they have."""
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


def test_values_asked_about_may_be_of_other_types(path: Path) -> None:
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
    again = History(path)
    del history
    gc.collect()
    again.append([2.0], batch_id=batch)
    pq.write_table(pa.table({"value": [2.0]}), path.with_name("f.parquet"))
    assert again.append_files(str(path.with_name("f.parquet")), batch_id=batch) == 0
    assert everything(again) == [1.0]


def test_batches_of_different_kinds_are_different(path: Path) -> None:
    history = History(path)
    for batch in ("1", 1, ("s", 1), ("t", 1), None, None):
        history.append([1.0], batch_id=batch)
    assert history.n == 6
    history.append([1.0], batch_id=np.str_("1"))
    assert history.n == 6


def test_a_source_counts_upwards(path: Path) -> None:
    """Only its last number is kept: lower ones have been."""
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
    asked: list[Any] = [("x", 7), ["x", 7], {"port": 7, "host": "x"}, ("x", np.int64(7)), ("x", "7")]
    for one in asked:
        assert history.answer(1.0, key=one).n == 2
    wrong: list[Any] = ["x", ("x",), ("x", 7, 8), {"host": "x"}]
    for one in wrong:
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


@pytest.mark.parametrize("key", [object(), 1j, 2**70, [None, None], [["a"], ["b"]], {"z": 1}, None, ["a"]], ids=repr)
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
    """In whatever order they come; under other names they are refused."""
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


def test_keys_of_another_handle_tell_the_type(path: Path) -> None:
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
    """In one commit, piece by piece; nulls counted; also of narrower types from file to file."""
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
    wrong = {
        "two.parquet": errors.InvalidArgumentError,
        "text.parquet": errors.TypeMismatchError,
        "nan.parquet": errors.NaNError,
        "cut.parquet": errors.CorruptBytesError,
        "none.parquet": errors.StorageError,
        "folder": errors.QuantideError,
    }
    for name, error in wrong.items():
        with pytest.raises(error, match=name if name != "nan.parquet" and name != "text.parquet" else None):
            history.append_files([good, str(tmp_path / name)], batch_id="b")
    with pytest.raises(errors.InvalidArgumentError, match="z"):
        history.append_files(good, column="z")
    assert history.n == 0
    history.append_files(good, batch_id="b")
    assert history.n == 1


# --- handles ------------------------------------------------------------------------------------------------


def test_a_dropped_handle_loses_nothing(path: Path) -> None:
    """And the next one can write at once: no close, no waiting."""
    history = History(path, kappa=1)
    history.append([1.0])
    history = History(path)
    history.append([2.0])
    history.end_step()
    history = History(path)
    history.append([3.0])
    history.end_step(wait=False)
    history = History(path)
    history.append([4.0])
    del history
    again = History(path)
    again.append([5.0])
    again.end_step()
    assert everything(again) == [1, 2, 3, 4, 5]
    again.verify()


def test_a_handle_dropped_while_it_merges(path: Path) -> None:
    """The next writer comes first: the merge that still runs is fenced off, and what it wrote is garbage."""
    for step in range(30):
        history = History(path, kappa=1)
        history.append(np.arange(1000.0) + step)
        history.end_step(wait=False)
    history = History(path)
    history.append([0.0])
    history.end_step()
    history.end_step()
    assert history.n == 30_001
    assert history.stats()["runs"] <= 6
    assert history.verify().values == 30_001


def test_a_second_writer_is_refused(path: Path) -> None:
    first, second = History(path), History(path)
    first.append([1.0])
    writes: list[Callable[[], object]] = [
        lambda: second.append([2.0]),
        second.end_step,
        second.vacuum,
        lambda: second.append_files([]),
    ]
    for write in writes:
        with pytest.raises(errors.WriterConflictError, match=str(os.getpid())):
            write()
    assert second.n == first.n == 1, "reading needs no lease"
    first.close()
    second.append([2.0])
    with pytest.raises(errors.WriterConflictError):
        first.append([3.0])
    assert everything(first) == everything(second) == [1, 2]


def test_a_reader_sees_what_others_commit(path: Path) -> None:
    reader = History(path, kappa=1)
    writer = History(path)
    for step in range(1, 8):
        writer.append([float(step)])
        assert (reader.n, reader.quantile(1.0)) == (step, step)
        assert reader.answer(0.5, "exact").value == writer.answer(0.5, "exact").value
        if step % 2 == 0:
            writer.end_step()
            writer.vacuum(0)
            assert reader.spans() == writer.spans()
            assert reader.stats()["runs"] == writer.stats()["runs"]
    assert reader.verify().values == 7


def test_closing_twice_and_using_with(path: Path) -> None:
    with History(path) as history:
        history.append([1.0])
        history.end_step(wait=False)
    history.close()
    history.close()
    assert history.quantile(0.5) == 1.0


def test_quantiles_keep_the_shape(path: Path) -> None:
    history = History(path)
    history.append(np.arange(1.0, 101.0))
    assert history.quantiles([[0.1, 0.5], [0.9, 1.0]]).tolist() == [[10, 50], [90, 100]]
    assert history.quantiles(0.5).shape == ()
    assert history.quantiles([]).tolist() == []
    with pytest.raises(errors.InvalidArgumentError):
        history.quantiles([0.5, 0])


def test_durable_is_the_same_but_slower(path: Path) -> None:
    with History(path, kappa=1, durable=True) as history:
        for step in range(3):
            history.append([float(step)])
            history.end_step()
        history.vacuum(0)
    assert everything(History(path)) == [0, 1, 2]
