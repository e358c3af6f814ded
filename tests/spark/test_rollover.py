"""A checkpoint and the ledger grow with the files that are there, not with all that ever were; and none comes twice."""

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
from quantide.spark.stream import rollover
from quantide.spark.stream.checkpoint import count_files
from quantide.spark.stream.stream import Stream
from quantide.store import ledger as ledgers
from quantide.store.ledger import HELD, RETRY, WAITING, Entry, Ledger, Record, SourceFile
from tests.spark.processes import environment, running, tail, wait_until
from tests.spark.streams import Feed

MOST = 6  # files that a checkpoint may have besides those that are there
SCRIPT = (
    "import sys; from quantide.spark.stream import rollover; rollover.MOST_FILES = {most}; "
    "from quantide.cli import main; sys.exit(main(sys.argv[1:]))"
)


@pytest.fixture
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollover, "MOST_FILES", MOST)


def one_by_one(folder: Path, settings: str = "step = { rows = 100_000 }") -> Feed:
    return Feed(folder, settings, 'format = "parquet", max_files = 1')


def checkpoint(feed: Feed) -> Path:
    """The one checkpoint that there is."""
    (found,) = (feed.store / "_quantide/checkpoints").iterdir()
    return found


def taken(feed: Feed) -> Ledger:
    return Ledger(str(feed.store), History(feed.store).batch_seen)


# Streams


@pytest.mark.usefixtures("_few")
def test_files_that_are_gone_are_forgotten(spark: SparkSession, tmp_path: Path) -> None:
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
def test_files_that_stay_are_not_taken_again(spark: SparkSession, tmp_path: Path) -> None:
    """While most are there a new checkpoint would be no smaller. Once they are gone, none of the rest comes twice."""
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
def test_what_waits_and_what_is_held_outlasts_a_new_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    feed = one_by_one(tmp_path)
    (feed.incoming / "bad.parquet").write_bytes(b"no parquet")
    good = [feed.write(f"{number}.parquet", rows=50) for number in range(2 * MOST)]
    feed.ingest()
    assert list(taken(feed).quarantined) == [str(feed.incoming / "bad.parquet")]
    for path in good:
        path.unlink()
    feed.write("new.parquet", rows=50)
    feed.ingest()
    assert checkpoint(feed).name == "c1"
    found = taken(feed)
    assert list(found.quarantined) == [str(feed.incoming / "bad.parquet")]
    assert found.rows == sum(map(len, feed.values))
    feed.check()


@pytest.mark.usefixtures("_few")
def test_a_stream_that_runs_on_begins_a_new_checkpoint_between_batches(spark: SparkSession, tmp_path: Path) -> None:
    feed = one_by_one(tmp_path)
    config = read_config(feed.config)
    with session_for(config, "local[2]") as session:
        stream = Stream(session, config.streams["s"])
        try:
            stream.start()
            for turn in range(2 * MOST):
                path = feed.write(f"{turn}.parquet", rows=50)
                _tick(stream, lambda: stream.ledger.rows == 50 * len(feed.values))
                path.unlink()
            assert stream.source != "c0"
            assert stream.status.problem == ""
        finally:
            stream.stop()
    assert checkpoint(feed).name == stream.source
    feed.check()


def _tick(stream: Stream, until: Callable[[], bool]) -> None:
    last = time.monotonic() + 120
    while not until():
        assert stream.tick() is None
        assert stream.problem() is None
        assert time.monotonic() < last, stream.status.line()
        time.sleep(0.05)


@pytest.mark.parametrize("fault", ["ledger.based@1", "ledger.cleared@3", "ingest.committed@1", "ingest.recorded@1"])
def test_killed_around_a_new_checkpoint(fault: str, spark: SparkSession, tmp_path: Path) -> None:
    """Nothing is lost and nothing comes twice, whenever the driver dies; the next one goes on."""
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
    """Without Spark: batches are counted, and files that have been there for a while are removed."""
    there: dict[str, SourceFile] = {}
    monkeypatch.setattr(rollover, "MOST_FILES", 20)
    monkeypatch.setattr(rollover, "list_source", lambda session, stream: list(there.values()))
    committed: dict[str, int] = {}
    ledger = opened(tmp_path, committed)
    config = StreamConfig("s", str(tmp_path), Source("parquet", "in"), "v")
    rolling = rollover.Rollover(config, ledger, cast("SparkSession", None), "c0")
    numbers = dict.fromkeys((f"c{i}" for i in range(1000)), -1)
    most = 20 + 2 * (stay + files) + files
    for batch in range(300):
        new = [SourceFile(f"/in/{batch}-{i}", 1, batch) for i in range(files)]
        there |= {file.path: file for file in new}
        numbers[rolling.source] += 1
        record = ledger.write(Record(rolling.source, numbers[rolling.source], entries=tuple(map(Entry, new))))
        committed[rolling.source] = record.number
        ledger.committed(record)
        rolling.count(files)
        while len(there) > stay:
            del there[next(iter(there))]
        if rolling.is_due:
            rolling.begin()
        assert rolling._files <= most + 1
    assert rolling.source > "c1"
    assert len(ledger._base) <= 2 * most
    assert sum(path.stat().st_size for path in (tmp_path / "_quantide/sources").iterdir()) < 1500 + 600 * most
    found = opened(tmp_path, committed)
    assert all(found.known(file, "c999") for file in there.values())


# The ledger


def opened(folder: Path, committed: dict[str, int]) -> Ledger:
    return Ledger(str(folder), lambda batch: committed.get(batch[0], -1) >= batch[1])


def filled(folder: Path, committed: dict[str, int]) -> Ledger:
    """Three batches and a retry: files that are in, one that waits, one in quarantine, one with bad rows."""
    ledger = opened(folder, committed)
    files = [SourceFile(f"/in/{i}", 10 + i, 1000 + i) for i in range(6)]
    waits = Entry(files[1], WAITING, "?")
    records = [
        Record("c0", 0, at=5.0, rows=7, types={"v": "double"}, entries=(Entry(files[0]), waits)),
        Record("c0", 1, rows=3, bad=2, held=("c0-1-0-0.parquet",), newest=9.0, entries=(Entry(files[2], bad=2),)),
        Record(RETRY, 0, rows=1, entries=(Entry(files[1]),)),
        Record("c0", 2, origin=(3, 4, "3600"), entries=(Entry(files[3], WAITING, "?"), Entry(files[4], HELD, "no"))),
    ]
    for record in records:
        written = ledger.write(record)
        committed[record.source] = record.number
        ledger.committed(written)
    return ledger


def state(ledger: Ledger) -> tuple[Any, ...]:
    last = {source: number for source, number in ledger.last.items() if number >= 0 and source != "c0"}
    about = (ledger.rows, ledger.bad, ledger.at, ledger.newest, ledger.origin, ledger.offsets, ledger.types)
    return (*about, last, ledger.waiting, ledger.quarantined, set(ledger.held))


@pytest.mark.parametrize("again", [False, True])
def test_a_base_says_what_its_records_said(again: bool, tmp_path: Path) -> None:
    committed: dict[str, int] = {}
    ledger = filled(tmp_path, committed)
    before = state(ledger)
    present = {f"/in/{i}" for i in range(5)}
    ledger.rebase("c1", present)
    if again:
        ledger.rebase("c1", present)
    assert os.listdir(tmp_path / "_quantide/sources") == ["base.jsonl"]
    for found in (ledger, opened(tmp_path, committed)):
        assert state(found) == before
        assert found.checkpoint == "c1"
        for number in range(5):
            file = SourceFile(f"/in/{number}", 10 + number, 1000 + number)
            changed = replace(file, size=99)
            assert found.known(file, "c1")
            assert found.known(changed, "c1"), "a checkpoint that begins with it looks at no name twice"
            assert found.known(file, "c2")
            assert not found.known(changed, "c2"), "one that a user begins takes a file that changed"
        assert not found.known(SourceFile("/in/5", 15, 1005), "c1")
    record = ledger.write(Record("c1", 0, rows=5, entries=(Entry(SourceFile("/in/7", 1, 1)),)))
    committed["c1"] = 0
    ledger.committed(record)
    assert opened(tmp_path, committed).rows == ledger.rows == before[0] + 5


def test_a_file_is_forgotten_when_it_is_missing_twice(tmp_path: Path) -> None:
    """A folder that cannot be seen for a while, as one that is not mounted, does not make the ledger forget."""
    committed: dict[str, int] = {}
    ledger = filled(tmp_path, committed)
    zero, two = SourceFile("/in/0", 10, 1000), SourceFile("/in/2", 12, 1002)
    ledger.rebase("c1", set())
    assert ledger.known(zero, "c1")
    ledger.rebase("c2", {"/in/2"})
    for found in (ledger, opened(tmp_path, committed)):
        assert not found.known(zero, "c2")
        assert found.known(two, "c2")
        assert set(found.waiting) | set(found.quarantined) == {"/in/3", "/in/4"}
    ledger.rebase("c3", set())
    assert ledger.known(two, "c3"), "it was there in between"


def test_records_that_a_base_replaced_do_not_count_again(tmp_path: Path) -> None:
    """As after a kill between the base and the removal of what it replaced."""
    committed: dict[str, int] = {}
    ledger = filled(tmp_path, committed)
    place, before = tmp_path / "_quantide/sources", state(ledger)
    records = {path.name: path.read_bytes() for path in place.iterdir()}
    ledger.rebase("c1", set())
    ledger.rebase("c1", set())
    for name, data in records.items():
        (place / name).write_bytes(data)
    found = opened(tmp_path, committed)
    assert state(found) == before
    assert not found.known(SourceFile("/in/0", 10, 1000), "c1")
    found.rebase("c1")
    assert os.listdir(place) == ["base.jsonl"]
    assert state(opened(tmp_path, committed)) == before


def test_batches_without_files_leave_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of Kafka, say: the ledger is as large after a thousand batches as after ten."""
    monkeypatch.setattr(ledgers, "FOLD", 8)
    committed: dict[str, int] = {}
    ledger = opened(tmp_path, committed)
    for number in range(64):
        record = ledger.write(Record("c0", number, rows=2, offsets=f'{{"{number}": 1}}'))
        committed["c0"] = number
        ledger.committed(record)
    found = opened(tmp_path, committed)
    assert (found.rows, found.last["c0"], found.offsets) == (128, 63, '{"63": 1}')
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
