"""Unreachable log during a commit, or just after: nothing is lost, and nothing is added twice."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from quantide.errors import CommitUncertainError, StorageError
from quantide.history import History, HistoryReader
from quantide.history.appended_rows import ParquetPiece
from quantide.history.bulk_load import write_chunks
from quantide.live import LiveStream
from quantide.store.delta_log import DeltaLog
from quantide.store.file_names import entry_name
from quantide.store.folder_storage import FolderStorage
from quantide.summary.value_column import read_column
from quantide.summary.value_types import type_named
from tests.history.writer_workload import KEYED, ROWS, SETTINGS, batch, check_stored, key_of, small

Patch = pytest.MonkeyPatch


@pytest.fixture(autouse=True)
def _small(monkeypatch: Patch) -> None:
    small(monkeypatch.setattr)


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    with History(tmp_path / "store", **SETTINGS) as handle:
        handle.append(batch(0))
        handle._writer.join()
        yield handle


def unreachable(*_: Any, **__: Any) -> Any:
    raise PermissionError(13, "Permission denied")


@contextmanager
def log_not_read(monkeypatch: Patch) -> Iterator[None]:
    """Make the log unreadable; entries are written."""
    with monkeypatch.context() as patch:
        patch.setattr(DeltaLog, "read_entry", unreachable)
        patch.setattr("quantide.store.stream_table.survey_log", unreachable)
        yield


@contextmanager
def log_unreachable(monkeypatch: Patch, linked: bool) -> Iterator[None]:
    """Make the log's filesystem vanish in the middle of a commit, after the entry has its name or before."""
    with monkeypatch.context() as patch:

        def put(self: DeltaLog, version: int, data: bytes) -> None:
            if linked:
                self.storage.create(entry_name(version), data)
            patch.setattr(DeltaLog, "has_version", unreachable)
            raise OSError(5, "Input/output error")

        patch.setattr(DeltaLog, "add_entry", put)
        yield


# Committed, and only reading fails


WRITES: dict[str, Callable[[History], Any]] = {
    "append": lambda history: history.append(batch(1)),
    "append with an id": lambda history: history.append(batch(1), batch_id=1),
    "files": lambda history: history.append_files([_file(history)]),
    "load": lambda history: _load(history, 1),
    "end_step": lambda history: history.end_step(),
    "end_step in the background": lambda history: history.end_step(wait=False),
}


def _file(history: History) -> str:
    path = f"{history.path}-1.parquet"
    pq.write_table(pa.table({"value": batch(1)}), path)
    return path


def _load(history: History, number: int) -> None:
    piece = ParquetPiece(None, read_column(pa.array(batch(number)), type_named("float64")))
    with history.bulk_load() as load:
        names = load.reserve(1)
        load.commit(names, write_chunks(names, 0, [piece], "refuse"))


@pytest.mark.parametrize("write", WRITES)
def test_a_writer_does_not_read_its_own_commits(write: str, history: History, monkeypatch: Patch) -> None:
    """A writer continues while entries can be written but not read, because it has what it committed."""
    steps = "end_step" in write
    with log_not_read(monkeypatch):
        WRITES[write](history)
        assert (history.n, history.step) == ((ROWS, 2) if steps else (2 * ROWS, 1))
        history.append(batch(2))
        history.end_step()
    assert history.step == 2 + steps
    check_stored(history.path, [0, 2] if steps else [0, 1, 2])
    history.verify()


def test_readers_that_cannot_read_raise(history: History, monkeypatch: Patch) -> None:
    """Readers raise while the log cannot be read, and go on after that."""
    reader = HistoryReader(history.path)
    with log_not_read(monkeypatch):
        for number in range(1, 5):
            history.append(batch(number))
        for call in (reader.refresh, lambda: HistoryReader(history.path)):
            with pytest.raises(StorageError):
                call()
    assert reader.refresh()
    assert reader.n == History(history.path).n == 5 * ROWS
    for number in range(5, 14):
        history.append(batch(number))
    check_stored(history.path, range(14))


# Uncertain


@pytest.mark.parametrize("linked", [True, False])
@pytest.mark.parametrize("again", ["the same call", "with the id", "another handle"])
@pytest.mark.parametrize("write", ["append", "append with an id", "files", "load"])
def test_a_repeat_is_recognised(write: str, again: str, linked: bool, history: History, monkeypatch: Patch) -> None:
    with log_unreachable(monkeypatch, linked), pytest.raises(CommitUncertainError, match="batch_id=") as error:
        WRITES[write](history)
    identity = error.value.batch_id
    assert (identity == 1) == (write == "append with an id")
    if again == "another handle":
        history.close()
        history = History(history.path)
    if again == "the same call":
        WRITES[write](history)
    else:
        assert history.batch_seen(identity) == linked
        history.append(batch(1), batch_id=identity)
        history.append(batch(1), batch_id=identity)
    check_stored(history.path, [0, 1])
    assert history.n == 2 * ROWS
    history.append(batch(2))
    history.verify()
    check_stored(history.path, [0, 1, 2])
    history.close()


@pytest.mark.parametrize("linked", [True, False])
def test_the_log_stays_away(linked: bool, history: History, monkeypatch: Patch) -> None:
    """Repeated calls change nothing while the log is unreachable."""
    with log_unreachable(monkeypatch, linked), pytest.raises(CommitUncertainError):
        history.append(batch(1))
    with log_not_read(monkeypatch):
        for _ in range(3):
            with pytest.raises(StorageError):
                history.append(batch(1))
    for _ in range(2):
        with log_unreachable(monkeypatch, linked=False):
            if linked:
                history.append(batch(1))
                break
            with pytest.raises(CommitUncertainError):
                history.append(batch(1))
    if not linked:
        history.append(batch(1))
    assert history.n == 2 * ROWS
    check_stored(history.path, [0, 1])


def test_two_honest_appends_are_two(history: History, monkeypatch: Patch) -> None:
    for _ in range(2):
        history.append([7.0] * 10)
    assert history.n == ROWS + 20
    with log_unreachable(monkeypatch, linked=True), pytest.raises(CommitUncertainError):
        history.append([8.0] * 10)
    for _ in range(3):
        history.append([8.0] * 10)  # a repeat, and two more
    assert history.n == ROWS + 50


@pytest.mark.parametrize("other", ["values", "times", "filters", "keys", "one more"])
def test_other_rows_are_no_repeat(other: str, tmp_path: Path, monkeypatch: Patch) -> None:
    values, keys = batch(1), key_of(batch(1))
    call: dict[str, Any] = {"values": values, "key": keys, "times": np.arange(ROWS) + 1.0, "filters": {"f": values > 0}}
    changed: dict[str, Any] = {
        "values": call | {"values": values + 1000 * (np.arange(ROWS) == 3)},
        "times": call | {"times": np.arange(ROWS) + 2.0},
        "filters": call | {"filters": {"f": values < 0}},
        "keys": call | {"key": np.roll(keys, 1)},
        "one more": {name: _more(given) for name, given in call.items()},
    }
    with History(tmp_path, **KEYED, filters="f") as history:
        history.open()
        history.table.add_keys([pa.string()])
        with log_unreachable(monkeypatch, linked=True), pytest.raises(CommitUncertainError):
            history.append(**call)
        history.append(**changed[other])
        assert history.n == 2 * ROWS + (other == "one more")
        assert LiveStream(tmp_path, follow=False).answer(0.5, last=history.n).n == history.n
        history.append(**call)  # not right after the error any more
        assert history.n == 3 * ROWS + (other == "one more")


def _more(value: Any) -> Any:
    return {name: _more(one) for name, one in value.items()} if isinstance(value, dict) else np.append(value, value[0])


@pytest.mark.parametrize("times", [True, False])
def test_a_repeat_with_recent_rows(times: bool, tmp_path: Path, monkeypatch: Patch) -> None:
    """Rows without times have another arrival time when the call is repeated."""
    call: dict[str, Any] = {"values": batch(1), "filters": {"f": batch(1) > 0}}
    call |= {"times": np.arange(ROWS) + 1.0} if times else {}
    with History(tmp_path, **SETTINGS, filters="f") as history:
        history.open()
        with log_unreachable(monkeypatch, linked=True), pytest.raises(CommitUncertainError):
            history.append(**call)
        history.append(**call)
        assert history.n == ROWS
        assert LiveStream(tmp_path, follow=False).answer(0.5, last=ROWS).n == ROWS


def test_another_thread_appends_in_between(history: History, monkeypatch: Patch) -> None:
    with log_unreachable(monkeypatch, linked=True), pytest.raises(CommitUncertainError):
        history.append(batch(1))
    other = Thread(target=lambda: history.append(batch(2)))
    other.start()
    other.join()
    history.append(batch(1))
    check_stored(history.path, [0, 1, 2])


@pytest.mark.parametrize("linked", [True, False])
@pytest.mark.parametrize("handle", ["the same", "another"])
def test_a_step_ends_once(handle: str, linked: bool, history: History, monkeypatch: Patch) -> None:
    with log_unreachable(monkeypatch, linked), pytest.raises(CommitUncertainError) as error:
        history.end_step()
    if handle == "another":
        history.close()
        history = History(history.path)
        if not history.batch_seen(error.value.batch_id):
            history.end_step()
    else:
        history.end_step()
    assert history.step == 2
    history.end_step()
    assert history.step == 3
    history.close()


def test_an_id_that_the_log_has_forgotten(history: History, monkeypatch: Patch) -> None:
    """A call whose id the log has forgotten raises an error, and adds nothing by guess."""
    with log_unreachable(monkeypatch, linked=True), pytest.raises(CommitUncertainError) as error:
        history.append(batch(1))
    for number in range(2, 14):
        history.append(batch(number))
    history._writer.join()
    history.table.clear_log(0)
    with pytest.raises(StorageError, match="no longer tells"):
        history.append(batch(1), batch_id=error.value.batch_id)
    check_stored(history.path, range(14))


def test_a_commit_that_may_not_outlast_power_loss(tmp_path: Path, monkeypatch: Patch) -> None:
    """A durable store whose folder cannot be synced acknowledges no commit; the repeat syncs the folder."""
    with History(tmp_path, **SETTINGS, durable=True) as history:
        history.append(batch(0))
        synced: list[str] = []

        def fails(storage: FolderStorage, *names: str) -> None:
            if "_delta_log" in names:
                raise StorageError("Input/output error")

        with monkeypatch.context() as patch:
            patch.setattr(FolderStorage, "sync", fails)
            with pytest.raises(CommitUncertainError):
                history.append(batch(1))
            with pytest.raises(StorageError):
                history.append(batch(1))
        monkeypatch.setattr(FolderStorage, "sync", lambda storage, *names: synced.extend(names))
        history.append(batch(1))
        assert "_delta_log" in synced
    check_stored(tmp_path, [0, 1])


def test_nothing_was_committed(history: History, monkeypatch: Patch) -> None:
    """A full disk with a readable log is certain: nothing changed."""

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(DeltaLog, "add_entry", full)
        with pytest.raises(StorageError, match="nothing was changed") as error:
            history.append(batch(1))
        assert not isinstance(error.value, CommitUncertainError)
    for _ in range(2):
        history.append(batch(1))
    assert history.n == 3 * ROWS


def test_keys_that_may_be_in_the_table(tmp_path: Path, monkeypatch: Patch) -> None:
    """Key columns are added by a commit of their own, before the rows."""
    with History(tmp_path, **KEYED) as history:
        history.open()
        with log_unreachable(monkeypatch, linked=True), pytest.raises(StorageError, match="None of the rows was added"):
            history.append(batch(1), key=key_of(batch(1)))
        assert history.n == 0
        history.append(batch(1), key=key_of(batch(1)))
    check_stored(tmp_path, [1])


@pytest.mark.parametrize("linked", [True, False])
def test_a_writer_that_may_have_taken_over(linked: bool, tmp_path: Path, monkeypatch: Patch) -> None:
    """The first commit of a takeover has no rows: its id must not pass for one of the rows."""
    with History(tmp_path, **SETTINGS) as history:
        with log_unreachable(monkeypatch, linked), pytest.raises(StorageError, match="Nothing was added") as error:
            history.append(batch(1))
        assert not isinstance(error.value, CommitUncertainError)
        history.append(batch(1))
    check_stored(tmp_path, [1])


@pytest.mark.parametrize("linked", [True, False])
def test_a_merge_that_may_be_in_the_table(linked: bool, history: History, monkeypatch: Patch) -> None:
    """All rows are there in any case, and a repeat of the call ends no other step."""
    history.append(batch(1))
    merge = history._writer.compactor._run

    def merges(*arguments: Any) -> None:
        with log_unreachable(monkeypatch, linked):
            merge(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(history._writer.compactor, "_run", merges)
        with pytest.raises(StorageError, match="merged or not") as error:
            history.end_step()
    assert not isinstance(error.value, CommitUncertainError)
    history.end_step()
    assert (history.n, history.step, history.stats()["runs"]) == (2 * ROWS, 2, 1)
    check_stored(history.path, [0, 1])


def test_old_files_that_cannot_be_removed(history: History, monkeypatch: Patch) -> None:
    """Replaced manifests are removed after a commit: that must not fail it."""
    monkeypatch.setattr("quantide.history.recent_writer.GRACE_SECONDS", 0)
    monkeypatch.setattr(FolderStorage, "remove", unreachable)
    for number in range(1, 4):
        history.append(batch(number))
    check_stored(history.path, range(4))
