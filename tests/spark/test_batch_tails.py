"""The tail of batch quantiles: kept through partial summaries, levels and merges, whatever the tasks read."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from quantide import Summaries, Summary
from quantide.errors import InvalidArgumentError
from quantide.spark import batch_quantiles, merge_summaries, partial_summaries, quantiles, source_files, summarize
from quantide.spark.compat import percentile_approx
from quantide.spark.partial_summaries import (
    ALL_KEY,
    PartialLevels,
    SummaryRequest,
    _merger,
    compress_within,
    from_partial_rows,
    summarise_tables,
    to_partial_rows,
)
from quantide.spark.sql import qt_bounds, qt_merge, qt_summary, thin
from tests.oracle import tail_faults
from tests.orders import ORDERS
from tests.test_old_bytes import restored

EPS, TAIL = 0.01, 0.1
Rng = np.random.Generator


def assert_promise(summary: Summary, values: Any, eps: float = EPS, tail: float = TAIL) -> None:
    """Check that eps and the tail are met at every rank, and certified by the summary."""
    assert summary.n == len(values)
    assert summary.error <= eps
    assert summary.tail is not None
    assert summary.tail <= tail
    assert not tail_faults(np.sort(values), summary.quantiles, eps, tail)


def request(by: tuple[str, ...], eps: float = EPS, tail: float | None = TAIL) -> SummaryRequest:
    return SummaryRequest(("v",), ("float64",), by, eps, "refuse", tail)


def to_rows(name: str, summaries: Summaries) -> Any:
    return to_partial_rows(name, summaries, 1)


def merge_stage(summary_request: SummaryRequest, rows: list[pa.Table], last: bool) -> pa.Table:
    batches = iter(pa.concat_tables(rows).to_batches())
    return pa.Table.from_batches(list(_merger(summary_request, to_rows if last else None)(batches)))


def run_batch(summary_request: SummaryRequest, tasks: list[list[pa.Table]], width: int = 1) -> Summaries:
    """Summarise and merge as Spark does; without keys, `width` tasks merge first."""
    rows = [
        pa.table(row)
        for tables in tasks
        for name, part in summarise_tables(tables, summary_request)
        for row in to_rows(name, part)
    ]
    if width > 1:
        rows = [merge_stage(summary_request, rows[i::width], last=False) for i in range(min(width, len(rows)))]
    return Summaries.merge(*from_partial_rows(merge_stage(summary_request, rows, last=True), "v"))


def with_extremes(rng: Rng, size: int, where: str) -> Any:
    """Lognormal values with extremes or ties at both ends, where the tasks of the first or last rows read them."""
    values = rng.lognormal(0, 2, size)
    few = size // 100
    if where == "first":
        values[:few], values[few : 2 * few] = 1e9 + np.arange(few), -1e9 - np.arange(few)
    elif where == "last":
        values[-few:], values[-2 * few : -few] = 1e9 + np.arange(few), -1e9 - np.arange(few)
    elif where == "ties":
        values[rng.permutation(size)[:few]], values[rng.permutation(size)[:few]] = 1e9, -1e9
    elif where == "five values":
        values = np.floor(rng.random(size) * 5)
    return values


@pytest.mark.parametrize("where", ["first", "last", "ties", "five values"])
@pytest.mark.parametrize("width", [1, 5])
def test_tasks_without_keys(where: str, width: int, rng: Rng) -> None:
    """Merge tasks of very unequal sizes, once or twice."""
    values = with_extremes(rng, 120_000, where)
    cuts = [1, 4, 100, 900, 9000, 9001, 40_000, 100_000, 119_990]
    tasks = [[pa.table({"v": piece})] for piece in np.split(values, cuts)]
    merged = run_batch(request(()), tasks, width)
    assert_promise(merged[ALL_KEY], values)


@pytest.mark.parametrize("order", ORDERS)
def test_every_order(order: str, rng: Rng) -> None:
    values = ORDERS[order](rng, 60_000)
    tasks = [[pa.table({"v": piece}) for piece in np.array_split(part, 3)] for part in np.array_split(values, 7)]
    assert_promise(run_batch(request(()), tasks, 3)[ALL_KEY], values)


@pytest.mark.parametrize("where", ["first", "last", "ties", "five values"])
@pytest.mark.parametrize("tasks", [1, 3])
def test_keys_of_unequal_sizes(where: str, tasks: int, rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups are so small that every task has all levels."""
    monkeypatch.setattr(partial_summaries, "GROUP_ROWS", 3000)
    monkeypatch.setattr(partial_summaries, "FAN_IN", 2)
    sizes = [1, 2, 7, 60, 500, 5000, 30_000, 90_000]
    keys = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    values = with_extremes(rng, len(keys), where)
    table = pa.table({"k": keys, "v": values})
    parts = [table.slice(i * len(table) // tasks, -(-len(table) // tasks)) for i in range(tasks)]
    split = [[part.slice(i, 1000) for i in range(0, len(part), 1000)] for part in parts]
    covered = sum(len(piece) for pieces in split for piece in pieces)
    merged = run_batch(request(("k",)), split)
    assert merged.n.sum() == covered
    rows = pa.concat_tables([piece for pieces in split for piece in pieces])
    read_keys, read_values = rows["k"].to_numpy(), rows["v"].to_numpy()
    for key in range(len(sizes)):
        assert_promise(merged[key], read_values[read_keys == key])


def test_every_level_stays_within_its_shares(rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """A summary of level i has a quarter of eps, half of the tail, for its groups, and a sixteenth for each level."""
    monkeypatch.setattr(partial_summaries, "FAN_IN", 2)
    levels, batches = PartialLevels(EPS / 16, TAIL / 16), []
    for _ in range(21):
        keys, values = rng.integers(0, 3, 3000) ** 2, rng.lognormal(0, 2, 3000)
        batches.append((keys, values))
        levels.add(Summaries.of(keys, values, EPS / 4, "refuse", TAIL / 2))
    assert len(levels.levels) == partial_summaries.LEVELS + 1
    for level, of_level in enumerate(levels.levels):
        for summaries in of_level:
            assert (summaries.error <= EPS * (1 / 4 + level / 16) + 1 / summaries.n).all()
            assert (summaries.tail <= TAIL * (1 / 2 + level / 16)).all()
    merged = Summaries.merge(*[summaries for of_level in levels.levels for summaries in of_level])
    for key in (0, 1, 4):
        assert_promise(
            merged[key], np.concatenate([values[keys == key] for keys, values in batches]), EPS / 2, TAIL * 3 / 4
        )


@given(st.data())
def test_any_tasks(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    eps, tail = data.draw(st.sampled_from([(0.3, 0.5), (0.1, 0.3), (0.02, 0.2), (0.02, 0.05)]))
    sizes = data.draw(st.lists(st.sampled_from([1, 3, 40, 700, 5000]), min_size=1, max_size=6))
    distinct = data.draw(st.sampled_from([3, 50, 10**6]))
    tables = [pa.table({"k": rng.integers(0, 3, n), "v": rng.integers(0, distinct, n).astype(float)}) for n in sizes]
    by = data.draw(st.sampled_from([(), ("k",)]))
    merged = run_batch(request(by, eps, tail), [[table] for table in tables], 1 if by else data.draw(st.integers(1, 2)))
    rows = pa.concat_tables(tables)
    for key in merged:
        own = rows["v"].to_numpy() if key == ALL_KEY else rows["v"].to_numpy()[rows["k"].to_numpy() == key]
        assert_promise(merged[key], own, eps, tail)


def test_keys_that_cannot_be_compressed_do_not_keep_others_large(rng: Rng) -> None:
    """Each key is compressed, or not, by itself: one with a larger error or tail stays as it is."""
    fine = Summaries.of(np.zeros(50_000, np.int64), rng.random(50_000), 0.001, tail=0.01)
    coarse = Summaries.of(np.ones(50_000, np.int64), rng.random(50_000), 0.04, tail=0.099)
    steep = Summaries.of(np.full(50_000, 2), rng.random(50_000), 0.001, tail=0.3)
    plain = Summaries.of(np.full(50_000, 3), rng.random(50_000), 0.001, tail=None)
    merged = Summaries.merge(fine, coarse, steep, plain)
    small = compress_within(merged, request(("k",)))
    assert [len(small[key]) < len(merged[key]) for key in range(4)] == [True, False, False, True]
    assert [small[key].tail is None for key in range(4)] == [False, False, False, True]
    assert float(small.tail[0]) <= TAIL
    assert small[3].error <= EPS
    assert small[1] == merged[1]
    assert small[2] == merged[2]


@pytest.mark.parametrize("count", [3, 4999, 5000])
def test_ties_without_a_tail_are_compressed_as_far(count: int, rng: Rng) -> None:
    """Summaries that dropped tuples between ties are wider by tuple than by value; eps is about values."""
    values = np.concatenate((np.full(20_000, 3.0), rng.random(20_000), np.full(count, 4.0)))
    parts = [pa.table({"v": rng.permutation(values)}) for _ in range(3)]
    merged = run_batch(request((), 0.02, None), [[part] for part in parts])[ALL_KEY]
    assert merged.error <= 0.02
    assert len(merged) <= 2 / 0.02 + 20


# SQL functions


def merge_blobs(*columns: pa.Array) -> bytes:
    merged = qt_merge(*columns)
    assert merged is not None
    return merged


@pytest.mark.parametrize("size", [10, 3000, 50_000])
def test_qt_summary(size: int, rng: Rng) -> None:
    values = with_extremes(rng, max(size, 100), "ties")[:size]
    x, eps = pa.array(values), pa.array(np.full(size, EPS))
    assert_promise(Summary.from_bytes(qt_summary(x, eps)), values)
    assert_promise(Summary.from_bytes(qt_summary(x, eps, pa.array(np.full(size, 0.02)))), values, EPS, 0.02)
    plain = Summary.from_bytes(qt_summary(x, eps, pa.nulls(size, pa.float64())))
    assert plain.error <= EPS
    assert len(plain) <= 2 / EPS + 1
    assert size == 10 or plain.tail is None


def test_qt_merge(rng: Rng) -> None:
    parts = [rng.lognormal(k, 2, size) for k, size in enumerate([5, 300, 9000, 70_000])]
    values = np.concatenate(parts)
    blobs = pa.array([qt_summary(pa.array(part), pa.array(np.full(len(part), 0.002))) for part in parts])
    merged = Summary.from_bytes(merge_blobs(blobs))
    assert_promise(merged, values, 0.002, 0.02)
    small = Summary.from_bytes(merge_blobs(blobs, pa.array([EPS] * 4)))
    assert_promise(small, values)
    assert len(small) < len(merged) / 2
    plain = Summary.from_bytes(merge_blobs(blobs, pa.array([EPS] * 4), pa.nulls(4, pa.float64())))
    assert plain.error <= EPS
    assert plain.tail is None
    assert len(plain) < len(small)


def test_a_tail_above_the_promise_does_not_grow(rng: Rng) -> None:
    values = rng.random(20_000)
    steep = Summary.of(values).compress(1000, 0.2)
    small = thin(steep, EPS, TAIL)
    assert len(small) < len(steep)
    assert_promise(small, values, EPS, steep.tail or 0)


@pytest.mark.parametrize("tail", [[0.1, 0.2], [0.1, None], [2.0, 2.0]])
def test_what_is_no_tail_in_sql(tail: list[float | None]) -> None:
    with pytest.raises(InvalidArgumentError, match="tail must be"):
        qt_summary(pa.array([1.0, 2.0]), pa.array([EPS, EPS]), pa.array(tail))
    with pytest.raises(InvalidArgumentError, match="write qt_summary"):
        qt_summary(pa.array([1.0, 2.0]))


def test_qt_bounds_are_by_value() -> None:
    """A value with many ranks is the exact answer to all of them."""
    summary = Summary.of(np.repeat(np.arange(5.0), 1000)).compress(20)
    phis = np.arange(1, 101) / 100
    answers = qt_bounds(pa.array([summary.to_bytes()] * 100), pa.array(phis)).to_pylist()
    assert [answers[i]["error"] for i in (4, 9, 14)] == [0, 0, 0]
    for phi, answer in zip(phis, answers, strict=True):
        other = summary.answer(phi)
        assert answer == {name: getattr(other, name) for name in ("value", "rank_lo", "rank_hi", "n", "error")}


def test_old_summaries_stay_readable(rng: Rng) -> None:
    """Merge and query summaries written before tails existed: within their error, without a tail."""
    old = restored("summary")
    values = rng.random(5000)
    new = Summary.of(values).compress(100, TAIL)
    merged = Summary.from_bytes(merge_blobs(pa.array([old.to_bytes(), new.to_bytes()])))
    assert old.tail is None
    assert new.tail is not None
    assert (merged.n, merged.tail) == (old.n + 5000, None)
    assert merged.rank_error <= old.rank_error + new.rank_error + 1
    small = compress_within(Summaries.from_binary([0, 0, 1], [s.to_bytes() for s in (old, new, new)]), request(("k",)))
    assert [small[key].tail is None for key in (0, 1)] == [True, False]


# With Spark


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pa.Table]:
    """Three files of unequal sizes; the extremes are in the smallest."""
    rng, folder = np.random.default_rng(3), tmp_path_factory.mktemp("tails")
    parts = []
    for i, size in enumerate((60_000, 400, 9001)):
        values = 1e6 * rng.choice([-1, 1], size) * rng.random(size) if size == 400 else rng.lognormal(0, 2, size)
        keys = np.minimum(rng.geometric(0.4, size), 9)
        parts.append(pa.table({"k": keys, "v": values}))
        pq.write_table(parts[-1], folder / f"part-{i}.parquet", row_group_size=5000)
    return folder, pa.concat_tables(parts)


def read_summaries(frame: Any) -> dict[Any, Summary]:
    return {row[0] if len(row) > 6 else None: Summary.from_bytes(bytes(row["summary"])) for row in frame.collect()}


@pytest.mark.parametrize("one_task", [True, False])
def test_files(
    spark: SparkSession, lake: tuple[Path, pa.Table], monkeypatch: pytest.MonkeyPatch, one_task: bool
) -> None:
    folder, rows = lake
    if not one_task:
        monkeypatch.setattr(batch_quantiles, "ONE_TASK_BYTES", 0)
        monkeypatch.setattr(source_files, "MIN_SPLIT", 1)
    values = np.sort(rows["v"].to_numpy())
    for eps in (0.01, 0.001):
        (summary,) = read_summaries(summarize(str(folder), "v", eps=eps)).values()
        assert_promise(summary, values, eps, 10 * eps)
    n = len(values)
    for row in quantiles(str(folder), "v", [1 / n, 0.001, 0.5, 0.9999, 1.0], tail=0.02).collect():
        target = max(1, int(np.ceil(row["phi"] * n - 1e-9)))
        assert row["error"] * n <= 0.02 * min(n - target, target - 1) + 0.5
    (plain,) = read_summaries(summarize(str(folder), "v", tail=None)).values()
    assert plain.tail is None


def test_files_by_key_and_merged_again(spark: SparkSession, lake: tuple[Path, pa.Table]) -> None:
    folder, rows = lake
    frame = summarize(str(folder), "v", by="k", eps=EPS).cache()
    keys, values = rows["k"].to_numpy(), rows["v"].to_numpy()
    summaries = read_summaries(frame)
    assert sorted(summaries) == sorted(set(keys.tolist()))
    for key, summary in summaries.items():
        assert_promise(summary, values[keys == key])
    for eps in (None, 0.01):
        (row,) = merge_summaries(frame, eps=eps).collect()
        assert_promise(Summary.from_bytes(bytes(row["summary"])), values)


@pytest.mark.parametrize("streamed", [False, True])
def test_percentile_approx(spark: SparkSession, lake: tuple[Path, pa.Table], streamed: bool) -> None:
    folder, rows = lake
    values = np.sort(rows["v"].to_numpy())
    phis = [0.0001, 0.001, 0.5, 0.99, 0.999, 0.9999]
    frame = spark.read.parquet(str(folder))
    answers = dict(
        zip(phis, frame.agg(percentile_approx(F.col("v"), phis, 100, streamed=streamed)).collect()[0][0], strict=True)
    )
    n = len(values)
    for phi, value in answers.items():
        target = int(np.ceil(phi * n - 1e-9))
        rank = int(np.searchsorted(values, value)) + 1
        assert abs(rank - target) <= min(0.01 * n, 0.1 * min(n - target, target - 1)) + 0.5
