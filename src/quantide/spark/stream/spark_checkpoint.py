"""Spark's checkpoints: which one a stream uses, which files it has seen, and when a new one begins.

A stream's checkpoint is a numbered folder of its store; its batches count upwards under that number. A checkpoint that
is lost, or older than the store, must be noticed: its batches would be mistaken for batches that are in the store.

The checkpoint of a store in object storage is a folder of the driver's disk, which may be lost. Such a checkpoint has a
name that no other machine and no other table uses, and continues only if the newest batch of the store belongs to it.
Otherwise another one begins, and the ingest log decides which data is new.

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
from collections.abc import Iterator, Sequence
from hashlib import sha256
from urllib.parse import unquote
from uuid import uuid4

from pyspark.sql import SparkSession

from quantide.config import StreamConfig
from quantide.errors import CheckpointError, StorageError
from quantide.spark.stream.stream_source import MAX_BYTES, SPARK_ERRORS, UNFINISHED_SUFFIXES, list_source
from quantide.store.file_names import CHECKPOINTS
from quantide.store.folder_storage import check_tree
from quantide.store.ingest_log import IngestLog
from quantide.store.storage import Storage

_NAME = re.compile(r"[cf](0|[1-9][0-9]{0,8})(?:x([0-9a-f]{8})[0-9a-f]{8})?")
_BATCH = re.compile(r"[0-9]{1,18}")
_LOG = re.compile(r"[0-9]{1,18}(\.compact)?")
_COMPACT = re.compile(r"[0-9]{1,18}\.compact")
LISTED = "f"  # begins the names of sources whose files a lister finds; they count with the names of checkpoints
NO_OFFSET = "-"  # in Spark's notes, of a source without data
MAX_FILES = 10_000  # names that a source log may have, plus twice the number of files that exist


def choose_checkpoint(
    stream: StreamConfig,
    storage: Storage,
    ingest_log: IngestLog,
    reset: bool,
    allow_duplicates: bool,
    table: str = "",
) -> str:
    """Return the name of the checkpoint to continue with, or to begin; it is the source of its batches, too.

    `table` is the identity of the table: an earlier one may have been at the same location.
    """
    folder, mark = storage.local_folder(CHECKPOINTS), _mark(table, storage)
    existing = [name for name in _list_folder(folder) if _NAME.fullmatch(name)]
    own = [name for name in existing if _NAME.sub(r"\2", name) == mark]
    logged = [name for name in (*ingest_log.last, ingest_log.checkpoint) if _NAME.fullmatch(name)]
    newest = max(logged or own if storage.loses_local_files else [*own, *logged], key=_number, default=None)
    if newest is None:
        return _name(0, mark)
    if reset:
        if logged and not stream.source.has_identity and not allow_duplicates:
            raise CheckpointError(
                f"{stream.key}: a source of format {stream.source.format} does not identify its rows: with a new "
                "checkpoint, rows in the store may be ingested twice. Pass --allow-duplicates with --reset to accept "
                "that"
            )
    elif not newest.startswith(LISTED) and _is_current(stream, storage, newest, ingest_log):
        check_tree(os.path.join(folder, newest))
        _remove_others(folder, existing, newest)
        return newest
    elif not (storage.loses_local_files and stream.source.has_identity):
        raise _lost_error(stream, os.path.join(folder, newest), ingest_log.last.get(newest, -1))
    return _name(max(map(_number, [*own, *logged])) + 1, mark)


def choose_listed_source(storage: Storage, ingest_log: IngestLog, reset: bool, table: str) -> str:
    """Return the name of a lister's batches: it continues with the newest one, unless that is Spark's.

    In an object store every writer begins a new one, because an earlier one may be paused, and wake up.
    """
    mark = _mark(table, storage)
    logged = [name for name in (*ingest_log.last, ingest_log.checkpoint) if _NAME.fullmatch(name)]
    folders = [name for name in _list_folder(storage.local_folder(CHECKPOINTS)) if _NAME.fullmatch(name)]
    newest = max([*logged, *folders], key=_number, default=None)
    if newest is None:
        return _name(0, mark, LISTED)
    if newest.startswith(LISTED) and not reset and not mark:
        return newest
    return _name(_number(newest) + 1, mark, LISTED)


def remove_checkpoints(storage: Storage) -> None:
    """Remove Spark's checkpoints of a store whose source a lister reads from now on."""
    folder = storage.local_folder(CHECKPOINTS)
    _remove_others(folder, [name for name in _list_folder(folder) if _NAME.fullmatch(name)], "")


def check_reset(stream: StreamConfig, ingest_log: IngestLog, reset: bool, allow_duplicates: bool) -> None:
    """Raise if a table would be read again from its start, where a compaction may have put old rows into new files."""
    if reset and stream.source.is_table and stream.source.start != "new" and ingest_log.last and not allow_duplicates:
        raise CheckpointError(
            f"{stream.key}: with --reset the table is read again from its start. Files that the store has recorded are "
            "skipped, but files that a compaction wrote since have the same rows again. Pass --allow-duplicates with "
            f'--reset to accept that, or set {stream.key}.source.start = "new" to continue with rows that are added '
            "from now on"
        )


def begins(storage: Storage, ingest_log: IngestLog, name: str) -> bool:
    """Return True if a checkpoint is new, in the store and on this machine."""
    is_logged = name in ingest_log.last or name == ingest_log.checkpoint
    return not is_logged and not os.path.exists(checkpoint_folder(storage, name))


def next_checkpoint(name: str) -> str:
    """Return the name of the checkpoint after this one."""
    return _name(_number(name) + 1, _NAME.sub(r"\2", name))


def _name(number: int, mark: str, kind: str = "c") -> str:
    """Return a name for a checkpoint. One with the mark of a table is unique: other machines begin others."""
    return f"{kind}{number}x{mark}{uuid4().hex[:8]}" if mark else f"{kind}{number}"


def _mark(table: str, storage: Storage) -> str:
    """Return the mark that names of checkpoints have if local folders are not part of the store; else nothing."""
    return sha256(table.encode()).hexdigest()[:8] if storage.loses_local_files else ""


def count_files(folder: str) -> int:
    """Count the source files in the source log of a checkpoint: its newest compacted entry, and those after it."""
    log = os.path.join(folder, "sources", "0")
    entries = {name: int(name.split(".")[0]) for name in _list_folder(log) if _LOG.fullmatch(name)}
    newest = max((number for name, number in entries.items() if name.endswith(".compact")), default=-1)
    valid = [name for name, n in entries.items() if n > newest or (n == newest and name.endswith(".compact"))]
    return sum(_count_names(os.path.join(log, name)) for name in valid)


def checkpoint_folder(storage: Storage, name: str) -> str:
    return os.path.join(storage.local_folder(CHECKPOINTS), name)


def read_offsets(folder: str, batch: int) -> str:
    """Return the source's offsets at the end of a batch of a checkpoint; empty if they are not there."""
    try:
        with open(os.path.join(folder, "offsets", str(batch)), encoding="utf-8") as file:
            return file.read().strip().splitlines()[-1]
    except (OSError, IndexError):
        return ""


def last_offsets(folder: str) -> str:
    """Return the source's offsets at the end of the newest batch of a checkpoint, or those at which it began.

    Empty if it has none. Spark notes where a query begins before it plans the first batch.
    """
    batches = _list_batches(folder, "offsets")
    if batches:
        return read_offsets(folder, batches[-1])
    try:
        with open(os.path.join(folder, "sources", "0", "0"), "rb") as file:
            return file.read().decode("utf-8", "replace").strip("\0 \n").partition("\n")[2]
    except OSError:
        return ""


def _is_current(stream: StreamConfig, storage: Storage, name: str, ingest_log: IngestLog) -> bool:
    """Return True if a checkpoint has every batch that is in the store and, if it may be lost, not more than those."""
    folder, last = checkpoint_folder(storage, name), ingest_log.last.get(name, -1)
    if max(_list_batches(folder, "offsets"), default=-1) < last or _is_torn(folder):
        return False
    if not storage.loses_local_files:
        return True
    return os.path.isdir(folder) and not _is_ahead(stream, folder, last, ingest_log)


def _is_torn(folder: str) -> bool:
    """Return True if Spark could not read its newest notes in a checkpoint, as after a power loss."""
    newest = [(kind, str(batches[-1])) for kind in ("offsets", "commits") if (batches := _list_batches(folder, kind))]
    paths = [os.path.join(folder, "metadata"), *(os.path.join(folder, *names) for names in newest)]
    return not all(map(_ends_in_json, paths))


def _ends_in_json(path: str) -> bool:
    """Return True if the last line of a file is JSON, or if there is no such file."""
    try:
        with open(path, encoding="utf-8") as file:
            line = file.read().strip().splitlines()[-1]
        if line != NO_OFFSET:
            json.loads(line)
    except FileNotFoundError:
        return True
    except (ValueError, IndexError):
        return False
    return True


def _is_ahead(stream: StreamConfig, folder: str, last: int, ingest_log: IngestLog) -> bool:
    """Return True if the store lacks data that a checkpoint has as done: it was restored from a copy, or replaced."""
    done = [batch for batch in _list_batches(folder, "commits") if batch > last]
    if not stream.source.is_files:  # reading batches again changes nothing if they were empty
        return stream.source.has_identity and bool(done and ingest_log.offsets)
    known = (ingest_log.ingested, ingest_log.waiting, ingest_log.quarantined_files)
    try:
        paths = [path for batch in done for path in planned_files(folder, batch)]
    except StorageError:  # it has removed its entries of those batches
        return True
    return not all(any(path in files for files in known) for path in paths)


def _lost_error(stream: StreamConfig, folder: str, last: int) -> CheckpointError:
    skips = (
        "source files that are in the store are skipped"
        if stream.source.is_files
        else "reading continues where the store ends"
        if stream.source.has_identity
        else "rows that are in the store may be ingested twice, since this source does not identify them"
    )
    return CheckpointError(
        f"{stream.key}: the checkpoint {folder} is lost, damaged, or older than the store, which has "
        f"{last + 1:,} of its batches. Put it back, or pass --reset to begin a new one: {skips}"
    )


def _remove_others(folder: str, existing: Sequence[str], chosen: str) -> None:
    """Remove the checkpoints that are not used any more."""
    for name in existing:
        if name != chosen:
            shutil.rmtree(os.path.join(folder, name), ignore_errors=True)


def _list_batches(folder: str, kind: str) -> list[int]:
    """Return the batches of a checkpoint that have an entry in its folder "offsets" or "commits"."""
    return sorted(int(entry) for entry in _list_folder(os.path.join(folder, kind)) if _BATCH.fullmatch(entry))


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

    def __init__(
        self, stream: StreamConfig, storage: Storage, ingest_log: IngestLog, session: SparkSession, source: str
    ) -> None:
        self._stream, self._storage, self._ingest_log, self._session = stream, storage, ingest_log, session
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
        shutil.rmtree(checkpoint_folder(self._storage, before), ignore_errors=True)
        self._use(after)
        return after

    def postpone(self) -> None:
        """Try again after the checkpoint has grown some more."""
        self._limit = self._files + MAX_FILES

    def skips_most(self) -> bool:
        """Return True if most files of a new checkpoint are in the store: then one batch may have them all."""
        offsets = os.path.join(checkpoint_folder(self._storage, self.source), "offsets")
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
        self._files = count_files(checkpoint_folder(self._storage, source)) if self._stream.source.is_files else 0
        self._limit = MAX_FILES + 2 * self._ingest_log.base_files
