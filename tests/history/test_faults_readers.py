"""Readers while files are compacted and vacuumed; background compactions."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

from quantide.errors import EmptyError, StorageError
from quantide.history import History, vacuum
from quantide.history.verify import check_run_file
from quantide.store import fault_points
from tests.history.forked_writers import Driver
from tests.history.writer_workload import KEYED, ROWS, SETTINGS, Work, all_of, check_stored, leftovers, small
from tests.oracle import bound_faults, count_at_most

STORES = {"plain": SETTINGS, "keyed": KEYED}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch.setattr)


class Reader:
    """Runs one query after the other; batches are appended in order, so n identifies the version of an answer."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.history, self.rng = History(folder), np.random.default_rng(seed)
        self.counts = [0]
        self.queries = 0

    def query(self) -> None:
        phi, value = float(self.rng.uniform(0.001, 1)), float(self.rng.integers(-40_000, 40_000))
        kind = self.queries % 6
        self.queries += 1
        try:
            if kind == 3:
                self.check_rank(value)
            elif kind == 4:
                self.check_statistics()
            elif kind == 5 and self.queries % 30 == 6:
                self.check_count(self.history.verify().values)
            else:
                answer = self.history.answer(phi, ("quick", "accurate", "exact")[kind % 3])
                assert not bound_faults(all_of(range(self.check_count(answer.n))), answer)
        except EmptyError:
            self.check_count(0)

    def check_rank(self, value: float) -> None:
        """Check that counts lie between those before and after: the version of an answer is unknown."""
        before = self.check_count(self.history.n)
        low, high = self.history.rank(value)
        after = self.check_count(self.history.n)
        assert low <= count_at_most(all_of(range(after)), value)
        assert high >= count_at_most(all_of(range(before)), value)

    def check_statistics(self) -> None:
        self.check_count(self.history.stats()["values"])
        assert all(span.values <= self.history.n for span in self.history.spans())
        assert "values=" in repr(self.history)
        self.history.runs()

    def check_count(self, n: int) -> int:
        """Return the number of batches; never fewer than before."""
        assert n % ROWS == 0
        assert n >= self.counts[-1]
        self.counts.append(n)
        return n // ROWS


def stress(folder: Path, settings: dict[str, Any], driver: Driver, batches: int) -> None:
    warm = Work(f"{folder}-warm", settings)  # so that no question waits for kernels to be loaded
    for number in range(2):
        warm.append(number)
        assert [warm.history.answer(0.5, mode).n for mode in ("quick", "accurate", "exact")]
        warm.step(0)
    History(folder, **settings)
    child = driver.start("keep_writing", folder, settings=settings, batches=batches)
    readers = [Reader(folder, seed) for seed in range(2)]
    ended = Event()

    def read(reader: Reader) -> None:
        while not ended.is_set():
            reader.query()

    with ThreadPoolExecutor(2) as pool:
        reading = [pool.submit(read, reader) for reader in readers]
        try:
            child.finish()
        finally:
            ended.set()
        for one in reading:
            one.result()
    for reader in readers:
        assert len(set(reader.counts)) > 3
        assert reader.history.n == batches * ROWS
        assert reader.history.verify().values == batches * ROWS
    check_stored(folder, range(batches))


@pytest.mark.parametrize("store", STORES)
def test_a_reader_of_another_process(store: str, driver: Driver, tmp_path: Path) -> None:
    stress(tmp_path / "store", STORES[store], driver, 14)


@pytest.mark.slow
@pytest.mark.parametrize("store", STORES)
def test_a_reader_for_long(store: str, driver: Driver, tmp_path: Path) -> None:
    stress(tmp_path / "store", STORES[store], driver, 400)


def test_threads_of_the_writer(tmp_path: Path) -> None:
    """Threads of the writer's handle query all rows that were appended before."""
    work = Work(str(tmp_path), SETTINGS)
    readers = [Reader(tmp_path, seed) for seed in range(2)]
    for reader in readers:
        reader.history = work.history
    ended, done = Event(), [0]

    def read(reader: Reader) -> None:
        while not ended.is_set():
            least = done[0]
            reader.query()
            assert reader.counts[-1] >= least * ROWS

    with ThreadPoolExecutor(2) as pool:
        reading = [pool.submit(read, reader) for reader in readers]
        try:
            for number in range(16):
                work.append(number)
                done[0] = number + 1
                if number % 2:
                    work.history.end_step(wait=False)
                if number % 5 == 4:
                    work.history.vacuum(0)
        finally:
            ended.set()
        for one in reading:
            one.result()
    work.history.close()
    check_stored(tmp_path, range(16))


def test_a_reader_of_an_old_version(tmp_path: Path) -> None:
    """A writer compacts and vacuums all files of a reader; each query finds the new files."""
    work = Work(str(tmp_path), SETTINGS)
    queries: list[Callable[[History], Any]] = [
        lambda history: history.answer(0.5, mode="exact").n,
        lambda history: history.answer(0.5).n,
        lambda history: history.verify().values,
        lambda history: history.stats()["values"],
        lambda history: len(history.runs()) and history.n,
        lambda history: history.spans()[-1].values,
        lambda history: history.rank(1e9)[0],
        lambda history: round(float(history.cdf(1e9)) * history.n),
        lambda history: history.compare(0.5)[0].value.n,
    ]
    for number, query in enumerate(queries):
        work.append(2 * number)
        work.step(0)
        reader = History(tmp_path)
        assert reader.snapshot.version == work.history.version
        work.append(2 * number + 1)
        work.step(0)
        work.vacuum(0)
        assert query(reader) in (n := (2 * number + 1) * ROWS, n + ROWS)
    work.close(0)


def test_verify_while_files_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is compacted away while verify() runs is not a lost file."""
    work = Work(str(tmp_path), SETTINGS)
    for number in range(3):
        work.append(number)
    reader = History(tmp_path)
    left = [1]

    def slowly(*arguments: Any) -> None:
        if left:
            left.pop()
            work.step(0)
            work.vacuum(0)
        check_run_file(*arguments)

    monkeypatch.setattr("quantide.history.verify.check_run_file", slowly)
    assert reader.verify().values == 3 * ROWS
    assert not left
    work.close(0)


# In the background


class Gate:
    """Gate that blocks every thread at a fault point until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str, fails: bool = False) -> None:
        self._name, self._fails = name, fails
        self.reached, self.open = Event(), Event()
        monkeypatch.setattr(fault_points, "point", self._point)

    def _point(self, name: str) -> None:
        if name == self._name:
            self.reached.set()
            assert self.open.wait(20)
            if self._fails:
                raise StorageError("no space")


@pytest.mark.parametrize(
    ("point", "store"),
    [("merge.planned", "plain"), ("merge.sorted", "keyed"), ("write.side", "plain"), ("merge.written", "keyed")],
)
def test_work_goes_on_while_a_merge_runs(
    point: str, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Work(str(tmp_path), STORES[store])
    for number in range(3):
        work.append(number)
    with monkeypatch.context() as patch:
        gate = Gate(patch, point)
        work.history.end_step(wait=False)
        assert gate.reached.wait(20)
    for number in range(3, 6):
        work.append(number)
        for mode in ("quick", "accurate", "exact"):
            assert not bound_faults(all_of(range(number + 1)), work.history.answer(0.5, mode))
        work.vacuum(0)
    assert work.history.stats()["steps"] == 1
    gate.open.set()
    work.history.end_step()
    assert (work.history.stats()["runs"], work.history.stats()["steps"]) == (2, 2)
    work.vacuum(0)
    assert leftovers(tmp_path) == set()
    assert work.history.verify().values == 6 * ROWS
    work.close(0)
    check_stored(tmp_path, range(6))


@pytest.mark.parametrize("end", ["end_step", "close"])
@pytest.mark.parametrize("point", ["merge.planned", "merge.sorted", "merge.written"])
def test_an_error_in_the_background(point: str, end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is raised where the compaction is waited for, once, and nothing is lost."""
    work = Work(str(tmp_path), SETTINGS)
    for number in range(3):
        work.append(number)
    with monkeypatch.context() as patch:
        gate = Gate(patch, point, fails=True)
        work.history.end_step(wait=False)
        assert gate.reached.wait(20)
    work.append(3)
    gate.open.set()
    with pytest.raises(StorageError, match="no space"):
        getattr(work.history, end)()
    assert work.history.n == 4 * ROWS
    assert work.history.stats()["steps"] == 1
    work.append(4)
    work.history.end_step()
    assert (work.history.stats()["runs"], work.history.stats()["steps"]) == (2, 2)
    work.vacuum(0)
    assert leftovers(tmp_path) == set()
    work.close(0)
    check_stored(tmp_path, range(5))
    assert History(tmp_path).verify().values == 5 * ROWS


def test_appends_go_on_while_files_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(str(tmp_path), {**SETTINGS, "window": 0})
    for number in range(3):
        work.append(number)
    work.step(0)
    with ThreadPoolExecutor(1) as pool, monkeypatch.context() as patch:
        gate = Gate(patch, "vacuum.removed")
        cleaning = pool.submit(work.vacuum, 0)
        assert gate.reached.wait(20)
        for number in range(3, 6):
            work.append(number)
        assert not cleaning.done()
        gate.open.set()
        cleaning.result()
    assert leftovers(tmp_path) == set()
    assert work.history.verify().values == 6 * ROWS
    work.close(0)


@pytest.mark.parametrize("moment", ["_list_files", "files", "clear_log"])
def test_vacuum_while_a_merge_is_committed(moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compaction commits while vacuum lists files: they are no longer pending, and were not active before."""
    work = Work(str(tmp_path), SETTINGS)
    for number in range(3):
        work.append(number)
    with monkeypatch.context() as patch:
        gate = Gate(patch, "merge.written")
        work.history.end_step(wait=False)
        assert gate.reached.wait(20)
    owner: Any = vacuum if moment == "_list_files" else work.history.table
    function = getattr(owner, moment)

    def then_merged(*arguments: Any) -> Any:
        result = function(*arguments)
        if not gate.open.is_set():
            gate.open.set()
            work.history._writer.join()
        return result

    with monkeypatch.context() as patch:
        patch.setattr(owner, moment, then_merged)
        work.vacuum(0)
    check_stored(tmp_path, range(3))
    assert work.history.verify().values == 3 * ROWS
    work.close(0)


def test_a_question_while_a_merge_is_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot is of one version: files of one and the number of the next would hide the commit from the
    compactor.
    """
    work = Work(str(tmp_path), SETTINGS)
    for number in range(2):
        work.append(number)
    with monkeypatch.context() as patch:
        gate = Gate(patch, "merge.written")
        work.history.end_step(wait=False)
        assert gate.reached.wait(20)
    table = work.history.table
    state = table.state

    def then_merged(since: Any) -> Any:
        found = state(since)
        gate.open.set()
        merging = work.history._writer.compactor._level_task
        assert merging is not None
        for _ in range(20):
            if merging.done():
                break
            Event().wait(0.01)
        return found

    work.append(2)  # so that the next query reads the table
    monkeypatch.setattr(table, "state", then_merged)
    assert work.history.n == 3 * ROWS
    monkeypatch.undo()
    work.history.end_step()
    assert work.history.stats()["runs"] == 2
    work.close(0)
    check_stored(tmp_path, range(3))
