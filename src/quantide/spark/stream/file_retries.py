"""File retries: files that could not be read, may still be written to, or were repaired while in quarantine."""

import time
from collections.abc import Callable, Mapping

from quantide.errors import QuantideError
from quantide.spark.stream.micro_batch import BatchWriter, MicroBatch
from quantide.spark.stream.stream_source import changed_files, list_files, repaired_files, stat_file
from quantide.store.ingest_log import RETRY, BatchRecord, IngestedFile

ListPresent = Callable[[], Mapping[str, IngestedFile]]
OnListed = Callable[[Mapping[str, IngestedFile]], None]  # called with all files of the source
MAX_LISTING_AGE = 1.0  # seconds; batches after an older listing may have changed what it is compared with
MIN_INTERVAL = 0.5  # seconds between two listings; more if they take long


class FileRetries:
    """Lists the source's folder now and then; a file that does not change is tried for the last time.

    Files in quarantine are tried again after they, or the configuration, changed.
    """

    def __init__(
        self, writer: BatchWriter, list_present: ListPresent | None = None, on_listed: OnListed | None = None
    ) -> None:
        self._writer, self._on_listed = writer, on_listed
        self._list_present = list_present or (lambda: list_files(writer.stream.source, writer.source))
        self._seen: dict[str, tuple[IngestedFile | None, float]] = {}
        self._next_run = 0.0
        self._listing: Mapping[str, IngestedFile] | QuantideError | None = None
        self._listing_seconds = self._listed_at = 0.0
        self.pending = 0  # files that are about to be tried
        self.changed: dict[str, str] = {}  # files that changed after they were ingested, with the reason
        self.note = ""

    def list_files(self, at_once: bool = False) -> None:
        """List the source's files for the next run, if it is due: a listing takes long, and needs no lock."""
        began = time.monotonic()
        source = self._writer.stream.source
        is_fresh = self._listing is not None and began - self._listed_at < MAX_LISTING_AGE
        if not source.is_files or (not at_once and (is_fresh or began < self._next_run)):
            return
        try:
            self._listing = {} if source.is_table else self._list_present()
        except QuantideError as error:
            self._listing = error
        self._listed_at = time.monotonic()
        self._listing_seconds = self._listed_at - began

    def run(self, at_once: bool = False) -> BatchRecord | None:
        """Ingest the files that are stable now."""
        began = time.monotonic()
        if not self._writer.stream.source.is_files or (began < self._next_run and not at_once):
            return None
        self.list_files(at_once and self._listing is None)
        candidates = self._find_candidates()
        self._seen = {path: seen for path, seen in self._seen.items() if path in candidates}
        stable = [path for path in candidates if self._is_stable(path, began)]
        empty = [path for path in stable if (file := self._seen[path][0]) is not None and not file.size]
        ready = [path for path in stable if path not in empty]
        self.pending = len(candidates) - len(ready) - len(empty)
        seconds = time.monotonic() - began + self._listing_seconds
        self._next_run = began + max(MIN_INTERVAL, 20 * seconds)
        return self._writer.retry_files(next_retry(self._writer), ready) if ready else None

    def _find_candidates(self) -> list[str]:
        """Return files that wait, and files in quarantine that may be readable by now."""
        ingest_log, stream = self._writer.ingest_log, self._writer.stream
        reconfigured = [path for path, config in ingest_log.quarantine_settings.items() if config != stream.fingerprint]
        repaired: list[str] = []
        self.note = ""
        listed, self._listing = self._listing, None
        if isinstance(listed, QuantideError):
            self.note = f"changed files are not noticed: {listed}"
        elif listed is not None and not stream.source.is_table:
            repaired = repaired_files(
                {path: entry.file for path, entry in ingest_log.quarantined_files.items()}, listed
            )
            ingest_log.forget_missing(listed)
            self.changed = changed_files(ingest_log.ingested, listed)
            if self._on_listed is not None:
                self._on_listed(listed)
        return list(dict.fromkeys([*ingest_log.waiting, *reconfigured, *repaired]))

    def _is_stable(self, path: str, now: float) -> bool:
        """Return True if a file has not changed, or has been missing, for the source's settle time."""
        file = stat_file(self._writer.source, path)
        previous, since = self._seen.get(path, (None, now))
        if path not in self._seen or file != previous:
            self._seen[path] = (file, now)
            return False
        return now - since >= self._writer.stream.source.settle


def next_retry(writer: BatchWriter) -> MicroBatch:
    """Return the next batch of files that are tried for the last time.

    Where a writer may run on after it lost its lease, the source of these batches has the epoch of its writer.
    """
    source = f"{RETRY}{writer.history.table.epoch}" if writer.store.loses_local_files else RETRY
    return MicroBatch(source, writer.ingest_log.last.get(source, -1) + 1, last_try=True, keep_late=True)
