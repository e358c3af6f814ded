"""Files that are tried again: they could not be read, may still be written to, or were mended while in quarantine."""

import time

from quantide.errors import QuantideError
from quantide.spark.stream.batch import Batch, BatchWriter
from quantide.spark.stream.listing import changed_files, list_files, mended_files
from quantide.spark.stream.work import look
from quantide.store.ledger import RETRY, Record, SourceFile

EVERY = 0.5  # seconds between looks; more where they take long


class Retries:
    """Looks at the source's folder now and then; a file that stays the same is tried for the last time.

    Files in quarantine are tried again when they changed in place, or when the configuration did.
    """

    def __init__(self, writer: BatchWriter) -> None:
        self._writer = writer
        self._seen: dict[str, tuple[SourceFile | None, float]] = {}
        self._look_at = 0.0
        self.pending = 0  # files that are about to be tried
        self.changed: dict[str, str] = {}  # files that changed after they were taken, and how
        self.note = ""

    def run(self, now_or_never: bool = False) -> Record | None:
        """Take in the files that are stable now."""
        began = time.monotonic()
        if not self._writer.stream.source.is_files or (began < self._look_at and not now_or_never):
            return None
        wanted = self._wanted()
        self._seen = {path: seen for path, seen in self._seen.items() if path in wanted}
        ready = [path for path in wanted if self._is_stable(path, began)]
        empty = [path for path in ready if (file := self._seen[path][0]) is not None and not file.size]
        ready = [path for path in ready if path not in empty]
        self.pending = len(wanted) - len(ready) - len(empty)
        took = time.monotonic() - began
        self._look_at = began + max(EVERY, 20 * took)
        return self._writer.take_again(next_retry(self._writer), ready) if ready else None

    def _wanted(self) -> list[str]:
        """Files that wait, and files in quarantine that may be readable by now."""
        ledger, stream = self._writer.ledger, self._writer.stream
        other = [path for path, config in ledger.held_by.items() if config != stream.fingerprint]
        mended: list[str] = []
        self.note = ""
        try:
            listed = list_files(stream.source, self._writer.storage)
            mended = mended_files({path: entry.file for path, entry in ledger.quarantined.items()}, listed)
            ledger.keep_taken(listed)
            self.changed = changed_files(ledger.taken, listed)
        except QuantideError as error:
            self.note = f"changed files are not noticed: {error}"
        return list(dict.fromkeys([*ledger.waiting, *other, *mended]))

    def _is_stable(self, path: str, now: float) -> bool:
        """Return True if the file did not change for as long as it takes to be sure; it may be gone."""
        found = look(self._writer.storage, path)
        known, since = self._seen.get(path, (None, now))
        if path not in self._seen or found != known:
            self._seen[path] = (found, now)
            return False
        return now - since >= self._writer.stream.source.settle


def next_retry(writer: BatchWriter) -> Batch:
    """A batch of files that are tried for the last time."""
    return Batch(RETRY, writer.ledger.last.get(RETRY, -1) + 1, last_try=True, keep_late=True)
