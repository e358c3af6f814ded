"""Single writer: a second is refused, a stale one is fenced off, and no data is harmed."""

import errno
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from quantide.errors import StorageError, WriterConflictError
from quantide.history import History
from quantide.history.compaction_tasks import CompactionOutput, CompactionTask, compact_range
from quantide.store import fault_points
from tests.history.forked_writers import Driver
from tests.history.writer_workload import KEYED, SETTINGS, Work, active, batch, check_stored, leftovers, small

LOCK = "_quantide/writer.lock"


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch.setattr)


WRITES: dict[str, Callable[[History], Any]] = {
    "append": lambda history: history.append(batch(50)),
    "append of no values": lambda history: history.append([], batch_id="none"),
    "end_step": lambda history: history.end_step(),
    "vacuum": lambda history: history.vacuum(0),
}


def test_second_process_is_refused(driver: Driver, tmp_path: Path) -> None:
    folder = tmp_path / "store"
    child = driver.start("hold_lease", folder, settings=SETTINGS, number=0)
    while not child.batches("done"):
        time.sleep(0.01)
    second = History(folder)
    for write in WRITES.values():
        with pytest.raises(WriterConflictError, match=f"process {child.pid}"):
            write(second)
        assert second.n == len(batch(0))
    child.kill()
    second.append(batch(1))
    check_stored(folder, [0, 1])
    second.close()


@pytest.mark.parametrize("settings", [SETTINGS, KEYED])
def test_processes_at_once(settings: dict[str, Any], driver: Driver, tmp_path: Path) -> None:
    """Two processes create the store, append, end steps and compact, as often as they can."""
    begin = time.time() + 0.1
    numbers = [list(range(8)), list(range(20, 28))]
    children = [
        driver.start("compete", tmp_path / "store", settings=settings, numbers=some, begin=begin) for some in numbers
    ]
    for child in children:
        child.finish()
    done, entries = children[0].batches("done"), {status for status, _ in children[0].notes()}
    assert entries <= {"done", "WriterConflictError"}, entries
    assert done
    assert check_stored(tmp_path / "store", done) == sorted(done)
    with History(tmp_path / "store") as history:
        history.verify()
        history.end_step()
        history.vacuum(0)
        assert leftovers(tmp_path / "store") == set()
    check_stored(tmp_path / "store", done)


def taken_over(folder: Path) -> tuple[History, History]:
    """Return a writer that lost its lock without knowing it, and its successor."""
    old = History(folder, **SETTINGS)
    old.append(batch(0), batch_id=0)
    old.append(batch(1), batch_id=1)
    (folder / LOCK).unlink()
    new = History(folder)
    new.append(batch(2), batch_id=2)
    new.end_step()
    new.append(batch(3), batch_id=3)
    return old, new


@pytest.mark.parametrize("write", WRITES)
def test_stale_writer_is_fenced(write: str, tmp_path: Path) -> None:
    old, new = taken_over(tmp_path)
    for _ in range(2):
        with pytest.raises(WriterConflictError, match="taken over"):
            WRITES[write](old)
        check_stored(tmp_path, [0, 1, 2, 3])
    new.append(batch(4), batch_id=4)
    new.end_step()
    new.verify()
    new.vacuum(0)
    assert leftovers(tmp_path) == set()
    check_stored(tmp_path, [0, 1, 2, 3, 4])
    with pytest.raises(WriterConflictError, match="taken over"):
        WRITES[write](old)
    old.close()
    new.close()
    with History(tmp_path) as reopened:
        WRITES[write](reopened)
        reopened.verify()


def test_a_stale_writer_can_query(tmp_path: Path) -> None:
    """Answers are of the writer's own version or newer; files that the other vacuumed do no harm."""
    old, new = taken_over(tmp_path)
    new.end_step()
    new.vacuum(0)
    assert old.answer(0.5, mode="exact").n in (2 * len(batch(0)), 4 * len(batch(0)))
    old.close()
    assert old.answer(0.5).n == 4 * len(batch(0))
    new.close()


@pytest.mark.parametrize("at", [1, 2])
def test_stale_writer_does_not_remove_what_it_does_not_know(
    at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A successor takes over after vacuum() read the table, and before it removes files."""
    old = History(tmp_path, **SETTINGS)
    old.append(batch(0))
    check_writer, checks = old.table.check_writer, [0]

    def then_taken_over() -> None:
        check_writer()
        checks[0] += 1
        if checks[0] == at:
            (tmp_path / LOCK).unlink()
            new = History(tmp_path)
            new.append(batch(1))
            new.close()

    monkeypatch.setattr(old.table, "check_writer", then_taken_over)
    with suppress(WriterConflictError):  # it checks once for expired files, and once for all others
        old.vacuum(0)
    assert checks[0] == at
    check_stored(tmp_path, [0, 1])
    assert History(tmp_path).verify().values == 2 * len(batch(0))
    old.close()


def test_stale_merge_in_the_background(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A successor takes over during a compaction, which is refused; its inputs stay."""
    reached, release = Event(), Event()

    def stop(name: str) -> None:
        if name == "merge.written":
            reached.set()
            release.wait(20)

    old = History(tmp_path, **SETTINGS)
    for number in range(2):
        old.append(batch(number))
    with monkeypatch.context() as patch:
        patch.setattr(fault_points, "point", stop)
        old.end_step(wait=False)
        assert reached.wait(20)
    (tmp_path / LOCK).unlink()
    new = History(tmp_path)
    new.append(batch(2))
    release.set()
    with pytest.raises(WriterConflictError):
        old.close()
    new.end_step()
    new.vacuum(0)
    assert leftovers(tmp_path) == set()
    check_stored(tmp_path, [0, 1, 2])
    new.verify()
    new.close()


def test_stale_writer_of_the_first_keys(tmp_path: Path) -> None:
    """A stale writer may not even declare key columns: the new writer would think itself fenced off."""
    old = Work(str(tmp_path), KEYED)
    old.history.end_step()
    (tmp_path / LOCK).unlink()
    new = Work(str(tmp_path), KEYED)
    new.history.end_step()
    with pytest.raises(WriterConflictError):
        old.append(0)
    new.append(1)
    new.history.end_step()
    check_stored(tmp_path, [1])
    old.history.close()
    new.history.close()


class TwiceExecutor:
    """Executor that runs every task twice, and remembers them, as Spark may."""

    def __init__(self) -> None:
        self.tasks: list[CompactionTask] = []

    def map(self, tasks: Sequence[CompactionTask]) -> list[CompactionOutput]:
        self.tasks += tasks
        first = [compact_range(task) for task in tasks]
        assert [compact_range(task) for task in tasks] == first
        return first


def test_a_task_that_lives_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that was replaced by another attempt continues: it changes nothing."""
    executor = TwiceExecutor()
    history = History(tmp_path, **SETTINGS, executor=executor)
    for number in range(2):
        history.append(batch(number))
    history.end_step()

    def full(name: str) -> None:
        if name == "disk.write":
            raise OSError(errno.ENOSPC, "no space")

    for task in executor.tasks:
        with monkeypatch.context() as patch:
            patch.setattr(fault_points, "point", full)
            with pytest.raises(StorageError):
                compact_range(task)
        assert not list(tmp_path.rglob("*.tmp"))
        history.verify()
        compact_range(task)
        history.verify()
    check_stored(tmp_path, [0, 1])
    history.vacuum(0)
    assert leftovers(tmp_path) == set()
    history.close()


def test_two_handles_of_one_process(tmp_path: Path) -> None:
    first, second = History(tmp_path, **SETTINGS), History(tmp_path)
    first.append(batch(0))
    with pytest.raises(WriterConflictError, match="one writer at a time"):
        second.append(batch(1))
    first.close()
    second.append(batch(1))
    with pytest.raises(WriterConflictError):
        first.append(batch(2))
    second.close()
    first.append(batch(2))
    check_stored(tmp_path, [0, 1, 2])
    assert len(active(tmp_path)[0]) >= 3
    first.close()


def test_a_lost_checkpoint_is_no_failure(tmp_path: Path) -> None:
    """The disk fills up between a commit and its checkpoint: the commit counts, and must not be repeated."""
    history = History(tmp_path, **SETTINGS, window=0)  # no background commit
    done = []
    for number in range(12):
        version = history.stats()["version"] + 1 if number else 2
        checkpoint = tmp_path / "_delta_log" / f"{version:020}.checkpoint.parquet"
        checkpoint.mkdir()
        history.append(batch(number))
        done.append(number)
        history.table.maintenance.wait()
        checkpoint.rmdir()
        assert history.n == sum(map(len, map(batch, done)))
    check_stored(tmp_path, done)
    assert not list((tmp_path / "_delta_log").glob("*.checkpoint.parquet"))
    history.end_step()
    history.close()
    check_stored(tmp_path, done)
