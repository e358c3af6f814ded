"""Contract of obstore with real servers: what stores in object storage rely on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TYPE_CHECKING

import obstore
import pytest
from obstore.exceptions import AlreadyExistsError, BaseError, GenericError, PreconditionError
from obstore.store import ObjectStore

from tests.object_servers.fault_proxy import FaultProxy
from tests.object_servers.faults import cut_request, lose_answer, refuse
from tests.object_servers.object_location import ObjectLocation

if TYPE_CHECKING:
    from obstore import PutMode

WRITERS, ROUNDS = 4, 10
NAME = "a folder/day=1/x&y.parquet"  # characters that are encoded in paths


def read(store: ObjectStore, name: str) -> bytes:
    return bytes(obstore.get(store, name).bytes())


def names(store: ObjectStore, prefix: str | None = None) -> list[str]:
    return [entry["path"] for page in obstore.list(store, prefix) for entry in page]


def race(store: ObjectStore, name: str, mode: PutMode) -> list[bytes]:
    """Let all writers write at once; return what those wrote that succeeded. The condition of the others fails."""
    start = Barrier(WRITERS)

    def write(content: bytes) -> bool:
        start.wait()
        try:
            obstore.put(store, name, content, mode=mode)
        except (AlreadyExistsError, PreconditionError):
            return False
        return True

    contents = [b"writer %d" % writer for writer in range(WRITERS)]
    with ThreadPoolExecutor(WRITERS) as pool:
        return [content for content, won in zip(contents, pool.map(write, contents), strict=True) if won]


def test_one_of_racing_creates_wins(object_store: ObjectLocation) -> None:
    store = object_store.open()
    for number in range(ROUNDS):
        assert race(store, f"log/{number}", "create") == [read(store, f"log/{number}")]


def test_one_of_racing_updates_wins(object_store: ObjectLocation) -> None:
    store = object_store.open()
    for _ in range(ROUNDS):
        tag = obstore.put(store, "lease", b"free")["e_tag"]
        assert race(store, "lease", {"e_tag": tag}) == [read(store, "lease")]


def test_a_stale_tag_is_refused(object_store: ObjectLocation) -> None:
    store = object_store.open()
    first = obstore.put(store, NAME, b"1", mode="create")["e_tag"]
    second = obstore.put(store, NAME, b"2", mode={"e_tag": first})["e_tag"]
    assert first != second == obstore.head(store, NAME)["e_tag"]
    with pytest.raises(PreconditionError):
        obstore.put(store, NAME, b"3", mode={"e_tag": first})
    with pytest.raises(AlreadyExistsError):
        obstore.put(store, NAME, b"4", mode="create")
    assert read(store, NAME) == b"2"


def test_a_deleted_object_cannot_be_updated(object_store: ObjectLocation) -> None:
    store = object_store.open()
    tag = obstore.put(store, NAME, b"1")["e_tag"]
    obstore.delete(store, NAME)
    with pytest.raises(PreconditionError):
        obstore.put(store, NAME, b"2", mode={"e_tag": tag})
    with pytest.raises(FileNotFoundError):
        obstore.get(store, NAME)
    obstore.put(store, NAME, b"3", mode="create")
    assert read(store, NAME) == b"3"


def test_ranges(object_store: ObjectLocation) -> None:
    store = object_store.open()
    obstore.put(store, NAME, b"0123456789")
    assert bytes(obstore.get_range(store, NAME, start=2, length=3)) == b"234"
    assert bytes(obstore.get_range(store, NAME, start=8, length=30)) == b"89"  # shorter at the end
    parts = obstore.get_ranges(store, NAME, starts=[0, 7], lengths=[2, 3])
    assert [bytes(part) for part in parts] == [b"01", b"789"]
    with pytest.raises(GenericError, match="416"):
        obstore.get_range(store, NAME, start=20, length=1)
    with pytest.raises(FileNotFoundError):
        obstore.get_range(store, "nothing", start=0, length=1)


def test_lists_show_puts_and_deletes_at_once(object_store: ObjectLocation) -> None:
    store = object_store.open()
    paths = [f"log/{number:03}.json" for number in range(30)]
    for number, path in enumerate(paths):
        obstore.put(store, path, b"x")
        assert names(store, "log") == paths[: number + 1]
    obstore.put(store, "logs/other", b"")  # a prefix ends at a slash
    assert names(store, "log") == paths
    assert [entry["path"] for page in obstore.list(store, "log", offset=paths[24]) for entry in page] == paths[25:]
    assert obstore.list_with_delimiter(store)["common_prefixes"] == ["log", "logs"]
    obstore.delete(store, paths[1:])
    assert names(store) == [paths[0], "logs/other"]


def test_copies_and_uploads_of_parts(object_store: ObjectLocation) -> None:
    store, content = object_store.open(), b"0123456789" * 1_200_000
    obstore.put(store, "large", content, chunk_size=5 << 20, use_multipart=True)
    obstore.copy(store, "large", "copy")
    obstore.rename(store, "copy", NAME)
    assert names(store) == sorted([NAME, "large"])
    assert read(store, NAME) == content


def test_retry_of_a_create_whose_answer_was_lost(object_store: ObjectLocation, fault_proxy: FaultProxy) -> None:
    """The retry finds an object that its own first attempt may have created."""
    store = fault_proxy.redirect(object_store).open()
    fault_proxy.inject(lose_answer, "PUT", "log/1")
    with pytest.raises(GenericError):
        obstore.put(store, "log/1", b"mine", mode="create")
    with pytest.raises(AlreadyExistsError):
        obstore.put(store, "log/1", b"mine", mode="create")
    assert read(object_store.open(), "log/1") == b"mine"


def test_obstore_retries_a_create_whose_answer_was_lost(object_store: ObjectLocation, fault_proxy: FaultProxy) -> None:
    """With retries, the writer that created the object gets the error that another one did."""
    fault_proxy.inject(lose_answer, "PUT", "log/1")
    with pytest.raises(AlreadyExistsError):
        obstore.put(fault_proxy.redirect(object_store).open(retries=3), "log/1", b"mine", mode="create")
    assert fault_proxy.count("PUT", "log/1") == 2
    assert read(object_store.open(), "log/1") == b"mine"


def test_a_conflict_looks_as_if_the_object_existed(s3_store: ObjectLocation, fault_proxy: FaultProxy) -> None:
    """S3 answers 409 when a delete or a put of the object is under way: there may be no object afterwards."""
    fault_proxy.inject(refuse(409, "ConditionalRequestConflict"), "PUT")
    with pytest.raises(AlreadyExistsError):
        obstore.put(fault_proxy.redirect(s3_store).open(retries=3), "log/1", b"mine", mode="create")
    assert names(s3_store.open()) == []


def test_half_a_put_leaves_nothing(object_store: ObjectLocation, fault_proxy: FaultProxy) -> None:
    store, content = fault_proxy.redirect(object_store).open(), b"0123456789" * 100_000
    old = obstore.put(store, "old", b"old")["e_tag"]
    fault_proxy.inject(cut_request, "PUT", times=3)
    puts: list[tuple[str, PutMode]] = [("new", "create"), ("old", "overwrite"), ("old", {"e_tag": old})]
    for name, mode in puts:
        with pytest.raises(BaseError):
            obstore.put(store, name, content, mode=mode, use_multipart=False)
    assert names(store) == ["old"]
    assert read(store, "old") == b"old"
