"""Files that Spark alone would lose or misread: empty, filled later, appended to, replaced, removed; wrong columns."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from quantide import History
from quantide.cli import main
from quantide.errors import ConfigError
from quantide.store.ingest_status import INGEST_STATUS
from tests.contradicting_parquet import contradicting_file
from tests.spark.process_groups import environment, finish, running, wait_until
from tests.spark.streams import Feed

Out = pytest.CaptureFixture[str]


def list_quarantine(feed: Feed, capsys: Out) -> Any:
    capsys.readouterr()
    assert main(["quarantine", "list", str(feed.config), "--json"]) == 0
    return json.loads(capsys.readouterr().out)["streams"][0]


def named(files: list[dict[str, str]]) -> dict[str, str]:
    return {Path(file["path"]).name: file["reason"] for file in files}


def test_a_file_that_is_empty_and_filled_later(spark: SparkSession, tmp_path: Path, capsys: Out) -> None:
    """Spark skips an empty file for ever: it waits, by its name, and is ingested when it is complete."""
    feed = Feed(tmp_path)
    feed.write("0.parquet")
    path = feed.write("1.parquet")
    whole = path.read_bytes()
    path.write_bytes(b"")
    assert "1 file waiting" in feed.ingest()
    assert named(list_quarantine(feed, capsys)["waiting"])["1.parquet"].startswith("it is empty")
    assert "1 file waiting" in feed.ingest(), "as long as it is empty"
    path.write_bytes(whole)
    feed.ingest()
    feed.check()
    assert list_quarantine(feed, capsys)["waiting"] == []
    feed.ingest(reset=True)
    feed.check()


@pytest.mark.slow
def test_a_contradicting_footer_does_not_end_ingestion(spark: SparkSession, tmp_path: Path, capsys: Out) -> None:
    feed = Feed(tmp_path)
    feed.write("0.parquet")
    (feed.incoming / "1.parquet").write_bytes(contradicting_file("v"))
    for _ in range(2):
        feed.ingest()
        feed.check()
    assert "contradict" in named(list_quarantine(feed, capsys)["files"])["1.parquet"]


@pytest.mark.slow
def test_a_file_that_is_filled_while_the_driver_runs(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path)
    path = feed.write("0.parquet")
    whole = path.read_bytes()
    path.write_bytes(b"")
    log = tmp_path / "driver.log"
    command = [sys.executable, "-m", "quantide", "ingest", str(feed.config), "--master", "local[2]", "--json"]
    records = feed.store / "_quantide" / "sources"
    with running(command, log, environment()) as driver:
        wait_until(lambda: records.exists() and any(records.iterdir()), [driver], log)
        path.write_bytes(whole)
        wait_until(lambda: History(feed.store).n == 1000, [driver], log)
        os.kill(driver.pid, signal.SIGTERM)
        finish(driver, log)
    feed.check()


@pytest.mark.slow
def test_a_signal_to_the_process_group(tmp_path: Path) -> None:
    """Signal the process group, as a shell does: Java ignores the signal, and the command ends in order."""
    feed = Feed(tmp_path)
    feed.write("0.parquet")
    log = tmp_path / "driver.log"
    command = [sys.executable, "-m", "quantide", "ingest", str(feed.config), "--master", "local[2]", "--json"]
    status = feed.store / INGEST_STATUS
    with running(command, log, environment()) as driver:
        wait_until(lambda: status.exists() and History(feed.store).n == 1000, [driver], log)
        os.killpg(driver.pid, signal.SIGTERM)
        output = finish(driver, log)
    assert "Traceback" not in output
    assert "Exception" not in output
    assert json.loads(status.read_bytes())["running"] is False
    feed.check()


def test_a_file_that_changes_after_ingestion(spark: SparkSession, tmp_path: Path, capsys: Out) -> None:
    """A changed file is listed, not ingested again, even with a new checkpoint; a new name is ingested."""
    feed = Feed(tmp_path)
    feed.write("0.parquet")
    feed.write("1.parquet")
    feed.ingest()
    feed.check()
    pq.write_table(pa.table({"v": np.arange(10.0)}), feed.incoming / "1.parquet")
    assert "1 file changed after ingestion" in feed.ingest()
    assert "it changed after it was ingested" in named(list_quarantine(feed, capsys)["changed"])["1.parquet"]
    feed.ingest(reset=True)
    feed.check()
    (feed.incoming / "1.parquet").rename(feed.incoming / "2.parquet")
    feed.ingest()
    feed.values.append(np.arange(10.0))
    feed.check()
    assert list_quarantine(feed, capsys)["changed"] == []


@pytest.mark.parametrize("torn", [False, True])
def test_a_column_that_no_file_has(torn: bool, spark: SparkSession, tmp_path: Path, capsys: Out) -> None:
    """A mistyped column stops the run and names the nearest; after its correction all files are ingested.

    Nothing is quarantined, unless a file cannot be read: it may have the column, and the run ends after its last try.
    """
    feed = Feed(tmp_path, 'value = "latncy"')
    for number in range(2):
        pq.write_table(pa.table({"latency": [float(number)], "ts": [1.0]}), feed.incoming / f"{number}.parquet")
    if torn:
        (feed.incoming / "2.parquet").write_bytes(b"PAR1 and then nothing")
    assert main(["ingest", str(feed.config), "--once"]) == 2
    output = capsys.readouterr().err
    assert len(list_quarantine(feed, capsys)["files"]) == (3 if torn else 0)
    assert "streams.s: no file can be read by this configuration" in output
    assert "there is no column 'latncy'; there are latency, ts. Did you mean 'latency'?" in output
    feed.configure('value = "latency"')
    feed.ingest()
    assert (History(feed.store).n, History(feed.store).quantile(1, "exact")) == (2, 1.0)


def test_quarantined_files_are_retried_when_the_configuration_changed(
    spark: SparkSession, tmp_path: Path, capsys: Out
) -> None:
    feed = Feed(tmp_path)
    feed.write("0.parquet")
    pq.write_table(pa.table({"w": np.arange(10.0)}), feed.incoming / "1.parquet")
    feed.ingest()
    assert "there is no column 'v'; there are w" in named(list_quarantine(feed, capsys)["files"])["1.parquet"]
    feed.configure('value = "w"')
    feed.ingest()
    feed.values.append(np.arange(10.0))
    feed.check()
    assert list_quarantine(feed, capsys)["files"] == []


def test_milliseconds_are_not_read_as_seconds(spark: SparkSession, tmp_path: Path, capsys: Out) -> None:
    feed = Feed(tmp_path, 'time = "ms"')
    table = pa.table({"v": [1.0, 2.0], "ms": [1_700_000_000_000, 1_700_000_001_000]})
    pq.write_table(table, feed.incoming / "0.parquet")
    with pytest.raises(ConfigError, match=r'streams\.s\.time: the time looks like milliseconds.*time_unit = "ms"'):
        feed.ingest()
    feed.configure('time = "ms"\ntime_unit = "ms"\nlate = "quarantine"')
    feed.ingest()
    assert History(feed.store).n == 2
    newest = [json.loads(path.read_text().splitlines()[0])["newest"] for path in feed.store.glob("_quantide/sources/*")]
    assert max(time for time in newest if time is not None) == 1_700_000_001.0
