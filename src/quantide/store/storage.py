"""Storage: where files lie, and one set of options for every filesystem that workers can reach."""

import fnmatch
import glob
import os
import re
from dataclasses import dataclass, field
from typing import Any

import pyarrow.fs as pafs

from quantide.errors import CorruptBytesError, InvalidArgumentError, QuantideError, StorageError

S3_OPTIONS = {  # the names delta-rs uses, with or without AWS_ in front, and pyarrow's
    "access_key_id": "access_key",
    "secret_access_key": "secret_key",
    "session_token": "session_token",
    "region": "region",
    "endpoint_url": "endpoint_override",
}

REMOTE = ("AWS Error", "google::cloud", "Azure")  # what pyarrow's errors of object stores have in common

_COLOUR = re.compile(r"\x1b\[[\d;]*m")


@dataclass(frozen=True)
class Storage:
    """Options for object stores; plain paths need none. It travels to the workers as it is."""

    options: dict[str, str] = field(default_factory=dict)

    def locate(self, uri: str) -> tuple[Any, str]:
        """The filesystem of a path or URI, and the path within it."""
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
        """The paths that a pattern with *, ? or [ ] matches; other paths as they are."""
        if not glob.has_magic(uri) or os.path.exists(uri):
            return [uri]
        found = sorted(glob.glob(uri, recursive=True)) if "://" not in uri else self._expand_remote(uri)
        if not found:
            raise InvalidArgumentError(f"no file matches {uri}")
        return found

    def _expand_remote(self, uri: str) -> list[str]:
        filesystem, pattern = self.locate(uri)
        parts = pattern.rstrip("/").split("/")
        fixed = next(i for i, part in enumerate(parts) if glob.has_magic(part))
        selector = pafs.FileSelector("/".join(parts[:fixed]), recursive=True, allow_not_found=True)
        scheme = uri.partition("://")[0]
        names = [info.path.rstrip("/") for info in filesystem.get_file_info(selector)]
        return sorted(f"{scheme}://{name}" for name in names if _matches(name.split("/"), parts))

    def _s3(self) -> Any:
        named = {name.lower().removeprefix("aws_"): value for name, value in self.options.items()}
        arguments = {S3_OPTIONS[name]: value for name, value in named.items() if name in S3_OPTIONS}
        unknown = set(named) - set(S3_OPTIONS) - {"allow_http", "s3_allow_unsafe_rename"}
        if unknown:
            raise InvalidArgumentError(f"unknown storage option {sorted(unknown)[0]!r}; known are {sorted(S3_OPTIONS)}")
        endpoint = arguments.get("endpoint_override", "")
        if "://" in endpoint:
            arguments["scheme"], arguments["endpoint_override"] = endpoint.split("://", 1)
        return pafs.S3FileSystem(**arguments)


def unreadable(uri: str, error: Exception) -> QuantideError:
    """What to raise when reading failed: a place that cannot be reached, or bytes that are not Parquet."""
    text = str(error)
    if isinstance(error, OSError) and (error.errno is not None or any(mark in text for mark in REMOTE)):
        return out_of_reach(uri, error)
    return CorruptBytesError(f"{uri} cannot be read as Parquet: {text}")


def out_of_reach(uri: str, error: Exception) -> StorageError:
    """What to raise when a place cannot be reached. Delta's errors come in colours and lines."""
    text = " ".join(_COLOUR.sub("", str(error)).split())
    return StorageError(f"{uri} cannot be reached: {text}. Check the path, the storage_options and the network")


def _matches(names: list[str], parts: list[str]) -> bool:
    """As glob does in local folders: a * stays within a folder, ** is any number of them."""
    if not parts or not names:
        return not names and all(part == "**" for part in parts)
    if parts[0] == "**":
        return _matches(names, parts[1:]) or _matches(names[1:], parts)
    return fnmatch.fnmatchcase(names[0], parts[0]) and _matches(names[1:], parts[1:])
