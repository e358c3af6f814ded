"""Listing of a source's folder: the files that lie there now, and those that are not what they were when taken."""

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase

import pyarrow as pa
import pyarrow.fs as pafs

from quantide.config import Source
from quantide.errors import InvalidArgumentError
from quantide.spark.stream.source import BEING_WRITTEN
from quantide.store.ledger import SourceFile
from quantide.store.storage import Storage, out_of_reach

BRACES = re.compile(r"\{([^{}]*)\}")
HIDDEN = ("_", ".")  # what names begin with that Spark passes by


def list_files(source: Source, storage: Storage) -> dict[str, SourceFile]:
    """All files of a source, by path, as Spark would find them."""
    base = source.path or ""
    try:
        paths = [path for pattern in _alternatives(base) for path in _expanded(pattern, storage)]
        return {file.path: file for path in paths for file in _below(path, source, storage)}
    except (OSError, pa.ArrowException) as error:
        raise out_of_reach(base, error) from error


def _alternatives(pattern: str) -> list[str]:
    """A pattern without braces, once for each alternative.

    >>> _alternatives("in/{a,b}/*.csv")
    ['in/a/*.csv', 'in/b/*.csv']
    """
    found = BRACES.search(pattern)
    if found is None:
        return [pattern]
    each = (pattern[: found.start()] + one + pattern[found.end() :] for one in found[1].split(","))
    return [path for one in each for path in _alternatives(one)]


def _expanded(pattern: str, storage: Storage) -> list[str]:
    try:
        return storage.expand(pattern)
    except InvalidArgumentError:  # nothing matches yet
        return []


def _below(uri: str, source: Source, storage: Storage) -> list[SourceFile]:
    filesystem, path = storage.locate(uri)
    scheme = uri.partition("://")[0] + "://" if "://" in uri else ""
    found = filesystem.get_file_info(path)
    if found.type == pafs.FileType.Directory:
        infos = filesystem.get_file_info(pafs.FileSelector(path, allow_not_found=True, recursive=True))
    else:
        infos = [found]
    return [
        SourceFile(scheme + info.path, info.size, (info.mtime_ns or 0) // 10**6)
        for info in infos
        if info.type == pafs.FileType.File and _is_seen(info.path[len(path) :], info.base_name, source)
    ]


def _is_seen(below: str, name: str, source: Source) -> bool:
    """Return True if Spark takes a file of that name."""
    hidden = any(part.startswith(HIDDEN) and "=" not in part for part in below.split("/"))
    pattern = source.options.get("pathGlobFilter", "*")
    return not hidden and not name.endswith(BEING_WRITTEN) and fnmatchcase(name, pattern)


def changed_files(taken: Mapping[str, SourceFile], listed: Mapping[str, SourceFile]) -> dict[str, str]:
    """Files whose rows are in the store, and that changed since: by path, what happened."""
    return {
        path: (
            f"it changed after it was taken: {file.size:,} bytes then, {now.size:,} now. What it has now is not in the "
            "store; write new rows to a new file, or rename this one to have it taken whole"
        )
        for path, file in sorted(taken.items())
        if (now := listed.get(path)) is not None and now != file
    }


def mended_files(held: Mapping[str, SourceFile], listed: Mapping[str, SourceFile]) -> list[str]:
    """Files in quarantine that are not what they were when they were held."""
    return [path for path, file in held.items() if path in listed and listed[path] != file]
