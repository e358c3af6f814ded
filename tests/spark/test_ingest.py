"""Streams end to end: every row that arrives is stored once, whatever happens in between."""

import io
import shutil
from pathlib import Path
from time import sleep

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from quantide import History
from quantide.cli import main
from quantide.config import read_config
from quantide.errors import (
    CheckpointError,
    CommitUncertainError,
    ConfigError,
    StorageError,
    TypeMismatchError,
    WriterConflictError,
)
from quantide.spark.ingest import AVRO_LIMITS, combine_java_options, ingest, session_for
from quantide.spark.stream import micro_batch, read_plan
from quantide.spark.stream.running_stream import RunningStream
from quantide.store.delta_log import DeltaLog
from quantide.store.ingest_log import IngestLog
from quantide.store.ingest_status import INGEST_STATUS, IngestStatus
from tests.spark.streams import Feed

Out = pytest.CaptureFixture[str]
KEYED = 'keys = ["k"]\nstep = { rows = 3000 }\neps = 0.01\nkappa = 2\n'


def read_status(feed: Feed) -> IngestStatus:
    return IngestStatus.from_bytes((feed.store / INGEST_STATUS).read_bytes())


def test_files_once_and_only_once(spark: SparkSession, tmp_path: Path, capsys: Out) -> None:
    """Ingest several batches by the command, with a damaged file and a lost checkpoint: each file once."""
    feed = Feed(tmp_path, KEYED + 'time = "t"\nfilters = { big = "v > 1" }', 'format = "parquet", max_files = 2')
    for number in range(5):
        feed.write(f"{number}.parquet")
    (feed.incoming / "broken.parquet").write_bytes(b"PAR1 and then nothing")
    assert main(["ingest", str(feed.config), "--once"]) == 0
    assert "5,000 rows" in capsys.readouterr().out
    feed.check()
    stats = History(feed.store).stats()
    assert (stats["steps"], stats["values"]) == (1, 5000)
    assert main(["quarantine", "list", str(feed.config)]) == 0
    assert "1 file and 0 rows are held" in (output := capsys.readouterr().out)
    assert "broken.parquet: " in output

    shutil.rmtree(feed.store / "_quantide" / "checkpoints")
    feed.write("5.parquet")
    assert main(["ingest", str(feed.config), "--once"]) == 2
    assert "streams.s: the checkpoint" in capsys.readouterr().err
    assert main(["ingest", str(feed.config), "--once", "--reset"]) == 0
    feed.check()


def test_a_second_writer_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path)
    with History(feed.store) as history:
        history.append([1.0])
        with pytest.raises(WriterConflictError, match=r"is being written by process \d+"):
            feed.ingest()


def test_what_cannot_start(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path)
    for settings, message in (
        ('value = "v +"', r"streams\.s\.value is 'v \+', which is not SQL"),
        ('filters = { a = "b >" }', r"streams\.s\.filters\.a"),
    ):
        feed.configure(settings)
        with pytest.raises(ConfigError, match=message):
            feed.ingest()
    feed.configure("", 'format = "org.example.NoSuch"')
    with pytest.raises(ConfigError, match=r"streams\.s\.source cannot be opened"):
        feed.ingest()
    feed.configure("")
    feed.incoming.rmdir()
    with pytest.raises(ConfigError, match=r"streams\.s\.source\.path: there is no folder"):
        feed.ingest()


@pytest.mark.slow
def test_bad_records_are_quarantined_and_can_be_retried(spark: SparkSession, tmp_path: Path, capsys: Out) -> None:
    feed = Feed(tmp_path, 'value = "text"')
    pq.write_table(pa.table({"text": ["1", "two", "3", "nan", None]}), feed.incoming / "a.parquet")
    pq.write_table(pa.table({"text": ["4", "5 ms"]}), feed.incoming / "b.parquet")
    feed.ingest()
    history = History(feed.store)
    assert (history.n, history.quantile(1, "exact")) == (3, 4.0)
    main(["quarantine", "list", str(feed.config)])
    output = capsys.readouterr().out
    assert "0 files and 3 rows are held" in output
    assert f"1 of {feed.incoming}/b.parquet: the value is not float64" in output
    assert f"1 of {feed.incoming}/a.parquet: the value is nan" in output
    feed.configure("""value = "CAST(replace(text, ' ms') AS DOUBLE)"\nnan = "skip"\nunit = "ms" """)
    assert main(["quarantine", "retry", str(feed.config)]) == 0
    assert "s: 1 row taken in; 0 files and 1 row are still held" in capsys.readouterr().out
    assert (History(feed.store).n, History(feed.store).quantile(1, "exact")) == (4, 5.0)
    status = read_status(feed)
    assert (status.rows, status.bad_rows, status.held_files, status.unit) == (4, 1, 0, "ms")
    assert main(["quarantine", "list", str(feed.config), "--stream", "s"]) == 0
    assert "a CAST failed" in capsys.readouterr().out
    assert main(["quarantine", "list", str(feed.config), "--stream", "t"]) == 2
    assert "there is no stream 't'" in capsys.readouterr().err


@pytest.mark.slow
def test_bad_records_can_stop_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path, 'value = "text"\nbad_records = "fail"')
    pq.write_table(pa.table({"text": ["1", "two"]}), feed.incoming / "a.parquet")
    with pytest.raises(TypeMismatchError, match=r'1 bad records \(the value is not float64\).*bad_records = "quaran'):
        feed.ingest()
    assert History(feed.store).n == 0


@pytest.mark.slow
def test_files_that_are_still_copied(spark: SparkSession, tmp_path: Path, capsys: Out) -> None:
    """A damaged file is ingested after its repair, without a command. One with a temporary name is skipped."""
    feed = Feed(tmp_path)
    path = feed.write("late.parquet")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    (feed.incoming / "x.parquet.tmp").write_bytes(whole)
    feed.ingest()
    assert History(feed.store).n == 0
    main(["quarantine", "list", str(feed.config)])
    assert "s: 1 file and 0 rows are held" in capsys.readouterr().out
    path.write_bytes(whole)
    feed.ingest()
    feed.check()
    main(["quarantine", "list", str(feed.config)])
    assert "s: 0 files and 0 rows are held" in capsys.readouterr().out
    feed.ingest(reset=True)
    feed.check()


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["adapt", "quarantine", "fail"])
def test_a_schema_that_changes(policy: str, spark: SparkSession, tmp_path: Path, capsys: Out) -> None:
    feed = Feed(tmp_path, f'schema_change = "{policy}"')
    feed.write("0.parquet")
    feed.ingest()
    pq.write_table(pa.table({"v": np.arange(10)}), feed.incoming / "1.parquet")
    pq.write_table(pa.table({"other": np.arange(10)}), feed.incoming / "2.parquet")
    if policy == "fail":
        with pytest.raises(TypeMismatchError, match=r"the schema changed: .*set streams\.s\.schema_change"):
            feed.ingest()
        feed.check()
        return
    feed.ingest()
    main(["quarantine", "list", str(feed.config)])
    output = capsys.readouterr().out
    assert "2.parquet: the schema changed: there is no column 'v'; there are other" in output
    assert ("1.parquet: the schema changed: column 'v' is int64 and was double" in output) == (policy == "quarantine")
    if policy == "adapt":
        feed.values.append(np.arange(10.0))
    feed.check()


@pytest.mark.slow
def test_tasks_on_spark_and_folders_as_keys(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(micro_batch, "LOCAL_BYTES", 0)
    feed = Feed(tmp_path, 'keys = ["k", "day"]')
    for number in range(4):
        feed.write(f"day={number % 2}/{number}.parquet", rows=20_000)
    feed.ingest()
    history = History(feed.store)
    assert history.n == 80_000
    both = np.concatenate([feed.values[0], feed.values[2]])
    mine = both[np.array(feed.keys[:20_000] + feed.keys[40_000:60_000]) == "a"]
    assert history.quantile(0.5, "exact", key=("a", "0")) == np.sort(mine)[(len(mine) - 1) // 2]
    history.verify()


@pytest.mark.slow
@pytest.mark.parametrize("few", [100_000, 10])
def test_sql_that_only_spark_can_compute(
    few: int, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark computes the expression, as one table and as files that tasks read; unreadable files are left out."""
    monkeypatch.setattr(read_plan, "MAX_TABLE_ROWS", few)
    settings = """value = "CAST(v AS DOUBLE) * 2"\ntime = "to_timestamp(t)"\nkeys = ["k"]
filters = { big = "abs(v) > 1" }\nschema_change = "quarantine" """
    feed = Feed(tmp_path, settings)
    for number in range(3):
        feed.write(f"{number}.parquet", t=["2026-01-01 00:00:00"] * 1000)
    (feed.incoming / "3.parquet").write_bytes(b"PAR1")
    assert "expressions by Spark" in feed.ingest()
    feed.values = [2 * values for values in feed.values]
    feed.check()
    staging = feed.store / "_quantide" / "staging"
    assert not staging.exists() or not list(staging.iterdir())
    feed.ingest(reset=True)
    feed.check()


@pytest.mark.slow
def test_lines_of_json(spark: SparkSession, tmp_path: Path, capsys: Out) -> None:
    feed = Feed(tmp_path, 'value = "ms"\ntime = "ts"', 'format = "json", schema = "ts TIMESTAMP, ms DOUBLE"')
    lines = ['{"ts": "2026-01-01T00:00:00Z", "ms": 1.5}', '{"ts": "2026-01-01T00:00:00Z", "ms": "x"}', "{", '{"ms": 2}']
    (feed.incoming / "a.json").write_text("\n".join(lines))
    feed.ingest()
    assert History(feed.store).n == 1
    main(["quarantine", "list", str(feed.config)])
    output = capsys.readouterr().out
    assert "0 files and 3 rows are held" in output
    assert (
        f"1 of {feed.incoming}/a.json: the column ms is not DOUBLE\n        line 2, column ms: {lines[1]}\n" in output
    )
    assert f"1 of {feed.incoming}/a.json: the line is not JSON\n        line 3: {{\n" in output
    assert "the row has no time\n        line 4, column ts: {" in output
    before = read_status(feed)
    assert (before.rows, before.bad_rows) == (1, 3)
    for settings in ('value = "ms"\ntime = "ts"', 'value = "CAST(ms AS DOUBLE)"\ntime = "ts"'):
        feed.configure(settings, 'format = "json", schema = "ts TIMESTAMP, ms DOUBLE"')
        assert main(["quarantine", "retry", str(feed.config)]) == 0
        capsys.readouterr()
        main(["quarantine", "list", str(feed.config)])
        assert capsys.readouterr().out == output, "rows that fail again keep their reason, file and line"
        status = read_status(feed)
        assert (status.rows, status.bad_rows, status.running) == (1, 3, False)
        assert status.time > before.time


@pytest.mark.slow
def test_late_rows(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path, 'time = "t"\nlate = "quarantine"\nlate_after = "1 min"')
    for number, time in enumerate([1000.0, 950.0, 900.0, 2000.0]):
        pq.write_table(pa.table({"v": [float(number)], "t": [time]}), feed.incoming / f"{number}.parquet")
        feed.ingest()
    history = History(feed.store)
    assert (history.n, history.quantile(1, "exact"), history.rank(1.5)) == (3, 3.0, (2, 2))


@pytest.mark.slow
def test_a_source_without_names(spark: SparkSession, tmp_path: Path) -> None:
    """Ingest rows that Spark generates, in counted batches; a reset needs the consent to duplicates."""
    feed = Feed(tmp_path, 'value = "value"', 'format = "rate-micro-batch", options = { rowsPerBatch = 500 }')
    feed.ingest()
    history = History(feed.store)
    assert history.n == 500
    assert history.quantile(1, "exact") == 499.0
    with pytest.raises(CheckpointError, match="--allow-duplicates"):
        feed.ingest(reset=True)
    feed.ingest(reset=True, allow_duplicates=True)
    assert History(feed.store).n == 1000


@pytest.mark.slow
def test_the_session_of_the_caller_is_left_alone(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path)
    feed.write("0.parquet")
    name = "spark.sql.streaming.checkpoint.fileChecksum.enabled"
    before = spark.conf.get(name)
    with session_for(read_config(feed.config), "local[2]") as session:
        assert session.conf.get(name) == "false"
    ingest(read_config(feed.config), io.StringIO(), once=True)
    assert spark.conf.get(name) == before
    assert spark.range(3).count() == 3
    feed.check()


@pytest.mark.slow
def test_a_file_that_is_removed_too_early(
    spark: SparkSession, tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark repeats a batch with all its files; one that was removed does not stop the others."""
    feed = Feed(tmp_path)
    removed = feed.write("0.parquet")
    feed.write("1.parquet")
    with monkeypatch.context() as patch:
        patch.setattr(IngestLog, "write", lambda *_: (_ for _ in ()).throw(StorageError("the disk is full")))
        with pytest.raises(StorageError, match="the disk is full"):
            feed.ingest()
    assert History(feed.store).n == 0
    removed.unlink()
    del feed.values[0], feed.keys[:1000]
    feed.ingest()
    feed.check()
    main(["quarantine", "list", str(feed.config)])
    assert f"file  {removed}: it was removed before it was read" in capsys.readouterr().out


@pytest.mark.parametrize("linked", [True, False])
def test_a_commit_that_may_be_in_the_table(
    linked: bool, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log becomes unreachable during a commit: the batch is repeated, and stored once."""
    feed = Feed(tmp_path, KEYED, 'format = "parquet", max_files = 1')
    for number in range(3):
        feed.write(f"{number}.parquet")
    put, has = DeltaLog.add_entry, DeltaLog.has_version
    failed: list[int] = []

    def away(log: DeltaLog, version: int) -> bool:
        monkeypatch.setattr(DeltaLog, "has_version", has)
        raise OSError(5, "Input/output error")

    def put_once(log: DeltaLog, version: int, data: bytes) -> None:
        if b"quantide.source:" not in data or failed:
            return put(log, version, data)
        failed.append(version)
        if linked:
            put(log, version, data)
        monkeypatch.setattr(DeltaLog, "has_version", away)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(DeltaLog, "add_entry", put_once)
    config = read_config(feed.config)
    with session_for(config, "local[2]") as session:
        stream = RunningStream(session, config.streams["s"], once=True)
        try:
            for fails in (True, False):
                stream.start()
                while stream.running:
                    sleep(0.05)
                assert isinstance(stream.failure(), CommitUncertainError) == fails
            stream.tick()
            assert (stream.ingest_log.rows, stream.status.rows, stream.history.n) == (3000, 3000, 3000)
        finally:
            stream.stop()
    assert failed
    feed.check()
    with History(feed.store) as history:
        assert IngestLog(history.table.storage, history.batch_seen).rows == 3000


def test_java_options_are_added_to_our_own() -> None:
    """The limits of Avro stay; of two values of one option Java takes the last."""
    given = {"spark.driver.extraJavaOptions": "-Xss8m", "spark.executor.extraJavaOptions": "-Da=b", "spark.x": "1"}
    assert combine_java_options(given) == {
        "spark.driver.extraJavaOptions": f"-Xss16m {AVRO_LIMITS} -Xss8m",
        "spark.executor.extraJavaOptions": f"{AVRO_LIMITS} -Da=b",
        "spark.x": "1",
    }
