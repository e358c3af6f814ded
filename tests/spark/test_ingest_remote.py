"""A stream whose store is in object storage: same guarantees, whatever happens to the driver and its disk."""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from quantide import History
from quantide.cli import main
from quantide.spark.history_build import build_history
from quantide.spark.stream import micro_batch, read_plan
from tests.object_servers.object_location import ObjectLocation
from tests.object_servers.servers import s3_files
from tests.spark.streams import Feed, credentials

Out = pytest.CaptureFixture[str]
CSV = 'format = "csv", schema = "v DOUBLE, k STRING", options = { header = true }'


@pytest.fixture
def store(s3_store: ObjectLocation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ObjectLocation:
    """A bucket, and a machine without any state."""
    monkeypatch.setenv("QUANTIDE_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("QUANTIDE_CACHE", str(tmp_path / "cache"))
    for name, value in credentials(s3_store).items():
        monkeypatch.setenv(name, value)
    return s3_store


def names(store: ObjectLocation) -> list[str]:
    return [meta["path"] for page in store.open().list() for meta in page]


def write_lines(feed: Feed, name: str, rows: int) -> None:
    """Write a CSV file whose third and last lines are bad."""
    values = feed.rng.normal(size=rows)
    lines = ["v,k", *(f"{value!r},a" for value in values.tolist())]
    lines.insert(2, "x,a")
    (feed.incoming / name).write_text("\n".join([*lines, "1.0,a,b"]))
    feed.values.append(values)
    feed.keys += ["a"] * rows


def test_a_stream_moves_to_another_machine(spark: SparkSession, tmp_path: Path, store: ObjectLocation) -> None:
    feed = Feed(tmp_path, 'keys = ["k"]\nstep = { rows = 1500 }', 'format = "parquet", max_files = 1', store)
    for number in range(2):
        feed.write(f"{number}.parquet")
    feed.ingest()
    feed.check()
    assert not (tmp_path / "data").exists()
    shutil.rmtree(tmp_path / "state")
    feed.write("2.parquet")
    feed.ingest()
    feed.check()
    (checkpoint,) = (tmp_path / "state").glob("*/_quantide/checkpoints/*")
    assert checkpoint.name.startswith("c1x")
    assert not any("checkpoints" in name for name in names(store))
    feed.ingest(reset=True)
    feed.check()


@pytest.mark.slow
@pytest.mark.parametrize("few", [100_000, 10])
def test_text_and_quarantine(
    few: int, spark: SparkSession, tmp_path: Path, store: ObjectLocation, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    """Spark reads the lines; many rows are staged in the store. Bad lines are listed with their numbers."""
    monkeypatch.setattr(read_plan, "MAX_TABLE_ROWS", few)
    monkeypatch.setattr(micro_batch, "LOCAL_BYTES", 0)
    feed = Feed(tmp_path, 'keys = ["k"]', CSV, store)
    write_lines(feed, "0.csv", 100)
    write_lines(feed, "1.csv", 50)
    feed.ingest()
    history = feed.history()
    assert history.n == 150
    assert history.quantile(1, "exact", key="a") == max(values.max() for values in feed.values)
    assert not any("staging" in name for name in names(store))
    assert sum("quarantine" in name for name in names(store)) > 0
    assert main(["quarantine", "list", str(feed.config), "--json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)["streams"]
    lines = {(Path(group["path"]).name, row["line"]) for group in listed["rows"] for row in group["examples"]}
    assert lines == {("0.csv", 3), ("0.csv", 103), ("1.csv", 3), ("1.csv", 53)}
    assert main(["quarantine", "retry", str(feed.config), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["streams"] == [
        {"stream": "s", "rows": 0, "held_files": 0, "held_rows": 4}
    ]


@pytest.mark.slow
@pytest.mark.parametrize("value", ["v", "CAST(v AS DOUBLE) * 2"])
def test_rows_of_the_quarantine_are_ingested_later(
    value: str, spark: SparkSession, tmp_path: Path, store: ObjectLocation, capsys: Out
) -> None:
    """Arrow or Spark reads the quarantined rows; Spark cannot read files of the store itself."""
    feed = Feed(tmp_path, f'value = "{value}"\ntime = "t"\nlate = "quarantine"\nlate_after = "1 min"', location=store)
    for number, time in enumerate([1000.0, 900.0, 800.0]):
        pq.write_table(pa.table({"v": [float(number)], "t": [time]}), feed.incoming / f"{number}.parquet")
        feed.ingest()
    assert feed.history().n == 1
    assert main(["quarantine", "retry", str(feed.config)]) == 0
    assert "2 rows taken in" in capsys.readouterr().out
    assert feed.history().quantile(1, "exact") == (2.0 if value == "v" else 4.0)
    assert not any("quarantine/" in name for name in names(store))


@pytest.mark.slow
def test_a_build_with_options_of_its_own(spark: SparkSession, tmp_path: Path, store: ObjectLocation) -> None:
    """Build from a folder or a bucket, into a folder or a bucket; by default both have the same options."""
    table = pa.table({"v": [float(number) for number in range(1000)]})
    pq.write_table(table, tmp_path / "lake.parquet")
    pq.write_table(table, f"{store.uri.removeprefix('s3://')}/lake.parquet", filesystem=s3_files(store.options))
    here, there = str(tmp_path / "lake.parquet"), f"{store.uri}/lake.parquet"
    uri, options = f"{store.uri}/built", store.options
    for number, (source, path, source_options, store_options) in enumerate(
        [
            (here, f"{uri}-0", options, None),
            (here, f"{uri}-1", None, options),
            (there, f"{uri}-2", options, None),
            (there, str(tmp_path / "built-3"), options, None),
        ]
    ):
        with build_history(spark, source, path, storage_options=source_options, store_options=store_options) as history:
            assert (number, history.verify().values, history.quantile(1, "exact")) == (number, 1000, 999.0)


@pytest.mark.slow
def test_commands_and_credentials(spark: SparkSession, tmp_path: Path, store: ObjectLocation, capsys: Out) -> None:
    """Commands that take a URI; no credential is in any output, nor in any object of the store."""
    feed = Feed(tmp_path, location=store)
    feed.write("0.parquet")
    output = feed.ingest()
    path = f"{store.uri}/data/s"
    named = store.options | {"access_key_id": "env:FEED_KEY", "secret_access_key": "env:FEED_SECRET"}
    options = [f"--storage-option={name}={value}" for name, value in named.items()]
    for command in (["quantile", path, "0.5"], ["history", path], ["history", "verify", path]):
        assert main([*command, *options, "--json"]) == 0
    for name in ("repair", "clock", "restore"):
        assert main(["history", name, path, *options]) == 0
    assert main(["history", "build", str(feed.incoming), f"{store.uri}/built", "--column", "v", *options]) == 0
    with History(f"{store.uri}/built", storage_options=store.options) as built:
        assert built.verify().values == 1000
        assert built.quantile(0.5, "exact") == feed.history().quantile(0.5, "exact")
    shown = output + capsys.readouterr().out
    secret = store.options["secret_access_key"]
    assert secret not in shown
    objects = store.open()
    assert [name for name in names(store) if secret.encode() in bytes(objects.get(name).bytes())] == []
