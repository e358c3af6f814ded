"""Nothing is lost: a process is killed, or its disk is full, at every step of its work, and the store is reopened."""

import json
import os
import re
import shutil
import subprocess
import sys
from itertools import cycle
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import pytest

from quantide.errors import CorruptBytesError, StorageError
from quantide.history import History, compaction_tasks
from quantide.history import recent_writer as recent_files
from quantide.store.file_names import final_name
from quantide.store.folder_storage import FolderStorage
from quantide.store.ingest_log import BatchRecord, IngestLog
from tests.conftest import seed_of
from tests.history.forked_writers import ROOT, Child, Driver
from tests.history.writer_workload import (
    BATCHES,
    KEYED,
    SETTINGS,
    SIDES,
    WORK,
    Work,
    active,
    all_of,
    batch,
    check_stored,
    leftovers,
    recent,
    small,
)
from tests.oracle import bound_faults, count_at_most, exact_quantile

POINTS = (
    "append.written",
    "commit.after",
    "commit.before",
    "disk.named",
    "disk.write",
    "merge.planned",
    "merge.sorted",
    "merge.written",
    "recent.compacted",
    "recent.manifest",
    "recent.written",
    "step.ended",
    "vacuum.removed",
    "write.data",
    "write.side",
)
OF_RETENTION = ("retention.linked", "restore.linked", "restore.committed")  # tried in test_retention.py
OF_DELETION = ("delete.written", "delete.committed")  # tried in test_delete.py
OF_STREAMS = (
    "push.folded",
    "push.keys",
    "push.stored",
    "push.write",
    "push.written",
    "source.remove",
    "ingest.recorded",
    "ingest.committed",
    "ledger.based",
    "ledger.cleared",
)  # tried in tests/spark: test_ingest_faults.py, test_push_ingest.py, test_listed_folders.py; tests/server/test_push.py
WRITES = ("disk.write", "disk.named", "commit.before")  # where the system reports a full disk
STORES = {"plain": SETTINGS, "keyed": KEYED}
SOME = [(point, store) for point, store in zip(POINTS, cycle(STORES), strict=False)]
FULL = {*WRITES, "commit.after", "merge.sorted", "recent.compacted", "vacuum.removed"}  # all points: below, slowly


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch.setattr)


@pytest.fixture(scope="module")
def counts(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, int]]:
    """Count how often the work passes each point."""
    passes = {}
    for name, settings in STORES.items():
        folder = tmp_path_factory.mktemp("counts") / name
        driver.start("count", folder, settings=settings).finish()
        passes[name] = json.loads(Path(f"{folder}-counts").read_text())
    return passes


def check_store(folder: Path, settings: dict[str, Any], surely: list[int], perhaps: list[int]) -> None:
    """Check a store after a fault: its data is right, it can be vacuumed, and the work can be done from the start."""
    if not any((folder / "_delta_log").glob("*.json")):  # the fault was in the creation of the store
        assert not surely
    else:
        here = check_stored(folder, surely, perhaps)
        with History(folder) as history:
            assert history.verify().values == len(all_of(here))
            check_answers(history, all_of(here))
            history.vacuum(older_than_hours=0)
            assert leftovers(folder) == set()
            check_stored(folder, here)
    reopened = Work(str(folder), settings)
    for op in WORK:
        reopened.do(op)
    reopened.history.close()
    check_stored(folder, BATCHES)
    assert History(folder).verify().values == len(all_of(BATCHES))


def check_answers(history: History, data: Any) -> None:
    assert history.n == len(data)
    for phi in (0.01, 0.5, 0.9, 1) if len(data) else ():
        assert history.quantile(phi, mode="exact") == exact_quantile(data, phi)
        assert not [fault for mode in ("quick", "accurate") for fault in bound_faults(data, history.answer(phi, mode))]
        value = exact_quantile(data, phi)
        low, high = history.rank(value)
        assert low <= count_at_most(data, value) <= high


def check_child(child: Child, settings: dict[str, Any]) -> None:
    done = child.batches("done")
    check_store(Path(child.folder), settings, done, [b for b in child.batches("begin") if b not in done])


# Killed


def test_all_points_are_passed(counts: dict[str, dict[str, int]]) -> None:
    """A new fault point must be tested below, or, where the work does not pass it, in a test of its own."""
    text = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    others = {"side.rebuilt", "log.trimmed", *OF_RETENTION, *OF_DELETION, *OF_STREAMS}
    assert set(re.findall(r'fault_points\.point\("(.*?)"\)', text)) == {*POINTS, *others}
    assert set(counts["plain"]) == set(counts["keyed"]) == {*POINTS, "log.trimmed"}


@pytest.mark.parametrize(("point", "store"), SOME)
def test_killed(point: str, store: str, driver: Driver, counts: dict[str, dict[str, int]], tmp_path: Path) -> None:
    """Kill the writer at each fault point, in the middle of the work."""
    rng = np.random.default_rng(seed_of(point + store))
    kill_at(point, int(rng.integers(counts[store][point])) + 1, store, driver, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("point", POINTS)
def test_killed_each_time(
    point: str, store: str, driver: Driver, counts: dict[str, dict[str, int]], tmp_path: Path
) -> None:
    times = counts[store][point]
    for time in range(1, times + 1, 1 + times // 25):
        kill_at(point, time, store, driver, tmp_path / str(time))


def kill_at(point: str, time: int, store: str, driver: Driver, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    child = driver.start("work", folder / "store", f"{point}@{time}:kill", settings=STORES[store])
    assert child.wait() == -9, child.log.read_text()
    check_child(child, STORES[store])


@pytest.mark.slow
@pytest.mark.parametrize("store", STORES)
def test_killed_at_any_time(store: str, driver: Driver, tmp_path: Path, rng: np.random.Generator) -> None:
    for number, delay in enumerate(rng.uniform(0.01, 0.5, 25)):
        child = driver.start("work", tmp_path / str(number), settings=STORES[store], durable=number % 4 == 0)
        sleep(delay)
        child.kill()
        check_child(child, STORES[store])


@pytest.mark.parametrize("time", [1, 2])
def test_killed_while_lost_side_files_are_written(driver: Driver, tmp_path: Path, time: int) -> None:
    folder = tmp_path / "store"
    driver.start("work", folder, settings=SETTINGS).finish()
    for side in active(folder)[1][:3]:
        side.unlink()
    child = driver.start("work", folder, f"side.rebuilt@{time}:kill", settings=SETTINGS)
    assert child.wait() == -9, child.log.read_text()
    with pytest.raises(CorruptBytesError, match="is missing; open the store for writing"):
        History(folder).verify()
    with History(folder) as history:
        check_answers(history, all_of(BATCHES))
        history.vacuum()
    check_store(folder, SETTINGS, list(BATCHES), [])


@pytest.mark.parametrize("point", ["commit.before", "commit.after", "write.side"])
def test_killed_while_old_data_is_dropped(point: str, driver: Driver, tmp_path: Path, rng: np.random.Generator) -> None:
    """Kill the writer while it drops steps: the last four are stored once, older ones at most once."""
    settings = SETTINGS | {"retention": 4}
    folder, time = tmp_path / "store", int(rng.integers(8, 18))
    child = driver.start("expire", folder, f"{point}@{time}:kill", settings=settings)
    assert child.wait() == -9, child.log.read_text()
    done, begun = child.batches("done"), child.batches("begin")
    with History(folder) as history:
        recent = [batch for batch in done if batch >= history.stats()["steps"] - 4]
        here = check_stored(folder, recent, begun)
        check_answers(history, all_of(here))
        history.end_step()
        history.vacuum(0, grace_hours=0)
        assert leftovers(folder) == set()
        check_stored(folder, [batch for batch in done if batch >= history.stats()["steps"] - 4], begun)
        history.verify()


def test_what_a_commit_leaves(tmp_path: Path) -> None:
    """The library writes the log under a temporary name: a kill at that point leaves a file, too."""
    with History(tmp_path, **SETTINGS) as history:
        history.append(batch(0))
        for name in ("00000000000000000007.json#1", "00000000000000000009.checkpoint.parquet#2"):
            (tmp_path / "_delta_log" / name).write_bytes(b"cut")
        history.append(batch(1))
        assert len([name for name in leftovers(tmp_path) if name.startswith("_delta_log")]) == 2
        assert history.vacuum(0).files == 3  # and the manifest that was replaced
        assert leftovers(tmp_path) == set()
    check_stored(tmp_path, [0, 1])


@pytest.mark.slow
def test_killed_through_the_environment(tmp_path: Path) -> None:
    """Set a fault by an environment variable, in a process of its own."""
    code = f"""if True:
        from quantide.history import History
        history = History({str(tmp_path / "store")!r})
        for number in range(3):
            history.append([1.0], batch_id=number)
            print(number, flush=True)
    """
    env = os.environ | {"QUANTIDE_FAULT": "commit.after@3:kill"}
    ended = subprocess.run([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, check=False)
    assert (ended.stdout, ended.returncode) == (b"0\n", -9)
    assert History(tmp_path / "store").n == 2


# Full


@pytest.mark.parametrize(("point", "store"), [(point, store) for point, store in SOME if point in FULL])
def test_disk_full(point: str, store: str, driver: Driver, counts: dict[str, dict[str, int]], tmp_path: Path) -> None:
    rng = np.random.default_rng(seed_of(point + store))
    fill_at(point, int(rng.integers(counts[store][point])) + 1, store, driver, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("point", POINTS)
def test_disk_full_each_time(
    point: str, store: str, driver: Driver, counts: dict[str, dict[str, int]], tmp_path: Path
) -> None:
    times = counts[store][point]
    for time in range(1, times + 1, 1 + times // 25):
        fill_at(point, time, store, driver, tmp_path / str(time))


def fill_at(point: str, time: int, store: str, driver: Driver, folder: Path) -> None:
    """Let one write fail, and repeat it with the same handle.

    The error is checked only where something is written: nothing else can fail for lack of space, but the store is good
    whatever fails.
    """
    folder.mkdir(exist_ok=True)
    child = driver.start("retry_work", folder / "store", f"{point}@{time}:full", settings=STORES[store])
    child.finish()
    failed = [status for status, _ in child.notes() if status != "done"]
    assert set(failed) <= ({"refused"} if point in WRITES else {"raw OSError"}), failed
    assert failed or point == "commit.after"
    check_store(folder / "store", STORES[store], list(BATCHES), [])


@pytest.mark.parametrize("size", [0, 200, 1000, 4000])
def test_disk_full_for_the_kernel(size: int, driver: Driver, tmp_path: Path) -> None:
    """Limit the size of files: data, index files, the log and its checkpoints fail, each in turn."""
    settings = {**SETTINGS, "window": 0}  # background compactions fail, too, and raise later
    child = driver.start("retry_work", tmp_path / "store", settings=settings, full=size, every=2)
    child.finish()
    failed = {status for status, _ in child.notes()} - {"done"}
    assert failed == (set() if size == 4000 else {"refused"})  # a checkpoint is made up for by the next
    check_store(tmp_path / "store", settings, list(BATCHES), [])


def test_no_room_for_a_merge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history = History(tmp_path, **SETTINGS)
    for number in range(2):
        history.append(batch(number))
    before, usage = history.stats(), shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=10))
    for wait in (True, False):
        with pytest.raises(StorageError, match="MB free"):
            history.end_step(wait)
        assert {name: history.stats()[name] for name in ("values", "steps", "files", "version")} == {
            name: before[name] for name in ("values", "steps", "files", "version")
        }
    history.append(batch(2))
    monkeypatch.undo()
    history.end_step()
    assert (history.stats()["steps"], history.stats()["runs"], history.stats()["chunks"]) == (1, 1, 0)
    check_stored(tmp_path, [0, 1, 2])
    history.close()


@pytest.mark.parametrize("wait", [True, False])
def test_a_step_whose_merge_failed_ends_once(wait: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history = History(tmp_path, **SETTINGS)
    for number in range(2):
        history.append(batch(number))

    def full(*_: Any) -> Any:
        raise StorageError("the disk is full")

    monkeypatch.setattr(compaction_tasks, "write_run_file", full)
    for _ in range(2):
        with pytest.raises(StorageError):
            history.end_step()
    monkeypatch.undo()
    history.end_step(wait)
    history._writer.join()
    assert (history.stats()["steps"], history.stats()["runs"]) == (1, 1)
    history.end_step()
    history.append(batch(2))
    history.end_step()
    history.end_step()
    assert history.stats()["steps"] == 4
    check_stored(tmp_path, [0, 1, 2])
    history.close()


def test_durable_means_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer flushes data before the commit that adds it, and the log's entry before the call returns."""
    order: list[str] = []

    def fsync(handle: int) -> None:
        name = os.path.relpath(os.readlink(f"/proc/self/fd/{handle}"), tmp_path)
        order.append(final_name(name.partition("#")[0]))

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(recent_files, "FANOUT", 100)  # no background compaction
    history = History(tmp_path, **SETTINGS, durable=True)
    for number in range(12):
        history.append(batch(number))
        entry = f"_delta_log/{history.stats()['version']:020}.json"
        new = [*(str(path.relative_to(tmp_path)) for paths in active(tmp_path) for path in paths), *recent(tmp_path)]
        assert set(new) | {"runs", SIDES, "_quantide/recent", entry, "_delta_log"} <= set(order)
        assert max(order.index(name) for name in new) < order.index(entry)
        last = len(order) - 1 - order[::-1].index("runs")
        assert max(order.index(name) for name in new) < last < order.index(entry)
    history.close()  # waits for the checkpoint
    assert any("checkpoint.parquet" in name for name in order)


def test_a_fold_is_flushed_before_its_records_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fold flushes the name of its file before the writer removes the records that the file replaces."""
    order: list[str] = []
    fsync = os.fsync

    def flushed(handle: int) -> None:
        order.append(f"flushed {os.path.basename(os.readlink(f'/proc/self/fd/{handle}'))}")
        fsync(handle)

    def removed(storage: FolderStorage, name: str) -> bool:
        order.append("removed")
        return remove(storage, name)

    remove = FolderStorage.remove
    ledger = IngestLog(FolderStorage(str(tmp_path), durable=True), lambda _: True)
    for number in range(3):
        ledger.write(BatchRecord("c0", number))
    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(FolderStorage, "remove", removed)
    ledger.fold("c0")
    assert order[-4:] == ["flushed sources", *["removed"] * 3]
