"""Filesystems of source files and stores, with one set of options for all of them."""

import fnmatch
import glob
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow.fs as pafs

from quantide.errors import CorruptBytesError, InvalidArgumentError, QuantideError, StorageError

S3_OPTIONS = {  # names of delta-rs, with or without the prefix AWS_: names of pyarrow
    "access_key_id": "access_key",
    "secret_access_key": "secret_key",
    "session_token": "session_token",
    "region": "region",
    "endpoint_url": "endpoint_override",
}

REMOTE_ERRORS = ("AWS Error", "google::cloud", "Azure")  # parts of pyarrow's messages about object stores

_ANSI_COLOUR = re.compile(r"\x1b\[[\d;]*m")


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
