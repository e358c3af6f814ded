"""Listers without Spark: which files they find, and how many requests they need."""

import os
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from quantide.config import Source, StreamConfig, read_config
from quantide.errors import ConfigError
from quantide.spark.stream.file_lister import FileLister
from quantide.spark.stream.folder_lister import LocalFolderLister, ObjectFolderLister
from quantide.spark.stream.listed_batches import FileRemoval
from quantide.spark.stream.micro_batch import BatchWriter
from quantide.spark.stream.stream_source import list_files, list_objects
from quantide.store.batch_record import DONE, BatchRecord, FileRecord, IngestedFile, read_records
from quantide.store.json_fields import integer, one_of
from quantide.store.location import StorageOptions
from quantide.store.object_files import SourceAccess, split_uri
from tests.object_servers.fault_proxy import FaultProxy
from tests.object_servers.object_location import ObjectLocation

HEAD = 'store = "data"\n[streams.s]\nvalue = "v"\nsource = '


class Recorder:
    """Lists again and again, and records all files that were found."""

    def __init__(self, lister: FileLister) -> None:
        self.lister, self.position = lister, ""
        self.recorded: set[str] = set()

    def find(self, root: str) -> list[str]:
        """Return the new names below a root, sorted."""
        listing = self.lister.list_new(self.position, self.recorded.__contains__)
        self.position = listing.position
        new = {file.path for file in listing.files}
        self.recorded |= new
        return sorted(path.removeprefix(root + "/") for path in new)


def touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x")


def local(path: str, **settings: str) -> Recorder:
    source = Source("parquet", path, listing="direct", options=settings)
    return Recorder(LocalFolderLister(StreamConfig("s", "data/s", source, "v")))


def test_new_names_of_a_folder_are_found_once(tmp_path: Path) -> None:
    touch(tmp_path, "a.parquet", "deep/day=1/b.parquet", "_c.parquet", ".d.parquet", "e.tmp", "_hidden/f", "_k=1/g")
    recorder = local(str(tmp_path))
    assert recorder.find(str(tmp_path)) == ["_k=1/g", "a.parquet", "deep/day=1/b.parquet"]
    assert recorder.find(str(tmp_path)) == []
    touch(tmp_path, "deep/day=1/c.parquet", "new/d.parquet")
    assert recorder.find(str(tmp_path)) == ["deep/day=1/c.parquet", "new/d.parquet"]


def test_an_unchanged_folder_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that appears after a scan changes the folder's time, if that was older than the clock's resolution."""
    touch(tmp_path, "a.parquet", "deep/b.parquet")
    long_ago = time.time() - 3600
    for folder in (tmp_path / "deep", tmp_path):
        os.utime(folder, (long_ago, long_ago))
    recorder = local(str(tmp_path))
    assert len(recorder.find(str(tmp_path))) == 2
    assert recorder.find(str(tmp_path)) == []
    scanned: list[str] = []
    scandir = os.scandir

    def scan(path: str) -> Any:
        scanned.append(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", scan)
    assert recorder.find(str(tmp_path)) == []
    assert scanned == []
    touch(tmp_path, "deep/c.parquet")
    assert recorder.find(str(tmp_path)) == ["deep/c.parquet"]
    assert scanned == [str(tmp_path / "deep")]


def test_globs_filters_and_missing_folders(tmp_path: Path) -> None:
    touch(tmp_path, "a/x/1.parquet", "b/x/2.json", "c/x/3.parquet")
    assert local(f"{tmp_path}/{{a,b}}/x").find(str(tmp_path)) == ["a/x/1.parquet", "b/x/2.json"]
    assert local(f"{tmp_path}/*/x", pathGlobFilter="*.parquet").find(str(tmp_path)) == [
        "a/x/1.parquet",
        "c/x/3.parquet",
    ]
    assert local(f"{tmp_path}/none*").find(str(tmp_path)) == []
    with pytest.raises(ConfigError, match="there is no folder"):
        local(f"{tmp_path}/none").find(str(tmp_path))


def test_objects_are_listed_as_files_are(tmp_path: Path, s3_store: ObjectLocation) -> None:
    """The listers return the same names from a bucket and from a folder."""
    names = ["a/x/1.parquet", "b/x/2.json", "c/x/y/3.parquet", "c/_x/4.parquet", "c/5.tmp", "day=1/6.parquet"]
    touch(tmp_path / "in", *names)
    for name in names:
        s3_store.open().put(f"in/{name}", b"x")
    s3_store.open().put("into/7.parquet", b"x")
    access = SourceAccess(s3_store.options)
    for pattern in ("in", "in/*/x", "in/{a,c}/x", "in/**/x", "in/*/x/*.parquet", "in/d*", "nothing"):
        remote = list_objects(Source("parquet", f"{s3_store.uri}/{pattern}"), access)
        here = list_files(Source("parquet", f"{tmp_path}/{pattern}"), StorageOptions())
        expected = sorted(path.removeprefix(f"{tmp_path}/") for path in here)
        assert sorted(file.path.removeprefix(f"{s3_store.uri}/") for file in remote) == expected, pattern


def test_ordered_names_need_one_request(
    s3_store: ObjectLocation, fault_proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A late name is found by the next full listing."""
    source = Source("parquet", f"{s3_store.uri}/in", ordered=True)
    recorder = Recorder(ObjectFolderLister(source, SourceAccess(fault_proxy.redirect(s3_store).options)))
    objects = s3_store.open()
    for number in range(10, 15):
        objects.put(f"in/{number}", b"x")
    root = f"{s3_store.uri}/in"
    assert len(recorder.find(root)) == 5
    objects.put("in/15", b"x")
    objects.put("in/09", b"x")
    fault_proxy.clear()
    assert recorder.find(root) == ["15"]
    assert ["start-after=" in request.query for request in fault_proxy.log] == [True]
    now = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: now() + 10_000)
    assert recorder.find(root) == ["09"]


def test_partition_columns_are_part_of_a_record() -> None:
    files = [IngestedFile("a", 1, 2, (("day", "2026-01-01"), ("k", None))), IngestedFile("b", 1, 2)]
    record = BatchRecord("f0", 3, origin=None, offsets="{}", entries=tuple(map(FileRecord, files)))
    (read,) = read_records(record.to_lines().splitlines(), one_of(("f0",)), integer())
    assert [entry.file.keys for entry in read.entries] == [file.keys for file in files]
    assert replace(files[0], keys=()) == files[0]  # columns are no part of a file's identity


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ('{ format = "delta" }', r"source\.path is missing"),
        ('{ format = "iceberg" }', r"source\.path or .*source\.table names an Iceberg table"),
        ('{ format = "iceberg", table = "a.b" }', r"source\.catalog is missing"),
        ('{ format = "parquet", path = "in", table = "a.b" }', r"source\.table is for Iceberg tables"),
        ('{ format = "parquet", path = "in", start = "new" }', r"source\.start is for tables"),
        ('{ format = "delta", path = "in", start = "last" }', r'source\.start is "last".*Write it as start = "all"'),
        (
            '{ format = "delta", path = "in", after = "delete" }',
            r"source\.after is for folders, and the source is a table",
        ),
        (
            '{ format = "delta", path = "in", on_change = "ignore" }',
            r'source\.on_change is "ignore"; write one of "fail"',
        ),
        ('{ format = "parquet", path = "in", ordered = true }', r"source\.ordered is for folders in object storage"),
        ('{ format = "rate", after = "delete" }', r"source\.after is for folders of files"),
        ('{ format = "parquet", path = "s3://b/x?sig=abc" }', r"source\.path is more than a location"),
        (
            '{ format = "parquet", path = "s3://b/x", storage_options = { secret_access_key = "abc" } }',
            r"source\.storage_options\.secret_access_key is a credential in plain text",
        ),
        (
            '{ format = "iceberg", table = "a.b", catalog = { token = "abc" } }',
            r"source\.catalog\.token is a credential in plain text",
        ),
    ],
)
def test_invalid_sources(source: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "quantide.toml").write_text(HEAD + source)
    with pytest.raises(ConfigError, match=message) as error:
        read_config(tmp_path / "quantide.toml")
    assert "abc" not in str(error.value)


def test_a_file_that_was_replaced_after_it_was_read_is_not_removed(tmp_path: Path) -> None:
    """The file is not removed, because its new rows were never read."""
    touch(tmp_path, "same", "replaced")
    files = local(str(tmp_path)).lister.list_new("", lambda path: False).files
    (tmp_path / "replaced").write_bytes(b"rows that came later")
    stream = SimpleNamespace(source=SimpleNamespace(after="delete"), key="streams.s")
    removal = FileRemoval(cast(BatchWriter, SimpleNamespace(stream=stream, source=StorageOptions())))
    entries = tuple(FileRecord(file, DONE, "") for file in files)
    removal.remove_ingested(cast(BatchRecord, SimpleNamespace(entries=entries)))
    assert [path.name for path in tmp_path.iterdir()] == ["replaced"]


def test_an_object_that_was_replaced_after_it_was_read_is_not_removed(s3_store: ObjectLocation) -> None:
    access = SourceAccess(dict(s3_store.options), False)
    bucket = access.bucket(s3_store.uri)
    folder = split_uri(s3_store.uri)[1]
    for name in ("same", "replaced", "gone"):
        bucket.replace(f"{folder}/{name}".lstrip("/"), b"rows")
    files = [
        IngestedFile(file.name, file.size, round(file.modified * 1000)) for file in access.list_below(s3_store.uri)
    ]
    assert len(files) == 3
    bucket.replace(f"{folder}/replaced".lstrip("/"), b"rows that came later")
    bucket.remove(f"{folder}/gone".lstrip("/"))
    access.remove_unchanged(files)
    assert [file.name.rpartition("/")[2] for file in access.list_below(s3_store.uri)] == ["replaced"]
