"""Atomic and durable writes, and confinement of a writer to its store.

A file gets its name only once it is complete; with `durable`, data and folder entries are synced in the order that a
power loss requires. Errors name the file.

Confinement: a writer changes and removes files of its own store only. Names that are read from files are checked where
they are parsed (`file_names`); here folders are checked, because a valid name leads elsewhere if a folder of the store
is a link. A file that is a link does no harm: removing or replacing it leaves its target alone.
"""

import ctypes
import os
import shutil
import stat
import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from uuid import uuid4

from quantide.errors import StorageError
from quantide.store import fault_points
from quantide.store.file_names import DATA, temporary_name

INTERNAL = "_quantide"


class DurableSink:
    """Writable file for pyarrow that tracks its size and, unless it has others, a checksum of all bytes."""

    def __init__(self, path: str, checked: bool = True) -> None:
        self._file = open(path, "wb", buffering=0)  # noqa: SIM115 (closed by close)
        self.size = self.crc = 0
        self._checked = checked
        self.closed = False

    def write(self, data: Any) -> int:
        fault_points.point("disk.write")
        view = memoryview(data)
        while len(view):
            written = self._file.write(view) or 0
            if self._checked:
                self.crc = zlib.crc32(view[:written], self.crc)
            self.size += written
            view = view[written:]
        return len(memoryview(data))

    def flush(self) -> None:
        """Do nothing: writes are unbuffered."""

    def sync(self) -> None:
        os.fsync(self._file.fileno())

    def close(self) -> None:
        if not self.closed:
            self._file.close()
            self.closed = True


def write_file(path: str, fill: Callable[[DurableSink], None], durable: bool, checked: bool = True) -> tuple[int, int]:
    """Write a file and return its size and checksum (0 unless `checked`); remove the remains of a failed write.

    The file gets its name once it is complete. So a Spark task that runs twice, or outlives its cancellation, does not
    harm the file of the first attempt, which may be committed already; both write the same bytes.
    """
    temporary = temporary_name(path)
    try:
        make_folder(os.path.dirname(path), durable)
        sink = DurableSink(temporary, checked)
        try:
            fill(sink)
            if durable:
                sink.sync()
        finally:
            sink.close()
        fault_points.point("disk.named")
        os.replace(temporary, path)
    except OSError as error:
        remove(temporary)
        raise StorageError(
            f"{path} cannot be written: {error}. Nothing was committed; free some space and repeat"
        ) from error
    return sink.size, sink.crc


def write_bytes(path: str, data: bytes, durable: bool) -> None:
    """Write bytes to a file."""

    def fill(sink: DurableSink) -> None:
        sink.write(data)

    write_file(path, fill, durable, checked=False)


def create_file(path: str, data: bytes, durable: bool) -> None:
    """Create a file; raise FileExistsError if the name is taken.

    The name appears as a link to a file that is complete and, if durable, synced.
    """
    temporary = f"{path}#{uuid4().hex}"
    try:
        sink = DurableSink(temporary, checked=False)
        try:
            sink.write(data)
            if durable:
                sink.sync()
        finally:
            sink.close()
        os.link(temporary, path)
    finally:
        with suppress(OSError):  # vacuum removes it
            os.remove(temporary)


def make_folder(path: str, durable: bool) -> None:
    """Create a folder and its parents; if durable, sync each parent of a new folder."""
    missing = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for folder in reversed(missing):
        os.makedirs(folder, exist_ok=True)
        if durable:
            sync(os.path.dirname(folder))


def move_file(source: str, target: str, durable: bool) -> None:
    """Move a file into another folder; if durable, sync both folders."""
    make_folder(os.path.dirname(target), durable)
    os.rename(source, target)
    if durable:
        sync(os.path.dirname(target), os.path.dirname(source))


def sync_filesystem(path: str) -> None:
    """Flush all writes to the filesystem of a folder, also those of other processes."""
    handle = os.open(path, os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(handle):
            code = ctypes.get_errno()
            raise StorageError(f"{path} cannot be flushed to the disk: {os.strerror(code)}")
    finally:
        os.close(handle)


def sync(*paths: str) -> None:
    """Sync files and folders, also those that other processes wrote; skip missing ones."""
    for path in paths:
        try:
            handle = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            continue
        try:
            os.fsync(handle)
        except OSError as error:
            raise StorageError(f"{path} may not survive a power loss: {error}") from error
        finally:
            os.close(handle)


def remove(path: str) -> bool:
    """Remove a file; return False if it does not exist."""
    try:
        os.remove(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except IsADirectoryError as error:
        raise StorageError(f"{path} is a folder where a store has a file; move it away: {error}") from error
    return True


def touch(*paths: str) -> None:
    """Set the modification time of files to now."""
    for path in paths:
        with suppress(FileNotFoundError):
            os.utime(path, follow_symlinks=False)


def check_space(folder: str, needed: int) -> None:
    """Raise StorageError if a disk has less free space than a merge needs."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise StorageError(
            f"{folder} has {free / 1e6:,.0f} MB free and this merge needs {needed / 1e6:,.0f} MB; nothing was changed. "
            "Free some space, then call end_step() again"
        )


def check_confined(folder: str) -> None:
    """Refuse to write to a store if one of its folders, or a file or folder in `_quantide`, is a link."""
    for name in ("_delta_log", DATA, INTERNAL):
        _check_folder(os.path.join(folder, name))
    inner = os.path.join(folder, INTERNAL)
    for name in os.listdir(inner) if os.path.isdir(inner) else ():
        if os.path.islink(os.path.join(inner, name)):
            raise _link_error(os.path.join(inner, name))


def check_tree(folder: str) -> None:
    """Refuse a folder that other programs write to, such as Spark's checkpoint, if a folder in it is a link."""
    if not os.path.lexists(folder):
        return
    _check_folder(folder)
    for path, folders, _ in os.walk(folder):
        for name in folders:
            if os.path.islink(os.path.join(path, name)):
                raise _link_error(os.path.join(path, name))


def _check_folder(path: str) -> None:
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISLNK(mode):
        raise _link_error(path)
    if not stat.S_ISDIR(mode):
        raise StorageError(f"{path} is a file where a store has a folder; restore the store from a copy")


def _link_error(path: str) -> StorageError:
    return StorageError(
        f"{path} is a link to {os.readlink(path)!r}: a writer would change and remove files outside of the store. "
        "Replace the link by the folder itself; only the folder of the whole store may be a link"
    )
