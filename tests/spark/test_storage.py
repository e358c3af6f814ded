"""A file that cannot be reached and one that cannot be read raise different errors."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from quantide import History
from quantide.errors import CorruptBytesError, InvalidArgumentError, StorageError
from quantide.spark.source_files import FilePiece, SourceDataFile, find_files, read_split
from quantide.store.location import StorageOptions
from tests.contradicting_parquet import contradicting_files

SCHEMA = pa.schema([("v", pa.float64())])
NOBODY = {
    "AWS_ACCESS_KEY_ID": "a",
    "AWS_SECRET_ACCESS_KEY": "b",
    "AWS_REGION": "us-east-1",
    "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
}


def test_a_bucket_nobody_answers_for() -> None:
    with pytest.raises(StorageError, match=r"s3://bucket/x cannot be reached.*storage_options"):
        find_files(["s3://bucket/x"], StorageOptions(NOBODY))


def test_a_file_that_went_away_while_the_job_ran(tmp_path: Path) -> None:
    piece = FilePiece(SourceDataFile(str(tmp_path / "gone.parquet"), 100), None, 100)
    with pytest.raises(StorageError, match=r"gone\.parquet cannot be reached"):
        list(read_split((piece,), ["v"], SCHEMA, None, StorageOptions()))


def test_a_file_that_is_not_parquet(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"not at all" * 10)
    with pytest.raises(CorruptBytesError, match=r"x\.parquet cannot be read as Parquet"):
        find_files([str(tmp_path / "x.parquet")], StorageOptions())


@pytest.mark.parametrize("where", [None, pc.field("v") > 1.5])
def test_damaged_files_are_named(where: Any, tmp_path: Path) -> None:
    """Files that are cut, and files whose statistics contradict their type, which end the process elsewhere."""
    damaged = [*contradicting_files("v"), b"PAR1", contradicting_files("v")[0][:-9]]
    assert len(damaged) > 10
    path = tmp_path / "x.parquet"
    for data in damaged:
        path.write_bytes(data)
        piece = FilePiece(SourceDataFile(str(path), len(data)), None, len(data))
        with pytest.raises(CorruptBytesError, match=r"x\.parquet cannot be read as Parquet"):
            list(read_split((piece,), ["v"], SCHEMA, where, StorageOptions()))


def test_names_of_columns_that_are_no_text_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"value": [1.0], "name": [2.0]}), tmp_path / "x.parquet", store_schema=False)
    path = tmp_path / "x.parquet"
    path.write_bytes(path.read_bytes().replace(b"name", b"n\xff\xfee"))
    with pytest.raises(CorruptBytesError, match=r"x\.parquet cannot be read as Parquet"):
        find_files([str(path)], StorageOptions())
    with History(tmp_path / "store") as history, pytest.raises(CorruptBytesError, match="cannot be read as Parquet"):
        history.append_files([str(path)], column="value")


def test_several_columns_of_one_name_are_named(tmp_path: Path) -> None:
    pq.write_table(pa.table([[1.0], [2], [3]], names=["value", "x", "x"]), tmp_path / "x.parquet")
    with pytest.raises(InvalidArgumentError, match="several columns of one name; rename all but one"):
        find_files([str(tmp_path / "x.parquet")], StorageOptions())


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="there is no file or folder"):
        find_files([str(tmp_path / "none")], StorageOptions())
