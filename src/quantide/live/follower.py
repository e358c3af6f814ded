"""Follower: the version of a store that queries are answered from, and the move to a newer one.

A new version is prepared before any query is answered from it: its recent files are opened, and expected queries
are evaluated. Until then queries are answered from the version before, so none waits for a commit.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import RLock
from typing import Any

from quantide.caching import ByteLRU
from quantide.errors import CorruptBytesError, QuantideError, StorageError
from quantide.history.history_reader import HistoryReader
from quantide.history.snapshot import Snapshot
from quantide.live.live_view import LiveViewCache
from quantide.live.recent_snapshot import RecentSnapshot, UnreadableFile
from quantide.store.recent_file import RecentFile
from quantide.store.recent_manifest import ManifestEntry
from quantide.store.stored_rows import key_type

YIELD_SECONDS = 0.0001  # that a query waits during a poll


class Follower:
    """`recent` has the recent rows of the current version; `polled_at` is the time of the last successful poll."""

    def __init__(self, reader: HistoryReader, cache: ByteLRU, views: LiveViewCache) -> None:
        self._reader, self._cache, self._views = reader, cache, views
        self._poll_lock = RLock()
        self._is_polling = False
        self._files: dict[str, RecentFile | UnreadableFile] = {}
        self._prepared: RecentSnapshot | None = None  # of the version that queries are answered from next
        self.last_error: Exception | None = None  # of the last poll
        self.polled_at = time.monotonic()
        self._advance(self._open_recent())

    def poll(self) -> bool:
        """Move to the newest version; return True if it is newer."""
        with self._poll_lock:
            before, self._prepared = self.recent.version, None
            with self._mark_polling():
                self._reader.refresh(self._prepare)
                if self._reader.version != before:
                    self._advance(self._newest())
            self.last_error, self.polled_at = None, time.monotonic()
            return self.recent.version != before

    def record_failure(self, error: Exception) -> None:
        """Record that poll() raised: queries raise the error until a poll succeeds."""
        disk = isinstance(error, OSError) and not isinstance(error, QuantideError)
        self.last_error = StorageError(f"commits cannot be followed: {error}") if disk else error

    def yield_to_poll(self) -> None:
        """Raise if the last poll failed; otherwise yield to a running poll."""
        if self.last_error is not None:
            raise self.last_error.with_traceback(None)  # else the traceback would grow with every query
        if self._is_polling:  # threads that only compute would delay each of its reads
            time.sleep(YIELD_SECONDS)

    @property
    def nbytes(self) -> int:
        """Memory of recent files, beside their mapped bytes."""
        return sum(file.nbytes for file in self._files.values())

    @contextmanager
    def _mark_polling(self) -> Iterator[None]:
        self._is_polling = True
        try:
            yield
        finally:
            self._is_polling = False

    def _prepare(self, snapshot: Snapshot) -> None:
        """Open recent files and views of a version before any query is answered from it."""
        with suppress(QuantideError, OSError):  # _open_recent() reads it again, and retries
            recent = self._read(snapshot)
            if not recent.has_unreadable:
                self._is_polling = False
                self._views.prepare(snapshot, recent, self.recent)
                self._prepared = recent

    def _newest(self) -> RecentSnapshot:
        prepared = self._prepared
        return self._open_recent() if prepared is None or prepared.version != self._reader.version else prepared

    def _advance(self, recent: RecentSnapshot) -> None:
        """Answer queries from this version on."""
        files = {file.name: file for file in recent.files}
        removed, self._files, self.recent = self._files.keys() - files.keys(), files, recent
        self._cache.invalidate(removed)
        self._views.advance(recent)

    def _open_recent(self) -> RecentSnapshot:
        """Return the recent rows of the reader's version; if files are missing, those of the newest version."""
        while True:
            try:
                recent = self._read(self._reader.snapshot)
            except FileNotFoundError as error:
                if not self._reader.refresh():
                    raise CorruptBytesError(f"the list of recent files is missing: {error}") from error
                continue
            if not recent.has_unreadable or not self._reader.refresh():
                return recent

    def _read(self, snapshot: Snapshot) -> RecentSnapshot:
        table = self._reader.table
        manifest = table.load_manifest(snapshot.recent)
        keys = key_type(table.settings.keys, snapshot.key_types)
        files = table.storage.map_all(lambda entry: self._open_file(entry, manifest.clock, keys), manifest.entries)
        return RecentSnapshot(snapshot.version, manifest, files, table.settings.profile, self._cache)

    def _open_file(self, entry: ManifestEntry, clock: str | None, keys: Any) -> RecentFile | UnreadableFile:
        """Open a recent file. A damaged or missing one affects only the windows that need it."""
        opened, table = self._files.get(entry.name), self._reader.table
        if isinstance(opened, RecentFile):
            return opened
        try:
            return RecentFile.open(table.storage.map(entry.name), entry, clock, table.settings, keys)
        except (FileNotFoundError, CorruptBytesError) as error:
            return UnreadableFile(entry.name, str(error))
