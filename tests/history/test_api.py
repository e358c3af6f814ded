"""Public names of History, and its handles in edge cases."""

import inspect
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import quantide
from quantide import History, errors
from quantide.history import span_view
from quantide.store.store_settings import StoreSettings
from tests.history.history_model import everything

NAN, INF = float("nan"), float("inf")
ROOT = Path(__file__).parent.parent.parent

# --- names --------------------------------------------------------------------------------------------------


def test_the_names_of_the_plan() -> None:
    """The documented parameters, in this order, with these defaults (None stands for the default of a new store)."""
    parameters = inspect.signature(History).parameters
    assert list(parameters)[:6] == ["path", "eps", "kappa", "memory", "keys", "value_type"]
    expected = {
        "append": ["values", "key", "batch_id"],
        "end_step": ["wait"],
        "answer": ["phi", "mode", "last_steps", "key"],
        "quantile": ["phi", "mode", "last_steps", "key"],
        "quantiles": ["phis", "mode", "last_steps", "key"],
        "rank": ["value", "mode", "last_steps", "key"],
        "cdf": ["values", "mode", "last_steps", "key"],
        "compare": ["other", "last_steps", "against"],
        "append_files": ["paths"],
        "spans": [],
        "verify": [],
        "vacuum": [],
        "stats": [],
        "close": [],
    }
    for name, arguments in expected.items():
        taken = list(inspect.signature(getattr(History, name)).parameters)[1:]
        assert taken[: len(arguments)] == arguments
    assert inspect.signature(History.answer).parameters["mode"].default == "accurate"
    assert inspect.signature(History.end_step).parameters["wait"].default is True


def test_the_defaults_of_a_new_store(path: Path) -> None:
    settings = History(path).settings
    assert (settings.eps, settings.kappa, settings.keys, settings.value_type) == (0.001, 10, (), "float64")
    assert (settings.memory, settings.retention) == (None, None)


def test_history_is_exported_without_being_imported() -> None:
    """`from quantide import History` works; `import quantide` alone loads neither it nor its dependencies."""
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
    result = subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, capture_output=True, text=True)
    assert "quantide[history]" in result.stdout


def test_stats_and_answers_have_their_keys(path: Path) -> None:
    history = History(path, kappa=2)
    for step in range(4):
        history.append(np.arange(10.0) + step)
        history.end_step()
    history.append([1.0, None, 2.0])
    stats = history.stats()
    assert stats["runs"] == 3
    assert stats["runs_by_level"] == {0: 2, 1: 1}
    assert (stats["values"], stats["history_values"], stats["stream_values"]) == (42, 40, 2)
    assert (stats["steps"], stats["chunks"], stats["files"], stats["blocks"], stats["nulls"]) == (4, 1, 4, 4, 1)
    assert stats["bytes"] == sum(os.path.getsize(file) for file in history_files(history, path))
    assert stats["memory"] > 0
    answer = history.answer(0.5)
    assert isinstance(answer, quantide.Answer)
    assert {"value", "rank_lo", "rank_hi", "target", "n", "error", "n_lo", "n_hi", "blocks_read"} <= set(dir(answer))
    assert isinstance(answer, span_view.HistoryAnswer)
    assert history.eps == 0.001
    assert str(path) in repr(history)
    assert "42" in repr(history)


def history_files(history: History, path: Path) -> list[Path]:
    return [path / part.name.data for run in history.runs() for part in run.parts] + sorted(path.glob("runs/L0-S5-*"))


# --- opening ------------------------------------------------------------------------------------------------


def test_reopening_needs_only_the_path(path: Path) -> None:
    with History(path, eps=0.02, kappa=3, keys=["a", "b"], value_type="int32", retention=9) as history:
        history.append([1, 2], key=[("x", 1), ("y", 2)])
    for location in (path, str(path), Path(os.path.relpath(path))):
        reopened = History(location)
        assert reopened.settings == history.settings
        assert reopened.quantile(1.0) == 2
        assert reopened.answer(1.0, key=("x", 1)).value == np.int32(1)
    reopened.append([3], key=("x", 1))
    assert History(path).n == 3


@pytest.mark.parametrize(
    "other",
    [{"eps": 0.01}, {"kappa": 4}, {"keys": "k"}, {"value_type": "int64"}, {"memory": "1 MB"}, {"retention": 5}],
)
def test_other_settings_are_refused(other: dict[str, Any], path: Path) -> None:
    """The error names both values and the remedy."""
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


@pytest.mark.parametrize("text", ["", "[]", '{"eps": 1}', '{"version": 2}', '{"version": 2, "keys": [], "no": 1}'])
def test_settings_that_are_damaged(text: str) -> None:
    with pytest.raises(errors.CorruptBytesError, match="settings of this store"):
        StoreSettings.from_json(text)


def test_places_that_are_no_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("text")
    pl.DataFrame({"value": [1.0]}).write_delta(str(tmp_path / "delta"))
    (tmp_path / "empty" / "_delta_log").mkdir(parents=True)
    locations: dict[Any, type[Exception]] = {
        "": errors.InvalidArgumentError,
        b"bytes": errors.InvalidArgumentError,
        "ftp://host/store": errors.InvalidArgumentError,
        tmp_path / "a%20b": errors.InvalidArgumentError,
        tmp_path / "file": errors.StorageError,
        tmp_path / "file" / "below": errors.StorageError,
        tmp_path / "full": errors.InvalidArgumentError,
        tmp_path / "delta": errors.InvalidArgumentError,
    }
    for location, error in locations.items():
        with pytest.raises(error):
            History(location)
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


def test_queries_of_an_empty_store_raise(path: Path) -> None:
    history = History(path)
    queries: list[Callable[[], object]] = [
        lambda: history.answer(0.5),
        lambda: history.quantile(0.5, "quick"),
        lambda: history.quantiles([0.5], "exact"),
        lambda: history.rank(1.0),
        lambda: history.cdf([1.0]),
        lambda: history.compare([0.5]),
    ]
    for query in queries:
        with pytest.raises(errors.EmptyError):
            query()
    assert history.spans() == []
    assert history.verify().files == 0
    assert history.vacuum(0).files == 0
    history.end_step()
    assert history.spans() == []


@pytest.mark.parametrize("phi", [-1, -1e-9, 1.01, NAN, "0.5", None, [0.5], True])
def test_phi_out_of_range(phi: Any, path: Path) -> None:
    history = History(path)
    history.append([1.0])
    for mode in ("quick", "accurate", "exact"):
        with pytest.raises(errors.InvalidArgumentError):
            history.answer(phi, mode)


def test_words_that_are_no_question(path: Path) -> None:
    history = History(path)
    history.append([1.0, 2.0])
    calls: list[Callable[[Any], object]] = [
        lambda x: history.answer(0.5, x),
        lambda x: history.rank(1.0, x),
        lambda x: history.cdf(1.0, x),
        lambda x: history.answer(0.5, last_steps=x),
        lambda x: history.answer(0.5, key=x),
        lambda x: history.append([1.0], key=x),
        lambda x: history.append([1.0], nan=x),
    ]
    for act in calls:
        for bad in ("fast", -1, 1.5):
            with pytest.raises(errors.QuantideError):
                act(bad)
    for value in ("x", NAN, None, [[1.0]], True):
        with pytest.raises(errors.QuantideError):
            history.rank(value)
    assert history.n == 2


# --- handles ------------------------------------------------------------------------------------------------


def test_a_dropped_handle_loses_nothing(path: Path) -> None:
    """Open a handle that writes at once, after another one was dropped without close()."""
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
    reopened = History(path)
    reopened.append([5.0])
    reopened.end_step()
    assert everything(reopened) == [1, 2, 3, 4, 5]
    reopened.verify()


def test_a_handle_dropped_while_it_merges(path: Path) -> None:
    """The next writer fences off the running compaction, whose files become garbage."""
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
        history.quantiles([0.5, -0.1])


def test_durable_is_the_same_but_slower(path: Path) -> None:
    with History(path, kappa=1, durable=True) as history:
        for step in range(3):
            history.append([float(step)])
            history.end_step()
        history.vacuum(0)
    assert everything(History(path)) == [0, 1, 2]
