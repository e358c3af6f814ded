"""A store that was copied to an object store (moto's) is read there."""

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.fs as pafs
import pytest

from quantide.errors import CorruptBytesError, InvalidArgumentError, StorageError
from quantide.history import History, HistoryReader
from quantide.live import LiveStream
from quantide.store import object_storage
from quantide.store.object_storage import ObjectStorage
from tests.live.live_model import Grown, Rng, check, small
from tests.object_servers.object_location import ObjectLocation
from tests.object_servers.servers import aws_names, s3_files

LIMIT = 30.0  # seconds to wait for an expected event


@dataclass
class Copy:
    """Copy of a store: files named by the log are copied before the log itself."""

    uri: str
    files: Any
    base: str
    options: dict[str, str] = field(default_factory=dict)

    def sync(self, grown: Grown, remove: bool = False, only: Callable[[str], bool] = lambda name: True) -> None:
        """Copy new files; with `remove`, remove those that the store no longer has."""
        grown.history.close()  # nothing is merged during the copy
        root = Path(grown.path)
        names = [str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()]
        copied = self.names()
        for name in sorted(filter(only, names), key=lambda name: ("_delta_log" in name, name)):
            if name not in copied or "_last_checkpoint" in name:
                self.files.create_dir(os.path.dirname(f"{self.base}/{name}"))
                with self.files.open_output_stream(f"{self.base}/{name}") as out:
                    out.write((root / name).read_bytes())
        for name in copied - set(names) if remove else ():
            self.files.delete_file(f"{self.base}/{name}")

    def names(self) -> set[str]:
        found = self.files.get_file_info(pafs.FileSelector(self.base, recursive=True, allow_not_found=True))
        return {os.path.relpath(info.path, self.base) for info in found if info.is_file}

    def live(self, **choices: Any) -> LiveStream:
        return LiveStream(self.uri, storage_options=self.options, **choices)

    def reader(self) -> HistoryReader:
        return HistoryReader(self.uri, memory=0, storage_options=self.options)  # blocks are read again and again


@pytest.fixture
def copy(s3_store: ObjectLocation) -> Copy:
    uri = f"{s3_store.uri}/a/stream"
    return Copy(uri, s3_files(s3_store.options), uri.removeprefix("s3://"), aws_names(s3_store.options))


@pytest.fixture
def grown(tmp_path: Path) -> Iterator[Grown]:
    with small():
        found = Grown(tmp_path / "store", keys=["host"], filters=["f", "g"])
        yield found
        found.history.close()


def grow(grown: Grown, rng: Rng, number: int, rows: int = 40) -> None:
    keys = [(f"host {i}",) for i in rng.integers(0, 4, rows)]
    when = number * 40 + rng.integers(-80, 40, rows)
    grown.append(rng.integers(-900, 900, rows), when, keys, f=rng.random(rows) < 0.5, g=rng.random(rows) < 0.1)


def wait_until(condition: Callable[[], bool]) -> None:
    last = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < last
        time.sleep(0.01)


def test_every_question(copy: Copy, grown: Grown, rng: Rng) -> None:
    """Query history, steps, windows and keys of a copy, and again after more was copied."""
    grow(grown, rng, 0)
    copy.sync(grown)
    with copy.live(follow=False) as live:
        for number in range(1, 5):
            check(live, grown.model, rng, windows=2)
            assert not live.poll()
            before = live.version
            for more in range(3):
                grow(grown, rng, number * 3 + more)
            if number % 2:
                grown.end_step()
            copy.sync(grown, remove=number == 3)
            assert live.version == before
            assert live.poll()
            assert live.version == grown.history.version
        check(live, grown.model, rng, windows=6)
        assert live.summary(last=40).n == 40


def test_answers_are_those_of_the_folder(copy: Copy, grown: Grown, rng: Rng) -> None:
    for number in range(7):
        grow(grown, rng, number, 100)
        if number < 5:
            grown.end_step()
    copy.sync(grown)
    there, here = copy.reader(), HistoryReader(grown.path)
    assert there.path == copy.uri
    assert there.spans() == here.spans()
    for mode in ("quick", "accurate", "exact"):
        for key in (None, "host 1"):
            for phi in (0.01, 0.5, 1.0):
                answer, expected = there.answer(phi, mode, key=key), here.answer(phi, mode, key=key)
                assert replace(answer, requests=0, blocks_read=expected.blocks_read) == expected
    assert there.verify() == here.verify()
    assert not there.refresh()


def test_a_reader_follows(copy: Copy, grown: Grown, rng: Rng) -> None:
    grow(grown, rng, 0)
    copy.sync(grown)
    values: list[Any] = []
    with copy.live() as live:
        live.monitor(last=5).register(0.5, 0.3, on_change=lambda id, value: values.append(value))
        grown.append([777] * 9, np.full(9, 99), [("new",)] * 9, f=np.ones(9, bool), g=np.ones(9, bool))
        copy.sync(grown)
        wait_until(lambda: bool(values) and values[-1] == 777 / 4)
        assert live.version == grown.history.version
        assert live.keys()[-1] == "new"
        check(live, grown.model, rng, windows=2)


def test_files_that_were_merged_and_removed(
    copy: Copy, grown: Grown, rng: Rng, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader of an older version continues with the newest, also if it has the file open."""
    monkeypatch.setattr(ObjectStorage, "trusted_seconds", 0)  # a copy may lack young entries; a store does not
    for number in range(3):
        grow(grown, rng, number, 200)
    grown.end_step()
    grow(grown, rng, 3)
    copy.sync(grown)
    uncached = copy.options | {"cache_bytes": "0"}
    reader, live = HistoryReader(copy.uri, storage_options=uncached), copy.live(follow=False)
    assert reader.answer(0.01, "exact").n == grown.model.n
    check(live, grown.model, rng, windows=1)
    version = reader.version
    for number in range(4, 9):
        grow(grown, rng, number, 100)
        grown.end_step()
    grown.history.vacuum(0)
    copy.sync(grown, remove=True)
    for phi in np.linspace(0.05, 1, 20):
        reader.answer(phi, "exact")
    assert reader.version > version
    assert reader.n == grown.model.n
    live.poll()
    check(live, grown.model, rng)


def test_a_log_copied_before_its_files(copy: Copy, grown: Grown, rng: Rng) -> None:
    grow(grown, rng, 0)
    copy.sync(grown)
    live = copy.live(follow=False)
    grow(grown, rng, 1)
    copy.sync(grown, only=lambda name: "_delta_log" in name)
    with pytest.raises(CorruptBytesError, match=r"a file is missing.*runs/"):
        live.poll()
    copy.sync(grown)
    assert live.poll()
    check(live, grown.model, rng)


def test_lost_files(copy: Copy, grown: Grown, rng: Rng) -> None:
    """A side file is made again out of its data; a recent file is a matter of the windows that need it."""
    grow(grown, rng, 0)
    grown.end_step()
    copy.sync(grown)
    for name in copy.names():
        if name.endswith((".side", ".recent")):
            copy.files.delete_file(f"{copy.base}/{name}")
    live = copy.live(follow=False)
    assert live.answer(0.5, key="host 1", mode="exact").error == 0
    with pytest.raises(CorruptBytesError, match=r"this window needs .*\.recent"):
        live.answer(0.5, last=3)
    with pytest.raises(CorruptBytesError, match=r"\.side is missing"):
        copy.reader().verify()


def test_each_file_is_fetched_once(copy: Copy, grown: Grown, rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader fetches each file once, and leaves no temporary files."""
    for number in range(4):
        grow(grown, rng, number)
    copy.sync(grown)
    room = Path(grown.path).parent / "room"
    room.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(room))
    fetched: list[str] = []
    read = ObjectStorage.read

    def counted(self: ObjectStorage, name: str) -> Any:
        if not name.startswith("_delta_log"):
            fetched.append(name)
        return read(self, name)

    monkeypatch.setattr(ObjectStorage, "read", counted)
    with copy.live(follow=False) as live:
        check(live, grown.model, rng)
        assert list(room.iterdir()) == []
        grow(grown, rng, 5)
        copy.sync(grown)
        live.poll()
        check(live, grown.model, rng)
    assert len(fetched) == len(set(fetched)) > 8


def test_a_reader_needs_no_disk(copy: Copy, grown: Grown, rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    grow(grown, rng, 0)
    copy.sync(grown)
    monkeypatch.setattr(tempfile, "tempdir", f"{grown.path}/nowhere")
    monkeypatch.setenv("QUANTIDE_CACHE", f"{grown.path}/_delta_log/00000000000000000000.json")  # not a folder
    with copy.live(follow=False) as live:
        check(live, grown.model, rng)


def test_where_there_is_no_store(copy: Copy) -> None:
    with pytest.raises(StorageError, match=r"there is no history in .*/nothing"):
        HistoryReader(f"{copy.uri}/nothing", storage_options=copy.options)


def test_places_that_cannot_be_reached(copy: Copy, grown: Grown, rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_storage, "ATTEMPTS", 2)
    with pytest.raises(StorageError, match=r"s3://nobodys/stream.* cannot be reached: .*storage_options"):
        LiveStream("s3://nobodys/stream", storage_options=copy.options)
    dead = copy.options | {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    with pytest.raises(StorageError, match="cannot be reached") as raised:
        LiveStream(copy.uri, storage_options=dead)
    assert "\x1b" not in str(raised.value)
    grow(grown, rng, 0)
    copy.sync(grown)
    half = copy.live(follow=False)
    monkeypatch.setattr(half._reader.table.storage, "_objects", ObjectStorage(copy.uri, dead)._objects)
    with pytest.raises(StorageError, match=r"runs/.*cannot be reached"):
        half.answer(0.5, key="host 1", mode="exact")
    grow(grown, rng, 1)
    copy.sync(grown)
    with pytest.raises(StorageError, match=r"_delta_log/.*cannot be reached"):
        half.poll()


def test_a_network_that_recovers(copy: Copy, grown: Grown, rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """A following reader raises while the store cannot be reached, and continues when it can."""
    grow(grown, rng, 0)
    copy.sync(grown)
    with copy.live() as live:

        def unreachable(_version: int) -> bytes:
            raise OSError("no route to host")

        monkeypatch.setattr(live._reader.table.log, "read_entry", unreachable)
        wait_until(lambda: live.last_error is not None)
        with pytest.raises(StorageError, match="no route to host"):
            live.answer(0.5)
        grow(grown, rng, 1)
        copy.sync(grown)
        monkeypatch.undo()
        wait_until(lambda: live.version == grown.history.version)
        check(live, grown.model, rng)


def test_wrong_arguments(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="a store lies in a folder, or at s3://"):
        History("ftp://host/stream")
    with pytest.raises(InvalidArgumentError, match="storage_options are for"):
        LiveStream(tmp_path, storage_options={"AWS_REGION": "us-east-1"})
    with pytest.raises(
        InvalidArgumentError, match="option 'regoin' of s3://bucket/stream is unknown; did you mean 'region'"
    ):
        HistoryReader("s3://bucket/stream", storage_options={"regoin": "x"})
    with pytest.raises(InvalidArgumentError, match="such as %20"):
        HistoryReader("s3://bucket/my%20stream")
    for odd in ("://x", "nothing://bucket/stream", "s3://"):
        with pytest.raises(InvalidArgumentError):
            HistoryReader(odd)
