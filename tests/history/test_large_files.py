"""Files of upper levels: written range by range, with the same rows, fences and summaries as if in one piece."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantide import History, Summary
from quantide.history import compaction_plan, compaction_tasks
from quantide.history.chunk_sort import merge_pieces
from quantide.history.compaction_plan import count_tuples, file_count, next_level_compaction
from quantide.history.row_range import KeyCounts, RowRange, split_ranges
from quantide.history.run import BlockReader, key_at
from quantide.store.data_file import write_data
from quantide.store.file_names import RunId
from quantide.store.folder_storage import FolderStorage
from quantide.store.index_builder import IndexBuilder
from quantide.store.index_file import IndexFile, IndexFileInfo
from quantide.store.store_settings import ErrorProfile
from quantide.store.stored_rows import ALL, SortedRows
from quantide.summary.key_encoding import encode_keys, group_by_code
from quantide.summary.value_types import type_named
from tests.history.history_model import BY_NAME, Model, Rng, check_all, small

KIND = type_named("float64")
BLOCK = 8

# --- how many files -----------------------------------------------------------------------------------------

DAY, YEAR = 24, 24 * 365  # steps of an hour


@dataclass(frozen=True)
class PlannedRun:
    """Run as the plan sees it."""

    id: RunId
    rows: int
    files: int


def most_files(rows_a_step: int, steps: int, kappa: int) -> tuple[int, list[PlannedRun]]:
    """Return the largest number of active files while steps end one after the other, and the last runs."""
    runs: list[PlannedRun] = []
    most = 0
    for step in range(1, steps + 1):
        runs.append(PlannedRun(RunId(step, step, 0, 1, step), rows_a_step, file_count(rows_a_step, 0)))
        while (compaction := next_level_compaction(runs, kappa, None)) is not None:  # type: ignore[arg-type]
            chosen: set[Any] = set(compaction.runs)
            run_id = RunId(compaction.first, compaction.last, compaction.level, 1, step)
            merged = PlannedRun(run_id, compaction.rows, file_count(compaction.rows, compaction.level))
            runs = [run for run in runs if run not in chosen] + [merged]
            most = max(most, sum(run.files for run in runs))
    return most, runs


def test_a_year_of_many_values_has_fewer_than_a_million_files() -> None:
    most, runs = most_files(10**11 // DAY, YEAR, kappa=10)
    assert sum(run.rows for run in runs) == YEAR * (10**11 // DAY)
    assert most < 10**6
    assert max(run.rows / run.files for run in runs) <= compaction_plan.LARGE_FILE_ROWS


def test_a_small_store_has_files_as_before() -> None:
    """Large files are for large runs: all tasks of a smaller one would wait for a few."""
    rows = compaction_plan.TASK_ROWS
    for level in range(6):
        for run_rows in (1, rows - 1, rows, rows + 1, 5 * rows, compaction_plan.MIN_FILES * rows):
            assert file_count(run_rows, level) == math.ceil(run_rows / rows)


@pytest.mark.parametrize("level", [0, 1, 2, 3, 40])
@pytest.mark.parametrize("rows", [10**9, 10**10, 10**12, 10**15])
def test_large_runs_are_written_by_many_tasks(rows: int, level: int) -> None:
    files = file_count(rows, level)
    assert files >= compaction_plan.MIN_FILES
    assert rows / files <= min(compaction_plan.TASK_ROWS * 4**level, compaction_plan.LARGE_FILE_ROWS)
    assert rows / files >= min(compaction_plan.TASK_ROWS, rows / compaction_plan.MIN_FILES) / 2


def test_keys_with_few_rows_limit_a_file() -> None:
    """Summaries of small keys have every row, and a task holds those of its whole file in memory."""
    profile = ErrorProfile(0.001, 0.01)
    few, many = np.full(10**6, 10_000), np.full(10**6, 10)
    assert file_count(10**10, 3, count_tuples(few, profile)) > file_count(10**10, 3)
    assert count_tuples(many, profile) == 10**7
    for rows in (3, 500, 10**5, 3 * 10**6):
        values = np.arange(float(rows))
        sampled = SortedRows(KIND, ALL, np.array([0, rows]), values).summarise(profile)
        assert len(sampled.tuples.values) <= count_tuples(np.array([rows]), profile)


# --- files in pieces ----------------------------------------------------------------------------------------


@st.composite
def keyed_rows(draw: st.DrawFn, keyed: bool) -> SortedRows:
    """Sorted rows with ties, of few or many keys, null and NaN among them."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    size = draw(st.integers(1, 200))
    values = rng.integers(0, draw(st.sampled_from([1, 4, 1000])), size).astype(float)
    if not keyed:
        return SortedRows(KIND, ALL, np.array([0, size]), np.sort(values))
    choices: list[list[Any]] = [["a", "b", None], [1.5, math.nan, None, -2.0], list(range(50))]
    names = draw(st.sampled_from(choices))
    keys = pa.array(names).take(pa.array(rng.integers(0, len(names), size)))
    codes, distinct = encode_keys(keys)
    grouped, bounds = group_by_code(codes, values, len(distinct))
    return SortedRows(KIND, distinct, bounds, grouped)


def cut_anywhere(draw: st.DrawFn | Any, rows: SortedRows) -> list[SortedRows]:
    cuts = draw(st.lists(st.integers(1, len(rows)), max_size=8))
    edges = sorted({0, *cuts, len(rows)})
    return [rows.slice(start, end) for start, end in pairwise(edges)]


@pytest.mark.parametrize("keyed", [False, True])
@given(data=st.data())
def test_an_index_in_pieces_is_that_of_all_rows(keyed: bool, data: st.DataObject) -> None:
    rows = data.draw(keyed_rows(keyed))
    pieces = cut_anywhere(data.draw, rows)
    eps, tail = data.draw(st.sampled_from([(0.1, None), (0.1, 0.3), (0.02, 0.1), (0.4, 0.6)]))
    profile, info = ErrorProfile(eps, tail), IndexFileInfo(len(rows), "float64", BLOCK, 1, 1)
    before = data.draw(st.one_of(st.none(), st.integers(0, 300)))
    run_rows = len(rows) + (before or 0) + data.draw(st.integers(0, 300))
    builder = IndexBuilder(keyed, profile, BLOCK, run_rows, before)
    for piece in pieces:
        builder.add(piece)
    index = IndexFile(builder.finish(info))
    index.check()
    at_once = IndexBuilder(keyed, profile, BLOCK, run_rows)
    at_once.add(rows)
    whole = IndexFile(at_once.finish(info))
    assert index.info == whole.info
    np.testing.assert_array_equal(index.counts, whole.counts)
    np.testing.assert_array_equal(index.fences, whole.fences)
    assert encode_keys(pa.concat_arrays([index.keys, whole.keys]))[0].tolist() == [*range(len(whole.keys))] * 2
    for key in range(len(index.keys)):
        own = rows.values[rows.bounds[key] : rows.bounds[key + 1]]
        summary = index.read_summary(key)
        np.testing.assert_array_equal(own[summary.rmin - 1], summary.values)
        if keyed or before is None:
            check_profile(summary, eps * (len(own) if keyed else run_rows), tail)
        assert index.read_min_max(key) == (own[0], own[-1])
    if keyed:
        check_profile(index.total, 2 * eps * len(rows) + 0.5, None if tail is None else 1.5 * tail)
        assert index.total.n == len(rows)


def check_profile(summary: Summary, ranks: float, tail: float | None) -> None:
    assert summary.rank_error <= ranks + 0.5 + 1e-9
    if tail is not None:
        assert summary.tail is not None
        assert summary.tail <= tail * (1 + 1e-9)


@given(data=st.data())
def test_files_of_a_run_have_its_profile_together(data: st.DataObject) -> None:
    """The samples of a file are as far apart as its distance from the ends of the run allows, not from its own."""
    rows = data.draw(keyed_rows(False))
    eps, tail = data.draw(st.sampled_from([(0.1, None), (0.1, 0.3), (0.02, 0.1), (0.4, 0.6)]))
    summaries, before = [], 0
    for file in cut_anywhere(data.draw, rows):
        builder = IndexBuilder(False, ErrorProfile(eps, tail), BLOCK, len(rows), before)
        for piece in cut_anywhere(data.draw, file):
            builder.add(piece)
        summaries.append(IndexFile(builder.finish(IndexFileInfo(len(file), "float64", BLOCK, 1, 1))).total)
        before += len(file)
    run = Summary.merge(*summaries)
    check_profile(run, eps * len(rows), tail)
    for value, low, high in zip(run.values, run.rmin, run.rmax, strict=True):
        assert rows.values[low - 1] <= value <= rows.values[high - 1]


@pytest.mark.parametrize("keyed", [False, True])
@given(data=st.data())
@settings(max_examples=40)
def test_blocks_are_whole_wherever_pieces_end(
    keyed: bool, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("files")
    rows = data.draw(keyed_rows(keyed))
    with small(block=BLOCK):
        sizes = [
            write_data(FolderStorage(str(folder)), name, pieces, ("k",) if keyed else ())
            for name, pieces in (("all.parquet", [rows]), ("pieces.parquet", cut_anywhere(data.draw, rows)))
        ]
    whole, written = (pq.ParquetFile(folder / name) for name in ("all.parquet", "pieces.parquet"))
    assert sizes[1][0] == (folder / "pieces.parquet").stat().st_size
    groups = [written.metadata.row_group(i).num_rows for i in range(written.metadata.num_row_groups)]
    assert groups == [BLOCK] * (len(rows) // BLOCK) + [len(rows) % BLOCK] * (len(rows) % BLOCK > 0)
    assert written.schema_arrow == whole.schema_arrow
    assert repr(written.read().to_pylist()) == repr(whole.read().to_pylist())  # NaN does not equal itself
    np.testing.assert_array_equal(written.read()["value"].to_numpy(), rows.values)


# --- ranges -------------------------------------------------------------------------------------------------


def order(keys: Sequence[Any], values: Sequence[float]) -> list[tuple[Any, float]]:
    return list(zip(keys, values, strict=True))


@pytest.mark.parametrize("keyed", [False, True])
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_ranges_of_ranges_are_all_rows_in_order(
    keyed: bool, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Divided into files, and each of these into ranges: nothing is lost, and no range is much longer than others."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    distinct, keys = data.draw(st.sampled_from([1, 5, 10**6])), data.draw(st.sampled_from([1, 3, 40]))
    with small(), History(tmp_path_factory.mktemp("s"), kappa=9, keys="k" if keyed else None) as history:
        for _ in range(data.draw(st.integers(1, 5))):
            size = data.draw(st.sampled_from([1, 30, 150]))
            values = rng.integers(0, distinct, size).astype(float)
            history.append(values, key=rng.integers(0, keys, size) if keyed else None)
            history.end_step()
        blocks = BlockReader(KIND, FolderStorage(history.path))

        def rows_of(piece: Sequence[RowRange]) -> list[tuple[Any, float]]:
            rows = []
            for one in piece:
                for part, start, end in one.files:
                    own = compaction_tasks._read(blocks.files, part, start, end)
                    names = [key_at(own.keys, i) for i, count in enumerate(own.counts) for _ in range(count)]
                    rows += order(names, own.values.tolist())
            return rows

        def divide(ranges: Sequence[RowRange], pieces: int) -> list[tuple[RowRange, ...]]:
            counts = KeyCounts(ranges) if keyed else None
            divided = split_ranges(ranges, pieces, counts, blocks.read)
            size = -(-sum(map(len, ranges)) // pieces)
            assert max(sum(map(len, piece)) for piece in divided) <= (2 if keyed else 1) * size
            lists = [sorted(rows_of(piece)) for piece in divided]
            assert [row for rows in lists for row in rows] == sorted(rows_of(ranges))
            return divided

        whole = [RowRange.of(run) for run in history.runs()]
        for piece in divide(whole, data.draw(st.integers(1, 6))):
            divide(piece, data.draw(st.integers(1, 6)))


# --- stores -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("shape", ["wide", "ties", "constant"])
def test_a_store_with_files_of_many_ranges(keyed: bool, shape: str, tmp_path: Path, rng: Rng) -> None:
    """Answers, ranks, counts of skipped values and verify() are right; no range is larger than planned."""
    largest = 0

    def merge(pieces: Sequence[SortedRows]) -> SortedRows:
        nonlocal largest
        largest = max(largest, sum(map(len, pieces)))
        return merge_pieces(pieces)

    kind, model = BY_NAME["float64"], Model(BY_NAME["float64"])
    keys = "k" if keyed else None
    with small(files=1), pytest.MonkeyPatch.context() as patch, History(tmp_path, 0.05, kappa=1, keys=keys) as history:
        patch.setattr(compaction_tasks, "merge_pieces", merge)
        for _ in range(7):
            values = kind.of(
                {"wide": rng.integers(-1000, 1000, 150), "ties": rng.choice([-8, 0, 8], 150)}.get(
                    shape, np.full(150, 8)
                )
            )
            names = rng.integers(0, 4, 150 if keyed else 0)
            history.append(values, key=names if keyed else None)
            history.end_step()
            model.append(values, [(int(name),) for name in names])
            model.end_step()
        files = [part.index.info for run in history.runs() for part in run.parts]
        assert max(info.rows for info in files) > 4 * 30, "no file has several ranges"
        assert largest <= 2 * 30
        for info, path in zip(files, [part.name.data for run in history.runs() for part in run.parts], strict=True):
            groups = pq.read_metadata(tmp_path / path)
            assert [groups.row_group(i).num_rows for i in range(groups.num_row_groups - 1)] == [BLOCK] * (
                (info.rows - 1) // BLOCK
            )
        check_all(history, model, rng, keys=[None, *([(0,), (3,)] if keyed else [])])
        assert history.verify().values == 7 * 150


def test_a_range_ends_in_the_middle_of_equal_values(tmp_path: Path) -> None:
    """Ranks at the cut are exact: the copies of a value on its two sides are counted once each."""
    with small(files=1), History(tmp_path, 0.3, kappa=1, tail=0.5) as history:
        for step in range(2):
            history.append([*[1.0] * 50, *[2.0] * 49, 3.0 + step])
            history.end_step()
        (run,) = history.runs()
        assert len(run.parts) < run.rows / 30
        summary = run.summary(None)
        assert summary is not None
        assert (summary.rmin == summary.rmax).all()
        values = np.array([*[1.0] * 100, *[2.0] * 98, 3.0, 4.0])
        np.testing.assert_array_equal(values[summary.rmin - 1], summary.values)


def test_the_index_of_a_large_run_is_small(tmp_path: Path, rng: Rng) -> None:
    """Files in the middle of a run need few samples, although a file of its own would need them at both ends."""
    with small(block=64, partition=10**6, rows=500), History(tmp_path, 0.01, kappa=1, tail=0.1) as history:
        for _ in range(4):
            history.append(rng.random(5000))
            history.end_step()
        largest = max(history.runs(), key=lambda run: run.rows)
        tuples = [len(part.index.tuples.values) for part in largest.parts]
        assert len(tuples) > 10
        assert max(tuples[3:-3]) < min(tuples[0], tuples[-1]) / 3
