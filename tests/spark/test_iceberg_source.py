"""Iceberg tables as sources: appended rows are ingested once; other changes are refused or skipped."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from pyspark.sql import SparkSession

from quantide.errors import SourceTableError, StorageError
from tests.object_servers.object_location import ObjectLocation
from tests.spark.process_groups import kill_at
from tests.spark.streams import Feed, configure_options, credentials

S3 = {"s3.endpoint": "endpoint", "s3.access-key-id": "access_key_id", "s3.secret-access-key": "secret_access_key"}


class IcebergFeed(Feed):
    """Feed whose rows are appended to an Iceberg table of a local SQL catalog."""

    def __init__(
        self, folder: Path, settings: str = "", source: str = "", bucket: ObjectLocation | None = None
    ) -> None:
        self.bucket = bucket
        self.catalog_uri = f"sqlite:///{folder}/catalog.db"
        warehouse = f"file://{folder}/warehouse" if bucket is None else f"{bucket.uri}/warehouse"
        properties = {} if bucket is None else {name: bucket.options[option] for name, option in S3.items()}
        self.catalog = SqlCatalog("test", uri=self.catalog_uri, warehouse=warehouse, **properties)
        self.catalog.create_namespace("db")
        schema = pa.schema([("v", pa.float64()), ("k", pa.string()), ("t", pa.float64())])
        self.table: Table = self.catalog.create_table("db.t", schema)
        super().__init__(folder, settings, f'format = "iceberg"{source}')

    def configure(self, settings: str, source: str = 'format = "iceberg"') -> None:
        super().configure(settings, source)
        location = self.table.location().removeprefix("file://")
        text = self.config.read_text().replace('path = "in"', f'path = "{location}"')
        self.config.write_text(text if self.bucket is None else configure_options(text, self.bucket))

    def use_catalog(self, name: str = "db.t") -> None:
        location = self.table.location().removeprefix("file://")
        text = self.config.read_text()
        settings = f'table = "{name}", catalog = {{ name = "test", type = "sql", uri = "{self.catalog_uri}" }}'
        self.config.write_text(text.replace(f'path = "{location}"', settings))

    def append(self, rows: int = 1000) -> None:
        self.table.append(self.make_rows(rows))

    def close(self, *_: Any) -> None:
        self.catalog.close()


@pytest.fixture
def feed(tmp_path: Path) -> Any:
    feed = IcebergFeed(tmp_path, 'keys = ["k"]\nstep = { rows = 1500 }', ", max_files = 1")
    yield feed
    feed.close()


def test_appends(feed: IcebergFeed, spark: SparkSession) -> None:
    feed.append()
    feed.append()
    feed.ingest()
    feed.check()
    feed.append()
    feed.ingest()
    feed.check()


@pytest.mark.slow
def test_a_table_of_a_catalog(feed: IcebergFeed, spark: SparkSession) -> None:
    feed.use_catalog()
    feed.append()
    feed.ingest()
    feed.append()
    feed.ingest()
    feed.check()
    feed.configure('keys = ["k"]')
    feed.use_catalog("db.other")
    with pytest.raises(SourceTableError, match=r"the catalog has no table db\.other"):
        feed.ingest()
    feed.config.write_text(feed.config.read_text().replace(feed.catalog_uri, "sqlite:////nowhere/x.db"))
    with pytest.raises(StorageError, match=r"source\.catalog cannot be reached"):
        feed.ingest()


@pytest.mark.slow
def test_deletes_are_refused_or_skipped(feed: IcebergFeed, spark: SparkSession) -> None:
    feed.append()
    feed.ingest()
    feed.append()
    feed.table.delete("k = 'a'")
    with pytest.raises(SourceTableError, match=r"snapshot \d+ of .* deletes or changes rows \(.*on_change"):
        feed.ingest()
    feed.check()
    feed.configure('keys = ["k"]', 'format = "iceberg", on_change = "skip"')
    feed.append()
    feed.ingest()
    feed.check()


@pytest.mark.slow
def test_where_reading_begins(spark: SparkSession, tmp_path: Path) -> None:
    for start, versions in (("new", []), ("third", [2, 3]), ("all", [0, 1, 2, 3])):
        folder = tmp_path / start
        folder.mkdir()
        feed = IcebergFeed(folder)
        for _ in range(4):
            feed.append()
        number = sorted(feed.table.snapshots(), key=lambda snapshot: snapshot.sequence_number or 0)[2].snapshot_id
        feed.configure("", f'format = "iceberg", start = {number if start == "third" else repr(start)}')
        feed.ingest()
        feed.values = [feed.values[version] for version in versions]
        assert feed.rows == 1000 * len(versions)
        feed.append()
        feed.ingest()
        feed.check()
        feed.close()


@pytest.mark.slow
def test_snapshots_that_expired(feed: IcebergFeed, spark: SparkSession) -> None:
    feed.append()
    feed.ingest()
    first = feed.table.current_snapshot()
    assert first is not None
    for _ in range(2):
        feed.append()
    feed.table.maintenance.expire_snapshots().by_id(first.snapshot_id).commit()
    with pytest.raises(SourceTableError, match=rf"do not reach back to {first.snapshot_id}"):
        feed.ingest()
    feed.configure('keys = ["k"]', 'format = "iceberg", start = "new"')
    feed.ingest(reset=True)
    assert feed.rows == 1000


@pytest.mark.slow
def test_a_renamed_column(feed: IcebergFeed, spark: SparkSession) -> None:
    feed.append()
    with feed.table.update_schema() as update:
        update.rename_column("t", "time")
    with pytest.raises(SourceTableError, match="has renamed the column 't' to 'time'"):
        feed.ingest()


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["ingest.recorded@2", "commit.after@4", "ingest.committed@1"])
def test_killed_anywhere(fault: str, feed: IcebergFeed, spark: SparkSession) -> None:
    for _ in range(3):
        feed.append()
    kill_at(fault, feed)
    feed.append()
    feed.ingest()
    feed.check()


@pytest.mark.slow
def test_a_table_in_object_storage(
    spark: SparkSession, tmp_path: Path, s3_store: ObjectLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in credentials(s3_store).items():
        monkeypatch.setenv(name, value)
    feed = IcebergFeed(tmp_path, "", "", s3_store)
    for _ in range(2):
        feed.append()
        feed.ingest()
    feed.check()
    feed.close()
