"""The disk: files written whole and, where power loss matters, for good; and errors that say which file it was."""

import ctypes
import os
import shutil
import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from uuid import uuid4

from quantide.errors import StorageError
from quantide.store import faults
from quantide.store.names import spare_of


class Sink:
    """A file being written that knows its size and checksum; what pyarrow needs to write to."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "wb", buffering=0)  # noqa: SIM115 (closed by close)
        self.size = self.crc = 0
        self.closed = False

    def write(self, data: Any) -> int:
        faults.point("disk.write")
        view = memoryview(data)
        while len(view):
            written = self._file.write(view) or 0
            self.crc = zlib.crc32(view[:written], self.crc)
            self.size += written
            view = view[written:]
        return len(memoryview(data))

    def flush(self) -> None:
        """Nothing is held back."""

    def sync(self) -> None:
        os.fsync(self._file.fileno())

    def close(self) -> None:
        if not self.closed:
            self._file.close()
            self.closed = True


def write_file(path: str, fill: Callable[[Sink], None], durable: bool) -> tuple[int, int]:
    """Write a file; its size and checksum. What is left of one that failed is removed.

    It has its name only when it is whole: a Spark task that is run twice, or lives on though it was given up, does
    no harm to the file that the first one wrote, and which may be committed. Both write the same bytes.
    """
    spare = spare_of(path)
    try:
        make_folder(os.path.dirname(path), durable)
        sink = Sink(spare)
        try:
            fill(sink)
            if durable:
                sink.sync()
        finally:
            sink.close()
        faults.point("disk.named")
        os.replace(spare, path)
    except OSError as error:
        remove(spare)
        raise StorageError(
            f"{path} cannot be written: {error}. Nothing was committed; free some space and repeat"
        ) from error
    return sink.size, sink.crc


def write_bytes(path: str, data: bytes, durable: bool) -> None:
    """Write a file of these bytes."""

    def fill(sink: Sink) -> None:
        sink.write(data)

    write_file(path, fill, durable)


def put_file(path: str, data: bytes, durable: bool) -> None:
    """Create a file under a name that is free; FileExistsError when it is taken.

    The name appears by a link to a file that is whole already and, where durable, synced.
    """
    spare = f"{path}#{uuid4().hex}"
    try:
        sink = Sink(spare)
        try:
            sink.write(data)
            if durable:
                sink.sync()
        finally:
            sink.close()
        os.link(spare, path)
    finally:
        with suppress(OSError):  # vacuum removes it
            os.remove(spare)


def make_folder(path: str, durable: bool) -> None:
    """Create a folder and its parents; where durable, sync the folders that new names are in."""
    new = []
    while not os.path.isdir(path):
        new.append(path)
        path = os.path.dirname(path)
    for folder in reversed(new):
        os.makedirs(folder, exist_ok=True)
        if durable:
            sync(os.path.dirname(folder))


def move_file(source: str, target: str, durable: bool) -> None:
    """Rename a file, into another folder; where durable, sync both folders."""
    make_folder(os.path.dirname(target), durable)
    os.rename(source, target)
    if durable:
        sync(os.path.dirname(target), os.path.dirname(source))


def sync_filesystem(path: str) -> None:
    """Flush everything that was written to the filesystem of a folder, by this process or others."""
    handle = os.open(path, os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(handle):
            code = ctypes.get_errno()
            raise StorageError(f"{path} cannot be flushed to the disk: {os.strerror(code)}")
    finally:
        os.close(handle)


def sync(*paths: str) -> None:
    """Make files that others wrote, and the names of new files in a folder, outlast a loss of power."""
    for path in paths:
        try:
            handle = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            continue
        try:
            os.fsync(handle)
        except OSError as error:
            raise StorageError(f"{path} may not outlast a loss of power: {error}") from error
        finally:
            os.close(handle)


def remove(path: str) -> bool:
    """Remove a file if it is there."""
    try:
        os.remove(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except IsADirectoryError as error:
        raise StorageError(f"{path} is a folder where a store has a file; move it away: {error}") from error
    return True


def touch(*paths: str) -> None:
    """Let files be as old as this moment."""
    for path in paths:
        with suppress(FileNotFoundError):
            os.utime(path, follow_symlinks=False)


def check_space(folder: str, needed: int) -> None:
    """Refuse to begin what the disk has no room for."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise StorageError(
            f"{folder} has {free / 1e6:,.0f} MB free and this merge needs {needed / 1e6:,.0f} MB; nothing was changed. "
            "Free some space, then call end_step() again"
        )
