"""Spark's checkpoints: which one a stream uses, which files it has seen, and when a new one begins.

A stream's checkpoint is a numbered folder of its store; its batches count upwards under that number. A checkpoint that
is lost, or older than the store, must be noticed: its batches would be mistaken for batches that are in the store.

Spark skips a file that is empty, or removed before it is read, and never reads that name again. The source log in the
checkpoint has its name.

The source log has the name of every file that Spark ever saw, and Spark rewrites all of them every few batches. When
it has many more names than the folder has files, a new checkpoint begins (rollover). Its first batch skips the files
that the ingest log has.
"""

import json
import os
import re
import shutil
from collections.abc import Iterator
from urllib.parse import unquote

from pyspark.sql import SparkSession

from quantide.config import StreamConfig
from quantide.errors import CheckpointError, StorageError
from quantide.spark.stream.stream_source import MAX_BYTES, SPARK_ERRORS, UNFINISHED_SUFFIXES, list_source
from quantide.store.durable_files import check_tree
from quantide.store.file_names import CHECKPOINTS
from quantide.store.ingest_log import IngestLog

_NAME = re.compile(r"c(0|[1-9][0-9]{0,8})")
_BATCH = re.compile(r"[0-9]{1,18}")
_LOG = re.compile(r"[0-9]{1,18}(\.compact)?")
_COMPACT = re.compile(r"[0-9]{1,18}\.compact")
MAX_FILES = 10_000  # names that a source log may have, plus twice the number of files that exist


def choose_checkpoint(stream: StreamConfig, ingest_log: IngestLog, reset: bool, allow_duplicates: bool) -> str:
    """Return the name of the checkpoint to continue with; it is the source of its batches, too."""
    folder = os.path.join(stream.folder, CHECKPOINTS)
    existing = [name for name in _list_folder(folder) if _NAME.fullmatch(name)]
    logged = [name for name in (*ingest_log.last, ingest_log.checkpoint) if _NAME.fullmatch(name)]
    newest = max([*existing, *logged], key=_number, default=None)
    if newest is None:
        return "c0"
    if not reset:
        _check_complete(stream, folder, newest, ingest_log)
        check_tree(os.path.join(folder, newest))
        for name in existing:
            if _number(name) < _number(newest):
                shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
        return newest
    if logged and not stream.source.has_identity and not allow_duplicates:
        raise CheckpointError(
            f"{stream.key}: a source of format {stream.source.format} does not identify its rows: with a new "
            "checkpoint, rows in the store may be ingested twice. Pass --allow-duplicates with --reset to accept that"
        )
    return next_checkpoint(newest)


def next_checkpoint(name: str) -> str:
    """Return the name of the checkpoint after this one."""
    return f"c{_number(name) + 1}"


def count_files(folder: str) -> int:
    """Count the source files in the source log of a checkpoint: its newest compacted entry, and those after it."""
    log = os.path.join(folder, "sources", "0")
    entries = {name: int(name.split(".")[0]) for name in _list_folder(log) if _LOG.fullmatch(name)}
    newest = max((number for name, number in entries.items() if name.endswith(".compact")), default=-1)
    valid = [name for name, n in entries.items() if n > newest or (n == newest and name.endswith(".compact"))]
    return sum(_count_names(os.path.join(log, name)) for name in valid)


def checkpoint_folder(stream: StreamConfig, name: str) -> str:
    return os.path.join(stream.folder, CHECKPOINTS, name)


def read_offsets(stream: StreamConfig, name: str, batch: int) -> str:
    """Return the source's offsets at the end of a batch; empty if they are not there."""
    try:
        with open(os.path.join(checkpoint_folder(stream, name), "offsets", str(batch)), encoding="utf-8") as file:
            return file.read().strip().splitlines()[-1]
    except (OSError, IndexError):
        return ""


def _check_complete(stream: StreamConfig, folder: str, name: str, ingest_log: IngestLog) -> None:
    """Raise CheckpointError if a checkpoint lacks a batch that is in the store."""
    offsets = os.path.join(folder, name, "offsets")
    batches = [int(entry) for entry in _list_folder(offsets) if _BATCH.fullmatch(entry)]
    last = ingest_log.last.get(name, -1)
    if max(batches, default=-1) >= last:
        return
    skips = (
        "source files that are in the store are skipped"
        if stream.source.is_files
        else "reading continues where the store ends"
        if stream.source.has_identity
        else "rows that are in the store may be ingested twice, since this source does not identify them"
    )
    raise CheckpointError(
        f"{stream.key}: the checkpoint {os.path.join(folder, name)} is lost, or older than the store, which has "
        f"{last + 1:,} of its batches. Put it back, or pass --reset to begin a new one: {skips}"
    )


def _list_folder(folder: str) -> list[str]:
    return os.listdir(folder) if os.path.isdir(folder) else []


def _count_names(path: str) -> int:
    """Count the lines after the first, which is the version; 0 if the file is missing."""
    try:
        with open(path, "rb") as file:
            return max(0, sum(1 for line in file if line.strip()) - 1)
    except OSError:
        return 0


def _number(name: str) -> int:
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else -1


def planned_files(checkpoint: str, batch: int) -> list[str]:
    """Return the paths of the files that Spark planned for a batch, sorted."""
    try:
        last = _last_entry(checkpoint, batch)
        first = _last_entry(checkpoint, batch - 1) + 1 if batch else 0
        paths = [path for number in range(first, last + 1) for path in _read_entry(checkpoint, number)]
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise StorageError(
            f"the checkpoint {checkpoint} does not list the files of batch {batch}: {error!r}; the batch is tried again"
        ) from error
    return sorted(path for path in paths if not path.endswith(UNFINISHED_SUFFIXES))


def _last_entry(checkpoint: str, batch: int) -> int:
    """Return the number of the last log entry of a batch."""
    with open(os.path.join(checkpoint, "offsets", str(batch)), encoding="utf-8") as file:
        return int(json.loads(file.read().strip().splitlines()[-1])["logOffset"])


def _read_entry(checkpoint: str, number: int) -> Iterator[str]:
    """Yield the paths of a log entry, or of the compacted entry that replaced it."""
    folder = os.path.join(checkpoint, "sources", "0")
    compact = [int(name.split(".")[0]) for name in os.listdir(folder) if _COMPACT.fullmatch(name)]
    path = os.path.join(folder, str(number))
    if not os.path.exists(path):
        path = os.path.join(folder, f"{min(later for later in compact if later >= number)}.compact")
    with open(path, encoding="utf-8") as file:
        for line in file.read().splitlines()[1:]:
            entry = json.loads(line)
            if entry["batchId"] == number:
                yield unquote(entry["path"]).removeprefix("file://")


class CheckpointRollover:
    """Counts the files of a stream's checkpoint, and begins the next one when they are too many."""

    def __init__(self, stream: StreamConfig, ingest_log: IngestLog, session: SparkSession, source: str) -> None:
        self._stream, self._ingest_log, self._session = stream, ingest_log, session
        self._use(source)

    def add_files(self, count: int) -> None:
        """Add files that Spark saw since."""
        self._files += count

    @property
    def is_due(self) -> bool:
        """Return True if the checkpoint has so many files that listing the folder is worth it."""
        return self._stream.source.is_files and self._files > self._limit

    def begin(self) -> str:
        """Begin a new checkpoint, unless most files of this one still exist; return the one to continue with."""
        present = {file.path for file in list_source(self._session, self._stream)}
        limit = MAX_FILES + 2 * len(present)
        if self._files <= limit:
            self._limit = max(limit, self._files + self._files // 4)  # listing files has a cost, too
            return self.source
        before, after = self.source, next_checkpoint(self.source)
        self._ingest_log.rebase(after, present)
        shutil.rmtree(checkpoint_folder(self._stream, before), ignore_errors=True)
        self._use(after)
        return after

    def postpone(self) -> None:
        """Try again after the checkpoint has grown some more."""
        self._limit = self._files + MAX_FILES

    def skips_most(self) -> bool:
        """Return True if most files of a new checkpoint are in the store: then one batch may have them all."""
        offsets = os.path.join(checkpoint_folder(self._stream, self.source), "offsets")
        if self.source != self._ingest_log.checkpoint or not self._ingest_log.base_files or os.path.isdir(offsets):
            return False
        try:
            files = list_source(self._session, self._stream)
        except SPARK_ERRORS:  # then batches have their usual size, and files are skipped more slowly
            return False
        new = sum(file.size for file in files if not self._ingest_log.has_file(file, self.source))
        return new <= (self._stream.source.max_bytes or MAX_BYTES)

    def _use(self, source: str) -> None:
        self.source = source
        self._files = count_files(checkpoint_folder(self._stream, source)) if self._stream.source.is_files else 0
        self._limit = MAX_FILES + 2 * self._ingest_log.base_files
