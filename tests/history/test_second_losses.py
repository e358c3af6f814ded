"""Consecutive losses: a second power loss, an interrupted restore, unreadable times."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from quantide import History
from quantide.cli import main
from quantide.errors import InvalidArgumentError, RepairWarning
from quantide.history.future_rows import repair_future_rows
from quantide.live import LiveStream


def tear(folder: Path, entries: int) -> None:
    """Fill the newest entries of the log with zeros."""
    for entry in sorted((folder / "_delta_log").glob("*.json"))[-entries:]:
        entry.write_bytes(bytes(entry.stat().st_size))


def test_the_data_of_a_second_torn_append_is_kept_too(tmp_path: Path) -> None:
    """The next writer reuses no name of a lost one whose take-over and append were torn."""
    with History(tmp_path, eps=0.05) as history:
        history.append(np.arange(10.0))
    for value in (111.0, 222.0):
        with History(tmp_path) as history:
            if value == 222.0:
                with pytest.warns(RepairWarning):
                    history.open()
            history.append(np.full(5, value))
        tear(tmp_path, 2)
    with History(tmp_path) as history:
        with pytest.warns(RepairWarning):
            history.open()
        history.vacuum(0)
    set_aside = [
        set(pq.read_table(path)["value"].to_pylist()) for path in (tmp_path / "_quantide/aside").glob("*.parquet")
    ]
    assert sorted(map(max, set_aside)) == [111.0, 222.0]


def test_a_torn_merge_is_no_lost_append(tmp_path: Path) -> None:
    with History(tmp_path, eps=0.05, window=0, kappa=2) as history:
        for step in range(3):
            history.append(np.arange(10.0) + step)
            history.end_step()
    tear(tmp_path, 1)
    with History(tmp_path) as history:
        with pytest.warns(RepairWarning) as warnings:
            history.open()
        assert history.n == 30
    assert not any("append_files" in str(one.message) for one in warnings)


def test_a_restore_can_be_repeated(tmp_path: Path) -> None:
    with History(tmp_path, eps=0.05, kappa=2, retention=8, window=0) as history:
        for step in range(14):
            history.append(np.full(10, float(step)))
            history.end_step()
        before = history.n
        restored = history.restore()
        assert history.n == before + restored.values > before
        assert history.restore().files == 0


@pytest.mark.slow
def test_a_restore_that_was_killed_adds_nothing_twice(tmp_path: Path) -> None:
    """Runs that it restored keep their retired names until the next restore, also once they are compacted away."""
    program = (
        "import sys, numpy as np; from quantide import History; h = History(sys.argv[1]); s = sys.argv[2]\n"
        "if s == 'restore': h.restore(); sys.exit()\n"
        "h.append(np.full(10, float(s))); h.append(np.full(10, float(s))); h.end_step()"
    )

    def run(what: str, fault: str) -> None:
        command, env = [sys.executable, "-c", program, str(tmp_path), what], os.environ | {"QUANTIDE_FAULT": fault}
        assert subprocess.run(command, env=env).returncode == -9

    with History(tmp_path, eps=0.05, kappa=2, retention=4, window=0) as history:
        history.open()
    for step in range(7):
        run(str(step), "step.ended:kill")
    with History(tmp_path) as history:
        history.end_step()
    run("restore", "restore.committed:kill")
    with History(tmp_path) as history:
        history.open()
        n = history.n
        history.restore()
        history.end_step()
        assert (history.restore().files, history.n) == (0, n)


@pytest.mark.parametrize("time", ["", "NaT", "2300-01-01", "9999-12-31", "yesterday"])
def test_a_time_that_nanoseconds_cannot_count_changes_nothing(time: str, tmp_path: Path) -> None:
    with History(tmp_path, eps=0.1, max_ahead="off") as history:
        history.append([1.0, 2.0], times=np.array(["2026-01-01", "2026-01-02"], dtype="datetime64[s]"))
    with pytest.raises(InvalidArgumentError, match="no time of this store"):
        repair_future_rows(tmp_path, "remove", newer_than=time)
    with LiveStream(tmp_path, follow=False) as live:
        assert live.answer(0.5, last=5).n == 2


@pytest.mark.parametrize("time", ["nan", "inf", "soon"])
def test_seconds_that_are_no_number_change_nothing(time: str, tmp_path: Path) -> None:
    with History(tmp_path, eps=0.1, max_ahead="off") as history:
        history.append([1.0, 2.0], times=[1.0, 2.0])
    with pytest.raises(InvalidArgumentError, match="no time of this store"):
        repair_future_rows(tmp_path, "redate", newer_than=time)


def test_rows_are_redated_by_the_right_rows_before_them(tmp_path: Path) -> None:
    times = np.arange(100.0)
    times[50] = 1e9
    with History(tmp_path, eps=0.05, max_ahead="off") as history:
        history.append(np.arange(100.0), times=times)
        history.append([9.0], times=[1e9])
    repair_future_rows(tmp_path, "redate", newer_than=5000.0)
    with LiveStream(tmp_path, follow=False) as live:
        assert (live.newest, live.answer(0.5, within=60).n) == (99.0, 61)


def test_verify_names_a_damaged_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with History(tmp_path, eps=0.1) as history:
        history.append([1.0, 2.0])
    assert main(["history", "verify", str(tmp_path)]) == 0
    tear(tmp_path, 1)
    assert main(["history", "verify", str(tmp_path)]) == 1
    assert "history repair" in capsys.readouterr().out


def test_repair_names_rows_of_the_future_and_leaves_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with History(tmp_path, eps=0.1, max_ahead="off") as history:
        history.append([1.0, 2.0], times=[1e9, 4e9])
    with History(tmp_path, max_ahead="1 hour") as history:
        history.open()
    assert main(["history", "repair", str(tmp_path)]) == 0
    assert "Add --future redate" in capsys.readouterr().out
    with LiveStream(tmp_path, follow=False) as live:
        assert live.newest == 4e9


def test_chunks_of_ended_steps_are_not_called_lost(tmp_path: Path) -> None:
    """A copy of a store has new modification times: only names show which data a torn commit can have added."""
    with History(tmp_path, eps=0.1, kappa=2) as history:
        for step in range(3):
            history.append(np.arange(4.0) + step)
            history.append(np.arange(4.0) + step)
            history.end_step()
        history.append([7.0])
    for path in (tmp_path / "runs").iterdir():
        os.utime(path)
    tear(tmp_path, 1)
    with History(tmp_path) as history:
        with pytest.warns(RepairWarning) as warnings:
            history.open()
        assert history.n == 24
    assert any("1 rows may be lost" in str(one.message) for one in warnings)
