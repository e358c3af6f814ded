"""Rows that Spark computes become files of the store through its storage; a failed task leaves no trace."""

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from quantide.errors import StorageError
from quantide.spark.source_files import open_file
from quantide.spark.stream.row_origin import BLOCK, ROW, SOURCE_FILE
from quantide.spark.stream.staged_rows import clear_staging, read_stored_files, remove_staged, stage_rows
from quantide.store.file_names import STAGING
from quantide.store.folder_storage import FolderStorage

Row = dict[str, Any]


def read_staged(storage: FolderStorage, names: list[str]) -> list[Row]:
    rows: list[Row] = []
    for name in names:
        with open_file(storage, name) as file:
            rows += pq.read_table(file).to_pylist()
    return rows


def test_all_rows_are_staged_in_files_of_bounded_size(spark: SparkSession, tmp_path: Path) -> None:
    storage = FolderStorage(str(tmp_path))
    frame = spark.range(0, 100_000, 1, 3).select(
        F.col("id").alias("v"),
        F.col("id").alias(ROW),
        F.when(F.col("id") < 40_000, "a").otherwise("b").alias(SOURCE_FILE),
        F.when(F.col("id") < 90_000, 0).otherwise(77).alias(BLOCK),
    )
    staged = stage_rows(frame, storage, "c0-5", file_size=150_000)
    assert len(staged.files) >= 9, "of three tasks, to which Spark sends at most 10,000 rows at a time"
    assert sorted(row["v"] for row in read_staged(storage, [file.uri for file in staged.files])) == [*range(100_000)]
    assert {file.uri: file.size for file in staged.files} == {
        file.name: file.size for file in storage.list_files(STAGING)
    }
    assert sorted(staged.blocks, key=lambda block: block["first"]) == [
        {"path": "a", "block": 0, "first": 0, "rows": 40_000},
        {"path": "b", "block": 0, "first": 40_000, "rows": 50_000},
        {"path": "b", "block": 77, "first": 90_000, "rows": 10_000},
    ]
    remove_staged(storage, "c1")
    assert len(storage.list_files(STAGING)) == len(staged.files), "they are those of another writer's batches"
    remove_staged(storage, "c0")
    assert list((tmp_path / STAGING).iterdir()) == []


def test_no_rows_are_no_files(spark: SparkSession, tmp_path: Path) -> None:
    staged = stage_rows(spark.range(0, 0, 1, 2), FolderStorage(str(tmp_path)), "c0-0")
    assert (staged.files, staged.blocks) == ((), [])


def test_a_store_that_cannot_be_written_is_named(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "_quantide").write_text("not a folder")
    with pytest.raises(StorageError, match=r"_quantide/staging/c0-0-.*cannot be written"):
        stage_rows(spark.range(10), FolderStorage(str(tmp_path)), "c0-0")


def test_files_of_a_process_that_was_killed_are_removed(tmp_path: Path) -> None:
    """clear_staging() removes files of a killed process, also a folder of an earlier version and a temporary file."""
    (tmp_path / STAGING / "c0-9").mkdir(parents=True)
    for name in ("c0-9/part-0.parquet", "c0-8-x.parquet", f"c0-7.parquet.{'0' * 32}.tmp"):
        (tmp_path / STAGING / name).write_bytes(b"PAR1")
    clear_staging(FolderStorage(str(tmp_path)))
    assert not (tmp_path / STAGING).exists()
    clear_staging(FolderStorage(str(tmp_path)))


def test_files_of_a_store_as_frames(spark: SparkSession, tmp_path: Path) -> None:
    """A store's files are read as one frame for each schema, with the types that Spark reads."""
    time = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
    columns = {
        "text": pa.array(["x", "y", None]).dictionary_encode(),
        "time": pa.array([time] * 3, pa.timestamp("ms", "UTC")),
        "local": pa.array([time.replace(tzinfo=None)] * 3, pa.timestamp("us")),
        "number": pa.array([1, 2, 3], pa.uint32()),
        "large": pa.array([1, 2, 2**64 - 1], pa.uint64()),
        "long": pa.array(["x", "y", "z"], pa.large_string()),
    }
    for name, table in {"a": pa.table(columns), "b": pa.table(columns), "c": pa.table({"v": [1.5]})}.items():
        pq.write_table(table, tmp_path / f"{name}.parquet")
    frames = read_stored_files(spark, FolderStorage(str(tmp_path)), ["a.parquet", "b.parquet", "c.parquet"])
    assert [frame.count() for frame in frames] == [6, 1]
    by_spark = spark.read.parquet(str(tmp_path / "a.parquet"), str(tmp_path / "b.parquet"))
    assert frames[0].dtypes == by_spark.dtypes
    assert sorted(map(str, frames[0].collect())) == sorted(map(str, by_spark.collect()))
