"""Storage in a folder of this machine: atomic and durable writes, and confinement of a writer to its store.

A file gets its name only once it is complete; if durable, data and folder entries are synced in the order that a power
loss requires.

Confinement: a writer changes and removes files of its own store only. Names that are read from files are checked where
they are parsed (`file_names`); here folders are checked, because a valid name leads elsewhere if a folder of the store
is a link. A file that is a link does no harm: removing or replacing it leaves its target alone.
"""

import ctypes
import errno
import mmap
import os
import shutil
import stat
import weakref
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import IO, Any
from uuid import uuid4

import pyarrow as pa

from quantide.errors import CorruptBytesError, StorageError
from quantide.store import fault_points
from quantide.store.file_names import DATA, LOG, final_name, temporary_name
from quantide.store.storage import A, B, FileStatus, Sink, Storage
from quantide.store.writer_lease import FolderLease, read_lease_holder

INTERNAL = "_quantide"


class FolderStorage(Storage):
    """Folder of this machine, or of a file system that several machines share."""

    poll_seconds = 0.02
    trusted_seconds = 0.0
    loses_local_files = False
    stale_seconds = 0.0
    reads_ahead = False

    def __init__(self, path: str, durable: bool = False) -> None:
        super().__init__()
        self.path, self.durable = path, durable
        self._descriptor: int | None = None  # of the log's folder
        self.is_same()

    def __reduce__(self) -> tuple[Any, ...]:
        return FolderStorage, (self.path, self.durable)

    def full_path(self, name: str) -> str:
        return os.path.join(self.path, name)

    # Reading

    def read(self, name: str) -> bytes:
        with open_regular(self.full_path(name)) as file:
            return file.read()

    def map(self, name: str) -> Any:
        path = self.full_path(name)
        try:
            with open_regular(path) as file:
                return map_file(file)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise self.read_error(name, error) from error

    def open(self, name: str) -> Any:
        path = self.full_path(name)
        open_regular(path).close()
        return pa.memory_map(path)

    def stat(self, name: str) -> FileStatus:
        try:
            status = os.stat(self.full_path(name))
        except NotADirectoryError as error:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.full_path(name)) from error
        return FileStatus(name, status.st_size, status.st_mtime)

    def list_top(self) -> set[str]:
        try:
            return set(os.listdir(self.path))
        except FileNotFoundError:
            return set()

    def list_files(self, folder: str) -> list[FileStatus]:
        return self._scan(folder, lambda name: final_name(name) == name)

    def _scan(self, folder: str, is_listed: Callable[[str], bool]) -> list[FileStatus]:
        try:
            entries = sorted(os.scandir(self.full_path(folder)), key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            return []
        files = []
        for entry in entries:
            with suppress(FileNotFoundError):  # it was removed in between
                if not is_listed(entry.name):
                    continue
                status = entry.stat(follow_symlinks=False)
                if not stat.S_ISDIR(status.st_mode):
                    name, is_linked = f"{folder}/{entry.name}", status.st_nlink > 1
                    files.append(FileStatus(name, status.st_size, status.st_mtime, is_linked))
        return files

    def map_all(self, read: Callable[[A], B], items: Iterable[A]) -> list[B]:
        return [read(item) for item in items]

    def read_error(self, name: str, error: Exception) -> Exception:
        path = self.full_path(name)
        if isinstance(error, FileNotFoundError | StorageError):
            return error
        if isinstance(error, PermissionError):
            return StorageError(f"{path} cannot be read: {error}. Check its permissions")
        return CorruptBytesError(f"{path} is damaged: {error}")

    # Writing

    def prepare(self) -> None:
        make_folder(self.full_path(LOG), self.durable)
        self.is_same()

    def write(self, name: str, fill: Callable[[Sink], None], checked: bool = True) -> tuple[int, int]:
        return self._write(name, fill, checked, self.durable)

    def replace(self, name: str, data: bytes, durable: bool | None = None) -> None:
        def fill(sink: Sink) -> None:
            sink.write(data)

        self._write(name, fill, False, self.durable if durable is None else durable)
        if durable:
            _sync(os.path.dirname(self.full_path(name)))

    def _write(self, name: str, fill: Callable[[Sink], None], checked: bool, durable: bool) -> tuple[int, int]:
        """Write a file under a temporary name, then rename it; remove the remains of a failed write.

        So a Spark task that runs twice, or outlives its cancellation, does not harm the file of the first attempt,
        which may be committed already; both write the same bytes.
        """
        path = self.full_path(name)
        temporary = temporary_name(path)
        try:
            os.stat(self.path)  # a store that was removed is not created again by a file of it
            is_maintenance = name.startswith(LOG)  # by another thread: its faults would come at any time
            if not is_maintenance:
                make_folder(os.path.dirname(path), durable)
            sink = FileSink(temporary, checked, not is_maintenance)
            try:
                fill(sink)
                if durable:
                    sink.sync()
            finally:
                sink.close()
            if not is_maintenance:
                fault_points.point("disk.named")
            os.replace(temporary, path)
        except OSError as error:
            _remove(temporary)
            raise StorageError(
                f"{path} cannot be written: {error}. Nothing was committed; free some space and repeat"
            ) from error
        except BaseException:  # of `fill`, which may read other files
            _remove(temporary)
            raise
        return sink.size, sink.crc

    def create(self, name: str, data: bytes) -> None:
        """Create a file: the name appears as a link to a file that is complete and, if durable, synced."""
        path = self.full_path(name)
        temporary = f"{path}#{uuid4().hex}"
        try:
            sink = FileSink(temporary, checked=False)
            try:
                sink.write(data)
                if self.durable:
                    sink.sync()
            finally:
                sink.close()
            os.link(temporary, path)
        finally:
            with suppress(OSError):  # remove_remains() removes it
                os.remove(temporary)

    def read_version(self, name: str) -> tuple[bytes, dict[str, str]]:
        return self.read(name), {}

    def update(self, name: str, data: bytes, version: Mapping[str, str] | None) -> dict[str, str]:
        self.replace(name, data, durable=True)
        return {}

    def remove(self, name: str) -> bool:
        return _remove(self.full_path(name))

    def copy(self, name: str, second: str) -> bool:
        path, target = self.full_path(name), self.full_path(second)
        try:
            make_folder(os.path.dirname(target), self.durable)
            os.link(path, target)
        except FileExistsError:
            return True
        except FileNotFoundError:
            return False
        except OSError as error:
            raise StorageError(f"{path} cannot be linked to {target}: {error}; nothing was dropped") from error
        return True

    def move(self, name: str, target: str) -> None:
        source, path = self.full_path(name), self.full_path(target)
        make_folder(os.path.dirname(path), self.durable)
        os.rename(source, path)
        self.sync(os.path.dirname(target), os.path.dirname(name))

    def touch(self, *names: str) -> None:
        for name in names:
            with suppress(FileNotFoundError):
                os.utime(self.full_path(name), follow_symlinks=False)

    def sync(self, *names: str) -> None:
        """Sync files and folders, also those that other processes wrote; skip missing ones."""
        if self.durable:
            for name in names:
                _sync(self.full_path(name))

    def sync_all(self) -> None:
        handle = os.open(self.path, os.O_RDONLY)
        try:
            if ctypes.CDLL(None, use_errno=True).syncfs(handle):
                code = ctypes.get_errno()
                raise StorageError(f"{self.path} cannot be flushed to the disk: {os.strerror(code)}")
        finally:
            os.close(handle)

    def list_remains(self, folder: str) -> list[FileStatus]:
        return self._scan(folder, lambda name: "#" in name or final_name(name) != name)

    def remove_remains(self, folder: str) -> int:
        return sum(self.remove(file.name) for file in self.list_remains(folder))

    def check_space(self, needed: int) -> None:
        free = shutil.disk_usage(self.path).free
        if free < needed:
            raise StorageError(
                f"{self.path} has {free / 1e6:,.0f} MB free and this merge needs {needed / 1e6:,.0f} MB; nothing was "
                "changed. Free some space, then call end_step() again"
            )

    def check_confined(self) -> None:
        """Refuse to write if a folder of the store, or a file or folder in `_quantide`, is a link."""
        for name in (LOG, DATA, INTERNAL):
            _check_folder(self.full_path(name))
        inner = self.full_path(INTERNAL)
        for name in os.listdir(inner) if os.path.isdir(inner) else ():
            if os.path.islink(os.path.join(inner, name)):
                raise _link_error(os.path.join(inner, name))

    # The store as a whole

    def acquire_lease(self) -> FolderLease:
        self.check_confined()
        return FolderLease(self.path)

    def lease_holder(self) -> str | None:
        return read_lease_holder(self.path)

    def is_same(self) -> bool:
        """Return False if the log's folder was replaced: a store that is created again uses the same names.

        The descriptor stays open, so no other folder gets the same inode number.
        """
        folder = self.full_path(LOG)
        try:
            now = os.stat(folder)
            if self._descriptor is None:
                self._descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
                weakref.finalize(self, os.close, self._descriptor)
        except OSError:
            return False
        return os.path.samestat(now, os.fstat(self._descriptor))

    def local_folder(self, name: str) -> str:
        return self.full_path(name)


class FileSink:
    """Writable file for pyarrow that tracks its size and, unless it has others, a checksum of all bytes."""

    def __init__(self, path: str, checked: bool = True, has_faults: bool = True) -> None:
        self._has_faults = has_faults
        self._file = open(path, "wb", buffering=0)  # noqa: SIM115 (closed by close)
        self.size = self.crc = 0
        self._checked = checked
        self.closed = False

    def write(self, data: Any) -> int:
        if self._has_faults:
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


def open_regular(path: str) -> IO[bytes]:
    """Open a file for reading; refuse devices and pipes, on which open() would block."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "it is not a file", path)
    return os.fdopen(file, "rb")


def map_file(file: IO[bytes]) -> mmap.mmap | bytes:
    if not os.fstat(file.fileno()).st_size:  # an empty file cannot be mapped
        return b""
    return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def make_folder(path: str, durable: bool) -> None:
    """Create a folder and its parents; if durable, sync each parent of a new folder."""
    missing = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for folder in reversed(missing):
        os.makedirs(folder, exist_ok=True)
        if durable:
            _sync(os.path.dirname(folder))


def check_tree(folder: str) -> None:
    """Refuse a folder that other programs write to, such as Spark's checkpoint, if a folder in it is a link."""
    if not os.path.lexists(folder):
        return
    _check_folder(folder)
    for path, folders, _ in os.walk(folder):
        for name in folders:
            if os.path.islink(os.path.join(path, name)):
                raise _link_error(os.path.join(path, name))


def _sync(path: str) -> None:
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        os.fsync(handle)
    except OSError as error:
        raise StorageError(f"{path} may not survive a power loss: {error}") from error
    finally:
        os.close(handle)


def _remove(path: str) -> bool:
    try:
        os.remove(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except IsADirectoryError as error:
        raise StorageError(f"{path} is a folder where a store has a file; move it away: {error}") from error
    return True


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
