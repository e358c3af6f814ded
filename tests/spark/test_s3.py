"""In a bucket: one set of storage_options for listing, for Delta's log and for the workers."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from quantide import errors
from quantide.spark import quantiles, summarize
from quantide.store.location import StorageOptions
from tests.object_servers.servers import ObjectServer, aws_names, s3_files
from tests.spark.query_driver import rows_of

pytestmark = pytest.mark.slow

PHIS = [0.1, 0.5, 0.99]


@pytest.fixture(scope="module")
def options(s3_server: ObjectServer) -> dict[str, str]:
    """Options of a server that has one empty bucket."""
    s3_server.create_bucket("bucket")
    return aws_names(s3_server.options)


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    rng = np.random.default_rng(11)
    n = 30_000
    days = pa.array([f"2024-01-0{day}" for day in rng.integers(1, 4, n)])
    values = pa.array(np.round(rng.normal(size=n), 3), mask=rng.random(n) < 0.02)
    return pa.table({"v": values, "k": rng.integers(0, 5, n), "day": days})


@pytest.fixture(scope="module")
def lakes(
    s3_server: ObjectServer, options: dict[str, str], rows: pa.Table, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The same plain files, hive folders and Delta table twice: in the bucket, and here."""
    here, store = tmp_path_factory.mktemp("here"), s3_files(s3_server.options)
    for root, place in ((str(here), pafs.LocalFileSystem()), ("bucket", store)):
        for number in range(3):
            place.create_dir(f"{root}/plain/deep")
            part = rows.slice(number * 10_000, 10_000)
            pq.write_table(part, f"{root}/plain/part-{number}.parquet", filesystem=place, row_group_size=3_000)
        pq.write_table(rows.slice(0, 5), f"{root}/plain/deep/part-9.parquet", filesystem=place)
        flavor = ds.partitioning(pa.schema([("day", pa.string())]), flavor="hive")
        ds.write_dataset(rows, f"{root}/hive", filesystem=place, format="parquet", partitioning=flavor)
    write_deltalake(here / "delta", rows, partition_by=["day"])
    write_deltalake("s3://bucket/delta", rows, partition_by=["day"], storage_options=options)
    return here


@pytest.mark.parametrize(
    "source", ["plain/part-1.parquet", "plain/part-*.parquet", "plain", "hive", "hive/day=*2", "delta"]
)
@pytest.mark.parametrize("exact", [False, True])
def test_answers_are_those_of_local_files(
    spark: SparkSession, options: dict[str, str], lakes: Path, source: str, exact: bool
) -> None:
    here = quantiles(f"{lakes}/{source}", "v", PHIS, by="k", eps=0.01, exact=exact).toArrow()
    there = quantiles(
        f"s3://bucket/{source}", "v", PHIS, by="k", eps=0.01, exact=exact, storage_options=options
    ).toArrow()
    assert there.schema == here.schema
    assert rows_of(there) == rows_of(here)


@pytest.mark.parametrize("source", ["hive", "delta"])
def test_keys_that_only_folders_have(
    spark: SparkSession, options: dict[str, str], lakes: Path, rows: pa.Table, source: str
) -> None:
    summaries = summarize(f"s3a://bucket/{source}/", "v", by="day", eps=0.01, storage_options=options).collect()
    counted = rows.group_by("day").aggregate([("v", "count")]).to_pylist()
    assert {row["day"]: row["n"] for row in summaries} == {row["day"]: row["v_count"] for row in counted}


def test_several_paths_are_one_source(spark: SparkSession, options: dict[str, str], lakes: Path) -> None:
    paths = ["s3://bucket/plain/part-0.parquet", "s3://bucket/plain/part-2.parquet"]
    (row,) = summarize(paths, "v", storage_options=options).collect()
    assert row["n"] + row["nulls"] == 20_000


def test_what_is_not_there_is_named(spark: SparkSession, options: dict[str, str], lakes: Path) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="s3://bucket/nowhere"):
        quantiles("s3://bucket/nowhere", "v", 0.5, storage_options=options)
    with pytest.raises(errors.InvalidArgumentError, match=r"no file matches s3://bucket/plain/\*\.csv"):
        quantiles("s3://bucket/plain/*.csv", "v", 0.5, storage_options=options)
    with pytest.raises(errors.InvalidArgumentError, match="acces_key_id"):
        quantiles("s3://bucket/plain", "v", 0.5, storage_options=options | {"acces_key_id": "x"})


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("plain/*.parquet", ["plain/part-0.parquet", "plain/part-1.parquet", "plain/part-2.parquet"]),
        ("plain/part-[02].parquet", ["plain/part-0.parquet", "plain/part-2.parquet"]),
        ("plain/*/*", ["plain/deep/part-9.parquet"]),
        ("plain/**/part-[19].parquet", ["plain/deep/part-9.parquet", "plain/part-1.parquet"]),
        ("hive/day=2024-01-0[13]", ["hive/day=2024-01-01", "hive/day=2024-01-03"]),
        ("*/part-0.parquet", ["plain/part-0.parquet"]),
    ],
)
def test_patterns_match_what_they_match_in_local_folders(
    options: dict[str, str], lakes: Path, pattern: str, names: list[str]
) -> None:
    assert StorageOptions(options).expand(f"s3://bucket/{pattern}") == [f"s3://bucket/{name}" for name in names]
    assert StorageOptions().expand(f"{lakes}/{pattern}") == [f"{lakes}/{name}" for name in names]
