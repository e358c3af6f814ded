"""Log of a long-lived store: it stays short, and a handle at a removed version finds the newest."""

import os
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from deltalake import DeltaTable

from quantide.errors import WriterConflictError
from quantide.history import History, HistoryReader
from quantide.store import log_maintenance, table_creation
from quantide.store.delta_log import DeltaLog
from quantide.store.file_clock import FileClock
from quantide.store.file_names import LOCK
from quantide.store.folder_storage import FolderStorage
from quantide.store.stream_table import StreamTable
from tests.history.forked_writers import Driver
from tests.history.writer_workload import (
    KEYED,
    ROWS,
    SETTINGS,
    Work,
    active,
    all_of,
    batch,
    check_stored,
    leftovers,
    small,
)
from tests.oracle import exact_quantile

HOUR = 3600


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch.setattr)


def versions(folder: Path) -> list[int]:
    """Return the versions of the entries in the log."""
    return sorted(int(path.stem) for path in (folder / "_delta_log").glob("*.json"))


def checkpoints(folder: Path) -> list[int]:
    return sorted(int(path.name[:20]) for path in (folder / "_delta_log").glob("*.checkpoint.parquet"))


def opened(folder: Path) -> StreamTable:
    table = StreamTable.open(FolderStorage(str(folder)))
    assert table is not None
    return table


@pytest.mark.parametrize("settings", [SETTINGS, KEYED], ids=["plain", "keyed"])
def test_what_a_checkpoint_keeps(settings: dict[str, Any], tmp_path: Path) -> None:
    """Steps, the epoch, batch ids and numbers of sources survive the entries that had them."""
    work = Work(str(tmp_path), {**settings, "window": 0})  # no background commit
    work.append(0)
    work.step(0)
    work.history.append([], key=[] if work.keyed else None, batch_id=("kafka", 7))
    for number in range(1, 14):
        work.append(number)
    before = work.history.version
    work.vacuum(0)
    entries = versions(tmp_path)
    assert entries == list(range(checkpoints(tmp_path)[-1], before + 1))
    assert len(checkpoints(tmp_path)) == 1
    for history in (work.history, History(tmp_path)):
        assert history.n == 14 * ROWS
        assert history.stats()["steps"] == 1
        assert history.table.batch_seen(0)
        assert history.table.batch_seen(("kafka", 7))
        assert not history.table.batch_seen(("kafka", 8))
        assert not history.table.batch_seen(14)
    assert opened(tmp_path).step == 2
    work.append(0)
    assert work.history.n == 14 * ROWS
    work.append(14)
    work.close(0)
    with History(tmp_path) as reopened:
        reopened.append(batch(15), key=None if not work.keyed else "a", batch_id=14)
        assert reopened.n == 15 * ROWS
        assert reopened.table.epoch == 2
    check_stored(tmp_path, range(15))
    assert len(pl.read_delta(str(tmp_path))) == 15 * ROWS


def test_the_log_stays_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_maintenance, "KEPT_VERSIONS", 20)
    monkeypatch.setattr(log_maintenance, "TRIM_INTERVAL", 10)
    monkeypatch.setattr(log_maintenance, "MIN_AGE_SECONDS", 0)
    work = Work(str(tmp_path), SETTINGS)
    longest = 0
    for number in range(70):
        work.append(number)
        work.history._writer.join()
        longest = max(longest, len(versions(tmp_path)))
    assert versions(tmp_path)[0] in checkpoints(tmp_path)
    assert 20 <= longest < 65  # the versions kept, and those until chunks are next compacted
    assert History(tmp_path).n == 70 * ROWS
    work.close(0)
    check_stored(tmp_path, range(70))


def test_a_failing_checkpoint_is_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A warning names the version and the cause when checkpoints begin to fail, or fail in another way."""
    monkeypatch.setattr(log_maintenance, "CHECKPOINT_INTERVAL", 2)
    write, failures = DeltaLog.write_checkpoint, list[Exception | None]()

    def fail(log: DeltaLog, version: int, *content: bytes) -> None:
        if (error := failures[-1]) is not None:
            raise error
        write(log, version, *content)

    monkeypatch.setattr(DeltaLog, "write_checkpoint", fail)
    full, refused, wrong = OSError(28, "no space"), PermissionError(13, "not allowed"), ValueError("unexpected")
    work, expected = Work(str(tmp_path), {**SETTINGS, "window": 0}), list[Exception]()
    for number, error in enumerate((None, full, full, refused, None, refused, wrong, wrong, None, wrong)):
        failures.append(error)
        count, versions_before = len(checkpoints(tmp_path)), work.history.version
        for part in range(3):
            work.append(3 * number + part)
            work.history.table.maintenance.wait()
        if error is None:
            assert len(checkpoints(tmp_path)) > count
        elif error is not failures[max(0, len(failures) - 2)]:
            expected.append(error)
            message = caplog.records[-1].getMessage()
            assert str(tmp_path) in message
            assert str(error) in message
            [version] = re.findall(r"at version (\d+)", message)
            assert versions_before < int(version) <= work.history.version
            assert (caplog.records[-1].exc_info is None) == isinstance(error, OSError)
        assert len(caplog.records) == len(expected)
    check_stored(tmp_path, range(30))


def test_young_entries_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_maintenance, "KEPT_VERSIONS", 5)
    monkeypatch.setattr(log_maintenance, "TRIM_INTERVAL", 1)
    work = Work(str(tmp_path), SETTINGS)
    for number in range(25):
        work.append(number)
        work.history.table.maintenance.wait()  # a checkpoint that is due while another is being made is left out
    work.history._writer.join()
    work.history.vacuum(1)
    assert versions(tmp_path) == list(range(work.history.version + 1))
    for path in (tmp_path / "_delta_log").iterdir():
        os.utime(path, (time.time() - HOUR, time.time() - HOUR))
    work.history.vacuum(1.5)
    assert versions(tmp_path)[0] == 0
    work.history.vacuum(0.5)
    assert versions(tmp_path)[0] in checkpoints(tmp_path)
    assert versions(tmp_path)[0] > 10
    work.close(0)


@pytest.mark.parametrize("time", [1, 7, 15])
def test_killed_while_the_log_is_trimmed(driver: Driver, tmp_path: Path, time: int) -> None:
    folder = tmp_path / "store"
    child = driver.start("trickle", folder, f"log.trimmed@{time}:kill", settings=SETTINGS, wait=False)
    assert child.wait() == -9, child.log.read_text()
    done = child.batches("done")
    here = check_stored(folder, done, [number for number in child.batches("begin") if number not in done])
    with History(folder) as history:
        assert history.n == len(all_of(here))
        assert history.verify().values == history.n
        history.vacuum(0)
        assert leftovers(folder) == set()
        assert versions(folder)[0] == checkpoints(folder)[-1]
    check_stored(folder, here)


# Handles at removed versions


def test_readers_of_a_version_that_is_forgotten(tmp_path: Path) -> None:
    work = Work(str(tmp_path), SETTINGS)
    work.append(0)
    pinned, unasked, history, stream = (
        HistoryReader(tmp_path),
        HistoryReader(tmp_path),
        History(tmp_path),
        opened(tmp_path),
    )
    assert pinned.n == history.n == ROWS
    for number in range(1, 25):
        work.append(number)
    work.history._writer.join()
    work.history.table.clear_log(0)
    assert versions(tmp_path)[0] > 2
    assert pinned.n == ROWS
    assert pinned.quantile(0.5, mode="exact") == exact_quantile(batch(0), 0.5)
    assert unasked.n == ROWS  # it read the log when it was opened
    assert history.n == 25 * ROWS
    assert pinned.refresh()
    assert pinned.quantile(0.5, mode="exact") == exact_quantile(all_of(range(25)), 0.5)
    assert stream.refresh()
    assert not stream.refresh()
    assert stream.version == work.history.version
    work.append(25)
    assert stream.refresh()
    assert history.n == 26 * ROWS
    work.close(0)
    history.append(batch(26))  # a reader for long, and now the writer
    history.close()
    check_stored(tmp_path, range(27))


def test_a_reader_at_the_newest_version_does_not_reload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(str(tmp_path), SETTINGS)
    for number in range(25):
        work.append(number)
        work.history._writer.join()
        work.history.table.clear_log(0)
        reader = opened(tmp_path)
        with monkeypatch.context() as patch:
            patch.setattr(reader, "reload", None)
            assert not reader.refresh()
    work.close(0)


def test_a_stale_writer_of_a_version_that_is_forgotten(tmp_path: Path) -> None:
    """A stale writer, whose next name in the log is free again, must not count its commit as successful."""
    old = Work(str(tmp_path), SETTINGS)
    old.append(0)
    (tmp_path / LOCK).unlink()
    new = Work(str(tmp_path), SETTINGS)
    for number in range(1, 25):
        new.append(number)
    new.history._writer.join()
    new.history.table.clear_log(0)
    before = versions(tmp_path)
    with pytest.raises(WriterConflictError, match="taken over"):
        old.append(25)
    with pytest.raises(WriterConflictError, match="taken over"):
        old.history.append(batch(26))
    with pytest.raises(WriterConflictError, match="taken over"):
        old.history.end_step()
    assert versions(tmp_path) == before
    new.append(27)
    new.close(0)
    check_stored(tmp_path, [*range(25), 27])


def test_a_commit_into_a_place_that_became_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is trimmed just before the commit, which then has no conflict."""
    work = Work(str(tmp_path), SETTINGS)
    work.append(0)
    entry = work.history.version + 1
    has = DeltaLog.has_version

    def forgotten(log: DeltaLog, version: int) -> bool:
        return version != entry - 1 and has(log, version)

    monkeypatch.setattr(DeltaLog, "has_version", forgotten)
    with pytest.raises(WriterConflictError, match="taken over"):
        work.append(1)
    monkeypatch.undo()
    assert entry not in versions(tmp_path)


# What waits for vacuum


def test_files_wait_from_the_moment_they_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Removed files wait from their removal, however old they are, also when the table no longer lists them."""
    work = Work(str(tmp_path), SETTINGS)
    for number in range(3):
        work.append(number)
    for path in (*active(tmp_path)[0], *active(tmp_path)[1]):
        os.utime(path, (time.time() - 100 * HOUR, time.time() - 100 * HOUR))
    work.step(0)
    for number in range(3, 25):
        work.append(number)
    work.history._writer.join()
    work.history.table.clear_log(0)
    waiting = leftovers(tmp_path)
    assert len(waiting) >= 6
    assert work.history.vacuum(1).files == 0
    assert leftovers(tmp_path) == waiting
    monkeypatch.setattr(FileClock, "now", lambda _: time.time() + 2 * HOUR)
    assert work.history.vacuum(2.1).files == 0
    assert work.history.vacuum(1.9).files == len(waiting)
    assert leftovers(tmp_path) == set()
    work.close(0)
    check_stored(tmp_path, range(25))


def test_properties_of_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that was made without them opens as before."""
    with History(tmp_path / "new", **SETTINGS) as history:
        history.append(batch(0))
    properties = DeltaTable(tmp_path / "new").metadata().configuration
    assert table_creation.PROPERTIES.items() <= properties.items()
    monkeypatch.setattr(table_creation, "PROPERTIES", {"delta.checkpointInterval": "10"})
    work = Work(str(tmp_path / "old"), SETTINGS)
    monkeypatch.undo()
    for number in range(12):
        work.append(number)
        work.step(0)
    work.vacuum(0)
    work.close(0)
    with History(tmp_path / "old") as history:
        history.append(batch(12))
        assert history.quantile(0.5, mode="exact") == exact_quantile(all_of(range(13)), 0.5)
    assert np.diff(versions(tmp_path / "old")).tolist() == [1] * (len(versions(tmp_path / "old")) - 1)
