"""A checkpoint and the ingest log grow with the files that exist, not with all that ever did; each is ingested once."""

import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from pyspark.sql import SparkSession

from quantide import History
from quantide.config import Source, StreamConfig, read_config
from quantide.errors import CorruptBytesError
from quantide.spark.ingest import session_for
from quantide.spark.stream import spark_checkpoint
from quantide.spark.stream.running_stream import RunningStream
from quantide.spark.stream.spark_checkpoint import count_files
from quantide.store import ingest_log as ingest_logs
from quantide.store.folder_storage import FolderStorage
from quantide.store.ingest_log import QUARANTINED, RETRY, WAITING, BatchRecord, FileRecord, IngestedFile, IngestLog
from tests.spark.process_groups import environment, running, tail, wait_until
from tests.spark.streams import Feed

MOST = 6  # files that a checkpoint may have besides those that are there
SCRIPT = (
    "import sys; from quantide.spark.stream import spark_checkpoint; spark_checkpoint.MAX_FILES = {most}; "
    "from quantide.cli import main; sys.exit(main(sys.argv[1:]))"
)


@pytest.fixture
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_checkpoint, "MAX_FILES", MOST)


def one_by_one(folder: Path, settings: str = "step = { rows = 100_000 }") -> Feed:
    return Feed(folder, settings, 'format = "parquet", max_files = 1')


def checkpoint(feed: Feed) -> Path:
    """The one checkpoint that there is."""
    (found,) = (feed.store / "_quantide/checkpoints").iterdir()
    return found


def taken(feed: Feed) -> IngestLog:
    return IngestLog(FolderStorage(str(feed.store)), History(feed.store).batch_seen)


# Streams


@pytest.mark.usefixtures("_few")
def test_removed_files_are_forgotten(spark: SparkSession, tmp_path: Path) -> None:
    """Over many batches the checkpoint and the ledger stay as large as they were."""
    feed = Feed(tmp_path, "step = { rows = 100_000 }", 'format = "parquet", max_files = 3')
    stays = feed.write("stays.parquet", rows=50)
    sizes = []
    for turn in range(8):
        files = [feed.write(f"{turn}-{number}.parquet", rows=50) for number in range(MOST)]
        feed.ingest()
        for path in files:
            path.unlink()
        sizes.append((count_files(str(checkpoint(feed))), taken(feed).base_files))
    present = MOST + 1
    assert max(seen for seen, _ in sizes) <= MOST + 2 * present + MOST < 7 * MOST
    assert max(known for _, known in sizes) <= MOST + 2 * present + MOST
    assert checkpoint(feed).name == "c1"
    feed.check()
    os.utime(stays)
    feed.ingest()
    feed.check()


@pytest.mark.usefixtures("_few")
def test_files_that_stay_are_not_ingested_again(spark: SparkSession, tmp_path: Path) -> None:
    """A new checkpoint is not begun while most files stay; once they are gone, none of the rest is ingested twice."""
    feed = one_by_one(tmp_path)
    files = [feed.write(f"{number}.parquet", rows=50) for number in range(2 * MOST + 1)]
    for _ in range(2):
        feed.ingest()
        assert checkpoint(feed).name == "c0"
    for path in files[2:]:
        path.unlink()
    feed.write("new.parquet", rows=50)
    feed.ingest()
    assert checkpoint(feed).name == "c1"
    assert count_files(str(checkpoint(feed))) == 3
    feed.check()
    os.utime(files[0])  # Spark looks at no name twice, and a new checkpoint does not either
    feed.write("newer.parquet", rows=50)
    feed.ingest()
    feed.check()
    feed.ingest(reset=True)
    assert History(feed.store).n == sum(map(len, feed.values)), "a file that changed is listed, and not taken twice"


@pytest.mark.usefixtures("_few")
def test_waiting_and_quarantined_files_survive_a_new_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    feed = one_by_one(tmp_path)
    (feed.incoming / "bad.parquet").write_bytes(b"no parquet")
    good = [feed.write(f"{number}.parquet", rows=50) for number in range(2 * MOST)]
    feed.ingest()
    assert list(taken(feed).quarantined_files) == [str(feed.incoming / "bad.parquet")]
    for path in good:
        path.unlink()
    feed.write("new.parquet", rows=50)
    feed.ingest()
    assert checkpoint(feed).name == "c1"
    found = taken(feed)
    assert list(found.quarantined_files) == [str(feed.incoming / "bad.parquet")]
    assert found.rows == sum(map(len, feed.values))
    feed.check()


@pytest.mark.usefixtures("_few")
def test_a_stream_that_runs_on_begins_a_new_checkpoint_between_batches(spark: SparkSession, tmp_path: Path) -> None:
    feed = one_by_one(tmp_path)
    config = read_config(feed.config)
    with session_for(config, "local[2]") as session:
        stream = RunningStream(session, config.streams["s"])
        try:
            stream.start()
            for turn in range(2 * MOST):
                path = feed.write(f"{turn}.parquet", rows=50)
                _tick(stream, lambda: stream.ingest_log.rows == 50 * len(feed.values))
                path.unlink()
            assert stream.source != "c0"
            assert stream.status.last_error == ""
        finally:
            stream.stop()
    assert checkpoint(feed).name == stream.source
    feed.check()


def _tick(stream: RunningStream, until: Callable[[], bool]) -> None:
    last = time.monotonic() + 120
    while not until():
        assert stream.tick() is None
        assert stream.failure() is None
        assert time.monotonic() < last, stream.status.to_line()
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["ledger.based@1", "ledger.cleared@3", "ingest.committed@1", "ingest.recorded@1"])
def test_killed_around_a_new_checkpoint(fault: str, spark: SparkSession, tmp_path: Path) -> None:
    """Every row is stored once, whenever the driver dies; the next one continues."""
    feed = one_by_one(tmp_path)
    files = [feed.write(f"{number}.parquet", rows=50) for number in range(9)]
    feed.ingest()
    for path in files[1:]:
        path.unlink()
    for number in range(2):
        feed.write(f"new-{number}.parquet", rows=50)
    log = tmp_path / "driver.log"
    command = [sys.executable, "-c", SCRIPT.format(most=1), "ingest", str(feed.config), "--once"]
    with running(command, log, environment() | {"QUANTIDE_FAULT": f"{fault}:kill"}) as driver:
        wait_until(lambda: driver.poll() is not None, [], log)
        assert driver.returncode == -signal.SIGKILL, tail(log)
    feed.ingest()
    assert checkpoint(feed).name == "c1"
    feed.check()
    feed.write("late.parquet")
    feed.ingest()
    feed.check()


@pytest.mark.parametrize(("files", "stay"), [(1, 0), (3, 4), (7, 50)])
def test_the_bound_holds_over_many_checkpoints(
    files: int, stay: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Count batches without Spark, while files that have been there for a while are removed."""
    there: dict[str, IngestedFile] = {}
    monkeypatch.setattr(spark_checkpoint, "MAX_FILES", 20)
    monkeypatch.setattr(spark_checkpoint, "list_source", lambda session, stream: list(there.values()))
    committed: dict[str, int] = {}
    ingest_log = opened(tmp_path, committed)
    config = StreamConfig("s", str(tmp_path), Source("parquet", "in"), "v")
    rolling = spark_checkpoint.CheckpointRollover(
        config, FolderStorage(config.folder), ingest_log, cast("SparkSession", None), "c0"
    )
    numbers = dict.fromkeys((f"c{i}" for i in range(1000)), -1)
    most = 20 + 2 * (stay + files) + files
    for batch in range(300):
        new = [IngestedFile(f"/in/{batch}-{i}", 1, batch) for i in range(files)]
        there |= {file.path: file for file in new}
        numbers[rolling.source] += 1
        record = ingest_log.write(
            BatchRecord(rolling.source, numbers[rolling.source], entries=tuple(map(FileRecord, new)))
        )
        committed[rolling.source] = record.number
        ingest_log.mark_committed(record)
        rolling.add_files(files)
        while len(there) > stay:
            del there[next(iter(there))]
        if rolling.is_due:
            rolling.begin()
        assert rolling._files <= most + 1
    assert rolling.source > "c1"
    assert len(ingest_log._base) <= 2 * most
    assert sum(path.stat().st_size for path in (tmp_path / "_quantide/sources").iterdir()) < 1500 + 600 * most
    reopened = opened(tmp_path, committed)
    assert all(reopened.has_file(file, "c999") for file in there.values())


# The ingest log


def opened(folder: Path, committed: dict[str, int]) -> IngestLog:
    return IngestLog(FolderStorage(str(folder)), lambda batch: committed.get(batch[0], -1) >= batch[1])


def filled(folder: Path, committed: dict[str, int]) -> IngestLog:
    """Three batches and a retry: files that are in, one that waits, one in quarantine, one with bad rows."""
    ingest_log = opened(folder, committed)
    files = [IngestedFile(f"/in/{i}", 10 + i, 1000 + i) for i in range(6)]
    waits = FileRecord(files[1], WAITING, "?")
    records = [
        BatchRecord("c0", 0, at=5.0, rows=7, types={"v": "double"}, entries=(FileRecord(files[0]), waits)),
        BatchRecord(
            "c0", 1, rows=3, bad=2, held=("c0-1-0-0.parquet",), newest=9.0, entries=(FileRecord(files[2], bad=2),)
        ),
        BatchRecord(RETRY, 0, rows=1, entries=(FileRecord(files[1]),)),
        BatchRecord(
            "c0",
            2,
            origin=(3, 4, "3600"),
            entries=(FileRecord(files[3], WAITING, "?"), FileRecord(files[4], QUARANTINED, "no")),
        ),
    ]
    for record in records:
        written = ingest_log.write(record)
        committed[record.source] = record.number
        ingest_log.mark_committed(written)
    return ingest_log


def state(ingest_log: IngestLog) -> tuple[Any, ...]:
    last = {source: number for source, number in ingest_log.last.items() if number >= 0 and source != "c0"}
    about = (
        ingest_log.rows,
        ingest_log.bad,
        ingest_log.at,
        ingest_log.newest,
        ingest_log.origin,
        ingest_log.offsets,
        ingest_log.types,
    )
    return (*about, last, ingest_log.waiting, ingest_log.quarantined_files, set(ingest_log.quarantined_rows))


@pytest.mark.parametrize("again", [False, True])
def test_a_base_equals_its_records(again: bool, tmp_path: Path) -> None:
    committed: dict[str, int] = {}
    ingest_log = filled(tmp_path, committed)
    before = state(ingest_log)
    present = {f"/in/{i}" for i in range(5)}
    ingest_log.rebase("c1", present)
    if again:
        ingest_log.rebase("c1", present)
    assert os.listdir(tmp_path / "_quantide/sources") == ["base.jsonl"]
    for reopened in (ingest_log, opened(tmp_path, committed)):
        assert state(reopened) == before
        assert reopened.checkpoint == "c1"
        for number in range(5):
            file = IngestedFile(f"/in/{number}", 10 + number, 1000 + number)
            changed = replace(file, size=99)
            assert reopened.has_file(file, "c1")
            assert reopened.has_file(changed, "c1"), "a checkpoint that begins with it reads no name twice"
            assert reopened.has_file(file, "c2")
            assert not reopened.has_file(changed, "c2"), "one that a user begins takes a file that changed"
        assert not reopened.has_file(IngestedFile("/in/5", 15, 1005), "c1")
    record = ingest_log.write(BatchRecord("c1", 0, rows=5, entries=(FileRecord(IngestedFile("/in/7", 1, 1)),)))
    committed["c1"] = 0
    ingest_log.mark_committed(record)
    assert opened(tmp_path, committed).rows == ingest_log.rows == before[0] + 5


def test_a_file_is_forgotten_when_it_is_missing_twice(tmp_path: Path) -> None:
    """A folder that cannot be seen for a while, as one that is not mounted, does not make the ingest log forget."""
    committed: dict[str, int] = {}
    ingest_log = filled(tmp_path, committed)
    zero, two = IngestedFile("/in/0", 10, 1000), IngestedFile("/in/2", 12, 1002)
    ingest_log.rebase("c1", set())
    assert ingest_log.has_file(zero, "c1")
    ingest_log.rebase("c2", {"/in/2"})
    for reopened in (ingest_log, opened(tmp_path, committed)):
        assert not reopened.has_file(zero, "c2")
        assert reopened.has_file(two, "c2")
        assert set(reopened.waiting) | set(reopened.quarantined_files) == {"/in/3", "/in/4"}
    ingest_log.rebase("c3", set())
    assert ingest_log.has_file(two, "c3"), "it was there in between"


def test_records_that_a_base_replaced_do_not_count_again(tmp_path: Path) -> None:
    """Records that a base replaced are not counted again after a kill before their removal."""
    committed: dict[str, int] = {}
    ingest_log = filled(tmp_path, committed)
    place, before = tmp_path / "_quantide/sources", state(ingest_log)
    records = {path.name: path.read_bytes() for path in place.iterdir()}
    ingest_log.rebase("c1", set())
    ingest_log.rebase("c1", set())
    for name, data in records.items():
        (place / name).write_bytes(data)
    reopened = opened(tmp_path, committed)
    assert state(reopened) == before
    assert not reopened.has_file(IngestedFile("/in/0", 10, 1000), "c1")
    reopened.rebase("c1")
    assert os.listdir(place) == ["base.jsonl"]
    assert state(opened(tmp_path, committed)) == before


def test_batches_without_files_leave_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ingest log is as large after a thousand batches without files, as of Kafka, as after ten."""
    monkeypatch.setattr(ingest_logs, "FOLD", 8)
    committed: dict[str, int] = {}
    ingest_log = opened(tmp_path, committed)
    for number in range(64):
        record = ingest_log.write(BatchRecord("c0", number, rows=2, offsets=f'{{"{number}": 1}}'))
        committed["c0"] = number
        ingest_log.mark_committed(record)
    reopened = opened(tmp_path, committed)
    assert (reopened.rows, reopened.last["c0"], reopened.offsets) == (128, 63, '{"63": 1}')
    assert os.listdir(tmp_path / "_quantide/sources") == ["base.jsonl"]
    assert (tmp_path / "_quantide/sources/base.jsonl").stat().st_size < 1500


@pytest.mark.parametrize("seed", range(3))
def test_a_base_of_hostile_bytes_is_a_named_error(seed: int, tmp_path: Path) -> None:
    committed: dict[str, int] = {}
    filled(tmp_path, committed).rebase("c1", set())
    path, rng = tmp_path / "_quantide/sources/base.jsonl", np.random.default_rng(seed)
    good = path.read_bytes()
    hostile = [b"", b"{}", b"7\n", b'{"checkpoint": "../x", "order": 1}\n', b'{"checkpoint": "c1", "order": 1}\n[1]\n']
    hostile += [good.replace(b"c0-1-0-0.parquet", b"../../../../x"), good.replace(b'"done"', b'"gone"')]
    hostile += [good.replace(b'"rows": 11', b'"rows": "11"'), good.replace(b'"at": 5.0', b'"at": NaN')]
    hostile += [good.replace(b'"order": ', b'"order": 1, "order": ', 1)]  # as in every other file of a store
    hostile += [good.replace(b"c0-1-0-0.parquet", b"c0-01-0-0.parquet"), good.split(b"\n")[0] + b"\n"]
    for data in hostile:
        assert data != good
        path.write_bytes(data)
        with pytest.raises(CorruptBytesError, match=r"base\.jsonl is damaged"):
            opened(tmp_path, committed)
    for _ in range(200):
        changed = bytearray(good)
        for place in rng.integers(0, len(good), rng.integers(1, 4)):
            changed[place] = rng.integers(0, 256)
        path.write_bytes(changed)
        try:
            opened(tmp_path, committed)
        except CorruptBytesError:
            continue
