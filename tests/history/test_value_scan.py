"""Accurate and exact answers over all keys by scanning files, beside the search of blocks and the oracle."""

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantide.errors import CorruptBytesError
from quantide.history import History, span_view, value_scan
from quantide.history.span_view import HistoryAnswer
from quantide.history.value_scan import SegmentBlocks
from tests.history.history_model import BY_NAME, KINDS, MODES, SHAPES, Model, Rng, check_all, small
from tests.object_servers.object_location import ObjectLocation
from tests.oracle import bound_faults
from tests.sampling import one_in

PHIS = [1e-9, 0.01, 0.2, 0.5, 0.77, 0.99, 1.0]


def fill(
    folder: Path | str, rng: Rng, kind: str, shape: str, keys: int = 9, options: dict[str, str] | None = None
) -> tuple[History, Model]:
    """Append four steps and an open one, of several chunks with any of the keys."""
    history = History(folder, eps=0.1, kappa=2, keys="k", value_type=kind, storage_options=options)
    model = Model(BY_NAME[kind])
    for step in range(5):
        for size in (60, 1, 25):
            values = BY_NAME[kind].of(SHAPES[shape](rng, size))
            own = rng.integers(0, keys, size)
            history.append(BY_NAME[kind].to_input(values), key=own)
            model.append(values, [(int(key),) for key in own])
        if step < 4:
            history.end_step()
            model.end_step()
    return history, model


def without_costs(answer: HistoryAnswer) -> HistoryAnswer:
    return replace(answer, blocks_read=0)


@pytest.mark.parametrize(("shape", "collected"), one_in(5, product(SHAPES, [2, 20, 1 << 22])))
def test_a_scan_answers_as_the_search_does(
    shape: str, collected: int, tmp_path: Path, rng: Rng, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scan finds the same cuts as the search, so the same answers and bounds, whatever fits into memory."""
    monkeypatch.setattr(value_scan, "COLLECTED_ROWS", collected)
    monkeypatch.setattr(value_scan, "BATCH_BLOCKS", 3)
    with small():
        history, model = fill(tmp_path / "s", rng, "float64", shape)
        view = history.span_view(cached=False)
        searched = [view.answer(phi, mode) for phi in PHIS for mode in MODES]
        bounds = [view.bounds(phi, mode) for phi in PHIS for mode in MODES]
        assert not view.is_scanned("exact")
        monkeypatch.setattr(span_view, "MAX_SEGMENTS", 0)
        view = history.span_view(cached=False)
        assert view.is_scanned("accurate")
        assert not view.is_scanned("quick")
        scanned = [view.answer(phi, mode) for phi in PHIS for mode in MODES]
        assert list(map(without_costs, scanned)) == list(map(without_costs, searched))
        assert [view.bounds(phi, mode) for phi in PHIS for mode in MODES] == bounds
        together = history.span_view(cached=False)
        answers = [together.answers(PHIS, mode) for mode in MODES]
        assert [without_costs(answer) for row in zip(*answers, strict=True) for answer in row] == [
            without_costs(answer) for answer in searched
        ]
        if collected > 20:
            check_all(history, model, rng, questions=2)


@pytest.mark.parametrize("kind", one_in(4, [kind.name for kind in KINDS]))
def test_every_type(kind: str, tmp_path: Path, rng: Rng) -> None:
    with small(segments=0):
        for shape in ("wide", "ties", "ends"):
            history, model = fill(tmp_path / shape, rng, kind, shape)
            check_all(history, model, rng, [None, (3,)], questions=2)


def test_an_open_step_alone(tmp_path: Path) -> None:
    with small(segments=0), History(tmp_path, keys="k") as history:
        history.append(np.arange(50.0), key=np.arange(50) % 7)
        for mode in MODES:
            assert history.quantiles([0.5, 1.0], mode).tolist() == [24, 49]
            assert history.rank(24, mode) == (25, 25)


def test_many_phis_are_answered_in_one_pass(tmp_path: Path, rng: Rng) -> None:
    with small(segments=0):
        history, model = fill(tmp_path, rng, "float64", "wide")
        blocks = history.stats()["blocks"]
        answers = history.span_view().answers(np.linspace(0.01, 1, 50).tolist(), "exact")
        assert {answer.blocks_read for answer in answers} == {answers[0].blocks_read}
        assert 0 < answers[0].blocks_read <= blocks
        for answer in answers:
            assert bound_faults(model.data(), answer) == []
            assert answer.error == 0


def test_blocks_without_possible_answers_are_not_read(tmp_path: Path) -> None:
    """Few keys with many blocks each: the summary leaves one block of each key, as the search does."""
    values = np.arange(4000.0)
    with small(block=10, partition=4000, rows=4000, piece=10**6, segments=0), History(tmp_path, keys="k") as history:
        history.append(values, key=np.arange(4000) % 4)
        history.end_step()
        assert history.stats()["blocks"] == 400
        for phi in PHIS:
            answer = history.answer(phi, "exact")
            assert answer.value == values[answer.target - 1]
            assert answer.blocks_read <= 2 * 4


def test_equal_values_are_counted_without_reading(tmp_path: Path) -> None:
    with small(segments=0), History(tmp_path, keys="k") as history:
        for value in (1.0, 2.0, 3.0):
            history.append(np.full(100, value), key=np.arange(100) % 5)
        history.end_step()
        assert [history.answer(phi, "exact").blocks_read for phi in (0.2, 0.5, 1.0)] == [0, 0, 0]
        assert history.quantiles([0.2, 1 / 3, 0.34, 0.7, 1.0], "exact").tolist() == [1, 1, 2, 3, 3]
        assert [history.rank(x, "exact")[0] for x in (0, 1, 1.5, 3, 4)] == [0, 100, 100, 300, 300]


def test_rows_that_differ_from_the_index(tmp_path: Path, rng: Rng) -> None:
    with small(segments=0):
        history, _ = fill(tmp_path, rng, "float64", "wide", keys=3)
        first = history.runs()[0].parts[0]
        first.index.fences[1:] -= 0.5  # a fence that is not in the file
        with pytest.raises(CorruptBytesError, match="differs from the index file"):
            history.quantiles(np.linspace(0.01, 1, 99), "exact")


@pytest.mark.parametrize("block", [1, 3, 8, 1000])
def test_blocks_of_segments(block: int, tmp_path: Path, rng: Rng) -> None:
    """Segments have the rows of one key in one block, between its lowest and highest value."""
    with small(block=block, partition=10**6, rows=10**6, piece=10**6), History(tmp_path, keys="k") as history:
        values, own = (
            rng.integers(0, 50, 300).astype(float),
            rng.choice([1, 2, 7, 8, 9], 300, p=[0.9, 0.04, 0.04, 0.01, 0.01]),
        )
        history.append(values, key=own)
        history.end_step()
        blocks = SegmentBlocks.of(history.runs()[0].parts[0])
        order = np.lexsort((values, own))
        keys, rows = own[order], values[order]
        for group, start, end, low, high in zip(
            blocks.group, blocks.starts, blocks.ends, blocks.low, blocks.high, strict=True
        ):
            assert group == start // block == (end - 1) // block
            assert len(set(keys[start:end])) == 1
            assert low == rows[start]
            assert rows[end - 1] <= high
        assert int((blocks.ends - blocks.starts).sum()) == 300


def test_answers_are_cached(tmp_path: Path, rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """A view is scanned once for each phi."""
    passes: list[Any] = []
    scan = value_scan.ValueScan._scan

    def counted(own: value_scan.ValueScan, intervals: Any) -> int:
        passes.append(intervals)
        return scan(own, intervals)

    monkeypatch.setattr(value_scan.ValueScan, "_scan", counted)
    with small(segments=0):
        history, _ = fill(tmp_path, rng, "float64", "wide")
        view = history.span_view()
        first = view.answers([0.1, 0.9], "exact")
        assert view.answers([0.9, 0.1], "exact") == first[::-1]
        assert view.answer(0.1, "exact") == first[0]
    assert len(passes) == 1


@pytest.mark.parametrize("shape", ["wide", "ties"])
def test_a_scan_of_a_store_in_a_bucket(
    shape: str, s3_store: ObjectLocation, tmp_path: Path, rng: Rng, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers over all keys are those of the same store in a folder."""
    monkeypatch.setattr(value_scan, "BATCH_BLOCKS", 3)
    seed = int(rng.integers(0, 2**31))
    with small():
        remote, model = fill(f"{s3_store.uri}/s", np.random.default_rng(seed), "float64", shape, 9, s3_store.options)
        local, _ = fill(tmp_path / "s", np.random.default_rng(seed), "float64", shape)
        data = np.concatenate([rows.values for step in [*model.steps, model.open] for rows in step])
        monkeypatch.setattr(span_view, "MAX_SEGMENTS", 0)
        views = [history.span_view(cached=False) for history in (remote, local)]
        assert all(view.is_scanned("exact") for view in views)
        for phi in PHIS:
            for mode in MODES:
                one, other = (view.answer(phi, mode) for view in views)
                assert replace(without_costs(one), requests=0) == without_costs(other)
                assert bound_faults(data, one) == []
        remote.close()
        local.close()
