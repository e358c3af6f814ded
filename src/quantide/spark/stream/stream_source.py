"""Stream sources: opened by Spark as a stream, and listed to find files that changed.

Spark streams the names of files, and the rows of any other source.
"""

import glob
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase

import pyarrow as pa
import pyarrow.fs as pafs
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from quantide import errors
from quantide.config import Source, StreamConfig
from quantide.errors import ConfigError, InvalidArgumentError
from quantide.store.ingest_log import IngestedFile
from quantide.store.location import StorageOptions, matches_glob, unreachable_error
from quantide.store.object_files import SourceAccess

BINARY_SCHEMA = "path STRING, modificationTime TIMESTAMP, length LONG, content BINARY"
LISTING_OPTIONS = (
    "latestFirst",
    "maxFileAge",
    "fileNameOnly",
    "pathGlobFilter",
    "maxCachedFiles",
    "discardCachedInputRatio",
)
FILE_COLUMNS = ("path", "length", "unix_millis(modificationTime) AS modified")
TASK_ERROR = re.compile(r"quantide\.errors\.(\w+): (.*)")
SPARK_ERRORS = (PySparkException, Py4JError)
MAX_AGE = "36500d"  # Spark skips files that are so much older than the newest: one dated far ahead must hide none
MAX_BYTES = 1 << 30  # of the files of a batch
MAX_ROWS = 5_000_000  # of a batch, if the source supports a limit
UNFINISHED_SUFFIXES = (".tmp", ".temp", ".part", ".partial", ".filepart", ".inprogress", "._COPYING_", ".crdownload")
HIDDEN_PREFIXES = ("_", ".")  # of names that Spark skips
BRACES = re.compile(r"\{([^{}]*)\}")


def open_source(session: SparkSession, stream: StreamConfig, offsets: str, limited: bool = True) -> DataFrame:
    """Open the source as a stream; without a checkpoint it begins at `offsets`.

    With limited=False one batch has all files.
    """
    try:
        if stream.source.is_files:
            return _open_files(session, stream, limited)
        return _open_rows(session, stream, offsets)
    except SPARK_ERRORS as error:
        reason = hide_secrets(first_line(error), stream.source)
        raise ConfigError(
            f"{stream.key}.source cannot be opened: {reason}. Check its format, path and "
            'options; add what Spark does not include with [spark] "spark.jars.packages"'
        ) from error


def _open_files(session: SparkSession, stream: StreamConfig, limited: bool) -> DataFrame:
    source = stream.source
    path = source.path or ""
    if "://" not in path and not any(character in path for character in "*?[{") and not os.path.isdir(path):
        raise ConfigError(f"{stream.key}.source.path: there is no folder {path}; make it, or correct the path")
    reader = session.readStream.format("binaryFile").schema(BINARY_SCHEMA).option("recursiveFileLookup", "true")
    if limited and source.max_files:
        reader = reader.option("maxFilesPerTrigger", source.max_files)
    elif limited:
        reader = reader.option("maxBytesPerTrigger", source.max_bytes or MAX_BYTES)
    listing = {name: value for name, value in source.options.items() if name in LISTING_OPTIONS}
    reader = reader.options(**{"maxFileAge": MAX_AGE, **listing})
    return reader.load(path).selectExpr(*FILE_COLUMNS)


def list_source(session: SparkSession, stream: StreamConfig) -> list[IngestedFile]:
    """Return all files in a source's folder, as Spark finds them, without reading any."""
    listing = {name: value for name, value in stream.source.options.items() if name == "pathGlobFilter"}
    reader = session.read.format("binaryFile").option("recursiveFileLookup", "true").options(**listing)
    with raise_task_errors():
        return _collect_files(reader.load(stream.source.path or "").selectExpr(*FILE_COLUMNS))


def _open_rows(session: SparkSession, stream: StreamConfig, offsets: str) -> DataFrame:
    source = stream.source
    reader = session.readStream.format(source.format).options(**source.options)
    if source.schema:
        reader = reader.schema(source.schema)
    if source.is_kafka:
        headers = source.decode is not None and bool(source.decode.headers)
        reader = reader.option("maxOffsetsPerTrigger", source.max_rows or MAX_ROWS).option("failOnDataLoss", "true")
        reader = reader.option("startingOffsets", offsets or source.start)
        reader = reader.option("includeHeaders", "true") if headers else reader
    for name, limit in (("maxFilesPerTrigger", source.max_files), ("maxBytesPerTrigger", source.max_bytes)):
        if limit:
            reader = reader.option(name, limit)
    return reader.load(source.path) if source.path else reader.load()


@contextmanager
def raise_task_errors() -> Iterator[None]:
    """Raise a QuantideError of a task, which Spark returns as text, as the error it was."""
    try:
        yield
    except SPARK_ERRORS as error:
        match = TASK_ERROR.search(str(error))
        kind = getattr(errors, match[1], None) if match else None
        if match is None or kind is None:
            raise
        raise kind(match[2].strip()) from error


def hide_secrets(text: str, source: Source) -> str:
    """Replace the secrets of a source in a text."""
    for secret in source.secrets:
        text = text.replace(secret, "***")
    return text


def first_line(error: Exception) -> str:
    """Return the message of a Spark error, without Java's stack traces."""
    lines = [line.strip(" :") for line in str(error).splitlines() if line.strip()]
    messages = [line for line in lines if not line.startswith("An error occurred while calling")]
    return (messages or lines or [type(error).__name__])[0][:500]


def collect_batch_files(frame: DataFrame) -> list[IngestedFile]:
    """Return the files of a batch, except those with a suffix of unfinished files."""
    finished = (file for file in _collect_files(frame) if not file.path.endswith(UNFINISHED_SUFFIXES))
    return sorted(finished, key=lambda file: file.path)


def _collect_files(frame: DataFrame) -> list[IngestedFile]:
    return [IngestedFile(_local_path(row["path"]), row["length"], row["modified"]) for row in frame.collect()]


def _local_path(path: str) -> str:
    """Return a path without the scheme of local files."""
    return path.removeprefix("file://").removeprefix("file:") if path.startswith("file:") else path


def list_files(source: Source, storage: StorageOptions) -> dict[str, IngestedFile]:
    """Return all files of a source by path, as Spark would find them; none for a table, whose log has them."""
    base = source.path or ""
    if source.is_table:
        return {}
    if isinstance(storage, SourceAccess):
        return {file.path: file for file in list_objects(source, storage)}
    try:
        paths = [path for pattern in _expand_braces(base) for path in _expand_glob(pattern, storage)]
        return {file.path: file for path in paths for file in _list_below(path, source, storage)}
    except (OSError, pa.ArrowException) as error:
        raise unreachable_error(base, error) from error


def _expand_braces(pattern: str) -> list[str]:
    """Return a pattern without braces for each alternative.

    >>> _expand_braces("in/{a,b}/*.csv")
    ['in/a/*.csv', 'in/b/*.csv']
    """
    match = BRACES.search(pattern)
    if match is None:
        return [pattern]
    alternatives = (pattern[: match.start()] + part + pattern[match.end() :] for part in match[1].split(","))
    return [path for alternative in alternatives for path in _expand_braces(alternative)]


def _expand_glob(pattern: str, storage: StorageOptions) -> list[str]:
    try:
        return storage.expand(pattern)
    except InvalidArgumentError:  # nothing matches yet
        return []


def _list_below(uri: str, source: Source, storage: StorageOptions) -> list[IngestedFile]:
    filesystem, path = storage.locate(uri)
    scheme = uri.partition("://")[0] + "://" if "://" in uri else ""
    root = filesystem.get_file_info(path)
    if root.type == pafs.FileType.Directory:
        infos = filesystem.get_file_info(pafs.FileSelector(path, allow_not_found=True, recursive=True))
    else:
        infos = [root]
    return [
        IngestedFile(scheme + info.path, info.size, (info.mtime_ns or 0) // 10**6)
        for info in infos
        if info.type == pafs.FileType.File and _is_listed(info.path[len(path) :], info.base_name, source)
    ]


def list_objects(source: Source, access: SourceAccess, after: str | None = None) -> list[IngestedFile]:
    """Return the objects of a source in object storage; only those whose name sorts after `after`, if given."""
    files: dict[str, IngestedFile] = {}
    for pattern in _expand_braces((source.path or "").rstrip("/")):
        parts = pattern.split("/")
        fixed = next((i for i, part in enumerate(parts) if glob.has_magic(part)), len(parts))
        for file in access.list_below("/".join(parts[:fixed]), after):
            below = _below_pattern(file.name.split("/"), parts)
            if below is not None and is_listed_name("/".join(below), source):
                files[file.name] = IngestedFile(file.name, file.size, round(file.modified * 1000))
    return list(files.values())


def _below_pattern(names: list[str], pattern: list[str]) -> list[str] | None:
    """Return the names below the folder that matches a pattern, or of the file that does; None if none matches."""
    for end in range(len(pattern) if "**" not in pattern else 1, len(names) + 1):
        if matches_glob(names[:end], pattern):
            return names[end:] or names[-1:]
        if "**" not in pattern:
            return None
    return None


def expand_folders(pattern: str) -> list[str]:
    """Return the local folders and files that exist for a path or a glob, sorted."""
    paths = [path for one in _expand_braces(pattern) for path in _expand_glob(one, StorageOptions())]
    return sorted({path for path in paths if os.path.exists(path)})


def is_listed_name(below: str, source: Source, is_folder: bool = False) -> bool:
    """Return True if Spark lists a file, or the files of a folder, of that path below its source's folder."""
    return _is_listed(below, below.rpartition("/")[2], source, is_folder)


def _is_listed(below: str, name: str, source: Source, is_folder: bool = False) -> bool:
    """Return True if Spark lists a file of that name."""
    hidden = any(part.startswith(HIDDEN_PREFIXES) and "=" not in part for part in below.split("/"))
    if is_folder:
        return not hidden
    pattern = source.options.get("pathGlobFilter", "*")
    return not hidden and not name.endswith(UNFINISHED_SUFFIXES) and fnmatchcase(name, pattern)


def changed_files(taken: Mapping[str, IngestedFile], listed: Mapping[str, IngestedFile]) -> dict[str, str]:
    """Return, by path, the reason of files that changed after their rows were stored."""
    changed = [(path, file) for path, file in taken.items() if (now := listed.get(path)) is not None and now != file]
    return {
        path: (
            f"it changed after it was ingested: {file.size:,} bytes then, {listed[path].size:,} now. The new content "
            "is not in the store; write new rows to a new file, or rename this one to ingest all of it"
        )
        for path, file in sorted(changed, key=lambda item: item[0])
    }


def repaired_files(quarantined: Mapping[str, IngestedFile], listed: Mapping[str, IngestedFile]) -> list[str]:
    """Return files in quarantine that changed since."""
    return [path for path, file in quarantined.items() if path in listed and listed[path] != file]


def stat_file(storage: StorageOptions, path: str) -> IngestedFile | None:
    """Return the present size and time of a file; None if it does not exist."""
    filesystem, file_path = storage.locate(path)
    info = filesystem.get_file_info(file_path)
    if info.type.name != "File":
        return None
    return IngestedFile(path, info.size, (info.mtime_ns or 0) // 10**6)
