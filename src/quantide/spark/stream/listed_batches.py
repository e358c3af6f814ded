"""Batches of listed files: the files that a lister finds, numbered, with the position of the lister in their records.

There is no checkpoint beside the store: the ingest log has the last position, the last number and all files. A batch
whose commit was interrupted is listed again; one that was committed has moved the position.
"""

import logging
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from quantide.config import Source
from quantide.errors import StorageError
from quantide.spark.stream.file_lister import FileLister, open_lister
from quantide.spark.stream.micro_batch import BatchWriter, MicroBatch
from quantide.spark.stream.spark_checkpoint import MAX_FILES
from quantide.spark.stream.stream_source import MAX_BYTES
from quantide.store import fault_points
from quantide.store.ingest_log import DONE, BatchRecord, IngestedFile
from quantide.store.object_files import SourceAccess

LOG = logging.getLogger(__name__)
SAVE_INTERVAL = 60.0  # seconds after which a position that moved without files is saved


class ListedBatches:
    """Lists a source, and ingests what is new. list() may run while a batch of retried files is written."""

    def __init__(self, writer: BatchWriter, source: str, restart: bool = False) -> None:
        self._writer, self._source, self._log = writer, source, writer.ingest_log
        self.lister: FileLister = open_lister(writer.stream, writer.source)
        self._position = "" if restart else self._log.offsets
        self._is_saved = bool(self._position)
        self._pending: tuple[IngestedFile, ...] = ()
        self._next_position, self._has_more = self._position, False
        self._last_save, self._trim_at = time.monotonic(), MAX_FILES

    @property
    def pause(self) -> float:
        """Seconds until the next listing; 0 while there is more to ingest."""
        return 0.0 if self._pending or self._has_more else self.lister.pause

    @property
    def is_done(self) -> bool:
        """Return True if everything that the last listing found is in the store."""
        return not self._pending and not self._has_more

    def list(self) -> None:
        """Find new files, unless some are pending."""
        if self._pending:
            return
        listing = self.lister.list_new(self._position, self._is_recorded)
        self._pending = tuple(sorted(listing.files, key=lambda file: (file.modified, file.path)))
        self._next_position, self._has_more = listing.position, listing.has_more
        self._position = listing.partial or self._position

    def ingest(self, save: bool = False) -> BatchRecord | None:
        """Ingest the next batch of pending files; with `save`, save a position that moved without files, too."""
        pending = [file for file in self._pending if not self._is_recorded(file.path)]
        files = limit_batch(pending, self._writer.stream.source)
        rest = tuple(pending[len(files) :])
        position = self._position if rest else self._next_position
        batch = MicroBatch(self._source, self._log.last.get(self._source, -1) + 1, offsets=position)
        record = None
        if files:
            record = self._writer.ingest_files(batch, files)
        elif position != self._log.offsets and self._is_save_due(save):
            record = self._writer.save_position(batch)
        self._pending, self._position = rest, position
        if record is not None:
            self._last_save, self._is_saved = time.monotonic(), True
            if self._writer.stream.source.is_table and self._log.logged_files > self._trim_at:
                self.trim_log(self.lister.list_present())
        return record

    def _is_save_due(self, save: bool) -> bool:
        """Return True if a position should be saved without files: the first one at once, others now and then."""
        return save or not self._is_saved or time.monotonic() - self._last_save > SAVE_INTERVAL

    def _is_recorded(self, path: str) -> bool:
        """Return True if the rows of a file are in the store, or it waits for a retry, or is in quarantine."""
        return path in self._log.ingested or path in self._log.waiting or path in self._log.quarantined_files

    def trim_log(self, present: Mapping[str, IngestedFile]) -> None:
        """Drop removed files from the ingest log when it has many more files than the source has."""
        if self._log.logged_files > MAX_FILES + 2 * len(present):
            self._log.rebase(self._source, present)
        files = self._log.logged_files
        self._trim_at = max(MAX_FILES + 2 * len(present), files + files // 4)  # listing a table has a cost, too


def limit_batch(files: Sequence[IngestedFile], source: Source) -> list[IngestedFile]:
    """Return the first files, within the limits of a batch; at least one.

    >>> files = [IngestedFile(name, 600, 0) for name in "abc"]
    >>> [file.path for file in limit_batch(files, Source("parquet", max_bytes=1500))]
    ['a', 'b']
    """
    if source.max_files:
        return list(files[: source.max_files])
    batch: list[IngestedFile] = []
    size = 0
    for file in files:
        size += file.size
        if batch and size > (source.max_bytes or MAX_BYTES):
            break
        batch.append(file)
    return batch


class FileRemoval:
    """Removes source files whose rows are committed, if the source is configured so."""

    def __init__(self, writer: BatchWriter) -> None:
        self._writer, self._is_enabled = writer, writer.stream.source.after == "delete"
        self.is_due = self._is_enabled  # files of a batch that was committed before a crash may remain
        self.last_error = ""

    def remove_ingested(self, record: BatchRecord | None) -> None:
        """Remove the files of a committed batch, except those that wait or are in quarantine."""
        if self._is_enabled and record is not None:
            fault_points.point("source.remove")
            self._remove(entry.file for entry in record.entries if entry.state == DONE)

    def remove_remaining(self, present: Iterable[IngestedFile]) -> None:
        """Remove files that were ingested before a crash; one that changed since stays, and is reported."""
        if self._is_enabled:
            ingested = self._writer.ingest_log.ingested
            self._remove(file for file in present if ingested.get(file.path) == file)

    def _remove(self, files: Iterable[IngestedFile]) -> None:
        """Remove files; a failure is no reason to stop, because they are removed after the next start."""
        self.last_error, self.is_due = "", False
        access = self._writer.source
        try:
            if isinstance(access, SourceAccess):
                access.remove_unchanged(list(files))
                return
            for file in files:
                with suppress(FileNotFoundError):
                    if _is_unchanged(file):  # or rows would be lost that nobody has read
                        os.remove(file.path)
        except (StorageError, OSError) as error:
            self.is_due = True
            self.last_error = f"ingested files are not removed: {error}"
            LOG.warning("%s: %s", self._writer.stream.key, self.last_error)


def _is_unchanged(file: IngestedFile) -> bool:
    """Return True if a local file is as it was when it was listed."""
    status = os.stat(file.path)
    return (status.st_size, status.st_mtime_ns // 10**6) == (file.size, file.modified)
