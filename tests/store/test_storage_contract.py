"""One contract for every storage of a store: a folder, and an object store on each server."""

import os
import pickle
import zlib
from pathlib import Path

import pytest
from numpy.random import default_rng

from quantide.errors import StorageError
from quantide.store import object_storage
from quantide.store.file_cache import FileCache
from quantide.store.folder_storage import FolderStorage
from quantide.store.object_storage import ObjectStorage
from quantide.store.storage import FileStatus, Sink, Storage, measure_requests
from tests.object_servers import faults
from tests.object_servers.fault_proxy import FaultProxy
from tests.object_servers.fixtures import StartServer
from tests.object_servers.object_location import ObjectLocation
from tests.object_servers.servers import SERVERS

CONTENT = bytes(default_rng(1).integers(0, 256, 300_000, "uint8"))
NAME = "runs/L0-S1-1-E1-1-P0.parquet"


@pytest.fixture(params=["folder", *SERVERS])
def storage(request: pytest.FixtureRequest, start_object_server: StartServer, tmp_path: Path) -> Storage:
    if request.param == "folder":
        made: Storage = FolderStorage(str(tmp_path / "store"))
    else:
        location = start_object_server(request.param).new_location()
        made = ObjectStorage(f"{location.uri}/a store", location.options)  # a prefix, with a space
    made.prepare()
    return made


@pytest.fixture
def cached(s3_store: ObjectLocation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ObjectStorage:
    monkeypatch.setenv("QUANTIDE_CACHE", str(tmp_path / "cache"))
    return open_cached(s3_store, "identity")


def open_cached(location: ObjectLocation, identity: str, limit: int = 1 << 22) -> ObjectStorage:
    storage = ObjectStorage(location.uri, location.options | {"cache_bytes": str(limit)})
    storage.use_cache(identity)
    return storage


def write(storage: Storage, name: str, data: bytes, pieces: int = 1) -> tuple[int, int]:
    def fill(sink: Sink) -> None:
        for start in range(0, len(data), -(-len(data) // pieces) or 1):
            sink.write(data[start : start + -(-len(data) // pieces)])

    return storage.write(name, fill)


def names(files: list[FileStatus]) -> list[str]:
    return [file.name for file in files]


# Every storage


@pytest.mark.parametrize("size", [1, 4096, 65536, 65537, len(CONTENT)])
def test_a_file_is_read_in_every_way(storage: Storage, size: int) -> None:
    data = CONTENT[:size]
    assert write(storage, NAME, data, pieces=7) == (size, zlib.crc32(data))
    assert storage.read(NAME) == bytes(storage.map(NAME)) == data
    status = storage.stat(NAME)
    assert (status.name, status.size, storage.exists(NAME)) == (NAME, size, True)
    with storage.open(NAME) as file:
        assert file.size() == size
        for start, stop in ((0, size), (size // 3, size // 2), (size - 1, size), (size, size + 5)):
            file.seek(start)
            assert file.read(stop - start) == data[start:stop]


def test_an_empty_file(storage: Storage) -> None:
    assert write(storage, NAME, b"") == (0, 0)
    assert storage.read(NAME) == bytes(storage.map(NAME)) == b""
    assert storage.stat(NAME).size == 0


def test_a_large_file_is_uploaded_in_parts(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_storage, "PART_BYTES", 5 << 20)  # the smallest that S3 accepts
    data = CONTENT * 40
    assert write(storage, NAME, data, pieces=9) == (len(data), zlib.crc32(data))
    assert storage.read(NAME) == data


def test_missing_files(storage: Storage) -> None:
    for read in (storage.read, storage.map, storage.open, storage.stat):
        with pytest.raises(FileNotFoundError):
            read("runs/nothing")
    with pytest.raises(FileNotFoundError):
        storage.move("runs/nothing", "other/nothing")
    assert not storage.exists("runs/nothing")
    assert not storage.copy("runs/nothing", "runs/second")
    storage.remove("runs/nothing")  # S3 cannot tell that it was not there
    assert storage.list_files("runs") == storage.list_files("no/folder") == []
    assert not storage.exists("runs/second")


def test_lists_have_no_subfolders(storage: Storage) -> None:
    for name in ("b/2", "b/1", "b/inner/3", "b2/4", "top"):
        storage.replace(name, name.encode())
    assert names(storage.list_files("b")) == ["b/1", "b/2"]
    assert names(storage.list_files("b/inner")) == ["b/inner/3"]
    assert [file.size for file in storage.list_files("b2")] == [4]
    assert storage.list_top() - {"_delta_log"} == {"b", "b2", "top"}
    assert not storage.exists("top/inside")


def test_a_list_of_many_files(s3_store: ObjectLocation) -> None:
    """Servers list at most 1000 names at a time."""
    storage = ObjectStorage(s3_store.uri, s3_store.options)
    expected = [f"log/{number:04}" for number in range(1005)]
    storage.map_all(lambda name: storage.replace(name, b"x"), expected)
    assert names(storage.list_files("log")) == expected


def test_a_file_is_replaced(storage: Storage) -> None:
    for data in (b"first", b"", b"third"):
        storage.replace("_quantide/status.json", data)
        assert storage.read("_quantide/status.json") == data


def test_a_file_is_created_once(storage: Storage) -> None:
    storage.create("_delta_log/1.json", b"first")
    for data in (b"second", b"first"):
        with pytest.raises(FileExistsError):
            storage.create("_delta_log/1.json", data)
    assert storage.read("_delta_log/1.json") == b"first"
    storage.remove("_delta_log/1.json")
    storage.create("_delta_log/1.json", b"third")
    assert storage.read("_delta_log/1.json") == b"third"


def test_copies_and_moves(storage: Storage) -> None:
    write(storage, NAME, CONTENT)
    assert storage.copy(NAME, "_quantide/retired/x")
    assert storage.copy(NAME, "_quantide/retired/x")  # a repeat changes nothing
    assert storage.remove(NAME)
    assert not storage.exists(NAME)
    storage.move("_quantide/retired/x", "runs/y")
    assert storage.read("runs/y") == CONTENT
    assert storage.list_files("_quantide/retired") == []
    assert names(storage.list_files("runs")) == ["runs/y"]


def test_a_failed_write_leaves_nothing(storage: Storage) -> None:
    def fill(sink: Sink) -> None:
        sink.write(CONTENT)
        raise ValueError("the rows cannot be read")

    with pytest.raises(ValueError, match="rows"):
        storage.write(NAME, fill)
    assert storage.list_files("runs") == storage.list_remains("runs") == []


def test_times_are_those_of_one_clock(storage: Storage) -> None:
    """Times are seconds since 1970 of one clock, and never decrease."""
    for name in ("1", "2"):
        storage.replace(f"x/{name}", b"x")
    first, second = storage.list_files("x")
    assert 1.7e9 < first.modified <= second.modified < 4e9
    assert abs(storage.stat("x/1").modified - first.modified) < 1  # some servers list fractions of a second


def test_a_pickled_storage_is_the_same(storage: Storage) -> None:
    storage.replace("x/1", b"1")
    copy: Storage = pickle.loads(pickle.dumps(storage))
    assert (copy.path, copy.durable, type(copy)) == (storage.path, storage.durable, type(storage))
    assert copy.read("x/1") == b"1"
    copy.create("x/2", b"2")
    assert storage.read("x/2") == b"2"


def test_items_are_read_in_order(storage: Storage) -> None:
    for number in range(40):
        storage.replace(f"x/{number}", b"%d" % number)
    assert storage.map_all(lambda n: int(storage.read(f"x/{n}")), range(40)) == list(range(40))
    assert storage.map_all(lambda n: n, []) == []
    with pytest.raises(FileNotFoundError):
        storage.map_all(lambda n: storage.read(f"x/{n}"), [1, 99, 2])


def test_requests_are_measured(storage: Storage) -> None:
    storage.replace("x/1", b"12345")
    before = storage.counts.requests
    with measure_requests() as counts:
        with measure_requests() as inner:
            storage.map_all(lambda _: storage.read("x/1"), range(3))
        storage.replace("x/2", b"123")
    remote = isinstance(storage, ObjectStorage)
    assert (counts.requests, counts.bytes_read, counts.bytes_written) == ((4, 15, 3) if remote else (0, 0, 0))
    assert storage.counts.requests - before == counts.requests
    assert (inner.requests, inner.bytes_written) == ((3, 0) if remote else (0, 0))
    assert counts.retries == 0
    storage.read("x/1")
    assert counts.bytes_read in (0, 15), "a finished block counts nothing more"


def test_requests_are_those_of_the_server(s3_store: ObjectLocation, fault_proxy: FaultProxy) -> None:
    location = fault_proxy.redirect(s3_store)
    storage = ObjectStorage(location.uri, location.options)
    with measure_requests() as counts:
        write(storage, NAME, CONTENT)
        storage.create("log/1", b"x")
        with storage.open(NAME) as file:
            file.seek(10)
            file.read(100)
        storage.list_files("runs")
        storage.copy(NAME, "runs/2")
        storage.remove(NAME)
        with pytest.raises(FileNotFoundError):
            storage.read(NAME)
    assert counts.requests == len(fault_proxy.log) == 8


def test_a_lease_excludes_another(storage: Storage) -> None:
    lease = storage.acquire_lease()
    holder = storage.lease_holder()
    assert holder is not None
    assert str(os.getpid()) in holder
    assert not lease.is_lost
    lease.release()
    lease.release()
    assert storage.lease_holder() is None
    storage.acquire_lease().release()


def test_reads_errors_of_bad_content(storage: Storage) -> None:
    missing = FileNotFoundError("x")
    assert storage.read_error("x", missing) is missing
    assert "damaged" in str(storage.read_error("x", ValueError("no magic")))


# A bucket that does not exist


def test_a_missing_bucket_is_named(object_store: ObjectLocation) -> None:
    storage = ObjectStorage(f"{object_store.uri}-none/x", object_store.options)
    with pytest.raises(OSError, match=r"bucket-\d+-none"):
        storage.create("log/1", b"x")
    for call in (lambda: write(storage, NAME, CONTENT), storage.list_top, lambda: storage.list_files("log")):
        with pytest.raises(StorageError, match=r"bucket-\d+-none/x cannot be reached: there is no such bucket"):
            call()
    assert storage.counts.retries == 0


# The cache on local disk


def entries(cache: Path) -> list[Path]:
    return sorted(path for path in cache.rglob("*") if path.is_file())


def test_a_hit_makes_no_request(cached: ObjectStorage) -> None:
    write(cached, NAME, CONTENT)
    for hits in (0, 1, 2):
        with measure_requests() as counts:
            assert bytes(cached.map(NAME)) == CONTENT
        assert (counts.requests, counts.cache_hits) == ((1, 0) if not hits else (0, 1))
    for hits in (0, 1):
        with measure_requests() as counts, cached.open(NAME) as file:
            file.seek(100)
            assert file.read(50) == CONTENT[100:150]
            file.seek(len(CONTENT) - 50)
            assert file.read(50) == CONTENT[-50:]
        assert (counts.requests, counts.cache_hits) == ((2, 0) if not hits else (0, 2))


def test_a_cache_outlives_its_process(cached: ObjectStorage, s3_store: ObjectLocation) -> None:
    write(cached, NAME, CONTENT)
    cached.map(NAME)
    with measure_requests() as counts:
        assert bytes(open_cached(s3_store, "identity").map(NAME)) == CONTENT
    assert (counts.requests, counts.cache_hits) == (0, 1)


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "longer", "trailer"])
def test_a_damaged_entry_is_fetched_again(cached: ObjectStorage, tmp_path: Path, damage: str) -> None:
    write(cached, NAME, CONTENT)
    cached.map(NAME)
    [path] = entries(tmp_path / "cache")
    data = path.read_bytes()
    damaged = {
        "flip": bytes([data[0] ^ 1]) + data[1:],
        "cut": data[:-1],
        "empty": b"",
        "longer": data + b"x",
        "trailer": data[:-16] + bytes(16),
    }[damage]
    path.write_bytes(damaged)
    for requests in (1, 0):
        with measure_requests() as counts:
            assert bytes(cached.map(NAME)) == CONTENT
        assert counts.requests == requests
    assert path.read_bytes() == data


def test_identities_are_apart(cached: ObjectStorage, s3_store: ObjectLocation) -> None:
    """A table that was removed and made again has files of the same names."""
    write(cached, NAME, CONTENT)
    cached.map(NAME)
    cached.remove(NAME)
    write(cached, NAME, CONTENT[::-1])
    assert bytes(open_cached(s3_store, "another").map(NAME)) == CONTENT[::-1]


@pytest.mark.parametrize("size", [1, 1000, 15_000])
def test_the_limit_is_obeyed(tmp_path: Path, size: int) -> None:
    limit = 64_000 if size > 1 else 8_000
    cache = FileCache(str(tmp_path), "identity", limit)
    for number in range(5 * limit // (size + 16) if size > 1 else 700):
        data = (b"%d" % number).ljust(size, b"x")
        assert bytes(cache.get(str(number), lambda data=data: data)[0]) == data  # type: ignore[misc]
        if number % 100 == 0 or size > 1000:
            assert sum(path.stat().st_size for path in entries(tmp_path)) <= limit
    assert sum(path.stat().st_size for path in entries(tmp_path)) > limit / 2


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    cache = FileCache(str(tmp_path), "identity", 64_000)
    fetched = []

    def get(name: str) -> None:
        def fetch() -> bytes:
            fetched.append(name)
            return bytes(6000)

        cache.get(name, fetch)
        for path in entries(tmp_path):  # the file system's clock is coarse
            os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns - 10**9))

    for number in range(40):
        get("used")
        get(str(number))
    assert fetched.count("used") == 1
    get("0")
    assert fetched.count("0") == 2


def test_a_file_larger_than_a_quarter_is_not_cached(s3_store: ObjectLocation, cached: ObjectStorage) -> None:
    write(cached, NAME, CONTENT)
    small = open_cached(s3_store, "identity", limit=1_000_000)
    for _ in range(2):
        with measure_requests() as counts:
            assert bytes(small.map(NAME)) == CONTENT
        assert counts.requests == 1


def test_a_cache_that_cannot_be_written(
    s3_store: ObjectLocation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("QUANTIDE_CACHE", str(tmp_path / "file"))
    storage = open_cached(s3_store, "identity")
    write(storage, NAME, CONTENT)
    assert bytes(storage.map(NAME)) == CONTENT


# Requests that are repeated


@pytest.mark.parametrize("status", [500, 502, 503, 504, 429])
def test_failures_that_may_pass(
    s3_store: ObjectLocation, fault_proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setattr(object_storage, "FIRST_PAUSE", 0.001)
    location = fault_proxy.redirect(s3_store)
    storage = ObjectStorage(location.uri, location.options)
    fault_proxy.inject(faults.refuse(status, "SlowDown"), times=2)
    storage.replace("x", b"1")
    assert (storage.counts.requests, storage.counts.retries) == (3, 2)
    fault_proxy.inject(faults.refuse(status, "SlowDown"), times=None)
    for call in (lambda: storage.read("x"), lambda: storage.list_files("y"), lambda: storage.remove("x")):
        with pytest.raises(StorageError, match=f"after {object_storage.ATTEMPTS} attempts"):
            call()
    assert fault_proxy.count() == 3 + 3 * object_storage.ATTEMPTS


def test_a_conflict_is_no_other_object(
    s3_store: ObjectLocation, fault_proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3 answers 409 when another put or delete of the object is under way: the put is repeated."""
    monkeypatch.setattr(object_storage, "FIRST_PAUSE", 0.001)
    location = fault_proxy.redirect(s3_store)
    storage = ObjectStorage(location.uri, location.options)
    conflict = faults.refuse(409, "ConditionalRequestConflict")
    fault_proxy.inject(conflict, "PUT", times=2)
    storage.create("log/1", b"1")
    assert storage.read("log/1") == b"1"
    version = storage.update("lease", b"1", None)
    fault_proxy.inject(conflict, "PUT")
    second = storage.update("lease", b"2", version)
    assert storage.read_version("lease") == (b"2", second)
    with pytest.raises(FileExistsError):
        storage.update("lease", b"3", version)
    fault_proxy.inject(conflict, "PUT", times=None)
    with pytest.raises(StorageError):
        storage.create("log/2", b"1")
    with pytest.raises(FileExistsError):
        storage.create("log/1", b"1")
