"""Checkpoints of a store in object storage: on the driver's disk, where they may be lost, or be those of a machine
that ingested before another one did. The ingest log decides; no other machine's batch is mistaken for an own one.
"""

import json
from pathlib import Path

import pytest

from quantide.config import Source, StreamConfig
from quantide.errors import CheckpointError
from quantide.spark.stream.spark_checkpoint import begins, choose_checkpoint, next_checkpoint
from quantide.store.file_names import CHECKPOINTS
from quantide.store.folder_storage import FolderStorage
from quantide.store.ingest_log import BatchRecord, FileRecord, IngestedFile, IngestLog
from quantide.store.object_storage import ObjectStorage

URI = "s3://bucket/store/s"
FILES = StreamConfig("s", URI, Source("parquet", "/in"), "v")
KAFKA = StreamConfig("s", URI, Source("kafka"), "v")
RATE = StreamConfig("s", URI, Source("rate"), "v")


class Machine:
    """A machine with a disk of its own, which ingests into the store when no other one does."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self._monkeypatch = folder, monkeypatch
        self.storage = ObjectStorage(URI, {"region": "eu"})

    def begin(self, log: "Log", stream: StreamConfig = FILES, reset: bool = False, accept: bool = False) -> str:
        """Start ingestion: choose a checkpoint, as a stream does."""
        self._monkeypatch.setenv("QUANTIDE_STATE", str(self.folder))
        self.state = self.storage.local_folder(CHECKPOINTS)
        name = choose_checkpoint(stream, self.storage, log, reset, accept, log.table)
        if stream.source.is_files and log.last and begins(self.storage, log, name):
            log.rebase(name)
        return name

    def plan(self, name: str, batch: int, *paths: str) -> None:
        """Let Spark plan a batch: it writes the files, then the offsets."""
        folder = Path(self.state, name)
        for kind in ("offsets", "commits", "sources/0"):
            (folder / kind).mkdir(parents=True, exist_ok=True)
        lines = [json.dumps({"path": f"file://{path}", "batchId": batch}) for path in paths]
        (folder / "sources/0" / str(batch)).write_text("\n".join(["v1", *lines]))
        (folder / "offsets" / str(batch)).write_text(f'v1\n{{}}\n{{"logOffset": {batch}}}')

    def finish(self, name: str, batch: int) -> None:
        """Let Spark note that a batch is done."""
        Path(self.state, name, "commits", str(batch)).write_text("v1\n{}")


class Log(IngestLog):
    """An ingest log in a folder, as every machine reads it from the store."""

    def __init__(self, folder: Path, committed: set[tuple[str, int]]) -> None:
        self.committed, self.table = committed, folder.name
        super().__init__(FolderStorage(str(folder)), lambda batch: batch in committed)

    def commit(self, name: str, number: int, *paths: str, offsets: str = "") -> None:
        files = tuple(FileRecord(IngestedFile(path, 1, 0)) for path in paths)
        record = self.write(BatchRecord(name, number, rows=1, offsets=offsets, entries=files))
        self.committed.add((name, number))
        self.mark_committed(record)


class Store:
    def __init__(self, folder: Path) -> None:
        self._folder, self._committed = folder, set[tuple[str, int]]()
        folder.mkdir(exist_ok=True)

    def log(self) -> Log:
        return Log(self._folder, self._committed)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Machine, Machine]:
    return Machine(tmp_path / "a", monkeypatch), Machine(tmp_path / "b", monkeypatch)


def test_a_machine_continues_its_own_checkpoint(store: Store, machines: tuple[Machine, Machine]) -> None:
    one, _ = machines
    name = one.begin(store.log())
    one.plan(name, 0, "/in/0")
    assert one.begin(store.log()) == name, "nothing is in the store"
    store.log().commit(name, 0, "/in/0")
    assert one.begin(store.log()) == name, "killed before Spark noted that the batch is done"
    one.finish(name, 0)
    one.plan(name, 1, "/in/1")
    assert one.begin(store.log()) == name
    one.finish(name, 1)
    one.plan(name, 1, "/in/0")
    assert one.begin(store.log()) == name, "a batch without new files has no record"


def test_a_checkpoint_that_is_lost(store: Store, machines: tuple[Machine, Machine]) -> None:
    """A lost checkpoint is like a reset: the files that are in the store belong to the base of the ingest log."""
    one, other = machines
    first = one.begin(store.log())
    one.plan(first, 0, "/in/0")
    store.log().commit(first, 0, "/in/0")
    second = other.begin(store.log())
    log = store.log()
    assert (second[:3], log.checkpoint, log.base_files) == ("c1x", second, 1)
    assert log.has_file(IngestedFile("/in/0", 1, 0), second)
    assert other.begin(store.log()) != second, "it is not on the disk: Spark never began it"


def test_machines_take_turns(store: Store, machines: tuple[Machine, Machine]) -> None:
    """Each of two machines notices batches of the other one, even if its checkpoint has as many."""
    for turn in range(4):
        machine = machines[turn % 2]
        name = machine.begin(store.log())
        assert name.startswith(f"c{turn}x")
        assert name not in store.log().last or store.log().last[name] == -1
        for batch in range(3):
            machine.plan(name, batch, f"/in/{turn}-{batch}")
            store.log().commit(name, batch, f"/in/{turn}-{batch}")
            machine.finish(name, batch)
        assert machine.begin(store.log()) == name
    assert len(store.log().ingested) == 12


def test_two_machines_that_began_at_the_same_number(store: Store, machines: tuple[Machine, Machine]) -> None:
    """Both planned a first batch; the files of the one that was not committed must not be mistaken for ingested."""
    one, other = machines
    first = one.begin(store.log())
    one.plan(first, 0, "/in/0", "/in/1")
    second = other.begin(store.log())
    assert first != second
    other.plan(second, 0, "/in/0")
    store.log().commit(second, 0, "/in/0")
    third = one.begin(store.log())
    assert third not in (first, second)
    assert not store.log().has_file(IngestedFile("/in/1", 1, 0), third)
    assert store.log().has_file(IngestedFile("/in/0", 1, 0), third)


def test_a_store_that_was_replaced_or_restored_from_a_copy(store: Store, machines: tuple[Machine, Machine]) -> None:
    """Files that Spark has done and the store does not have are read again."""
    one, _ = machines
    name = one.begin(store.log())
    for batch in range(2):
        one.plan(name, batch, f"/in/{batch}")
        one.finish(name, batch)
    new = one.begin(store.log())
    assert new.startswith("c1x"), "the store is empty"
    store.log().commit(name, 0, "/in/0")
    assert one.begin(store.log()).startswith("c1x"), "the store ends with batch 0"
    store.log().commit(name, 1, "/in/1")
    assert one.begin(store.log()) not in (name, new), "the second start wrote a base for another checkpoint"


def test_kafka_continues_where_the_store_ends(store: Store, machines: tuple[Machine, Machine]) -> None:
    one, other = machines
    name = one.begin(store.log(), KAFKA)
    one.plan(name, 0)
    store.log().commit(name, 0, offsets='{"t": {"0": 5}}')
    assert one.begin(store.log(), KAFKA) == name
    second = other.begin(store.log(), KAFKA)
    assert second.startswith("c1x")
    other.plan(second, 0)
    assert other.begin(store.log(), KAFKA) != second, "nothing of it is in the store: the first may have gone on"
    one.finish(name, 0)
    one.plan(name, 1)
    one.finish(name, 1)
    assert one.begin(store.log(), KAFKA) != name, "Spark has offsets as done that the store does not have"


def test_a_source_that_does_not_identify_its_rows_is_refused(store: Store, machines: tuple[Machine, Machine]) -> None:
    one, other = machines
    name = one.begin(store.log(), RATE)
    one.plan(name, 0)
    store.log().commit(name, 0, offsets="5")
    one.finish(name, 0)
    one.plan(name, 1)
    one.finish(name, 1)
    assert one.begin(store.log(), RATE) == name, "a batch without rows has no record"
    with pytest.raises(
        CheckpointError, match=r"is lost, damaged, or older than the store.*1 of its batches.*ingested twice"
    ):
        other.begin(store.log(), RATE)
    with pytest.raises(CheckpointError, match="--allow-duplicates"):
        other.begin(store.log(), RATE, reset=True)
    assert other.begin(store.log(), RATE, reset=True, accept=True).startswith("c1x")


def test_names_of_a_rollover_are_unique() -> None:
    names = {next_checkpoint("c7x0123456789abcdef") for _ in range(2)}
    assert len(names) == 2
    assert all(name.startswith("c8x01234567") for name in names)
    assert next_checkpoint("c7") == "c8", "of a store in a folder"


@pytest.mark.parametrize("stream", [FILES, KAFKA, RATE])
def test_another_table_at_the_same_location(
    stream: StreamConfig, store: Store, machines: tuple[Machine, Machine], tmp_path: Path
) -> None:
    """The store was removed, and created again: the checkpoint of the former one must not hide its data."""
    one, _ = machines
    name = one.begin(store.log(), stream)
    one.plan(name, 0)
    store.log().commit(name, 0)
    one.finish(name, 0)
    new = one.begin(Store(tmp_path / "new").log(), stream)
    assert new.startswith("c0x")
    assert new != name
    one.plan(new, 0)
    assert one.begin(Store(tmp_path / "new").log(), stream) == new
    assert [path.name for path in Path(one.state).iterdir()] == [new]
