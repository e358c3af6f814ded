"""File retries: files that could not be read, may still be written to, or were repaired while in quarantine."""

import time

from quantide.errors import QuantideError
from quantide.spark.stream.micro_batch import BatchWriter, MicroBatch
from quantide.spark.stream.stream_source import changed_files, list_files, repaired_files, stat_file
from quantide.store.ingest_log import RETRY, BatchRecord, IngestedFile

MIN_INTERVAL = 0.5  # seconds between two listings; more if they take long


class FileRetries:
    """Lists the source's folder now and then; a file that does not change is tried for the last time.

    Files in quarantine are tried again after they, or the configuration, changed.
    """

    def __init__(self, writer: BatchWriter) -> None:
        self._writer = writer
        self._seen: dict[str, tuple[IngestedFile | None, float]] = {}
        self._next_run = 0.0
        self.pending = 0  # files that are about to be tried
        self.changed: dict[str, str] = {}  # files that changed after they were ingested, with the reason
        self.note = ""

    def run(self, at_once: bool = False) -> BatchRecord | None:
        """Ingest the files that are stable now."""
        began = time.monotonic()
        if not self._writer.stream.source.is_files or (began < self._next_run and not at_once):
            return None
        candidates = self._find_candidates()
        self._seen = {path: seen for path, seen in self._seen.items() if path in candidates}
        stable = [path for path in candidates if self._is_stable(path, began)]
        empty = [path for path in stable if (file := self._seen[path][0]) is not None and not file.size]
        ready = [path for path in stable if path not in empty]
        self.pending = len(candidates) - len(ready) - len(empty)
        seconds = time.monotonic() - began
        self._next_run = began + max(MIN_INTERVAL, 20 * seconds)
        return self._writer.retry_files(next_retry(self._writer), ready) if ready else None

    def _find_candidates(self) -> list[str]:
        """Return files that wait, and files in quarantine that may be readable by now."""
        ingest_log, stream = self._writer.ingest_log, self._writer.stream
        reconfigured = [path for path, config in ingest_log.quarantine_settings.items() if config != stream.fingerprint]
        repaired: list[str] = []
        self.note = ""
        try:
            listed = list_files(stream.source, self._writer.storage)
            repaired = repaired_files(
                {path: entry.file for path, entry in ingest_log.quarantined_files.items()}, listed
            )
            ingest_log.forget_missing(listed)
            self.changed = changed_files(ingest_log.ingested, listed)
        except QuantideError as error:
            self.note = f"changed files are not noticed: {error}"
        return list(dict.fromkeys([*ingest_log.waiting, *reconfigured, *repaired]))

    def _is_stable(self, path: str, now: float) -> bool:
        """Return True if a file has not changed, or has been missing, for the source's settle time."""
        file = stat_file(self._writer.storage, path)
        previous, since = self._seen.get(path, (None, now))
        if path not in self._seen or file != previous:
            self._seen[path] = (file, now)
            return False
        return now - since >= self._writer.stream.source.settle


def next_retry(writer: BatchWriter) -> MicroBatch:
    """Return the next batch of files that are tried for the last time."""
    return MicroBatch(RETRY, writer.ingest_log.last.get(RETRY, -1) + 1, last_try=True, keep_late=True)
