"""Files that wait: they could not be read, or may still be written to. They are tried again when they are stable."""

import time

from quantide.spark.stream.batch import Batch, BatchWriter
from quantide.spark.stream.work import look
from quantide.store.ledger import RETRY, Record, SourceFile

EVERY = 0.5  # seconds between looks


class Retries:
    """Looks at waiting files now and then; one that stays the same is tried for the last time."""

    def __init__(self, writer: BatchWriter) -> None:
        self._writer = writer
        self._seen: dict[str, tuple[SourceFile | None, float]] = {}
        self._looked = -EVERY

    def run(self) -> Record | None:
        """Take in the files that are stable now."""
        now, waiting = time.monotonic(), self._writer.ledger.waiting
        if not waiting or now - self._looked < EVERY:
            return None
        self._looked = now
        self._seen = {path: seen for path, seen in self._seen.items() if path in waiting}
        ready = [self._looked_at(path, now) for path in list(waiting)]
        files = [file for file in ready if file is not None]
        return self._writer.take_files(next_retry(self._writer), files) if files else None

    def _looked_at(self, path: str, now: float) -> SourceFile | None:
        """The file, when it did not change for as long as it takes to be sure; it may be gone."""
        found = look(self._writer.storage, path)
        known, since = self._seen.get(path, (None, now))
        if path not in self._seen or found != known:
            self._seen[path] = (found, now)
            return None
        if now - since < self._writer.stream.source.settle:
            return None
        return found or self._writer.ledger.waiting[path].file


def next_retry(writer: BatchWriter) -> Batch:
    """A batch of files that are tried for the last time."""
    return Batch(RETRY, writer.ledger.last.get(RETRY, -1) + 1, last_try=True, keep_late=True)
