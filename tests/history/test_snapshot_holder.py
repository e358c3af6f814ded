"""Readers that stay at one version of the store until they are refreshed."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

from quantide.errors import CorruptBytesError, StorageError, UnknownKeyError
from quantide.history import History, HistoryReader
from quantide.history.span_view import SpanView
from quantide.store.file_names import LOCK
from quantide.store.folder_storage import FolderStorage
from quantide.store.stream_table import StreamTable
from tests.history.writer_workload import KEYED, ROWS, SETTINGS, Work, active, all_of, batch, key_of, small
from tests.oracle import bound_faults, exact_quantile

MODES = ("quick", "accurate", "exact")


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch.setattr)


def test_a_reader_stays_at_its_version(tmp_path: Path) -> None:
    work = Work(str(tmp_path), SETTINGS)
    work.append(0)
    reader = HistoryReader(tmp_path)
    version = reader.version
    view = reader.span_view()
    for number in range(1, 6):
        work.append(number)
        work.step(0)
        for mode in MODES:
            assert not bound_faults(batch(0), reader.answer(0.5, mode))
        assert (reader.n, reader.version, reader.snapshot.version) == (ROWS, version, version)
        assert (reader.stats()["steps"], reader.spans(), reader.runs()) == (0, [], [])
        assert reader.span_view() is view
    assert reader.refresh()
    assert not reader.refresh()
    assert reader.version == work.history.version
    for mode in MODES:
        assert not bound_faults(all_of(range(6)), reader.answer(0.5, mode))
    assert reader.stats()["steps"] == 5
    assert repr(reader) == f"HistoryReader({str(tmp_path)!r}, values={6 * ROWS}, steps=5)"
    work.close(0)


def test_a_reader_moves_on_when_its_files_are_gone(tmp_path: Path) -> None:
    work = Work(str(tmp_path), SETTINGS)
    for number in range(3):
        work.append(number)
    readers = [HistoryReader(tmp_path), HistoryReader(tmp_path)]
    assert readers[0].n == 3 * ROWS
    readers[0].table.refresh()  # queries use the snapshot's version, not the table's
    work.append(3)
    work.step(0)
    readers[0].table.refresh()
    work.vacuum(0)
    for reader in readers:
        assert reader.quantile(0.5, mode="exact") == exact_quantile(all_of(range(4)), 0.5)
        assert reader.version == work.history.version
        assert not reader.refresh()
    work.close(0)
    for data in active(tmp_path)[0]:
        data.unlink()
    with pytest.raises(CorruptBytesError, match="a file is missing"):
        HistoryReader(tmp_path).quantile(0.3)


def test_keys_of_its_version(tmp_path: Path) -> None:
    work = Work(str(tmp_path), KEYED)
    reader = HistoryReader(tmp_path)
    work.append(0)
    with pytest.raises(UnknownKeyError, match="nothing was appended yet"):
        reader.quantile(0.5, key="a")
    assert reader.refresh()
    own = batch(0)[key_of(batch(0)) == "a"]
    assert reader.quantile(0.5, mode="exact", key="a") == exact_quantile(own, 0.5)
    work.close(0)


def test_no_store_and_no_lease(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"there is no history in .*nothing: nothing was written there yet"):
        HistoryReader(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()
    History(tmp_path / "store", **SETTINGS)
    with HistoryReader(tmp_path / "store") as reader:
        assert reader.n == 0
        assert not (tmp_path / "store" / LOCK).exists()
        table = StreamTable.open(FolderStorage(str(tmp_path / "store")))
        assert table is not None
        assert HistoryReader(table).table is table


def test_queries_during_refreshes(tmp_path: Path) -> None:
    """Each answer is about one complete version, and none is older than the one before."""
    work = Work(str(tmp_path), SETTINGS)
    work.append(0)
    reader, ended = HistoryReader(tmp_path), Event()

    def query(seed: int) -> int:
        rng, last, queries = np.random.default_rng(seed), 0, 0
        while not ended.is_set() or queries < 20:
            answer = reader.answer(float(rng.uniform(0.001, 1)), MODES[queries % 3])
            assert answer.n % ROWS == 0
            assert answer.n >= last
            assert not bound_faults(all_of(range(answer.n // ROWS)), answer)
            last, queries = answer.n, queries + 1
        return last

    def refresh() -> int:
        count = 0
        while not ended.is_set():
            count += reader.refresh()
        return count

    with ThreadPoolExecutor(3) as pool:
        answering, refreshing = [pool.submit(query, seed) for seed in range(2)], pool.submit(refresh)
        try:
            for number in range(1, 16):
                work.append(number)
                if number % 3 == 0:
                    work.step(0)
                work.vacuum(0)
        finally:
            ended.set()
        assert all(one.result() for one in answering)
        assert refreshing.result()
    reader.refresh()
    assert reader.n == 16 * ROWS
    work.close(0)


def test_an_answer_is_found_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[Any] = []
    find = SpanView._compute

    def counted(view: SpanView, phi: float, mode: str) -> Any:
        computed.append((phi, mode))
        return find(view, phi, mode)

    monkeypatch.setattr(SpanView, "_compute", counted)
    monkeypatch.setattr("quantide.history.span_view.MAX_ANSWERS", 10)
    work = Work(str(tmp_path), SETTINGS)
    work.append(0)
    reader = HistoryReader(tmp_path)
    for _ in range(3):
        for mode in MODES:
            assert reader.quantiles([0.1, 0.5], mode).tolist() == [reader.quantile(phi, mode) for phi in (0.1, 0.5)]
    assert sorted(computed) == sorted((phi, mode) for mode in MODES for phi in (0.1, 0.5))
    reader.quantiles(np.linspace(0.01, 1, 50))
    assert len(reader.span_view()._answers) <= 10
    work.append(1)
    assert work.history.answer(0.5).n == 2 * ROWS
    work.close(0)
