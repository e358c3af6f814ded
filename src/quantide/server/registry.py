"""The registry: what a server must remember, in one SQLite file that only its owner can read."""

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import RLock
from typing import Any

from quantide.server.registry_file import (
    CLOSED,
    IS_CLOSED,
    NAME,
    UPGRADES,
    VERSION,
    check_size,
    make,
    named,
    private,
    version_of,
)
from quantide.store.disk import sync


class Registry:
    """Rows of a few tables, in a folder of the server's own. Safe to use from several threads and processes.

    What a change() has written is on disk when it returns; when it raises, nothing is.
    """

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, NAME)
        self._closed = os.path.join(folder, CLOSED)
        self._lock = RLock()
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            make(self.path)
            check_size(self.path)
            os.chmod(self.path, 0o600)  # it may be older than this rule; the files beside it get the same mode
            self._open = sqlite3.connect(self.path, timeout=3, isolation_level=None, check_same_thread=False)
            self._open.row_factory = sqlite3.Row
            self._prepare()
        except (OSError, sqlite3.Error) as error:
            raise named(error, self.path, "opened") from error

    def _prepare(self) -> None:
        try:
            for setting in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
                self._open.execute(f"PRAGMA {setting}")
            self._upgrade()
        except BaseException:
            self._open.close()
            raise

    def _upgrade(self) -> None:
        """Check that this is a registry, make it one of this version, and keep it closed if it ever was."""
        with self.change() as write:
            version = version_of(write, self.path)
            for older in range(version, VERSION):
                for statement in UPGRADES[older].split(";"):
                    write.execute(statement)
            if version != VERSION:
                write.execute(f"PRAGMA user_version = {VERSION}")
            if os.path.exists(self._closed) or write.execute(IS_CLOSED).fetchone()[0]:
                self.set_closed(write, True)

    def set_closed(self, write: sqlite3.Connection, closed: bool) -> None:
        """Change whether requests need a token, within a change(): in the database and in the file beside it."""
        if closed and not os.path.exists(self._closed):
            with open(self._closed, "x", opener=private, encoding="utf-8") as file:
                file.write("This server answers requests with a token only. `quantide token open` changes that.\n")
            sync(self._closed, os.path.dirname(self._closed))
        write.execute("UPDATE access SET closed = ?", (closed,))
        if not closed:
            with suppress(FileNotFoundError):
                os.remove(self._closed)

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[sqlite3.Row]:
        """What a question finds. `values` take the places of its question marks: nothing else goes into SQL."""
        with self._lock, self._named():
            return self._open.execute(sql, values).fetchall()

    @contextmanager
    def change(self) -> Iterator[sqlite3.Connection]:
        """Writes that happen together, or not at all."""
        with self._lock, self._named():
            self._open.execute("BEGIN IMMEDIATE")
            try:
                yield self._open
            except BaseException:
                if self._open.in_transaction:  # SQLite has rolled it back where the database is damaged
                    self._open.execute("ROLLBACK")
                raise
            self._open.execute("COMMIT")

    def write(self, sql: str, values: Iterable[Any] = ()) -> int:
        """One write; how many rows it touched."""
        with self.change() as write:
            return write.execute(sql, tuple(values)).rowcount

    def close(self) -> None:
        with self._lock:
            self._open.close()

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            raise named(error, self.path, "used") from error
