"""The log as read here, against Delta's own reader, and against reading it from scratch."""

import random
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from quantide import History
from quantide.errors import CorruptBytesError, StorageError
from quantide.history.history_reader import HistoryReader
from quantide.history.snapshot import Snapshot
from quantide.store.file_names import entry_name
from quantide.store.folder_storage import FolderStorage
from quantide.store.log_entry import LogEntry, encode_entry
from quantide.store.log_state import FileChanges, LogState
from quantide.store.stream_table import StreamTable, load_state
from quantide.store.writable_table import WritableTable


def _describe(snapshot: Snapshot) -> dict[str, Any]:
    """Return all fields of a snapshot, for comparison."""
    runs = {
        kind: [(run.id, [part.name for part in run.parts]) for run in getattr(snapshot, kind)]
        for kind in ("runs", "chunks")
    }
    return runs | {
        "version": snapshot.version,
        "step": snapshot.step,
        "rows": (snapshot.history_rows, snapshot.stream_rows),
    }


def _check(path: Path, follower: HistoryReader) -> None:
    """Compare a reader that follows with a new one, and both with Delta's library."""
    follower.refresh()
    fresh = HistoryReader(str(path))
    assert _describe(follower.snapshot) == _describe(fresh.snapshot)
    table, state = DeltaTable(str(path)), load_state(FolderStorage(str(path)), keeps_batches=True)
    assert state is not None
    assert table.version() == state.version == follower.version
    uris = {uri.removeprefix(f"{path}/") for uri in table.file_uris()}
    assert uris == {name.data for name in state.files} == {part.name.data for part in follower.snapshot.files}
    assert {app: table.transaction_version(app) for app in state.transactions} == state.transactions
    assert table.metadata().configuration == state.metadata["configuration"]
    rows = follower.snapshot.history_rows + follower.snapshot.stream_rows
    assert rows == sum(file.rows for file in state.files.values()) == follower.table.rows()


@pytest.mark.parametrize("seed", range(4))
def test_follows_like_a_new_reader(tmp_path: Path, seed: int) -> None:
    """A reader that applies entries one by one has what Delta's library and a new reader have."""
    rng = random.Random(seed)
    path, keyed = tmp_path / "store", seed % 2 == 1
    history = History(str(path), eps=0.05, kappa=2, keys=["k"] if keyed else None, retention=6)
    history.append([0.5], key="a" if keyed else None)
    reader = HistoryReader(str(path))
    for number in range(45):
        values = [rng.random() for _ in range(rng.randrange(1, 40))]
        keys = [rng.choice("abc") for _ in values] if keyed else None
        history.append(values, key=keys, batch_id=rng.choice([None, number, f"text {number}", ("source", number)]))
        if rng.random() < 0.3:
            history.end_step(wait=rng.random() < 0.7)
        if rng.random() < 0.1:
            history.vacuum(older_than_hours=0)
        if rng.random() < 0.3:
            history._writer.join()
            _check(path, reader)
    history.close()
    _check(path, reader)
    assert list(tmp_path.glob("store/_delta_log/*.checkpoint.parquet"))


def test_changes_cancel_out() -> None:
    """Files that were added and removed since are in neither list."""
    one, two = (f"runs/L0-S1-1-E1-{n}-P0.parquet" for n in (1, 2))
    state, merged = LogState(False), FileChanges()
    lines: list[list[dict[str, Any]]] = [
        [{"add": {"path": one, "size": 1}}, {"add": {"path": two, "size": 1}}],
        [{"remove": {"path": one, "deletionTimestamp": 5000}}],
        [{"add": {"path": one, "size": 1}}, {"remove": {"path": two}}],
    ]
    for version, actions in enumerate(lines):
        changes = state.apply(version, LogEntry.read(encode_entry("WRITE", {}, actions)))
        for name in changes.removed:
            merged.remove(name)
        for name in changes.added:
            merged.add(name)
        if version == 1:
            assert [*state.removed.values()] == [5.0]
    assert [name.data for name in merged.added] == [one]
    assert not merged.removed
    assert [name.data for name in state.files] == [one]


@pytest.mark.parametrize(
    ("action", "error"),
    [
        ({"add": {"path": "part-0001.parquet", "size": 3}}, CorruptBytesError),
        (
            {"add": {"path": "runs/L0-S1-1-E1-1-P0.parquet", "size": 3, "deletionVector": {"storageType": "u"}}},
            CorruptBytesError,
        ),
        ({"add": {"path": "runs/L0-S1-1-E1-1-P0.parquet", "size": -3}}, CorruptBytesError),
        ({"protocol": {"minReaderVersion": 3, "readerFeatures": ["deletionVectors"]}}, StorageError),
        ({"txn": {"appId": "quantide.step", "version": -1}}, CorruptBytesError),
        ({"txn": {"appId": "quantide.step", "version": "many"}}, StorageError),
    ],
)
def test_entries_of_other_programs_are_refused(tmp_path: Path, action: dict[str, Any], error: type[Exception]) -> None:
    """A commit that Quantide cannot have made gives a named error, and no answer."""
    path = str(tmp_path / "store")
    with History(path) as history:
        history.append([1.0])
        version = history.version
    FolderStorage(path).create(entry_name(version + 1), encode_entry("WRITE", {}, [action]))
    with pytest.raises(error):
        HistoryReader(path).snapshot  # noqa: B018


def test_readers_do_not_keep_ids_of_batches(tmp_path: Path) -> None:
    """Ids of batches, of which there may be millions, are in the memory of writers only."""
    path = str(tmp_path / "store")
    with History(path) as history:
        for number in range(12):
            history.append([1.0], batch_id=f"b{number}")
    reader, writer = StreamTable.open(FolderStorage(path)), WritableTable.open(FolderStorage(path))
    assert reader is not None
    assert writer is not None
    assert not any("b3" in app for app in reader._state.transactions)
    assert writer.batch_seen("b3")
    assert not writer.batch_seen("b12")
