"""Folders in object storage as sources: files are found, read and removed without any jar of Spark."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from quantide.cli import main
from quantide.errors import CheckpointError, ConfigError, StorageError
from quantide.store import object_storage
from tests.object_servers.fault_proxy import FaultProxy
from tests.object_servers.faults import slow_down
from tests.object_servers.object_location import ObjectLocation
from tests.spark.process_groups import kill_at
from tests.spark.streams import Feed, configure_options, credentials

Out = pytest.CaptureFixture[str]


class ObjectFeed(Feed):
    """Feed whose files are objects of a bucket; its store is a folder."""

    def __init__(self, folder: Path, bucket: ObjectLocation, settings: str = "", source: str = 'format = "parquet"'):
        self.bucket = bucket
        super().__init__(folder, settings, source)

    def configure(self, settings: str, source: str = 'format = "parquet"') -> None:
        super().configure(settings, source)
        text = self.config.read_text().replace('path = "in"', f'path = "{self.bucket.uri}/in"')
        self.config.write_text(configure_options(text, self.bucket))

    def write(self, name: str, rows: int = 1000, **more: Any) -> Path:
        path = super().write(name, rows, **more)
        self.put(name, path.read_bytes())
        return path

    def put(self, name: str, data: bytes) -> None:
        self.bucket.open().put(f"in/{name}", data)

    @property
    def objects(self) -> list[str]:
        return sorted(meta["path"].removeprefix("in/") for page in self.bucket.open().list("in") for meta in page)


@pytest.fixture
def bucket(s3_store: ObjectLocation, monkeypatch: pytest.MonkeyPatch) -> ObjectLocation:
    for name, value in credentials(s3_store).items():
        monkeypatch.setenv(name, value)
    return s3_store


def test_files_are_ingested_once_and_removed(spark: SparkSession, tmp_path: Path, bucket: ObjectLocation) -> None:
    feed = ObjectFeed(tmp_path, bucket, 'keys = ["k"]\nstep = { rows = 1500 }', 'format = "parquet", after = "delete"')
    feed.write("a.parquet")
    feed.write("day=1/b.parquet")
    feed.put("half.parquet.tmp", b"PAR1")
    feed.ingest()
    feed.check()
    assert feed.objects == ["half.parquet.tmp"]
    feed.write("0.parquet")  # sorts before the others
    feed.put("bad.parquet", b"not Parquet")
    feed.ingest()
    feed.check()
    assert feed.objects == ["bad.parquet", "half.parquet.tmp"]
    assert not list(tmp_path.glob("data/s/_quantide/checkpoints/*"))


def test_lines_of_json(spark: SparkSession, tmp_path: Path, bucket: ObjectLocation, capsys: Out) -> None:
    """Spark reads copies of the objects; rows keep the names of their objects."""
    feed = ObjectFeed(tmp_path, bucket, "", 'format = "json", schema = "v DOUBLE"')
    feed.put("a.json", b'{"v": 1.5}\nnot JSON\n{"v": 2.5}\n')
    feed.put("b.json", b'{"w": 1}\n')
    feed.ingest()
    assert feed.history().n == 2
    assert main(["quarantine", "list", str(feed.config), "--json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)["streams"]
    assert [file["path"] for file in listed["files"]] == [f"{bucket.uri}/in/b.json"]
    (group,) = listed["rows"]
    assert (group["path"], group["examples"][0]["line"]) == (f"{bucket.uri}/in/a.json", 2)


@pytest.mark.slow
def test_csv_files_in_folders(spark: SparkSession, tmp_path: Path, bucket: ObjectLocation) -> None:
    feed = ObjectFeed(
        tmp_path, bucket, 'keys = ["day"]', 'format = "csv", schema = "v DOUBLE", options = { header = true }'
    )
    for day in range(3):
        values = feed.rng.normal(size=100)
        feed.put(f"day={day}/x.csv", "\n".join(["t,v", *(f"0,{value!r}" for value in values.tolist())]).encode())
        feed.values.append(values)
    feed.ingest()
    history = feed.history()
    assert history.n == 300
    assert history.quantile(1, "exact", key="1") == feed.values[1].max()


@pytest.mark.slow
@pytest.mark.parametrize("expression", ["v", "CAST(v AS DOUBLE) * 1"])
def test_sql_expressions_and_globs(
    expression: str, spark: SparkSession, tmp_path: Path, bucket: ObjectLocation
) -> None:
    feed = ObjectFeed(tmp_path, bucket, f'value = "{expression}"')
    feed.config.write_text(feed.config.read_text().replace('/in"', '/in/{a,b*}/x"'))
    for name in ("a/x/1.parquet", "bb/x/2.parquet"):
        (feed.incoming / name).parent.mkdir(parents=True)
        feed.write(name)
    feed.put("c/x/3.parquet", b"not listed")
    feed.ingest()
    feed.check()
    feed.ingest()
    feed.check()


@pytest.mark.slow
def test_ordered_names_and_late_ones(
    spark: SparkSession, tmp_path: Path, bucket: ObjectLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restart lists all names once, and finds a name that sorts before the last one."""
    feed = ObjectFeed(tmp_path, bucket, "", 'format = "parquet", ordered = true, max_files = 2')
    for number in range(5):
        feed.write(f"{number}.parquet")
    feed.ingest()
    feed.check()
    feed.write("0-late.parquet")
    feed.write("9.parquet")
    feed.ingest()
    feed.check()


@pytest.mark.slow
def test_azure(spark: SparkSession, tmp_path: Path, start_object_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    location = start_object_server("azurite").new_location()
    monkeypatch.setenv("FEED_ACCOUNT_KEY", location.options["account_key"])
    feed = ObjectFeed(
        tmp_path, ObjectLocation(location.uri, location.options), "", 'format = "parquet", after = "delete"'
    )
    text = feed.config.read_text().replace(location.options["account_key"], "env:FEED_ACCOUNT_KEY")
    feed.config.write_text(text)
    feed.write("a.parquet")
    feed.write("b.parquet")
    feed.ingest()
    feed.check()
    assert feed.objects == []


@pytest.mark.slow
def test_a_server_that_fails_for_a_while(
    spark: SparkSession,
    tmp_path: Path,
    bucket: ObjectLocation,
    fault_proxy: FaultProxy,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Failed requests are repeated. If all fail, no file is put on hold, and the next run ingests everything."""
    monkeypatch.setattr(object_storage, "FIRST_PAUSE", 0.01)
    feed = ObjectFeed(tmp_path, fault_proxy.redirect(bucket))
    feed.bucket = bucket
    feed.write("a.parquet")
    feed.write("b.parquet")
    fault_proxy.inject(slow_down(), "GET", times=2)
    fault_proxy.inject(slow_down(), "GET", "b.parquet", times=None)
    with pytest.raises(StorageError, match=r"in/b\.parquet cannot be reached"):
        feed.ingest()
    assert feed.rows == 0
    fault_proxy.clear()
    feed.ingest()
    feed.check()


@pytest.mark.slow
def test_credentials_that_are_missing(
    spark: SparkSession, tmp_path: Path, bucket: ObjectLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = ObjectFeed(tmp_path, bucket)
    monkeypatch.setenv("FEED_SECRET", "wrong")
    with pytest.raises(StorageError, match="access was refused"):
        feed.ingest()
    monkeypatch.delenv("FEED_SECRET")
    with pytest.raises(ConfigError, match="the environment variable FEED_SECRET is not set"):
        feed.ingest()


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    ["write.data@2", "ingest.recorded@2", "commit.before@4", "commit.after@4", "ingest.committed@2", "source.remove@2"],
)
def test_killed_anywhere(fault: str, spark: SparkSession, tmp_path: Path, bucket: ObjectLocation) -> None:
    """A driver dies at a point; the next one ingests every file once, and removes all of them."""
    feed = ObjectFeed(tmp_path, bucket, 'keys = ["k"]', 'format = "parquet", max_files = 1, after = "delete"')
    for number in range(3):
        feed.write(f"{number}.parquet")
    kill_at(fault, feed)
    feed.ingest()
    feed.check()
    assert feed.objects == []


@pytest.mark.slow
def test_a_local_folder_is_listed_without_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Files are removed after their commit; one that changed, and those that cannot be read, stay."""
    feed = Feed(tmp_path, "", 'format = "parquet", after = "delete"')
    feed.write("a.parquet")
    feed.write("deep/b.parquet")
    (feed.incoming / "empty.parquet").touch()
    (feed.incoming / "_hidden.parquet").write_bytes(b"x")
    feed.ingest()
    feed.check()
    assert sorted(path.name for path in feed.incoming.rglob("*.parquet")) == ["_hidden.parquet", "empty.parquet"]
    (feed.incoming / "a.parquet").write_bytes(b"a name that was used before")
    feed.write("c.parquet")
    feed.ingest()
    feed.check()
    assert (feed.incoming / "a.parquet").exists()


@pytest.mark.slow
def test_a_stream_changes_between_spark_and_the_lister(spark: SparkSession, tmp_path: Path) -> None:
    """Files that one of them ingested are in the store for the other."""
    feed = Feed(tmp_path)
    feed.write("0.parquet")
    feed.ingest()
    feed.configure("", 'format = "parquet", listing = "direct"')
    feed.write("1.parquet")
    feed.ingest()
    feed.check()
    feed.configure("", 'format = "parquet"')
    feed.write("2.parquet")
    with pytest.raises(CheckpointError, match="pass --reset"):
        feed.ingest()
    feed.ingest(reset=True)
    feed.check()
