"""Retention: a little at a time, never because of a wrong clock, and dropped runs can be restored for a while."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantide.cli import main
from quantide.errors import CorruptBytesError, InvalidArgumentError, StorageError
from quantide.history import History
from quantide.store import file_clock, retired_files
from quantide.store.file_names import RETIRED
from quantide.store.folder_storage import FolderStorage
from quantide.store.ingest_status import read_accepted_clock, write_clock_problem
from quantide.windows.wall_clock import VARIABLE
from tests.history.forked_writers import Driver
from tests.history.writer_workload import SETTINGS, all_of, batch, check_stored, leftovers, small

DAY, SIXTY_DAYS = 24 * 3600, 60 * 24 * 3600
Out = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch.setattr)


def filled(folder: Path, retention: int, steps: int) -> History:
    """Append a batch a step."""
    history = History(folder, **SETTINGS, retention=retention)
    for number in range(steps):
        history.append(batch(number), batch_id=number)
        history.end_step()
    return history


def restorable(folder: Path) -> list[str]:
    """Return the names of data files that can be restored."""
    retired = folder / RETIRED
    return sorted(path.stem for path in retired.glob("*.parquet")) if retired.exists() else []


def later(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let some running time pass."""
    for module in (retired_files, file_clock):
        before = module.running_time()
        monkeypatch.setattr(module, "running_time", lambda before=before: before + seconds)


# Dropped, and brought back


@pytest.mark.parametrize("vacuumed", [False, True])
def test_what_expired_is_restored_and_stays_for_another_retention(vacuumed: bool, tmp_path: Path) -> None:
    history = filled(tmp_path, retention=8, steps=12)
    batches = check_stored(tmp_path, range(4, 12), range(4))
    lost = [number for number in range(12) if number not in batches]
    assert lost
    if vacuumed:
        history.vacuum(0)
    restored = history.restore()
    assert restored.values == len(all_of(lost))
    assert restored.files >= len(lost)
    assert history.n == len(all_of(range(12)))
    assert history.verify().values == history.n
    assert history.quantile(0.5, "exact") == np.sort(all_of(range(12)))[(history.n + 1) // 2 - 1]
    assert history.restore().files == 0, "restoring twice changes nothing"
    for _ in range(7):
        history.end_step()
        check_stored(tmp_path, range(12))
    for _ in range(13):
        history.end_step()
    assert history.n == 0
    assert history.restore().values == len(all_of(range(12)))
    history.close()
    check_stored(tmp_path, range(12))


def test_one_pass_drops_a_fourth_of_the_retention_at_most(tmp_path: Path) -> None:
    """End a thousand empty steps, as after a clock that ran ahead: one pass drops a fourth of the retention."""
    history = filled(tmp_path, retention=8, steps=8)
    for _ in range(30):
        history._writer.end_step()
    there = list(range(8))
    while there:
        history.end_step()
        left = check_stored(tmp_path, [], there)
        assert 0 < len(there) - len(left) <= 8 // 4
        assert left == there[len(there) - len(left) :], "the oldest go first"
        there = left
    assert history.restore().values == len(all_of(range(8)))
    history.close()
    check_stored(tmp_path, range(8))


# The grace period


def test_vacuum_removes_what_expired_after_half_the_retention(tmp_path: Path) -> None:
    history = filled(tmp_path, retention=4, steps=6)
    first = restorable(tmp_path)
    assert first
    history.vacuum(0)
    assert set(first) <= set(restorable(tmp_path))
    history.end_step()
    history.end_step()
    history.vacuum(0)
    assert not set(first) & set(restorable(tmp_path))
    history.vacuum(0, grace_hours=0)
    assert restorable(tmp_path) == []
    assert leftovers(tmp_path) == set()
    with pytest.raises(InvalidArgumentError, match=r"grace_hours is a number from 0 to 1000000, not -1"):
        history.vacuum(0, grace_hours=-1)
    history.close()


def test_a_clock_that_runs_ahead_does_not_shorten_the_grace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with filled(tmp_path, retention=4, steps=8) as history:
        expired = restorable(tmp_path)
        history.vacuum(0, grace_hours=168)
    for jumps in range(1, 4):
        monkeypatch.setenv(VARIABLE, str(SIXTY_DAYS))
        with History(tmp_path) as reopened:
            reopened.vacuum(0, grace_hours=168)
            assert restorable(tmp_path) == expired, "a process that starts by the wrong clock counts one day"
            monkeypatch.setenv(VARIABLE, str(SIXTY_DAYS * (1 + jumps)))
            reopened.vacuum(0, grace_hours=168)
            assert restorable(tmp_path) == expired, "one that runs counts no jump at all"
    with History(tmp_path) as reopened:
        reopened.vacuum(0, grace_hours=168)
        later(monkeypatch, 6 * DAY - 60)
        reopened.vacuum(0, grace_hours=168)
        assert restorable(tmp_path) == expired
        later(monkeypatch, 120)
        reopened.vacuum(0, grace_hours=168)
        assert restorable(tmp_path) == []


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"files": {"x": 1}}', b'{"at": NaN, "files": 7}'])
def test_a_damaged_list_of_ages_lets_files_wait(damage: bytes, tmp_path: Path) -> None:
    with filled(tmp_path, retention=4, steps=8) as history:
        expired = restorable(tmp_path)
        (tmp_path / retired_files.AGES).write_bytes(damage)
        history.vacuum(0)
        history.vacuum(0, grace_hours=0.5)
        assert restorable(tmp_path) == expired
        assert len(json.loads((tmp_path / retired_files.AGES).read_text())["files"]) == len(expired)


def test_a_data_file_that_is_damaged_is_named(tmp_path: Path) -> None:
    with filled(tmp_path, retention=4, steps=8) as history:
        history.vacuum(0)
        stem = restorable(tmp_path)[0]
        os.truncate(tmp_path / RETIRED / f"{stem}.parquet", 100)
        before = history.n
        with pytest.raises(CorruptBytesError, match=rf"{stem}.* cannot be restored"):
            history.restore()
        assert history.n == before


def test_a_side_file_that_is_lost_is_rebuilt(tmp_path: Path) -> None:
    with filled(tmp_path, retention=4, steps=8) as history:
        history.vacuum(0, grace_hours=168)
        (tmp_path / RETIRED / f"{restorable(tmp_path)[0]}.side").unlink()
        history.restore()
        assert history.n == len(all_of(range(8)))
        history.append([1.0])
        assert history.verify().values == history.n


# Killed


@pytest.mark.parametrize(
    "fault",
    ["retention.linked@1", "retention.linked@3", "restore.linked@1", "restore.committed@1", "restore.committed@2"],
)
def test_killed_while_runs_are_dropped_or_restored(fault: str, driver: Driver, tmp_path: Path) -> None:
    """Every appended batch is in the table, or can be restored, once."""
    folder = tmp_path / "store"
    child = driver.start("expire_and_restore", folder, f"{fault}:kill", settings=SETTINGS | {"retention": 8})
    assert child.wait() == -9, child.log.read_text()
    done = child.batches("done")
    with History(folder) as history:
        history.vacuum(grace_hours=168)
        history.restore()
        check_stored(folder, done)
        assert history.verify().values == history.n == len(all_of(done))


# How old files are


def test_a_clock_that_runs_ahead_makes_no_file_older(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compacted files, recent files and log entries stay for their hour, for readers that use them."""
    with History(tmp_path, **SETTINGS) as history:
        for number in range(25):
            history.append(batch(number))
            if number % 3 == 2:
                history.end_step()
        history._writer.join()
        log = sorted(os.listdir(tmp_path / "_delta_log"))
        waiting = leftovers(tmp_path)
        assert waiting
        monkeypatch.setenv(VARIABLE, str(SIXTY_DAYS))
        assert history.vacuum(1).files == 0
    with History(tmp_path) as reopened:
        assert reopened.vacuum(1).files == 0, "nor in a process that starts by the wrong clock"
        assert waiting <= leftovers(tmp_path)
        assert set(log) <= set(os.listdir(tmp_path / "_delta_log"))
        later(monkeypatch, 3700)
        assert reopened.vacuum(1).files >= len(waiting)
    assert leftovers(tmp_path) == set()
    check_stored(tmp_path, range(25))


# Commands


def printed(out: Out) -> Any:
    return json.loads(out.readouterr().out)


def test_commands(tmp_path: Path, capsys: Out) -> None:
    store = str(tmp_path / "store")
    filled(tmp_path / "store", retention=4, steps=8).close()
    assert main(["history", "clock", store, "--json"]) == 0
    output = printed(capsys)
    assert output | {"clock": ""} == {
        "path": store,
        "clock": "",
        "problem": None,
        "accepted": False,
        "steps": 8,
        "restorable_runs": 4,
    }
    write_clock_problem(FolderStorage(store), "the clock is 60 days ahead")
    assert main(["history", "clock", store]) == 0
    assert "problem: the clock is 60 days ahead" in capsys.readouterr().out
    assert History(store).stats()["clock_problem"] == "the clock is 60 days ahead"
    assert read_accepted_clock(FolderStorage(store)) is None
    assert main(["history", "clock", store, "--accept"]) == 0
    assert "accepted: " in capsys.readouterr().out
    accepted = read_accepted_clock(FolderStorage(store))
    assert accepted is not None
    assert accepted.step == 9
    assert main(["history", "restore", store, "--json"]) == 0
    assert printed(capsys)["values"] == len(all_of(range(4)))
    assert History(store).n == len(all_of(range(8)))
    assert main(["history", "restore", store]) == 0
    assert "0 files with 0 values restored" in capsys.readouterr().out
    missing = str(tmp_path / "none")
    for command in ("clock", "restore"):
        assert main(["history", command, missing]) == 2
        assert "there is no history" in capsys.readouterr().err
    assert not os.path.exists(missing)


def test_second_names_are_removed_once_the_restored_files_outlast_a_loss_of_power(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restore lost in a power loss finds the retired names again, also without `durable`."""
    history = filled(tmp_path, retention=4, steps=8)
    before, order, remove = history.table.version, list[str](), os.remove

    def removed(path: Any) -> None:
        order.append("removed" if RETIRED in str(path) else "")
        remove(path)

    monkeypatch.setattr(os, "remove", removed)
    monkeypatch.setattr(
        FolderStorage,
        "sync_all",
        lambda storage: order.append(
            "synced" if history.table.version > before and storage.path == str(tmp_path) else "too early"
        ),
    )
    files = history.restore().files
    assert files > 0
    history.close()
    events = [event for event in order if event]
    assert events == ["synced", *["removed"] * (2 * files)]


def test_a_file_system_without_links_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link

    def refuse(source: Any, target: Any) -> None:
        if RETIRED in str(target):
            raise PermissionError(1, "Operation not permitted")
        link(source, target)

    history = filled(tmp_path, retention=4, steps=4)
    monkeypatch.setattr(os, "link", refuse)
    before = history.n
    with pytest.raises(StorageError, match="cannot be linked"):
        history.end_step()
    assert history.n == before
    monkeypatch.undo()
    history.close()
