"""Landing backlog: files and bytes that wait for ingestion; above a limit, pushed rows are refused."""

import time
from threading import Lock

from quantide.config import StreamConfig
from quantide.errors import BacklogError
from quantide.store.file_names import LANDING
from quantide.store.storage import Storage

STALE = 1.0  # seconds after which the folder is listed again
RETRY_AFTER = 2  # seconds


class LandingBacklog:
    """Counts the files of a landing folder: as it was listed last, and those that this server wrote since."""

    def __init__(self, stream: StreamConfig, storage: Storage) -> None:
        assert stream.source.push is not None
        self._name, self._limits, self._storage = stream.name, stream.source.push, storage
        self._lock = Lock()
        self.files = self.bytes = 0
        self._measured = float("-inf")

    @property
    def is_stale(self) -> bool:
        return time.monotonic() - self._measured > STALE

    def measure(self) -> None:
        """List the folder, unless that was done a moment ago."""
        with self._lock:
            if self.is_stale:
                files = self._storage.list_files(LANDING)
                self.files, self.bytes = len(files), sum(file.size for file in files)
                self._measured = time.monotonic()

    def add(self, size: int) -> None:
        """Count a file that this server wrote."""
        self.files, self.bytes = self.files + 1, self.bytes + size

    def check(self) -> None:
        """Raise BacklogError if the backlog is above a limit."""
        if self.files < self._limits.landing_files and self.bytes < self._limits.landing_bytes:
            return
        error = BacklogError(
            f"ingestion of the stream {self._name} lags behind: {self.files:,} files with {self.bytes:,} bytes wait. "
            f"Nothing was added; repeat the request in {RETRY_AFTER} seconds, and check that `quantide ingest` runs"
        )
        error.retry_after = RETRY_AFTER
        raise error
