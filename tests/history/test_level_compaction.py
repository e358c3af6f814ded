"""Compaction of levels: runs dropped by retention, the length of runs, and the same files for the same appends."""

import pickle
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from quantide.errors import StorageError
from quantide.history import History, compaction_plan
from quantide.history.compaction_tasks import CompactionOutput, CompactionTask, LocalExecutor, compact_range
from tests.history.history_model import BY_NAME, SHAPES, Model, Rng, check_all, small
from tests.oracle import SLACK

# --- retention ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("retention", "kappa"), [(1, 2), (4, 1), (8, 1), (12, 2), (20, 3), (5, 10)])
def test_expired_steps_are_dropped(retention: int, kappa: int, tmp_path: Path, rng: Rng) -> None:
    """The last `retention` steps are always there; no run is so long that much more than them is."""
    longest = max(1, retention // compaction_plan.RETENTION_SHARE)
    history = History(tmp_path / "s", eps=0.05, kappa=kappa, retention=retention)
    steps: list[Any] = []
    for step in range(1, 2 * retention + 8):
        steps.append(rng.normal(size=20))
        history.append(steps[-1])
        history.end_step()
        runs = history.runs()
        covered = [number for run in runs for number in range(run.id.first, run.id.last + 1)]
        assert covered == list(range(covered[0], step + 1))
        assert step - retention - longest < covered[0] <= max(1, step - retention + 1)
        assert max(run.id.last - run.id.first + 1 for run in runs) <= longest
        remaining = np.concatenate(steps[covered[0] - 1 :])
        answer = history.answer(0.5, "exact")
        assert (answer.n, answer.value) == (len(remaining), np.sort(remaining)[answer.target - 1])
        assert answer.last_steps == history.spans()[-1].last_steps == step - covered[0] + 1
    assert history.verify().values == history.n
    assert history.vacuum(0).files > 0
    assert sum(1 for _ in (tmp_path / "s" / "runs").iterdir()) == history.stats()["files"]


def test_retention_is_a_number_of_steps(tmp_path: Path) -> None:
    refused: list[Any] = [0, -1, 1.5, "7 days", True]
    for retention in refused:
        with pytest.raises(ValueError, match="retention"):
            History(tmp_path / "s", retention=retention)


# --- the same appends, the same files -----------------------------------------------------------------------


def fill(history: History, keyed: bool) -> None:
    """Append five steps of several chunks, some of them large enough for several files."""
    rng = np.random.default_rng(5)
    for step in range(5):
        for shape in ("wide", "ties", "sorted"):
            values = BY_NAME["float64"].of(SHAPES[shape](rng, int(rng.integers(1, 120))))
            history.append(values, key=rng.integers(0, 4, len(values)) if keyed else None, batch_id=f"{step}{shape}")
        if step < 4:
            history.end_step()


def bytes_of(folder: Path) -> dict[str, bytes]:
    """Return every data and index file of a store, by name."""
    paths = [*(folder / "runs").iterdir(), *(folder / "_quantide" / "side").iterdir()]
    return {path.name: path.read_bytes() for path in paths}


class OneByOne:
    """Executor that runs tasks in another order, serialised as for another machine."""

    def map(self, tasks: Sequence[CompactionTask]) -> list[CompactionOutput]:
        outputs = [compact_range(pickle.loads(pickle.dumps(task))) for task in reversed(tasks)]
        return outputs[::-1]


@pytest.mark.parametrize("keyed", [False, True])
def test_the_same_appends_make_the_same_files(keyed: bool, tmp_path: Path) -> None:
    stores = []
    executors: list[Callable[[], Any]] = [LocalExecutor, OneByOne]
    with small():
        for number, make in enumerate(executors):
            folder = tmp_path / str(number)
            with History(folder, kappa=2, keys="k" if keyed else None, executor=make()) as history:
                fill(history, keyed)
                answers = [
                    history.answer(phi, mode) for phi in (0.1, 0.5, 0.9) for mode in ("quick", "accurate", "exact")
                ]
            stores.append((bytes_of(folder), answers))
    assert len(stores[0][0]) > 40
    assert stores[0] == stores[1]


# --- while a compaction runs --------------------------------------------------------------------------------


class BlockedExecutor:
    """Executor that waits until it is released."""

    def __init__(self) -> None:
        self.begun, self.release = Event(), Event()

    def map(self, tasks: Sequence[CompactionTask]) -> list[CompactionOutput]:
        self.begun.set()
        assert self.release.wait(30)
        return LocalExecutor().map(tasks)


def test_appends_and_questions_go_on_while_a_merge_runs(tmp_path: Path, rng: Rng) -> None:
    model, executor = Model(BY_NAME["float64"]), BlockedExecutor()
    with small(), History(tmp_path / "s", eps=0.05, kappa=1, executor=executor) as history:
        executor.release.set()
        for size in (100, 70):
            values = rng.normal(size=size)
            for part in np.array_split(values, 3):
                history.append(part)
            model.append(values)
            executor.release.clear()
            executor.begun.clear()
            history.end_step(wait=False)
            model.end_step()
            assert executor.begun.wait(30)
            for _ in range(3):
                more = rng.normal(size=20)
                history.append(more)
                model.append(more)
                check_all(history, model, rng, questions=1)
                check_all(History(tmp_path / "s"), model, rng, questions=1)
            history.vacuum(0)  # keeps what the compaction that is under way reads
            executor.release.set()
        history.end_step()
        model.end_step()
        check_all(history, model, rng)
        assert history.stats()["runs"] <= 2
        history.verify()


def test_many_threads_query_while_one_writes(tmp_path: Path) -> None:
    """Every answer is right for some moment: n identifies it, because values arrive in order."""
    history = History(tmp_path / "s", eps=0.01, kappa=2)
    history.append(np.arange(100.0))
    errors: list[object] = []
    done = Event()

    def query(handle: History, mode: str) -> None:
        try:
            while not done.is_set():
                answer = handle.answer(0.5, mode)
                if answer.n % 100 or abs(answer.value + 1 - answer.target) > answer.error * answer.n + SLACK:
                    errors.append(answer)
        except BaseException as error:
            errors.append(error)

    threads = [Thread(target=query, args=(history, mode)) for mode in ("accurate", "exact", "quick", "accurate")]
    threads.append(Thread(target=query, args=(History(tmp_path / "s"), "accurate")))
    for thread in threads:
        thread.start()
    try:
        for step in range(1, 30):
            history.append(np.arange(100.0) + 100 * step)
            if step % 3 == 0:
                history.end_step(wait=step % 2 == 0)
            if step % 10 == 0:
                history.vacuum(0)
    finally:
        done.set()
        for thread in threads:
            thread.join()
        history.close()
    assert errors == []
    assert history.quantile(1.0) == 2999


# --- disk space and files of a compaction -------------------------------------------------------------------


def test_a_merge_without_room_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history = History(tmp_path / "s", kappa=1)
    history.append([1.0])
    history.end_step()
    history.append([2.0, 3.0])
    before = history.answer(0.5, "exact")
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=0))
        with pytest.raises(StorageError, match="free"):
            history.end_step()
        assert history.answer(0.5, "exact").value == before.value
    history.end_step()
    assert history.answer(0.5, "exact").value == before.value
    assert (history.stats()["runs"], history.stats()["steps"]) == (1, 2)


class FailingExecutor:
    """Executor whose disk is full for a while."""

    def __init__(self, times: int) -> None:
        self.left = times

    def map(self, tasks: Sequence[CompactionTask]) -> list[CompactionOutput]:
        self.left -= 1
        if self.left >= 0:
            raise StorageError("no room")
        return LocalExecutor().map(tasks)


def two_steps(path: Path) -> History:
    """Make one ended step and one that is about to end: its compaction fails once."""
    history = History(path, kappa=1, executor=FailingExecutor(1))
    history.append([1.0])
    history.end_step()
    history.append([2.0])
    return history


def test_a_merge_that_failed_can_be_repeated(tmp_path: Path) -> None:
    history = two_steps(tmp_path / "s")
    with pytest.raises(StorageError, match="no room"):
        history.end_step()
    assert history.quantiles([0.5, 1.0], "exact").tolist() == [1, 2]
    history.end_step()
    assert (history.stats()["steps"], history.stats()["runs"]) == (2, 1)


@pytest.mark.parametrize("method", ["end_step", "close"])
def test_a_merge_that_failed_in_the_background(method: str, tmp_path: Path) -> None:
    """The next end_step() or close() raises the error, once."""
    history = two_steps(tmp_path / "s")
    history.end_step(wait=False)
    with pytest.raises(StorageError, match="no room"):
        getattr(history, method)()
    assert history.quantiles([0.5, 1.0], "exact").tolist() == [1, 2]
    history.append([3.0])
    history.end_step()
    history.close()
    assert History(tmp_path / "s").quantiles([0.3, 0.6, 1.0]).tolist() == [1, 2, 3]
    assert history.stats()["runs"] <= 2


def test_vacuum_keeps_what_a_reader_may_have_in_hand(tmp_path: Path, rng: Rng) -> None:
    history = History(tmp_path / "s", kappa=1, window=0)
    for _ in range(4):
        history.append(rng.normal(size=50))
        history.end_step()
    files = sum(1 for _ in (tmp_path / "s" / "runs").iterdir())
    assert history.vacuum().files == 0
    assert history.vacuum(0.5).files == 0
    removed = history.vacuum(0)
    assert removed.files == 2 * (files - history.stats()["files"]) > 0
    assert removed.bytes > 0
    refused: list[Any] = [-1, float("nan"), float("inf"), "1", None, True]
    for hours in refused:
        with pytest.raises(ValueError, match="older_than_hours"):
            history.vacuum(hours)


@pytest.mark.parametrize("keyed", [False, True])
def test_what_was_skipped_is_counted_once(keyed: bool, tmp_path: Path, rng: Rng) -> None:
    """Compact chunks of many files in many ranges: the counts of nulls and NaN stay the same."""
    values = [None, float("nan"), *rng.normal(size=98).tolist()]
    with small(), History(tmp_path / "s", kappa=1, keys="k" if keyed else None) as history:
        for _ in range(5):
            history.append(values, key=rng.integers(0, 3, 100) if keyed else None, nan="skip")
            history.end_step()
        assert history.stats()["files"] > 10
        assert (history.n, history.stats()["nulls"], history.stats()["nans"]) == (490, 5, 5)


def test_a_closed_history_begins_again(tmp_path: Path) -> None:
    """close() releases the lease; the next write takes it again, also in the background."""
    history = History(tmp_path / "s", kappa=1)
    for step in range(3):
        history.append([float(step)])
        history.end_step(wait=False)
        history.close()
    assert history.n == 3
    history.close()
