"""The follower: the version of a store that questions are answered from, and how it moves to a newer one.

A new version is made ready before anyone is answered from it: its recent files are opened, and what was asked about is
looked at. Until then questions are answered from the version before, so none waits for a commit.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import RLock
from typing import Any

from quantide.errors import CorruptBytesError, QuantideError, StorageError
from quantide.history.reader import HistoryReader
from quantide.history.snapshot import Snapshot
from quantide.live.kept import Kept
from quantide.live.recent import Recent, Unreadable
from quantide.live.views import Views
from quantide.store.manifest import Entry
from quantide.store.recent import RecentFile
from quantide.store.rows import key_type

PAUSE = 0.0001  # seconds that a question waits while a commit is looked at


class Follower:
    """`recent` has the recent rows of that version; `polled` tells when it was last looked for another."""

    def __init__(self, reader: HistoryReader, kept: Kept, views: Views) -> None:
        self._reader, self._kept, self._views = reader, kept, views
        self._polling = RLock()
        self._moving = False  # whether poll() is at work
        self._files: dict[str, RecentFile | Unreadable] = {}
        self._ready: Recent | None = None  # what questions are answered from next
        self.trouble: Exception | None = None  # why commits cannot be followed just now
        self.polled = time.monotonic()
        self._go_on(self._open_recent())

    def poll(self) -> bool:
        """Move to the newest version; whether there was a newer one."""
        with self._polling:
            before, self._ready = self.recent.version, None
            with self._at_work():
                self._reader.refresh(self._make_ready)
                if self._reader.version != before:
                    self._go_on(self._newest())
            self.trouble, self.polled = None, time.monotonic()
            return self.recent.version != before

    def failed(self, error: Exception) -> None:
        """poll() raised this: nothing is answered until it succeeds again."""
        disk = isinstance(error, OSError) and not isinstance(error, QuantideError)
        self.trouble = StorageError(f"commits cannot be followed: {error}") if disk else error

    def let_it_go_first(self) -> None:
        """A commit that is looked at goes before questions; when commits cannot be followed, none is answered."""
        if self.trouble is not None:
            raise self.trouble.with_traceback(None)  # else it would grow with every question
        if self._moving:  # threads that only compute would keep it waiting at each of its reads
            time.sleep(PAUSE)

    @property
    def nbytes(self) -> int:
        """Memory of recent files, beside what is mapped."""
        return sum(file.nbytes for file in self._files.values())

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        self._moving = True
        try:
            yield
        finally:
            self._moving = False

    def _make_ready(self, snapshot: Snapshot) -> None:
        """What can be done before anyone is answered from a version."""
        with suppress(QuantideError, OSError):  # it is looked for again, with more patience
            recent = self._read(snapshot)
            if not recent.unreadable:
                self._moving = False
                self._views.prepare(snapshot, recent, self.recent)
                self._ready = recent

    def _newest(self) -> Recent:
        ready = self._ready
        return self._open_recent() if ready is None or ready.version != self._reader.version else ready

    def _go_on(self, recent: Recent) -> None:
        """Answer from here on as of this version."""
        files = {file.name: file for file in recent.files}
        gone, self._files, self.recent = self._files.keys() - files.keys(), files, recent
        self._kept.forget(gone)
        self._views.go_on(recent)

    def _open_recent(self) -> Recent:
        """The recent rows of the reader's version; when some files are gone, of the newest."""
        while True:
            try:
                recent = self._read(self._reader.snapshot)
            except FileNotFoundError as error:
                if not self._reader.refresh():
                    raise CorruptBytesError(f"the list of recent files is missing: {error}") from error
                continue
            if not recent.unreadable or not self._reader.refresh():
                return recent

    def _read(self, snapshot: Snapshot) -> Recent:
        table = self._reader.table
        manifest = table.manifest(snapshot.recent)
        keys = key_type(table.settings.keys, snapshot.key_types)
        files = table.place.each(lambda entry: self._file(entry, manifest.clock, keys), manifest.entries)
        return Recent(snapshot.version, manifest, files, self._reader.eps, self._kept)

    def _file(self, entry: Entry, clock: str | None, keys: Any) -> RecentFile | Unreadable:
        """A recent file; one that is damaged or missing is a matter of the windows that need it, not of others."""
        held, table = self._files.get(entry.name), self._reader.table
        if isinstance(held, RecentFile):
            return held
        try:
            return RecentFile.open(table.place.mapped(entry.name), entry, clock, table.settings, keys)
        except (FileNotFoundError, CorruptBytesError) as error:
            return Unreadable(entry.name, str(error))
