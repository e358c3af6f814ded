"""Delta tables as sources: appended rows are ingested once; other changes are refused or skipped."""

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from quantide.config import read_config
from quantide.errors import CheckpointError, SourceTableError
from quantide.spark.stream.delta_lister import DeltaLister
from tests.object_servers.object_location import ObjectLocation
from tests.object_servers.servers import aws_names
from tests.spark.process_groups import kill_at
from tests.spark.streams import Feed, configure_options, credentials


class DeltaFeed(Feed):
    """Feed whose rows are appended to a Delta table, in a folder or in object storage."""

    def __init__(
        self, folder: Path, settings: str = "", source: str = "", bucket: ObjectLocation | None = None
    ) -> None:
        self.bucket = bucket
        self.table = str(folder / "in" / "table") if bucket is None else f"{bucket.uri}/table"
        self.options = None if bucket is None else aws_names(bucket.options)
        super().__init__(folder, settings, f'format = "delta"{source}')

    def configure(self, settings: str, source: str = 'format = "delta"') -> None:
        super().configure(settings, source)
        text = self.config.read_text().replace('path = "in"', f'path = "{self.table}"')
        self.config.write_text(text if self.bucket is None else configure_options(text, self.bucket))

    def append(self, rows: int = 1000, by: list[str] | None = None, **how: Any) -> None:
        """Append rows to the table, as one version."""
        table = self.make_rows(rows)
        write_deltalake(self.table, table, mode="append", partition_by=by, storage_options=self.options, **how)

    def open(self) -> DeltaTable:
        return DeltaTable(self.table, storage_options=self.options)


def test_appends_and_compactions(spark: SparkSession, tmp_path: Path) -> None:
    """Ingest a table partitioned by a key, which only the log has; a compaction adds no rows."""
    feed = DeltaFeed(tmp_path, 'keys = ["k"]\nstep = { rows = 1500 }', ", max_files = 2")
    feed.append(by=["k"])
    feed.append()
    feed.ingest()
    feed.check()
    feed.open().optimize.compact()
    feed.append()
    feed.ingest()
    feed.check()
    assert not list(tmp_path.glob("data/s/_quantide/checkpoints/*"))


@pytest.mark.slow
def test_deletes_are_refused_or_skipped(spark: SparkSession, tmp_path: Path) -> None:
    feed = DeltaFeed(tmp_path)
    feed.append()
    feed.ingest()
    feed.append()
    feed.open().delete("k = 'a'")
    with pytest.raises(SourceTableError, match=r"version 2 of .* deletes or changes rows \(DELETE\).*on_change"):
        feed.ingest()
    feed.check()  # rows of the version before it are in the store
    feed.configure("", 'format = "delta", on_change = "skip"')
    feed.append()
    feed.ingest()
    feed.check()


@pytest.mark.slow
def test_where_reading_begins(spark: SparkSession, tmp_path: Path) -> None:
    for start, versions in (('"new"', []), ("2", [2, 3]), ('"all"', [0, 1, 2, 3])):
        folder = tmp_path / start.strip('"')
        folder.mkdir()
        feed = DeltaFeed(folder, "", f", start = {start}")
        for _ in range(4):
            feed.append()
        feed.ingest()
        feed.values = [feed.values[version] for version in versions]
        assert feed.rows == 1000 * len(versions)
        feed.append()
        feed.ingest()
        feed.check()


@pytest.mark.slow
def test_a_table_that_begins_with_deleted_rows(spark: SparkSession, tmp_path: Path) -> None:
    """The first files are those of the newest version, by a checkpoint and the entries after it."""
    feed = DeltaFeed(tmp_path)
    feed.append()
    feed.open().delete("v > 0")
    feed.open().create_checkpoint()
    feed.append()
    feed.values[0] = feed.values[0][feed.values[0] <= 0]
    feed.ingest()
    feed.check()


@pytest.mark.slow
def test_a_log_that_was_trimmed(spark: SparkSession, tmp_path: Path) -> None:
    feed = DeltaFeed(tmp_path)
    feed.append()
    feed.ingest()
    for _ in range(3):
        feed.append()
    feed.open().create_checkpoint()
    for version in range(3):
        Path(feed.table, "_delta_log", f"{version:020}.json").unlink()
    with pytest.raises(SourceTableError, match=r"begins with version 3, and the store needs it from version 1 on"):
        feed.ingest()
    assert feed.rows == 1000
    with pytest.raises(CheckpointError, match="--allow-duplicates"):
        feed.ingest(reset=True)
    feed.configure("", 'format = "delta", start = "new"')
    feed.ingest(reset=True)
    feed.values = [feed.values[0]]
    feed.append()
    feed.ingest()
    feed.check()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("action", "message"),
    [
        ({"add": {"path": "x.parquet", "size": 1, "deletionVector": {"storageType": "u"}}}, "has a deletion vector"),
        ({"metaData": {"id": "ID", "configuration": {"delta.columnMapping.mode": "name"}}}, "maps its columns"),
        ({"protocol": {"minReaderVersion": 3, "readerFeatures": ["variantType"]}}, "reader features variantType"),
        ({"metaData": {"id": "other", "configuration": {}}}, r"is another table \(other\)"),
    ],
)
def test_tables_that_cannot_be_followed(
    action: dict[str, Any], message: str, spark: SparkSession, tmp_path: Path
) -> None:
    feed = DeltaFeed(tmp_path)
    feed.append()
    feed.ingest()
    text = json.dumps(action).replace('"ID"', json.dumps(str(feed.open().metadata().id)))
    Path(feed.table, "_delta_log", f"{1:020}.json").write_text(text)
    with pytest.raises(SourceTableError, match=message):
        feed.ingest()
    feed.check()


@pytest.mark.slow
def test_there_is_no_table(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(SourceTableError, match="there is no Delta table at"):
        DeltaFeed(tmp_path).ingest()


@pytest.mark.slow
def test_partition_columns_of_expressions_and_quarantine(spark: SparkSession, tmp_path: Path) -> None:
    """Spark computes the value; a file that was damaged keeps its partition columns until it is repaired."""
    feed = DeltaFeed(tmp_path, 'value = "CAST(v AS DOUBLE) + 0"\nkeys = ["k"]')
    feed.append(by=["k"])
    feed.ingest()
    feed.check()
    feed.append()
    newest = sorted(Path(feed.table, "k=b").glob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)[-1]
    content = newest.read_bytes()
    newest.write_bytes(b"damaged")
    feed.ingest()
    assert feed.rows < 2000
    newest.write_bytes(content)
    feed.configure('value = "v"\nkeys = ["k"]')
    feed.ingest()
    feed.check()


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["write.data@2", "ingest.recorded@2", "commit.after@4", "ingest.committed@1"])
def test_killed_anywhere(fault: str, spark: SparkSession, tmp_path: Path) -> None:
    feed = DeltaFeed(tmp_path, "", ", max_files = 1")
    for _ in range(3):
        feed.append()
    kill_at(fault, feed)
    feed.ingest()
    feed.check()
    feed.append()
    feed.ingest()
    feed.check()


@pytest.mark.slow
def test_a_compaction_after_a_crash_in_the_first_version(spark: SparkSession, tmp_path: Path) -> None:
    """The stream continues with the version that it began with, whose files are in no other version."""
    feed = DeltaFeed(tmp_path, "", ", max_files = 1")
    for _ in range(3):
        feed.append()
    kill_at("ingest.committed@1", feed)
    feed.open().optimize.compact()
    feed.append()
    feed.ingest()
    feed.check()


@pytest.mark.slow
def test_a_table_in_object_storage(
    spark: SparkSession, tmp_path: Path, s3_store: ObjectLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in credentials(s3_store).items():
        monkeypatch.setenv(name, value)
    feed = DeltaFeed(tmp_path, 'keys = ["k"]', "", s3_store)
    for _ in range(3):
        feed.append(by=["k"])
        feed.ingest()
    feed.check()


def delta_lister(folder: Path) -> DeltaLister:
    config = folder / "lister.toml"
    config.write_text('store = "d"\n[streams.s]\nsource = { format = "delta", path = "t" }\nvalue = "x"\n')
    return DeltaLister(read_config(config).streams["s"])


def test_a_table_that_is_replaced_while_it_is_followed(tmp_path: Path) -> None:
    table = pa.table({"x": [1.0]})
    for _ in range(2):
        write_deltalake(tmp_path / "t", table, mode="append")
    lister = delta_lister(tmp_path)
    position = lister.list_new("", lambda path: False).position
    assert lister.list_new(position, lambda path: False).files == ()
    shutil.rmtree(tmp_path / "t")
    write_deltalake(tmp_path / "t", table.append_column("y", pa.array(["longer than the entry before"])))
    for _ in range(3):  # the versions after the position are those of another table
        with pytest.raises(SourceTableError, match="is another table"):
            lister.list_new(position, lambda path: False)
        write_deltalake(tmp_path / "t", table, mode="append", schema_mode="merge")


def test_a_deletion_vector_in_an_entry_that_adds_before_it_removes(tmp_path: Path) -> None:
    """The file is still part of the table, so it is refused, not left out."""
    write_deltalake(tmp_path / "t", pa.table({"x": [1.0, 2.0]}))
    entry = tmp_path / "t" / "_delta_log" / f"{0:020}.json"
    add = next(action["add"] for line in entry.read_text().splitlines() if "add" in (action := json.loads(line)))
    vector = {"storageType": "u", "pathOrInlineDv": "x", "offset": 1, "sizeInBytes": 1, "cardinality": 1}
    removal = {"remove": {"path": add["path"], "dataChange": True, "deletionTimestamp": 1}}
    actions = [{"add": add | {"deletionVector": vector}}, removal]
    entry.with_name(f"{1:020}.json").write_text("\n".join(map(json.dumps, actions)))
    with pytest.raises(SourceTableError, match="deletion vector"):
        delta_lister(tmp_path).list_new("", lambda path: False)
