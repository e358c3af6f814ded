"""Many small appends in one step: chunks are compacted in the background, without any visible effect."""

import json
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

from quantide.errors import StorageError
from quantide.history import History, HistoryReader, compaction_plan
from tests.conftest import seed_of
from tests.history.forked_writers import Child, Driver
from tests.history.test_faults_readers import Gate
from tests.history.writer_workload import (
    HOSTS,
    KEYED,
    ROWS,
    SETTINGS,
    Work,
    all_of,
    batch,
    check_stored,
    compact_chunks_early,
    key_of,
    leftovers,
    small,
)
from tests.oracle import bound_faults, count_at_most, exact_quantile

MODES = ("quick", "accurate", "exact")
STORES = {"plain": SETTINGS, "keyed": KEYED}
POINTS = {"merge.planned": 5, "merge.sorted": 28, "merge.written": 5, "write.data": 52, "write.side": 52}
POINTS |= {"commit.before": 31, "commit.after": 31, "disk.named": 104}  # how often, at least, trickle() passes them
BATCHES = range(24)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch.setattr)


def check_answers(history: HistoryReader, values: Any, keyed: bool) -> None:
    for key in (None, *HOSTS.tolist()) if keyed else (None,):
        own = values if key is None else values[key_of(values) == key]
        for phi in (0.01, 0.5, 0.99, 1.0) if len(own) else ():
            assert history.quantile(phi, mode="exact", key=key) == exact_quantile(own, phi)
            for mode in MODES:
                assert not bound_faults(own, history.answer(phi, mode, key=key))
            low, high = history.rank(exact_quantile(own, phi), key=key)
            assert low <= count_at_most(own, exact_quantile(own, phi)) <= high


@pytest.mark.parametrize("store", STORES)
def test_many_appends_few_chunks(store: str, tmp_path: Path, rng: np.random.Generator) -> None:
    history = History(tmp_path, **STORES[store])
    values = np.empty(0)
    for _ in range(80):  # more than the chunks that may be left
        new = rng.integers(-40, 40, int(rng.integers(1, 40))).astype(np.float64) * 1000
        history.append(new, key=key_of(new) if store == "keyed" else None)
        values = np.append(values, new)
    history._writer.join()
    history.append(
        new[:1], key=key_of(new[:1]) if store == "keyed" else None
    )  # counts the chunks added in the meantime
    values = np.append(values, new[:1])
    history._writer.join()
    assert history.stats()["chunks"] < 4 * compaction_plan.FANOUT
    check_answers(history, values, store == "keyed")
    assert len(history.runs()) == 0
    assert history.stats()["stream_values"] == len(values)
    history.end_step()
    assert (history.stats()["chunks"], history.stats()["runs"]) == (0, 1)
    check_answers(history, values, store == "keyed")
    history.vacuum(0)
    assert leftovers(tmp_path) == set()
    assert history.verify().values == len(values)
    history.close()


def test_the_open_step_stays_within_eps(tmp_path: Path) -> None:
    """Compacted chunks are summarised as closely as appended ones, not as runs are."""
    work = Work(str(tmp_path), SETTINGS | {"eps": 0.01})
    for number in range(40):
        work.append(number)
    work.history._writer.join()
    chunks = work.history.snapshot.chunks
    assert max(chunk.rows for chunk in chunks) > 16 * ROWS - 1
    for chunk in chunks:
        summary = chunk.summary(None)
        assert summary is not None
        assert summary.error <= work.history.settings.chunk_eps
    answers = [work.history.answer(phi) for phi in np.linspace(0.01, 1, 100)]
    assert max(answer.error for answer in answers) <= 0.01
    assert not [fault for answer in answers for fault in bound_faults(all_of(range(40)), answer)]
    work.close(0)


def test_chunks_that_are_compacted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough chunks of a size class are compacted; large ones stay; a compaction adds no data."""
    compact_chunks_early(monkeypatch.setattr)
    monkeypatch.setattr(compaction_plan, "LARGE_CHUNK", 1000)
    history = History(tmp_path, **SETTINGS)

    def sizes(*rows: int) -> list[int]:
        for number in rows:
            history.append(np.arange(float(number)))
        history._writer.join()
        history._writer.compactor._compact_chunks()
        return sorted(chunk.rows for chunk in history.snapshot.chunks)

    assert sizes(10, 300, 10, 300, 10, 300) == [10, 10, 10, 300, 300, 300]
    assert sizes(1000, 1000, 1000, 1000)[6:] == [1000] * 4
    assert sizes(10) == [40, 300, 300, 300, *[1000] * 4]
    merges = 0
    for path in sorted((tmp_path / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in path.read_text().splitlines()]
        changes = {
            what["dataChange"] for action in actions for kind, what in action.items() if kind in ("add", "remove")
        }
        removes = any("remove" in action for action in actions)
        assert changes <= {not removes}
        merges += removes
    assert merges == 1
    history.close()


def test_the_next_writer_counts_what_there_is(tmp_path: Path) -> None:
    for number in range(2 * compaction_plan.FANOUT):
        with History(tmp_path, **SETTINGS) as history:
            history.append(batch(number))
    with History(tmp_path) as history:
        assert history.stats()["chunks"] < compaction_plan.FANOUT + 2
    check_stored(tmp_path, range(2 * compaction_plan.FANOUT))


# Killed


@pytest.mark.parametrize(
    ("point", "store"),
    [
        pytest.param(point, store, marks=() if point.startswith(("merge", "commit")) else pytest.mark.slow)
        for point, store in zip(POINTS, cycle(STORES), strict=False)
    ],
)
def test_killed(point: str, store: str, driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed_of(point + store))
    kill_at(point, int(rng.integers(POINTS[point])) + 1, store, driver, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("point", POINTS)
def test_killed_each_time(
    point: str, store: str, driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for time in range(1, POINTS[point] + 1, 1 + POINTS[point] // 10):
        folder = tmp_path / str(time)
        folder.mkdir()
        kill_at(point, time, store, driver, folder, monkeypatch)


def kill_at(point: str, time: int, store: str, driver: Driver, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    child = driver.start("trickle", folder / "store", f"{point}@{time}:kill", settings=STORES[store])
    assert child.wait() == -9, child.log.read_text()
    check_child(child, store, monkeypatch)


def check_child(child: Child, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that acknowledged batches are there once, and that the work can go on."""
    folder, done = Path(child.folder), child.batches("done")
    if not (folder / "_delta_log").exists():
        assert not done
        return
    here = check_stored(folder, done, [number for number in child.batches("begin") if number not in done])
    reader = HistoryReader(folder)
    assert reader.verify().values == len(all_of(here))
    check_answers(reader, all_of(here), store == "keyed")
    with monkeypatch.context() as patch:
        compact_chunks_early(patch.setattr)
        reopened = Work(str(folder), STORES[store])
        for number in BATCHES:
            reopened.append(number)
        reopened.history._writer.join()
        reopened.vacuum(0)
        assert leftovers(folder) == set()
        reopened.step(0)
        check_answers(reopened.history, all_of(BATCHES), store == "keyed")
        reopened.close(0)
    check_stored(folder, BATCHES)


@pytest.mark.slow
@pytest.mark.parametrize("store", STORES)
def test_killed_at_any_time(
    store: str, driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    for number, delay in enumerate(rng.uniform(0.05, 1.0, 20)):
        child = driver.start("trickle", tmp_path / str(number), settings=STORES[store], wait=False)
        Event().wait(delay)
        child.kill()
        check_child(child, store, monkeypatch)


# Interruptions


@pytest.mark.parametrize(
    ("point", "store"),
    [
        ("merge.planned", "plain"),
        ("merge.sorted", "keyed"),
        ("merge.written", "plain"),
        pytest.param("merge.planned", "keyed", marks=pytest.mark.slow),
        pytest.param("merge.sorted", "plain", marks=pytest.mark.slow),
        pytest.param("merge.written", "keyed", marks=pytest.mark.slow),
    ],
)
def test_the_step_ends_while_chunks_are_merged(
    point: str, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compact_chunks_early(monkeypatch.setattr)
    work = Work(str(tmp_path), STORES[store])
    for number in range(4):
        work.append(number)
        work.history._writer.join()
    with monkeypatch.context() as patch:
        gate = Gate(patch, point)
        work.append(4)
        assert gate.reached.wait(20)
    compacting = work.history._writer.compactor._chunk_task
    for number in range(5, 11):  # appends, questions and vacuum do not wait
        work.append(number)
        assert work.history._writer.compactor._chunk_task is compacting  # nor does another begin
        check_answers(work.history, all_of(range(number + 1)), store == "keyed")
        work.vacuum(0)
    work.history.end_step(wait=False)
    work.append(11)
    assert work.history.stats()["stream_values"] == ROWS
    gate.open.set()
    work.history._writer.join()
    assert (work.history.stats()["runs"], work.history.stats()["chunks"]) == (1, 1)
    check_answers(work.history, all_of(range(12)), store == "keyed")
    work.history.end_step()
    assert work.history.stats()["runs"] == 2
    work.vacuum(0)
    assert leftovers(tmp_path) == set()
    work.close(0)
    check_stored(tmp_path, range(12))


@pytest.mark.parametrize("end", ["end_step", "close"])
def test_an_error_is_raised_once(end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compact_chunks_early(monkeypatch.setattr)
    work = Work(str(tmp_path), SETTINGS)
    with monkeypatch.context() as patch:
        gate = Gate(patch, "merge.sorted", fails=True)
        gate.open.set()
        for number in range(12):
            work.append(number)
        assert gate.reached.wait(20)
        compacting = work.history._writer.compactor._chunk_task
        assert compacting is not None
        assert isinstance(compacting.exception(), StorageError)
    work.append(12)
    assert work.history.stats()["chunks"] == 13
    with pytest.raises(StorageError, match="no space"):
        getattr(work.history, end)()
    work.append(13)
    work.history.end_step()
    assert (work.history.stats()["runs"], work.history.stats()["steps"]) == (1, 1)
    work.vacuum(0)
    assert leftovers(tmp_path) == set()
    work.close(0)
    check_stored(tmp_path, range(14))


def test_a_handle_that_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks that it was compacting when the next writer started are whole, and compacted by that one."""
    compact_chunks_early(monkeypatch.setattr)
    work = Work(str(tmp_path), SETTINGS)
    with monkeypatch.context() as patch:
        gate = Gate(patch, "merge.written")
        for number in range(8):
            work.append(number)
        assert gate.reached.wait(20)
        compacting = work.history._writer.compactor._chunk_task
        assert compacting is not None
        del work
        other = Work(str(tmp_path), SETTINGS)
        other.append(8)
        gate.open.set()
        assert compacting.exception() is not None
    for number in range(9, 14):
        other.append(number)
    other.history._writer.join()
    assert other.history.stats()["chunks"] < 8
    other.close(0)
    check_stored(tmp_path, range(14))


@pytest.mark.parametrize("store", STORES)
def test_a_reader_during_compactions(store: str, driver: Driver, tmp_path: Path) -> None:
    """A reader gives answers of one complete version while chunks are replaced."""
    folder = tmp_path / "store"
    History(folder, **STORES[store])
    child = driver.start("trickle", folder, settings=STORES[store], wait=False, batches=24)
    ended = Event()

    def query(reader: HistoryReader) -> int:
        last = 0
        while not ended.is_set():
            reader.refresh()
            for mode in MODES if reader.n else ():
                answer = reader.answer(0.5, mode)
                assert answer.n % ROWS == 0
                assert answer.n >= last
                last = answer.n
                assert not bound_faults(all_of(range(answer.n // ROWS)), answer)
        return last

    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(query, reader) for reader in (HistoryReader(folder), History(folder))]
        try:
            child.finish()
        finally:
            ended.set()
        assert all(one.result() for one in futures)
    check_stored(folder, range(24))
    stats = HistoryReader(folder).stats()
    assert stats["chunks"] + stats["runs"] < 10
