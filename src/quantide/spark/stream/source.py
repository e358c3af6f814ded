"""Sources: what Spark streams. Files are streamed as their names; anything else as it is."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from quantide import errors
from quantide.config import StreamConfig
from quantide.errors import ConfigError
from quantide.store.ledger import SourceFile

BINARY = "path STRING, modificationTime TIMESTAMP, length LONG, content BINARY"
OF_LISTING = (
    "latestFirst",
    "maxFileAge",
    "fileNameOnly",
    "pathGlobFilter",
    "maxCachedFiles",
    "discardCachedInputRatio",
)
COLUMNS = ("path", "length", "unix_millis(modificationTime) AS modified")
OURS = re.compile(r"quantide\.errors\.(\w+): (.*)")
SPARK_ERRORS = (PySparkException, Py4JError)
MAX_AGE = "36500d"  # a file that is so much older than the newest is passed by; one with a time far ahead hides none
MAX_BYTES = 1 << 30  # of the files of a batch
MAX_ROWS = 5_000_000  # of a batch, where the source can be told
BEING_WRITTEN = (".tmp", ".temp", ".part", ".partial", ".filepart", ".inprogress", "._COPYING_", ".crdownload")


def open_source(session: SparkSession, stream: StreamConfig, offsets: str, limited: bool = True) -> DataFrame:
    """The source as a stream; `offsets` says where to begin when there is no checkpoint that does.

    Files are not `limited` where one batch is to have all of them.
    """
    try:
        return _files(session, stream, limited) if stream.source.is_files else _rows(session, stream, offsets)
    except SPARK_ERRORS as error:
        raise ConfigError(
            f"{stream.key}.source cannot be opened: {first_line(error)}. Check its format, path and "
            'options; what Spark does not bring along is added by [spark] "spark.jars.packages"'
        ) from error


def _files(session: SparkSession, stream: StreamConfig, limited: bool) -> DataFrame:
    source = stream.source
    path = source.path or ""
    if "://" not in path and not any(letter in path for letter in "*?[{") and not os.path.isdir(path):
        raise ConfigError(f"{stream.key}.source.path: there is no folder {path}; make it, or correct the path")
    reader = session.readStream.format("binaryFile").schema(BINARY).option("recursiveFileLookup", "true")
    if limited and source.max_files:
        reader = reader.option("maxFilesPerTrigger", source.max_files)
    elif limited:
        reader = reader.option("maxBytesPerTrigger", source.max_bytes or MAX_BYTES)
    chosen = {name: value for name, value in source.options.items() if name in OF_LISTING}
    reader = reader.options(**{"maxFileAge": MAX_AGE, **chosen})
    return reader.load(path).selectExpr(*COLUMNS)


def list_source(session: SparkSession, stream: StreamConfig) -> list[SourceFile]:
    """All files that lie in a source's folder now, as Spark finds them; no file is read."""
    chosen = {name: value for name, value in stream.source.options.items() if name == "pathGlobFilter"}
    reader = session.read.format("binaryFile").option("recursiveFileLookup", "true").options(**chosen)
    with our_errors():
        return _named(reader.load(stream.source.path or "").selectExpr(*COLUMNS))


def _rows(session: SparkSession, stream: StreamConfig, offsets: str) -> DataFrame:
    source = stream.source
    reader = session.readStream.format(source.format).options(**source.options)
    if source.schema:
        reader = reader.schema(source.schema)
    if source.format == "kafka":
        reader = reader.option("maxOffsetsPerTrigger", source.max_rows or MAX_ROWS)
        if offsets:
            reader = reader.option("startingOffsets", offsets)
    for name, limit in (("maxFilesPerTrigger", source.max_files), ("maxBytesPerTrigger", source.max_bytes)):
        if limit:
            reader = reader.option(name, limit)
    return reader.load(source.path) if source.path else reader.load()


@contextmanager
def our_errors() -> Iterator[None]:
    """Errors of ours that a task raised come back as text: here they are raised as what they were."""
    try:
        yield
    except SPARK_ERRORS as error:
        found = OURS.search(str(error))
        kind = getattr(errors, found[1], None) if found else None
        if found is None or kind is None:
            raise
        raise kind(found[2].strip()) from error


def first_line(error: Exception) -> str:
    """What Spark's error says, without traces of Java."""
    lines = [line.strip(" :") for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith("An error occurred while calling")]
    return (told or lines or [type(error).__name__])[0][:500]


def named_files(frame: DataFrame) -> list[SourceFile]:
    """The files of a batch, less those whose names say that they are not finished."""
    return sorted((file for file in _named(frame) if not file.path.endswith(BEING_WRITTEN)), key=lambda f: f.path)


def _named(frame: DataFrame) -> list[SourceFile]:
    return [SourceFile(_plain(row["path"]), row["length"], row["modified"]) for row in frame.collect()]


def _plain(path: str) -> str:
    """A local path without its scheme."""
    return path.removeprefix("file://").removeprefix("file:") if path.startswith("file:") else path
