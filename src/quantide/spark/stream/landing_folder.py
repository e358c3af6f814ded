"""Landing folder of a push stream: repeated requests are dropped, and files are removed once they are in the store.

Ingestion is the only writer of a store, so it alone decides which of two requests with one idempotency key counts: the
one that it commits first. The key is recorded with that commit.
"""

import logging
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow.parquet as pq

from quantide.errors import StorageError
from quantide.history.history import History
from quantide.spark.source_files import FileAccess, open_file
from quantide.spark.stream.batch_task import READ_ERRORS
from quantide.store import fault_points
from quantide.store.file_names import LANDING
from quantide.store.ingest_log import DONE, BatchRecord, IngestedFile, IngestLog
from quantide.store.landing_file import arrival_time, prepare_landing, read_requests
from quantide.store.push_keys import PushKeys
from quantide.windows.wall_clock import wall_clock

LOG = logging.getLogger(__name__)
RowRanges = tuple[tuple[int, int], ...]
MAX_WRITE_SECONDS = 3600.0  # a server that has written a file for longer has ended


@dataclass
class LandingBatch:
    """Landing files of a batch: those to read, their rows to skip, those that only repeat, and unreadable ones."""

    files: list[IngestedFile] = field(default_factory=list)
    skipped: dict[str, RowRanges] = field(default_factory=dict)
    repeats: list[IngestedFile] = field(default_factory=list)
    unreadable: dict[IngestedFile, str] = field(default_factory=dict)
    digests: dict[str, list[bytes]] = field(default_factory=dict)  # new keys, by path


class LandingFolder:
    """Landing files of one stream, seen by ingestion."""

    def __init__(self, history: History) -> None:
        self._table, self._storage = history.table, history.table.storage
        prepare_landing(self._storage)  # Spark lists it
        self._keys = PushKeys(self._storage, history.batch_seen)
        self._oldest: dict[tuple[str, int], float] = {}

    def plan(self, files: Sequence[IngestedFile], access: FileAccess) -> LandingBatch:
        """Find requests in landing files whose key is in the store, or in an earlier request of the batch."""
        batch, seen = LandingBatch(), set[bytes]()
        for file in sorted(files, key=lambda file: file.path):
            try:
                with open_file(access, file.path) as opened:
                    requests = read_requests(pq.read_metadata(opened))
            except READ_ERRORS as error:
                batch.unreadable[file] = str(error)
                continue
            row, ranges = 0, list[tuple[int, int]]()
            digests = batch.digests[file.path] = []
            for request in requests:
                if request.digest is not None and (request.digest in self._keys or request.digest in seen):
                    ranges.append((row, row + request.rows))
                elif request.digest is not None:
                    seen.add(request.digest)
                    digests.append(request.digest)
                row += request.rows
            if requests and len(ranges) == len(requests):
                batch.repeats.append(file)
                continue
            batch.files.append(file)
            if ranges:
                batch.skipped[file.path] = tuple(ranges)
        return batch

    def write_keys(self, record: BatchRecord, planned: LandingBatch) -> None:
        """Record the keys of the files that a batch stores; the commit of the batch follows."""
        done = [entry.file.path for entry in record.entries if entry.state == DONE]
        batch = (record.source, record.number)
        self._oldest = {batch: min((t for t in map(arrival_time, done) if t is not None), default=wall_clock())}
        digests = [digest for path in done for digest in planned.digests.get(path, ())]
        self._keys.write(batch, digests, wall_clock())

    def mark_committed(self, record: BatchRecord) -> None:
        """Apply the keys of a batch that is in the table, and remove its landing files."""
        batch = (record.source, record.number)
        self._keys.mark_committed(batch, self._oldest.pop(batch, wall_clock()))
        fault_points.point("push.stored")
        self._remove(entry.file.path for entry in record.entries if entry.state == DONE)

    def remove_remains(self, ingest_log: IngestLog) -> None:
        """Remove files of processes that ended early: those that are in the store, and old ones that are incomplete."""
        folder = self._storage.full_path(LANDING)
        paths = [f"{folder}/{os.path.basename(file.name)}" for file in self._storage.list_files(LANDING)]
        self._remove(path for path in paths if path in ingest_log.ingested)
        latest = self._table.file_time() - MAX_WRITE_SECONDS
        self._remove(file.name for file in self._storage.list_remains(LANDING) if file.modified < latest)

    def _remove(self, paths: Iterable[str]) -> None:
        for path in paths:
            try:
                self._storage.remove(f"{LANDING}/{path.rpartition('/')[2]}")
            except StorageError as error:
                LOG.warning("a landing file that is in the store could not be removed: %s", error)
