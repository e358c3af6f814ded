"""Where a store lies: in a folder of this machine, or in an object store, which is only read.

Files of a folder are mapped where they lie. What is mapped of an object store is fetched first, into a temporary file
that has no name: nobody else can open it, and it is gone once nothing needs it any more, however the process ends.
Blocks of data files are read one by one, wherever these lie.
"""

import errno
import mmap
import os
import re
import stat
import tempfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any, TypeVar

import pyarrow as pa

from quantide.errors import CorruptBytesError, InvalidArgumentError, StorageError
from quantide.store.storage import Storage, out_of_reach, unreadable

A = TypeVar("A")
B = TypeVar("B")

AT_ONCE = 8  # files that are fetched at the same time
PIECE = 1 << 23  # bytes that are fetched at once
PATIENCE = {"max_retries": "3", "retry_timeout": "15s"}  # of Delta's reader, which would try for minutes


class Folder:
    """A folder of this machine."""

    far = False  # whether every look at it takes its time
    options: dict[str, str] | None = None  # for Delta's reader

    def __init__(self, path: str) -> None:
        self.path = path

    def whole(self, name: str) -> str:
        """The whole path of a file of the store."""
        return os.path.join(self.path, name)

    def has(self, name: str) -> bool:
        return os.path.exists(self.whole(name))

    def mapped(self, name: str) -> Any:
        """The bytes of a file, read when they are looked at; FileNotFoundError when it is not there."""
        path = self.whole(name)
        try:
            with open_regular(path) as file:
                return _mapped(file)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise self.trouble(path, error) from error

    def open(self, path: str) -> Any:
        """A file by its whole path, for Arrow."""
        open_regular(path).close()
        return pa.memory_map(path)

    def trouble(self, path: str, error: Exception) -> Exception:
        """What to raise when such a file cannot be read."""
        if isinstance(error, PermissionError):
            return StorageError(f"{path} cannot be read: {error}. Check who may read it")
        return CorruptBytesError(f"{path} is damaged: {error}")

    def each(self, do: Callable[[A], B], things: Iterable[A]) -> list[B]:
        """Do something that reads for each of some things."""
        return [do(thing) for thing in things]


class Remote:
    """A store that was copied to an object store; as Folder."""

    far = True

    def __init__(self, uri: str, options: Mapping[str, str]) -> None:
        self.path = uri.rstrip("/")
        self.options = PATIENCE | dict(options)
        try:
            self._files, self._base = Storage(dict(options)).locate(self.path)
        except (pa.ArrowException, TypeError) as error:
            raise InvalidArgumentError(f"{uri} is no place that a store can be read from: {error}") from error
        except OSError as error:
            raise out_of_reach(uri, error) from error

    def whole(self, name: str) -> str:
        return f"{self.path}/{name}"

    def has(self, name: str) -> bool:
        return self._there(self.whole(name))

    def mapped(self, name: str) -> Any:
        path = self.whole(name)
        with self.open(path) as source, _unnamed() as file:
            while piece := self._piece(source, path):
                _keep(file, piece)
            return _mapped(file)

    def open(self, path: str) -> Any:
        try:
            return self._files.open_input_file(self._within(path))
        except OSError as error:
            raise self.trouble(path, error) from error

    def trouble(self, path: str, error: Exception) -> Exception:
        """What to raise: FileNotFoundError also for a file that went while it was read."""
        if isinstance(error, FileNotFoundError | StorageError):
            return error
        found = unreadable(path, error)
        if isinstance(found, StorageError) and not self._there(path):
            return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return found

    def each(self, do: Callable[[A], B], things: Iterable[A]) -> list[B]:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return list(pool.map(do, things))

    def _piece(self, source: Any, path: str) -> bytes:
        try:
            piece: bytes = source.read(PIECE)
        except OSError as error:
            raise self.trouble(path, error) from error
        return piece

    def _within(self, path: str) -> str:
        """A whole path as the filesystem knows it."""
        return f"{self._base}{path.removeprefix(self.path)}"

    def _there(self, path: str) -> bool:
        try:
            return bool(self._files.get_file_info(self._within(path)).type.name != "NotFound")
        except OSError as error:
            raise out_of_reach(path, error) from error


Place = Folder | Remote


def place_of(path: Any, options: Mapping[str, str] | None = None) -> Place:
    """Where a store is read from: a URI, or a folder by its whole name."""
    given: Any = os.fspath(path)
    if isinstance(given, str) and "://" in given.rstrip("/"):
        return Remote(_check_name(given), options or {})
    if options:
        raise InvalidArgumentError(f"storage_options are for a store at s3://bucket/name, and {given!r} is a folder")
    return Folder(folder_of(path))


def folder_of(path: Any) -> str:
    """A folder by its whole name: it stays the same where the process, or a Spark worker, is in another one."""
    given: Any = os.fspath(path)
    if not isinstance(given, str) or not given or "://" in given:
        raise InvalidArgumentError(f"{given!r}: a history lies in a folder that this machine can write to")
    return _check_name(os.path.abspath(given))


def open_regular(path: str) -> IO[bytes]:
    """Open a file to read it; a pipe, at which open() would wait for ever, or a device is refused."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "it is not a file", path)
    return os.fdopen(file, "rb")


def checksum(place: Place, path: str) -> tuple[int, int]:
    """Size and checksum of a file as it lies there."""
    size = crc = 0
    try:
        with place.open(path) as file:
            while data := file.read(1 << 20):
                size, crc = size + len(data), zlib.crc32(data, crc)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise place.trouble(path, error) from error
    return size, crc


def check_whole(place: Place, path: str, size: int, crc: int) -> None:
    """Compare a file with what it was when it was written."""
    if checksum(place, path) != (size, crc):
        raise CorruptBytesError(f"{path} is damaged: its checksum is not the one it was written with")


def _unnamed() -> IO[bytes]:
    try:
        return tempfile.TemporaryFile()
    except OSError as error:
        raise _no_room(error) from error


def _keep(file: IO[bytes], data: bytes) -> None:
    try:
        file.write(data)
        file.flush()
    except OSError as error:
        raise _no_room(error) from error


def _no_room(error: OSError) -> StorageError:
    folder = tempfile.gettempdir()
    return StorageError(f"{folder} has no room for what is read of the store: {error}. TMPDIR names another folder")


def _mapped(file: Any) -> mmap.mmap | bytes:
    if not os.fstat(file.fileno()).st_size:  # which cannot be mapped
        return b""
    return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _check_name(path: str) -> str:
    if re.search(r"%[0-9A-Fa-f]{2}|\\", path):
        raise InvalidArgumentError(f"{path}: Delta tables cannot be found again under names with \\ or such as %20")
    return path
