"""The registry: what a server must remember, in one SQLite file that only its owner can read."""

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import RLock
from typing import Any

from quantide.errors import StorageError

NAME = "registry.db"
VERSION = 2
SCHEMA = """
CREATE TABLE tokens (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, role TEXT NOT NULL, hash BLOB NOT NULL UNIQUE,
    created REAL NOT NULL, expires REAL
);
CREATE TABLE sessions (
    hash BLOB PRIMARY KEY, token TEXT NOT NULL REFERENCES tokens (id) ON DELETE CASCADE, expires REAL NOT NULL
);
CREATE TABLE queries (
    id INTEGER PRIMARY KEY AUTOINCREMENT, stream TEXT NOT NULL, key TEXT NOT NULL, window TEXT NOT NULL,
    filter TEXT, phi REAL NOT NULL, eps REAL, label TEXT, owner TEXT NOT NULL, created REAL NOT NULL,
    idle REAL
);
CREATE INDEX queries_of_labels ON queries (label) WHERE label IS NOT NULL;
CREATE TABLE alarms (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, stream TEXT NOT NULL, key TEXT NOT NULL, window TEXT NOT NULL,
    filter TEXT, phi REAL NOT NULL, eps REAL, above INTEGER NOT NULL, threshold TEXT NOT NULL, clear TEXT NOT NULL,
    hold REAL NOT NULL, webhook TEXT, owner TEXT NOT NULL, created REAL NOT NULL,
    state TEXT NOT NULL, firing INTEGER NOT NULL, since REAL NOT NULL
);
CREATE TABLE transitions (
    number INTEGER PRIMARY KEY AUTOINCREMENT, alarm INTEGER NOT NULL, at REAL NOT NULL, body TEXT NOT NULL
);
CREATE INDEX transitions_of_alarms ON transitions (alarm);
CREATE TABLE deliveries (
    id TEXT PRIMARY KEY, alarm INTEGER NOT NULL, url TEXT NOT NULL, body BLOB NOT NULL, attempts INTEGER NOT NULL,
    due REAL, error TEXT
);
CREATE INDEX deliveries_of_alarms ON deliveries (alarm);
CREATE INDEX deliveries_that_wait ON deliveries (alarm) WHERE due IS NOT NULL;
CREATE TABLE runs (number INTEGER PRIMARY KEY AUTOINCREMENT, began REAL NOT NULL);
"""
OLDER = {1: "ALTER TABLE queries ADD COLUMN idle REAL"}  # what makes the next version of each


class Registry:
    """Rows of a few tables, in a folder of the server's own. Safe to use from several threads and processes.

    What a change() has written is on disk when it returns; when it raises, nothing is.
    """

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, NAME)
        self._lock = RLock()
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            with suppress(FileExistsError):  # closing one that others use would drop the locks SQLite has on it
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            os.chmod(self.path, 0o600)  # it may be older than this rule; the files beside it get the same mode
            self._open = sqlite3.connect(self.path, timeout=3, isolation_level=None, check_same_thread=False)
            self._open.row_factory = sqlite3.Row
            for setting in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
                self._open.execute(f"PRAGMA {setting}")
            self._make()
        except (OSError, sqlite3.Error) as error:
            raise StorageError(f"the registry {self.path} cannot be opened: {error}") from error

    def _make(self) -> None:
        with self.change() as write:
            found = write.execute("PRAGMA user_version").fetchone()[0]
            if found > VERSION:
                raise StorageError(f"the registry {self.path} was made by a newer Quantide; use that, or move it away")
            if found == 0:
                for statement in SCHEMA.split(";"):
                    write.execute(statement)
            for version in range(found or VERSION, VERSION):
                write.execute(OLDER[version])
            if found != VERSION:
                write.execute(f"PRAGMA user_version = {VERSION}")

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
        except sqlite3.Error as error:
            raise StorageError(f"the registry {self.path} cannot be used: {error}") from error
