"""Weighted values in a store: w rows of each, with keys, times and filters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from quantide import History, errors
from quantide.history import appended_rows
from quantide.live import LiveStream
from tests.history.history_model import everything

NAN = float("nan")


def test_rows_are_repeated(path: Path, rng: np.random.Generator) -> None:
    history = History(path, eps=0.01)
    values, weights = np.round(rng.normal(size=200), 2), rng.integers(0, 20, 200)
    history.append(values, weights=weights)
    history.append(7.5, weights=3)
    history.end_step()
    history.append(values, weights=2, batch_id=1)
    history.append(values, weights=2, batch_id=1)
    data = np.sort(np.concatenate((np.repeat(values, weights), [7.5] * 3, np.repeat(values, 2))))
    assert sorted(everything(history)) == data.tolist()
    for phi in (0, 0.3, 0.5, 1):
        assert history.quantile(phi, "exact") == data[max(1, int(np.ceil(phi * len(data) - 1e-9))) - 1]
    assert (history.min, history.max) == (data[0], data[-1])
    history.append([], weights=[])
    history.append([1.0, NAN], weights=0)
    assert history.n == len(data)


def test_keys_times_and_filters_follow_their_values(path: Path) -> None:
    history = History(path, keys="k", window="1 hour", filters=["big"], max_ahead="off")
    history.append(
        [1.0, None, 3.0, NAN, 5.0],
        key=["a", "a", "b", "b", "b"],
        nan="skip",
        times=[10.0, 11.0, 12.0, 13.0, 14.0],
        filters={"big": [False, True, True, True, True]},
        weights=[3, 2, 4, 2, 0],
    )
    history.append([9.0, 9.5], key="a", times=15.0, filters={"big": [True, False]}, weights=[2, 1])
    assert (history.n, history.answer(0.5, key="a").n, history.answer(0.5, key="b").n) == (10, 6, 4)
    assert (history.stats()["nulls"], history.stats()["nans"]) == (2, 2)
    with LiveStream(path) as live:
        assert live.answer(1.0, last=3).n == 3
        assert live.rank(9.0, last=3) == (2, 2)
        assert live.answer(0.5, within="4 s").n == 7
        assert live.answer(0.0, filter="big", last=100).value == 3.0
        assert live.answer(0.0, filter="big", last=100).n == 6
    history.close()


def write_weighted(folder: Path, rng: np.random.Generator, rows: int) -> tuple[str, Any, Any, Any]:
    """Write a Parquet file of rows with keys and weights; return its path and its columns."""
    values, weights, keys = np.round(rng.normal(size=rows), 2), rng.integers(0, 9, rows), rng.choice(["a", "b"], rows)
    path = str(folder / f"rows-{rows}.parquet")
    pq.write_table(pa.table({"w": weights, "k": keys, "ms": values}), path, row_group_size=300)
    return path, values, weights, keys


@pytest.mark.parametrize("keyed", [False, True])
def test_weights_of_files(keyed: bool, tmp_path: Path, rng: np.random.Generator, monkeypatch: Any) -> None:
    """Pieces that end within a row of weight w store all of its copies."""
    monkeypatch.setattr(appended_rows, "PIECE_ROWS", 130)
    monkeypatch.setattr(appended_rows, "BATCH_ROWS", 500)
    one, *first = write_weighted(tmp_path, rng, 800)
    two, *second = write_weighted(tmp_path, rng, 70)
    values, weights, keys = (np.concatenate(pair) for pair in zip(first, second, strict=True))
    with History(tmp_path / "s", keys="k" if keyed else None) as history:
        added = history.append_files([one, two], "ms", batch_id=1, weights="w")
        assert added == history.n == weights.sum()
        assert history.append_files([one, two], "ms", batch_id=1, weights="w") == 0
        assert sorted(everything(history)) == np.sort(np.repeat(values, weights)).tolist()
        if keyed:
            own = np.sort(np.repeat(values[keys == "a"], weights[keys == "a"]))
            assert history.answer(0.5, "exact", key="a").value == own[-(-len(own) // 2) - 1]
            assert history.answer(0.5, key="a").n == len(own)


def test_invalid_weights_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appended_rows, "MAX_WEIGHTED_ROWS", 100)
    columns: dict[str, Any] = {
        "negative": [1, -1, 2],
        "half": [1, 0.5, 2],
        "null": [1, None, 2],
        "text": ["1", "2", "3"],
        "heavy": [60, 1, 40],
    }
    path = str(tmp_path / "rows.parquet")
    pq.write_table(pa.table({"v": [1.0, 2.0, 3.0]} | columns), path)
    with History(tmp_path / "s") as history:
        for name in (*columns, "missing"):
            with pytest.raises(errors.InvalidArgumentError):
                history.append_files(path, "v", weights=name)
        assert history.n == 0


def test_invalid_weights_write_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history = History(path)
    history.append([1.0, 2.0])
    monkeypatch.setattr(appended_rows, "MAX_WEIGHTED_ROWS", 100)
    wrong: list[Any] = [[1], [1, -1], [1, 0.5], [1, None], [1, NAN], "2", [60, 41], [10**18, 1]]
    for weights in wrong:
        with pytest.raises(errors.QuantideError):
            history.append([3.0, 4.0], weights=weights)
    with pytest.raises(errors.InvalidArgumentError, match="Divide them"):
        history.append([3.0, 4.0], weights=[60, 41])
    with pytest.raises(errors.NaNError):
        history.append([3.0, NAN], weights=[1, 1])
    assert history.n == 2
    history.append([3.0, 4.0], weights=[60, 40])
    assert history.n == 102
