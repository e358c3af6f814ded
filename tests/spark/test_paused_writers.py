"""A writer that is paused, loses its lease and wakes up does no harm to what its successor recorded."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from quantide.errors import StorageError, WriterConflictError
from quantide.spark.stream.file_retries import next_retry
from quantide.store.file_names import QUARANTINE, RECORDS
from quantide.store.folder_storage import FolderStorage
from quantide.store.ingest_log import (
    RETRY,
    WAITING,
    BatchRecord,
    FileRecord,
    IngestedFile,
    IngestLog,
    list_log_files,
    source_of,
)
from quantide.store.object_storage import ObjectStorage
from quantide.store.storage import Storage
from tests.object_servers.object_location import ObjectLocation

Committed = set[tuple[str, int]]


@pytest.fixture
def storage(s3_store: ObjectLocation) -> ObjectStorage:
    return ObjectStorage(f"{s3_store.uri}/store", s3_store.options)


def commit(log: IngestLog, committed: Committed, source: str, number: int, path: str, state: str = "done") -> None:
    record = log.write(BatchRecord(source, number, rows=1, entries=(FileRecord(IngestedFile(path, 1, 0), state),)))
    committed.add((source, number))
    log.mark_committed(record)


def fenced() -> None:
    raise WriterConflictError("another writer has taken over")


def test_the_base_of_a_successor_is_not_replaced(storage: ObjectStorage) -> None:
    """A predecessor that read the same records does not replace the base that its successor joined."""
    committed: Committed = set()
    first = IngestLog(storage, lambda batch: batch in committed, fenced)
    commit(first, committed, "c0x1", 0, "/in/0")
    second = IngestLog(storage, lambda batch: batch in committed)
    second.rebase("c1x2")
    commit(second, committed, "c1x2", 0, "/in/1")
    second.rebase("c2x2")
    with pytest.raises(WriterConflictError, match="another writer"):
        first.rebase("c1x1")
    reopened = IngestLog(storage, lambda batch: batch in committed)
    assert (sorted(reopened.ingested), reopened.checkpoint) == (["/in/0", "/in/1"], "c2x2")
    second.rebase("c3x2")


def test_a_predecessor_joins_its_records_after_the_takeover(storage: ObjectStorage) -> None:
    """Nothing is lost: the successor, which does not know of it, must not write a base without those records."""
    committed: Committed = set()
    first = IngestLog(storage, lambda batch: batch in committed)
    commit(first, committed, "c0x1", 0, "/in/0")
    second = IngestLog(storage, lambda batch: batch in committed)
    first.rebase("c1x1")
    commit(second, committed, "c1x2", 0, "/in/1")
    with pytest.raises(StorageError, match="an earlier writer has replaced the base of the ingest log; start again"):
        second.rebase("c2x2")
    third = IngestLog(storage, lambda batch: batch in committed)
    assert sorted(third.ingested) == ["/in/0", "/in/1"]
    third.rebase("c3x3")
    assert sorted(IngestLog(storage, lambda batch: batch in committed).ingested) == ["/in/0", "/in/1"]


@pytest.mark.parametrize("operation", ["list_files", "read"])
def test_a_predecessor_joins_its_records_while_they_are_read(
    operation: str, storage: ObjectStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed: Committed = set()
    first = IngestLog(storage, lambda batch: batch in committed)
    commit(first, committed, "c0x1", 0, "/in/0")
    original = getattr(ObjectStorage, operation)

    def join_first(self: ObjectStorage, name: str) -> Any:
        monkeypatch.undo()
        first.rebase("c1x1")
        return original(self, name)

    monkeypatch.setattr(ObjectStorage, operation, join_first)
    second = IngestLog(storage, lambda batch: batch in committed)
    assert (list(second.ingested), second.checkpoint) == (["/in/0"], "c1x1")


def test_a_base_can_be_replaced_again_and_again(storage: ObjectStorage, tmp_path: Path) -> None:
    for one in (storage, FolderStorage(str(tmp_path))):
        log = IngestLog(one, lambda _: True)
        for number in range(3):
            log.rebase(f"c{number}")
            assert IngestLog(one, lambda _: True).checkpoint == f"c{number}"


def test_only_files_of_earlier_writers_are_removed(storage: ObjectStorage) -> None:
    """The first one lists what is there, takes over, and is paused; its successor records a batch in between."""
    committed: Committed = set()
    log = IngestLog(storage, lambda batch: batch in committed)
    commit(log, committed, "c0x1", 0, "/in/0")
    log.write(BatchRecord("retry3", 0))
    storage.replace(f"{QUARANTINE}/retry3-0-0-0.parquet", b"bad rows of a batch that was not committed")
    listed, seen = list_log_files(storage), frozenset(committed)
    paused = IngestLog(storage, lambda batch: batch in seen)
    commit(IngestLog(storage, lambda batch: batch in committed), committed, "c1x2", 0, "/in/1")
    paused.clean(listed)
    assert [file.name for file in storage.list_files(RECORDS)] == [f"{RECORDS}/c0x1-0.jsonl", f"{RECORDS}/c1x2-0.jsonl"]
    assert storage.list_files(QUARANTINE) == []
    IngestLog(storage, lambda batch: batch in committed).clean()
    assert len(storage.list_files(RECORDS)) == 2


def test_retries_of_two_writers_have_different_names(storage: ObjectStorage, tmp_path: Path) -> None:
    """Retries of two writers use different names, so neither replaces a record or a quarantine file of the other."""
    committed: Committed = set()

    def source(epoch: int, store: Storage) -> str:
        log = IngestLog(store, lambda batch: batch in committed)
        writer: Any = SimpleNamespace(
            history=SimpleNamespace(table=SimpleNamespace(epoch=epoch)), store=store, ingest_log=log
        )
        batch = next_retry(writer)
        assert batch.number == 0
        commit(log, committed, batch.source, 0, "/in/0")
        assert next_retry(writer).number == 1
        return batch.source

    assert source(7, FolderStorage(str(tmp_path))) == RETRY
    assert [source(epoch, storage) for epoch in (7, 8)] == ["retry7", "retry8"]


def test_files_of_a_retry_are_known_whatever_its_name(storage: ObjectStorage) -> None:
    """Spark's checkpoint does not know them: a file that waited must not be ingested twice."""
    committed: Committed = set()
    log = IngestLog(storage, lambda batch: batch in committed)
    commit(log, committed, "c0x1", 0, "/in/0", WAITING)
    commit(log, committed, "retry7", 0, "/in/0")
    for known in (log, IngestLog(storage, lambda batch: batch in committed)):
        assert known.waiting == {}
        assert known.has_file(IngestedFile("/in/0", 1, 0), "c0x1")


def test_sources_of_names() -> None:
    assert source_of(f"{RECORDS}/c1x0123456789abcdef-3-255.jsonl") == "c1x0123456789abcdef"
    assert source_of(f"{QUARANTINE}/retry12-0-1-2.parquet") == "retry12"
    assert source_of(f"{RECORDS}/base.jsonl") == "base.jsonl"
