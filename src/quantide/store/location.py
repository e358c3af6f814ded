"""Locations of stores and source files: a folder of this machine, or a prefix in an object store with its options.

Files of a folder are memory-mapped in place. Files of an object store are first copied into an anonymous temporary
file, which no other process can open and which disappears with its last use, however the process ends. Blocks of data
files are read one by one from either location.
"""

import errno
import fnmatch
import glob
import mmap
import os
import re
import stat
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Any, TypeVar

import pyarrow as pa
import pyarrow.fs as pafs

from quantide.errors import CorruptBytesError, InvalidArgumentError, QuantideError, StorageError

A = TypeVar("A")
B = TypeVar("B")

S3_OPTIONS = {  # names of delta-rs, with or without the prefix AWS_: names of pyarrow
    "access_key_id": "access_key",
    "secret_access_key": "secret_key",
    "session_token": "session_token",
    "region": "region",
    "endpoint_url": "endpoint_override",
}
REMOTE_ERRORS = ("AWS Error", "google::cloud", "Azure")  # parts of pyarrow's messages about object stores
_ANSI_COLOUR = re.compile(r"\x1b\[[\d;]*m")
FETCH_THREADS = 8
FETCH_BYTES = 1 << 23  # per request
RETRY_OPTIONS = {"max_retries": "3", "retry_timeout": "15s"}  # Delta's reader retries for minutes by default


@dataclass(frozen=True)
class StorageOptions:
    """Options of object stores; plain paths need none. Picklable: tasks receive it."""

    options: dict[str, str] = field(default_factory=dict)

    def locate(self, uri: str) -> tuple[Any, str]:
        """Return the filesystem of a path or URI, and the path within it."""
        scheme, sep, rest = uri.partition("://")
        if not sep:
            return pafs.LocalFileSystem(), os.path.abspath(uri)
        if scheme in ("s3", "s3a", "s3n"):
            return self._s3(), rest.rstrip("/")
        if self.options and scheme != "file":
            raise InvalidArgumentError(f"storage_options are known for s3 only, not for {scheme}://")
        filesystem, path = pafs.FileSystem.from_uri(uri)
        return filesystem, path

    def expand(self, uri: str) -> list[str]:
        """Return the paths that match a pattern with *, ? or [ ]; other paths unchanged."""
        if not glob.has_magic(uri) or os.path.exists(uri):
            return [uri]
        paths = sorted(glob.glob(uri, recursive=True)) if "://" not in uri else self._expand_remote(uri)
        if not paths:
            raise InvalidArgumentError(f"no file matches {uri}")
        return paths

    def _expand_remote(self, uri: str) -> list[str]:
        filesystem, pattern = self.locate(uri)
        parts = pattern.rstrip("/").split("/")
        first_magic = next(i for i, part in enumerate(parts) if glob.has_magic(part))
        selector = pafs.FileSelector("/".join(parts[:first_magic]), recursive=True, allow_not_found=True)
        scheme = uri.partition("://")[0]
        names = [info.path.rstrip("/") for info in filesystem.get_file_info(selector)]
        return sorted(f"{scheme}://{name}" for name in names if _matches(name.split("/"), parts))

    def _s3(self) -> Any:
        options = {name.lower().removeprefix("aws_"): value for name, value in self.options.items()}
        arguments = {S3_OPTIONS[name]: value for name, value in options.items() if name in S3_OPTIONS}
        unknown = set(options) - set(S3_OPTIONS) - {"allow_http", "s3_allow_unsafe_rename"}
        if unknown:
            raise InvalidArgumentError(f"unknown storage option {sorted(unknown)[0]!r}; known are {sorted(S3_OPTIONS)}")
        endpoint = arguments.get("endpoint_override", "")
        if "://" in endpoint:
            arguments["scheme"], arguments["endpoint_override"] = endpoint.split("://", 1)
        return pafs.S3FileSystem(**arguments)


def read_error(uri: str, error: Exception) -> QuantideError:
    """Return the exception for a failed read: the file cannot be reached, or its bytes are not Parquet."""
    text = str(error)
    if isinstance(error, OSError) and (error.errno is not None or any(mark in text for mark in REMOTE_ERRORS)):
        return unreachable_error(uri, error)
    return CorruptBytesError(f"{uri} cannot be read as Parquet: {text}")


def unreachable_error(uri: str, error: Exception) -> StorageError:
    """Return the exception for a location that cannot be reached; strip colours and line breaks of Delta's errors."""
    text = " ".join(_ANSI_COLOUR.sub("", str(error)).split())
    return StorageError(f"{uri} cannot be reached: {text}. Check the path, the storage_options and the network")


@contextmanager
def translate_log_errors(path: str, outcome: str) -> Iterator[None]:
    """Raise StorageError if an entry of the log disappears while it is read."""
    try:
        yield
    except FileNotFoundError as error:
        raise StorageError(f"{path}: its log cannot be read, {outcome}: {error}") from error


def _matches(names: list[str], parts: list[str]) -> bool:
    """Match as glob does in local folders: * stays within a folder, ** matches any number of folders."""
    if not parts or not names:
        return not names and all(part == "**" for part in parts)
    if parts[0] == "**":
        return _matches(names, parts[1:]) or _matches(names[1:], parts)
    return fnmatch.fnmatchcase(names[0], parts[0]) and _matches(names[1:], parts[1:])


class FolderLocation:
    """Folder of this machine."""

    is_remote = False
    options: dict[str, str] | None = None  # of Delta's reader

    def __init__(self, path: str) -> None:
        self.path = path

    def full_path(self, name: str) -> str:
        """Return the path of a file of the store."""
        return os.path.join(self.path, name)

    def exists(self, name: str) -> bool:
        return os.path.exists(self.full_path(name))

    def map_file(self, name: str) -> Any:
        """Memory-map a file; raise FileNotFoundError if it does not exist."""
        path = self.full_path(name)
        try:
            with open_regular(path) as file:
                return _map(file)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise self.read_error(path, error) from error

    def open(self, path: str) -> Any:
        """Open a file by its full path, for Arrow."""
        open_regular(path).close()
        return pa.memory_map(path)

    def read_error(self, path: str, error: Exception) -> Exception:
        """Return the exception to raise for a failed read."""
        if isinstance(error, PermissionError):
            return StorageError(f"{path} cannot be read: {error}. Check its permissions")
        return CorruptBytesError(f"{path} is damaged: {error}")

    def map_all(self, read: Callable[[A], B], items: Iterable[A]) -> list[B]:
        """Call a function that reads files for each item."""
        return [read(item) for item in items]


class RemoteLocation:
    """Prefix in an object store, to which a store was copied; same interface as FolderLocation."""

    is_remote = True

    def __init__(self, uri: str, options: Mapping[str, str]) -> None:
        self.path = uri.rstrip("/")
        self.options = RETRY_OPTIONS | dict(options)
        try:
            self._files, self._base = StorageOptions(dict(options)).locate(self.path)
        except (pa.ArrowException, TypeError) as error:
            raise InvalidArgumentError(f"{uri} is not a location that a store can be read from: {error}") from error
        except OSError as error:
            raise unreachable_error(uri, error) from error

    def full_path(self, name: str) -> str:
        return f"{self.path}/{name}"

    def exists(self, name: str) -> bool:
        return self._exists(self.full_path(name))

    def map_file(self, name: str) -> Any:
        path = self.full_path(name)
        with self.open(path) as source, _anonymous_file() as file:
            while data := self._fetch(source, path):
                _write(file, data)
            return _map(file)

    def open(self, path: str) -> Any:
        try:
            return self._files.open_input_file(self._inner_path(path))
        except OSError as error:
            raise self.read_error(path, error) from error

    def read_error(self, path: str, error: Exception) -> Exception:
        """Return the exception to raise: FileNotFoundError also for a file that was deleted during the read."""
        if isinstance(error, FileNotFoundError | StorageError):
            return error
        reason = read_error(path, error)
        if isinstance(reason, StorageError) and not self._exists(path):
            return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return reason

    def map_all(self, read: Callable[[A], B], items: Iterable[A]) -> list[B]:
        with ThreadPoolExecutor(FETCH_THREADS) as pool:
            return list(pool.map(read, items))

    def _fetch(self, source: Any, path: str) -> bytes:
        try:
            data: bytes = source.read(FETCH_BYTES)
        except OSError as error:
            raise self.read_error(path, error) from error
        return data

    def _inner_path(self, path: str) -> str:
        """Return a full path as the Arrow filesystem names it."""
        return f"{self._base}{path.removeprefix(self.path)}"

    def _exists(self, path: str) -> bool:
        try:
            return bool(self._files.get_file_info(self._inner_path(path)).type.name != "NotFound")
        except OSError as error:
            raise unreachable_error(path, error) from error


Location = FolderLocation | RemoteLocation


def parse_location(path: Any, options: Mapping[str, str] | None = None) -> Location:
    """Return the location of a URI or of a folder."""
    text: Any = os.fspath(path)
    if isinstance(text, str) and "://" in text.rstrip("/"):
        return RemoteLocation(_check_path(text), options or {})
    if options:
        raise InvalidArgumentError(f"storage_options are for a store at s3://bucket/name, and {text!r} is a folder")
    return FolderLocation(absolute_folder(path))


def absolute_folder(path: Any) -> str:
    """Return the absolute path of a folder: Spark workers may have another working directory."""
    text: Any = os.fspath(path)
    if not isinstance(text, str) or not text or "://" in text:
        raise InvalidArgumentError(f"{text!r}: a history lies in a folder that this machine can write to")
    return _check_path(os.path.abspath(text))


def open_regular(path: str) -> IO[bytes]:
    """Open a file for reading; refuse devices and pipes, on which open() would block."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "it is not a file", path)
    return os.fdopen(file, "rb")


def compute_checksum(location: Location, path: str) -> tuple[int, int]:
    """Return the size and the CRC-32 of a file."""
    size = crc = 0
    try:
        with location.open(path) as file:
            while data := file.read(1 << 20):
                size, crc = size + len(data), zlib.crc32(data, crc)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise location.read_error(path, error) from error
    return size, crc


def verify_checksum(location: Location, path: str, size: int, crc: int) -> None:
    """Raise CorruptBytesError if a file does not have the size and checksum it was written with."""
    if compute_checksum(location, path) != (size, crc):
        raise CorruptBytesError(f"{path} is damaged: its checksum is not the one it was written with")


def _anonymous_file() -> IO[bytes]:
    try:
        return tempfile.TemporaryFile()
    except OSError as error:
        raise _no_space_error(error) from error


def _write(file: IO[bytes], data: bytes) -> None:
    try:
        file.write(data)
        file.flush()
    except OSError as error:
        raise _no_space_error(error) from error


def _no_space_error(error: OSError) -> StorageError:
    folder = tempfile.gettempdir()
    return StorageError(
        f"{folder} has no space for files that are read from the store: {error}. Set TMPDIR to another folder"
    )


def _map(file: Any) -> mmap.mmap | bytes:
    if not os.fstat(file.fileno()).st_size:  # an empty file cannot be mapped
        return b""
    return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _check_path(path: str) -> str:
    if re.search(r"%[0-9A-Fa-f]{2}|\\", path):
        raise InvalidArgumentError(
            f"{path}: Delta cannot open tables under names with \\ or such as %20; choose another name"
        )
    return path
