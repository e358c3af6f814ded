"""Summaries and quantiles of files and DataFrames: the same answers on every way, within the proved bound."""

import re
import struct
from collections.abc import Callable
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from quantide import Summaries, Summary, errors
from quantide.spark import batch_quantiles, merge_summaries, quantiles, quantiles_of, source_files, summarize
from quantide.spark.exact_quantiles import ValueBrackets, prune_row_groups
from quantide.spark.partial_summaries import assign_buckets
from quantide.spark.source_files import find_files, plan_splits, read_split
from quantide.store.location import StorageOptions
from tests import oracle
from tests.sampling import one_in

PHIS = [0.001, 0.25, 0.5, 0.99, 1.0]
QUANTILE_TYPES = "phi:double,value:double,rank_lo:bigint,rank_hi:bigint,n:bigint,error:double"
Source = Callable[[SparkSession, Path], Any]


def table(rng: np.random.Generator, n: int) -> pa.Table:
    values = np.round(rng.normal(size=n), 3)
    mask = rng.random(n) < 0.05
    return pa.table(
        {
            "v": pa.array(values, mask=mask),
            "i": pa.array(rng.integers(-1000, 1000, n).astype(np.int32)),
            "k": pa.array(rng.integers(0, 7, n)),
            "s": pa.array([["x", "y", None][j] for j in rng.integers(0, 3, n)]),
        }
    )


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pa.Table]:
    """Three files of unequal sizes and row groups, and all their rows."""
    rng = np.random.default_rng(5)
    folder = tmp_path_factory.mktemp("lake")
    parts = [table(rng, n) for n in (20_000, 300, 7_001)]
    for i, part in enumerate(parts):
        pq.write_table(part, folder / f"part-{i}.parquet", row_group_size=1700 + i)
    return folder, pa.concat_tables(parts)


WAYS: dict[str, Source] = {
    "folder": lambda spark, folder: str(folder),
    "glob": lambda spark, folder: str(folder / "part-*.parquet"),
    "list": lambda spark, folder: sorted(folder.glob("*.parquet")),
    "frame": lambda spark, folder: spark.read.parquet(str(folder)),
    "many partitions": lambda spark, folder: spark.read.parquet(str(folder)).repartition(90),
}
FEW = [way for way in WAYS if way != "many partitions"]
MANY = [pytest.param(exact, "many partitions", marks=pytest.mark.slow) for exact in (False, True)]
OFTEN = [*FEW, pytest.param("many partitions", marks=pytest.mark.slow)]


def check(rows: list[Any], data: np.ndarray[Any, Any], eps: float) -> None:
    """Every row is the right answer to its phi, by the definition of section 0."""
    ordered = np.sort(data)
    assert len(rows) == len(PHIS)
    for row in rows:
        assert row["n"] == len(data)
        assert row["error"] <= eps
        target = oracle.target_rank(row["phi"], len(data))
        first = int(np.searchsorted(ordered, row["value"], "left")) + 1
        last = int(np.searchsorted(ordered, row["value"], "right"))
        assert first <= last, "an answer is an element"
        assert first <= row["rank_hi"]
        assert last >= row["rank_lo"]
        assert max(first - target, target - last, 0) <= row["error"] * len(data) + 1e-9


@pytest.mark.parametrize("way", OFTEN)
def test_whole(spark: SparkSession, lake: tuple[Path, pa.Table], way: str) -> None:
    folder, rows = lake
    frame = quantiles(WAYS[way](spark, folder), "v", PHIS, eps=0.02)
    assert frame.schema.simpleString() == f"struct<{QUANTILE_TYPES}>"
    check(frame.collect(), rows["v"].drop_null().to_numpy(), 0.02)


@pytest.mark.parametrize("exact", [False, True])
def test_files_that_one_task_could_read(
    spark: SparkSession, lake: tuple[Path, pa.Table], monkeypatch: pytest.MonkeyPatch, exact: bool
) -> None:
    """Small files are summarised by one task; several tasks and one that merges are as right."""
    folder, rows = lake
    one = quantiles(str(folder), "v", PHIS, eps=0.02, exact=exact)
    monkeypatch.setattr(batch_quantiles, "ONE_TASK_BYTES", 0)
    monkeypatch.setattr(source_files, "MIN_SPLIT", 1)
    several = quantiles(str(folder), "v", PHIS, eps=0.02, exact=exact)
    assert one.rdd.getNumPartitions() == several.rdd.getNumPartitions() == 1
    plans = [frame._jdf.queryExecution().toString() for frame in (one, several)]
    assert ["Repartition" in plan for plan in plans] == ([True, True] if exact else [False, True])
    for frame in (one, several):
        check(frame.collect(), rows["v"].drop_null().to_numpy(), 0.0 if exact else 0.02)


@pytest.mark.parametrize(("exact", "way"), one_in(3, product([False, True], FEW)) + MANY)
def test_by_two_keys_one_of_them_null(spark: SparkSession, lake: tuple[Path, pa.Table], way: str, exact: bool) -> None:
    folder, rows = lake
    frame = quantiles(WAYS[way](spark, folder), "v", PHIS, by=["k", "s"], eps=0.05, exact=exact)
    assert frame.schema.simpleString() == f"struct<k:bigint,s:string,{QUANTILE_TYPES}>"
    by_key: dict[tuple[Any, Any], list[Any]] = {}
    for row in frame.collect():
        by_key.setdefault((row["k"], row["s"]), []).append(row)
    keys, names = rows["k"].to_numpy(), np.array(rows["s"].to_pylist(), dtype=object)
    assert len(by_key) == 21
    for (key, name), answers in by_key.items():
        own = rows.filter(pa.array((keys == key) & (names == name)))["v"].drop_null().to_numpy()
        check(answers, own, 0.0 if exact else 0.05)


@pytest.mark.parametrize("way", OFTEN)
def test_exact(spark: SparkSession, lake: tuple[Path, pa.Table], way: str) -> None:
    folder, rows = lake
    answers = quantiles(WAYS[way](spark, folder), "v", PHIS, eps=0.05, exact=True).collect()
    ordered = np.sort(rows["v"].drop_null().to_numpy())
    assert {row["phi"]: row["value"] for row in answers} == {
        phi: ordered[oracle.target_rank(phi, len(ordered)) - 1] for phi in PHIS
    }
    assert all(row["error"] == 0 for row in answers)


def test_exact_reads_only_what_can_hold_the_answer(spark: SparkSession, tmp_path: Path) -> None:
    """One row group of sorted data is left to read; statistics count the others."""
    pq.write_table(pa.table({"v": np.arange(100_000.0)}), tmp_path / "a.parquet", row_group_size=10_000)
    assert quantiles(str(tmp_path), "v", 0.55, eps=0.01, exact=True).collect()[0]["value"] == 54_999.0
    files = find_files([str(tmp_path)], StorageOptions())
    summaries = Summaries.of(np.zeros(100_000, dtype=np.int64), np.arange(100_000.0), 0.01)
    for split in plan_splits(files, ["v"], 1, StorageOptions()):
        left, below = prune_row_groups(split, "v", ValueBrackets.of(summaries, [0.553]), StorageOptions())
        assert [piece.groups for piece in left] == [(5,)]
        assert below.tolist() == [50_000]


def test_exact_reads_a_row_group_whose_nulls_are_not_counted(spark: SparkSession, tmp_path: Path) -> None:
    """The format lets a writer leave out the number of nulls; then the number of values is not known either."""
    values = [None] * 50_000 + [1.0] * 10_000 + list(range(100, 60_100))
    path = tmp_path / "a.parquet"
    options: dict[str, Any] = {"row_group_size": 60_000, "use_dictionary": False, "compression": "none"}
    pq.write_table(pa.table({"v": pa.array(values, pa.float64())}), path, **options)
    path.write_bytes(without_null_counts(path.read_bytes()))
    stats = pq.read_metadata(path).row_group(0).column(0).statistics
    assert (stats.has_null_count, stats.has_min_max) == (False, True)
    row = quantiles(str(path), "v", 0.5, eps=0.01, exact=True).collect()[0]
    assert (row["value"], row["rank_lo"], row["n"]) == (25_099.0, 35_000, 70_000)


def without_null_counts(data: bytes) -> bytes:
    """Remove the number of nulls from all statistics: in each, the field before the first of two bounds of 8 bytes."""
    length = struct.unpack("<I", data[-8:-4])[0]
    footer, found = re.subn(rb"\x16[\x80-\xff]*[\x00-\x7f]\x28\x08", b"\x38\x08", data[-8 - length : -8])
    assert found == 2
    return data[: -8 - length] + footer + struct.pack("<I", len(footer)) + b"PAR1"


@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.date32()])
def test_exact_of_times_beyond_python(spark: SparkSession, tmp_path: Path, kind: pa.DataType) -> None:
    """Statistics of such times cannot be read: pyarrow makes Python's dates of them, which end in the year 9999."""
    whole = np.linspace(0, 5e17 if kind == pa.timestamp("us") else 5e6, 2_001).astype(np.int64)
    column = pa.array(whole, pa.int64()).cast(pa.int32() if kind == pa.date32() else pa.int64()).cast(kind)
    pq.write_table(pa.table({"v": column}), tmp_path / "a.parquet", row_group_size=500)
    answers = quantiles(str(tmp_path), "v", 0.5, exact=True).select("rank_lo", "rank_hi", "error").collect()
    assert [tuple(row) for row in answers] == [(1_001, 1_001, 0.0)]


@pytest.mark.parametrize("constant", [True, False])
def test_exact_with_ties(spark: SparkSession, tmp_path: Path, constant: bool) -> None:
    values = np.full(5000, 3) if constant else np.repeat([1, 2, 9], [2000, 2500, 500])
    pq.write_table(pa.table({"v": np.random.default_rng(1).permutation(values)}), tmp_path / "a.parquet")
    rows = quantiles(str(tmp_path), "v", PHIS, eps=0.1, exact=True).collect()
    assert sorted(row["value"] for row in rows) == [np.sort(values)[oracle.target_rank(p, 5000) - 1] for p in PHIS]


def test_several_columns_in_one_pass(spark: SparkSession, lake: tuple[Path, pa.Table]) -> None:
    folder, rows = lake
    frame = quantiles(str(folder), ["v", "i"], PHIS, eps=0.02)
    assert frame.schema.simpleString() == f"struct<column:string,{QUANTILE_TYPES}>"
    answers = frame.collect()
    for name in ("v", "i"):
        check([row for row in answers if row["column"] == name], rows[name].drop_null().to_numpy(), 0.02)


def test_summarize_and_roll_up(spark: SparkSession, lake: tuple[Path, pa.Table]) -> None:
    folder, rows = lake
    stored = summarize(str(folder), "v", by=["k", "s"], eps=0.01)
    assert stored.schema.simpleString() == (
        "struct<k:bigint,s:string,summary:binary,n:bigint,nulls:bigint,min:double,max:double,error:double>"
    )
    by_k = merge_summaries(stored, by="k")
    assert by_k.schema.simpleString() == "struct<k:bigint,summary:binary,n:bigint,nulls:bigint,error:double>"
    for row in by_k.collect():
        own = rows.filter(pc.equal(rows["k"], row["k"]))["v"]
        assert (row["n"], row["nulls"]) == (len(own) - own.null_count, own.null_count)
        assert row["error"] <= 0.01
        assert Summary.from_bytes(bytes(row["summary"])).n == row["n"]
    for whole in (merge_summaries(by_k), merge_summaries(stored, eps=0.02)):
        check(quantiles_of(whole, PHIS).collect(), rows["v"].drop_null().to_numpy(), 0.02)
    each = quantiles_of(stored, [0.5])
    assert each.schema.simpleString() == f"struct<k:bigint,s:string,{QUANTILE_TYPES}>"
    assert each.count() == 21


def test_same_splits_same_bytes(spark: SparkSession, lake: tuple[Path, pa.Table]) -> None:
    folder, _ = lake
    runs = [summarize(str(folder), "v", by="k", eps=0.01).orderBy("k").collect() for _ in range(2)]
    assert runs[0] == runs[1]


@pytest.mark.parametrize("way", ["folder", "frame"])
def test_where(spark: SparkSession, lake: tuple[Path, pa.Table], way: str) -> None:
    folder, rows = lake
    where: Any = pc.field("i") >= 500 if way == "folder" else "i >= 500"
    answers = quantiles(WAYS[way](spark, folder), "v", PHIS, where=where, eps=0.02).collect()
    check(answers, rows.filter(pc.field("i") >= 500)["v"].drop_null().to_numpy(), 0.02)


NULLABLE_KEYS = {
    "integers": (pa.int64(), [-5, 0, 7, 2**62]),
    "booleans": (pa.bool_(), [True, False]),
    "floats": (pa.float64(), [1.5, 2.0, float("inf")]),
    "text": (pa.string(), ["5", "", "ü"]),
    "bytes": (pa.binary(), [b"a", b""]),
    "times": (pa.timestamp("us"), [0, 10**15]),
    "days": (pa.date32(), [0, 19_000]),
    "decimals": (pa.decimal128(5, 2), [Decimal("1.20"), Decimal("-3.00")]),
}


@pytest.mark.parametrize("kind", NULLABLE_KEYS)
def test_the_bucket_of_a_key_does_not_depend_on_others(kind: str) -> None:
    """The bucket of a key is the same in every task: otherwise its summaries would never be merged."""
    keys = pa.array(NULLABLE_KEYS[kind][1], NULLABLE_KEYS[kind][0])
    with_null = pa.concat_arrays([pa.nulls(1, keys.type), keys])
    alone = [assign_buckets(keys.slice(i, 1), 1 << 30)[0] for i in range(len(keys))]
    assert assign_buckets(keys, 1 << 30).tolist() == assign_buckets(with_null, 1 << 30)[1:].tolist() == alone
    pairs = [pa.StructArray.from_arrays([some, some], names=["a", "b"]) for some in (keys, with_null)]
    assert assign_buckets(pairs[0], 1 << 30).tolist() == assign_buckets(pairs[1], 1 << 30)[1:].tolist()


def test_a_null_key_in_one_part_splits_no_other_key(spark: SparkSession) -> None:
    parts = [[(key, float(v)) for v in range(10) for key in range(10)], [(key, 5.0) for key in (*range(10), None)]]
    rows = spark.sparkContext.parallelize(parts, 2).flatMap(lambda part: part)
    frame = spark.createDataFrame(rows, "k bigint, v double")
    stored = summarize(frame, "v", by="k", eps=0.1)
    for found in (stored, merge_summaries(stored, "k"), quantiles(frame, "v", 0.5, by="k", eps=0.1)):
        assert sorted(((row.k, row.n) for row in found.select("k", "n").collect()), key=repr) == sorted(
            [*((key, 11) for key in range(10)), (None, 1)], key=repr
        )


def test_hive_keys(spark: SparkSession, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    days: dict[int, np.ndarray[Any, Any]] = {}
    for day in (1, 2, 3):
        days[day] = rng.normal(size=500 * day)
        (tmp_path / f"day={day}").mkdir()
        pq.write_table(pa.table({"v": days[day]}), tmp_path / f"day={day}" / "x.parquet")
    rows = quantiles(str(tmp_path), "v", PHIS, by="day", eps=0.02).collect()
    for day, values in days.items():
        check([row for row in rows if row["day"] == day], values, 0.02)
    rows = quantiles(str(tmp_path), "v", PHIS, where=pc.field("day") == 2, eps=0.02).collect()
    check(rows, days[2], 0.02)


def test_delta(spark: SparkSession, lake: tuple[Path, pa.Table], tmp_path: Path) -> None:
    _, rows = lake
    for start in range(0, len(rows), 10_000):
        write_deltalake(str(tmp_path / "t"), rows.slice(start, 10_000), mode="append", partition_by=["k"])
    answers = quantiles(str(tmp_path / "t"), "v", PHIS, eps=0.02).collect()
    check(answers, rows["v"].drop_null().to_numpy(), 0.02)
    by_key = quantiles(str(tmp_path / "t"), "v", PHIS, by="k", eps=0.02).collect()
    own = rows.filter(pc.equal(rows["k"], 3))["v"].drop_null().to_numpy()
    check([row for row in by_key if row["k"] == 3], own, 0.02)


def test_delta_with_awkward_partitions(spark: SparkSession, tmp_path: Path) -> None:
    rows = pa.table({"v": [1.0, 2.0, 3.0], "c": ["a b", "50%", "é/x"]})
    write_deltalake(str(tmp_path / "t"), rows, partition_by=["c"])
    answers = quantiles(str(tmp_path / "t"), "v", 1.0, by="c").collect()
    assert {row["c"]: row["value"] for row in answers} == {"a b": 1.0, "50%": 2.0, "é/x": 3.0}


TYPED = {
    "int": (pa.array([5, 1, None, 3], pa.int16()), "smallint", 3),
    "decimal": (pa.array([Decimal("1.50"), Decimal("-2.25"), None, Decimal("9.00")]), "decimal(3,2)", Decimal("1.50")),
    "float": (pa.array([1.5, 0.5, None, 2.5], pa.float32()), "float", 1.5),
}


@pytest.mark.parametrize(("exact", "name"), one_in(2, product([True, False], TYPED)))
def test_types_come_out(spark: SparkSession, tmp_path: Path, name: str, exact: bool) -> None:
    values, kind, middle = TYPED[name]
    pq.write_table(pa.table({"v": values}), tmp_path / "a.parquet")
    for source in (str(tmp_path), spark.read.parquet(str(tmp_path))):
        frame = quantiles(source, "v", 0.5, exact=exact)
        assert frame.schema["value"].dataType.simpleString() == kind
        assert [(row["value"], row["n"]) for row in frame.collect()] == [(middle, 3)]


def test_timestamps(spark: SparkSession, tmp_path: Path) -> None:
    moments = np.array(["2024-01-01", "2024-03-01", "2024-02-01"], dtype="datetime64[us]")
    pq.write_table(pa.table({"v": pa.array(moments, pa.timestamp("us", tz="UTC"))}), tmp_path / "a.parquet")
    for source in (str(tmp_path), spark.read.parquet(str(tmp_path))):
        frame = quantiles(source, "v", 0.5)
        assert frame.schema["value"].dataType.simpleString() == "timestamp"
        text = frame.select(F.date_format("value", "yyyy-MM-dd").alias("day")).collect()
        assert text[0]["day"] == "2024-02-01"


def test_no_rows_and_only_nulls(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"v": pa.array([], pa.float64())}), tmp_path / "empty.parquet")
    pq.write_table(pa.table({"v": pa.array([None, None], pa.float64())}), tmp_path / "nulls.parquet")
    for source in (str(tmp_path / "empty.parquet"), str(tmp_path), spark.read.parquet(str(tmp_path))):
        for exact in (False, True):
            rows = quantiles(source, "v", [0.5], exact=exact).collect()
            assert [(row["value"], row["n"]) for row in rows] == [(None, 0)]
    assert summarize(str(tmp_path), "v").collect()[0]["nulls"] == 2


def test_nan(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"v": [1.0, float("nan"), 3.0]}), tmp_path / "a.parquet")
    with pytest.raises(PythonException, match="NaNError"):
        quantiles(str(tmp_path), "v", 0.5).collect()
    for exact in (False, True):
        rows = quantiles(str(tmp_path), "v", 1.0, nan="skip", exact=exact).collect()
        assert [(row["value"], row["n"]) for row in rows] == [(3.0, 2)]


def test_types_that_differ_between_files(spark: SparkSession, tmp_path: Path) -> None:
    """A narrower type is widened, a column that is missing is null."""
    pq.write_table(pa.table({"v": pa.array([1, 2], pa.int64())}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"v": pa.array([3], pa.int32())}), tmp_path / "b.parquet")
    pq.write_table(pa.table({"w": pa.array([3], pa.int32())}), tmp_path / "c.parquet")
    row = summarize(str(tmp_path), "v").collect()[0]
    assert (row["n"], row["nulls"], row["min"], row["max"]) == (3, 1, 1, 3)


def test_types_that_do_not_fit(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"v": pa.array([1, 2], pa.int64())}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"v": pa.array([0.5])}), tmp_path / "b.parquet")
    with pytest.raises(PythonException, match=r"TypeMismatchError.*b\.parquet"):
        summarize(str(tmp_path), "v").collect()


def test_a_damaged_file_is_named(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"v": [1.0]}), tmp_path / "a.parquet")
    whole = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "b.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises((PythonException, errors.QuantideError), match=r"b\.parquet"):
        quantiles(str(tmp_path), "v", 0.5).collect()


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"column": "w"}, errors.InvalidArgumentError, "no column 'w'"),
        ({"by": "nope"}, errors.InvalidArgumentError, "no column 'nope'"),
        ({"column": "s"}, errors.TypeMismatchError, "string"),
        ({"phis": -0.1}, errors.InvalidArgumentError, "phi"),
        ({"eps": 2}, errors.InvalidArgumentError, "eps"),
        ({"column": []}, errors.InvalidArgumentError, "no column"),
        ({"source": "nowhere/at/all"}, errors.InvalidArgumentError, "nowhere"),
        ({"source": "nowhere/*.parquet"}, errors.InvalidArgumentError, "no file matches"),
    ],
)
def test_bad_questions(
    spark: SparkSession, lake: tuple[Path, pa.Table], change: dict[str, Any], error: type[Exception], text: str
) -> None:
    question: dict[str, Any] = {"source": str(lake[0]), "column": "v", "phis": [0.5], **change}
    with pytest.raises(error, match=text):
        quantiles(**question)


def test_splits_are_balanced_and_small_files_packed(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    pq.write_table(pa.table({"v": rng.random(4_000_000)}), tmp_path / "large.parquet", row_group_size=100_000)
    for i in range(50):
        pq.write_table(pa.table({"v": rng.random(100)}), tmp_path / f"small-{i:02}.parquet")
    storage = StorageOptions()
    files = find_files([str(tmp_path)], storage)
    splits = plan_splits(files, ["v"], 4, storage)
    sizes = [sum(piece.size for piece in split) for split in splits]
    assert 3 <= len(splits) <= 6
    assert max(sizes) <= 1.5 * sum(sizes) / len(sizes) + 1
    assert sum(len(split) for split in splits) <= 50 + len(splits)
    groups = sorted(g for split in splits for piece in split for g in piece.groups or () if "large" in piece.file.uri)
    assert groups == list(range(40))


@pytest.mark.parametrize("small", [1, 8 << 20])
def test_a_file_that_is_named_twice_is_planned_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    monkeypatch.setattr(source_files, "MIN_SPLIT", small)
    pq.write_table(pa.table({"v": np.arange(100.0)}), tmp_path / "a.parquet", row_group_size=10)
    storage = StorageOptions()
    files = find_files([str(tmp_path / "a.parquet")] * 2, storage)
    for cores in (1, 3):
        splits = plan_splits(files, ["v"], cores, storage)
        tables = [table for split in splits for table in read_split(split, ["v"], files.schema, None, storage)]
        assert sorted(pa.concat_tables(tables)["v"].to_pylist()) == np.repeat(np.arange(100.0), 2).tolist()


def test_frame_with_awkward_names(spark: SparkSession) -> None:
    frame: DataFrame = spark.range(100).select(F.col("id").alias("a.b"), (F.col("id") % 2).alias("key`s"))
    rows = quantiles(frame, "a.b", 1.0, by="key`s").orderBy(F.col("`key``s`")).collect()
    assert [row["value"] for row in rows] == [98, 99]


def typed_summaries(spark: SparkSession, partitions: int) -> DataFrame:
    """Hourly summaries of two columns, floats and integers, and an hour without values that has the other type."""
    blobs = [
        *(("price", Summary.of(np.arange(hour, hour + 10) / 2).to_bytes()) for hour in range(4)),
        *(("count", Summary.of(np.arange(hour, hour + 10)).to_bytes()) for hour in range(4)),
        ("count", Summary.of(pa.nulls(3)).to_bytes()),
        ("none", Summary.of(pa.nulls(2)).to_bytes()),
    ]
    return spark.createDataFrame(blobs, "name string, summary binary").repartition(partitions)


@pytest.mark.parametrize("partitions", [1, 5])
def test_summaries_of_several_types_are_merged_by_key(spark: SparkSession, partitions: int) -> None:
    merged = merge_summaries(typed_summaries(spark, partitions), "name").collect()
    found = {row.name: (row.n, row.nulls, Summary.from_bytes(bytes(row.summary))) for row in merged}
    assert len(merged) == len(found) == 3
    assert {name: counts for name, (*counts, _) in found.items()} == {
        "price": [40, 0],
        "count": [40, 3],
        "none": [0, 2],
    }
    values = np.concatenate([np.arange(hour, hour + 10) for hour in range(4)])
    assert found["count"][2] == Summary.merge(Summary.of(values), Summary.of(pa.nulls(3)))
    assert found["price"][2].type.name == "float64"
    assert found["price"][2].quantile(0.5) == np.sort(values)[19] / 2


@pytest.mark.parametrize("partitions", [1, 5])
def test_a_key_has_values_of_one_type(spark: SparkSession, partitions: int) -> None:
    """However Spark distributes the summaries."""
    with pytest.raises(PythonException, match="values of different types, float64 and int64"):
        merge_summaries(typed_summaries(spark, partitions)).collect()


@pytest.mark.parametrize("partitions", [1, 5])
def test_answers_of_a_result_have_one_type(spark: SparkSession, partitions: int) -> None:
    stored = typed_summaries(spark, partitions)
    with pytest.raises(PythonException, match=r"values of types (float64 and int64|int64 and float64)"):
        quantiles_of(stored, 0.5).collect()
    floats = quantiles_of(stored.where("name != 'count'"), 0.5).collect()
    assert sorted((row.name, row.n) for row in floats) == [("none", 0), *[("price", 10)] * 4]
