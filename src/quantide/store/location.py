"""Locations of stores and source files: a folder of this machine, or a prefix in an object store with its options."""

import fnmatch
import glob
import os
import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow.fs as pafs

from quantide.errors import CorruptBytesError, InvalidArgumentError, QuantideError, StorageError
from quantide.store.folder_storage import FolderStorage as FolderStorage
from quantide.store.folder_storage import open_regular as open_regular
from quantide.store.storage import Storage

S3_OPTIONS = {  # names of delta-rs, with or without the prefix AWS_: names of pyarrow
    "access_key_id": "access_key",
    "secret_access_key": "secret_key",
    "session_token": "session_token",
    "region": "region",
    "endpoint_url": "endpoint_override",
    "endpoint": "endpoint_override",
}
OTHER_OPTIONS = {"allow_http", "s3_allow_unsafe_rename", "timeout", "connect_timeout", "cache_bytes"}  # of a store
REMOTE_ERRORS = ("AWS Error", "google::cloud", "Azure")  # parts of pyarrow's messages about object stores
_ANSI_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_CREDENTIALS = re.compile(r"://[^/@]*:[^/@]*@|[?#]")
_SHORT_URI = re.compile(r"(s3a?|az|azure|abfss?|adl|gs):/(?!/)")
READ_BYTES = 1 << 23  # per read of a checksum


@dataclass(frozen=True)
class StorageOptions:
    """Options of object stores; plain paths need none. Picklable: tasks receive it.

    Files that are `immutable` never change under their name, as those of a table.
    """

    options: dict[str, str] = field(default_factory=dict, repr=False)
    immutable: bool = False

    @classmethod
    def of(cls, options: Any) -> "StorageOptions":
        """Return options given as a dictionary, or None; raise InvalidArgumentError for anything else."""
        is_mapping = isinstance(options, Mapping | None)
        if not is_mapping or not all(isinstance(text, str) for item in (options or {}).items() for text in item):
            raise InvalidArgumentError('storage_options is a dictionary of text, such as {"region": "eu-west-1"}')
        return cls(dict(options or {}))

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
        return sorted(f"{scheme}://{name}" for name in names if matches_glob(name.split("/"), parts))

    def _s3(self) -> Any:
        options = {name.lower().removeprefix("aws_"): value for name, value in self.options.items()}
        arguments = {S3_OPTIONS[name]: value for name, value in options.items() if name in S3_OPTIONS}
        unknown = set(options) - set(S3_OPTIONS) - OTHER_OPTIONS
        if unknown:
            raise InvalidArgumentError(f"unknown storage option {sorted(unknown)[0]!r}; known are {sorted(S3_OPTIONS)}")
        endpoint = arguments.get("endpoint_override") or os.environ.get("AWS_ENDPOINT_URL", "")
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


def matches_glob(names: list[str], parts: list[str]) -> bool:
    """Match as glob does in local folders: * stays within a folder, ** matches any number of folders."""
    if not parts or not names:
        return not names and all(part == "**" for part in parts)
    if parts[0] == "**":
        return matches_glob(names, parts[1:]) or matches_glob(names[1:], parts)
    return fnmatch.fnmatchcase(names[0], parts[0]) and matches_glob(names[1:], parts[1:])


def absolute_folder(path: Any) -> str:
    """Return the absolute path of a folder: Spark workers may have another working directory."""
    text: Any = os.fspath(path)
    if not isinstance(text, str) or not text or "://" in text:
        raise InvalidArgumentError(f"{text!r}: a history lies in a folder that this machine can write to")
    return _check_path(os.path.abspath(text))


def compute_checksum(storage: Storage, name: str) -> tuple[int, int]:
    """Return the size and the CRC-32 of a file."""
    size = crc = 0
    try:
        with storage.uncached().open(name) as file:
            while data := file.read(READ_BYTES):
                size, crc = size + len(data), zlib.crc32(data, crc)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise storage.read_error(name, error) from error
    return size, crc


def verify_checksum(storage: Storage, name: str, size: int, crc: int) -> None:
    """Raise CorruptBytesError if a file does not have the size and checksum it was written with."""
    if compute_checksum(storage, name) != (size, crc):
        raise CorruptBytesError(
            f"{storage.full_path(name)} is damaged: its checksum is not the one it was written with"
        )


def _check_path(path: str) -> str:
    if re.search(r"%[0-9A-Fa-f]{2}|\\", path):
        raise InvalidArgumentError(
            f"{path}: Delta cannot open tables under names with \\ or such as %20; choose another name"
        )
    return path


def open_storage(path: Any, options: Mapping[str, str] | None = None, durable: bool = False) -> Storage:
    """Return the storage of a store: a folder, or a URI of an object store with its options."""
    text: Any = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str) or not text:
        raise InvalidArgumentError(f"a store lies in a folder, or at a URI such as s3://bucket/name, not {path!r}")
    if _SHORT_URI.match(text):
        raise InvalidArgumentError(
            f"{text}: a URI is text with two slashes, such as s3://bucket/name; pathlib.Path removes one of them"
        )
    if text.startswith("file:///"):
        path = text = text.removeprefix("file://")
    if "://" in text:
        from quantide.store.object_storage import SCHEMES, ObjectStorage

        scheme = text.partition("://")[0]
        if _CREDENTIALS.search(text):  # errors, logs and status files contain the URI
            raise InvalidArgumentError(
                f"the {scheme}:// URI of a store contains a password or a query; put credentials into storage_options "
                "or into the environment"
            )
        if scheme not in SCHEMES:
            raise InvalidArgumentError(f"{text}: a store lies in a folder, or at s3://, az://, abfss:// or gs://")
        bucket, *folders = text.rstrip("/").partition("://")[2].split("/")
        if not bucket or {".", "..", ""} & set(folders):
            raise InvalidArgumentError(f"{text}: a store in object storage lies at {scheme}://bucket/name")
        return ObjectStorage(_check_path(text), options)
    if options:
        raise InvalidArgumentError(f"storage_options are for a store at s3://bucket/name, and {text!r} is a folder")
    return FolderStorage(absolute_folder(path), durable)
