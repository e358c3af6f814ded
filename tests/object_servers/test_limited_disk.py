"""The disk of limited size, and an S3 server on it that is killed."""

import errno
from collections.abc import Iterator
from pathlib import Path

import obstore
import pytest
from obstore.exceptions import BaseError

from tests.object_servers.limited_disk import LimitedDisk, limited_disk
from tests.object_servers.servers import VersityServer, missing_reason, s3_server_at


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[LimitedDisk]:
    with limited_disk(tmp_path / "objects") as disk:
        if not disk.is_mounted:
            pytest.skip("only root can mount a disk")
        yield disk


def test_a_full_disk_refuses_writes_until_it_is_freed(disk: LimitedDisk) -> None:
    path = disk.folder / "file"
    path.write_bytes(b"stored")
    disk.fill()
    with pytest.raises(OSError, match="No space left on device") as raised:
        (disk.folder / "other").write_bytes(b"x" * 100_000)
    assert raised.value.errno == errno.ENOSPC
    assert path.read_bytes() == b"stored"
    disk.free()
    (disk.folder / "other").write_bytes(b"x" * 100_000)


def test_objects_survive_a_kill_and_a_full_disk(disk: LimitedDisk) -> None:
    if (reason := missing_reason("versitygw")) is not None:
        pytest.skip(reason)
    server = VersityServer(disk.folder.parent)
    try:
        store = s3_server_at(server.port).new_location().open()
        obstore.put(store, "a", b"first")
        server.kill()
        with pytest.raises(BaseError):
            obstore.get(store, "a")
        server.start()
        disk.fill()
        with pytest.raises(BaseError, match="No space left on device"):
            obstore.put(store, "b", b"x" * 100_000)
        disk.free()
        obstore.put(store, "b", b"second")
        assert [bytes(obstore.get(store, name).bytes()) for name in "ab"] == [b"first", b"second"]
    finally:
        server.kill()
